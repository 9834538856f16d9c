//! What a trial is set to: what every one has, and its task.
//!
//! A task is whatever a workload needs: a stream or calls over a path, a ring without one. Its ends know it by its type,
//! as in `Setup<StreamSetup>`; only who passes it on sees a [`Task`].

use std::collections::BTreeMap;

use bytegauge_model::{EndRole, Fill, Spec, Work, Workload};
use serde::{Deserialize, Serialize};

use crate::call::CallSetup;
use crate::fault::Fault;
use crate::leash::Bound;
use crate::path::PathSetup;
use crate::plant::Plant;
use crate::ring::RingSetup;
use crate::stream::StreamSetup;
use crate::task::TaskSetup;

/// How long an end may be late before it counts as stalled.
pub const GRACE_NS: u64 = 5_000_000_000;

/// Everything that the ends need to know of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup<T = Task> {
    /// What is done.
    pub task: T,
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
    /// A planted fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<Plant>,
    /// How far the end may go that is told, where its host's owner bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

/// What is done in a trial, by workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Bytes go one way.
    Stream(StreamSetup),
    /// Requests are answered.
    Call(CallSetup),
    /// A ring runs, without a path.
    Ring(RingSetup),
    /// A program of the user's runs.
    Check(TaskSetup),
}

impl From<StreamSetup> for Task {
    fn from(stream: StreamSetup) -> Task {
        Task::Stream(stream)
    }
}

impl From<CallSetup> for Task {
    fn from(call: CallSetup) -> Task {
        Task::Call(call)
    }
}

impl Setup {
    /// Resolves a cell's levels. What the trial adds (warm-up, window, CPUs, seed) keeps neutral values.
    ///
    /// # Errors
    /// [`Fault::Impossible`] if a level is missing or of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Spec) -> Result<Setup, Fault> {
        Ok(Setup::to(match levels.workload() {
            Workload::Stream => Task::Stream(StreamSetup::of(levels)?),
            Workload::Call => Task::Call(CallSetup::of(levels)?),
            Workload::Ring => Task::Ring(RingSetup::of(levels)?),
            // Its words are the plan's.
            Workload::Check => return Err(Fault::Impossible("a program is not set up by its levels alone".into())),
        }))
    }

    /// The path, if there is one.
    pub fn path(&self) -> Option<&PathSetup> {
        match &self.task {
            Task::Stream(stream) => Some(&stream.path),
            Task::Call(call) => Some(&call.path),
            Task::Ring(_) | Task::Check(_) => None,
        }
    }

    /// Whether an end stands in for work by spinning, whose step is to be measured first.
    pub(crate) fn spins(&self) -> bool {
        let fills = matches!(&self.task, Task::Stream(stream) if matches!(stream.fill, Fill::NsPerByte(_)));
        fills || self.path().is_some_and(|path| matches!(path.work, Work::NsPerByte(_)))
    }

    /// The same, to be changed.
    pub fn path_mut(&mut self) -> Option<&mut PathSetup> {
        match &mut self.task {
            Task::Stream(stream) => Some(&mut stream.path),
            Task::Call(call) => Some(&mut call.path),
            Task::Ring(_) | Task::Check(_) => None,
        }
    }
}

impl<T> Setup<T> {
    /// A task whose trial is neutral otherwise: no time, no CPU, no seed.
    pub fn to(task: T) -> Setup<T> {
        Setup {
            task,
            warmup_ns: 0,
            window_ns: 0,
            series: false,
            verify: false,
            seed: 0,
            cpus: BTreeMap::new(),
            grace_ns: GRACE_NS,
            plant: None,
            bound: None,
        }
    }

    /// The same trial of another task.
    pub fn with<U>(self, task: U) -> Setup<U> {
        let Setup { task: _, warmup_ns, window_ns, series, verify, seed, cpus, grace_ns, plant, bound } = self;
        Setup { task, warmup_ns, window_ns, series, verify, seed, cpus, grace_ns, plant, bound }
    }

    /// The same trial, to be passed on.
    pub fn any(&self) -> Setup
    where
        T: Clone + Into<Task>,
    {
        self.clone().with(self.task.clone().into())
    }

    /// The CPU that a flow is pinned to at one of its ends.
    pub fn cpu(&self, role: EndRole, flow: usize) -> Option<usize> {
        let cpus = self.cpus.get(&role)?;
        cpus.get(flow % cpus.len().max(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Level;

    use super::*;
    use crate::address::Address;
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

    #[test]
    fn a_cell_resolves_and_survives_the_wire() {
        let setup = Setup::of(&levels()).unwrap();
        let Task::Stream(stream) = &setup.task else { panic!("{setup:?}") };
        assert_eq!((stream.path.read_size, stream.write_size, stream.rate), (4096, Some(65536), None));
        assert_eq!(stream.path.work, Work::NsPerByte(0.5));
        assert_eq!(stream.path.options, Spec::default());
        let command = Command::Open(EndRole::Sink, Box::new(setup), Some(Address::Alone));
        let text = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command);
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
        let mut levels = levels();
        levels.set("read_size", Level::Absent);
        assert_eq!(Setup::of(&levels).unwrap_err().to_string(), "a cell without read_size");
    }

    #[test]
    fn flows_take_cpus_cyclically() {
        let mut setup = Setup::of(&levels()).unwrap();
        assert_eq!(setup.cpu(EndRole::Sink, 3), None);
        setup.cpus = BTreeMap::from([(EndRole::Source, vec![0, 2]), (EndRole::Sink, vec![1, 3])]);
        assert_eq!((setup.cpu(EndRole::Source, 3), setup.cpu(EndRole::Sink, 4)), (Some(2), Some(1)));
    }
}
