//! Tests of the meter.

use super::*;
use crate::setup::Bound;

fn spin_through(schedule: &Schedule, bins_max: usize) -> Meter {
    let mut meter = Meter::start(schedule, bins_max);
    let stop_requested = AtomicBool::new(false);
    loop {
        for _ in 0..meter.lap_calls() {
            meter.count(3, 4);
        }
        if !meter.lap(&stop_requested) {
            return meter;
        }
        // Stopped a while after the window: later counts are not in it.
        stop_requested
            .store(meter.closed.is_some() && meter.total_bytes() > 3 * meter.window().bytes, Ordering::Relaxed);
    }
}

/// Bytes of two meters with one limit, each lap with calls of three bytes.
fn tied(bound: Bound) -> (u64, Arc<TransferLimit>) {
    let limit = Arc::new(TransferLimit::new(bound));
    limit.begin(monotonic_ns());
    let schedule = Schedule { warmup_ns: 0, window_ns: 1000, until_stopped: true };
    let mut meters = [0, 1].map(|_| Meter::start(&schedule, 0));
    meters.iter_mut().for_each(|meter| meter.limit_by(Some(Arc::clone(&limit))));
    let stop_requested = AtomicBool::new(false);
    let mut continues = [true; 2];
    while continues.contains(&true) {
        for (meter, continues) in meters.iter_mut().zip(&mut continues).filter(|(_, continues)| **continues) {
            meter.count_many(3000, 1000);
            *continues = meter.lap(&stop_requested);
        }
    }
    (meters.iter().map(Meter::total_bytes).sum(), limit)
}

/// Sleeps until a time, ignoring signals.
fn sleep_through(until_ns: u64) {
    while bytegauge_sys::clock::sleep_until_ns(until_ns) {}
}

#[test]
fn the_limit_ends_meters_that_are_never_stopped() {
    let hour_ns = 3_600_000_000_000;
    let (bytes, limit) = tied(Bound { bytes: 10_000, lasts_ns: hour_ns });
    // Both together, and each ends with a lap.
    assert_eq!((bytes, limit.is_used_up()), (15_000, true));
    let (_, limit) = tied(Bound { bytes: u64::MAX, lasts_ns: 1_000_000 });
    assert!(!limit.is_used_up());
}

#[test]
fn laps_that_errors_cut_stay_short() {
    let hour_ns = 3_600_000_000_000;
    let mut meter = Meter::start(&Schedule { warmup_ns: 0, window_ns: hour_ns, until_stopped: false }, 0);
    for _ in 0..30 {
        meter.cut_lap(1);
        assert!(meter.lap(&AtomicBool::new(false)) && meter.lap_calls() <= 2, "{}", meter.lap_calls());
    }
}

#[test]
fn the_window_excludes_warmup_and_later_counts() {
    let schedule = Schedule { warmup_ns: 3_000_000, window_ns: 5_000_000, until_stopped: true };
    let meter = spin_through(&schedule, 0);
    let window = meter.window();
    assert_eq!(window.bytes, window.calls * 3);
    assert_eq!(window.short_calls, window.calls);
    assert!(window.calls > 0 && window.bytes < meter.total_bytes());
}

/// A flow that began `began_ns_ago` and makes one call of `call_ns` after another, as long as it may.
fn share(schedule: &Schedule, began_ns_ago: u64, call_ns: u64) -> Meter {
    let mut meter = Meter::start(schedule, 0);
    meter.share_window(monotonic_ns() - began_ns_ago);
    let stop_requested = AtomicBool::new(false);
    loop {
        let until_ns = monotonic_ns() + call_ns;
        while monotonic_ns() < until_ns {}
        meter.count(1, 1);
        if !meter.lap(&stop_requested) {
            return meter;
        }
    }
}

#[test]
fn a_shared_window_has_the_planned_length() {
    let schedule = Schedule { warmup_ns: 1_000_000, window_ns: 2_000_000, until_stopped: false };
    for (began_ns_ago, call_ns) in [(0, 100_000), (0, 5_000_000), (2_000_000, 100_000), (10_000_000, 100_000)] {
        let window = share(&schedule, began_ns_ago, call_ns).window();
        assert_eq!(window.ns, 2_000_000, "{began_ns_ago} {call_ns}");
        // A flow after it adds nothing to it; a call longer than the window is in it or not.
        assert!(began_ns_ago < 3_000_000 || window.bytes == 0, "{began_ns_ago} {call_ns}: {window:?}");
        assert!(call_ns < 3_000_000 || window.bytes <= 1, "{began_ns_ago} {call_ns}: {window:?}");
    }
}

