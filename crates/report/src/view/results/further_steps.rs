//! Steps that help whether or not a session decided: other conditions, the program of the user, another load.

use std::collections::BTreeSet;

use bytegauge_model::{Bytes, CellKind, Nanos, RELAY_BUFFER, Transport, Workload};

use super::super::calls::CLOSED;
use super::super::document::{CellView, FindingKind, GroupView, NextStep, OptionResult, OptionStatus, Test, View};
use super::super::relays;
use super::build::step;
use super::outcome;
use super::repeat_command::{again_instead, again_searching};
use super::valid_for::USUAL_CONGESTION;

/// The sizes of calls in a stream.
const STREAM_SIZES: &[&str] = &["read_size", "write_size"];
/// More sizes than this need too many runs of a program.
const SIZES_MAX: usize = 8;

/// All steps of this kind that apply.
pub fn all(view: &View) -> Vec<NextStep> {
    let steps = [
        with_one_buffer(view),
        with_other_congestion(view),
        in_program(view),
        below_full_load(view),
        without_loss(view),
    ];
    steps.into_iter().flatten().collect()
}

/// The same relays with one size of buffer, where one has a smaller one by its own default.
fn with_one_buffer(view: &View) -> Option<NextStep> {
    let size = Bytes(RELAY_BUFFER as u64).compact();
    let (method, own) = view.cells.iter().find_map(relays::may_grow)?;
    let command = again_instead(view, &["--relay-buffer"], &["--relay-buffer".to_owned(), size.clone()])?;
    Some(step(&command, &format!("give {method} the buffer of the others, {size} instead of {}", own.compact())))
}

/// The same plan with the congestion control that some tests recommend, where others ran with another one; with two, where only
/// the default was measured.
fn with_other_congestion(view: &View) -> Option<NextStep> {
    let with = |name: &str, text: String| {
        let command = again_instead(view, &["--congestion"], &["--congestion".to_owned(), name.to_owned()])?;
        Some(step(&command, &text))
    };
    let is_open = view.findings.iter().any(|finding| finding.kind == FindingKind::CongestionNotCompared);
    if let Some(own) = view.environment.congestion().filter(|_| is_open) {
        return with(&format!("{USUAL_CONGESTION},{own}"), "compare the congestion control, too".to_owned());
    }
    let (test, name) = view.tests.iter().find_map(|test| Some((test, outcome::advised_congestion(view, test)?)))?;
    with(name, format!("measure all tests with {name} (“{}” ran with {})", test.name, test.congestion.as_ref()?))
}

/// A check of all measured sizes in the program of the user: bytegauge's own loop is a model of it, and the best size of a program
/// is often one that is not recommended.
fn in_program(view: &View) -> Option<NextStep> {
    let is_size = |name: &String| STREAM_SIZES.contains(&name.as_str());
    let advises = |test: &Test| test.recommended.is_some() && test.varied.iter().any(is_size);
    let is_sockets = |transport: &Transport| transport.two_ended() && !transport.is_datagram();
    let is_of_sockets = |group: &GroupView| group.spec().transport().is_some_and(is_sockets);
    let is_stream = view.plan.workload == Workload::Stream.to_string() && view.groups.iter().all(is_of_sockets);
    let is_server = |group: &GroupView| group.spec().transport() == Some(&Transport::Tcp) && reads(group);
    (is_stream && view.tests.iter().any(advises)).then(|| {
        let (program, text) = match view.groups.iter().all(is_server) {
            true => (SERVER_OF_TCP, "server: replace socat by it, --load by its client, 4K by its size"),
            false => (READS_AND_WRITES, "program: replace dd by it, 4K by its size"),
        };
        step(&format!("bytegauge check {} {program}", values_of(view)), &format!("try these sizes in your {text}"))
    })
}

/// A program that reads and writes with the size in question.
const READS_AND_WRITES: &str = "-- dd if=/dev/zero of=/dev/null bs={value} count=512M iflag=count_bytes";

/// A server with the size in question, its sign, and its client, as they are in the help of `check`.
const SERVER_OF_TCP: &str = "--metric bytes:256M --start 'socat -u -b {value} TCP-LISTEN:7007,fork /dev/null' --ready tcp:7007 \
                             --load 'head -c 256M /dev/zero | socat -t 60 -b 65536 - TCP:127.0.0.1:7007'";

/// Whether the size of reads is the question: that of a receiver.
fn reads(group: &GroupView) -> bool {
    group.varied.iter().any(|name| name == "read_size") && !group.varied.iter().any(|name| name == "write_size")
}

/// The flags of `check` that try the sizes of a session; of many sizes the confirmed ones that may be the best.
fn values_of(view: &View) -> String {
    let options = || view.tests.iter().flat_map(|test| &test.options);
    let is_good = |option: &&OptionResult| matches!(option.status, OptionStatus::Best | OptionStatus::Tied);
    let all: BTreeSet<u64> = options().flat_map(|option| option.sizes(STREAM_SIZES)).collect();
    let good = || options().filter(is_good).flat_map(|option| option.sizes(STREAM_SIZES)).collect();
    let sizes = if all.len() > SIZES_MAX { good() } else { all };
    if sizes.len() > SIZES_MAX {
        return format!("--values recommended:{} --default 4K", view.session);
    }
    let each: Vec<String> = sizes.into_iter().map(|size| Bytes(size).compact()).collect();
    format!("--values {} --default 4K --recommendation {}", each.join(","), view.session)
}

/// A search for the load at which latency is good: where many calls at full load wait for each other, most of it is waiting.
fn below_full_load(view: &View) -> Option<NextStep> {
    let is_queued = |cell: &CellView| {
        let spec = cell.spec();
        let calls_at_once = spec.flows().unwrap_or(1) * spec.depth().unwrap_or(1);
        let is_closed = cell.call.as_ref().is_some_and(|call| call.timing == CLOSED);
        cell.kind == CellKind::Candidate && is_closed && !spec.offers_load() && calls_at_once > 1
    };
    let [test] = view.tests.as_slice() else { return None };
    view.cells.iter().find(|cell| is_queued(cell))?;
    let p99_ns = test.options.iter().filter_map(|option| option.p99_ns).reduce(f64::min)?;
    let limit = round_below(p99_ns / 2.0);
    let command = again_searching(view, &["--slo"], &format!("p99={limit}"))?;
    let why = "above, clients call as fast as they can, so p99 is mostly waiting";
    Some(step(&command, &format!("find the highest rate that keeps p99 within {limit}, or another limit ({why})")))
}

/// A search for the rate at which few datagrams are lost, where an option lost many.
fn without_loss(view: &View) -> Option<NextStep> {
    let [test] = view.tests.as_slice() else { return None };
    let is_lossy = |option: &OptionResult| option.harm.contains(&FindingKind::LostDatagrams);
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
