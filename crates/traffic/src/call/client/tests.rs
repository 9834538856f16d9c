//! Tests of the client of calls.

use super::*;
use crate::call::client_counts::ClientCounts;
use crate::call::recorder::DecodedHistogram;
use crate::call::recorder::Records;
use crate::call::schedule::Offered;
use bytegauge_model::Arrivals;

const GAP_NS: u64 = 1_000_000;

fn client() -> Arc<Client> {
    Arc::new(Client {
        terms: Terms::for_test(8, 8),
        depth: 1,
        parts: MessageParts::of(8),
        writes: MessageWrites::Separate,
        reply_parts: None,
        quickack_again: None,
        connect_per_call: false,
        timeout_ns: u64::MAX / 4,
        open_ns: 0,
        close_ns: u64::MAX / 2,
        until_stopped: false,
        stop_requested: Arc::default(),
        gave_up: Arc::default(),
        shown: None,
    })
}

/// Calls that begin and end at these times: their recorded delays, sorted, nanoseconds.
fn late_ns(arrival: Arrival, calls: &[(u64, u64)]) -> Option<Vec<u64>> {
    let (client, waits) = (client(), arrival.waits());
    let mut record = ClientCounts::new(false, waits);
    record.keep(client.open_ns, client.close_ns);
    let records = Records::new(record, false, &Arc::default());
    let mut flow = ClientFlow::new(client, records.recorder(), 0, arrival, true);
    for (begin_ns, end_ns) in calls {
        assert_eq!(flow.want(*begin_ns), Want::Send);
        let mut reply = vec![0; 8];
        let len = flow.compose(&mut reply, true);
        flow.sent(len, *begin_ns);
        assert!(flow.received(&mut reply, *end_ns));
    }
    let late = DecodedHistogram::decode(records.into_record().report().late.as_ref()?)?;
    Some((1..=calls.len()).map(|rank| late.at(rank as f64 / calls.len() as f64)).collect())
}

#[test]
fn ticket_is_left_in_no_room() {
    let request = SHOWN + 1;
    let shown = Some([7; SHOWN]);
    let client = Client { terms: Terms::for_test(request, 0), shown, ..Arc::into_inner(client()).unwrap() };
    let records = Records::new(ClientCounts::new(false, false), false, &Arc::default());
    let mut flow = ClientFlow::new(Arc::new(client), records.recorder(), 0, Arrival::closed(0, 0, 0, 1), false);
    assert_eq!(flow.want(0), Want::Connect);
    flow.connected(0);
    assert_eq!(flow.want(0), Want::Send);
    let mut rooms = [vec![0; request], vec![0; request]];
    assert_eq!(flow.compose(&mut rooms[0], true), SHOWN);
    flow.sent(SHOWN, 0);
    // The kernel still reads the first buffer, so another one is used in between.
    for (room, is_new) in [(1, true), (1, false), (0, false)] {
        assert_eq!(flow.want(0), Want::Send);
        assert_eq!(flow.compose(&mut rooms[room], is_new), request);
        assert!(rooms[room].iter().all(|byte| *byte == 0x5a), "{:?}", rooms[room]);
        flow.sent(request, 0);
        assert!(flow.received(&mut vec![0; request], 0));
    }
}

#[test]
fn late_thread_shows_in_lateness() {
    let offered = Offered { rate: 1_000_000_000 / GAP_NS, arrivals: Arrivals::Constant, flows: 1 };
    let calls = [
        (0, 10),
        // Woken 7 µs late.
        (GAP_NS + 7000, 2 * GAP_NS + 500_000),
        // Due while the last call was in flight: the delay counts from its reply.
        (2 * GAP_NS + 500_100, 2 * GAP_NS + 600_000),
    ];
    let late = late_ns(Arrival::open(0, offered, 0, 1), &calls).unwrap();
    assert!(late[0] == 1 && late[1] == 100 && late[2].abs_diff(7000) < 70, "{late:?}");
}

#[test]
fn pause_that_lasts_too_long_is_late() {
    let late = late_ns(Arrival::closed(0, 50_000, 0, 1), &[(0, 10), (50_310, 50_320)]).unwrap();
    assert!(late[0] == 1 && late[1].abs_diff(300) < 3, "{late:?}");
    assert_eq!(late_ns(Arrival::closed(0, 0, 0, 1), &[(0, 10), (50_310, 50_320)]), None);
}
