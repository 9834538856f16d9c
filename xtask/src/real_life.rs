//! `cargo xtask real-life`: the plan `buffer-size` again and again, on the machine as it is and under a bounded
//! background load. How often is a group proven, and how often do two runs contradict each other?
//!
//! Run 2 contradicts run 1 if it shows run 1's proven choice to be worse than its own best by more than the
//! margin. Runs in which the choice was no finalist say nothing about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytegauge_model::unit::significant;
use bytegauge_stats::quantile::median;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::markdown::table;
use crate::product::{self, Product};
use crate::{cargo, section};

const SECTION: &str = "real-life";

/// Busy and idle time of the background load in turn: half a CPU.
const LOAD_SLICE: Duration = Duration::from_millis(10);

/// `cargo xtask real-life`.
pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u64)).default_value(default).help(help)
    };
    Command::new("real-life")
        .about("Repeat the plan buffer-size, idle and loaded in turn, and count proofs and contradictions")
        .arg(number("runs", "10", "Runs of each kind"))
        .arg(number("every", "360", "Seconds from one pair of runs to the next"))
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

/// Runs the pairs and writes the section.
///
/// # Errors
/// When bytegauge cannot be built or run, or the document cannot be written.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let product = Product::of(matches)?;
    if !matches.get_flag("report-only") {
        let runs = *matches.get_one::<u64>("runs").context("--runs has a default")?;
        let every = Duration::from_secs(*matches.get_one::<u64>("every").context("--every has a default")?);
        let budget = matches.get_one::<String>("budget").map(String::as_str);
        for pair in 0..runs {
            let begin = Instant::now();
            for loaded in [false, true] {
                measure(&product, loaded, budget)?;
            }
            eprintln!("pair {} of {runs} done", pair + 1);
            if pair + 1 < runs {
                std::thread::sleep(every.saturating_sub(begin.elapsed()));
            }
        }
    }
    let text = text_of(&product, &crate::peers::today()?)?;
    section::of_verification(SECTION, &text, matches.get_flag("no-write"))
}

