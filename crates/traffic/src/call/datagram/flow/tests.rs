//! Tests of a client's flow over datagrams.

use super::*;
use crate::call::client_counts::ClientCounts;
use crate::call::message_bytes::Terms;
use crate::call::recorder::Records;
use bytegauge_model::{CallReport, MessageParts};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const TIMEOUT_NS: u64 = 1000;

/// A client of echoes of `len` bytes, `head` of which are their number.
fn client(len: usize, head: usize, depth: usize) -> Arc<Client> {
    Arc::new(Client {
        terms: Terms::for_test(len, head),
        depth,
        parts: MessageParts::of(len),
        writes: bytegauge_model::MessageWrites::Separate,
        reply_parts: None,
        quickack_again: None,
        connect_per_call: false,
        timeout_ns: TIMEOUT_NS,
        open_ns: 0,
        close_ns: u64::MAX / 2,
        until_stopped: false,
        stop_requested: Arc::new(AtomicBool::new(false)),
        gave_up: Arc::new(AtomicU64::new(0)),
        shown: None,
    })
}

fn flow(client: &Arc<Client>) -> (DatagramFlow, Records) {
    let mut record = ClientCounts::new(false, true);
    record.keep(client.open_ns, client.close_ns);
    let records = Records::new(record, false, &Arc::default());
    (DatagramFlow::new(Arc::clone(client), records.recorder(), 3, 1, Arrival::closed(0, 0, 0, 1)), records)
}

fn report(records: &Records) -> CallReport {
    records.recorder().with(|record| record.report())
}

/// Begins and sends a call. Returns its request, which is its reply.
fn call(flow: &mut DatagramFlow, now_ns: u64) -> Vec<u8> {
    let want = flow.want(now_ns);
    assert!(matches!(want, Want::Send | Want::Both), "{want:?}");
    send(flow, now_ns)
}

fn send(flow: &mut DatagramFlow, now_ns: u64) -> Vec<u8> {
    let mut request = vec![0; flow.room()];
    flow.compose(&mut request, true);
    flow.sent(request.len(), now_ns);
    request
}

fn errors(records: &Records) -> Vec<(ErrorClass, ErrorPhase, u64)> {
    let report = report(records);
    report.errors.iter().map(|error| (error.class, error.phase, error.count)).collect()
}

/// The next event of a flow.
#[derive(Clone, Debug)]
enum Step {
    Go,
    /// A datagram in flight arrives; it may stay, to arrive again.
    Arrive(usize, bool),
    Lose(usize),
    Wait(u64),
    Refuse,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Go),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(which, stays)| Step::Arrive(which, stays)),
        1 => any::<usize>().prop_map(Step::Lose),
        2 => (0..TIMEOUT_NS).prop_map(Step::Wait),
        1 => Just(Step::Refuse),
    ]
}

proptest! {
    #[test]
    fn every_call_ends_once_whatever_the_network_does(
        steps in prop::collection::vec(step(), 1..200), depth in 1usize..6, len in 1usize..20,
    ) {
        // A head of one byte is enough for this number of calls.
        let client = client(len, len.min(8), depth);
        let (mut flow, record) = flow(&client);
        let (mut now_ns, mut network, mut answered) = (0, Vec::new(), 0u64);
        for step in steps {
            match step {
                Step::Go => match flow.want(now_ns) {
                    Want::Send | Want::Both => {
                        let request = send(&mut flow, now_ns);
                        network.push((flow.log.counts.begun - 1, request));
                    }
                    Want::ReceiveUntil(at_ns) => prop_assert!(at_ns > now_ns),
                    Want::Done => break,
                    other => prop_assert!(false, "{:?}", other),
                },
                Step::Arrive(which, stays) if !network.is_empty() => {
                    let at = which % network.len();
                    let (count, mut reply) = network[at].clone();
                    let waited = flow.calls.iter().any(|call| call.number == Terms::number(flow.log.flow, count));
                    let odd = flow.log.counts.datagrams;
                    flow.received(&mut reply, now_ns);
                    let ours = flow.calls.iter().all(|call| call.number != Terms::number(flow.log.flow, count));
                    prop_assert!(ours && flow.log.counts.datagrams.strange == 0);
                    answered += u64::from(waited);
                    // Never taken for another call's.
                    prop_assert_eq!(flow.log.counts.completed, answered);
                    let passed = flow.log.counts.datagrams.late + flow.log.counts.datagrams.duplicated;
                    prop_assert_eq!(passed - odd.late - odd.duplicated, u64::from(!waited));
                    if !stays {
                        network.remove(at);
                    }
                }
                Step::Lose(which) if !network.is_empty() => drop(network.remove(which % network.len())),
                Step::Wait(ns) => now_ns += ns,
                Step::Refuse if flow.waits() => flow.failed(111, now_ns),
                _ => {}
            }
        }
        let lost: u64 = errors(&record).iter().map(|(_, _, count)| count).sum();
        prop_assert_eq!(flow.log.counts.begun, flow.log.counts.completed + lost + flow.calls.len() as u64);
        flow.finish(0);
        let report = report(&record);
        prop_assert_eq!(report.begun, report.completed + lost + report.unfinished);
    }
}

