//! Questions about the levels of cells: by which of them cells are matched, and which of them vary.

use bytegauge_model::{Level, Role, Spec};

/// Whether the cell's engine moves no bytes, or its ring is none.
pub fn moves_nothing(levels: &Spec) -> bool {
    ["engine", "server_engine", "client_engine", "implementation"]
        .iter()
        .any(|engine| levels.get(engine).name() == Some("null"))
}

/// The levels by which cells and groups of different sessions are matched: all, or those of a role. Older sessions do not state
/// their workload.
pub fn matching(levels: &Spec, role: Option<Role>) -> Spec {
    let of_role = role.map_or_else(|| levels.clone(), |role| levels.of_role(role));
    let mut matching = of_role.with_workload(levels.workload());
    matching.drop_absent();
    matching
}

/// Factors that have more than one level among the cells of which they are counted, in the order of the factor table.
/// Where a factor does not exist it has no level: a device compared with sockets varies no socket option.
pub fn varied(levels: &[&Spec], counts: impl Fn(&Spec, &str) -> bool) -> Vec<String> {
    let varies = |name: &str| {
        let counted = levels.iter().filter(|levels| counts(levels, name)).map(|levels| levels.get(name));
        let mut present = counted.filter(|level| *level != Level::Absent);
        present.next().is_some_and(|first| present.any(|other| other != first))
    };
    bytegauge_model::FACTORS.iter().filter(|factor| varies(factor.name)).map(|factor| factor.name.to_owned()).collect()
}

/// Whether a choice leaves everything that varies to the system.
pub fn is_default(levels: &Spec, varied: &[String]) -> bool {
    !varied.is_empty() && varied.iter().all(|factor| levels.get(factor).is_auto())
}
