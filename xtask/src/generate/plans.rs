//! `docs/plans.md`: the ready plans, resolved as on a machine with every feature.

use anyhow::Result;
use bytegauge_model::Nanos;
use bytegauge_plan::{Catalog, Plan, built_in, resolve};

use xtask::markdown::{code, table};

const INTRODUCTION: &str = "# Built-in plans

`bytegauge run NAME` runs one of these plans. `--dry-run` prints what it measures on your machine, and flags change it
(`--read-size 4K..64K`). The plans are the files of `crates/plan/plans/`: copy one to write your own, and run it by its path.

The table is for a machine that has every CPU and file that a plan uses. If yours lacks something, its options are skipped with the reason.

";

/// Only orders depend on the seed, and none is printed here.
const SEED: u64 = 1;

/// The document.
pub fn text() -> Result<String> {
    let mut rows = Vec::new();
    for (name, _) in built_in::PLANS {
        let spec = built_in::shown(name)?;
        let plan = resolve(&spec, &Catalog::default(), SEED)?;
        rows.push(row(name, &spec.summary, &plan));
    }
    Ok(format!("{INTRODUCTION}{}", table(&["plan", "measures", "tests", "options", "time"], rows)))
}

/// The row of a plan.
fn row(name: &str, summary: &str, plan: &Plan) -> Vec<String> {
    let options: usize = plan.families.iter().map(|family| family.choices * family.groups.len()).sum();
    vec![
        code(name),
        summary.to_owned(),
        plan.groups.len().to_string(),
        options.to_string(),
        format!("{:.0} s", Nanos(plan.schedule().total_ns()).seconds()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_has_a_row() {
        let text = text().unwrap();
        for (name, _) in built_in::PLANS {
            assert!(text.contains(&format!("\n| `{name}` | ")), "{name}");
        }
    }
}
