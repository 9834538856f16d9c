//! The settings of one trial as sent to its ends: the spec of the cell, and those that the trial adds.
//!
//! Ends, transports, relays and calls read the spec through the methods in `crate::setup_levels`, which have the defaults.
//! Nothing here is a copy of a level. However a setup is made or received, its spec has every level that has no default.
//!
//! Also the limits of an end ([`Bound`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytegauge_model::{Direction, EndRole, Engine, FactorKey, Fill, Level, ProgramTask, Spec, Work, Workload};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::EndError;
use crate::address::{Address, Host};
use crate::end::ProgramNetworks;
use crate::path::{FarPath, Ticket};
use crate::planted_fault::PlantedFault;

/// How long an end may be late before it counts as stalled.
pub const GRACE_NS: u64 = 5_000_000_000;

/// Bytes of a read and of a write of the streams that load a path.
const LOAD_BYTES: u64 = 128 << 10;

/// All settings that the ends need for one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Setup {
    /// The levels of the cell.
    pub spec: Spec,
    /// The user's program, of a trial that runs one. The spec has its value and its time limit.
    pub program: Option<ProgramTask>,
    /// The networks in which the program and its server are started; `None`: in that of the end.
    pub networks: Option<ProgramNetworks>,
    /// How long the program's server may take until it is ready, nanoseconds; `None`: as long as a run.
    pub ready_ns: Option<u64>,
    /// The host of the end that receives this: where it binds its sockets.
    #[serde(default)]
    pub host: Host,
    /// The agents of a path over several hosts.
    pub far: Option<FarPath>,
    /// Warm-up before the window, nanoseconds.
    pub warmup_ns: u64,
    /// Length of the window, nanoseconds.
    pub window_ns: u64,
    /// Whether bins are kept.
    pub series: bool,
    /// Whether every byte is compared with the pattern.
    pub verify: bool,
    /// Seed of the pattern.
    pub seed: u64,
    /// The CPUs of each end's flows, cyclically; an end without any is left to the scheduler.
    pub cpus: BTreeMap<EndRole, Vec<usize>>,
    /// How long past its schedule an end may take before the watchdog ends it, nanoseconds.
    pub grace_ns: u64,
    /// Whether clients continue after their window until they are stopped, as competing clients do.
    #[serde(default)]
    pub until_stopped: bool,
    /// Whether a run under more load has shown that the engines run in their modes: few calls need not show it again.
    #[serde(default)]
    pub modes_are_shown: bool,
    /// Time that the reader of a stream spins after each read instead of the work of the spec, nanoseconds: the known slowdown
    /// of the self-test.
    pub slowdown_ns: Option<f64>,
    /// A planted fault, for tests.
    pub plant: Option<PlantedFault>,
    /// The limits of the end, if the owner of its host sets any.
    pub bound: Option<Bound>,
}

impl Serialize for Setup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Setup::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Setup {
    /// A setup from another process or host is checked as one that is made here.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Setup, D::Error> {
        let setup = Setup::deserialize(deserializer)?;
        setup.check().map_err(D::Error::custom)?;
        Ok(setup)
    }
}

impl Setup {
    /// A trial of a cell. Values that the harness adds (warm-up, window, CPUs, seed) stay neutral.
    ///
    /// # Errors
    /// [`EndError::Impossible`] if the spec lacks a level that the ends need: past planning, that is a bug.
    pub fn of(spec: &Spec) -> Result<Setup, EndError> {
        let mut setup = Setup::unchecked(spec.clone());
        setup.check()?;
        setup.far = FarPath::of(&setup)?;
        Ok(setup)
    }

    /// A run of a user's program, with the value and the time limit of a spec.
    pub fn of_program(spec: &Spec, program: &ProgramTask) -> Setup {
        let spec = spec.clone().with_workload(Workload::Tune);
        Setup { program: Some(program.clone()), ..Setup::unchecked(spec) }
    }

    /// The settings of the kernel for the networks of the program, by their files below `/proc/sys`.
    pub(crate) fn program_options(&self) -> Vec<(String, String)> {
        let changes = self.program.as_ref().and_then(|program| program.changes.as_ref());
        changes.map_or_else(Vec::new, |changes| changes.sysctls_of(&self.spec.value().unwrap_or(Level::Absent)))
    }

    /// A trial of a cell whose spec may lack levels.
    pub(crate) fn unchecked(spec: Spec) -> Setup {
        let workload = spec.workload();
        Setup { spec: spec.with_workload(workload), grace_ns: GRACE_NS, ..Setup::default() }
    }

