//! The ready plans resolve to the same groups and cells as when `frozen.txt` was written.
//!
//! The file names the factors that there were then, so that a new factor leaves it as it is. A ready plan that changes needs
//! a new line: the failure prints it.

use std::collections::BTreeMap;
use std::hash::Hasher;

use bytegauge_model::{Cell, Group, Level, Spec};
use bytegauge_plan::{Catalog, Plan, built_in, resolve};

const FROZEN: &str = include_str!("frozen.txt");

/// FNV-1a, which no version of Rust changes.
struct Digest(u64);

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// The name of a plan, the number of its groups, cells and families, and a digest of what they hold.
fn line(plan: &Plan, factors: &[&str]) -> String {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    let stated = |levels: &Spec| {
        let levels: BTreeMap<String, Level> = levels.clone().into();
        let known = levels.into_iter().filter(|(name, _)| factors.contains(&name.as_str()));
        known.map(|(name, level)| format!("{name}={level:?} ")).collect::<String>()
    };
    for Group { id, factors } in &plan.groups {
        digest.write(format!("{id} {}\n", stated(factors)).as_bytes());
    }
    for Cell { id, group, kind, factors, .. } in plan.cells.iter().chain(&plan.artefacts) {
        digest.write(format!("{id} {group} {kind:?} {}\n", stated(factors)).as_bytes());
    }
    for family in &plan.families {
        // The brackets are a list that families had once.
        digest.write(format!("{:?} {:?} []\n", family.groups, family.screened).as_bytes());
    }
    let (groups, cells) = (plan.groups.len(), plan.cells.len());
    format!("{} {groups} {cells} {} {:016x}", plan.name, plan.families.len(), digest.finish())
}

#[test]
fn ready_plans_resolve_as_before() {
    let mut lines = FROZEN.lines();
    let factors: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let resolved: Vec<String> = built_in::PLANS
        .iter()
        .map(|(name, _)| line(&resolve(&built_in::shown(name).unwrap(), &Catalog::default(), 1).unwrap(), &factors))
        .collect();
    let frozen: Vec<&str> = lines.collect();
    assert_eq!(resolved.join("\n"), frozen.join("\n"));
}
