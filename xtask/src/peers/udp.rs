//! Datagrams one way beside iperf3's, and ping-pong of datagrams beside sockperf's.
//!
//! What counts is what arrived, and what was lost stands beside it.

use std::cmp::Ordering;
use std::fmt;

use anyhow::{Context, Result, ensure};
use bytegauge_model::EndRole;
use bytegauge_stats::interval::{Estimate, sign_interval};
use bytegauge_stats::quantile::median;
use bytegauge_stats::rng::Stream;

use super::bench::{Bench, Cpus};
use super::compare::{Aim, interval, ratio};
use super::iperf3::{self, Iperf3};
use super::machine;
use super::sockperf::{self, Found, Player, Speech};
use crate::markdown::table;
use crate::setup;

const SIZE_BYTES: u64 = 1000;

/// Engines of ours.
const ENGINES: &[&str] = &["plain", "mmsg", "gso"];

const BATCHES: Aim = Aim { text: "many datagrams a call at least equal one a call", at_least: 1.0 };
const SEGMENTS: Aim = Aim { text: "segmentation brings ten times the datagrams of one a call", at_least: 10.0 };
const GOODPUT: Aim = Aim { text: "more goodput than iperf3's", at_least: 1.0 };

/// The share of what was sent that may be lost.
const LOST_MAX: f64 = 0.01;

/// Who sends datagrams one way.
enum Sender {
    Iperf3,
    Ours(&'static str),
}

/// What arrived in one run, and the share that did not.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    per_second: f64,
    lost_share: f64,
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sender::Iperf3 => f.write_str("iperf3"),
            Sender::Ours(engine) => write!(f, "bytegauge {engine}"),
        }
    }
}

/// Installs both peers.
///
/// # Errors
/// Why one cannot be had.
pub fn prepare() -> Result<(), String> {
    setup::package("iperf3", "iperf3")?;
    setup::package("sockperf", "sockperf")
}

/// Compares, and makes the document's part.
///
/// # Errors
/// When a run fails.
pub fn compared(bench: &Bench, random: &mut Stream) -> Result<String> {
    let mut senders = vec![Sender::Iperf3];
    senders.extend(ENGINES.iter().map(|engine| Sender::Ours(engine)));
    let one_way = bench.rounds(bench.effort.rounds, &senders, random, |sender, cpus, seed| match sender {
        Sender::Iperf3 => iperf3(bench, cpus),
        Sender::Ours(engine) => ours(bench, engine, seed),
    })?;
    let part = one_way_part(&senders, &one_way);
    println!("{part}");
    // One datagram at a time leaves nothing to an engine that moves many.
    let players = [Player::Sockperf, Player::Ours("plain")];
    let back: Vec<Vec<Found>> = bench.rounds(bench.effort.rounds, &players, random, |player, cpus, seed| {
        sockperf::played(bench, player, Speech::Udp, cpus, seed)
    })?;
    let ping_pong = sockperf::panel(&players, &back);
    println!("{ping_pong}");
    let line = machine::line(&bench.ours.environment()?, &bench.topology);
    Ok(format!(
        "{}{part}\n### Ping-pong\n\nOne socket, {} B there and back, then the next.\n\n{ping_pong}\n{line}\n\n{}",
        head(bench)?,
        sockperf::MESSAGE_BYTES,
        method(bench)
    ))
}

fn iperf3(bench: &Bench, cpus: Cpus) -> Result<Arrived> {
    let job = iperf3::Job {
        length: SIZE_BYTES,
        flows: 1,
        cpus: Some((cpus.client, cpus.server)),
        seconds: bench.effort.seconds,
        omit_seconds: 0,
    };
    let sum = Iperf3::datagrams(&job)?;
    Ok(Arrived { per_second: sum.arrived() / sum.seconds, lost_share: sum.lost_share() })
}

