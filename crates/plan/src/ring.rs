//! The requirements of a ring: batches that fit it, no factors of bytes, and artefacts that are shown but never
//! compared.

use bytegauge_model::{CellKind, Implementation, Level, Mode, Spec, UserData, Workload, factor};

use crate::error::PlanError;
use crate::plan::Plan;
use crate::spec::{Part, PlanSpec};

/// Whether a batch does not fit the ring that a combination makes.
pub(crate) fn is_too_large(combination: &Spec) -> bool {
    combination.submit_batch().zip(combination.entries()).is_some_and(|(batch, entries)| batch > entries)
}

/// Whether a combination is an artefact, which is only shown.
pub(crate) fn is_artefact(combination: &Spec) -> bool {
    let implementation = combination.implementation();
    implementation.is_some_and(Implementation::is_artefact)
}

/// Whether a part names an artefact.
pub(crate) fn names_artefact(part: &Part) -> bool {
    let named = part.levels.get("implementation").into_iter().flatten();
    named.filter_map(Level::parsed::<Implementation>).any(Implementation::is_artefact)
}

/// Whether an artefact has anything to show under these conditions: a loop that takes no completion checks none, and
/// sets no user data that it would never see again.
pub(crate) fn shows_artefacts(conditions: &Spec) -> bool {
    conditions.mode() == Some(Mode::Ceiling) && conditions.user_data() == Some(UserData::None)
}

/// Notes the artefacts.
pub(crate) fn note_artefacts(plan: &mut Plan) {
    let artefacts = plan.artefacts.iter().filter(|cell| cell.kind == CellKind::Artefact);
    if let Some(artefact) = artefacts.clone().next() {
        let (count, name) = (artefacts.count(), artefact.factors.get("implementation"));
        plan.notes.push(format!("{name} is shown for reference ({count} cells) and never compared"));
    }
}

/// Comparison of bytes where none move.
pub(crate) const NO_BYTES: &str =
    "--verify checks bytes, and nothing here moves bytes: leave it out (for a ring, use --mode checked)";

/// Refuses a batch that fits no ring of its part, and a comparison of bytes where none move.
pub(crate) fn refuse_what_no_ring_can(spec: &PlanSpec) -> Result<(), PlanError> {
    if spec.workload != Workload::Ring {
        return Ok(());
    }
    if spec.verify {
        return Err(PlanError::Usage(NO_BYTES.into()));
    }
    for part in &spec.parts {
        let most = |name: &str| {
            let levels = factor::find(name).map(|factor| part.levels(spec.workload, factor, None)).unwrap_or_default();
            levels.iter().filter_map(Level::number).max()
        };
        if let (Some(batch), Some(entries)) = (most("submit_batch"), most("entries"))
            && batch > entries
        {
            return Err(PlanError::Usage(format!(
                "--submit-batch: {batch} operations do not fit a ring of {entries} --entries: use {entries} or fewer, or auto"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;
    use crate::{Catalog, resolve};

    fn plan_with(text: &str, catalog: &Catalog) -> Result<Plan, PlanError> {
        resolve(&parse("t", &format!("workload = \"ring\"\n{text}")).unwrap(), catalog, 1)
    }

    fn plan(text: &str) -> Result<Plan, PlanError> {
        plan_with(text, &Catalog::default())
    }

    fn check_error(text: &str, expected: &str) {
        assert_eq!(plan(text).expect_err(text).to_string(), expected, "{text}");
    }

    #[test]
    fn a_ring_has_no_path_but_own_factors() {
        let plan = plan("").unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len()), (2, 2 * 8 * 3 * 2));
        for cell in &plan.cells {
            assert_eq!((cell.factors.workload(), cell.factors.transport()), (Workload::Ring, None));
            assert!(
                factor::of(Workload::Ring).all(|factor| cell.factors.get(factor.name) != Level::Absent),
                "{cell:?}"
            );
        }
        assert_eq!(plan.families.len(), 2);
    }

    #[test]
    fn what_no_ring_can_do_is_refused() {
        check_error(
            "entries = 64\nsubmit-batch = 128",
            "--submit-batch: 128 operations do not fit a ring of 64 --entries: use 64 or fewer, or auto",
        );
        check_error(
            "verify = true",
            "--verify checks bytes, and nothing here moves bytes: leave it out (for a ring, use --mode checked)",
        );
        check_error(
            "implementation = \"liburing-undrained\"",
            "--implementation liburing-undrained is an artefact, only shown with others, in mode ceiling without user \
             data, and never measured alone: add liburing to --implementation",
        );
        let error = parse("t", "workload = \"ring\"\ntransport = \"tcp\"").unwrap_err().to_string();
        assert!(error.starts_with("--transport has no meaning in the workload ring"), "{error}");
    }

    #[test]
    fn too_large_batches_are_left_out() {
        let plan =
            plan("entries = [1, 64]\nsubmit-batch = [1, 64]\nimplementation = \"raw\"\nsetup = \"coop\"").unwrap();
        let each: Vec<_> = plan
            .cells
            .iter()
            .map(|c| ["entries", "submit_batch"].map(|name| c.factors.get(name).to_string()))
            .collect();
        assert_eq!(each[..3], [["1", "1"], ["64", "1"], ["64", "64"]].map(|pair| pair.map(str::to_owned)));
        assert!(plan.notes.iter().any(|note| note.contains("left out")), "{:?}", plan.notes);
    }

    #[test]
    fn artefacts_are_shown_where_they_apply() {
        let text = "entries = 64\nimplementation = \"raw,liburing-undrained\"\nsetup = \"default\"\nuser-data = \"none,unique\"\nalso = \"mode\"";
        let plan = plan(text).unwrap();
        assert_eq!(plan.cells.len(), 4);
        let [artefact] = &plan.artefacts[..] else { panic!("{:?}", plan.artefacts) };
        assert_eq!(artefact.kind, CellKind::Artefact);
        assert!(shows_artefacts(&artefact.factors));
        assert_eq!(plan.measurable(&artefact.group).count(), 1);
        assert_eq!(plan.artefacts_of(&artefact.group).count(), 1);
    }

    #[test]
    fn a_missing_ring_is_skipped_with_its_reason() {
        let lack = |setup: &str| (("raw".to_owned(), setup.to_owned()), format!("no {setup} here"));
        let text = "entries = 64\nmode = \"ceiling\"\nimplementation = \"raw\"\nsetup = \"default,coop\"";
        let some = Catalog { missing_rings: [lack("coop")].into(), ..Catalog::default() };
        let plan = plan_with(text, &some).unwrap();
        assert_eq!(plan.skipped.len(), 1);
        assert_eq!(plan.notes, ["skipped: no coop here"]);
        let all = Catalog { missing_rings: [lack("coop"), lack("default")].into(), ..Catalog::default() };
        let error = plan_with(text, &all).unwrap_err().to_string();
        assert_eq!(error, "nothing of this plan can be measured here: no default here");
    }
}
