//! One trial: opens a path between two ends, starts them, collects what they counted, and checks it.

mod call;
mod datagram;
mod foreign;
pub mod ring;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::{EndReport, Engine, Outcome, Workload};
use bytegauge_traffic::end::ChannelError;
use bytegauge_traffic::engine::proof;
use bytegauge_traffic::{Address, Channel, Command, Pair, PathSetup, Reply, RingSetup, Side};

/// How long preparing may take beyond the joints' own time-outs: thousands of threads and their memory.
const PREPARE: Duration = Duration::from_secs(30);

/// A trial longer than this can be interrupted in the middle, nanoseconds.
const LONG_NS: u64 = 1_000_000_000;

/// How often a long trial is looked after.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// What a trial left behind.
#[derive(Debug)]
pub struct Measured {
    /// How it ended.
    pub outcome: Outcome,
    /// What the writing end, or the client, counted.
    pub source: Option<EndReport>,
    /// What the reading end, or the server, counted.
    pub sink: Option<EndReport>,
    /// What a second group of clients counted.
    pub competing: Option<EndReport>,
    /// Whether the two ends can be used again.
    pub pair_is_sound: bool,
}

impl Measured {
    /// A trial that came to no number.
    pub fn nothing(outcome: Outcome) -> Measured {
        Measured { outcome, source: None, sink: None, competing: None, pair_is_sound: false }
    }
}

/// What one trial is told.
#[derive(Clone, Debug)]
pub enum Setup {
    /// Something is said over a path.
    Path(Box<PathSetup>),
    /// A ring runs.
    Ring(RingSetup),
}

impl Setup {
    /// Warm-up and window, nanoseconds.
    pub fn schedule_ns(&self) -> (u64, u64) {
        match self {
            Setup::Path(path) => (path.warmup_ns, path.window_ns),
            Setup::Ring(ring) => (ring.warmup_ns, ring.window_ns),
        }
    }

    /// The CPUs of the first flow's two ends, where they are pinned; a ring's one thread is both.
    pub fn cpus(&self) -> Option<(usize, usize)> {
        match self {
            Setup::Path(path) => path.cpus.first().copied(),
            Setup::Ring(ring) => ring.cpu.map(|cpu| (cpu, cpu)),
        }
    }

    /// Carries the trial. `None` if `stop` was set in the middle of a long one.
    pub fn measure(&self, pair: &mut Pair, stop: &AtomicBool) -> Option<Measured> {
        match self {
            Setup::Path(path) => measure(pair, path, stop),
            Setup::Ring(ring) => ring::measure(pair, ring, stop),
        }
    }
}

/// Carries one trial over two ends. `None` if `stop` was set in the middle of a long one.
pub fn measure(pair: &mut Pair, setup: &PathSetup, stop: &AtomicBool) -> Option<Measured> {
    let opened = match setup.workload() {
        Workload::Call => call::open(pair, setup),
        _ => open(pair, setup),
    };
    match (opened, setup.workload()) {
        (Ok(()), Workload::Stream) if setup.foreign().is_some() => foreign::run(pair, setup, stop),
        (Ok(()), Workload::Call) => call::run(pair, setup, stop),
        (Ok(()), _) => run(pair, setup, stop),
        // The other end may still wait for a connection that never comes.
        (Err(stopped), _) => Some(Measured::nothing(stopped.outcome)),
    }
}

/// Why a path could not be opened.
struct Stopped {
    outcome: Outcome,
}

impl From<ChannelError> for Stopped {
    fn from(error: ChannelError) -> Stopped {
        Stopped { outcome: Outcome::Failed(error.to_string()) }
    }
}

/// Prepares both ends up to the moment before the first byte.
fn open(pair: &mut Pair, setup: &PathSetup) -> Result<(), Stopped> {
    if let Some(server) = setup.foreign() {
        pair.source.send(Command::Open(Side::Source, Box::new(setup.clone()), Some(server.clone())))?;
        return ready(&mut pair.source);
    }
    let address = listening(pair, setup)?;
    if setup.has_two_ends() {
        pair.source.send(Command::Open(Side::Source, Box::new(setup.clone()), Some(address)))?;
        ready(&mut pair.source)?;
    } else {
        debug_assert_eq!(address, Address::Alone);
    }
    ready(&mut pair.sink)
}

