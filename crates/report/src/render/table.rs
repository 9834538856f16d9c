//! The rows of a group's table: its confirmed cells, fastest first; before confirmation the best looks.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::cell_text::{
    RateScale, UNKNOWN, calls, cell_rate, failed, interval, level, mean_size, number, of_calls, of_rings, scale, share,
    time,
};
use crate::phrase;
use crate::view::document::{CellView, DatagramView, GroupView};
use crate::view::estimate::{RELAY_SWITCHES, RELAY_SYSTEM_CALLS};
use crate::view::{View, relays};
use bytegauge_model::unit::{count_rate, significant};
use bytegauge_model::{CellId, CellKind, Nanos, Stage};

/// Number of the fastest cells that are shown while none is confirmed.
const LOOKS_MAX: usize = 8;

/// The rows of a table and what was left out.
pub struct Rows<'a> {
    /// The cells, best first.
    pub cells: Vec<&'a CellView>,
    /// How many more there are.
    pub left_out: usize,
    /// The cell that the group recommends.
    recommended: Option<CellId>,
}

impl<'a> Rows<'a> {
    /// The recommended cell, or the first.
    pub fn named(&self) -> Option<&'a CellView> {
        let named = self.cells.iter().find(|cell| self.recommended.as_ref() == Some(&cell.id));
        named.or(self.cells.first()).copied()
    }
}

/// Which cells a group's table shows.
pub fn rows<'a>(view: &'a View, group: &'a GroupView) -> Rows<'a> {
    let candidates = || {
        view.cells_of(&group.id).filter(|cell| {
            cell.kind == CellKind::Candidate
                && cell.trials > 0
                && (cell.estimate.median.is_some() || !cell.more.is_empty())
        })
    };
    let confirmed = candidates().any(|cell| cell.stage == Some(Stage::Confirm));
    let mut cells: Vec<&CellView> =
        candidates().filter(|cell| !confirmed || cell.stage == Some(Stage::Confirm)).collect();
    // Under an offered load all rates are alike: the cheapest first.
    let merit = |cell: &CellView| match group.cost {
        "cpu_ns_per_byte" => -cell.cpu.ends_s_per_gib.unwrap_or(f64::INFINITY),
        "cpu_ns_per_call" => -cell.median("server_cpu_ns_per_call").unwrap_or(f64::INFINITY),
        _ => cell.estimate.median.unwrap_or(0.0),
    };
    cells.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
    // Confirmed cells; screened ones are shown only where none is confirmed.
    let shown = if confirmed { cells.len() } else { LOOKS_MAX };
    let left_out = cells.len().saturating_sub(shown);
    cells.truncate(shown);
    Rows { cells, left_out, recommended: group.recommendation.cell.clone() }
}

/// A column: its heading, whether it is aligned right, and its text.
pub struct Column {
    /// The heading.
    pub heading: String,
    /// Aligned right.
    pub right: bool,
    /// How soon it goes when the terminal is narrow; 0 never.
    pub expendable: u8,
    text: Box<dyn Fn(&CellView) -> String>,
}

impl Column {
    fn new(heading: &str, right: bool, expendable: u8, text: impl Fn(&CellView) -> String + 'static) -> Column {
        Column { heading: heading.into(), right, expendable, text: Box::new(text) }
    }

    /// The text for a cell.
    pub fn text(&self, cell: &CellView) -> String {
        (self.text)(cell)
    }
}

