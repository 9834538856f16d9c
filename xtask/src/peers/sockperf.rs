//! Ping-pong on one connection beside Debian's sockperf: a message there and back, then the next.
//!
//! Each program brings both of its ends, since sockperf's messages carry a header that its server turns round.

use std::fmt;
use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bytegauge_stats::quantile::median;
use bytegauge_stats::rng::Stream;

use super::bench::{Bench, Cpus};
use super::compare::{interval, ratio, thousands};
use super::echo::EchoServer;
use super::machine;
use super::process::{self, Server};
use crate::markdown::table;

/// Bytes of a message, both ways.
pub const MESSAGE_BYTES: u64 = 512;

/// Engines of ours, at both ends.
const ENGINES: &[&str] = &["blocking", "epoll", "uring:multishot"];

/// What sockperf leaves out at both ends of a run, seconds: half of it warms up.
const WARMUP_SECONDS: u64 = 1;
/// What a run may take beside that.
const GRACE_SECONDS: u64 = 30;

/// What the two ends speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// A TCP connection.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Who sends and waits.
pub enum Player {
    /// Debian's sockperf.
    Sockperf,
    /// Both ends ours, on one engine.
    Ours(&'static str),
}

/// What one run found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    per_second: f64,
    mean_us: f64,
    median_us: f64,
    p99_us: f64,
}

impl fmt::Display for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Player::Sockperf => f.write_str("sockperf"),
            Player::Ours(engine) => write!(f, "bytegauge {engine}"),
        }
    }
}

/// Compares, and makes the document's part.
///
/// # Errors
/// When a run fails.
pub fn compared(bench: &Bench, random: &mut Stream) -> Result<String> {
    let mut players = vec![Player::Sockperf];
    players.extend(ENGINES.iter().map(|engine| Player::Ours(engine)));
    let mut left_out = String::new();
    let cpus = bench.cpus(random)?;
    players.retain(|player| match played(bench, player, Speech::Tcp, cpus, 1) {
        Ok(_) => true,
        Err(error) => {
            left_out.push_str(&format!("Left out: {player}: {error:#}.\n"));
            false
        }
    });
    ensure!(matches!(players.first(), Some(Player::Sockperf)) && players.len() > 1, "{left_out}");
    let found = bench.rounds(bench.effort.rounds, &players, random, |player, cpus, seed| {
        played(bench, player, Speech::Tcp, cpus, seed)
    })?;
    let part = panel(&players, &found);
    println!("{part}");
    let line = machine::line(&bench.ours.environment()?, &bench.topology);
    Ok(format!("{}{part}\n{left_out}\n{line}\n\n{}", head(bench), method(bench)))
}

/// One run.
///
/// # Errors
/// With what the program said.
pub fn played(bench: &Bench, player: &Player, speech: Speech, cpus: Cpus, seed: u64) -> Result<Found> {
    match (player, speech) {
        (Player::Sockperf, _) => sockperf(bench.effort.seconds, speech, cpus),
        (Player::Ours(engine), Speech::Tcp) => ours(bench, engine, cpus, seed),
        (Player::Ours(engine), Speech::Udp) => ours_by_datagrams(bench, engine, seed),
    }
}

fn sockperf(seconds: u64, speech: Speech, cpus: Cpus) -> Result<Found> {
    let port = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?.local_addr()?.port().to_string();
    let mut place = vec!["--ip", "127.0.0.1", "--port", &port];
    if speech == Speech::Tcp {
        place.push("--tcp");
    }
    let mut server = Command::new("sockperf");
    let _running = Server::start(server.arg("server").args(&place), cpus.server, "to block on socket")?;
    let mut client = process::bounded("sockperf", seconds + WARMUP_SECONDS + GRACE_SECONDS);
    client.arg("ping-pong").args(&place).args(["--full-rtt", "--msg-size", &MESSAGE_BYTES.to_string()]);
    client.args(["--time", &(seconds + WARMUP_SECONDS).to_string()]);
    let output = process::output(&mut client, Some(cpus.client))?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "sockperf: {}: {}", output.status, said.trim());
    of_sockperf(&said).with_context(|| format!("sockperf said: {}", said.trim()))
}

