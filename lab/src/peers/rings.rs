//! Our ring compared with liburing in C and the io-uring crate: NOPs per second by depth, and the cost of checking.
//!
//! One session of `bytegauge run` over a plan made for this comparison (`lab/peers/ring.toml`): more than two rings in the
//! same blocks, which a session of two cannot have.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use bytegauge_stats::interval::{MedianEstimate, sign_interval};
use bytegauge_stats::quantile::median;

use super::bench::PeerTests;
use super::compare::{Aim, Rates, interval, over, values};
use super::machine;
use super::ours::SessionTrials;
use xtask::cargo;
use xtask::markdown::table;

const PLAN: &str = "lab/peers/ring.toml";

/// Its blocks are short: this number corresponds to one block of other sections.
const BLOCKS_A_BLOCK: u64 = 5;

const OURS: &str = "raw";
const PEERS: [&str; 2] = ["liburing", "io-uring"];

const AIM: Aim = Aim { text: "at the ceiling our ring at least equals liburing", at_least: 1.0 };

/// Ends the name of an implementation whose ring has a registered descriptor.
const REGISTERED: &str = ", registered";

/// Rates by mode, depth and implementation.
type Panel = BTreeMap<(String, u64, String), Rates>;

/// Measures, and makes the document's part.
///
/// # Errors
/// When nothing was measured.
pub fn compared(bench: &PeerTests) -> Result<String> {
    let plan = cargo::root().join(PLAN).display().to_string();
    let blocks = if bench.effort.quick { 1 } else { bench.effort.blocks * BLOCKS_A_BLOCK };
    let (blocks, seed) = (blocks.to_string(), bench.seed.to_string());
    let mut args = vec!["run", &plan, "--seed", &seed, "--blocks", &blocks];
    if bench.effort.quick {
        args.extend(["--trial-time", "5ms"]);
    }
    let session = bench.ours.session(&args, None)?;
    let panel = panel(&session)?;
    ensure!(!panel.is_empty(), "nothing was measured: {}", session.reasons().join("; "));
    let left_out: String = session.reasons().iter().map(|reason| format!("Left out: {reason}.\n")).collect();
    let part = part(&panel);
    println!("{part}");
    let line = machine::line(&bench.ours.environment()?, &bench.topology);
    Ok(format!("{}{part}\n{left_out}\n{line}\n\n{METHOD}", head(bench)))
}

fn panel(session: &SessionTrials) -> Result<Panel> {
    let mut panel = Panel::new();
    for (cell, trial) in session.confirmed() {
        let name = |factor: &str| cell.factors.get(factor).to_string();
        let entries = cell.factors.entries().context("a ring without entries")?;
        let Some(rate) = trial.rate() else { continue };
        let kind = if name("setup").contains("registered") { REGISTERED } else { "" };
        let by = name("implementation") + kind;
        panel.entry((name("mode"), entries, by)).or_default().insert(trial.block, rate);
    }
    Ok(panel)
}