/// Opens the end that is connected to.
fn listening(pair: &mut Pair, setup: &PathSetup) -> Result<Address, Stopped> {
    pair.sink.send(Command::Open(Side::Sink, Box::new(setup.clone()), None))?;
    match pair.sink.reply(PREPARE)? {
        Reply::Listening(address) => Ok(address),
        other => Err(stopped(other)),
    }
}

fn ready(end: &mut Channel) -> Result<(), Stopped> {
    match end.reply(PREPARE)? {
        Reply::Ready => Ok(()),
        other => Err(stopped(other)),
    }
}

fn stopped(reply: Reply) -> Stopped {
    let outcome = match reply {
        Reply::Skipped(reason) => Outcome::Skipped(reason),
        Reply::Failed(reason, _) => Outcome::Failed(reason),
        other => Outcome::Failed(format!("an end answered out of turn: {other:?}")),
    };
    Stopped { outcome }
}

/// Units that were counted beside bytes: calls that the client completed, completions that were taken from a ring.
pub fn calls(measured: &Measured) -> u64 {
    let client = measured.source.as_ref().and_then(|source| source.call.as_ref()).map(|call| call.calls);
    let ring = measured.sink.as_ref().filter(|end| end.ring.is_some()).map(|end| end.calls);
    client.or(ring).unwrap_or(0)
}

/// How long an end may take before it counts as stuck. Its own watchdog comes first.
fn patience(setup: &PathSetup) -> Duration {
    let per_call_ns = setup.call.as_ref().map_or(0, |call| call.timeout_ns);
    let ns = [setup.warmup_ns, setup.window_ns, setup.grace_ns, per_call_ns]
        .iter()
        .fold(0, |a: u64, b| a.saturating_add(*b));
    Duration::from_nanos(ns) + Duration::from_secs(5)
}

/// Starts both ends and waits for what they counted.
fn run(pair: &mut Pair, setup: &PathSetup, stop: &AtomicBool) -> Option<Measured> {
    let started = pair
        .sink
        .send(Command::Go)
        .and_then(|()| if setup.has_two_ends() { pair.source.send(Command::Go) } else { Ok(()) });
    if let Err(error) = started {
        return Some(Measured::nothing(Outcome::Failed(error.to_string())));
    }
    let patience = patience(setup);
    let first = reply_or_stop(&mut pair.sink, patience, setup.window_ns, stop)?;
    let closed = matches!(first, Ok(Reply::Closed));
    // Whatever the sink says, it needs no more data.
    let stopped = if setup.has_two_ends() { pair.source.send(Command::Stop) } else { Ok(()) };
    let sink = Answer::of(if closed { pair.sink.reply(patience) } else { first });
    let source = setup.has_two_ends().then(|| Answer::of(stopped.and_then(|()| pair.source.reply(patience))));
    let sound = sink.sound && source.as_ref().is_none_or(|source| source.sound);
    let outcome = judge(setup, &sink, source.as_ref());
    Some(Measured {
        outcome,
        source: source.and_then(|source| source.report),
        sink: sink.report,
        competing: None,
        pair_is_sound: sound,
    })
}

/// Waits for the end that measures. A short trial is always waited for; a long one is looked after now and then, so that
/// an interrupt does not take minutes. `None` if the user wants to stop.
fn reply_or_stop(
    end: &mut Channel,
    patience: Duration,
    window_ns: u64,
    stop: &AtomicBool,
) -> Option<Result<Reply, ChannelError>> {
    if window_ns < LONG_NS {
        return Some(end.reply(patience));
    }
    let deadline = Instant::now() + patience;
    loop {
        let reply = end.reply(LOOK_AFTER.min(deadline.saturating_duration_since(Instant::now())));
        match reply {
            Err(ChannelError::Silent(_)) if stop.load(Ordering::Relaxed) => return None,
            Err(ChannelError::Silent(_)) if Instant::now() < deadline => {}
            reply => return Some(reply),
        }
    }
}

/// What one end said in the end.
struct Answer {
    report: Option<EndReport>,
    trouble: Option<Outcome>,
    /// The end is alive and waits for the next path.
    sound: bool,
    /// The end itself is gone, which explains whatever the other one says.
    gone: bool,
}

