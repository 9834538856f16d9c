//! `cargo lab tournament`: measures the options that several stored sessions recommended, in one session with long trials.
//!
//! Is every significant result within its margin of the best of all? The entrants of a test are the options that each session
//! recommended, and that each estimated as the best. Sizes that belong to none of them are in the crossing as well. The session
//! is the product's (`bytegauge run` of a plan that is written here) and is stored with the others. This module only counts.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use bytegauge_model::unit::significant;
use bytegauge_model::{Level, factor};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Map, Value};

use crate::program::{self, ProgramWithStore};
use crate::section;
use xtask::markdown::table;
use xtask::steps;

const SECTION: &str = "tournament";

/// The plan's name, by which the session is found again.
const PLAN: &str = "tournament";

/// Conditions that a profile sets, and the length of trials, which is the tournament's own.
const NOT_WRITTEN: [&str; 4] = ["work", "working_set", "idle_flows", "duration"];

/// `cargo lab tournament`.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let switch =
        |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("tournament")
        .about("Measure the recommendations of stored sessions against each other, and count how many hold")
        .arg(
            Arg::new("session")
                .value_name("SESSION")
                .num_args(0..)
                .value_parser(value_parser!(i64))
                .help("Sessions of one workload, instead of all in the store"),
        )
        .arg(text("store", "PATH", "Result store [default: that of real-life, in target/]"))
        .arg(text("budget", "TIME", "Time until the first analysis").default_value("10m"))
        .arg(text("trial", "TIME", "Length of a trial").default_value("250ms"))
        .arg(switch("resume", "Continue the last tournament to its next analysis"))
        .arg(switch("report-only", "Only count the last tournament"))
        .arg(switch("no-write", "Print the section, write no file"))
}

/// Measures and counts.
///
/// # Errors
/// When bytegauge cannot be built or run, sessions do not fit together, or the document cannot be written.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let program = ProgramWithStore::of(matches)?;
    let ids = || anyhow::Ok(program::ids(program.ask(&["sessions"])?.lines()));
    let named: BTreeSet<i64> = matches.get_many("session").into_iter().flatten().copied().collect();
    let (mut runs, mut last) = (Vec::new(), None);
    for id in ids()? {
        let report = program.report(id)?;
        match report["plan"]["name"] == PLAN {
            true => last = Some(id),
            false if named.is_empty() || named.contains(&id) => runs.push(report),
            false => {}
        }
    }
    ensure!(
        runs.len() >= 2,
        "two sessions at least: measure some with `cargo lab real-life`, or name others by --store"
    );
    let questions = questions(&runs)?;
    if !matches.get_flag("report-only") {
        let given = |name: &str| matches.get_one::<String>(name).with_context(|| format!("--{name} has a default"));
        let file = program.store.with_file_name("tournament.toml");
        std::fs::write(&file, plan(&questions, &runs[0], given("trial")?)?).context("writing the plan")?;
        let mut command = program.command();
        command.arg("run").arg(&file).args(["--time", given("budget")?]);
        command.args(matches.get_flag("resume").then_some("--resume"));
        command.args(["--quiet", "--format", "csv"]).stdout(std::process::Stdio::null());
        steps::visible(&mut command).context("running bytegauge")?;
        last = ids()?.last().copied();
    }
    let last = program.report(last.context("there is no tournament in the store yet")?)?;
    let text = text(&questions, &runs, &last, &section::today()?);
    section::of_verification(SECTION, &text, matches.get_flag("no-write"))
}

/// The levels of factors, as the document has them.
type LevelsByName = Map<String, Value>;

/// The result of one session for a test.
struct Claim {
    /// The name of its plan, which contains its circumstance.
    plan: String,
    named: LevelsByName,
    best: LevelsByName,
    proven: bool,
    margin: f64,
    /// Its bound: how much slower than the best it is at most.
    bound: Option<f64>,
}

/// One test of several sessions.
struct Question {
    label: String,
    conditions: LevelsByName,
    claims: Vec<Claim>,
}

impl Question {
    /// The options that were recommended or estimated as the best, each once.
    fn entrants(&self) -> Vec<&LevelsByName> {
        let mut entrants: Vec<&LevelsByName> = Vec::new();
        for choice in self.claims.iter().flat_map(|claim| [&claim.named, &claim.best]) {
            if !entrants.contains(&choice) {
                entrants.push(choice);
            }
        }
        entrants
    }

    fn is_contested(&self) -> bool {
        self.entrants().len() > 1
    }
}

