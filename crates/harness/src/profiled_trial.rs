//! An extra trial in which a profiler samples the relay's processes. It comes after all judged trials, so that sampling does
//! not affect reported results. Nothing of it is stored.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bytegauge_model::{Cell, EndRole, Outcome, RelayChoice};
use bytegauge_plan::Plan;
use bytegauge_sys::topology::Topology;
use bytegauge_traffic::end::ChannelError;
use bytegauge_traffic::{EndError, EndPool, Setup, relay};
use thiserror::Error;

use crate::environment::Watch;
use crate::{cpu_placement, trial};

/// Warm-up of such a trial, nanoseconds: it is sampled as well.
const WARMUP_NS: u64 = 100_000_000;

/// Its window, nanoseconds: about a thousand samples of every CPU that the relay keeps busy.
const WINDOW_NS: u64 = 2_000_000_000;

/// Why a relay could not be sampled.
#[derive(Debug, Error)]
pub enum SampledError {
    /// The cell does not resolve: a bug in planning.
    #[error(transparent)]
    EndError(#[from] EndError),
    /// Its end cannot be started.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// Its processes are not visible, or have ended.
    #[error("its processes are not visible: add the @PID of a running relay, or run as root")]
    Unseen,
    /// The profiler could not begin, or end.
    #[error("{0}")]
    Sampler(String),
    /// The trial failed.
    #[error("its trial failed: {0}")]
    Trial(String),
    /// The user wants to stop.
    #[error("it was interrupted")]
    Interrupted,
}

/// Runs a trial of a cell that has a relay. Before it begins, `sample` gets the processes in which, or below which, the
/// relay will run; its return value is passed to `finish` after the trial, while these processes still live.
///
/// # Errors
/// [`SampledError`], with what to do.
pub fn carry<T>(
    (plan, cell): (&Plan, &Cell),
    program: &Path,
    stop: &AtomicBool,
    sample: impl FnOnce(&[u32]) -> Result<T, String>,
    finish: impl FnOnce(T) -> Result<(), String>,
) -> Result<(), SampledError> {
    let cpus = cpu_placement::cpus(&cell.factors, &Topology::read().unwrap_or_default(), false);
    let (warmup_ns, window_ns, seed) = (WARMUP_NS, WINDOW_NS, plan.seed);
    let setup = Setup { warmup_ns, window_ns, seed, cpus, ..Setup::of(&cell.factors)? };
    let mut pool = EndPool::new(plan.ends, program);
    let pids = match cell.factors.relay().and_then(RelayChoice::running) {
        Some(running) => relay::processes_of(running),
        // Threads or programs that it starts are sampled with it.
        None => pool.end(EndRole::Relay)?.process_id().into_iter().collect(),
    };
    if pids.is_empty() {
        return Err(SampledError::Unseen);
    }
    let sampler = sample(&pids).map_err(SampledError::Sampler)?;
    match trial::measure(&mut pool, &setup, stop, &mut Watch::open()).ok_or(SampledError::Interrupted)?.outcome {
        Outcome::Measured => finish(sampler).map_err(SampledError::Sampler),
        outcome => Err(SampledError::Trial(outcome.reason().unwrap_or_default().to_owned())),
    }
}
