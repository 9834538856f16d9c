//! Compares two sides in one session: each is resolved to one cell, then both are joined in one group, whose blocks visit both.
//!
//! The sides may differ in a condition as well: over two transports the question is which one is faster, not which
//! setting to choose. So the group's conditions are those that they share. The offered load must be the same, since a
//! comparison of different loads would mean something else.

use bytegauge_model::{CellId, Factor, Spec, Versus, VersusSide, factor};

use crate::PlanError;
use crate::design::{Finalists, OVERRUN_STATED, OVERRUN_UNSTATED};
use crate::plan::Plan;

/// The name of a session of two.
pub const AB: &str = "ab";

/// Factors that decide which cost is compared, and for how long: equal on both sides.
const ALIKE: &[&str] = &["rate", "call_rate", "think_time", "slo", "max_loss", "burst", "every", "duration"];

impl Plan {
    /// Compares the only two cells of a plan of a program.
    ///
    /// # Errors
    /// If there are not two.
    pub fn against_each_other(mut self, words: [String; 2]) -> Result<Plan, PlanError> {
        let [a, b] = &self.cells[..] else {
            return PlanError::usage(format!(
                "a comparison needs two cells, but the plan has {}: give two values",
                self.cells.len()
            ));
        };
        self.versus = Some(versus([&a.id, &b.id], words));
        // A long-trial check would run the same program again.
        self.audit = 0.0;
        Ok(self)
    }

    /// Compares this plan's only cell with the other's.
    ///
    /// # Errors
    /// When a side is not one cell, when they are not of one workload or under one load, and when a side cannot be
    /// measured here.
    pub fn against(mut self, mut other: Plan, words: [String; 2]) -> Result<Plan, PlanError> {
        for (side, plan) in [("--a", &self), ("--b", &other)] {
            only_cell(side, plan)?;
        }
        if self.workload != other.workload {
            return PlanError::usage(format!(
                "--a is a {}, --b a {}: compare two of one workload",
                self.workload, other.workload
            ));
        }
        let (a, b) = (&self.cells[0].factors, &other.cells[0].factors);
        if let Some(name) = ALIKE.iter().find(|name| a.get(name) != b.get(name)) {
            return PlanError::usage(format!(
                "--a and --b have different values of --{}, which decides what is compared: give both the same",
                factor::find(name).map_or_else(|| (*name).into(), Factor::flag)
            ));
        }
        self.groups[0].factors = shared(&self.groups[0].factors, &other.groups[0].factors);
        let mut cell = other.cells.remove(0);
        cell.id = CellId("c2".into());
        cell.group = self.groups[0].id.clone();
        self.versus = Some(versus([&self.cells[0].id, &cell.id], words));
        self.cells.push(cell);
        let family = &mut self.families[0];
        (family.choices, family.finalists) = (2, Finalists::All);
        family.screened.clear();
        family.trial_ns = family.trial_ns.max(other.families[0].trial_ns);
        self.audit = 0.0;
        self.artefacts.clear();
        other.notes.into_iter().for_each(|note| self.note(note));
        self.fit_or_refuse(if self.budget_is_stated() { OVERRUN_STATED } else { OVERRUN_UNSTATED })?;
        Ok(self)
    }
}

fn versus([a, b]: [&CellId; 2], [a_words, b_words]: [String; 2]) -> Versus {
    let side = |cell: &CellId, words| VersusSide { cell: cell.clone(), words };
    Versus { a: side(a, a_words), b: side(b, b_words) }
}

fn only_cell(side: &str, plan: &Plan) -> Result<(), PlanError> {
    if let [_] = &plan.cells[..] {
        return Ok(());
    }
    let levels = |name: &str| {
        let mut levels: Vec<_> = plan.cells.iter().map(|cell| cell.factors.get(name)).collect();
        levels.sort();
        levels.dedup();
        levels.len()
    };
    let several: Vec<String> =
        factor::of(plan.workload).filter(|row| levels(row.name) > 1).map(|row| format!("--{}", row.flag())).collect();
    PlanError::usage(format!(
        "{side} has {} cells, but needs one: give one level each to {}",
        plan.cells.len(),
        several.join(", ")
    ))
}

/// Conditions that both sides have.
fn shared(a: &Spec, b: &Spec) -> Spec {
    let mut shared = a.clone();
    shared.retain(|name| a.get(name) == b.get(name));
    shared
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{WORKLOADS, Workload};

    use super::*;
    use crate::{Catalog, PlanSpec, resolve};

    fn side(workload: Workload, flags: &[(&str, &str)]) -> Plan {
        let mut spec = PlanSpec::named(AB, workload);
        let flags: Vec<_> =
            flags.iter().map(|(name, text)| (factor::find(name).unwrap(), (*text).to_owned())).collect();
        spec.set_all(&flags).unwrap();
        spec.leave_one_level();
        resolve(&spec, &Catalog::default(), 1).unwrap()
    }

    fn words() -> [String; 2] {
        ["a", "b"].map(str::to_owned)
    }

    #[test]
    fn unnamed_factors_have_one_level() {
        for row in WORKLOADS.iter().filter(|row| row.value != Workload::Tune) {
            assert_eq!(side(row.value, &[]).cells.len(), 1, "{}", row.name);
        }
        for transport in ["unix", "udp", "pipe", "/dev/zero"] {
            assert_eq!(side(Workload::Stream, &[("transport", transport)]).cells.len(), 1, "{transport}");
        }
        assert_eq!(side(Workload::Stream, &[("work", "sum")]).cells.len(), 1);
        // No option applies to an external server.
        for place in ["127.0.0.1:7000", "unix:/run/a.sock"] {
            for workload in [Workload::Call, Workload::Stream] {
                assert_eq!(side(workload, &[("connect", place)]).cells.len(), 1, "{place}");
            }
        }
    }

    #[test]
    fn both_sides_are_cells_of_one_group() {
        let unix = side(Workload::Stream, &[("transport", "unix")]);
        let plan = unix.against(side(Workload::Stream, &[("read_size", "4K")]), words()).unwrap();
        assert_eq!((plan.groups.len(), plan.families.len(), plan.cells.len()), (1, 1, 2));
        assert!(plan.cells.iter().all(|cell| cell.group == plan.groups[0].id));
        assert_eq!(plan.groups[0].factors.transport(), None);
        assert!(plan.groups[0].factors.placement().is_some());
        let versus = plan.versus.as_ref().unwrap();
        assert_eq!((&versus.a.cell, &versus.b.cell), (&plan.cells[0].id, &plan.cells[1].id));
        assert!(plan.schedule().blocks >= plan.design.blocks_min && !plan.families[0].is_screened());
        // Equal sides are a useful test: they show how large a difference chance makes.
        let same = side(Workload::Stream, &[]).against(side(Workload::Stream, &[]), words()).unwrap();
        assert_eq!((same.cells.len(), &same.cells[0].factors), (2, &same.cells[1].factors));
    }

    #[test]
    fn incomparable_sides_are_refused() {
        let check = |a: Plan, b: Plan, expected: &str| {
            let error = a.against(b, words()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let stream = |flags: &[(&str, &str)]| side(Workload::Stream, flags);
        check(stream(&[("read_size", "4K,8K")]), stream(&[]), "--a has 2 cells, but needs one");
        check(stream(&[]), stream(&[("read_size", "4K,8K")]), "give one level each to --read-size");
        check(stream(&[]), side(Workload::Call, &[]), "--a is a stream, --b a call");
        check(stream(&[]), stream(&[("rate", "1G")]), "different values of --rate");
    }
}