/// The tests that more than one session measured.
fn questions(runs: &[Value]) -> Result<Vec<Question>> {
    let mut questions: Vec<Question> = Vec::new();
    for run in runs {
        for (name, of) in [("workload", "workload"), ("ends", "kind of ends")] {
            let (here, there) = (&run["plan"][name], &runs[0]["plan"][name]);
            ensure!(
                here == there,
                "session {} has another {of} than session {}: name sessions that agree",
                run["session"],
                runs[0]["session"]
            );
        }
        for group in list(&run["groups"]) {
            let recommendation = &group["recommendation"];
            let (Some(named), Some(best)) =
                (choice(run, group, &recommendation["cell"]), choice(run, group, &recommendation["best"]))
            else {
                continue;
            };
            let claim = Claim {
                plan: run["plan"]["name"].as_str().unwrap_or("?").to_owned(),
                named,
                best,
                proven: recommendation["proven"] == true,
                margin: recommendation["margin"].as_f64().unwrap_or(0.05),
                bound: recommendation["bound"].as_f64(),
            };
            let Some(conditions) = group["factors"].as_object() else { continue };
            match questions.iter_mut().find(|question| question.conditions == *conditions) {
                Some(question) => question.claims.push(claim),
                None => questions.push(Question {
                    label: group["label"].as_str().unwrap_or("?").to_owned(),
                    conditions: conditions.clone(),
                    claims: vec![claim],
                }),
            }
        }
    }
    questions.retain(|question| question.claims.len() > 1);
    Ok(questions)
}

/// The levels of a cell that are not its group's.
fn choice(report: &Value, group: &Value, id: &Value) -> Option<LevelsByName> {
    id.as_str()?;
    let cell = list(&report["cells"]).find(|cell| cell["id"] == *id)?;
    let levels = cell["factors"].as_object()?.iter();
    Some(
        levels.filter(|(name, level)| group["factors"][name] != **level).map(|(n, l)| (n.clone(), l.clone())).collect(),
    )
}

/// The plan of the tournament: a part for each test with at least two entrants.
fn plan(questions: &[Question], of: &Value, trial: &str) -> Result<String> {
    let text = |name: &str| of["plan"][name].as_str().unwrap_or_default().to_owned();
    let mut plan = format!("name = \"{PLAN}\"\nworkload = \"{}\"\n", text("workload"));
    if !text("ends").is_empty() {
        plan.push_str(&format!("ends = \"{}\"\n", text("ends")));
    }
    plan.push_str("long-trials = false\nfinalists = \"all\"\n");
    for question in questions.iter().filter(|question| question.is_contested()) {
        let mut levels: BTreeMap<&String, Vec<String>> = BTreeMap::new();
        for (name, level) in question.entrants().into_iter().flatten().chain(&question.conditions) {
            let level = written(name, level).with_context(|| format!("{name} of {}", question.label))?;
            let there = levels.entry(name).or_default();
            if let Some(level) = level.filter(|level| !there.contains(level)) {
                there.push(level);
            }
        }
        plan.push_str(&format!("\n# {}\n[[part]]\ntrial-time = \"{trial}\"\n", question.label));
        // Factors at their default everywhere are left out.
        for (name, levels) in levels.iter().filter(|(_, levels)| levels.iter().any(|level| level != "auto")) {
            plan.push_str(&format!("{name} = \"{}\"\n", levels.join(",")));
        }
    }
    ensure!(
        plan.contains("[[part]]"),
        "all sessions recommend the same option in every test: there is nothing to compare"
    );
    Ok(plan)
}

/// A level as a plan takes it; `None` where there is none, or something else sets it.
fn written(name: &str, level: &Value) -> Result<Option<String>> {
    let factor = factor::find(name).context("is no factor")?;
    let level: Level = serde_json::from_value(level.clone()).context("has no such level")?;
    let is_written = level != Level::Absent && !NOT_WRITTEN.contains(&name);
    Ok(is_written.then(|| factor.kind.compact(&level)))
}

/// Counts of claims.
#[derive(Default)]
struct Count {
    claims: usize,
    within: usize,
    shown: usize,
    refuted: usize,
    worst: f64,
}

impl Count {
    /// Counts a claim that an option is slower than the best by at most `limit`.
    fn add(&mut self, field: &Field<'_>, named: &LevelsByName, limit: f64) {
        let Some(above) = field.above_best(named) else { return };
        self.claims += 1;
        self.within += usize::from(above.median <= limit);
        self.shown += usize::from(above.upper.is_some_and(|upper| upper <= limit));
        self.refuted += usize::from(above.lower.is_some_and(|lower| lower > limit));
        self.worst = self.worst.max(above.median);
    }
}