#[test]
fn late_flows_end_unless_they_wait_for_stop() {
    let stop_requested = AtomicBool::new(false);
    for until_stopped in [false, true] {
        let mut meter = Meter::start(&Schedule { warmup_ns: 1000, window_ns: 1000, until_stopped }, 0);
        meter.share_window(monotonic_ns() - 1_000_000);
        // An engine that only checks the clock needs a lap when this moment has come.
        assert_eq!(meter.next_mark_ns() <= monotonic_ns(), !until_stopped);
        assert_eq!(meter.lap(&stop_requested), until_stopped);
    }
}

#[test]
fn a_lap_across_an_edge_counts_by_share() {
    let counts = |at_ns, calls, bytes| MeterCounts { at_ns, calls, bytes, ..MeterCounts::default() };
    let (began, ended) = (counts(1000, 10, 500), counts(2000, 14, 900));
    for (at_ns, calls, bytes) in
        [(1000, 10, 500), (1120, 10, 500), (1130, 11, 600), (1500, 12, 700), (2000, 14, 900), (9000, 14, 900)]
    {
        let edge = began.towards(&ended, at_ns);
        assert_eq!((edge.calls, edge.bytes), (calls, bytes), "at {at_ns}");
    }
    // There were no calls, so the time decides.
    let edge = began.towards(&counts(2000, 10, 900), 1250);
    assert_eq!((edge.calls, edge.bytes), (10, 600));
}

/// Flows that take turns of 1 ms on one thread, each of laps as long as its turn, and whose window opens before any
/// of them has run: their sum is the work that was done in the window.
#[test]
fn flows_within_the_window_add_up() {
    const FLOWS: u64 = 20;
    // If the machine stalls in the first turn for twice the length of the window, nothing is in it.
    let windows_ms = [50, 500, 5000].into_iter();
    let (window_ms, turns) = windows_ms.map(|ms| (ms, turns_within(FLOWS, ms))).find(|(_, turns)| *turns > 0).unwrap();
    // A turn is 1 ms or longer, and a delay affects all flows.
    assert!(turns <= window_ms + FLOWS / 2, "{turns} turns of 1 ms in {window_ms} ms");
}

fn turns_within(flows: u64, window_ms: u64) -> u64 {
    let schedule = Schedule { warmup_ns: 0, window_ns: window_ms * 1_000_000, until_stopped: false };
    let stop_requested = AtomicBool::new(false);
    let began_ns = monotonic_ns();
    let mut meters: Vec<(Meter, bool)> = (0..flows)
        .map(|_| {
            let mut meter = Meter::start(&schedule, 0);
            meter.share_window(began_ns);
            (meter, true)
        })
        .collect();
    while meters.iter().any(|(_, runs)| *runs) {
        for (meter, runs) in meters.iter_mut().filter(|(_, runs)| *runs) {
            sleep_through(monotonic_ns() + 1_000_000);
            meter.count(1, 1);
            *runs = meter.lap(&stop_requested);
        }
    }
    meters.iter().map(|(meter, _)| meter.window().calls).sum()
}

#[test]
fn a_lap_across_the_window_is_charged_once() {
    let schedule = Schedule { warmup_ns: 2_000_000, window_ns: 1_000_000, until_stopped: false };
    let stop_requested = AtomicBool::new(false);
    let began = thread_usage();
    let mut meter = Meter::start(&schedule, 0);
    meter.share_window(monotonic_ns());
    // Thousands of calls, then nothing until the window is over: a third of them count as in it.
    meter.count_many(30_000, 30_000);
    sleep_through(meter.start_ns() + 3_000_000);
    while meter.lap(&stop_requested) {}
    let (window, used) = (meter.window(), thread_usage().since(&began));
    assert!(window.calls > 0, "{window:?}");
    assert!(window.usage.total_ns <= used.total_ns, "{window:?} of {used:?}");
}

#[test]
fn a_late_thread_gets_the_whole_window() {
    let schedule = Schedule { warmup_ns: 1_000_000, window_ns: 5_000_000, until_stopped: false };
    let mut meter = Meter::start(&schedule, 0);
    // Nothing runs until the last moment of the window, or longer.
    sleep_through(meter.start_ns() + 5_900_000);
    meter.count(1, 1);
    let stop_requested = AtomicBool::new(false);
    while meter.lap(&stop_requested) {
        meter.count(1, 1);
    }
    let window = meter.window();
    assert!(window.ns >= 5_000_000 && window.calls > 0, "{window:?}");
}

#[test]
fn a_call_longer_than_the_window_is_measured() {
    let mut meter = Meter::start(&Schedule { warmup_ns: 1, window_ns: 1, until_stopped: false }, 0);
    loop {
        std::thread::sleep(std::time::Duration::from_millis(1));
        meter.count(7, 7);
        if !meter.lap(&AtomicBool::new(false)) {
            break;
        }
    }
    assert_eq!(meter.window().bytes, 7);
}