fn ours(bench: &Bench, engine: &str, seed: u64) -> Result<Arrived> {
    let (size, seconds, seed) = (SIZE_BYTES.to_string(), format!("{}s", bench.effort.seconds), seed.to_string());
    let mut args = vec!["stream", "--transport", "udp", "--work", "none", "--write-size", &size, "--engine", engine];
    args.extend(["--placement", "cross-core", "--duration", &seconds, "--blocks", "1", "--seed", &seed]);
    let session = bench.ours.session(&args, None)?;
    let (_, trial) = session
        .confirmed()
        .next()
        .with_context(|| format!("bytegauge measured nothing: {}", session.reasons().join("; ")))?;
    let count = |role| trial.end(role).and_then(|end| end.datagrams);
    let (sent, came) =
        count(EndRole::Source).zip(count(EndRole::Sink)).context("a stream of datagrams without counts")?;
    ensure!(trial.wall_ns > 0 && sent.total > 0, "nothing was sent");
    Ok(Arrived {
        per_second: came.datagrams as f64 * 1e9 / trial.wall_ns as f64,
        lost_share: sent.total.saturating_sub(came.distinct()) as f64 / sent.total as f64,
    })
}

fn one_way_part(senders: &[Sender], found: &[Vec<Arrived>]) -> String {
    let rates = |at: usize| found[at].iter().map(|run| run.per_second).collect::<Vec<f64>>();
    let shares = |at: usize| found[at].iter().map(|run| run.lost_share).collect::<Vec<f64>>();
    let lost = |at: usize| median(&shares(at)).unwrap_or(f64::NAN);
    let [iperf3, plain] = [rates(0), rates(1)];
    let rows = senders.iter().enumerate().map(|(at, sender)| {
        let middle = median(&rates(at)).unwrap_or(f64::NAN);
        vec![
            sender.to_string(),
            format!("{:.0}", middle / 1e3),
            format!("{:.2}", middle * SIZE_BYTES as f64 / 1e9),
            format!("{:.2} %", lost(at) * 100.0),
            interval(&ratio(&rates(at), &iperf3)),
            interval(&ratio(&rates(at), &plain)),
        ]
    });
    let headings =
        ["program", "1000 datagrams/s that came", "goodput, GB/s", "lost", "over iperf3 (95 %)", "over plain (95 %)"];
    let segments = rates(3);
    let gso = sign_interval(&shares(3), 0.95);
    // The fastest of ours that lose less than iperf3; where none does, the one that loses least.
    let fastest = |a: &usize, b: &usize| median(&rates(*a)).partial_cmp(&median(&rates(*b))).unwrap_or(Ordering::Equal);
    let safer = (1..senders.len()).filter(|&at| lost(at) < lost(0)).max_by(fastest);
    let safest = (1..senders.len()).min_by(|&a, &b| lost(a).total_cmp(&lost(b))).unwrap_or(1);
    let beside = safer.unwrap_or(safest);
    let less: Vec<f64> = shares(beside).iter().zip(shares(0)).map(|(ours, theirs)| ours - theirs).collect();
    let less = sign_interval(&less, 0.95);
    format!(
        "{}\n- {}\n- {}\n- Aim: under 1 % of them lost: {}, {} (gso).\n- {}\n- Aim: at less loss: {}, a difference of {} \
         ({} less iperf3).\n{}",
        table(&headings, rows),
        BATCHES.verdict(&ratio(&rates(2), &plain), "mmsg over plain"),
        SEGMENTS.verdict(&ratio(&segments, &plain), "gso over plain"),
        below(&gso, LOST_MAX),
        percent(&gso),
        GOODPUT.verdict(&ratio(&rates(beside), &iperf3), &format!("{} over iperf3", senders[beside])),
        below(&less, 0.0),
        percent(&less),
        senders[beside],
        raw(senders, found),
    )
}

/// Whether what is to lie below a limit does, in words.
fn below(found: &Estimate, limit: f64) -> &'static str {
    match (found.median, found.lower, found.upper) {
        (_, _, Some(upper)) if upper < limit => "reached",
        (_, Some(lower), _) if lower >= limit => "**missed**",
        (Some(median), ..) if median < limit => "reached by the median, not proven",
        (Some(_), ..) => "**missed** by the median, not proven",
        (None, ..) => "not measured",
    }
}

/// A share with its interval: `0.88 % (0.41 to 1.02)`.
fn percent(found: &Estimate) -> String {
    match (found.median, found.lower, found.upper) {
        (Some(median), Some(lower), Some(upper)) => {
            format!("{:.2} % ({:.2} to {:.2})", median * 100.0, lower * 100.0, upper * 100.0)
        }
        (Some(median), ..) => format!("{:.2} % (no interval below 6 rounds)", median * 100.0),
        _ => "–".to_owned(),
    }
}

