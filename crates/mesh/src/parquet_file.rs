//! Writes the rows of a mesh as Parquet, for DuckDB, Polars or Spark: `trials.parquet` and `hosts.parquet`.
//!
//! `trials.parquet` has one row per trial, and one per test that was not measured, with the hosts and racks of both
//! ends, the levels of the option, and the numbers. All columns are optional: an absent number is null.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytegauge_model::factor::FACTORS;
use bytegauge_model::{Level, Spec};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::Rank;
use crate::files::MeshData;
use crate::message::RankHello;
use crate::row::MeshRow;
use crate::settings::MeshSettings;
use bytegauge_sys::new_file::create_fresh;

/// Rows of a row group: about 100 MB in memory while it is written.
const GROUP_ROWS: usize = 1 << 18;

/// A column of `T`: its name, and its value in a row.
type ParquetColumn<'a, T> = (String, ParquetValue<'a, T>);

/// The value of a column in a row.
type ValueOf<'a, T, V> = Box<dyn Fn(&T) -> Option<V> + 'a>;

/// How a column gets its values.
enum ParquetValue<'a, T> {
    Integer(ValueOf<'a, T, i64>),
    Real(ValueOf<'a, T, f64>),
    Text(ValueOf<'a, T, ByteArray>),
}

/// Writes `trials.parquet` and `hosts.parquet` into a directory: their paths.
///
/// # Errors
/// [`ParquetError`] if a file cannot be written.
pub fn write(data: &MeshData, dir: &Path) -> Result<[PathBuf; 2], ParquetError> {
    let (trials, hosts) = (dir.join("trials.parquet"), dir.join("hosts.parquet"));
    write_file(&trials, &data.rows, &trial_columns(data))?;
    let all: Vec<RankHello> = data.hosts.values().cloned().collect();
    write_file(&hosts, &all, &host_columns())?;
    Ok([trials, hosts])
}

fn integer<'a, T>(name: &str, value: impl Fn(&T) -> Option<u64> + 'a) -> ParquetColumn<'a, T> {
    let value = Box::new(move |row: &T| value(row).map(|number| i64::try_from(number).unwrap_or(i64::MAX)));
    (name.to_owned(), ParquetValue::Integer(value))
}

fn real<'a, T>(name: &str, value: impl Fn(&T) -> Option<f64> + 'a) -> ParquetColumn<'a, T> {
    (name.to_owned(), ParquetValue::Real(Box::new(value)))
}

fn text<'a, T>(name: &str, value: impl Fn(&T) -> Option<String> + 'a) -> ParquetColumn<'a, T> {
    let value = Box::new(move |row: &T| value(row).map(|text| ByteArray::from(text.into_bytes())));
    (name.to_owned(), ParquetValue::Text(value))
}

fn trial_columns(data: &MeshData) -> Vec<ParquetColumn<'_, MeshRow>> {
    let host = move |rank: Option<Rank>| data.host(rank?).map(str::to_owned);
    let rack =
        move |rank: Option<Rank>| rank.and_then(|rank| data.hosts.get(&rank)).and_then(|hello| hello.rack.clone());
    let rank = |rank: Option<Rank>| rank.map(u64::from);
    let mut columns = vec![
        integer("replicate", |row: &MeshRow| Some(row.place.replicate.into())),
        integer("round", |row: &MeshRow| Some(row.place.round.into())),
        integer("slot", |row: &MeshRow| Some(row.place.slot.into())),
        integer("hub", |row: &MeshRow| Some(row.place.hub.into())),
        integer("client", |row: &MeshRow| Some(row.place.client.into())),
        integer("clients", |row: &MeshRow| Some(row.place.clients.into())),
        integer("sender", move |row: &MeshRow| rank(row.sender)),
        integer("receiver", move |row: &MeshRow| rank(row.receiver())),
        text("sender_host", move |row: &MeshRow| host(row.sender)),
        text("receiver_host", move |row: &MeshRow| host(row.receiver())),
        text("sender_rack", move |row: &MeshRow| rack(row.sender)),
        text("receiver_rack", move |row: &MeshRow| rack(row.receiver())),
        text("outcome", |row: &MeshRow| Some(row.outcome.tag().to_owned())),
        text("reason", |row: &MeshRow| row.outcome.reason().map(str::to_owned)),
        integer("started_unix_ns", |row: &MeshRow| Some(row.started_unix_ns)),
        integer("window_ns", |row: &MeshRow| row.rate.map(|_| row.window_ns)),
        integer("bytes", |row: &MeshRow| row.rate.map(|_| row.bytes)),
        integer("calls", |row: &MeshRow| row.rate.map(|_| row.calls)),
        real("rate", |row: &MeshRow| row.rate),
        integer("sender_cpu_ns", |row: &MeshRow| row.sender_cpu_ns),
        integer("receiver_cpu_ns", |row: &MeshRow| row.receiver_cpu_ns),
        integer("retransmits", |row: &MeshRow| row.retransmits),
        integer("min_rtt_us", |row: &MeshRow| row.min_rtt_us),
        integer("rwnd_limited_us", |row: &MeshRow| row.rwnd_limited_us),
        integer("sndbuf_limited_us", |row: &MeshRow| row.sndbuf_limited_us),
        integer("lost", |row: &MeshRow| row.lost),
        real("load_rate", |row: &MeshRow| row.load_rate),
        text("latency_histogram", |row: &MeshRow| row.latency.clone()),
        text("entered_histogram", |row: &MeshRow| row.entered.clone()),
        text("left_histogram", |row: &MeshRow| row.left.clone()),
    ];
    columns.extend(level_columns(data));
    columns
}

