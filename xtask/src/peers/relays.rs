//! Our relays beside the same copy loops in a small C program: do both put the ways to copy in the same order?
//!
//! Sessions of `bytegauge run` over the ready plans of relays, in which the C loops are relays by their command: all in the same
//! blocks, which no session of two can be. Each is repeated beside busy loops, and with the relay on the CPU of either end.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, ensure};
use bytegauge_model::unit::significant;
use bytegauge_stats::interval::Estimate;
use bytegauge_stats::quantile::median;

use super::bench::Bench;
use super::compare::{Rates, interval, over, over_among, values};
use super::foreign::RELAY_LOOPS;
use super::machine;
use super::ours::Session;
use crate::busy::Loops;
use crate::markdown::table;

/// The loops that both have, by our names.
const METHODS: [&str; 3] = ["read-write", "splice", "epoll"];

/// What each pair of them is asked.
const PAIRS: [(&str, &str); 3] = [("splice", "read-write"), ("splice", "epoll"), ("epoll", "read-write")];

/// Its blocks are short: so many for one of the others'. Three verdicts together need eight.
const BLOCKS_A_BLOCK: u64 = 3;

/// What a session asks: a ready plan, its rate as it is printed, and units of a cost.
struct Question {
    plan: &'static str,
    what: &'static str,
    rate: (&'static str, f64),
    cost: (&'static str, f64),
}

const QUESTIONS: [Question; 2] = [
    Question {
        plan: "relay-copy",
        what: "One stream",
        rate: ("GiB/s", (1u64 << 30) as f64),
        cost: ("relay, CPU s/GiB", (1u64 << 30) as f64),
    },
    Question {
        plan: "relay-calls",
        what: "50 clients × 10 KiB",
        rate: ("1000 calls/s", 1e3),
        cost: ("relay, CPU s per million calls", 1e6),
    },
];

/// Who copies, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Loop {
    placement: String,
    method: String,
    is_ours: bool,
}

/// What one of them did, by block.
#[derive(Default)]
struct Copied {
    rates: Rates,
    /// CPU time of the relay for a unit, nanoseconds.
    costs: Rates,
}

type Panel = BTreeMap<Loop, Copied>;

/// Measures, and makes the document's part.
///
/// # Errors
/// When the C loops do not build, or nothing was measured.
pub fn compared(bench: &Bench) -> Result<String> {
    let program = RELAY_LOOPS.built()?.display().to_string();
    let (blocks, seed) = (bench.effort.blocks * BLOCKS_A_BLOCK, bench.seed.to_string());
    let (blocks, duration, places) = match bench.effort.quick {
        true => ("1".to_owned(), "100ms", "unpinned"),
        false => (blocks.to_string(), "250ms", "unpinned,client,server"),
    };
    let list = relays(&program);
    let mut text = format!(
        "## Relays, beside the same loops in C\n\nMade by `cargo xtask peers relays {}` on {}. Above 1, ours is better.\n",
        bench.flags(),
        bench.date
    );
    for question in &QUESTIONS {
        for beside in if bench.effort.quick { &[0][..] } else { &[0, 1][..] } {
            let words = ["run", question.plan, "--relay", &list, "--relay-placement", places, "--duration", duration];
            let args =
                words.into_iter().chain(["--blocks", &blocks, "--looks", "1", "--audit", "off", "--seed", &seed]);
            let busy = Loops::start(*beside)?;
            let session = bench.ours.session(&args.collect::<Vec<_>>(), None)?;
            drop(busy);
            let panel = panel(&session);
            ensure!(!panel.is_empty(), "nothing was measured: {}", session.reasons().join("; "));
            let load = if *beside == 0 { "" } else { ", beside a busy loop" };
            let part = format!("\n### {}{load}\n\n{}", question.what, part(question, &panel));
            println!("{part}");
            text.push_str(&part);
            session.reasons().iter().for_each(|reason| text.push_str(&format!("\nLeft out: {reason}.\n")));
        }
    }
    let line = machine::line(&bench.ours.environment()?, &bench.topology);
    Ok(format!("{text}\n{line}\n\n{METHOD}"))
}

/// Ours and theirs, as `--relay` takes them.
fn relays(program: &str) -> String {
    let theirs = METHODS.map(|method| format!("cmd:exec {program} {method} {{listen.port}} {{upstream.port}}"));
    METHODS.iter().map(|method| (*method).to_owned()).chain(theirs).collect::<Vec<_>>().join(",")
}

impl Loop {
    /// Whose a level is, and which loop.
    fn of(relay: &str, placement: &str) -> Option<Loop> {
        let is_meant = |method: &&&str| relay == **method || relay.contains(&format!(" {method} {{"));
        let method = METHODS.iter().find(is_meant)?;
        Some(Loop { placement: placement.into(), method: (*method).into(), is_ours: relay == *method })
    }
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, relay {}", self.method, self.placement)
    }
}