impl Answer {
    fn of(reply: Result<Reply, ChannelError>) -> Answer {
        let answer = |report, trouble| Answer { report, trouble, sound: true, gone: false };
        match reply {
            Ok(Reply::Done(report)) => answer(Some(*report), None),
            Ok(Reply::Skipped(reason)) => answer(None, Some(Outcome::Skipped(reason))),
            Ok(Reply::Failed(reason, report)) => answer(Some(*report), Some(Outcome::Failed(reason))),
            Ok(other) => Answer {
                sound: false,
                ..answer(None, Some(Outcome::Failed(format!("an end answered out of turn: {other:?}"))))
            },
            Err(error) => Answer { sound: false, gone: true, ..answer(None, Some(Outcome::Failed(error.to_string()))) },
        }
    }
}

/// What went wrong at an end: whoever is gone explains it, then whoever lacks something, since the other one then
/// only sees its peer go, then the first of those given.
fn trouble(answers: &[Option<&Answer>]) -> Option<Outcome> {
    let mut answers: Vec<&Answer> = answers.iter().copied().flatten().collect();
    answers.sort_by_key(|answer| (!answer.gone, !matches!(answer.trouble, Some(Outcome::Skipped(_)))));
    answers.iter().find_map(|answer| answer.trouble.clone())
}

/// The outcome of a trial: whoever is gone explains it, then the sink, then the source, then our checks.
fn judge(setup: &PathSetup, sink: &Answer, source: Option<&Answer>) -> Outcome {
    if let Some(trouble) = trouble(&[Some(sink), source]) {
        return trouble;
    }
    let Some(received) = &sink.report else { return Outcome::Failed("the sink reported nothing".into()) };
    if setup.transport.is_datagram() {
        if let Some(reason) = datagram::broken(setup, source.and_then(|source| source.report.as_ref()), received) {
            return Outcome::Failed(reason);
        }
    } else if let Some(sent) = source.and_then(|source| source.report.as_ref())
        && sent.total_bytes != received.total_bytes
    {
        return Outcome::Failed(format!(
            "{} bytes were sent and {} counted at the sink: the path loses or invents data",
            sent.total_bytes, received.total_bytes
        ));
    }
    if setup.verify && setup.has_two_ends() && received.verified_bytes != received.total_bytes {
        let (checked, total) = (received.verified_bytes, received.total_bytes);
        return Outcome::Failed(format!("only {checked} of {total} bytes were compared with the pattern"));
    }
    let engines = [Some(received), source.and_then(|source| source.report.as_ref())].into_iter().flatten();
    let did = engines.filter_map(|end| end.engine).reduce(|one, other| one.plus(&other));
    // A sink has nothing to send and a source nothing to receive: together they show the mode.
    if let Some(reason) = did.and_then(|did| proof::unproven(setup.engine, &did)) {
        return not_in_mode(setup.engine, &reason);
    }
    let sent = source.and_then(|source| source.report.as_ref());
    if let Some(reason) = sent.and_then(|sent| datagram::unproven(setup, sent, received)) {
        return not_in_mode(setup.engine, &reason);
    }
    if received.bytes == 0 || received.window_ns == 0 {
        return Outcome::Failed(
            "no byte arrived within the window (the reader was kept from running): use a longer --duration".into(),
        );
    }
    Outcome::Measured
}

/// A mode that was asked for but did not run fails the trial.
fn not_in_mode(engine: Engine, reason: &str) -> Outcome {
    Outcome::Failed(format!("engine {engine} did not run in its mode: {reason}"))
}

/// Bytes at the end that measures and the length of the window that all its flows share; a ring moves none. Of a stream
/// they are the sink's, or the source's where the sink is not ours; of calls, the client's bytes both ways.
pub fn throughput(measured: &Measured) -> (u64, u64) {
    if let Some(client) = measured.source.as_ref().filter(|source| source.call.is_some()) {
        return (client.bytes, client.call.as_ref().map_or(0, |call| call.window_ns));
    }
    match measured.sink.as_ref().or(measured.source.as_ref()) {
        Some(ring) if ring.ring.is_some() => (0, ring.window_ns),
        end => end.map_or((0, 0), |end| (end.bytes, end.window_ns)),
    }
}
