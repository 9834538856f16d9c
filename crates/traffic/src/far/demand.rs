//! What an end asks of its host: connections, threads, memory and load, as an agent charges them.

use bytegauge_model::EndRole;

use crate::call::{CallSetup, memory_at_most};
use crate::datagram;
use crate::far::limits::not_made_for;
use crate::path::PathSetup;
use crate::setup::{Setup, Task};
use crate::stream::StreamSetup;

/// What an end asks for.
pub(super) struct EndDemand<'a> {
    pub(super) path: &'a PathSetup,
    /// Connections.
    pub(super) flows: usize,
    /// Bytes per second, if that is limited.
    pub(super) rate: Option<u64>,
    /// Bytes that each connection keeps room for.
    pub(super) largest: u64,
    pub(super) threads: usize,
    /// Bytes that the end needs however many connections there are.
    pub(super) besides: u64,
}

impl EndDemand<'_> {
    pub(super) fn of(role: EndRole, setup: &Setup) -> Result<EndDemand<'_>, String> {
        match &setup.task {
            Task::Stream(stream) => Ok(EndDemand::of_stream(stream)),
            Task::Call(call) => Ok(EndDemand::of_call(role, call)),
            Task::Ring(_) | Task::Check(_) => Err(not_made_for("anything but streams and calls")),
        }
    }

    fn of_stream(stream: &StreamSetup) -> EndDemand<'_> {
        let path = &stream.path;
        let largest = path.read_size.saturating_add(stream.write_size.unwrap_or(0));
        let at_once = if path.transport.is_datagram() { datagram::at_most(stream) } else { 1 };
        let largest = largest.saturating_mul(at_once).saturating_mul(if stream.both { 2 } else { 1 });
        let largest = largest.saturating_add(path.walk) as u64;
        EndDemand { path, flows: stream.joined().flows, rate: stream.rate, largest, threads: 1, besides: 0 }
    }

    fn of_call(role: EndRole, call: &CallSetup) -> EndDemand<'_> {
        let path = &call.path;
        let flows = path.flows.saturating_add(call.idle_flows).saturating_add(call.competing_flows);
        let message = call.request.saturating_add(call.response);
        let depth = message.saturating_mul(call.depth.max(1));
        let threads = call.server_threads.max(call.client_threads).max(1);
        let rate = call.rate.map(|calls| calls.saturating_mul(message as u64));
        if path.transport.is_datagram() {
            let one = path.read_size.saturating_add(message);
            let at_once = call.batch.max(call.outstanding).saturating_mul(threads);
            let largest = depth.saturating_add(path.walk) as u64;
            return EndDemand { path, flows, rate, largest, threads, besides: one.saturating_mul(at_once) as u64 };
        }
        let largest = path.read_size.saturating_add(depth) as u64;
        let besides = match role {
            EndRole::Server => memory_at_most(call).saturating_mul(threads as u64),
            _ => 0,
        };
        EndDemand { path, flows, rate, largest, threads, besides }
    }
}