fn panel(session: &Session) -> Panel {
    let mut panel = Panel::new();
    for (cell, trial) in session.confirmed() {
        let name = |factor: &str| cell.factors.get(factor).to_string();
        let found = Loop::of(&name("relay"), &name("relay_placement"));
        let (Some(found), Some(rate)) = (found, trial.rate()) else { continue };
        let copied = panel.entry(found).or_default();
        copied.rates.insert(trial.block, rate);
        copied.costs.extend(trial.relay_cpu_ns_per_unit().map(|ns| (trial.block, ns)));
    }
    panel
}

fn part(question: &Question, panel: &Panel) -> String {
    let ((rate_unit, rate_scale), (cost_unit, cost_scale)) = (question.rate, question.cost);
    let rate = |copied: &Copied| shown(&copied.rates, |rate| rate / rate_scale);
    let cost = |copied: &Copied| shown(&copied.costs, |ns| ns * cost_scale / 1e9);
    let both = panel.iter().filter(|(found, _)| found.is_ours);
    let both = both.filter_map(|(found, ours)| {
        let theirs = panel.get(&Loop { is_ours: false, ..found.clone() })?;
        Some((found, ours, theirs))
    });
    let rows = both.map(|(found, ours, theirs)| {
        vec![
            found.to_string(),
            rate(theirs),
            rate(ours),
            interval(&over(&ours.rates, &theirs.rates)),
            cost(theirs),
            cost(ours),
            // Less is better.
            interval(&over(&theirs.costs, &ours.costs)),
        ]
    });
    let headings = [
        "loop",
        &format!("C, {rate_unit}"),
        &format!("ours, {rate_unit}"),
        "ours over it (95 %)",
        &format!("C, {cost_unit}"),
        &format!("ours, {cost_unit}"),
        "calls or bytes for ours a CPU second, over it (95 %)",
    ];
    format!("{}\n{}", table(&headings, rows), ranking(panel))
}

fn shown(values_by_block: &Rates, of: impl Fn(f64) -> f64) -> String {
    median(&values(values_by_block)).map_or_else(|| "–".into(), |value| significant(of(value), 3))
}

/// For each pair of loops whether both programs put them in the same order.
fn ranking(panel: &Panel) -> String {
    // They stand in order, placements first.
    let mut placements: Vec<&str> = panel.keys().map(|found| found.placement.as_str()).collect();
    placements.dedup();
    let mut rows = Vec::new();
    for placement in placements {
        for (first, second) in PAIRS {
            let ratio = |is_ours: bool| {
                let rates = |method: &str| {
                    let found = Loop { placement: placement.into(), method: method.into(), is_ours };
                    panel.get(&found).map(|copied| &copied.rates)
                };
                Some(over_among(rates(first)?, rates(second)?, PAIRS.len()))
            };
            let (Some(ours), Some(theirs)) = (ratio(true), ratio(false)) else { continue };
            let word = agreement(&ours, &theirs).to_owned();
            rows.push(vec![
                format!("{first} over {second}, relay {placement}"),
                interval(&theirs),
                interval(&ours),
                word,
            ]);
        }
    }
    table(&["rate of one loop over another's", "C", "ours", "in words"], rows)
}

