//! Which factors mean something: in a workload, over a transport, beside the levels of others. What was named and
//! means nothing anywhere is refused; what means nothing somewhere is collapsed there, and said.

use bytegauge_model::factor::{self, FACTORS, Factor};
use bytegauge_model::{Level, Levels, Transport, Workload};

use crate::resolve::Plan;
use crate::spec::{Part, PlanError, Spec};

/// A factor that means something only beside certain levels of another one.
struct Dependent {
    factor: &'static str,
    /// The other one, which stands earlier in the table and has the same role.
    on: &'static str,
    /// Whether the factor means something beside this level of the other one.
    when: fn(&Level) -> bool,
    /// What a user has to add.
    needs: &'static str,
}

const DEPENDENT: &[Dependent] = &[
    Dependent { factor: "arrivals", on: "call_rate", when: |rate| rate.number().is_some(), needs: "--rate" },
    Dependent { factor: "rcvbuf_on", on: "rcvbuf", when: |size| size.number().is_some(), needs: "a size in --rcvbuf" },
    Dependent { factor: "server_threads", on: "server_engine", when: has_threads, needs: "another --server-engine" },
    Dependent { factor: "client_threads", on: "client_engine", when: has_threads, needs: "another --client-engine" },
];

/// A blocking engine has as many threads as flows, whatever is asked for.
fn has_threads(engine: &Level) -> bool {
    engine.name() != Some("blocking")
}

/// Whether a factor means nothing beside the levels of a combination.
pub(crate) fn is_moot(factor: &Factor, combination: &Levels) -> bool {
    let mut rules = DEPENDENT.iter().filter(|rule| rule.factor == factor.name);
    rules.any(|rule| !(rule.when)(combination.get(rule.on)))
}

/// A factor of another workload, or a transport that cannot carry this one, is an error.
pub(crate) fn refuse_what_is_elsewhere(spec: &Spec) -> Result<(), PlanError> {
    let workload = spec.workload;
    for part in &spec.parts {
        let named = part.levels.keys().filter_map(|name| factor::find(name));
        if let Some(factor) = named.into_iter().find(|factor| !factor.is_in(workload)) {
            let flag = factor.flag();
            let other = factor::elsewhere(workload, &flag).unwrap_or(workload);
            return Err(PlanError::NotInWorkload { flag, workload, other });
        }
        if let Some(transport) = transports(workload, part).into_iter().find(|joint| !workload.runs_over(joint)) {
            return Err(PlanError::TransportCarriesNot { transport: transport.to_string(), workload });
        }
    }
    Ok(())
}

/// A factor that was named but means nothing beside the levels of any cell is an error.
pub(crate) fn refuse_what_is_moot(plan: &Plan, spec: &Spec) -> Result<(), PlanError> {
    let named = |name: &str| spec.parts.iter().any(|part| part.levels.contains_key(name));
    let moot = |name: &str| plan.cells.iter().all(|cell| *cell.factors.get(name) == Level::Absent);
    match DEPENDENT.iter().find(|rule| named(rule.factor) && moot(rule.factor)) {
        None => Ok(()),
        Some(rule) => Err(PlanError::Moot { flag: rule.factor.replace('_', "-"), needs: rule.needs }),
    }
}

/// A factor that was named but fits no transport at all is an error.
pub(crate) fn refuse_what_fits_nothing(spec: &Spec) -> Result<(), PlanError> {
    if !spec.workload.has_path() {
        return Ok(());
    }
    for factor in FACTORS {
        let naming: Vec<&Part> = spec.parts.iter().filter(|part| part.levels.contains_key(factor.name)).collect();
        let transports: Vec<Transport> = naming.iter().flat_map(|part| transports(spec.workload, part)).collect();
        if !naming.is_empty() && !transports.iter().any(factor.fits) {
            let shown: Vec<String> = transports.iter().map(ToString::to_string).collect();
            return Err(PlanError::FitsNothing {
                flag: factor.flag(),
                transports: shown.join(", "),
                fits: fits(factor),
            });
        }
    }
    Ok(())
}

/// Says where a named factor with several levels was collapsed to nothing.
pub(crate) fn note_collapsed(plan: &mut Plan, spec: &Spec) {
    for factor in FACTORS {
        for part in spec.parts.iter().filter(|part| part.levels.contains_key(factor.name)) {
            for transport in transports(spec.workload, part).into_iter().filter(|transport| !(factor.fits)(transport)) {
                let note = format!("{} does not apply to {transport}: collapsed there", factor.flag());
                if !plan.notes.contains(&note) {
                    plan.notes.push(note);
                }
            }
        }
    }
}

/// What joins the ends in a part: each of its transports, or nothing at all where there is no path.
pub(crate) fn joints(workload: Workload, part: &Part) -> Vec<Option<Transport>> {
    if workload.has_path() { transports(workload, part).into_iter().map(Some).collect() } else { vec![None] }
}

/// The transports of a part; none where there is no path.
pub(crate) fn transports(workload: Workload, part: &Part) -> Vec<Transport> {
    part.levels(workload, &FACTORS[0]).iter().filter_map(|level| level.name()?.parse().ok()).collect()
}

fn fits(factor: &Factor) -> String {
    let names = ["unix", "tcp", "tcp6", "pipe"];
    let fitting: Vec<_> =
        names.into_iter().filter(|name| name.parse().is_ok_and(|transport| (factor.fits)(&transport))).collect();
    format!("it applies to {}", fitting.join(", "))
}