/// The columns of a group's table, without the mark.
pub fn columns(view: &View, group: &GroupView) -> Vec<Column> {
    let levels = group.varied.iter().map(|name| {
        let own = name.clone();
        Column::new(phrase::in_code(name), true, 0, move |cell| level(cell, &own))
    });
    let has_writer = view.cells_of(&group.id).any(|cell| cell.counters.writes.is_some());
    let heading = format!("{:.0} % interval", view.plan.level * 100.0);
    let mut columns: Vec<Column> = levels.collect();
    let scale = scale(view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Candidate));
    if of_calls(group) {
        columns.extend(columns_of_calls(&heading, scale, group.varied.iter().any(|name| name == "rcvbuf")));
        if has_relays(view, group) {
            // Before what limits it.
            let of_relay = [
                Column::new("relay s/M calls", true, 2, relay_cpu),
                Column::new("relay system calls/call", true, 9, |cell| of_relay(cell, RELAY_SYSTEM_CALLS)),
                Column::new("relay switches/call", true, 9, |cell| of_relay(cell, RELAY_SWITCHES)),
            ];
            let limit = columns.pop();
            columns.extend(of_relay.into_iter().chain(limit));
        }
        return columns;
    }
    if view.cells_of(&group.id).any(|cell| cell.datagrams.is_some()) {
        columns.extend(columns_of_datagrams(&heading, scale));
        return columns;
    }
    if of_rings(group) {
        columns.extend(columns_of_rings(&heading, scale));
        return columns;
    }
    columns.push(Column::new("throughput", true, 0, move |cell| cell_rate(cell, scale)));
    columns.push(Column::new(&heading, true, 1, move |cell| interval(&cell.estimate, scale)));
    // Where the reader's size is what it is, the writer's calls are asked about.
    let varies = |name: &str| group.varied.iter().any(|varied| varied == name);
    let of_writer = has_writer && varies("write_size") && !varies("read_size");
    let (soon, late) = if of_writer { (6, 4) } else { (4, 6) };
    columns.push(Column::new("a read", true, soon, |cell| bytes_a_call(cell, "calls_per_second")));
    columns.push(Column::new("reads", true, 6, |cell| calls(cell, "calls_per_second")));
    if has_writer {
        columns.push(Column::new("writes", true, late, writes));
    }
    columns.push(Column::new("short", true, 7, |cell| share(cell.counters.short_read_share)));
    if has_relays(view, group) {
        columns.push(Column::new("relay s/GiB", true, 2, relay_cpu));
        columns.push(Column::new("relay system calls/MiB", true, 9, |cell| of_relay(cell, RELAY_SYSTEM_CALLS)));
        columns.push(Column::new("relay switches/MiB", true, 9, |cell| of_relay(cell, RELAY_SWITCHES)));
        columns.push(Column::new("machine s/GiB", true, 3, |cell| number(cell.cpu.machine_busy_s_per_gib)));
    }
    columns.push(Column::new("CPU s/GiB", true, 3, |cell| number(cell.cpu.ends_s_per_gib)));
    columns.push(Column::new("limited by", false, 2, |cell| phrase::limit(cell.limit.name).to_owned()));
    columns
}

/// The mean size of a call, by the numbers in the same row: less than was asked for where calls are short.
fn bytes_a_call(cell: &CellView, calls: &str) -> String {
    let moved =
        cell.estimate.median.zip(cell.median(calls).filter(|calls| *calls > 0.0)).map(|(rate, calls)| rate / calls);
    moved.map_or_else(|| UNKNOWN.into(), mean_size)
}

/// Writes per second that fit the rate in the same row: the writer's own window may have another number.
fn writes(cell: &CellView) -> String {
    let each = cell.counters.bytes_per_write.filter(|bytes| *bytes > 0.0);
    cell.estimate.median.zip(each).map_or_else(|| UNKNOWN.into(), |(rate, bytes)| count_rate(rate / bytes))
}

fn has_relays(view: &View, group: &GroupView) -> bool {
    view.cells_of(&group.id).any(|cell| relays::cost(cell).is_some())
}

/// The need of a relay for a MiB or for a call.
fn of_relay(cell: &CellView, names: [&str; 2]) -> String {
    number(names.into_iter().find_map(|name| cell.median(name)))
}

fn relay_cpu(cell: &CellView) -> String {
    number(relays::cost(cell).and_then(|cost| cost.median))
}

/// The columns of rings behind the levels.
fn columns_of_rings(interval_heading: &str, scale: RateScale) -> Vec<Column> {
    vec![
        Column::new("rate", true, 0, move |cell| cell_rate(cell, scale)),
        Column::new(interval_heading, true, 1, move |cell| interval(&cell.estimate, scale)),
        Column::new("ns/NOP", true, 3, |cell| number(cell.median("ns_per_nop"))),
        Column::new("CPU ns/NOP", true, 4, |cell| number(cell.median("cpu_ns_per_nop"))),
        Column::new("system calls", true, 5, |cell| calls(cell, "system_calls_per_second")),
        Column::new("limited by", false, 2, |cell| phrase::limit(cell.limit.name).to_owned()),
    ]
}

