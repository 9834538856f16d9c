//! One visit to another host: every option is measured once, in random order, over one session at its agent; streams that
//! load the path of calls have another session. An external server is visited without a session.
//!
//! A mesh measures each pair of hosts with it. It has no stages and no store: which pairs are measured, how often and
//! what the numbers mean is decided by the caller, over many visits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::session::Stage;
use bytegauge_model::{Cell, Ends, FactorKey, Outcome, Place, Spec, Transport, Trial};
use bytegauge_plan::block_order;
use bytegauge_sys::clock::unix_ns;
use bytegauge_traffic::path::Ticket;
use bytegauge_traffic::setup::GRACE_NS;
use bytegauge_traffic::{EndError, EndPool, RemoteHost, Setup, VisitLimits};

use crate::trial;

/// The parameters of a visit, in addition to its cells.
#[derive(Clone, Debug)]
pub struct PairVisit {
    /// This program's own file, for ends that are processes.
    pub program: PathBuf,
    /// Threads or processes.
    pub ends: Ends,
    /// Whether the content of all bytes is checked at the receiver.
    pub verify: bool,
    /// Warm-up of each trial, nanoseconds.
    pub warmup_ns: u64,
    /// Length of each trial unless a cell's `duration` states another one, nanoseconds.
    pub window_ns: u64,
    /// Seed of the order of the cells.
    pub seed: u64,
    /// Limits of the ends of this host.
    pub limits: Arc<dyn VisitLimits>,
    /// The number of the visit, from 0: part of the seed, and the block of its trials.
    pub number: u64,
}

/// The other end of all cells of a visit.
#[derive(Clone, Debug)]
pub enum VisitPartner {
    /// The agent of these links, one or two.
    Agent(Vec<Arc<dyn RemoteHost>>),
    /// An external server.
    Server(Place),
}

impl VisitPartner {
    fn links(&self) -> &[Arc<dyn RemoteHost>] {
        match self {
            VisitPartner::Agent(links) => links,
            VisitPartner::Server(_) => &[],
        }
    }

    /// The levels of a cell with its other end at this partner.
    fn place(&self, factors: &Spec) -> Spec {
        let mut factors = factors.clone();
        match self {
            VisitPartner::Agent(links) => {
                let agent = links.first().map(|link| link.agent());
                match agent {
                    Some(agent) => factors.put(FactorKey::host, Place::Ip(agent)),
                    None => factors.clear(FactorKey::host),
                }
                // The plan does not know by which version of IP the hosts reach each other.
                let by_ipv6 = match factors.transport() {
                    Some(Transport::Tcp) => Some(Transport::Tcp6),
                    Some(Transport::Udp) => Some(Transport::Udp6),
                    _ => None,
                };
                if let Some(transport) = by_ipv6.filter(|_| agent.is_some_and(|agent| agent.is_ipv6())) {
                    factors.put(FactorKey::transport, transport);
                }
            }
            VisitPartner::Server(place) => factors.put(FactorKey::connect, place.clone()),
        }
        factors
    }
}

impl PairVisit {
    /// Whether a visit needs a second link to the agent: a cell loads the path of its calls.
    pub fn needs_second_link<'a>(mut cells: impl Iterator<Item = &'a Cell>) -> bool {
        cells.any(|cell| cell.factors.load_flows().is_some_and(|flows| flows > 0))
    }

    /// Measures every cell once with a partner. Stops early when `stop` is set: then the trial that it interrupted is missing, and
    /// so are those after it.
    pub fn measure(&self, cells: &[Cell], partner: &VisitPartner, stop: &AtomicBool) -> Vec<Trial> {
        let links = partner.links();
        let mut pool = self.pool(links);
        let mut trials = Vec::with_capacity(cells.len());
        for (position, cell) in block_order::order(cells.len(), self.seed, self.number).into_iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let cell = &cells[cell];
            let started_unix_ns = unix_ns();
            let setup = match self.setup(&partner.place(&cell.factors)) {
                Ok(setup) => setup,
                Err(fault) => {
                    trials.push(unmeasured(cell, self.number, position as u32, fault.outcome()));
                    continue;
                }
            };
            let Some(measured) = trial::measure(&mut pool, &setup, stop) else { break };
            if !measured.ends_are_sound {
                pool = self.pool(links);
            }
            let place = unmeasured(cell, self.number, position as u32, Outcome::Measured);
            trials.push(measured.recorded(&setup, Trial { started_unix_ns, ..place }));
        }
        trials
    }

    fn pool(&self, links: &[Arc<dyn RemoteHost>]) -> EndPool {
        EndPool::new(self.ends, &self.program).with_links(links.to_vec())
    }

    fn setup(&self, factors: &Spec) -> Result<Setup, EndError> {
        let mut setup = Setup::of(factors)?;
        if let Some(far) = setup.far.as_mut() {
            far.ticket = Ticket::fresh()?;
        }
        let window_ns = factors.duration().unwrap_or(self.window_ns);
        let seed = self.seed ^ self.number;
        let (warmup_ns, verify) = (self.warmup_ns, self.verify);
        let setup = Setup { warmup_ns, window_ns, verify, seed, grace_ns: GRACE_NS, ..setup };
        // The cells may come from another host: a key holder must not run programs here or reach other hosts.
        self.limits.allow_visit(&setup).map_err(EndError::Missing)?;
        if let Some(load) = setup.load()? {
            self.limits.allow_visit(&load).map_err(EndError::Missing)?;
        }
        Ok(setup)
    }
}

/// A trial of a cell without numbers.
fn unmeasured(cell: &Cell, block: u64, position: u32, outcome: Outcome) -> Trial {
    let trial = Trial::without_numbers(cell.id.clone(), cell.factors.workload(), Stage::Confirm, outcome);
    Trial { block, position, started_unix_ns: unix_ns(), ..trial }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Unlimited;

    impl VisitLimits for Unlimited {
        fn allow_visit(&self, _setup: &Setup) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn content_is_checked_on_demand() {
        let levels = [("transport", "tcp"), ("host", "192.0.2.1:9"), ("direction", "to"), ("engine", "blocking")];
        let mut levels = Spec::from(levels.map(|(name, level)| (name, level.into())));
        levels.set("read_size", 4096.into());
        levels.set("write_size", 4096.into());
        for verify in [false, true] {
            let visit = PairVisit {
                program: PathBuf::new(),
                ends: Ends::Threads,
                verify,
                warmup_ns: 1,
                window_ns: 1_000_000,
                seed: 1,
                limits: Arc::new(Unlimited),
                number: 0,
            };
            assert_eq!(visit.setup(&levels).unwrap().verify, verify);
        }
    }
}
