//! `cargo lab real-life`: repeats the plan `buffer-size` on the machine as it is, under a bounded background load, and in a
//! control group with a quota. Counts how often a group has a significant result, and how wide its bounds are. On the same
//! store, `cargo lab tournament` counts whether the results are true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytegauge_model::unit::significant;
use bytegauge_stats::quantile::median;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::group::QuotaGroup;
use crate::program::{self, ProgramWithStore};
use crate::section;
use xtask::cargo;
use xtask::markdown::table;

const SECTION: &str = "real-life";

/// Busy and idle time of the background load in turn: half a CPU.
const LOAD_SLICE: Duration = Duration::from_millis(10);

/// CPUs of the control group: a common limit of containers, and half of the use of two busy ends.
const QUOTA_CPUS: f64 = 1.0;

/// The circumstance of a session.
#[derive(Clone, Copy)]
enum Circumstance {
    Idle,
    Loaded,
    Quota,
}

impl Circumstance {
    const ALL: [Circumstance; 3] = [Circumstance::Idle, Circumstance::Loaded, Circumstance::Quota];

    /// The name of its plan, by which its sessions are found again.
    fn name(self) -> &'static str {
        match self {
            Circumstance::Idle => "idle",
            Circumstance::Loaded => "loaded",
            Circumstance::Quota => "quota",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Circumstance::Idle => "on the machine as it is",
            Circumstance::Loaded => "next to half a CPU of other work",
            Circumstance::Quota => "in a control group of one CPU",
        }
    }
}

/// `cargo lab real-life`.
pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u64)).default_value(default).help(help)
    };
    Command::new("real-life")
        .about("Repeat the plan buffer-size, idle, loaded and under a quota in turn, and count proofs and bounds")
        .arg(number("runs", "10", "Runs of each kind"))
        .arg(number("every", "540", "Seconds from one round of runs to the next"))
        .arg(Arg::new("store").long("store").value_name("PATH").help("Result store [default: a new one in target/]"))
        .arg(Arg::new("budget").long("budget").value_name("TIME").help("Budget of a run [default: the plan's]"))
        .arg(
            Arg::new("report-only")
                .long("report-only")
                .action(ArgAction::SetTrue)
                .help("Measure nothing, read the store"),
        )
        .arg(Arg::new("no-write").long("no-write").action(ArgAction::SetTrue).help("Print the section, write no file"))
}

/// Runs the rounds and writes the section.
///
/// # Errors
/// When bytegauge cannot be built or run, no control group can be made, or the document cannot be written.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let program = ProgramWithStore::of(matches)?;
    if !matches.get_flag("report-only") {
        let runs = *matches.get_one::<u64>("runs").context("--runs has a default")?;
        let every = Duration::from_secs(*matches.get_one::<u64>("every").context("--every has a default")?);
        let budget = matches.get_one::<String>("budget").map(String::as_str);
        for round in 0..runs {
            let begin = Instant::now();
            for circumstance in Circumstance::ALL {
                measure(&program, circumstance, budget)?;
            }
            eprintln!("round {} of {runs} done", round + 1);
            if round + 1 < runs {
                std::thread::sleep(every.saturating_sub(begin.elapsed()));
            }
        }
    }
    let text = text_of(&program, &section::today()?)?;
    section::of_verification(SECTION, &text, matches.get_flag("no-write"))
}

/// One session; its circumstance is in its plan's name, so the store alone contains all facts.
fn measure(program: &ProgramWithStore, circumstance: Circumstance, budget: Option<&str>) -> Result<()> {
    let plan = cargo::root().join("plans/buffer-size.toml");
    let text = std::fs::read_to_string(&plan).with_context(|| plan.display().to_string())?;
    let name = circumstance.name();
    let file = program.store.with_file_name(format!("buffer-size-{name}.toml"));
    std::fs::write(&file, text.replace("name = \"buffer-size\"", &format!("name = \"{name}\"")))?;
    let load = matches!(circumstance, Circumstance::Loaded).then(Load::start);
    let group = matches!(circumstance, Circumstance::Quota).then(|| QuotaGroup::with_cpus(QUOTA_CPUS)).transpose()?;
    let mut command = group.as_ref().map_or_else(|| program.command(), |group| program.command_in(group));
    command.arg("run").arg(&file).args(["--quiet", "--format", "csv"]);
    command.args(budget.iter().flat_map(|budget| ["--time", budget]));
    let output = command.output().context("running bytegauge")?;
    drop(load);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn text_of(program: &ProgramWithStore, date: &str) -> Result<String> {
    let mut text = format!(
        "Made by `cargo lab real-life` on {date}: the plan `buffer-size`, under each of these circumstances in turn.\n"
    );
    let listed = program.ask(&["sessions"])?;
    for circumstance in Circumstance::ALL {
        let named = |line: &&str| line.split_whitespace().any(|word| word == circumstance.name());
        let ids = program::ids(listed.lines().filter(named));
        let reports = ids.into_iter().map(|id| program.report(id)).collect::<Result<Vec<Value>>>()?;
        if !reports.is_empty() {
            text.push_str(&section_of(circumstance, &reports));
        }
    }
    Ok(text)
}

/// Half a CPU of work next to the measurement, as long as this value lives.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start() -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                let begin = Instant::now();
                while begin.elapsed() < LOAD_SLICE {
                    std::hint::spin_loop();
                }
                std::thread::sleep(LOAD_SLICE);
            }
        });
        Load { stop, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only spins: nothing of it can have failed.
            let _ = thread.join();
        }
    }
}

