//! Which factors have an effect: in a workload, over a transport, with the levels of other factors. A named factor
//! without any effect is refused; one without an effect in some cells is collapsed there, with a note.

use bytegauge_model::factor::{self, FACTORS, Factor};
use bytegauge_model::name_tables::TRANSPORTS;
use bytegauge_model::{FactorKey, Level, Spec, Transport, Workload};

use crate::plan::Plan;
use crate::spec::{Part, PlanSpec};
use crate::{PlanError, engines};

/// Whether a factor has no effect with the levels of a combination.
pub(crate) fn is_moot(factor: &Factor, combination: &Spec) -> bool {
    factor.needs.is_some_and(|needs| !(needs.when)(combination))
}

/// The factors whose levels decide whether a factor has an effect.
pub(crate) fn deciders(factor: &Factor) -> &'static [FactorKey] {
    factor.needs.map_or(&[], |needs| needs.with)
}

/// Whether everything that a part names means something with this level.
pub(crate) fn suits_named(part: &Part, factor: &Factor, level: &Level) -> bool {
    let mut levels = Spec::default();
    levels.set(factor.name, level.clone());
    if factor.name == "mode" && engines::names_artefact(part) {
        return engines::shows_artefacts(&levels);
    }
    let named = FACTORS.iter().filter(|other| part.levels.contains_key(other.name));
    named.filter(|other| deciders(other).contains(&factor.key)).all(|other| !is_moot(other, &levels))
}

/// A factor of another workload, or a transport that cannot carry this one, is an error.
pub(crate) fn refuse_what_is_elsewhere(spec: &PlanSpec) -> Result<(), PlanError> {
    let workload = spec.workload;
    for part in &spec.parts {
        let named = part.levels.keys().filter_map(|name| factor::find(name));
        if let Some(factor) = named.into_iter().find(|factor| !factor.is_in(workload)) {
            let flag = factor.flag();
            let other = factor::elsewhere(workload, &flag).unwrap_or(workload);
            return Err(PlanError::not_in_workload(&flag, workload, other));
        }
        if let Some(transport) = part.transports(workload).into_iter().find(|joint| !workload.runs_over(joint)) {
            let carries_not = format!("{transport} does not carry the workload {workload}");
            return PlanError::usage(format!("--transport: {carries_not}: use unix, tcp or tcp6"));
        }
    }
    Ok(())
}

/// A named factor without an effect in any cell is an error.
pub(crate) fn refuse_what_is_moot(plan: &Plan, spec: &PlanSpec) -> Result<(), PlanError> {
    for factor in FACTORS {
        let is_named = || spec.parts.iter().any(|part| part.levels.contains_key(factor.name));
        let is_moot = || plan.cells.iter().all(|cell| cell.factors.level(factor.key) == Level::Absent);
        let brings =
            factor.only_with.iter().find(|key| **key != factor.key).map(|key| format!("--{}", key.row().flag()));
        let needs = factor.needs.map(|needs| needs.text.to_owned()).or(brings);
        if let Some(needs) = needs.filter(|_| is_named() && is_moot()) {
            return Err(PlanError::moot(&factor.flag(), &needs));
        }
    }
    Ok(())
}

/// A named factor that fits no transport is an error.
pub(crate) fn refuse_what_fits_nothing(spec: &PlanSpec) -> Result<(), PlanError> {
    if !spec.workload.has_path() {
        return Ok(());
    }
    for factor in FACTORS {
        let naming: Vec<&Part> = spec.parts.iter().filter(|part| part.levels.contains_key(factor.name)).collect();
        let transports: Vec<Transport> = naming.iter().flat_map(|part| part.transports(spec.workload)).collect();
        if !naming.is_empty() && !transports.iter().any(factor.fits) {
            let shown = transports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let (flag, fits) = (factor.flag(), fits(factor));
            return PlanError::usage(format!("--{flag} fits none of the chosen transports ({shown}): {fits}"));
        }
    }
    Ok(())
}

/// Notes where a named factor with several levels was collapsed.
pub(crate) fn note_collapsed(plan: &mut Plan, spec: &PlanSpec) {
    for factor in FACTORS {
        for part in spec.parts.iter().filter(|part| part.levels.contains_key(factor.name)) {
            for transport in part.transports(spec.workload).into_iter().filter(|transport| !(factor.fits)(transport)) {
                plan.note(format!("{} does not apply to {transport}: collapsed there", factor.flag()));
            }
        }
    }
}

/// The paths of a part: each of its transports, or none if the workload has no path.
pub(crate) fn joints(workload: Workload, part: &Part) -> Vec<Option<Transport>> {
    if workload.has_path() { part.transports(workload).into_iter().map(Some).collect() } else { vec![None] }
}

fn fits(factor: &Factor) -> String {
    let names = TRANSPORTS.iter().map(|row| row.name);
    let fitting: Vec<_> = names.filter(|name| name.parse().is_ok_and(|transport| (factor.fits)(&transport))).collect();
    format!("it applies to {}", fitting.join(", "))
}