#[test]
fn bins_add_up_within_their_room() {
    let schedule = Schedule { warmup_ns: 1_000_000, window_ns: 8_000_000, until_stopped: false };
    let meter = spin_through(&schedule, 1000);
    let binned = meter.bin_began_bytes;
    let bins = meter.into_bins();
    // The time after the last bin is too short for one.
    assert!(binned > 0);
    assert_eq!(bins.iter().map(|bin| bin.bytes).sum::<u64>(), binned);
    // A thread that loses its CPU may have a single lap.
    assert!((1..=2).contains(&spin_through(&schedule, 2).into_bins().len()));
}

#[test]
fn marks_come_in_order_and_end() {
    let schedule = Schedule { warmup_ns: 1_000_000, window_ns: 2_000_000, until_stopped: true };
    let mut meter = Meter::start(&schedule, 0);
    let stop_requested = AtomicBool::new(false);
    let mut marks = Vec::new();
    while meter.next_mark_ns() < u64::MAX {
        marks.push(meter.next_mark_ns() - meter.start_ns());
        sleep_through(meter.next_mark_ns());
        assert!(meter.lap(&stop_requested));
    }
    // It closes a window's length after it opened, which is a moment after it was due.
    assert!(marks[0] == 1_000_000 && marks[1] >= 3_000_000 && marks.len() == 2, "{marks:?}");
    let meter = Meter::start(&schedule, 1);
    assert!(meter.next_mark_ns() < meter.start_ns() + 1_000_000, "a bin ends first");
}

#[test]
fn a_held_meter_counts_from_its_begin() {
    // Long enough that a busy machine does not miss the moment between two marks.
    let schedule = Schedule { warmup_ns: 200_000_000, window_ns: 200_000_000, until_stopped: true };
    let (mut meter, begins_ns) = (Meter::start(&schedule, 0), Arc::<AtomicU64>::default());
    let total = Arc::<Total<1>>::default();
    let counter = total.counter();
    meter.watch(total);
    meter.hold(Arc::clone(&begins_ns), &schedule);
    let stop_requested = AtomicBool::new(false);
    counter.add([5]);
    assert!(meter.lap(&stop_requested) && meter.next_mark_ns() == u64::MAX);
    begins_ns.store(monotonic_ns(), Ordering::Release);
    assert!(meter.next_mark_ns() < u64::MAX);
    // By the marks and not by the clock: a busy machine may be late for both of them.
    counter.add([2]);
    while meter.opened.is_none() {
        meter.lap(&stop_requested);
    }
    counter.add([4]);
    while meter.closed.is_none() {
        meter.lap(&stop_requested);
    }
    assert_eq!((meter.window().watched, meter.next_mark_ns()), (4, u64::MAX));
}

#[test]
fn the_window_includes_other_threads() {
    let long = Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_stopped: false };
    let mut meter = Meter::start(&long, 0);
    let tally = meter.tally();
    let worker = std::thread::spawn(move || {
        let mut share = tally.share();
        let start_ns = thread_usage().total_ns;
        while thread_usage().total_ns - start_ns < 2_000_000 {
            share.count(1, 2);
        }
    });
    worker.join().unwrap();
    meter.count(10, 10);
    let total = meter.total_bytes();
    meter.close_early();
    let window = meter.window();
    assert_eq!((window.bytes, window.calls, window.short_calls), (total, total - 9, total - 10));
    assert!(window.usage.total_ns >= 2_000_000);
    assert_eq!(window.queued_ns, None);
}

/// Writes to a peer that never reads until its window and the send buffer are full, and ends a lap after that.
fn written_without_reader(begin: impl Fn(&mut Meter)) -> Meter {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut writer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (_reader, _) = listener.accept().unwrap();
    writer.set_nonblocking(true).unwrap();
    let long = Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_stopped: false };
    let mut meter = Meter::start(&long, 0);
    meter.subtract_unacknowledged(vec![writer.try_clone().unwrap().into()]);
    begin(&mut meter);
    while let Ok(n) = std::io::Write::write(&mut writer, &[0; 65_536]) {
        meter.count(n, 65_536);
    }
    while queued_out(writer.as_fd()).unwrap() == 0 {
        std::thread::yield_now();
    }
    assert!(meter.lap(&AtomicBool::new(false)));
    meter.close_early();
    meter
}

#[test]
fn unacknowledged_bytes_do_not_count() {
    for meter in [written_without_reader(|_| {}), written_without_reader(|meter| meter.share_window(monotonic_ns()))] {
        assert!(meter.window().bytes < meter.total_bytes(), "{:?}", meter.window());
        assert!(meter.window().bytes > 0);
    }
}

#[test]
fn an_early_end_closes_an_open_window_only() {
    let long = Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_stopped: false };
    let mut meter = Meter::start(&long, 0);
    meter.count(10, 10);
    meter.close_early();
    assert_eq!(meter.window().bytes, 10);
    let mut meter = Meter::start(&Schedule { warmup_ns: u64::MAX / 4, ..long }, 0);
    meter.close_early();
    assert_eq!(meter.window().ns, 0);
}