    /// Checks that the spec has every level without a default.
    fn check(&self) -> Result<(), EndError> {
        let spec = &self.spec;
        let impossible = |what: String| Err(EndError::Impossible(what));
        let missing = |name: &str| impossible(format!("a cell without {name}"));
        spec.connect().map(Address::of).transpose()?;
        match spec.workload() {
            Workload::Tune if self.program.is_none() => missing("a program"),
            Workload::Ring if spec.implementation().is_none() => missing("implementation"),
            Workload::Ring if spec.entries().is_none() => missing("entries"),
            Workload::Ring if self.submit_batch() == 0 || self.submit_batch() > self.entries() => {
                impossible(format!("{} operations do not fit a ring of {}", self.submit_batch(), self.entries()))
            }
            Workload::Stream | Workload::Call if spec.transport().is_none() => missing("a known transport"),
            Workload::Call if spec.request().is_none() => missing("request"),
            // The harness's own loop has a level here too, `auto`, where other cells have an external reader.
            Workload::Stream if spec.read_size().is_none() && spec.level(FactorKey::connect) == Level::Absent => {
                missing("read_size")
            }
            Workload::Stream if self.transport().two_ended() && spec.write_size().is_none() => missing("write_size"),
            _ => Ok(()),
        }
    }

    /// The streams that load the path of this trial of calls, in both directions at once; `None` without a load.
    ///
    /// # Errors
    /// [`EndError::Missing`] without random numbers for the ticket of a path to another host.
    pub fn load(&self) -> Result<Option<Setup>, EndError> {
        if self.workload() != Workload::Call || self.load_flows() == 0 {
            return Ok(None);
        }
        let path =
            |name: &str| ["transport", "host", "link_delay", "link_loss", "link_rate", "congestion"].contains(&name);
        let mut spec = self.spec.clone().with_workload(Workload::Stream);
        spec.retain(path);
        spec.set_level(FactorKey::flows, self.spec.level(FactorKey::load_flows));
        spec.put(FactorKey::direction, Direction::Both);
        spec.put(FactorKey::read_size, LOAD_BYTES);
        spec.put(FactorKey::write_size, LOAD_BYTES);
        spec.put(FactorKey::engine, Engine::Blocking);
        let far = match self.far {
            Some(far) => Some(FarPath { ticket: Ticket::fresh()?, ..far }),
            None => None,
        };
        let Setup { warmup_ns, window_ns, grace_ns, host, bound, .. } = *self;
        let seed = !self.seed;
        let load = Setup { far, seed, bound, warmup_ns, window_ns, grace_ns, host, ..Setup::unchecked(spec) };
        load.check()?;
        Ok(Some(load))
    }

    /// Whether an end spins as simulated work, whose step is to be measured first.
    pub(crate) fn spins(&self) -> bool {
        matches!(self.spec.writer_work(), Some(Fill::NsPerByte(_)))
            || matches!(self.work(), Work::NsPerByte(_))
            || self.call_work_ns() > 0
    }

    /// The CPU that a flow is pinned to at one of its ends.
    pub fn cpu(&self, role: EndRole, flow: usize) -> Option<usize> {
        let cpus = self.cpus.get(&role)?;
        cpus.get(flow % cpus.len().max(1)).copied()
    }
}

// Limits of an end, regardless of the measuring host's commands: how many bytes it moves, and until when.
//
// An agent limits the ends that it runs (`Bound`, in their setup). Each thread's meter checks once per lap, and so does the
// draining after the window: the limit is exceeded by at most the bytes of a lap, about a millisecond.

/// The limits of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Bytes of all its threads, both ways, from the first on.
    pub bytes: u64,
    /// Time after `Go`, nanoseconds.
    pub lasts_ns: u64,
}

/// The use of a limit, shared by the threads of an end.
#[derive(Debug)]
pub(crate) struct TransferLimit {
    bound: Bound,
    moved: AtomicU64,
    /// A moment of the monotonic clock, once it is known.
    until_ns: AtomicU64,
}

impl TransferLimit {
    pub(crate) fn new(bound: Bound) -> TransferLimit {
        TransferLimit { bound, moved: AtomicU64::new(0), until_ns: AtomicU64::new(u64::MAX) }
    }

    /// Its time begins.
    pub(crate) fn begin(&self, now_ns: u64) {
        self.until_ns.store(now_ns.saturating_add(self.bound.lasts_ns), Ordering::Relaxed);
    }

    /// Counts further bytes. Returns whether the end may continue.
    pub(crate) fn allows(&self, more: u64, now_ns: u64) -> bool {
        let moved = self.moved.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        moved < self.bound.bytes && now_ns < self.until_ns.load(Ordering::Relaxed)
    }

