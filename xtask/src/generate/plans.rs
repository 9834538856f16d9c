//! `docs/plans.md`: the ready plans, resolved as on a machine that lacks nothing.

use std::collections::BTreeSet;

use anyhow::Result;
use bytegauge_model::factor::{FACTORS, Role};
use bytegauge_model::{Level, Nanos};
use bytegauge_plan::{Catalog, Family, Plan, ready, resolve};

use xtask::markdown::{code, table};

const INTRODUCTION: &str = "# Ready plans

`bytegauge run NAME` runs one of these; flags change it (`--read-size 4K..64K`), `--dry-run` prints what it comes to on
your machine. The tables below are for a machine that has every placement and file; what yours lacks is skipped, and
said. Factors that are not named keep the defaults of [factors.md](factors.md). The plans are the files of `plans/`:
copy one to write your own, and run it by its path.
";

/// Orders depend on the seed, and no order is printed here.
const SEED: u64 = 1;

/// The profiles' names stand for these.
const SET_BY_PROFILES: &[&str] = &["work", "working_set", "idle_flows"];

/// The document.
pub fn text() -> Result<String> {
    let mut text = INTRODUCTION.to_owned();
    for (name, _) in ready::PLANS {
        let spec = ready::shown(name)?;
        let plan = resolve(&spec, &Catalog::default(), SEED)?;
        text.push_str(&format!("\n## {name}\n\n{}.\n\n```\nbytegauge run {name}\n```\n\n", capital(&spec.summary)));
        text.push_str(&described(&plan));
    }
    Ok(text)
}

fn described(plan: &Plan) -> String {
    let mut text = String::new();
    for family in &plan.families {
        let rows = levels(plan, family).into_iter().map(|(flag, role, levels)| vec![flag, role.to_owned(), levels]);
        text.push_str(&table(&["factor", "role", "levels"], rows));
        let cells = family.choices * family.groups.len();
        text.push_str(&format!(
            "\n{cells} cells in {} groups, {} confirmed in each, trials of {}.\n\n",
            family.groups.len(),
            family.confirmed(),
            Nanos(family.trial_ns)
        ));
    }
    text.push_str(&time(plan));
    for note in &plan.notes {
        text.push_str(&format!("\nNote: {note}.\n"));
    }
    text
}

/// The levels of each factor in a family that the plan or a profile's name does not leave at its default.
fn levels(plan: &Plan, family: &Family) -> Vec<(String, &'static str, String)> {
    let cells: Vec<_> = plan.cells.iter().filter(|cell| family.groups.contains(&cell.group)).collect();
    let mut rows = Vec::new();
    for factor in FACTORS.iter().filter(|factor| !SET_BY_PROFILES.contains(&factor.name)) {
        let mut seen = BTreeSet::new();
        let levels: Vec<String> = cells
            .iter()
            .map(|cell| cell.factors.get(factor.name))
            .filter(|level| *level != Level::Absent && seen.insert(level.clone()))
            .map(|level| factor.kind.compact(&level))
            .collect();
        let default = factor.default_in(plan.workload).unwrap_or_default();
        let says_something = levels.len() > 1 || levels.first().is_some_and(|level| level != default);
        if says_something {
            let role = if factor.role == Role::Choice { "choice" } else { "condition" };
            rows.push((code(format!("--{}", factor.flag())), role, levels.join(" ")));
        }
    }
    rows
}

fn time(plan: &Plan) -> String {
    let schedule = plan.schedule();
    let stages = [
        ("calibrate", schedule.calibrate_ns),
        ("screen", schedule.screen_ns),
        ("narrow", schedule.narrow_ns),
        ("confirm", schedule.confirm_round_ns * schedule.blocks),
    ];
    let rounded = |ns: u64| format!("{:.1} s", Nanos(ns).seconds());
    let stages: Vec<String> =
        stages.iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name} {}", rounded(*ns))).collect();
    format!(
        "About {} of a budget of {}: {}. {} confirmation blocks.\n",
        rounded(schedule.total_ns()),
        Nanos(plan.budget_ns),
        stages.join(", "),
        schedule.blocks
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ready_plan_has_its_levels_and_its_time() {
        let text = text().unwrap();
        for (name, _) in ready::PLANS {
            assert!(text.contains(&format!("\n## {name}\n")), "{name}");
        }
        assert!(text.contains("| `--read-size` | choice | 1K 2K 4K"), "{text}");
        assert_eq!(text.matches("confirmation blocks.").count(), ready::PLANS.len());
    }
}