/// Every run, so that a reader can work out the verdicts again.
fn raw(senders: &[Sender], found: &[Vec<Arrived>]) -> String {
    let line = |(sender, runs): (&Sender, &Vec<Arrived>)| {
        let each = runs.iter().map(|run| format!("{:.0} ({:.2})", run.per_second / 1e3, run.lost_share * 100.0));
        format!("{:<15} {}\n", sender.to_string(), each.collect::<Vec<_>>().join("  "))
    };
    let lines: String = senders.iter().zip(found).map(line).collect();
    format!("\nThousands of datagrams per second that came (% lost), in the order of the rounds:\n\n```\n{lines}```\n")
}

fn head(bench: &Bench) -> Result<String> {
    Ok(format!(
        "## Datagrams over loopback, beside {} and sockperf\n\nMade by `cargo xtask peers udp {} --seed {}` on {}. UDP, \
         {SIZE_BYTES} B a datagram, one flow, as fast as it goes; what counts is what came. Above 1, bytegauge is faster.\n\n",
        iperf3::version()?,
        bench.effort.flags(),
        bench.seed,
        bench.date
    ))
}

fn method(bench: &Bench) -> String {
    format!(
        "- iperf3 runs `-u -b 0 -l {SIZE_BYTES}` with a CPU for each end; ours the engine named, 4 MiB asked for as the \
         receive buffer (its default over UDP), a CPU for each end. A coin deals the CPUs.\n\
         - {} rounds of {} s a program in random order. Lost is what was sent and never came, of the flow's whole life; \
         medians over rounds, with sign intervals over the rounds at 95 % or more. What stands beside iperf3 is the fastest \
         of ours that lost less, by the medians of the same rounds.\n\
         - Ping-pong: each program brings its own server and client; round trips are what each says of its own.\n",
        bench.effort.rounds, bench.effort.seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shares: &[f64], limit: f64, expected: &str) {
        let found = sign_interval(shares, 0.95);
        assert_eq!(format!("{}, {}", below(&found, limit), percent(&found)), expected);
    }

    #[test]
    fn a_loss_is_proven_by_its_interval_alone() {
        check(&[0.002, 0.003, 0.004, 0.005, 0.006, 0.007], LOST_MAX, "reached, 0.45 % (0.20 to 0.70)");
        check(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.02], LOST_MAX, "reached by the median, not proven, 0.00 % (0.00 to 2.00)");
        check(
            &[0.0, 0.02, 0.02, 0.02, 0.02, 0.02],
            LOST_MAX,
            "**missed** by the median, not proven, 2.00 % (0.00 to 2.00)",
        );
        check(&[0.01, 0.02, 0.02, 0.02, 0.02, 0.02], LOST_MAX, "**missed**, 2.00 % (1.00 to 2.00)");
        check(&[0.001; 5], LOST_MAX, "reached by the median, not proven, 0.10 % (no interval below 6 rounds)");
        check(&[-0.002; 6], 0.0, "reached, -0.20 % (-0.20 to -0.20)");
        check(&[], 0.0, "not measured, –");
    }

    #[test]
    fn a_part_names_its_verdicts_and_its_runs() {
        let senders = [Sender::Iperf3, Sender::Ours("plain"), Sender::Ours("mmsg"), Sender::Ours("gso")];
        let runs = |per_second: f64, lost_share: f64| vec![Arrived { per_second, lost_share }; 7];
        let found = [runs(2e5, 0.01), runs(2e5, 0.0), runs(3e5, 0.0), runs(5e6, 0.002)];
        let part = one_way_part(&senders, &found);
        assert!(part.contains("Aim: under 1 % of them lost: reached, 0.20 % (0.20 to 0.20) (gso)."), "{part}");
        let less = "Aim: at less loss: reached, a difference of -0.80 % (-0.80 to -0.80) (bytegauge gso less iperf3).";
        assert!(part.contains(less) && part.contains("bytegauge mmsg  300 (0.00)  300 (0.00)"), "{part}");
    }
}