/// A column for each factor that options state; hosts and directions of rows are in other columns.
fn level_columns(data: &MeshData) -> Vec<ParquetColumn<'_, MeshRow>> {
    let settings = &data.settings;
    let levels: Vec<Option<&Spec>> = (0..settings.options.len())
        .map(|at| settings.cells.iter().find(|cell| cell.option as usize == at).map(|cell| &cell.cell.factors))
        .collect();
    let level = |levels: &Spec, name: &str| {
        Some(levels.get(name)).filter(|level| *level != Level::Absent && MeshSettings::distinguishes(name, levels))
    };
    let is_stated = |name: &str| levels.iter().flatten().any(|levels| level(levels, name).is_some());
    FACTORS
        .iter()
        .map(|factor| factor.name)
        .filter(|name| is_stated(name))
        .map(|name| {
            let of_option: Vec<Option<String>> =
                levels.iter().map(|levels| Some(level((*levels)?, name)?.to_string())).collect();
            text(&format!("option_{name}"), move |row: &MeshRow| of_option.get(row.option? as usize).cloned().flatten())
        })
        .collect()
}

fn host_columns() -> Vec<ParquetColumn<'static, RankHello>> {
    vec![
        integer("rank", |hello: &RankHello| Some(hello.rank.into())),
        text("host", |hello: &RankHello| Some(hello.host.clone())),
        text("rack", |hello: &RankHello| hello.rack.clone()),
        text("agent", |hello: &RankHello| Some(hello.agent.to_string())),
        text("program", |hello: &RankHello| Some(hello.program.clone())),
    ]
}

/// Writes rows, under another name until the file is whole.
fn write_file<T>(path: &Path, rows: &[T], columns: &[ParquetColumn<'_, T>]) -> Result<(), ParquetError> {
    let kind = |(name, value): &ParquetColumn<'_, T>| match value {
        ParquetValue::Integer(_) => format!("optional int64 {name};"),
        ParquetValue::Real(_) => format!("optional double {name};"),
        ParquetValue::Text(_) => format!("optional binary {name} (UTF8);"),
    };
    let fields: Vec<String> = columns.iter().map(kind).collect();
    let schema = Arc::new(parse_message_type(&format!("message mesh {{ {} }}", fields.join(" ")))?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let fresh = path.with_extension("parquet.part");
    let mut writer = SerializedFileWriter::new(create_fresh(&fresh)?, schema, properties)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        for (_, value) in columns {
            let Some(mut out) = group.next_column()? else { break };
            match value {
                ParquetValue::Integer(value) => write_column(out.typed::<Int64Type>(), rows, value)?,
                ParquetValue::Real(value) => write_column(out.typed::<DoubleType>(), rows, value)?,
                ParquetValue::Text(value) => write_column(out.typed::<ByteArrayType>(), rows, value)?,
            }
            out.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    fs::rename(&fresh, path)?;
    Ok(())
}

/// Writes the values that are there, and for each row whether it has one (the definition level of an optional column).
fn write_column<T, D: DataType>(
    out: &mut ColumnWriterImpl<'_, D>,
    rows: &[T],
    value: impl Fn(&T) -> Option<D::T>,
) -> Result<(), ParquetError> {
    let all: Vec<Option<D::T>> = rows.iter().map(value).collect();
    let present: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<D::T> = all.into_iter().flatten().collect();
    out.write_batch(&values, Some(&present), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytegauge_model::Outcome;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::row::SlotPlace;
    use crate::settings::MeshSettings;

    fn data(rows: u32) -> MeshData {
        let settings = MeshSettings { replicates: rows, ..MeshSettings::of_pairs(2) };
        let hello = |rank: Rank| RankHello {
            rank,
            size: 2,
            program: "0".into(),
            host: format!("node{rank}"),
            rack: None,
            agent: ([192, 0, 2, 1], 1).into(),
        };
        let row = |slot: u32| {
            let place = SlotPlace { replicate: slot, round: slot, slot, hub: 0, client: 1, clients: 1 };
            let row = MeshRow::without_numbers(place, Outcome::Measured, 7);
            MeshRow { option: Some(0), sender: Some(1), rate: Some(f64::from(slot)), ..row }
        };
        let hosts: BTreeMap<Rank, RankHello> = (0..2).map(|rank| (rank, hello(rank))).collect();
        let mut rows: Vec<MeshRow> = (0..rows).map(row).collect();
        rows[0] = MeshRow { rate: None, outcome: Outcome::Failed("planted".into()), ..rows[0].clone() };
        MeshData { settings, hosts, unfinished: Vec::new(), rows }
    }

    #[test]
    fn rows_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let [trials, hosts] = write(&data(5), dir.path()).unwrap();
        let rows = |path: &Path| -> Vec<String> {
            let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
        };
        let trials = rows(&trials);
        assert_eq!((trials.len(), rows(&hosts).len()), (5, 2));
        assert!(trials[0].contains("planted") && trials[0].contains("rate: null"), "{}", trials[0]);
        assert!(trials[4].contains("rate: 4") && trials[4].contains("sender_host: \"node1\""), "{}", trials[4]);
    }
}