#[test]
fn late_thread_shows_in_lateness() {
    let client = client(8, 8, 1);
    let mut record = ClientCounts::new(false, true);
    record.keep(client.open_ns, client.close_ns);
    let records = Records::new(record, false, &Arc::default());
    let mut flow = DatagramFlow::new(client, records.recorder(), 0, 1, Arrival::closed(0, 500, 0, 1));
    // The second call is due 500 ns after the first reply, and begins 90 ns after that.
    for (begin_ns, end_ns) in [(0, 10), (600, 610)] {
        let mut reply = call(&mut flow, begin_ns);
        flow.received(&mut reply, end_ns);
    }
    let late = report(&records).late.unwrap();
    let late = crate::call::recorder::DecodedHistogram::decode(&late).unwrap();
    assert_eq!((late.count(), late.at(0.5), late.at(1.0)), (2, 1, 90));
}

#[test]
fn lost_call_times_out_before_the_next() {
    let client = client(64, 8, 1);
    let (mut flow, record) = flow(&client);
    let mut lost = call(&mut flow, 10);
    assert_eq!(flow.want(11), Want::ReceiveUntil(10 + TIMEOUT_NS));
    let mut next = call(&mut flow, 10 + TIMEOUT_NS);
    assert_eq!(errors(&record), [(ErrorClass::TimedOut, ErrorPhase::FirstByte, 1)]);
    // Too late, and not the reply that the next call waits for.
    flow.received(&mut lost, 1100);
    assert_eq!((flow.log.counts.datagrams.late, flow.log.counts.completed, flow.waits()), (1, 0, true));
    flow.received(&mut next, 1200);
    flow.received(&mut next, 1201);
    flow.received(&mut lost, 1202);
    assert_eq!((flow.log.counts.completed, flow.log.counts.datagrams.duplicated), (1, 2));
    flow.received(&mut [9; 64], 1203);
    flow.received(&mut [], 1203);
    assert_eq!(flow.log.counts.datagrams.strange, 2);
}

#[test]
fn replies_may_overtake_each_other() {
    let client = client(8, 8, 3);
    let (mut flow, record) = flow(&client);
    let mut replies: Vec<_> = (0..3).map(|_| call(&mut flow, 0)).collect();
    for reply in [1, 0, 2] {
        flow.received(&mut replies[reply], 5);
    }
    assert_eq!((flow.log.counts.completed, flow.log.counts.datagrams.overtaken), (3, 1));
    // A lost reply was not overtaken.
    let mut replies: Vec<_> = (0..3).map(|_| call(&mut flow, 10)).collect();
    for reply in &mut replies[1..] {
        flow.received(reply, 15);
    }
    assert_eq!((flow.log.counts.completed, flow.log.counts.datagrams.overtaken, errors(&record).len()), (5, 1, 0));
}

#[test]
fn lengths_and_bytes_are_checked() {
    let client = client(64, 8, 1);
    let (mut flow, record) = flow(&client);
    for (change, class) in [
        ((|reply| reply.truncate(40)) as fn(&mut Vec<u8>), ErrorClass::ShortReply),
        (|reply| reply.push(0), ErrorClass::LongReply),
        (|reply| reply[60] ^= 1, ErrorClass::Corrupt),
    ] {
        let mut reply = call(&mut flow, 0);
        change(&mut reply);
        flow.received(&mut reply, 0);
        assert!(errors(&record).contains(&(class, ErrorPhase::Reply, 1)));
    }
    assert_eq!((flow.log.counts.begun, flow.log.counts.completed), (3, 0));
}

#[test]
fn time_out_without_numbers_needs_a_new_socket() {
    let client = client(64, 0, 2);
    let (mut flow, record) = flow(&client);
    call(&mut flow, 0);
    call(&mut flow, 500);
    assert_eq!(flow.want(TIMEOUT_NS), Want::Connect);
    assert_eq!(errors(&record), [(ErrorClass::TimedOut, ErrorPhase::FirstByte, 2)]);
    flow.connected(TIMEOUT_NS);
    assert_eq!(flow.want(TIMEOUT_NS), Want::Send);
}

#[test]
fn a_server_that_is_gone_is_given_up() {
    let client = client(8, 8, 2);
    let (mut flow, record) = flow(&client);
    let mut now_ns = 0;
    loop {
        match flow.want(now_ns) {
            Want::Send | Want::Both => drop(send(&mut flow, now_ns)),
            Want::ReceiveUntil(_) if flow.waits() => flow.failed(111, now_ns),
            Want::ReceiveUntil(at_ns) => now_ns = at_ns,
            Want::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.gave_up.load(Ordering::Relaxed), 1);
    assert!(matches!(errors(&record)[..], [(ErrorClass::Refused, ErrorPhase::FirstByte, count)] if count > 14));
    assert!(now_ns < 2_000_000_000);
}

#[test]
fn what_cannot_be_sent_is_lost_in_sending() {
    let client = client(8, 8, 1);
    let (mut flow, record) = flow(&client);
    assert_eq!((flow.want(0), flow.unsent(), flow.waits()), (Want::Send, 1, false));
    // It is given up, and the next one begins.
    assert_eq!((flow.want(TIMEOUT_NS), flow.unsent()), (Want::Send, 1));
    assert_eq!(errors(&record), [(ErrorClass::TimedOut, ErrorPhase::Write, 1)]);
}
