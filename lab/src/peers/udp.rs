//! Datagrams one way at full speed, compared with iperf3: only datagrams that arrive count.

use anyhow::{Result, ensure};
use bytegauge_model::EndRole;

use super::arm::{RunPlace, RunResult, seconds, word};
use super::bench::PeerTests;
use super::iperf3::{self, Iperf3};
use super::pairs::{Aim, Measure, Player, Rival, Rivalry, Rivals};

const SIZE_BYTES: u64 = 1000;

const GOODPUT: Aim = Aim { text: "at least as many datagrams arrive as with iperf3", at_least: 1.0 };
const BATCHES: Aim = Aim { text: "many datagrams per call at least equal one per call", at_least: 1.0 };
const SEGMENTS: Aim = Aim { text: "segmentation moves ten times the datagrams of one per call", at_least: 10.0 };

pub const COMPARISON: Rivalry = Rivalry {
    heading: "Datagrams over loopback, compared with iperf3",
    measures: &[Measure::rate("1000 datagrams/s that arrived", |rate| format!("{:.0}", rate / 1e3))],
    pairs,
    arms: &[("iperf3", theirs), ("ours", ours)],
    method: "- UDP, 1000 B a datagram, one flow. iperf3 runs `-u -b 0 -l 1000` with a CPU for each end; ours the engine named, \
             4 MiB asked for as the receive buffer (its default over UDP), a CPU for each end. A coin deals the CPUs.\n\
             - Losses are not rated: the programs are compared by a ratio, and a loss of 0 has none. `bytegauge stream \
             --transport udp` shows bytegauge's losses, by place.\n",
};

fn pairs(bench: &PeerTests) -> Result<Rivals> {
    let length = bench.effort.seconds.to_string();
    let engine =
        |engine: &str| Player::new(&format!("bytegauge {engine}"), "ours", &[length.clone(), engine.to_owned()]);
    let iperf3 = Player::new(&iperf3::version()?, "iperf3", std::slice::from_ref(&length));
    let pair = |theirs: Player, ours: Player, aims| Rival { what: "one flow".into(), theirs, ours, aims };
    let mut pairs = vec![
        pair(iperf3.clone(), engine("plain"), &[Some(GOODPUT)]),
        pair(iperf3, engine("gso"), &[Some(GOODPUT)]),
        pair(engine("plain"), engine("mmsg"), &[Some(BATCHES)]),
        pair(engine("plain"), engine("gso"), &[Some(SEGMENTS)]),
    ];
    pairs.truncate(if bench.effort.quick { 1 } else { pairs.len() });
    Ok(Rivals { pairs, ..Rivals::default() })
}

fn theirs(place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let cpus = place.cpus()?;
    let job = iperf3::Job {
        length: SIZE_BYTES,
        flows: 1,
        cpus: Some((cpus.client, cpus.server)),
        seconds: seconds(words, 0)?,
        omit_seconds: 0,
    };
    let sum = Iperf3::datagrams(&job)?;
    Ok(RunResult::rate(sum.arrived() / sum.seconds))
}

fn ours(place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let (size, length, engine) = (SIZE_BYTES.to_string(), format!("{}s", seconds(words, 0)?), word(words, 1)?);
    let mut args = vec!["stream", "--transport", "udp", "--work", "none", "--write-size", &size, "--engine", engine];
    args.extend(["--placement", "cross-core", "--trial-time", &length, "--blocks", "1"]);
    let session = place.ours.session(&args, None)?;
    let came =
        session.confirmed().find_map(|(_, trial)| Some((*trial.end(EndRole::Sink)?.datagrams.clone()?, trial.wall_ns)));
    let Some((came, wall_ns)) = came else {
        anyhow::bail!("bytegauge measured nothing: {}", session.reasons().join("; "));
    };
    ensure!(wall_ns > 0 && came.datagrams > 0, "nothing arrived");
    Ok(RunResult::rate(came.datagrams as f64 * 1e9 / wall_ns as f64))
}
