//! Whether connections were opened with data in their SYN (TCP Fast Open, RFC 7413) where that was requested.
//!
//! The kernel falls back to a usual handshake without an error: without a cookie, or if a middlebox drops such packets. A trial
//! in which no connection had data with its SYN would be a usual handshake under another name.

use bytegauge_model::EndRole;
use bytegauge_traffic::Setup;

use crate::trial::answers::Answers;

/// Fewer calls may all have been first ones from their addresses, which only request cookies.
const LEAST_CALLS: u64 = 64;

/// The reason why a trial did not use Fast Open, if it was to.
pub(in crate::trial) fn unused(setup: &Setup, answers: &Answers) -> Option<String> {
    if setup.spec.fastopen().is_none() || !setup.connect_per_call() {
        return None;
    }
    let server = answers.report(EndRole::Server)?;
    let calls = server.call.as_ref()?.completed;
    let mut known = server.flows.iter().filter_map(|flow| flow.tcp.as_deref()?.syn_data).peekable();
    known.peek()?;
    (calls >= LEAST_CALLS && !known.any(|with_data| with_data)).then(|| {
        format!(
            "Fast Open: no connection among {calls} calls had data with its SYN: see nstat -az 'TcpExtTCPFastOpen*', and leave \
             out --fastopen if the path drops such packets"
        )
    })
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{CallReport, EndReport, FlowReport, Spec, TcpReport};

    use super::*;
    use crate::trial::answers::LastReply;

    fn check(fastopen: &str, (calls, syn_data): (u64, &[bool]), fails: bool) {
        let levels = [("transport", "tcp"), ("request", "1"), ("connect_per_call", "on"), ("fastopen", fastopen)];
        let spec: Spec = levels
            .iter()
            .map(|(name, text)| (*name, bytegauge_model::factor::find(name).unwrap().kind.parse(text).unwrap()))
            .collect();
        let flow = |with_data: &bool| FlowReport {
            tcp: Some(Box::new(TcpReport { syn_data: Some(*with_data), ..TcpReport::default() })),
            ..FlowReport::default()
        };
        let report = EndReport {
            flows: syn_data.iter().map(flow).collect(),
            call: Some(Box::new(CallReport { completed: calls, ..CallReport::default() })),
            ..EndReport::default()
        };
        let answer = LastReply { report: Some(report), trouble: None, sound: true, gone: false };
        let answers = Answers { by_role: [(EndRole::Server, answer)].into() };
        let reason = unused(&Setup::of(&spec).unwrap(), &answers);
        assert_eq!(reason.is_some(), fails, "{reason:?}");
    }

    #[test]
    fn usual_handshakes_fail_a_fast_open_trial() {
        check("256", (1000, &[false, false, true]), false);
        check("256", (1000, &[false; 4]), true);
        check("256", (10, &[false; 4]), false);
        check("auto", (1000, &[false; 4]), false);
    }
}