/// The columns of datagrams behind the levels.
fn columns_of_datagrams(interval_heading: &str, scale: RateScale) -> Vec<Column> {
    let lost = |cell: &CellView| share(cell.datagrams.as_ref().and_then(|datagrams| datagrams.lost_share));
    let per =
        |of: fn(&DatagramView) -> Option<f64>| move |cell: &CellView| number(cell.datagrams.as_ref().and_then(of));
    vec![
        Column::new("goodput", true, 0, move |cell| cell_rate(cell, scale)),
        Column::new(interval_heading, true, 2, move |cell| interval(&cell.estimate, scale)),
        Column::new("datagrams", true, 0, |cell| calls(cell, "datagrams_per_second")),
        Column::new("packets", true, 4, |cell| calls(cell, "packets_per_second")),
        Column::new("lost", true, 0, lost),
        Column::new("a send", true, 7, per(|datagrams| datagrams.datagrams_per_send)),
        Column::new("a receive", true, 6, per(|datagrams| datagrams.datagrams_per_receive)),
        Column::new("CPU s/GiB", true, 5, |cell| number(cell.cpu.ends_s_per_gib)),
        Column::new("limited by", false, 3, |cell| phrase::limit(cell.limit.name).to_owned()),
    ]
}

/// The columns of calls behind the levels. Receive buffers are compared as published tables do, by mean and deviation too.
fn columns_of_calls(interval_heading: &str, scale: RateScale, receive_buffers: bool) -> Vec<Column> {
    let microseconds = |name: &'static str| move |cell: &CellView| number(cell.median(name).map(|ns| ns / 1e3));
    vec![
        Column::new("rate", true, 0, move |cell| cell_rate(cell, scale)),
        Column::new(interval_heading, true, 2, move |cell| interval(&cell.estimate, scale)),
        Column::new("mean ± sd", true, if receive_buffers { 2 } else { 8 }, move |cell| mean_and_sd(cell, scale)),
        Column::new("p50", true, 1, |cell| time(cell, "total_p50_ns")),
        Column::new("p99", true, 1, |cell| time(cell, "total_p99_ns")),
        Column::new("p99.9", true, 6, |cell| time(cell, "total_p99_9_ns")),
        Column::new("client late p99", true, 6, lateness),
        Column::new("server CPU µs/call", true, 4, microseconds("server_cpu_ns_per_call")),
        Column::new("system calls/call", true, 7, |cell| number(cell.median("server_system_calls_per_call"))),
        Column::new("errors", true, 5, failed),
        Column::new("limited by", false, 3, |cell| phrase::limit(cell.limit.name).to_owned()),
    ]
}

/// How late the client itself began calls, at the 99th percentile.
fn lateness(cell: &CellView) -> String {
    let late = cell.call.as_ref().and_then(|call| call.lateness.as_ref());
    late.map_or_else(|| UNKNOWN.into(), |late| Nanos(late.p99_ns as u64).to_string())
}

/// Mean and standard deviation over the trials in the unit of the rate, as older benchmarks report them.
fn mean_and_sd(cell: &CellView, (unit, _): RateScale) -> String {
    let Some((mean, sd)) = cell.call.as_ref().and_then(|call| call.mean_per_second.zip(call.sd_per_second)) else {
        return UNKNOWN.into();
    };
    format!("{} ± {}", significant(mean / unit, 3), significant(sd / unit, 2))
}

/// The table as lines of equal width, heading first, no wider than `width` where dropping columns can help.
pub fn lines(rows: &Rows, mut columns: Vec<Column>, width: usize) -> Vec<String> {
    // A column without a single entry tells nothing.
    let tells = |text: String| !text.is_empty() && text != UNKNOWN;
    columns.retain(|column| column.expendable == 0 || rows.cells.iter().any(|cell| tells(column.text(cell))));
    loop {
        let lines = draw(rows, &columns);
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let most = columns.iter().map(|column| column.expendable).max().unwrap_or(0);
        if widest <= width || most == 0 {
            return lines;
        }
        columns.retain(|column| column.expendable != most);
    }
}

fn draw(rows: &Rows, columns: &[Column]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| column.heading.clone()));
    for cell in &rows.cells {
        table.add_row(columns.iter().map(|column| column.text(cell)));
    }
    for (index, column) in columns.iter().enumerate() {
        if let (true, Some(drawn)) = (column.right, table.column_mut(index)) {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}
