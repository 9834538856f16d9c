//! `docs/plans.md`: the ready plans, resolved as on a machine with every feature.

use std::collections::BTreeSet;

use anyhow::Result;
use bytegauge_model::factor::{FACTORS, Role};
use bytegauge_model::{Level, Nanos};
use bytegauge_plan::{Catalog, Family, Plan, built_in, resolve};

use xtask::markdown::{code, table};

const INTRODUCTION: &str = "# Built-in plans

`bytegauge run NAME` runs one of these plans. Flags change it (`--read-size 4K..64K`), and `--dry-run` prints what it
measures on your machine. The plans are the files of `crates/plan/plans/`: copy one to write your own, and run it by its path.

The tables are for a machine that has every CPU and file that a plan uses. If your machine lacks something, its options are skipped with the reason.
Factors that are not listed have the defaults of [factors.md](factors.md).

";

/// Only orders depend on the seed, and none is printed here.
const SEED: u64 = 1;

/// Factors that profiles set.
const SET_BY_PROFILES: &[&str] = &["work", "working_set", "idle_flows"];

/// More rows than this become one row that lists all levels.
const ROWS_MAX: usize = 6;

/// The document.
pub fn text() -> Result<String> {
    let mut rows = Vec::new();
    let mut sections = String::new();
    for (name, _) in built_in::PLANS {
        let spec = built_in::shown(name)?;
        let plan = resolve(&spec, &Catalog::default(), SEED)?;
        rows.push(overview(name, &spec.summary, &plan));
        sections.push_str(&format!("\n## {name}\n\n"));
        let tests = tests(&plan).into_iter().map(|test| vec![listed(&test.settings), listed(&test.options)]);
        sections.push_str(&table(&["conditions and fixed settings", "options compared"], tests));
    }
    let headings = ["plan", "measures", "tests", "options", "blocks", "time"];
    Ok(format!("{INTRODUCTION}{}{sections}", table(&headings, rows)))
}

/// The row of a plan in the first table.
fn overview(name: &str, summary: &str, plan: &Plan) -> Vec<String> {
    let schedule = plan.schedule();
    let options: usize = plan.families.iter().map(|family| family.choices * family.groups.len()).sum();
    vec![
        format!("[{name}](#{name})"),
        summary.to_owned(),
        plan.groups.len().to_string(),
        options.to_string(),
        schedule.blocks.to_string(),
        format!("{:.0} s", Nanos(schedule.total_ns()).seconds()),
    ]
}

/// The flag and the levels of each factor that a plan does not leave at its default, in the order of the factors.
type LevelsByFlag = Vec<(String, Vec<String>)>;

/// Tests of a plan that compare the same options.
#[derive(Clone, PartialEq)]
struct PlanRow {
    settings: LevelsByFlag,
    options: LevelsByFlag,
}

/// The tests of a plan. Those with the same options share a row, and a plan with many rows has one.
fn tests(plan: &Plan) -> Vec<PlanRow> {
    let mut rows: Vec<PlanRow> = Vec::new();
    for family in &plan.families {
        let test = family_tests(plan, family);
        match rows.iter_mut().find(|row| row.options == test.options) {
            Some(row) => row.settings = merged(&row.settings, &test.settings),
            None => rows.push(test),
        }
    }
    if rows.len() <= ROWS_MAX {
        return rows;
    }
    let all = rows.into_iter().reduce(|all, row| PlanRow {
        settings: merged(&all.settings, &row.settings),
        options: merged(&all.options, &row.options),
    });
    all.into_iter().collect()
}

fn family_tests(plan: &Plan, family: &Family) -> PlanRow {
    let cells: Vec<_> = plan.cells.iter().filter(|cell| family.groups.contains(&cell.group)).collect();
    let compared: Vec<Level> = cells.iter().map(|cell| cell.factors.get("compare")).collect();
    let mut tests = PlanRow { settings: Vec::new(), options: Vec::new() };
    for factor in FACTORS.iter().filter(|factor| !SET_BY_PROFILES.contains(&factor.name)) {
        let mut seen = BTreeSet::new();
        let levels: Vec<String> = cells
            .iter()
            .map(|cell| cell.factors.get(factor.name))
            .filter(|level| *level != Level::Absent && seen.insert(level.clone()))
            .map(|level| factor.kind.compact(&level))
            .collect();
        let default = factor.default_in(plan.workload).unwrap_or_default();
        let is_compared = factor.role == Role::Choice || compared.contains(&Level::Name(factor.name.into()));
        if levels.len() > 1 && is_compared {
            tests.options.push((factor.flag(), levels));
        } else if levels.len() > 1 || levels.first().is_some_and(|level| level != default) {
            tests.settings.push((factor.flag(), levels));
        }
    }
    tests
}

/// The levels of both, in the order of their flags.
fn merged(one: &LevelsByFlag, other: &LevelsByFlag) -> LevelsByFlag {
    let mut all = one.clone();
    for (flag, levels) in other {
        match all.iter_mut().find(|(known, _)| known == flag) {
            Some((_, known)) => {
                known.extend(levels.iter().filter(|level| !known.contains(level)).cloned().collect::<Vec<_>>());
            }
            None => all.push((flag.clone(), levels.clone())),
        }
    }
    all
}

fn listed(levels: &LevelsByFlag) -> String {
    let flags = levels.iter().map(|(flag, levels)| code(format!("--{flag} {}", levels.join(","))));
    flags.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_has_a_row_and_its_levels() {
        let text = text().unwrap();
        for (name, _) in built_in::PLANS {
            assert!(text.contains(&format!("\n| [{name}](#{name}) | ")), "{name}");
            let section = text.split(&format!("\n## {name}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
            assert!(section.contains("`--") && section.lines().count() <= ROWS_MAX + 4, "{section}");
        }
        assert!(text.contains("`--read-size 1K,2K,4K"), "{text}");
    }
}
