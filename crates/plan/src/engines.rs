//! Matches engines with transports: bytes and datagrams have different engines. An engine that fits none of the
//! plan's transports is refused. One that fits some of them is left out of the others, with a note.

use bytegauge_model::catalog::ENGINES;
use bytegauge_model::factor::{FACTORS, Factor};
use bytegauge_model::{Engine, Level, Transport};

use crate::error::PlanError;
use crate::plan::Plan;
use crate::spec::{Part, PlanSpec};

/// An engine that was named and suits none of the transports, or a transport that none of them suits, is an error.
pub(crate) fn refuse_what_suits_nothing(spec: &PlanSpec) -> Result<(), PlanError> {
    for part in &spec.parts {
        let transports = part.transports(spec.workload);
        for (factor, levels) in named(part) {
            let unused =
                levels.iter().find(|level| !transports.iter().any(|transport| suits(factor, level, transport)));
            if let (Some(level), Some(transport)) = (unused, transports.first()) {
                return refused(factor, level, transport);
            }
            let bare = transports.iter().find(|transport| !levels.iter().any(|level| suits(factor, level, transport)));
            if let (Some(transport), Some(level)) = (bare, levels.first()) {
                return refused(factor, level, transport);
            }
        }
    }
    Ok(())
}

/// Notes where named engines are left out.
pub(crate) fn note_left_out(plan: &mut Plan, spec: &PlanSpec) {
    for part in &spec.parts {
        for transport in part.transports(spec.workload) {
            for (factor, levels) in named(part) {
                for level in levels.iter().filter(|level| !suits(factor, level, &transport)) {
                    plan.note(format!("engine {level} does not carry {transport}: left out there"));
                }
            }
        }
    }
}

/// The factors that name an engine, and the levels that a part names of each.
fn named(part: &Part) -> impl Iterator<Item = (&'static Factor, &Vec<Level>)> {
    let naming = FACTORS.iter().filter(|factor| factor.engine_of.is_some());
    naming.filter_map(|factor| Some((factor, part.levels.get(factor.name)?)))
}

/// Whether a level means something over a transport: an engine may not suit it.
pub(crate) fn suits(factor: &Factor, level: &Level, transport: &Transport) -> bool {
    let engine = level.parsed::<Engine>().zip(factor.engine_of);
    engine.is_none_or(|(engine, end)| engine.carries(end, transport))
}

fn refused(factor: &Factor, level: &Level, transport: &Transport) -> Result<(), PlanError> {
    let carries = |engine: Engine| factor.engine_of.is_some_and(|end| engine.carries(end, transport));
    let others = ENGINES.iter().filter(|row| row.value != Engine::Null && carries(row.value));
    let (flag, fitting) = (factor.flag(), others.map(|row| row.name).collect::<Vec<_>>().join(", "));
    Err(PlanError::Usage(format!("--{flag}: {level} does not carry {transport}: use one of {fitting}")))
}

#[cfg(test)]
mod tests {
    use crate::capabilities::Catalog;
    use crate::error::PlanError;
    use crate::file::parse;
    use crate::{Plan, resolve};

    fn plan_of(text: &str) -> Result<Plan, PlanError> {
        resolve(&parse("t", text).unwrap(), &Catalog::default(), 1)
    }

    fn engines(text: &str) -> Vec<String> {
        let plan = plan_of(text).unwrap();
        let mut engines: Vec<String> = Vec::new();
        for cell in &plan.cells {
            let shown = format!("{} {}", cell.factors.get("transport"), cell.factors.get("engine"));
            if !engines.contains(&shown) {
                engines.push(shown);
            }
        }
        engines
    }

    #[test]
    fn each_transport_has_a_default_that_suits_it() {
        assert_eq!(
            engines("transport = \"tcp,udp,unix-dgram\""),
            ["tcp blocking", "udp plain", "udp mmsg", "udp gso", "unix-dgram plain", "unix-dgram mmsg"]
        );
    }

    #[test]
    fn named_engines_are_used_where_they_fit() {
        let text = "transport = \"tcp,udp\"\nengine = \"blocking,mmsg\"";
        assert_eq!(engines(text), ["tcp blocking", "udp mmsg"]);
        let mut notes = plan_of(text).unwrap().notes;
        notes.retain(|note| note.contains("left out"));
        assert_eq!(
            notes[..2],
            ["engine mmsg does not carry tcp: left out there", "engine blocking does not carry udp: left out there"]
        );
    }

    #[test]
    fn an_unfit_engine_is_refused_with_fitting_ones() {
        let check = |text: &str, expected: &str| {
            assert_eq!(plan_of(text).expect_err(text).to_string(), expected, "{text}");
        };
        check(
            "transport = \"udp\"\nengine = \"tokio\"",
            "--engine: tokio does not carry udp: use one of uring:plain, uring:multishot, plain, mmsg, gso",
        );
        check(
            "transport = \"unix-dgram\"\nengine = \"plain,gso\"",
            "--engine: gso does not carry unix-dgram: use one of uring:plain, uring:multishot, plain, mmsg",
        );
        let error = plan_of("transport = \"tcp\"\nengine = \"gso\"").unwrap_err().to_string();
        assert!(error.starts_with("--engine: gso does not carry tcp: use one of blocking, epoll"), "{error}");
        let error = plan_of("transport = \"tcp,udp\"\nengine = \"mmsg\"").unwrap_err().to_string();
        assert!(error.starts_with("--engine: mmsg does not carry tcp: use one of"), "{error}");
    }

    #[test]
    fn a_missing_engine_is_skipped_with_its_reason() {
        let lacks = |engine: &str, reason: &str| (engine.to_owned(), reason.to_owned());
        let disabled = "engine uring:plain: io_uring is disabled (kernel.io_uring_disabled)";
        let catalog = Catalog {
            missing_engines: [lacks("uring:plain", disabled), lacks("gso", "engine gso: no UDP_SEGMENT")].into(),
            ..Catalog::default()
        };
        let text = "transport = \"udp\"\nprofile = \"drain\"\nwrite-size = 1000\nengine = \"plain,gso,uring:plain\"";
        let plan = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap();
        assert_eq!(plan.notes, ["skipped: engine gso: no UDP_SEGMENT".to_owned(), format!("skipped: {disabled}")]);
        assert_eq!((plan.cells.len(), plan.skipped.len()), (3, 2));
    }
}
