//! One trial of calls over two threads, as the harness runs it.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytegauge_model::name_tables::ENGINES;
use bytegauge_model::{
    CallReport, EncodedHistogram, EndReport, EndRole, Ends, Engine, ErrorClass, Spec, Transport, Workload,
};
use bytegauge_traffic::engine::missing_requirement;
use bytegauge_traffic::{Address, Channel, Command, EndPool, Reply, Setup};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// Far longer than any test takes: only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The engines of calls that this kernel supports.
pub fn engines() -> impl Iterator<Item = Engine> {
    static HERE: OnceLock<Vec<Engine>> = OnceLock::new();
    let probed = HERE.get_or_init(|| {
        let all = ENGINES
            .iter()
            .map(|row| row.value)
            .filter(|engine| *engine != Engine::Null && engine.suits(&Transport::Tcp));
        all.filter(|engine| missing_requirement(*engine).is_none()).collect()
    });
    probed.iter().copied()
}

/// One engine of each kind: for slow tests that do not depend on a mode.
pub fn kinds() -> impl Iterator<Item = Engine> {
    const KINDS: [&str; 5] = ["blocking", "epoll", "epoll:edge:batch", "tokio", "uring:multishot"];
    engines().filter(|engine| KINDS.contains(&engine.to_string().as_str()))
}

/// A short echo of 512 bytes on four flows.
pub fn setup(transport: &str, engine: Engine) -> Setup {
    let levels = Spec::from([
        ("transport", transport.into()),
        ("engine", engine.to_string().into()),
        ("request", 512.into()),
        ("flows", 4.into()),
    ])
    .with_workload(Workload::Call);
    let mut setup = Setup::of(&levels).unwrap();
    setup.warmup_ns = 2_000_000;
    // A submission thread shares the test's CPUs with everything else.
    setup.window_ns = if matches!(engine, Engine::Uring(mode) if mode.sqpoll) { 100_000_000 } else { 10_000_000 };
    setup.seed = 7;
    setup
}

/// The last replies of both ends.
#[derive(Debug)]
pub struct Ended {
    pub client: Reply,
    pub server: Reply,
}

impl Ended {
    pub fn client(&self) -> &EndReport {
        report(&self.client)
    }

    pub fn server(&self) -> &EndReport {
        report(&self.server)
    }

    pub fn calls(&self) -> &CallReport {
        self.client().call.as_ref().unwrap()
    }

    pub fn errors(&self, class: ErrorClass) -> u64 {
        self.calls().errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
    }
}

pub fn report(reply: &Reply) -> &EndReport {
    match reply {
        Reply::Done(report) | Reply::Failed(_, report) => report,
        other => panic!("{other:?}"),
    }
}

/// The end that calls.
pub fn client(pool: &mut EndPool) -> &mut Channel {
    pool.end(EndRole::Client).unwrap()
}

/// The end that serves.
pub fn server(pool: &mut EndPool) -> &mut Channel {
    pool.end(EndRole::Server).unwrap()
}

/// Opens a server.
pub fn listen(pool: &mut EndPool, setup: &Setup) -> Result<Address, Reply> {
    server(pool).send(Command::Open(EndRole::Server, Box::new(setup.clone()), None)).unwrap();
    let address = match server(pool).reply(PATIENCE).unwrap() {
        Reply::Listening(address) => address,
        other => return Err(other),
    };
    assert_eq!(server(pool).reply(PATIENCE).unwrap(), Reply::Ready);
    Ok(address)
}

/// Runs one trial over two threads; `Err` if it could not be opened.
pub fn try_run(setup: &Setup) -> Result<Ended, Reply> {
    let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
    let address = listen(&mut pool, setup)?;
    if let Err(reply) = open_client(&mut pool, setup, address) {
        server(&mut pool).send(Command::Stop).unwrap();
        // The server may know why no connection can be made.
        return Err(match server(&mut pool).reply(PATIENCE).unwrap() {
            Reply::Done(_) => reply,
            other => other,
        });
    }
    server(&mut pool).send(Command::Go).unwrap();
    let client = finish_client(&mut pool);
    // A server that died accepts no command.
    let _ = server(&mut pool).send(Command::Stop);
    Ok(Ended { client, server: server(&mut pool).reply(PATIENCE).unwrap() })
}

/// A trial that can be opened.
pub fn run(setup: &Setup) -> Ended {
    try_run(setup).unwrap_or_else(|reply| panic!("{reply:?}"))
}

/// Longest window, nanoseconds.
const LENGTHENED_MAX_NS: u64 = 4_000_000_000;

/// Repeats a trial with a longer window until it shows the tested behaviour: a busy machine may prevent that in a short one.
/// The caller checks the last trial.
pub fn until<T>(setup: &Setup, carry: impl Fn(&Setup) -> T, shows: impl Fn(&T) -> bool) -> T {
    let mut setup = setup.clone();
    loop {
        let ended = carry(&setup);
        if shows(&ended) || setup.window_ns >= LENGTHENED_MAX_NS {
            return ended;
        }
        setup.window_ns *= 4;
    }
}

/// A client with an external server, or without one.
pub fn run_against(setup: &Setup, address: Address) -> Result<Reply, Reply> {
    let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
    open_client(&mut pool, setup, address)?;
    Ok(finish_client(&mut pool))
}

/// The client without a network.
pub fn run_alone(setup: &Setup) -> Reply {
    run_against(setup, Address::Alone).unwrap()
}

fn open_client(pool: &mut EndPool, setup: &Setup, address: Address) -> Result<(), Reply> {
    client(pool).send(Command::Open(EndRole::Client, Box::new(setup.clone()), Some(address))).unwrap();
    match client(pool).reply(PATIENCE).unwrap() {
        Reply::Ready => Ok(()),
        other => Err(other),
    }
}

fn finish_client(pool: &mut EndPool) -> Reply {
    client(pool).send(Command::Go).unwrap();
    assert_eq!(client(pool).reply(PATIENCE).unwrap(), Reply::Closed);
    client(pool).reply(PATIENCE).unwrap()
}

/// A histogram as it was recorded.
pub fn decoded(histogram: &EncodedHistogram) -> Histogram<u64> {
    Deserializer::new().deserialize(&mut BASE64.decode(&histogram.0).unwrap().as_slice()).unwrap()
}
