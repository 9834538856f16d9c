//! The connections, threads, memory and load that an end needs, as an agent counts them.

use bytegauge_model::{EndRole, Workload};

use bytegauge_traffic::call::memory_at_most;
use bytegauge_traffic::datagram;
use bytegauge_traffic::setup::Setup;
use bytegauge_traffic::stream::file_memory;

/// The needs of an end.
pub(super) struct EndDemand {
    /// Connections.
    pub(super) flows: usize,
    /// Bytes per second, if limited.
    pub(super) rate: Option<u64>,
    /// Buffer bytes per connection.
    pub(super) largest: u64,
    pub(super) threads: usize,
    /// Buffer bytes independent of the number of connections.
    pub(super) besides: u64,
}

impl EndDemand {
    pub(super) fn of(role: EndRole, setup: &Setup) -> Result<EndDemand, String> {
        match setup.workload() {
            Workload::Stream => Ok(EndDemand::of_stream(setup)),
            Workload::Call => Ok(EndDemand::of_call(role, setup)),
            _ => Err(not_made_for("anything but streams and calls")),
        }
    }

    fn of_stream(setup: &Setup) -> EndDemand {
        let largest = setup.read_size().saturating_add(setup.write_size().unwrap_or(0));
        let at_once = if setup.transport().is_datagram() { datagram::at_most(setup) } else { 1 };
        let largest = largest.saturating_mul(at_once).saturating_mul(if setup.goes_both_ways() { 2 } else { 1 });
        let largest = largest.saturating_add(setup.working_set()) as u64;
        EndDemand { flows: setup.joined(), rate: setup.rate(), largest, threads: 1, besides: file_memory(setup) }
    }

    fn of_call(role: EndRole, setup: &Setup) -> EndDemand {
        let flows = setup.flows().saturating_add(setup.idle_flows()).saturating_add(setup.competing_flows());
        let message = setup.request().saturating_add(setup.response());
        let depth = message.saturating_mul(setup.depth().max(1));
        let threads = setup.server_threads().max(setup.client_threads()).max(1);
        let rate = setup.rate().map(|calls| calls.saturating_mul(message as u64));
        if setup.transport().is_datagram() {
            let one = setup.read_size().saturating_add(message);
            let at_once = setup.call_batch().max(setup.outstanding()).saturating_mul(threads);
            let largest = depth.saturating_add(setup.working_set()) as u64;
            return EndDemand { flows, rate, largest, threads, besides: one.saturating_mul(at_once) as u64 };
        }
        let largest = setup.read_size().saturating_add(depth) as u64;
        let besides = match role {
            EndRole::Server => memory_at_most(setup).saturating_mul(threads as u64),
            _ => 0,
        };
        EndDemand { flows, rate, largest, threads, besides }
    }
}

/// The refusal of a task that an agent does not have.
pub(super) fn not_made_for(what: &str) -> String {
    format!("the agent does not run {what}: measure that on one host")
}
