//! `cargo lab mesh gather`: the time and memory of `mesh gather` for all pairs of many hosts.
//!
//! A mesh of two ranks on loopback gives one real header and one real row; the files of all ranks are copies of them with
//! rates that scatter. One host and one link are slow and must be named.

use std::fs;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, bail, ensure};
use bytegauge_mesh::files::{self, FileHeader, RankFile};
use bytegauge_mesh::{MeshPattern, MeshRow, MeshSettings, Rank, RankHello, SlotPlace};
use bytegauge_model::Bytes;
use bytegauge_stats::rng::{RandomStream, seeded};
use clap::{Arg, ArgMatches, Command, value_parser};
use xtask::product;

use super::peak;

/// The planted slow host, and its share of the typical rate.
const SLOW_HOST: (Rank, f64) = (7, 0.6);

/// `cargo lab mesh gather`.
pub fn command() -> Command {
    let ranks = Arg::new("ranks").long("ranks").value_name("N").value_parser(value_parser!(u32).range(8..=4_096));
    Command::new("gather")
        .about("Measure `mesh gather` on the files of all pairs of many hosts")
        .arg(ranks.default_value("1000").help("Number of hosts"))
}

/// Writes the files and gathers them.
///
/// # Errors
/// When the program does not run, or the slow host is not named.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let ranks = matches.get_one::<u32>("ranks").copied().unwrap_or(1_000);
    let program = product::built()?;
    let folder = tempfile::tempdir().context("making a folder")?;
    let (settings, row) = sample(&program, folder.path())?;
    let out = folder.path().join("all");
    fs::create_dir(&out).context("making a folder")?;
    let rows = write_files(&out, ranks, &settings, &row)?;
    let input = folder_bytes(&out)?;
    let mut child = Process::new(&program)
        .args(["mesh", "gather"])
        .arg(&out)
        .stdout(Stdio::piped())
        .spawn()
        .context("starting bytegauge mesh gather")?;
    let used = peak::wait(&mut child)?;
    let text = std::io::read_to_string(child.stdout.take().context("its output")?)?;
    println!("{text}");
    ensure!(used.status.success(), "bytegauge mesh gather: {}", used.status);
    ensure!(text.contains(&format!("Slow host: node{}", SLOW_HOST.0)), "the slow host is not named");
    let parquet = fs::metadata(out.join("trials.parquet")).map_or(0, |file| file.len());
    println!(
        "{ranks} ranks, {rows} rows, {} of files: gathered in {:.1} s with {} of memory; trials.parquet has {}",
        Bytes(input),
        used.time.as_secs_f64(),
        Bytes(used.memory >> 20 << 20),
        Bytes(parquet >> 20 << 20)
    );
    Ok(())
}

/// The settings and a row of a real mesh of two ranks.
fn sample(program: &Path, folder: &Path) -> Result<(MeshSettings, MeshRow)> {
    let (key, out) = (folder.join("key"), folder.join("sample"));
    let made = Process::new(program).args(["agent", "--init", "--key-file"]).arg(&key).output()?;
    ensure!(made.status.success(), "making a key: {}", String::from_utf8_lossy(&made.stderr));
    let start = |rank: &str| {
        let mut command = Process::new(program);
        command.args(["mesh", "--rank", rank, "--size", "2", "--replicates", "1", "--no-follow-up", "--quiet"]);
        command.args(["--trial-time", "100ms", "--seed", "1", "--key-file"]).arg(&key).arg("--out").arg(&out);
        command.stdout(Stdio::null()).spawn().context("starting bytegauge mesh")
    };
    for mut rank in [start("0")?, start("1")?] {
        let status = rank.wait()?;
        ensure!(status.success(), "bytegauge mesh: {status}");
    }
    let data = files::read(&out)?;
    match data.rows.iter().find(|row| row.rate.is_some()) {
        Some(row) => Ok((data.settings, row.clone())),
        None => bail!("the mesh of two ranks measured nothing: {:?}", data.rows),
    }
}

/// Writes the file of every rank: the number of rows.
fn write_files(dir: &Path, ranks: u32, settings: &MeshSettings, row: &MeshRow) -> Result<usize> {
    let settings = MeshSettings { ranks, pattern: MeshPattern::Pairs, replicates: 1, ..settings.clone() };
    let schedule = settings.schedule();
    let mut by_client: Vec<Vec<SlotPlace>> = vec![Vec::new(); ranks as usize];
    for (id, slot) in schedule.slots() {
        for client in slot.clients {
            by_client[*client as usize].push(SlotPlace::of(id, slot, *client));
        }
    }
    let mut random = seeded(settings.seed, 1);
    let mut count = 0;
    for (rank, places) in by_client.into_iter().enumerate() {
        let rank = rank as Rank;
        let hello = RankHello {
            rank,
            size: ranks,
            program: env!("CARGO_PKG_VERSION").into(),
            host: format!("node{rank}"),
            rack: Some(format!("rack{}", rank / 40)),
            agent: ([192, 0, 2, 1], 4711).into(),
        };
        let (mut file, _) = RankFile::begin(dir, &FileHeader { settings: settings.clone(), hello }, false)?;
        let rows: Vec<MeshRow> = places.into_iter().flat_map(|place| both(place, row, &mut random)).collect();
        count += rows.len();
        file.add(&rows)?;
        file.finish()?;
    }
    Ok(count)
}

/// Both directions of a pair.
fn both(place: SlotPlace, row: &MeshRow, random: &mut RandomStream) -> [MeshRow; 2] {
    [place.client, place.hub].map(|sender| {
        let is_slow = [place.client, place.hub].contains(&SLOW_HOST.0);
        let planted = if is_slow { SLOW_HOST.1 } else { 1.0 };
        let rate = 1e10 * planted * (0.03 * random.normal()).exp();
        let started_unix_ns = row.started_unix_ns + u64::from(place.round) * 1_300_000_000;
        MeshRow { place, sender: Some(sender), rate: Some(rate), started_unix_ns, ..row.clone() }
    })
}

fn folder_bytes(dir: &Path) -> Result<u64> {
    let sizes = fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len()));
    sizes.sum()
}
