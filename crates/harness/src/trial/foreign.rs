//! A trial of a stream into a server that is not ours: our writer measures alone.
//!
//! What left is known from this side's kernel; what became of it is not, and nothing is said of it.

use std::sync::atomic::AtomicBool;

use bytegauge_model::{EndReport, Outcome};
use bytegauge_traffic::engine::proof;
use bytegauge_traffic::{Command, Pair, PathSetup, Reply};

use super::{Answer, Measured, not_in_mode, patience, reply_or_stop};

/// A connection's SYN and FIN count as a byte each (RFC 4898, which `TCP_INFO` follows).
const NO_PAYLOAD: u64 = 2;

/// Starts the writer and waits for what it counted.
pub(super) fn run(pair: &mut Pair, setup: &PathSetup, stop: &AtomicBool) -> Option<Measured> {
    if let Err(error) = pair.source.send(Command::Go) {
        return Some(Measured::nothing(Outcome::Failed(error.to_string())));
    }
    let patience = patience(setup);
    let first = reply_or_stop(&mut pair.source, patience, setup.window_ns, stop)?;
    let closed = matches!(first, Ok(Reply::Closed));
    let source = Answer::of(if closed { pair.source.reply(patience) } else { first });
    let outcome = source.trouble.clone().unwrap_or_else(|| judge(setup, source.report.as_ref()));
    Some(Measured { outcome, source: source.report, sink: None, competing: None, pair_is_sound: source.sound })
}

/// Whether what the writer counted is about anything, and what the kernel counted.
fn judge(setup: &PathSetup, sent: Option<&EndReport>) -> Outcome {
    let Some(sent) = sent else { return Outcome::Failed("the writer reported nothing".into()) };
    if let Some(reason) = sent.engine.and_then(|did| proof::unproven(setup.engine, &did)) {
        return not_in_mode(setup.engine, &reason);
    }
    for (index, flow) in sent.flows.iter().enumerate() {
        let acknowledged = flow.tcp.as_ref().and_then(|tcp| tcp.bytes_acked);
        if let Some(acknowledged) = acknowledged.filter(|bytes| *bytes > flow.total_bytes + NO_PAYLOAD) {
            return Outcome::Failed(format!(
                "flow {index}: {} bytes were written and TCP_INFO says that {acknowledged} were acknowledged: what was \
                 counted is not what moved",
                flow.total_bytes
            ));
        }
    }
    if sent.bytes == 0 || sent.window_ns == 0 {
        return Outcome::Failed(
            "the server took no byte within the window: does it read? if it does so seldom, use a longer --duration"
                .into(),
        );
    }
    Outcome::Measured
}