/// One session; which kind it is stands in its plan's name, so that the store alone tells the story.
fn measure(product: &Product, loaded: bool, budget: Option<&str>) -> Result<()> {
    let plan = cargo::root().join("plans/buffer-size.toml");
    let text = std::fs::read_to_string(&plan).with_context(|| plan.display().to_string())?;
    let kind = kind(loaded, budget);
    let file = product.store.with_file_name(format!("buffer-size-{kind}.toml"));
    std::fs::write(&file, text.replace("name = \"buffer-size\"", &format!("name = \"{kind}\"")))?;
    let load = loaded.then(Load::start);
    let mut command = product.command();
    command.arg("run").arg(&file).args(["--quiet", "--format", "csv"]);
    command.args(budget.iter().flat_map(|budget| ["--budget", budget]));
    let output = command.output().context("running bytegauge")?;
    drop(load);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn text_of(product: &Product, date: &str) -> Result<String> {
    let mut text = format!(
        "Made by `cargo xtask real-life` on {date}: the plan `buffer-size`, runs on the machine as it is and under \
         a background load of half a CPU in turn.\n"
    );
    let listed = product.ask(&["sessions"])?;
    let named = |line: &&str, kind: &str| line.split_whitespace().any(|word| word == kind);
    let loads = ["idle", "loaded"];
    // Runs with the plan's own budget first, then those with another.
    let words = listed.lines().flat_map(str::split_whitespace);
    let others: BTreeSet<&str> =
        words.filter(|word| loads.iter().any(|load| word.starts_with(&format!("{load}-")))).collect();
    for kind in loads.into_iter().chain(others) {
        let ids = product::ids(listed.lines().filter(|line| named(line, kind)));
        let reports = ids.into_iter().map(|id| product.report(id)).collect::<Result<Vec<Value>>>()?;
        if !reports.is_empty() {
            text.push_str(&kind_text(kind, &reports));
        }
    }
    Ok(text)
}

/// The name of a plan that is run with or without load, and of another budget than the plan's own.
fn kind(loaded: bool, budget: Option<&str>) -> String {
    let load = if loaded { "loaded" } else { "idle" };
    budget.map_or(load.to_owned(), |budget| format!("{load}-{budget}"))
}

/// Half a CPU of work beside the measurement, for as long as it lives.
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
struct Story {
    runs: usize,
    proven: usize,
    comparable: usize,
    contradictions: usize,
    half_widths: Vec<f64>,
    reaches: Vec<f64>,
    choices: BTreeMap<String, usize>,
}

fn kind_text(kind: &str, reports: &[Value]) -> String {
    let mut stories: BTreeMap<String, Story> = BTreeMap::new();
    for report in reports {
        for group in list(&report["groups"]) {
            tell(stories.entry(text(&group["label"])).or_default(), report, group);
        }
        for other in reports.iter().filter(|other| other["session"] != report["session"]) {
            compare(&mut stories, report, other);
        }
    }
    let verdicts: Vec<bool> = reports
        .iter()
        .flat_map(|report| list(&report["verdicts"]))
        .map(|verdict| verdict["recommendation"]["proven"] == true)
        .collect();
    let grades: Vec<String> = reports.iter().map(|report| text(&report["environment"]["grade"])).collect();
    let sum = |field: fn(&Story) -> usize| stories.values().map(field).sum::<usize>();
    let mut said = format!(
        "\n### {} runs, {kind} (environment {})\n\n{} of {} groups were proven. Over all readers at once one choice was \
         proven {} of {} times, and {} more times a choice for each reader. {} of {} comparable pairs of runs \
         contradicted each other (target: at most 1 in 20).\n\n",
        reports.len(),
        grades.join(" "),
        sum(|s| s.proven),
        sum(|s| s.runs),
        verdicts.iter().filter(|proven| **proven).count(),
        verdicts.len(),
        reports.iter().map(boundaries).sum::<usize>(),
        sum(|s| s.contradictions),
        sum(|s| s.comparable),
    );
    said.push_str(&table(
        &["group", "proven", "contradictions", "half width of the interval", "twin's reach", "proven choices"],
        stories.iter().map(|(label, story)| {
            let middle = |values: &[f64]| match median(values) {
                Some(share) => format!("{} %", significant(share * 100.0, 2)),
                None => "–".into(),
            };
            let choices: Vec<String> = story.choices.iter().map(|(choice, n)| format!("{choice} ({n})")).collect();
            vec![
                label.clone(),
                format!("{} of {}", story.proven, story.runs),
                format!("{} of {}", story.contradictions, story.comparable),
                middle(&story.half_widths),
                middle(&story.reaches),
                choices.join(", "),
            ]
        }),
    ));
    said
}

/// Verdicts without one proven choice, but with a proven one for each reader.
fn boundaries(report: &Value) -> usize {
    let proven = |id: &Value| {
        list(&report["groups"]).any(|group| group["id"] == *id && group["recommendation"]["proven"] == true)
    };
    list(&report["verdicts"])
        .filter(|verdict| verdict["recommendation"]["proven"] == false && list(&verdict["groups"]).count() > 1)
        .filter(|verdict| list(&verdict["groups"]).all(proven))
        .count()
}

fn tell(story: &mut Story, report: &Value, group: &Value) {
    story.runs += 1;
    story.reaches.extend(group["twin_reach"].as_f64());
    let recommendation = &group["recommendation"];
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

/// What a second run says of the choices that the first one proved.
fn compare(stories: &mut BTreeMap<String, Story>, first: &Value, second: &Value) {
    for group in list(&first["groups"]).filter(|group| group["recommendation"]["proven"] == true) {
        let Some(named) = cell(first, &group["recommendation"]["cell"]) else { continue };
        let same =
            list(&second["cells"]).find(|cell| cell["factors"] == named["factors"] && cell["kind"] == "candidate");
        let Some(lower) = same.and_then(|cell| cell["above_best_lower"].as_f64()) else { continue };
        let story = stories.entry(text(&group["label"])).or_default();
        story.comparable += 1;
        story.contradictions += usize::from(lower > group["recommendation"]["margin"].as_f64().unwrap_or(1.0));
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

    fn run(session: i64, proven: bool, lower: f64) -> Value {
        json!({
            "session": session,
            "environment": {"grade": "B"},
            "verdicts": [{"recommendation": {"proven": proven}}],
            "groups": [{"label": "unix", "twin_reach": 0.02,
                "recommendation": {"cell": "c1", "best": "c1", "proven": proven, "margin": 0.05}}],
            "cells": [{"id": "c1", "kind": "candidate", "label": "read 4K", "factors": {"read_size": 4096},
                "above_best_lower": lower, "estimate": {"median": 100.0, "lower": 90.0, "upper": 110.0}}],
        })
    }

    #[test]
    fn a_proven_choice_shown_worse_elsewhere_is_a_contradiction() {
        let text = kind_text("idle", &[run(1, true, 0.0), run(2, true, 0.08), run(3, false, 0.01)]);
        // Run 1 against 2 and 3, run 2 against 1 and 3: only run 2 shows run 1's choice worse.
        assert!(
            text.contains("2 of 3 groups were proven. Over all readers at once one choice was proven 2 of 3 times"),
            "{text}"
        );
        assert!(text.contains("1 of 4 comparable pairs"), "{text}");
        assert!(text.contains("| unix | 2 of 3 | 1 of 4 | 10 % | 2 % | read 4K (2) |"), "{text}");
    }

    #[test]
    fn no_runs_no_panic() {
        assert!(kind_text("idle", &[]).contains("0 of 0 groups"));
    }
}
