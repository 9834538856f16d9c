//! Relays: pass the bytes of one socket on to another, in both directions.
//!
//! For an accepted connection the relay opens one to the other side; from then on there are two directions, each with its own
//! end. An orderly end is passed on as the end of a stream, a failure as a reset. A method defines how bytes are copied; it
//! has a line in [`carry`]. Most implement `CopyMethod` (`copy_methods`), so that they run in a thread for each direction (the loop
//! of `thread_per_direction`) as well as in one thread for all, or one per CPU: there they are paired flows on the engine `epoll`
//! (`flow`), as `uring` and its other modes are on the engine of that name. The others copy a direction to its end
//! (`copy_methods` too).
//!
//! External programs are looked up in `programs`, and run by an end of their own.
//!
//! A relay never holds more than its buffers: it does not read from a side while the other does not accept bytes.

mod copy_methods;
mod flow;
mod programs;
mod state;
mod thread_per_direction;
mod tokio;

use std::sync::Arc;

use bytegauge_model::{EndRole, EngineReport, RELAY_BUFFER, RelayMethod, RelayThreads};
use bytegauge_sys::affinity;

pub(crate) use programs::{READING, charged, version, words};
pub use programs::{lacks_program, lacks_running, processes_of, used_by_running};
pub use state::{RelayShared, Upstream, listen};

use crate::end::thread_group::Flags;
use crate::meter::Meter;
use crate::relay::copy_methods::{Carrying, CopyMethod, Hybrid, ReadWrite, Splice, Vectored};
use crate::setup::Setup;
use crate::{EndError, engine};

/// Memory that a connection of the relay may take in addition to its sockets, bytes: the buffers and pipes of both directions,
/// and the stacks of its threads.
pub fn memory(setup: &Setup) -> u64 {
    let pipe = setup.relay_pipe().unwrap_or(RELAY_BUFFER) as u64;
    let direction = (setup.relay_buffer().max(RELAY_BUFFER) as u64).saturating_add(pipe);
    let stacks = setup.relay_method().map_or(0, |method| method.holds(setup.relay_threads()).threads);
    direction.saturating_mul(2).saturating_add(stacks * thread_per_direction::STACK as u64)
}

/// Threads that relay by [`carry`], each the connections that it accepts: one, or one for each CPU that they may use.
///
/// # Errors
/// [`EndError::Io`] if the kernel does not tell these CPUs.
pub fn threads_of(setup: &Setup) -> Result<usize, EndError> {
    let method = setup.relay_method().filter(|method| method.has_threads());
    if method.is_none() || setup.relay_threads() != RelayThreads::Cpus || setup.cpu(EndRole::Relay, 0).is_some() {
        return Ok(1);
    }
    let allowed = affinity::allowed_cpus().map_err(EndError::io("asking which CPUs the relay may use"))?;
    Ok(allowed.len().max(1))
}

/// Relays connections until the relay is over (`RelayShared::is_over`).
///
/// # Errors
/// [`EndError::Missing`] if this machine lacks a requirement of the method, [`EndError::Io`] if its own calls failed. Failures of a
/// connection are passed on, and counted.
pub fn carry(
    shared: &Arc<RelayShared>,
    setup: &Setup,
    flags: &Flags,
    meter: &mut Meter,
) -> Result<EngineReport, EndError> {
    let carrying = Carrying { shared, setup, flags, meter };
    let is_faulty = setup.planted().is_some_and(|plant| plant.is_of_relay());
    match setup.relay_method().unwrap_or(RelayMethod::Direct) {
        _ if is_faulty => thread_per_direction::carry(carrying, &copy_methods::copy_buffer),
        RelayMethod::Direct => Err(EndError::Impossible("there is no relay to open".into())),
        RelayMethod::ReadWrite => carry_by::<ReadWrite>(carrying),
        RelayMethod::StdCopy => thread_per_direction::carry(carrying, &copy_methods::std_copy),
        RelayMethod::CopyBuffer => thread_per_direction::carry(carrying, &copy_methods::copy_buffer),
        RelayMethod::Bufio => thread_per_direction::carry(carrying, &copy_methods::bufio),
        RelayMethod::ReadvWritev => carry_by::<Vectored>(carrying),
        RelayMethod::Pipe => thread_per_direction::carry(carrying, &copy_methods::pipe),
        RelayMethod::Splice => carry_by::<Splice<false>>(carrying),
        RelayMethod::Sendfile => carry_by::<Splice<true>>(carrying),
        RelayMethod::Hybrid => carry_by::<Hybrid>(carrying),
        RelayMethod::Epoll => flow::carry_by::<ReadWrite>(carrying),
        RelayMethod::Uring | RelayMethod::UringMultishot | RelayMethod::UringBundle | RelayMethod::Zerocopy => {
            flow::carry(carrying)
        }
        RelayMethod::Tokio => tokio::carry(carrying),
    }
}

/// The reason why this machine cannot run a method, if any, with the next step; checked before a plan is made.
pub fn missing_requirement(method: RelayMethod) -> Option<String> {
    flow::engine_of(method).and_then(engine::missing_requirement)
}

/// The part of its method that a relay's counters do not prove, if any: a requested mode that did not run fails its cell.
pub fn unproven(method: RelayMethod, report: &EngineReport) -> Option<String> {
    engine::unproven(flow::engine_of(method)?, report)
}

fn carry_by<H: CopyMethod + 'static>(carrying: Carrying<'_, '_>) -> Result<EngineReport, EndError> {
    // Finds missing requirements before the first connection.
    if let Some(bytes) = H::new(carrying.setup)?.pipe_size() {
        carrying.shared.has_pipes_of(bytes);
    }
    match carrying.setup.relay_threads() {
        RelayThreads::Direction => thread_per_direction::carry(carrying, &thread_per_direction::copy_by::<H>),
        RelayThreads::One | RelayThreads::Cpus => flow::carry_by::<H>(carrying),
    }
}
