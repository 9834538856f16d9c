//! Where the engines of a server differ: Unix sockets, depth, small pieces, and work on a request.
//!
//! One session of `bytegauge run` over a plan that only this comparison needs (`xtask/peers/engines.toml`): more than two in
//! the same blocks, by two metrics, which no session of two can be. Both ends are ours, so that system calls and a submission thread's CPU are in the count.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use bytegauge_model::{Cell, EndRole, Trial};
use bytegauge_stats::interval::Estimate;
use bytegauge_stats::quantile::median;

use super::bench::Bench;
use super::compare::{self, Rates, interval, over, over_among, values};
use super::machine;
use super::ours::Session;
use crate::cargo;
use crate::markdown::table;

const PLAN: &str = "xtask/peers/engines.toml";

/// What the others are compared with.
const BASE: &str = "epoll";
/// What stands for io_uring where work is done on a request.
const RING: &str = "uring:multishot";

/// Its blocks are short, so many for one of the others': eight verdicts together need nine, and more to tell small differences
/// apart.
const BLOCKS_A_BLOCK: u64 = 3;

/// Bytes of a request in the plan.
const REQUEST_BYTES: f64 = 512.0;

/// Under which conditions a server was called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Setting {
    transport: String,
    depth: u64,
    chunk: Option<u64>,
    /// Work on a byte, picoseconds.
    work_ps: u64,
}

/// What one server did, by block.
#[derive(Default)]
struct Served {
    rates: Rates,
    per_cpu_second: Rates,
    system_calls: Vec<f64>,
}

type Panel = BTreeMap<String, Served>;

/// Measures, and makes the document's part.
///
/// # Errors
/// When nothing was measured.
pub fn compared(bench: &Bench) -> Result<String> {
    let plan = cargo::root().join(PLAN).display().to_string();
    let blocks = if bench.effort.quick { 1 } else { bench.effort.blocks * BLOCKS_A_BLOCK };
    let (blocks, seed) = (blocks.to_string(), bench.seed.to_string());
    let mut args = vec!["run", &plan, "--seed", &seed, "--blocks", &blocks];
    if bench.effort.quick {
        args.extend(["--duration", "10ms"]);
    }
    let session = bench.ours.session(&args, None)?;
    let panels = panels(&session)?;
    ensure!(!panels.is_empty(), "nothing was measured: {}", session.reasons().join("; "));
    let mut text = head(bench);
    for (setting, panel) in panels.iter().filter(|(setting, _)| setting.work_ps == 0) {
        let part = format!("### {setting}\n\n{}\n", rows(panel));
        println!("{part}");
        text.push_str(&part);
    }
    let work = of_work(&panels);
    println!("{work}");
    text.push_str(&work);
    for reason in session.reasons() {
        text.push_str(&format!("\nLeft out: {reason}.\n"));
    }
    text.push_str(&format!("\n{}\n\n{}", machine::line(&bench.ours.environment()?, &bench.topology), METHOD));
    Ok(text)
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, depth {}", self.transport, self.depth)?;
        self.chunk.map_or(Ok(()), |bytes| write!(f, ", a request in pieces of {bytes} B"))
    }
}

impl Setting {
    fn of(cell: &Cell) -> Result<Setting> {
        let level = |name: &str| cell.factors.get(name);
        let work = level("work").to_string();
        Ok(Setting {
            transport: level("transport").to_string(),
            depth: level("depth").number().context("a cell without a depth")?,
            chunk: level("request_chunk").number(),
            work_ps: work_ps(&work).with_context(|| format!("work that is no time: {work}"))?,
        })
    }
}

/// `2ns` a byte as picoseconds.
fn work_ps(work: &str) -> Option<u64> {
    if work == "none" {
        return Some(0);
    }
    let ns: f64 = work.strip_suffix("ns")?.parse().ok()?;
    Some((ns * 1000.0) as u64)
}

fn panels(session: &Session) -> Result<BTreeMap<Setting, Panel>> {
    let mut panels: BTreeMap<Setting, Panel> = BTreeMap::new();
    for (cell, trial) in session.confirmed() {
        let engine = cell.factors.get("server_engine").to_string();
        let served = panels.entry(Setting::of(cell)?).or_default().entry(engine).or_default();
        served.add(trial);
    }
    Ok(panels)
}

impl Served {
    fn add(&mut self, trial: &Trial) {
        let (Some(rate), Some(cpu_ns)) = (trial.rate(), trial.server_cpu_ns_per_call()) else { return };
        self.rates.insert(trial.block, rate);
        self.per_cpu_second.insert(trial.block, 1e9 / cpu_ns);
        let Some(server) = trial.end(EndRole::Server) else { return };
        if let (Some(engine), Some(call)) = (server.engine, &server.call)
            && call.completed > 0
        {
            self.system_calls.push(engine.system_calls as f64 / call.completed as f64);
        }
    }
}

fn rows(panel: &Panel) -> String {
    let base = panel.get(BASE);
    let over_base = |ours: &Rates, read: fn(&Served) -> &Rates| {
        base.map(|base| interval(&over(ours, read(base)))).unwrap_or_default()
    };
    let rows = panel.iter().map(|(engine, served)| {
        vec![
            engine.clone(),
            compare::thousands(&values(&served.rates)),
            over_base(&served.rates, |base| &base.rates),
            compare::thousands(&values(&served.per_cpu_second)),
            over_base(&served.per_cpu_second, |base| &base.per_cpu_second),
            median(&served.system_calls).map(|calls| format!("{calls:.2}")).unwrap_or_default(),
        ]
    });
    let over = format!("over {BASE} (95 %)");
    let headings = [
        "server",
        "1000 calls/s",
        &over,
        "1000 calls per CPU second of the server",
        &over,
        "system calls of the server a call",
    ];
    table(&headings, rows)
}