/// One group over the runs.
#[derive(Default)]
struct GroupOverRuns {
    runs: usize,
    proven: usize,
    bounds: Vec<f64>,
    half_widths: Vec<f64>,
    choices: BTreeMap<String, usize>,
}

fn section_of(circumstance: Circumstance, reports: &[Value]) -> String {
    let mut stories: BTreeMap<String, GroupOverRuns> = BTreeMap::new();
    for report in reports {
        for group in list(&report["groups"]) {
            add(stories.entry(text(&group["label"])).or_default(), report, group);
        }
    }
    let sum = |field: fn(&GroupOverRuns) -> usize| stories.values().map(field).sum::<usize>();
    let took = reports.iter().filter_map(|report| report["elapsed_ns"].as_f64()).map(|ns| ns / 1e9);
    let took = median(&took.collect::<Vec<f64>>()).map_or_else(String::new, |took| format!(" of {took:.0} s"));
    let mut section = format!(
        "\n### {} runs{took} {}\n\n{} of {} groups were proven, and {} have a bound.\n\n",
        reports.len(),
        circumstance.words(),
        sum(|s| s.proven),
        sum(|s| s.runs),
        sum(|s| s.bounds.len()),
    );
    section.push_str(&table(
        &["group", "proven", "bound: median", "largest", "half width of the interval", "proven choices"],
        stories.iter().map(|(label, story)| {
            let share = |value: Option<f64>| value.map_or("–".into(), |v| format!("{} %", significant(v * 100.0, 2)));
            let choices: Vec<String> = story.choices.iter().map(|(choice, n)| format!("{choice} ({n})")).collect();
            vec![
                label.clone(),
                format!("{} of {}", story.proven, story.runs),
                share(median(&story.bounds)),
                share(story.bounds.iter().copied().reduce(f64::max)),
                share(median(&story.half_widths)),
                choices.join(", "),
            ]
        }),
    ));
    section
}

fn add(story: &mut GroupOverRuns, report: &Value, group: &Value) {
    story.runs += 1;
    let recommendation = &group["recommendation"];
    story.bounds.extend(recommendation["bound"].as_f64());
    let named = cell(report, &recommendation["cell"]).or_else(|| cell(report, &recommendation["best"]));
    let Some(named) = named else { return };
    let estimate = &named["estimate"];
    if let (Some(middle), Some(low), Some(high)) =
        (estimate["median"].as_f64(), estimate["lower"].as_f64(), estimate["upper"].as_f64())
    {
        story.half_widths.push((high - low) / 2.0 / middle);
    }
    if recommendation["proven"] == true {
        story.proven += 1;
        *story.choices.entry(text(&named["label"])).or_default() += 1;
    }
}

fn cell<'a>(report: &'a Value, id: &Value) -> Option<&'a Value> {
    id.as_str()?;
    list(&report["cells"]).find(|cell| cell["id"] == *id)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(proven: bool, bound: Option<f64>) -> Value {
        json!({
            "groups": [{"label": "unix",
                "recommendation": {"cell": "c1", "best": "c1", "proven": proven, "bound": bound}}],
            "cells": [{"id": "c1", "kind": "candidate", "label": "read 4K",
                "estimate": {"median": 100.0, "lower": 90.0, "upper": 110.0}}],
        })
    }

    #[test]
    fn proofs_and_bounds_are_counted() {
        let text = section_of(Circumstance::Idle, &[run(true, Some(0.02)), run(true, Some(0.04)), run(false, None)]);
        assert!(text.contains("### 3 runs on the machine as it is"), "{text}");
        assert!(text.contains("2 of 3 groups were proven, and 2 have a bound"), "{text}");
        assert!(text.contains("| unix | 2 of 3 | 3 % | 4 % | 10 % | read 4K (2) |"), "{text}");
    }

    #[test]
    fn no_runs_no_panic() {
        assert!(section_of(Circumstance::Quota, &[]).contains("0 of 0 groups"));
    }
}