fn part(panel: &Panel) -> String {
    let empty = Rates::new();
    let of_kind = |mode: &str, entries: u64, by: &str, kind: &str| {
        panel.get(&(mode.into(), entries, format!("{by}{kind}"))).unwrap_or(&empty)
    };
    let of = |mode: &str, entries: u64, by: &str| of_kind(mode, entries, by, "");
    let mut depths: Vec<u64> = panel.keys().map(|(_, entries, _)| *entries).collect();
    depths.sort_unstable();
    depths.dedup();
    let mut text = String::new();
    let panels = [
        ("ceiling", "", "The ceiling"),
        ("ceiling", REGISTERED, "The ceiling, with registered descriptors of the rings"),
        ("checked", "", "Every completion checked"),
    ];
    for (mode, kind, title) in panels {
        let rows = depths.iter().map(|&entries| {
            let ours = of_kind(mode, entries, OURS, kind);
            let mut row = vec![entries.to_string(), millions(ours)];
            for peer in PEERS {
                let theirs = of_kind(mode, entries, peer, kind);
                row.extend([millions(theirs), interval(&over(ours, theirs))]);
            }
            row
        });
        let headings =
            ["entries", "raw, M/s", "liburing, M/s", "raw over it (95 %)", "io-uring, M/s", "raw over it (95 %)"];
        text.push_str(&format!("### {title}\n\n{}\n", table(&headings, rows)));
        if mode == "ceiling" {
            for &entries in &depths {
                let ratio = over(of_kind(mode, entries, OURS, kind), of_kind(mode, entries, PEERS[0], kind));
                text.push_str(&format!("- {}\n", AIM.verdict(&ratio, &format!("{entries} entries{kind}"))));
            }
            text.push('\n');
        }
    }
    let costs: Vec<String> = depths
        .iter()
        .filter_map(|&entries| {
            let cost = cost_ns(of("ceiling", entries, OURS), of("checked", entries, OURS));
            let ends = cost.lower.zip(cost.upper).map_or_else(
                || "no interval below 6 blocks".to_owned(),
                |(lower, upper)| format!("{lower:.1} to {upper:.1}"),
            );
            Some(format!("{:.1} ns ({ends}) at {entries}", cost.median?))
        })
        .collect();
    text.push_str(&format!(
        "To fill the whole entry with user data of its own and to compare result and user data of every completion costs \
         our ring {} entries (medians over blocks, 95 %).\n",
        costs.join(", ")
    ));
    text
}

/// The cost of checking an entry, nanoseconds. The modes have blocks of their own, one each in every round of the session.
/// Blocks of the same round are compared, so a machine that becomes slower affects both.
fn cost_ns(ceiling: &Rates, checked: &Rates) -> MedianEstimate {
    let pairs = values(ceiling).into_iter().zip(values(checked));
    let costs: Vec<f64> = pairs.map(|(ceiling, checked)| 1e9 / checked - 1e9 / ceiling).collect();
    sign_interval(&costs, 0.95)
}

fn millions(rates: &Rates) -> String {
    median(&values(rates)).map(|rate| format!("{:.2}", rate / 1e6)).unwrap_or_default()
}

fn head(bench: &PeerTests) -> String {
    format!(
        "## io_uring NOPs, compared with liburing and the io-uring crate\n\nMade by `cargo lab peers ring {}` on {}. \
         Millions of completed NOPs per second, one submission of all entries at a time. Above 1, our ring is faster.\n\n",
        bench.flags(),
        bench.date
    )
}

const METHOD: &str = "- All rings are made with SINGLE_ISSUER and DEFER_TASKRUN, by one thread on one CPU, \
    with IORING_REGISTER_RING_FDS where the heading names it. liburing is the \
    distribution's, in C, compiled with the program: prepare, submit and wait for all, walk the completions, advance once.\n\
    - At the ceiling only the opcode is written and no completion is looked at; they are counted by the queue's tail.\n\
    - One session: every block visits all rings in random order. A ratio is the median over \
    blocks, with its sign interval at 95 % or more. The cost of checking is the median difference between a block of one \
    mode and the block of the other in the same turn, with the same kind of interval.\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checking_is_compared_round_by_round() {
        // The machine halves its speed midway; the modes' blocks alternate.
        let speed = |turn: u64| if turn < 6 { 1.0 } else { 0.5 };
        let rates =
            |ns: f64, first: u64| -> Rates { (0..12).map(|turn| (2 * turn + first, speed(turn) * 1e9 / ns)).collect() };
        let cost = cost_ns(&rates(100.0, 0), &rates(104.0, 1));
        let rounded = |value: Option<f64>| value.map(|ns| (ns * 10.0).round() / 10.0);
        assert_eq!((rounded(cost.lower), rounded(cost.upper), cost.n), (Some(4.0), Some(8.0), 12));
        assert_eq!(cost_ns(&rates(100.0, 0), &Rates::new()).median, None);
    }
}