    /// Whether the limit of bytes is reached.
    pub(crate) fn is_used_up(&self) -> bool {
        self.moved.load(Ordering::Relaxed) >= self.bound.bytes
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{Engine, Level};

    use super::*;
    use crate::message::Command;

    fn levels() -> Spec {
        Spec::from([
            ("transport", "tcp".into()),
            ("read_size", 4096.into()),
            ("write_size", 65536.into()),
            ("work", "0.5ns".into()),
            ("rate", "max".into()),
            ("congestion", Level::auto()),
        ])
    }

    fn ring(batch: Level) -> Spec {
        Spec::from([
            ("mode", "checked".into()),
            ("user_data", "none".into()),
            ("entries", 64.into()),
            ("submit_batch", batch),
            ("implementation", "io-uring".into()),
            ("setup", "single-issuer+registered".into()),
        ])
    }

    #[test]
    fn a_cell_survives_the_wire() {
        for spec in [levels(), ring(Level::auto())] {
            let setup = Setup::of(&spec).unwrap();
            let command = Command::Open(EndRole::Sink, Box::new(setup), Some(Address::Alone));
            let text = serde_json::to_string(&command).unwrap();
            assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command);
        }
    }

    #[test]
    fn a_received_setup_is_checked() {
        let whole = serde_json::to_value(Setup::of(&levels()).unwrap()).unwrap();
        assert!(serde_json::from_value::<Setup>(whole.clone()).is_ok());
        let mut lacking = whole;
        lacking["spec"].as_object_mut().unwrap().remove("read_size");
        let error = serde_json::from_value::<Setup>(lacking).unwrap_err().to_string();
        assert_eq!(error, "a cell without read_size");
    }

    #[test]
    fn only_work_by_the_byte_is_spun() {
        for (work, fill, spins) in
            [("none", "none", false), ("sum", "touch", false), ("1ns", "none", true), ("none", "1ns", true)]
        {
            let mut levels = levels();
            levels.set("work", work.into());
            levels.set("writer_work", fill.into());
            assert_eq!(Setup::of(&levels).unwrap().spins(), spins, "{work} {fill}");
        }
    }

    #[test]
    fn a_missing_level_is_named() {
        let check = |mut levels: Spec, name: &str, expected: &str| {
            levels.set(name, Level::Absent);
            assert_eq!(Setup::of(&levels.with_workload(Workload::Stream)).unwrap_err().to_string(), expected);
        };
        check(levels(), "read_size", "a cell without read_size");
        let mut alone = levels();
        alone.clear(FactorKey::read_size);
        alone.put(FactorKey::engine, Engine::Null);
        alone.set_level(FactorKey::connect, Level::auto());
        assert_eq!(Setup::of(&alone).unwrap().read_size(), 65536, "as much as is written");
        check(levels(), "write_size", "a cell without write_size");
        check(levels(), "transport", "a cell without a known transport");
        let call = Spec::of(Workload::Call);
        assert!(Setup::of(&call).is_err());
    }

    #[test]
    fn a_batch_that_does_not_fit_is_impossible() {
        let error = Setup::of(&ring(Level::Number(65))).unwrap_err().to_string();
        assert_eq!(error, "65 operations do not fit a ring of 64");
    }

    #[test]
    fn flows_take_cpus_cyclically() {
        let mut setup = Setup::of(&levels()).unwrap();
        assert_eq!(setup.cpu(EndRole::Sink, 3), None);
        setup.cpus = BTreeMap::from([(EndRole::Source, vec![0, 2]), (EndRole::Sink, vec![1, 3])]);
        assert_eq!((setup.cpu(EndRole::Source, 3), setup.cpu(EndRole::Sink, 4)), (Some(2), Some(1)));
    }
}

#[cfg(test)]
mod transfer_limit_tests {
    use super::*;

    #[test]
    fn it_ends_with_the_bytes_or_the_time() {
        let limit = TransferLimit::new(Bound { bytes: 100, lasts_ns: 50 });
        // Before it begins no time is too late.
        assert!(limit.allows(60, u64::MAX - 1) && !limit.is_used_up());
        limit.begin(1000);
        assert!(limit.allows(39, 1049) && !limit.allows(0, 1050) && !limit.is_used_up());
        assert!(!limit.allows(1, 1001) && limit.is_used_up());
        let nothing = TransferLimit::new(Bound { bytes: 0, lasts_ns: u64::MAX });
        nothing.begin(u64::MAX - 1);
        assert!(!nothing.allows(0, 0) && nothing.is_used_up());
    }
}
