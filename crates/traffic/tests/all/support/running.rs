//! An engine that runs in a thread of its own, and its results.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;

use bytegauge_model::{Engine, EngineReport};
use bytegauge_sys::interrupt::{ThreadHandle, interrupt};
use bytegauge_traffic::EndError;
use bytegauge_traffic::engine::{Station, Stop, drive};
use bytegauge_traffic::flow::Flow;
use bytegauge_traffic::meter::{Meter, Schedule, Window};

use super::{Group, PATIENCE};

/// The results of an engine.
pub struct Outcome<F: Flow> {
    pub stop: Stop,
    pub report: EngineReport,
    pub group: Group<F>,
    pub window: Window,
    pub total_bytes: u64,
    /// Allocations that the engine's own thread made.
    pub allocations: u64,
}

/// A running engine.
pub struct Running<F: Flow> {
    thread: JoinHandle<Result<Outcome<F>, EndError>>,
    handle: ThreadHandle,
    flags: Arc<(AtomicBool, AtomicBool)>,
}

impl<F: Flow + Send + 'static> Running<F> {
    /// Starts an engine that continues until it is stopped, or until its flows are done.
    pub fn start(engine: Engine, group: Group<F>, listener: Option<OwnedFd>, buffer_size: usize) -> Running<F> {
        let schedule = Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_stopped: true };
        Running::start_by(engine, group, listener, buffer_size, schedule)
    }

    /// Starts an engine by a schedule of its own.
    pub fn start_by(
        engine: Engine,
        mut group: Group<F>,
        listener: Option<OwnedFd>,
        buffer_size: usize,
        schedule: Schedule,
    ) -> Running<F> {
        let flags = Arc::new((AtomicBool::new(false), AtomicBool::new(false)));
        let seen = Arc::clone(&flags);
        let (send, receive) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            send.send(ThreadHandle::current().unwrap()).unwrap();
            let (abort, stop_requested) = &*seen;
            let listener = listener.as_ref().map(AsFd::as_fd);
            let mut meter = Meter::start(&schedule, 0);
            let station = Station { listener, ..Station::new(buffer_size, abort, stop_requested) };
            let mut driven = None;
            let counted = allocation_counter::measure(|| driven = Some(drive(engine, &mut group, station, &mut meter)));
            let (stop, report) = driven.expect("the closure runs once")?;
            meter.close_early();
            let (window, total_bytes) = (meter.window(), meter.total_bytes());
            Ok(Outcome { stop, report, group, window, total_bytes, allocations: counted.count_total })
        });
        Running { thread, handle: receive.recv().unwrap(), flags }
    }

    /// Waits until the engine ends by itself.
    pub fn finish(self) -> Outcome<F> {
        let began = Instant::now();
        while !self.thread.is_finished() && began.elapsed() < PATIENCE {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        assert!(self.thread.is_finished(), "the engine hangs");
        self.thread.join().unwrap().unwrap()
    }

    /// Sets the flag that stops the engine.
    pub fn tell(self) -> Outcome<F> {
        self.flags.1.store(true, Ordering::Relaxed);
        self.interrupted()
    }

    /// Tells the engine to leave at once.
    pub fn abort(self) -> Outcome<F> {
        self.flags.0.store(true, Ordering::Relaxed);
        self.interrupted()
    }

    fn interrupted(self) -> Outcome<F> {
        let began = Instant::now();
        while !self.thread.is_finished() && began.elapsed() < PATIENCE {
            interrupt(&self.handle).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.finish()
    }
}

/// Whether an engine can run here at all; the reason if not.
pub fn probe(engine: Engine) -> Result<(), String> {
    let group = Group::<super::echo::Echo>::clients(Vec::new(), ([127, 0, 0, 1], 9).into());
    match Running::start(engine, group, None, 4096).thread.join().unwrap() {
        Ok(outcome) => {
            assert_eq!(outcome.stop, Stop::Done, "{engine}: no flow, no connection");
            Ok(())
        }
        Err(EndError::Missing(reason)) => Err(reason),
        Err(fault) => panic!("{engine}: {fault}"),
    }
}
