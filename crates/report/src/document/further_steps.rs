//! Steps that help whether or not a session decided: other conditions, the program of the user, another load.

use bytegauge_model::{Bytes, CellKind, Nanos, RELAY_BUFFER, Transport, Workload};

use super::next::step;
use super::repeat_command::{again_instead, again_searching};
use super::{NextStep, Results, relays};
use crate::findings::{BEYOND_LOOPBACK, Fact, USUAL_CONGESTION, Unmeasured};
use crate::results::{OptionResult, Test};
use crate::view::calls::CLOSED;
use crate::view::numbers::{CellView, GroupView, HarmKind};

/// The sizes of calls in a stream.
const STREAM_SIZES: &[&str] = &["read_size", "write_size"];

/// All steps of this kind that apply.
pub fn all(view: &Results) -> Vec<NextStep> {
    let steps = [
        with_one_buffer(view),
        over_a_link(view),
        with_other_congestion(view),
        in_program(view),
        below_full_load(view),
        without_loss(view),
    ];
    steps.into_iter().flatten().collect()
}

/// The same relays with one size of buffer, where one has a smaller one by its own default.
fn with_one_buffer(view: &Results) -> Option<NextStep> {
    let size = Bytes(RELAY_BUFFER as u64).compact();
    let (method, own) = view.cells.iter().find_map(relays::may_grow)?;
    let command = again_instead(view, &["--relay-buffer"], &["--relay-buffer".to_owned(), size.clone()])?;
    Some(step(&command, &format!("give {method} the buffer of the others, {size} instead of {}", own.compact())))
}

/// The same plan over an emulated link, where a setting was compared that does something else on a network.
fn over_a_link(view: &Results) -> Option<NextStep> {
    let flips = view.findings.iter().find_map(|finding| match &finding.fact {
        Fact::BeyondLoopback { factor } => BEYOND_LOOPBACK.iter().find(|row| row.factor == factor),
        _ => None,
    })?;
    let command = again_instead(view, &["--link-delay"], &["--link-delay".to_owned(), flips.delay.to_owned()])?;
    Some(step(&command, "see the same over a link with delay (needs /dev/net/tun)"))
}

/// The same plan with two congestion controls, where only the default was measured.
fn with_other_congestion(view: &Results) -> Option<NextStep> {
    let is_open = |fact: &Fact| matches!(fact, Fact::NotMeasured { what: Unmeasured::Congestion, .. });
    let own = view.environment.congestion().filter(|_| view.findings.iter().any(|finding| is_open(&finding.fact)))?;
    let both = format!("{USUAL_CONGESTION},{own}");
    let command = again_instead(view, &["--congestion"], &["--congestion".to_owned(), both])?;
    Some(step(&command, "compare the congestion control, too"))
}

/// The measured sizes in the program of the user: bytegauge's own loop is a model of it, and the best size of a program is often
/// another one.
fn in_program(view: &Results) -> Option<NextStep> {
    let is_size = |name: &String| STREAM_SIZES.contains(&name.as_str());
    let has_sizes = |test: &Test| test.is_compared() && test.varied.iter().any(is_size);
    let is_sockets = |transport: &Transport| transport.two_ended() && !transport.is_datagram();
    let is_of_sockets = |group: &GroupView| group.factors.transport().is_some_and(is_sockets);
    let is_stream = view.plan.workload == Workload::Stream.to_string() && view.groups.iter().all(is_of_sockets);
    (is_stream && view.tests.iter().any(has_sizes)).then(|| {
        let command = "bytegauge tune --values recommended --now 4K -- ./prog {value}";
        step(command, "try these sizes in your program")
    })
}

/// A search for the load at which latency is good: where many calls at full load wait for each other, most of it is waiting.
fn below_full_load(view: &Results) -> Option<NextStep> {
    let is_queued = |cell: &CellView| {
        let spec = &cell.factors;
        let calls_at_once = spec.flows().unwrap_or(1) * spec.depth().unwrap_or(1);
        let is_closed = cell.call.as_ref().is_some_and(|call| call.timing == CLOSED);
        cell.kind == CellKind::Candidate && is_closed && !spec.offers_load() && calls_at_once > 1
    };
    let [test] = view.tests else { return None };
    view.cells.iter().find(|cell| is_queued(cell))?;
    let p99s = test.options.iter().filter_map(|option| view.cell(&option.id)?.median("total_p99_ns"));
    let p99_ns = p99s.reduce(f64::min)?;
    let limit = round_below(p99_ns / 2.0);
    let command = again_searching(view, &["--slo"], &format!("p99={limit}"))?;
    let why = "above, clients call as fast as they can, so p99 is mostly waiting";
    Some(step(&command, &format!("find the highest rate that keeps p99 within {limit}, or another limit ({why})")))
}

/// A search for the rate at which few datagrams are lost, where an option lost many.
fn without_loss(view: &Results) -> Option<NextStep> {
    let [test] = view.tests else { return None };
    let is_lossy = |option: &OptionResult| option.harm.contains(&HarmKind::LostDatagrams);
    if view.plan.workload != Workload::Stream.to_string() || !test.options.iter().any(is_lossy) {
        return None;
    }
    // A search sets the rates itself.
    let command = again_searching(view, &["--max-loss", "--rate", "--burst", "--every", "--think-time"], "0.1%")?;
    Some(step(&command, "find the highest rate of each option that loses at most 0.1 % of the datagrams"))
}

/// The largest round time of at most this many nanoseconds.
pub fn round_below(ns: f64) -> String {
    let ten = 10f64.powf(ns.log10().floor());
    let times = [5.0, 2.0].into_iter().find(|times| times * ten <= ns).unwrap_or(1.0);
    Nanos((times * ten).round() as u64).compact()
}