fn agreement(ours: &Estimate, theirs: &Estimate) -> &'static str {
    let side = |ratio: &Estimate| match (ratio.lower, ratio.upper) {
        (Some(lower), _) if lower > 1.0 => Some(true),
        (_, Some(upper)) if upper < 1.0 => Some(false),
        _ => None,
    };
    match (side(ours), side(theirs)) {
        (Some(ours), Some(theirs)) if ours == theirs => "the same order",
        (Some(_), Some(_)) => "**the opposite order**",
        (None, None) => "neither tells them apart",
        _ => "one tells them apart, the other does not",
    }
}

const METHOD: &str = "\
- `xtask/peers/c/relay_loops.c`: a thread a direction with read and write or with splice, and one thread with epoll, each with \
64 KiB a direction and `TCP_NODELAY`; started for each trial as a relay by its command, and charged by its process tree.
- One session of a ready plan (`relay-copy`, `relay-calls`) a table: every block visits all six in random order, both ends on \
CPUs of their own whose parts a coin swaps; the relay is left to the scheduler, or on the CPU of the client or of the server.
- What is said of the order is said at a level corrected for three such verdicts (Bonferroni), which needs eight blocks; \
intervals of ours over C are at 95 % each.
";

#[cfg(test)]
mod tests {
    use bytegauge_model::{RelayProgram, factor};

    use super::*;

    #[test]
    fn all_six_are_relays_and_told_apart() {
        let relay = factor::find("relay").unwrap();
        let levels = relay.kind.parse_list(&relays("/x/relay_loops")).unwrap();
        let found: Vec<Loop> = levels.iter().filter_map(|level| Loop::of(level.name()?, "own")).collect();
        assert_eq!((levels.len(), found.len()), (6, 6));
        assert!(found[..3].iter().all(|found| found.is_ours) && found[3..].iter().all(|found| !found.is_ours));
        for (ours, theirs) in found[..3].iter().zip(&found[3..]) {
            assert_eq!(ours.method, theirs.method);
        }
        assert_eq!(RelayProgram::of(levels[3].name().unwrap()).unwrap().name, "relay_loops");
        assert_eq!(Loop::of("tokio", "own"), None);
    }

    #[test]
    fn orders_are_compared_where_both_are_known() {
        let ratio = |lower, upper| Estimate {
            median: Some(1.0),
            lower: Some(lower),
            upper: Some(upper),
            n: 24,
            level: 0.98,
            attained: None,
        };
        let check = |ours, theirs, expected: &str| assert_eq!(agreement(&ours, &theirs), expected);
        check(ratio(1.1, 1.2), ratio(1.3, 1.5), "the same order");
        check(ratio(0.8, 0.9), ratio(1.3, 1.5), "**the opposite order**");
        check(ratio(0.8, 1.1), ratio(1.3, 1.5), "one tells them apart, the other does not");
        check(ratio(0.8, 1.1), ratio(0.9, 1.5), "neither tells them apart");
    }

    #[test]
    fn a_table_has_a_row_for_each_loop_and_each_pair() {
        let mut panel = Panel::new();
        for (at, method) in METHODS.iter().enumerate() {
            for is_ours in [true, false] {
                let copied: Rates = (0..9).map(|block| (block, (at + 1) as f64 * 1e9)).collect();
                let found = Loop { placement: "unpinned".into(), method: (*method).into(), is_ours };
                panel.insert(found, Copied { costs: copied.clone(), rates: copied });
            }
        }
        let text = part(&QUESTIONS[0], &panel);
        assert_eq!(text.matches("1.000 (1.000 to 1.000)").count(), 6, "{text}");
        assert_eq!(text.matches("the same order").count(), 3, "{text}");
    }
}