/// What work on a request leaves of the ring's gain.
fn of_work(panels: &BTreeMap<Setting, Panel>) -> String {
    let plain = panels.iter().filter(|(setting, _)| setting.depth == 1 && setting.chunk.is_none());
    let both = plain.filter_map(|(setting, panel)| Some((setting, panel.get(BASE)?, panel.get(RING)?)));
    let both: Vec<(&Setting, &Served, &Served)> = both.collect();
    let mut rows = Vec::new();
    let mut said: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (setting, base, ring) in &both {
        let among = over_among(&ring.per_cpu_second, &base.per_cpu_second, both.len());
        let (rate, per_cpu) = (over(&ring.rates, &base.rates), over(&ring.per_cpu_second, &base.per_cpu_second));
        let work = work_text(setting.work_ps);
        said.entry(&setting.transport).or_default().push(format!("{} with {work}", word(&among)));
        rows.push(vec![setting.transport.clone(), work, interval(&rate), interval(&per_cpu)]);
    }
    let headings = ["transport", "work on a request", "calls/s (95 %)", "calls per CPU second of the server (95 %)"];
    let sentences: String =
        said.iter().map(|(transport, words)| format!("Over {transport} {RING} {}.\n", words.join(", "))).collect();
    format!("### {RING} over {BASE} by work on a request\n\n{}\n{sentences}", table(&headings, rows))
}

fn work_text(work_ps: u64) -> String {
    match work_ps {
        0 => "none".into(),
        ps => format!("{:.1} µs", ps as f64 * REQUEST_BYTES / 1e6),
    }
}

fn word(per_cpu: &Estimate) -> &'static str {
    match (per_cpu.lower, per_cpu.upper) {
        (Some(lower), _) if lower > 1.0 => "wins",
        (_, Some(upper)) if upper < 1.0 => "loses",
        (Some(_), Some(_)) => "is not told apart",
        _ => "was measured too seldom",
    }
}

fn head(bench: &Bench) -> String {
    format!(
        "## Servers by engine\n\nMade by `cargo xtask peers engines {}` on {}. 50 connections, requests of 512 B \
         that are echoed, the client's engine is epoll. Above 1, the engine of that row is better than {BASE}.\n\n",
        bench.flags(),
        bench.date
    )
}

const METHOD: &str = "\
- One session of `bytegauge run xtask/peers/engines.toml`: every block visits all servers of a setting in random order, \
100 ms each, server and client on a CPU of their own whose parts a coin swaps.
- CPU time is that of the server's threads in the window, and of what the kernel runs for them: a submission thread's \
(`sqpoll`) counts, which shares the server's CPU here.
- System calls are those that the engine makes itself, accepts included, over all calls that it served. A submission \
thread saves calls, not work.
- Work is time that the server spends on each byte of a request before it replies.
- What is said of work is said at a level corrected for the number of such verdicts (Bonferroni), so that all of them hold \
together at 95 %; it needs nine blocks for eight verdicts. The intervals printed are at 95 % each.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_pair_by_number() {
        let ours: Rates = (0..7).map(|block| (block, 2.0)).collect();
        let theirs: Rates = (1..9).map(|block| (block, 1.0)).collect();
        let found = over(&ours, &theirs);
        assert_eq!((found.n, found.lower.map(f64::round)), (6, Some(2.0)));
        assert_eq!(word(&found), "wins");
    }

    #[test]
    fn verdicts_are_corrected_for_their_number() {
        let check = |blocks: u64, verdicts: usize, expected: &str| {
            let rates = |rate: f64| (0..blocks).map(|block| (block, rate)).collect::<Rates>();
            // One block in which the other one was faster.
            let ours: Rates =
                rates(2.0).into_iter().map(|(block, rate)| (block, if block == 0 { 0.5 } else { rate })).collect();
            let found = over_among(&ours, &rates(1.0), verdicts);
            assert_eq!(word(&found), expected, "{blocks} blocks, {verdicts} verdicts");
        };
        check(9, 1, "wins");
        check(9, 8, "is not told apart");
        check(21, 8, "wins");
        check(7, 8, "was measured too seldom");
    }

    #[test]
    fn work_is_judged_at_the_corrected_level() {
        let served = |rate: f64| {
            let rates: Rates = (0..9).map(|block| (block, if block == 0 { 1.0 } else { rate })).collect();
            Served { rates: rates.clone(), per_cpu_second: rates, system_calls: Vec::new() }
        };
        let panel = || Panel::from([(BASE.to_owned(), served(1.5)), (RING.to_owned(), served(2.0))]);
        let setting = |work_ps| Setting { transport: "tcp".into(), depth: 1, chunk: None, work_ps };
        let alone = of_work(&BTreeMap::from([(setting(0), panel())]));
        assert!(alone.contains("wins with none."), "{alone}");
        let eight = of_work(&(0..8).map(|work| (setting(work), panel())).collect());
        assert!(eight.contains("is not told apart with none,") && !eight.contains("wins"), "{eight}");
    }

    #[test]
    fn work_in_words() {
        assert_eq!(work_ps("none"), Some(0));
        assert_eq!(work_ps("0.5ns"), Some(500));
        assert_eq!(work_ps("sum"), None);
        assert_eq!(work_text(2000), "1.0 µs");
    }

    #[test]
    fn the_plan_is_where_it_is_looked_for() {
        let text = std::fs::read_to_string(cargo::root().join(PLAN)).unwrap();
        let spec = bytegauge_plan::file::parse(PLAN, &text).unwrap();
        assert_eq!(spec.name, "engines");
    }
}