/// How much slower it is than the best of all.
struct Above {
    median: f64,
    lower: Option<f64>,
    upper: Option<f64>,
}

/// One test in the tournament.
struct Field<'a> {
    cells: Vec<&'a Value>,
    blocks: u64,
    best: f64,
}

impl<'a> Field<'a> {
    fn of(question: &Question, last: &'a Value) -> Option<Field<'a>> {
        let same = |group: &&Value| {
            let there = group["factors"].as_object();
            question
                .conditions
                .iter()
                .all(|(name, level)| name == "duration" || there.is_some_and(|of| of.get(name) == Some(level)))
        };
        let group = list(&last["groups"]).find(same)?;
        let cells = list(&last["cells"])
            .filter(|cell| cell["group"] == group["id"] && cell["kind"] == "candidate" && cell["stage"] == "confirm");
        let cells: Vec<&Value> = cells.collect();
        let best = cells.iter().filter_map(|cell| cell["estimate"]["median"].as_f64()).reduce(f64::max)?;
        Some(Field { cells, blocks: group["blocks"]["used"].as_u64().unwrap_or(0), best })
    }

    fn above_best(&self, named: &LevelsByName) -> Option<Above> {
        let cell = self.cells.iter().find(|cell| named.iter().all(|(name, level)| cell["factors"][name] == *level))?;
        Some(Above {
            median: self.best / cell["estimate"]["median"].as_f64()? - 1.0,
            lower: cell["above_best_lower"].as_f64(),
            upper: cell["above_best_upper"].as_f64(),
        })
    }
}

/// The section.
fn text(questions: &[Question], runs: &[Value], last: &Value, date: &str) -> String {
    let (mut proven, mut bounds, mut rows) = (Count::default(), Count::default(), Vec::new());
    let mut plans: BTreeMap<&str, (Count, Count)> = BTreeMap::new();
    let mut uncontested = 0;
    for question in questions {
        let of_proven = question.claims.iter().filter(|claim| claim.proven);
        let Some(field) = Field::of(question, last).filter(|_| question.is_contested()) else {
            uncontested += of_proven.count();
            continue;
        };
        let mut here = Count::default();
        for claim in of_proven {
            here.add(&field, &claim.named, claim.margin);
            proven.add(&field, &claim.named, claim.margin);
            plans.entry(&claim.plan).or_default().0.add(&field, &claim.named, claim.margin);
        }
        let mut all = Count::default();
        for (claim, bound) in question.claims.iter().filter_map(|claim| Some((claim, claim.bound?))) {
            all.add(&field, &claim.named, bound);
            bounds.add(&field, &claim.named, bound);
            plans.entry(&claim.plan).or_default().1.add(&field, &claim.named, bound);
        }
        rows.push(vec![
            question.label.clone(),
            format!("{} of {}", question.claims.iter().filter(|claim| claim.proven).count(), question.claims.len()),
            question.entrants().len().to_string(),
            field.blocks.to_string(),
            format!("{} of {}", here.within, here.claims),
            here.refuted.to_string(),
            format!("{} of {}", all.within, all.claims),
            format!("{} %", significant(all.worst.max(here.worst) * 100.0, 2)),
        ]);
    }
    let mut text = format!(
        "Made by `cargo lab tournament` on {date}: the options that {} sessions recommended or estimated as best, compared \
         in one session with long trials.\n\n\
         {} significant results have a competitor: {} are within their margin of the best of all by the median (aim: 95 %), {} \
         are significantly within it, {} are significantly beyond it. {} significant results have no competitor. For {} bounds: {} hold \
         by the median, {} are significantly exceeded.\n\n",
        runs.len(),
        proven.claims,
        proven.within,
        proven.shown,
        proven.refuted,
        uncontested,
        bounds.claims,
        bounds.within,
        bounds.refuted,
    );
    text.push_str(&table(
        &["plan", "significant and within", "significant and refuted", "bounds that hold", "bounds exceeded", "worst"],
        plans.into_iter().map(|(plan, (proven, bounds))| {
            vec![
                plan.to_owned(),
                format!("{} of {}", proven.within, proven.claims),
                proven.refuted.to_string(),
                format!("{} of {}", bounds.within, bounds.claims),
                bounds.refuted.to_string(),
                format!("{} %", significant(bounds.worst.max(proven.worst) * 100.0, 2)),
            ]
        }),
    ));
    text.push('\n');
    text.push_str(&table(
        &[
            "test",
            "significant",
            "entrants",
            "blocks",
            "significant and within",
            "significant and refuted",
            "bounds that hold",
            "worst",
        ],
        rows,
    ));
    text
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A session that recommended one read size and estimated another as the best.
    fn run(session: i64, named: u64, best: u64, proven: bool) -> Value {
        let conditions = json!({"transport": "tcp", "profile": "sum", "work": "sum", "think_time": 0, "duration": "auto",
            "read_size": null, "write_size": 16_384, "congestion": "auto"});
        let cell = |id: &str, size: u64| {
            let mut factors = conditions.clone();
            factors["read_size"] = json!(size);
            json!({"id": id, "group": "g1", "kind": "candidate", "factors": factors})
        };
        json!({
            "session": session,
            "plan": {"name": "buffer-size", "workload": "stream", "ends": "threads"},
            "groups": [{"id": "g1", "label": "tcp", "factors": conditions, "recommendation":
                {"cell": "c1", "best": "c2", "proven": proven, "margin": 0.05, "bound": 0.04}}],
            "cells": [cell("c1", named), cell("c2", best)],
        })
    }

    fn tournament(rates: &[(u64, f64, [f64; 2])]) -> Value {
        let mut last = run(9, 0, 0, false);
        last["groups"][0]["factors"]["duration"] = json!(250_000_000);
        last["groups"][0]["blocks"] = json!({"used": 12});
        let cells = rates.iter().map(|(size, rate, bounds)| {
            json!({"group": "g1", "kind": "candidate", "stage": "confirm", "factors": {"read_size": size},
                "estimate": {"median": rate}, "above_best_lower": bounds[0], "above_best_upper": bounds[1]})
        });
        last["cells"] = cells.collect();
        last
    }

    #[test]
    fn the_plan_of_the_tournament_is_valid() {
        let questions = questions(&[run(1, 65_536, 65_536, true), run(2, 4096, 1 << 20, true)]).unwrap();
        let text = plan(&questions, &run(1, 0, 0, true), "250ms").unwrap();
        for line in
            ["read_size = \"64K,4K,1M\"", "write_size = \"16K\"", "think_time = \"0ns\"", "trial-time = \"250ms\""]
        {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("work =") && !text.contains("congestion"), "{text}");
        let spec = bytegauge_plan::file::parse("tournament.toml", &text).unwrap();
        let plan = bytegauge_plan::resolve(&spec, &bytegauge_plan::Catalog::default(), 1).unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len()), (1, 3));
    }

    #[test]
    fn results_are_compared_with_the_best() {
        let runs = [run(1, 65_536, 65_536, true), run(2, 4096, 1 << 20, true), run(3, 1 << 20, 1 << 20, false)];
        let questions = questions(&runs).unwrap();
        let last = tournament(&[(4096, 3.0, [0.2, 0.5]), (65_536, 4.0, [0.0, 0.02]), (1 << 20, 3.9, [0.0, 0.2])]);
        let section = text(&questions, &runs, &last, "2030-01-02");
        assert!(
            section.contains(
                "2 significant results have a competitor: 1 are within their margin of the best of all by the median \
             (aim: 95 %), 1 are significantly within it, 1 are significantly beyond it."
            ),
            "{section}"
        );
        assert!(section.contains("For 3 bounds: 2 hold by the median, 1 are significantly exceeded."), "{section}");
        assert!(section.contains("| buffer-size | 1 of 2 | 1 | 2 of 3 | 1 | 33 % |"), "{section}");
        assert!(section.contains("| tcp | 2 of 3 | 3 | 12 | 1 of 2 | 1 | 2 of 3 | 33 % |"), "{section}");
    }

    #[test]
    fn results_without_a_competitor_are_counted() {
        let runs = [run(1, 65_536, 65_536, true), run(2, 65_536, 65_536, true)];
        let questions = questions(&runs).unwrap();
        assert!(plan(&questions, &runs[0], "250ms").unwrap_err().to_string().contains("nothing to compare"));
        let section = text(&questions, &runs, &tournament(&[]), "2030-01-02");
        assert!(
            section.contains("0 significant results have a competitor")
                && section.contains("2 significant results have no competitor"),
            "{section}"
        );
        let mut other = run(2, 4096, 4096, true);
        other["plan"]["ends"] = json!("processes");
        assert!(super::questions(&[run(1, 4096, 4096, true), other]).is_err());
    }
}
