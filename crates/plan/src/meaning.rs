//! Which factors mean something: in a workload, over a transport, beside the levels of others. What was named and
//! means nothing anywhere is refused; what means nothing somewhere is collapsed there, and said.

use bytegauge_model::catalog::{Abilities, Batches, ENGINES, EngineEnd, EngineRow, TRANSPORTS};
use bytegauge_model::factor::{self, FACTORS, Factor};
use bytegauge_model::{Engine, Level, RelayMethod, Spec, Transport, Workload};

use crate::plan::Plan;
use crate::relay;
use crate::spec::{Part, PlanError, PlanSpec};

/// A factor that means something only beside certain levels of others.
struct Dependent {
    factor: &'static str,
    /// The factors of which that is asked.
    beside: &'static [&'static str],
    /// Whether it means something beside these levels: of factors that stand earlier in the table and have the same
    /// role.
    when: fn(&Spec) -> bool,
    /// What a user has to add or to leave out.
    needs: Needs,
}

enum Needs {
    Said(&'static str),
    /// An engine that can do something.
    Engine(fn(&Abilities) -> bool),
}

const DEPENDENT: &[Dependent] = &[
    Dependent {
        factor: "read_once",
        beside: &["connect_per_call"],
        when: |levels| levels.connect_per_call() == Some(true),
        needs: Needs::Said("--connect-per-call on"),
    },
    Dependent { factor: "call_rate", beside: &["slo"], when: offers_its_own, needs: Needs::Said(NO_SEARCH) },
    Dependent {
        factor: "arrivals",
        beside: &["slo", "call_rate"],
        when: offers,
        needs: Needs::Said("--rate or --slo"),
    },
    Dependent { factor: "think_time", beside: &["slo"], when: offers_its_own, needs: Needs::Said(NO_SEARCH) },
    Dependent {
        factor: "rcvbuf_on",
        beside: &["rcvbuf"],
        when: |levels| levels.rcvbuf().is_some(),
        needs: Needs::Said("a size in --rcvbuf"),
    },
    Dependent {
        factor: "server_threads",
        beside: &["server_engine"],
        when: |levels| has_threads(levels.server_engine()),
        needs: Needs::Said("another --server-engine"),
    },
    Dependent {
        factor: "client_threads",
        beside: &["client_engine"],
        when: |levels| has_threads(levels.client_engine()),
        needs: Needs::Said("another --client-engine"),
    },
    Dependent { factor: "direction", beside: &[], when: |_| true, needs: Needs::Said("--host HOST:PORT") },
    Dependent { factor: "relay_placement", beside: &[], when: |_| true, needs: Needs::Said("--relay METHOD") },
    Dependent {
        factor: "relay_threads",
        beside: &["relay"],
        when: |levels| relay::has(levels, RelayMethod::has_threads),
        needs: Needs::Said("a --relay that leaves the choice (read-write, readv-writev, splice, sendfile, hybrid)"),
    },
    Dependent {
        factor: "relay_buffer",
        beside: &["relay"],
        when: |levels| relay::has(levels, RelayMethod::has_buffer),
        needs: Needs::Said("a --relay with a buffer (read-write, copy-buffer, hybrid, epoll, …)"),
    },
    Dependent {
        factor: "relay_pipe",
        beside: &["relay"],
        when: |levels| relay::has(levels, RelayMethod::has_pipe),
        needs: Needs::Said("a --relay that goes through a pipe (splice, sendfile, hybrid)"),
    },
    Dependent {
        factor: "batch",
        beside: &["engine", "server_engine"],
        when: |levels| served_by(levels, has_batches),
        needs: Needs::Engine(has_batches),
    },
    Dependent {
        factor: "outstanding",
        beside: &["engine", "server_engine"],
        when: |levels| served_by(levels, keeps_receives),
        needs: Needs::Engine(keeps_receives),
    },
];

const NO_SEARCH: &str = "--slo none (a search offers rates of its own): leave one of them out";

/// A search finds its rates itself.
fn offers_its_own(levels: &Spec) -> bool {
    levels.slo().is_none()
}

fn offers(levels: &Spec) -> bool {
    levels.slo().is_some() || levels.call_rate().is_some()
}

/// Whether the engine of a stream, or of the server of a call, can do something.
fn served_by(levels: &Spec, can: fn(&Abilities) -> bool) -> bool {
    [levels.engine(), levels.server_engine()].into_iter().flatten().any(|engine| can(engine.can()))
}

fn has_batches(can: &Abilities) -> bool {
    can.batches != Batches::None
}

fn keeps_receives(can: &Abilities) -> bool {
    can.outstanding
}

/// Whether the number of threads is not that of the flows already.
fn has_threads(engine: Option<Engine>) -> bool {
    !engine.is_some_and(Engine::has_thread_a_flow)
}

impl Needs {
    fn text(&self) -> String {
        match self {
            Needs::Said(text) => (*text).to_owned(),
            Needs::Engine(can) => {
                let of = |end: EngineEnd| -> String {
                    let ends = |row: &&EngineRow| {
                        let can_be = [Transport::Udp, Transport::UnixDatagram];
                        can(&row.can) && can_be.iter().any(|transport| row.value.carries(end, transport))
                    };
                    ENGINES.iter().filter(ends).map(|row| row.name).collect::<Vec<_>>().join(" or ")
                };
                format!("--engine {} (of a call: --server-engine {})", of(EngineEnd::Stream), of(EngineEnd::Server))
            }
        }
    }
}

/// Whether a factor means nothing beside the levels of a combination.
pub(crate) fn is_moot(factor: &Factor, combination: &Spec) -> bool {
    let mut rules = DEPENDENT.iter().filter(|rule| rule.factor == factor.name);
    rules.any(|rule| !(rule.when)(combination))
}

/// Whether the levels of a factor decide if another one means something.
pub(crate) fn decides(factor: &Factor) -> bool {
    DEPENDENT.iter().any(|rule| rule.beside.contains(&factor.name))
}

/// A factor of another workload, or a transport that cannot carry this one, is an error.
pub(crate) fn refuse_what_is_elsewhere(spec: &PlanSpec) -> Result<(), PlanError> {
    let workload = spec.workload;
    for part in &spec.parts {
        let named = part.levels.keys().filter_map(|name| factor::find(name));
        if let Some(factor) = named.into_iter().find(|factor| !factor.is_in(workload)) {
            let flag = factor.flag();
            let other = factor::elsewhere(workload, &flag).unwrap_or(workload);
            return Err(PlanError::NotInWorkload { flag, workload, other });
        }
        if let Some(transport) = part.transports(workload).into_iter().find(|joint| !workload.runs_over(joint)) {
            return Err(PlanError::TransportCarriesNot { transport: transport.to_string(), workload });
        }
    }
    Ok(())
}

/// A factor that was named but means nothing beside the levels of any cell is an error.
pub(crate) fn refuse_what_is_moot(plan: &Plan, spec: &PlanSpec) -> Result<(), PlanError> {
    let named = |name: &str| spec.parts.iter().any(|part| part.levels.contains_key(name));
    let moot = |name: &str| plan.cells.iter().all(|cell| cell.factors.get(name) == Level::Absent);
    match DEPENDENT.iter().find(|rule| named(rule.factor) && moot(rule.factor)) {
        None => Ok(()),
        Some(rule) => {
            let flag = factor::find(rule.factor).map_or_else(|| rule.factor.to_owned(), Factor::flag);
            Err(PlanError::Moot { flag, needs: rule.needs.text() })
        }
    }
}

/// A factor that was named but fits no transport at all is an error.
pub(crate) fn refuse_what_fits_nothing(spec: &PlanSpec) -> Result<(), PlanError> {
    if !spec.workload.has_path() {
        return Ok(());
    }
    for factor in FACTORS {
        let naming: Vec<&Part> = spec.parts.iter().filter(|part| part.levels.contains_key(factor.name)).collect();
        let transports: Vec<Transport> = naming.iter().flat_map(|part| part.transports(spec.workload)).collect();
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
pub(crate) fn note_collapsed(plan: &mut Plan, spec: &PlanSpec) {
    for factor in FACTORS {
        for part in spec.parts.iter().filter(|part| part.levels.contains_key(factor.name)) {
            for transport in part.transports(spec.workload).into_iter().filter(|transport| !(factor.fits)(transport)) {
                plan.note(format!("{} does not apply to {transport}: collapsed there", factor.flag()));
            }
        }
    }
}

/// What joins the ends in a part: each of its transports, or nothing at all where there is no path.
pub(crate) fn joints(workload: Workload, part: &Part) -> Vec<Option<Transport>> {
    if workload.has_path() { part.transports(workload).into_iter().map(Some).collect() } else { vec![None] }
}

fn fits(factor: &Factor) -> String {
    let names = TRANSPORTS.iter().map(|row| row.name);
    let fitting: Vec<_> = names.filter(|name| name.parse().is_ok_and(|transport| (factor.fits)(&transport))).collect();
    format!("it applies to {}", fitting.join(", "))
}