/// The numbers of sockperf's summary: `name=value` and `name = value`.
fn of_sockperf(said: &str) -> Option<Found> {
    let valid = said.lines().find(|line| line.contains("[Valid Duration]"))?;
    let number = |text: &str, name: &str| -> Option<f64> {
        let rest = text.split(name).nth(1)?.trim_start().strip_prefix('=')?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    Some(Found {
        per_second: number(valid, "ReceivedMessages")? / number(valid, "RunTime")?,
        mean_us: number(said, "avg-rtt")?,
        median_us: number(said, "percentile 50.000")?,
        p99_us: number(said, "percentile 99.000")?,
    })
}

fn ours(bench: &Bench, engine: &str, cpus: Cpus, seed: u64) -> Result<Found> {
    let running = EchoServer::ours(bench, engine).start(cpus.server)?;
    let (request, seconds, seed) = (MESSAGE_BYTES.to_string(), format!("{}s", bench.effort.seconds), seed.to_string());
    let mut args = vec!["call", "--connect", running.place(), "--flows", "1", "--request", &request];
    args.extend(["--client-engine", engine, "--duration", &seconds, "--blocks", "1", "--seed", &seed]);
    let per_second = bench.ours.session(&args, Some(cpus.client))?.rate()?;
    reported(bench, per_second)
}

/// Both ends in one program, which deals the CPUs itself.
fn ours_by_datagrams(bench: &Bench, engine: &str, seed: u64) -> Result<Found> {
    let (request, seconds, seed) = (MESSAGE_BYTES.to_string(), format!("{}s", bench.effort.seconds), seed.to_string());
    let mut args = vec!["call", "--transport", "udp", "--work", "none", "--flows", "1", "--request", &request];
    args.extend(["--server-engine", engine, "--client-engine", engine, "--placement", "cross-core"]);
    args.extend(["--duration", &seconds, "--blocks", "1", "--seed", &seed]);
    let per_second = bench.ours.session(&args, None)?.rate()?;
    reported(bench, per_second)
}

/// The round trips of the latest session.
fn reported(bench: &Bench, per_second: f64) -> Result<Found> {
    let report = bench.ours.latest()?;
    let cell = report["cells"].as_array().into_iter().flatten().find(|cell| cell["kind"] == "candidate");
    let cell = cell.context("bytegauge reports no cell")?;
    let us = |name: &str| -> Result<f64> {
        let ns = cell["more"][name]["median"].as_f64();
        Ok(ns.with_context(|| format!("bytegauge reports no {name}"))? / 1000.0)
    };
    Ok(Found { per_second, mean_us: us("total_mean_ns")?, median_us: us("total_p50_ns")?, p99_us: us("total_p99_ns")? })
}

/// The programs side by side; the first is the one that the others are compared with.
pub fn panel(players: &[Player], found: &[Vec<Found>]) -> String {
    let column = |runs: &[Found], read: fn(&Found) -> f64| runs.iter().map(read).collect::<Vec<f64>>();
    let theirs = found.first().map(|runs| column(runs, |run| run.per_second)).unwrap_or_default();
    let middle = |runs: &[Found], read: fn(&Found) -> f64| {
        median(&column(runs, read)).map(|us| format!("{us:.1}")).unwrap_or_default()
    };
    let rows = players.iter().zip(found).map(|(player, runs)| {
        let rates = column(runs, |run| run.per_second);
        vec![
            player.to_string(),
            thousands(&rates),
            interval(&ratio(&rates, &theirs)),
            middle(runs, |run| run.mean_us),
            middle(runs, |run| run.median_us),
            middle(runs, |run| run.p99_us),
        ]
    });
    let headings = [
        "program",
        "1000 messages/s",
        "over sockperf (95 %)",
        "round trip, mean µs",
        "median µs",
        "99th percentile µs",
    ];
    table(&headings, rows)
}

fn head(bench: &Bench) -> String {
    format!(
        "## Ping-pong, beside sockperf\n\nMade by `cargo xtask peers sockperf {} --seed {}` on {}. One TCP connection, \
         {MESSAGE_BYTES} B there and back, then the next. Above 1, bytegauge is faster.\n\n",
        bench.effort.flags(),
        bench.seed,
        bench.date
    )
}

fn method(bench: &Bench) -> String {
    format!(
        "- Each program brings its own server and client, on a CPU each that a coin deals every round; sockperf's block \
         in a receive, ours carry both ends by the engine named.\n\
         - {} rounds of {} s a program in random order. Round trips are medians over rounds of what each program says \
         of its own: both read the clock before the send and after the receive.\n",
        bench.effort.rounds, bench.effort.seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sockperf_says() {
        let said = "sockperf: [Total Run] RunTime=1.001 sec; SentMessages=36310; ReceivedMessages=36309\n\
                    sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages=16560; ReceivedMessages=16560\n\
                    sockperf: [2;35m====> avg-rtt=31.981 (std-dev=175.630)[0m\n\
                    sockperf: ---> percentile 99.000 =  110.293\nsockperf: ---> percentile 50.000 =   18.597\n";
        let expected = Found { per_second: 33_120.0, mean_us: 31.981, median_us: 18.597, p99_us: 110.293 };
        assert_eq!(of_sockperf(said), Some(expected));
        assert_eq!(of_sockperf("sockperf: ERROR: connection refused"), None);
    }
}
