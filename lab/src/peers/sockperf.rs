//! Ping-pong on one connection, compared with Debian's sockperf: a message there and back, then the next.
//!
//! Each program brings both of its ends, since sockperf's messages carry a header that its server modifies.

use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::arm::{GRACE_SECONDS, RunPlace, RunResult, seconds, word};
use super::bench::PeerTests;
use super::calls;
use super::pairs::{Measure, Player, Rival, Rivalry, Rivals};
use super::process::{self, ServerProcess};

/// Bytes of a message, both ways.
const MESSAGE_BYTES: &str = "512";

/// Time that sockperf leaves out at both ends of a run, seconds: half of it warms up.
const WARMUP_SECONDS: u64 = 1;

pub const COMPARISON: Rivalry = Rivalry {
    heading: "Ping-pong, compared with sockperf",
    measures: &[
        Measure::rate("1000 messages/s", |rate| format!("{:.1}", rate / 1e3)),
        Measure::cost("99th percentile of a round trip, µs", |cost_s| format!("{:.1}", cost_s * 1e6)),
    ],
    pairs,
    arms: &[("sockperf", theirs), ("ours", ours)],
    method: "- One connection or one socket, 512 B there and back, then the next. Each program brings its own server and client, \
             on a CPU each that a coin deals in every run; sockperf's block in a receive, ours carry both ends by the engine \
             named. Each program measures its own round trips: both read the clock before the send and after the \
             receive.\n",
};

fn pairs(bench: &PeerTests) -> Result<Rivals> {
    // One datagram at a time leaves nothing to an engine that moves many.
    let all = [("tcp", "blocking"), ("tcp", "epoll"), ("tcp", "uring:multishot"), ("udp", "plain")];
    let pair = |(speech, engine): &(&str, &str)| {
        let seconds = bench.effort.seconds.to_string();
        Rival {
            what: (*speech).to_owned(),
            theirs: Player::new("sockperf", "sockperf", &[(*speech).to_owned(), seconds.clone()]),
            ours: Player::new(
                &format!("bytegauge {engine}"),
                "ours",
                &[(*speech).to_owned(), seconds, (*engine).to_owned()],
            ),
            aims: &[None, None],
        }
    };
    let pairs = all.iter().take(if bench.effort.quick { 1 } else { all.len() }).map(pair).collect();
    Ok(Rivals { pairs, ..Rivals::default() })
}

fn theirs(place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let cpus = place.cpus()?;
    let seconds = seconds(words, 1)? + WARMUP_SECONDS;
    let port = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?.local_addr()?.port().to_string();
    let mut there = vec!["--ip", "127.0.0.1", "--port", &port];
    if word(words, 0)? == "tcp" {
        there.push("--tcp");
    }
    let mut server = Command::new("sockperf");
    let _running = ServerProcess::start(server.arg("server").args(&there), Some(cpus.server), "to block on socket")?;
    let mut client = process::bounded("sockperf", seconds + GRACE_SECONDS);
    client.arg("ping-pong").args(&there).args(["--full-rtt", "--msg-size", MESSAGE_BYTES]);
    client.args(["--time", &seconds.to_string()]);
    let output = process::output(&mut client, Some(cpus.client))?;
    let summary = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "sockperf: {}: {}", output.status, summary.trim());
    of_sockperf(&summary).with_context(|| format!("sockperf printed: {}", summary.trim()))
}

/// The numbers of sockperf's summary: `name=value` and `name = value`.
fn of_sockperf(summary: &str) -> Option<RunResult> {
    let valid = summary.lines().find(|line| line.contains("[Valid Duration]"))?;
    let number = |text: &str, name: &str| -> Option<f64> {
        let rest = text.split(name).nth(1)?.trim_start().strip_prefix('=')?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    Some(RunResult {
        rate: number(valid, "ReceivedMessages")? / number(valid, "RunTime")?,
        cost_s: Some(number(summary, "percentile 99.000")? / 1e6),
    })
}

fn ours(place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let (length, engine) = (format!("{}s", seconds(words, 1)?), word(words, 2)?);
    let mut args = vec!["call", "--flows", "1", "--request", MESSAGE_BYTES, "--client-engine", engine];
    args.extend(["--trial-time", &length, "--blocks", "1"]);
    let rate = if word(words, 0)? == "tcp" {
        let cpus = place.cpus()?;
        let server = calls::serve(place, &format!("ours:{engine}"), cpus.server)?;
        args.extend(["--connect", server.place()]);
        place.ours.session(&args, Some(cpus.client))?.rate()?
    } else {
        // Both ends in one program, which assigns the CPUs itself.
        args.extend(["--transport", "udp", "--work", "none", "--server-engine", engine, "--placement", "cross-core"]);
        place.ours.session(&args, None)?.rate()?
    };
    let report = place.ours.latest()?;
    let cell = report["cells"].as_array().into_iter().flatten().find(|cell| cell["kind"] == "candidate");
    let p99_ns = cell.and_then(|cell| cell["more"]["total_p99_ns"]["median"].as_f64());
    Ok(RunResult { rate, cost_s: Some(p99_ns.context("bytegauge reports no total_p99_ns")? / 1e9) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_sockperf_is_read() {
        let summary = "sockperf: [Total Run] RunTime=1.001 sec; SentMessages=36310; ReceivedMessages=36309\n\
                    sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages=16560; ReceivedMessages=16560\n\
                    sockperf: [2;35m====> avg-rtt=31.981 (std-dev=175.630)[0m\n\
                    sockperf: ---> percentile 99.000 =  110.293\nsockperf: ---> percentile 50.000 =   18.597\n";
        let found = of_sockperf(summary).unwrap();
        assert_eq!((found.rate, found.cost_s), (33_120.0, Some(110.293 / 1e6)));
        assert!(of_sockperf("sockperf: ERROR: connection refused").is_none());
    }
}
