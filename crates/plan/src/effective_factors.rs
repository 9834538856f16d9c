//! Which factors have an effect: in a workload, over a transport, with the levels of other factors. A named factor
//! without any effect is refused; one without an effect in some cells is collapsed there, with a note.

use bytegauge_model::catalog::{Abilities, Batches, ENGINES, EngineEnd, EngineRow, TRANSPORTS};
use bytegauge_model::factor::{self, FACTORS, Factor};
use bytegauge_model::{Engine, Level, RelayMethod, Spec, Transport, Workload};

use crate::error::PlanError;
use crate::plan::Plan;
use crate::spec::{Part, PlanSpec};
use crate::{relay, ring};

/// A factor that has an effect only with certain levels of other factors.
struct Dependent {
    factor: &'static str,
    /// The factors that decide it.
    with: &'static [&'static str],
    /// Whether it has an effect with these levels. The deciding factors come earlier in the table and have the same
    /// role.
    when: fn(&Spec) -> bool,
    /// The change that would give it an effect.
    needs: Needs,
}

enum Needs {
    Text(&'static str),
    /// No search for the highest rate.
    NoSearch,
    /// An engine that can do something.
    Engine(fn(&Abilities) -> bool),
}

const DEPENDENT: &[Dependent] = &[
    Dependent {
        factor: "read_once",
        with: &["connect_per_call"],
        when: |levels| levels.connect_per_call() == Some(true),
        needs: Needs::Text("--connect-per-call on"),
    },
    Dependent { factor: "rate", with: &["max_loss"], when: offers_its_own, needs: Needs::NoSearch },
    Dependent {
        factor: "burst",
        with: &["max_loss"],
        when: offers_its_own,
        needs: Needs::Text("--max-loss none (a search needs a steady sender): leave one of them out"),
    },
    Dependent { factor: "call_rate", with: &["slo"], when: offers_its_own, needs: Needs::NoSearch },
    Dependent { factor: "arrivals", with: &["slo", "call_rate"], when: offers, needs: Needs::Text("--rate or --slo") },
    Dependent { factor: "think_time", with: &["slo"], when: offers_its_own, needs: Needs::NoSearch },
    Dependent {
        factor: "rcvbuf_on",
        with: &["rcvbuf"],
        when: |levels| levels.rcvbuf().is_some(),
        needs: Needs::Text("a size in --rcvbuf"),
    },
    Dependent {
        factor: "server_threads",
        with: &["server_engine"],
        when: |levels| has_threads(levels.server_engine()),
        needs: Needs::Text("another --server-engine"),
    },
    Dependent {
        factor: "client_threads",
        with: &["client_engine"],
        when: |levels| has_threads(levels.client_engine()),
        needs: Needs::Text("another --client-engine"),
    },
    Dependent {
        factor: "every",
        with: &["burst"],
        when: |levels| levels.burst().is_some(),
        needs: Needs::Text("--burst N"),
    },
    Dependent { factor: "direction", with: &[], when: |_| true, needs: Needs::Text("--host HOST:PORT") },
    Dependent { factor: "relay_placement", with: &[], when: |_| true, needs: Needs::Text("--relay METHOD") },
    Dependent {
        factor: "relay_threads",
        with: &["relay"],
        when: |levels| relay::has(levels, RelayMethod::has_threads),
        needs: Needs::Text("a --relay that supports both (read-write, readv-writev, splice, sendfile, hybrid)"),
    },
    Dependent {
        factor: "relay_buffer",
        with: &["relay"],
        when: |levels| relay::has(levels, RelayMethod::has_buffer),
        needs: Needs::Text("a --relay with a buffer (read-write, copy-buffer, hybrid, epoll, …)"),
    },
    Dependent {
        factor: "relay_pipe",
        with: &["relay"],
        when: |levels| relay::has(levels, RelayMethod::has_pipe),
        needs: Needs::Text("a --relay that uses a pipe (splice, sendfile, hybrid)"),
    },
    Dependent {
        factor: "batch",
        with: &["engine", "server_engine"],
        when: |levels| served_by(levels, has_batches),
        needs: Needs::Engine(has_batches),
    },
    Dependent {
        factor: "zerocopy",
        with: &["engine"],
        when: |levels| matches!(levels.engine(), Some(Engine::Blocking | Engine::Epoll(_))),
        needs: Needs::Text("--engine blocking or epoll (for io_uring there is --engine uring:zc)"),
    },
    Dependent {
        factor: "send_from",
        with: &["engine"],
        when: |levels| levels.engine() != Some(Engine::Null),
        needs: Needs::Text("another --engine"),
    },
    Dependent {
        factor: "zerocopy_receive",
        with: &["engine"],
        when: |levels| levels.engine() == Some(Engine::Blocking),
        needs: Needs::Text("--engine blocking"),
    },
    Dependent {
        factor: "inq",
        with: &["engine"],
        when: |levels| levels.engine() == Some(Engine::Blocking),
        needs: Needs::Text("--engine blocking"),
    },
    Dependent {
        factor: "incoming_cpu",
        with: &["reuseport"],
        when: |levels| levels.reuseport() == Some(true),
        needs: Needs::Text("--reuseport on"),
    },
    Dependent {
        factor: "min_wait",
        with: &["engine", "server_engine"],
        when: |levels| {
            let engines = [levels.engine(), levels.server_engine()];
            engines.into_iter().flatten().any(|engine| matches!(engine, Engine::Uring(_)))
        },
        needs: Needs::Text("--engine uring:plain (in call: --server-engine uring:plain)"),
    },
    Dependent {
        factor: "epoll_busy_poll",
        with: &["engine", "server_engine"],
        when: |levels| {
            let engines = [levels.engine(), levels.server_engine()];
            engines.into_iter().flatten().any(|engine| matches!(engine, Engine::Epoll(_)))
        },
        needs: Needs::Text("--engine epoll (in call: --server-engine epoll)"),
    },
    Dependent {
        factor: "outstanding",
        with: &["engine", "server_engine"],
        when: |levels| served_by(levels, keeps_receives),
        needs: Needs::Engine(keeps_receives),
    },
];

/// A search finds its rates itself.
fn offers_its_own(levels: &Spec) -> bool {
    !levels.searches_rate()
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

/// Whether the number of threads differs from the number of flows.
fn has_threads(engine: Option<Engine>) -> bool {
    !engine.is_some_and(Engine::has_thread_a_flow)
}

impl Needs {
    fn text(&self, workload: Workload) -> String {
        match self {
            Needs::Text(text) => (*text).to_owned(),
            Needs::NoSearch => {
                let flag = if workload == Workload::Call { "--slo" } else { "--max-loss" };
                format!("{flag} none (a search sets the rates itself): leave one of them out")
            }
            Needs::Engine(can) => {
                let of = |end: EngineEnd| -> String {
                    let ends = |row: &&EngineRow| {
                        let can_be = [Transport::Udp, Transport::UnixDatagram];
                        can(&row.can) && can_be.iter().any(|transport| row.value.carries(end, transport))
                    };
                    ENGINES.iter().filter(ends).map(|row| row.name).collect::<Vec<_>>().join(" or ")
                };
                format!("--engine {} (in call: --server-engine {})", of(EngineEnd::Stream), of(EngineEnd::Server))
            }
        }
    }
}

/// Tells of a combination whether a factor has no effect with its levels.
pub(crate) fn moot_with(factor: &Factor) -> impl Fn(&Spec) -> bool {
    let name = factor.name;
    let rules: Vec<_> = DEPENDENT.iter().filter(|rule| rule.factor == name).collect();
    move |combination| rules.iter().any(|rule| !(rule.when)(combination))
}

/// The factors whose levels decide whether a factor has an effect.
pub(crate) fn deciders(factor: &Factor) -> impl Iterator<Item = &'static str> {
    let name = factor.name;
    DEPENDENT.iter().filter(move |rule| rule.factor == name).flat_map(|rule| rule.with).copied()
}

/// Whether the levels of a factor decide if another one has an effect.
pub(crate) fn decides(factor: &Factor) -> bool {
    DEPENDENT.iter().any(|rule| rule.with.contains(&factor.name))
}

/// Whether everything that a part names means something with this level.
pub(crate) fn suits_named(part: &Part, factor: &Factor, level: &Level) -> bool {
    let mut levels = Spec::default();
    levels.set(factor.name, level.clone());
    if factor.name == "mode" && ring::names_artefact(part) {
        return ring::shows_artefacts(&levels);
    }
    let named = DEPENDENT.iter().filter(|rule| part.levels.contains_key(rule.factor));
    named.filter(|rule| rule.with.contains(&factor.name)).all(|rule| (rule.when)(&levels))
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

/// A named factor without an effect in any cell is an error.
pub(crate) fn refuse_what_is_moot(plan: &Plan, spec: &PlanSpec) -> Result<(), PlanError> {
    let named = |name: &str| spec.parts.iter().any(|part| part.levels.contains_key(name));
    let moot = |name: &str| plan.cells.iter().all(|cell| cell.factors.get(name) == Level::Absent);
    match DEPENDENT.iter().find(|rule| named(rule.factor) && moot(rule.factor)) {
        None => Ok(()),
        Some(rule) => {
            let flag = factor::find(rule.factor).map_or_else(|| rule.factor.to_owned(), Factor::flag);
            Err(PlanError::Moot { flag, needs: rule.needs.text(spec.workload) })
        }
    }
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
