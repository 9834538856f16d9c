//! The client over datagrams without a network: the cost of beginning, timing, checking and recording a call.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::monotonic_ns;

use crate::call::datagram::flow::Due;
use crate::call::party::Clients;
use crate::engine::Stop;
use crate::fault::Fault;
use crate::meter::Meter;

/// Runs one flow until it is done; every request is answered at once.
pub(crate) fn carry(
    clients: &mut Clients,
    abort: &AtomicBool,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), Fault> {
    let mut request = vec![0; clients.setup().request()];
    let mut reply = vec![0; clients.setup().response()];
    let head = request.len().min(reply.len()).min(size_of::<u64>());
    let (mut flow, _) = clients.next_datagram_flow();
    // As in an engine with threads of its own, whose counting is the slower of two ways (`engine::null`).
    let mut share = meter.tally().share_of_meter();
    let never = AtomicBool::new(false);
    let mut now_ns = monotonic_ns();
    loop {
        for _ in 0..meter.lap_calls() {
            match flow.due(now_ns) {
                Due::Begin => flow.begin(now_ns),
                Due::Send => {
                    flow.write(0, &mut request);
                    black_box(&request);
                    share.count(request.len(), request.len());
                    now_ns = monotonic_ns();
                    flow.sent(now_ns);
                    reply[..head].copy_from_slice(&request[..head]);
                    share.count(reply.len(), reply.len());
                    now_ns = monotonic_ns();
                    flow.received(black_box(&reply), now_ns);
                }
                Due::Reopen => flow.reopened(),
                // A time in the future, for which this loop does not wait.
                Due::At(_) => now_ns = monotonic_ns(),
                Due::Over => {
                    flow.hand_in(0);
                    return Ok((Stop::Done, EngineReport::default()));
                }
            }
        }
        meter.lap(&never);
        if abort.load(Ordering::Relaxed) {
            flow.hand_in(0);
            return Ok((Stop::Aborted, EngineReport::default()));
        }
    }
}
