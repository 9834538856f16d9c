//! bytegauge's TCP stream to an agent on another host against iperf3's to its server there, over the same cable.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use bytegauge_model::Bytes;
use bytegauge_model::unit::counted;

use super::CONGESTION;
use super::arm::{RunPlace, RunResult, seconds, word};
use super::bench::PeerTests;
use super::compare::Aim;
use super::iperf3::{self, Iperf3};
use super::pairs::{Measure, Player, Rival, Rivalry, Rivals};
use super::process::{self, ServerProcess};
use super::two_hosts::{FAR, Hosts, TwoHosts};
use xtask::setup;

pub const COMPARISON: Rivalry = Rivalry {
    heading: "TCP between two hosts, compared with iperf3",
    measures: &[Measure::rate("GiB/s", |rate| format!("{:.2}", rate / f64::from(1 << 30)))],
    pairs,
    arms: &[("iperf3", theirs), ("ours", ours)],
    method: "- The hosts are network namespaces, joined by one veth pair that stays. On the far one a bytegauge agent, or \
         iperf3's server, is started for every run. bytegauge sends its commands over an encrypted line, and the stream in the clear, as \
             iperf3 does. Nothing is pinned.\n\
             - Both use the congestion control cubic, without zero-copy, and discard the data. A rate is what the receiver \
             counted. iperf3 before 3.16 serves all flows with one thread an end, bytegauge has a thread a flow at each end.\n",
};

const AIM: Aim = Aim { text: "bytegauge moves at least 0.97 of iperf3's rate", at_least: 0.97 };

/// Flows, and bytes of a read and of a write. The first is the smoke's. 128 KiB is iperf3's own choice.
const SETTINGS: &[(u64, u64)] = &[(1, 128 << 10), (1, 1 << 20), (2, 128 << 10), (4, 128 << 10), (8, 128 << 10)];

/// Checks that iperf3 and two hosts are available; the reason if they are not.
pub fn prepare() -> Result<(), String> {
    setup::package("iperf3", "iperf3")?;
    super::two_hosts::prepare()
}

fn pairs(bench: &PeerTests) -> Result<Rivals> {
    let version = iperf3::version()?;
    let made = TwoHosts::new()?;
    let settings = SETTINGS.iter().take(if bench.effort.quick { 1 } else { SETTINGS.len() });
    let pair = |(flows, length): &(u64, u64)| {
        let [near, far] = made.hosts.words();
        let words = [flows.to_string(), length.to_string(), bench.effort.seconds.to_string(), near, far];
        Rival {
            what: format!("{}, {}", counted(*flows as usize, "flow"), Bytes(*length)),
            theirs: Player::new(&version, "iperf3", &words),
            ours: Player::new("bytegauge", "ours", &words),
            aims: &[Some(AIM)],
        }
    };
    let pairs = settings.map(pair).collect();
    Ok(Rivals { pairs, left_out: Vec::new(), held: Some(made) })
}

fn theirs(_place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let iperf3 = Iperf3 { congestion: CONGESTION.into() };
    let job = iperf3::Job {
        flows: word(words, 0)?.parse().context("a number of flows")?,
        length: word(words, 1)?.parse().context("a length")?,
        seconds: seconds(words, 2)?,
        hosts: Some(Hosts::of(words, 3)?),
        omit_seconds: 1,
        cpus: None,
    };
    Ok(RunResult::rate(iperf3.rate(&job)?))
}

fn ours(place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let (flows, size, hosts) = (word(words, 0)?, word(words, 1)?, Hosts::of(words, 3)?);
    let length = format!("{}s", seconds(words, 2)?);
    let (program, key) = (place.ours.program().to_owned(), place.ours.file("key"));
    let made = process::output(Command::new(&program).args(["agent", "--init", "--key-file"]).arg(&key), None)?;
    ensure!(made.status.success(), "bytegauge agent --init: {}", String::from_utf8_lossy(&made.stderr).trim());
    let far = hosts.far();
    let mut agent = Command::new(&far[0]);
    agent.args(&far[1..]).arg(&program).args(["agent", "--listen", &format!("{FAR}:0"), "--key-file"]).arg(&key);
    let agent = ServerProcess::start(&mut agent, None, "listening on")?;
    let key = key.to_str().context("a folder whose name is text")?;
    let mut args = vec!["stream", "--host", agent.place(), "--key-file", key, "--profile", "drain"];
    args.extend(["--read-size", size, "--write-size", size, "--flows", flows, "--congestion", CONGESTION]);
    args.extend(["--trial-time", &length, "--blocks", "1"]);
    place.ours.run_behind(hosts.near());
    Ok(RunResult::rate(place.ours.session(&args, None)?.rate()?))
}
