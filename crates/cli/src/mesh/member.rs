//! A rank: runs an agent for its partners, and measures when rank 0 tells it to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytegauge_agent::{Agent, AgentLink, AgentSetup, FarError, Limits};
use bytegauge_harness::host_visit::{PairVisit, VisitPartner};
use bytegauge_harness::this_machine;
use bytegauge_mesh::files::{FileHeader, MeshFileError, RankFile};
use bytegauge_mesh::message::{TO_RANK_MAX, VERSION};
use bytegauge_mesh::{MeshRow, MeshSettings, RankHello, SlotPlace, ToRank, ToRankZero};
use bytegauge_model::{Cell, Outcome, Place, Trial};
use bytegauge_sys::clock::unix_ns;
use bytegauge_traffic::RemoteHost;
use bytegauge_wire::{Key, LineError, Receiver, Sender, connect};

use super::flags::MeshFlags;
use super::rendezvous::{self, Rendezvous};
use crate::exit_code::{Failure, failed};
use crate::measure::own_program;
use bytegauge_traffic::lock;

/// How often both sides of a connection to rank 0 give a sign of life.
pub const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// How long rank 0 may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// How often a rank looks for rank 0, and whether it shall stop.
const LOOK_AFTER: Duration = Duration::from_millis(200);

/// How long one attempt to reach an address of rank 0 may take.
const ATTEMPT: Duration = Duration::from_secs(3);

/// How long a file may name the port of another program, before that is an error: it may be left from an earlier run.
const STALE_FILE: Duration = Duration::from_secs(3);

/// Agents of ranks have ports from here on: another host must not make this one connect to its services.
const PRIVILEGED: u16 = 1024;

/// One rank before it has joined.
pub struct Member<'a> {
    /// Its flags.
    pub flags: &'a MeshFlags,
    /// The settings that its flags ask for, from which the limits of its agent follow.
    pub settings: &'a MeshSettings,
    /// The key of all hosts.
    pub key: Key,
    /// Set when this process is to end.
    pub stop: Arc<AtomicBool>,
}

/// How a member ended.
pub struct MemberEnd {
    /// The file of this rank; `None` if it is finished, or this rank was interrupted before it joined.
    pub file: Option<RankFile>,
    /// Whether the mesh is over; otherwise this rank was interrupted.
    pub is_complete: bool,
}

impl MemberEnd {
    /// Interrupted before it joined.
    const NOT_JOINED: MemberEnd = MemberEnd { file: None, is_complete: false };
}

/// The connection to rank 0, shared by the threads of a member.
type SharedSender = Arc<Mutex<Sender>>;

/// The name of this host: that of its Slurm node, if it has one.
pub fn host_name() -> String {
    let slurm = std::env::var("SLURMD_NODENAME").ok();
    let kernel = || fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    slurm.or_else(kernel).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".into())
}

impl Member<'_> {
    /// Joins the mesh and takes part until it is over.
    ///
    /// # Errors
    /// [`Failure`] if rank 0 is not found, refuses or is lost, or the file cannot be written.
    pub fn run(&self, ways: &[Rendezvous]) -> Result<MemberEnd, Failure> {
        let Some((sender, mut receiver, near)) = self.find(ways)? else { return Ok(MemberEnd::NOT_JOINED) };
        let agent = self.agent(near)?;
        let listens = agent.place()?;
        let serving = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&serving);
        let served = spawn("mesh-agent", move || agent.serve(&ends))?;
        let sender = Arc::new(Mutex::new(sender));
        let ended = self.take_part(&sender, &mut receiver, listens);
        if let Err(failure) = &ended {
            let _ = lock(&sender).send(&ToRankZero::Leave(failure.to_string()));
        }
        lock(&sender).hang_up();
        serving.store(true, Ordering::Relaxed);
        let _ = served.join();
        ended
    }

    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Finds rank 0 and proves that this rank has the key; `None` if it is interrupted before.
    fn find(&self, ways: &[Rendezvous]) -> Result<Option<(Sender, Receiver, SocketAddr)>, Failure> {
        let until = Instant::now() + self.flags.join;
        let mut last = "there is no answer".to_owned();
        // Another program at the address in the file, and since when.
        let mut other = None;
        while Instant::now() < until && !self.is_interrupted() {
            let addresses = |way: &Rendezvous| {
                let is_given = way.is_given();
                way.addresses().into_iter().map(move |address| (address, is_given))
            };
            for (address, is_given) in ways.iter().flat_map(addresses) {
                let attempt =
                    TcpStream::connect_timeout(&address, ATTEMPT).map_err(LineError::from).and_then(|stream| {
                        let near = stream.local_addr()?;
                        let (sender, receiver) = connect(stream, &self.key, VERSION, Instant::now() + ATTEMPT)?;
                        Ok((sender, receiver, near))
                    });
                match attempt {
                    Ok(found) => return Ok(Some(found)),
                    Err(error @ (LineError::OtherKey | LineError::Version { .. })) => {
                        let failure = Failure::failed(format!("rank 0 at {address}: {error}"));
                        if is_given {
                            return Err(failure);
                        }
                        other.get_or_insert((Instant::now(), failure));
                    }
                    Err(error) => last = format!("{address}: {error}"),
                }
            }
            if let Some((_, failure)) = other.take_if(|(since, _)| since.elapsed() >= STALE_FILE) {
                return Err(failure);
            }
            thread::sleep(LOOK_AFTER);
        }
        if self.is_interrupted() {
            return Ok(None);
        }
        let ways: Vec<String> = ways.iter().map(Rendezvous::described).collect();
        failed(format!(
            "rank {} did not find rank 0 by {} ({last}): start all ranks within --join-timeout, and see that they reach rank 0",
            self.flags.place.rank,
            ways.join(" and ")
        ))
    }

    /// The agent of this host. It is reached at the address by which this rank reaches rank 0.
    fn agent(&self, near: SocketAddr) -> Result<Agent, Failure> {
        let ip = if self.flags.place.rank == 0 { rendezvous::unspecified(near.ip()) } else { near.ip() };
        let place = Place::Ip(self.flags.listen.unwrap_or(SocketAddr::new(ip, 0)));
        let clients = self.settings.pattern.clients(self.settings.ranks) as usize;
        let limits = Limits { sessions: clients * sessions_of_client(self.settings), ..Limits::default() };
        let setup =
            AgentSetup { key: self.key.clone(), limits, program: own_program()?, machine: this_machine, log: |_| {} };
        Ok(Agent::listen(&place, setup)?)
    }

    fn take_part(
        &self,
        sender: &SharedSender,
        receiver: &mut Receiver,
        agent: SocketAddr,
    ) -> Result<MemberEnd, Failure> {
        let hello = RankHello {
            rank: self.flags.place.rank,
            size: self.flags.place.size,
            program: env!("CARGO_PKG_VERSION").into(),
            host: host_name(),
            rack: self.flags.rack.clone(),
            agent,
        };
        let lost = |error: LineError| Failure::failed(format!("rank {}: rank 0: {error}", self.flags.place.rank));
        lock(sender).send(&ToRankZero::Hello(Box::new(hello.clone()))).map_err(lost)?;
        let over = Arc::new(AtomicBool::new(false));
        let alive = self.keep_alive(sender, &over)?;
        let ended = self.joined(sender, receiver, hello);
        over.store(true, Ordering::Relaxed);
        let _ = alive.join();
        ended
    }

    /// Takes part as soon as rank 0 lets it.
    fn joined(&self, sender: &SharedSender, receiver: &mut Receiver, hello: RankHello) -> Result<MemberEnd, Failure> {
        let lost = |error: LineError| Failure::failed(format!("rank {}: rank 0: {error}", hello.rank));
        let welcome = receiver.receive(TO_RANK_MAX, Some(Instant::now() + SILENCE)).map(ToRank::within_caps);
        if self.is_interrupted() {
            return Ok(MemberEnd::NOT_JOINED);
        }
        let (settings, clock) = match welcome.map_err(lost)? {
            ToRank::Welcome { settings, unix_ns: there } => (*settings, ClockOfRankZero::at(there)),
            ToRank::Refused(reason) => return failed(format!("rank 0 refuses: {reason}")),
            _ => {
                return failed("rank 0 does not welcome this rank: use one version of bytegauge on all hosts");
            }
        };
        settings.check().map_err(|why| Failure::failed(format!("rank 0 sends settings with {why}")))?;
        let header = FileHeader { settings, hello };
        let (file, before) = RankFile::begin(&self.flags.out, &header, self.flags.resume)?;
        // A rank 0 that is gone is noticed where its orders are received.
        let _ = lock(sender).send(&ToRankZero::Done(done(&header.settings, &before)));
        let rank = MeasuringRank {
            settings: header.settings,
            clock,
            program: own_program()?,
            key: self.key.clone(),
            server: self.flags.server.clone(),
            file: Mutex::new(file),
            sender: Arc::clone(sender),
        };
        let mut visits = Visits { rank: Arc::new(rank), running: None };
        let is_complete = self.obey(receiver, &mut visits);
        // A file that cannot be written explains why rank 0 has closed the connection.
        visits.cancel_all()?;
        let rank = Arc::into_inner(visits.rank);
        let rank = rank.ok_or_else(|| Failure::failed("a test is still running: this is a bug"))?;
        let file = rank.file.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_complete = is_complete?;
        if is_complete && self.flags.place.rank != 0 {
            // Before this rank leaves, so that rank 0 finds it. Rank 0 itself adds rows to its own first.
            file.finish()?;
            return Ok(MemberEnd { file: None, is_complete });
        }
        Ok(MemberEnd { file: Some(file), is_complete })
    }

    /// Carries out the orders of rank 0 until it finishes (`true`) or this rank is interrupted (`false`).
    fn obey(&self, receiver: &mut Receiver, visits: &mut Visits) -> Result<bool, Failure> {
        loop {
            // The coordinator of this process may be silent while the process is stopped.
            let until = (self.flags.place.rank != 0).then(|| Instant::now() + SILENCE);
            let message = match receiver.receive(TO_RANK_MAX, until).map(ToRank::within_caps) {
                Ok(message) => message,
                Err(_) if self.is_interrupted() => return Ok(false),
                Err(error) => {
                    return failed(format!(
                        "rank {}: rank 0 is lost ({error}): the measured pairs are in {}; --resume measures the rest",
                        self.flags.place.rank,
                        self.flags.out.display()
                    ));
                }
            };
            match message {
                ToRank::Start { place, agent } => {
                    let checked = place.check(&visits.rank.settings).and(Ok(place.client == self.flags.place.rank));
                    if checked != Ok(true) {
                        return failed(format!("rank 0 starts a test that is none of this rank: {place:?}"));
                    }
                    visits.start(place, agent)?;
                }
                ToRank::Cancel { slot } => visits.cancel(slot),
                ToRank::Finish => return Ok(true),
                ToRank::Refused(reason) => return failed(format!("rank 0 refuses: {reason}")),
                ToRank::Alive | ToRank::Welcome { .. } => {}
            }
        }
    }

    /// Sends signs of life, and ends the connection when this rank is interrupted.
    fn keep_alive(&self, sender: &SharedSender, over: &Arc<AtomicBool>) -> Result<JoinHandle<()>, Failure> {
        let (sender, over, stop) = (Arc::clone(sender), Arc::clone(over), Arc::clone(&self.stop));
        let alive = move || {
            let mut sent = Instant::now();
            while !over.load(Ordering::Relaxed) {
                thread::sleep(LOOK_AFTER);
                if stop.load(Ordering::Relaxed) {
                    lock(&sender).hang_up();
                    return;
                }
                if sent.elapsed() >= ALIVE_EVERY {
                    sent = Instant::now();
                    if lock(&sender).send(&ToRankZero::Alive).is_err() {
                        return;
                    }
                }
            }
        };
        spawn("mesh-alive", alive)
    }
}

/// Starts a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    let thread = thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| Failure::failed(format!("no thread can be made: {error}")))
}

/// Sessions of a client at the agent of its partner: streams that load the path of calls have one of their own.
fn sessions_of_client(settings: &MeshSettings) -> usize {
    if PairVisit::needs_second_link(settings.cells.iter().map(|cell| &cell.cell)) { 2 } else { 1 }
}

/// Converts times of this host's clock, which may be wrong, to those of rank 0's clock.
#[derive(Clone, Copy, Debug)]
struct ClockOfRankZero {
    /// How far it is ahead of this host's clock, nanoseconds.
    ahead_ns: i64,
}

impl ClockOfRankZero {
    /// The clock of rank 0 shows `there_ns` now.
    fn at(there_ns: u64) -> ClockOfRankZero {
        ClockOfRankZero { ahead_ns: there_ns.wrapping_sub(unix_ns()).cast_signed() }
    }

    fn date(self, row: MeshRow) -> MeshRow {
        MeshRow { started_unix_ns: row.started_unix_ns.saturating_add_signed(self.ahead_ns), ..row }
    }
}

/// Everything that a test of this rank needs.
struct MeasuringRank {
    settings: MeshSettings,
    clock: ClockOfRankZero,
    program: PathBuf,
    key: Key,
    /// The external server that the user of this rank has named.
    server: Option<Place>,
    file: Mutex<RankFile>,
    sender: SharedSender,
}

/// The tests that this rank measures, one after the other.
struct Visits {
    rank: Arc<MeasuringRank>,
    running: Option<RunningVisit>,
}

/// A test that is being measured.
struct RunningVisit {
    slot: u32,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), MeshFileError>>,
}

impl Visits {
    fn start(&mut self, place: SlotPlace, agent: Option<SocketAddr>) -> Result<(), Failure> {
        // Rank 0 starts a test after the report of the one before it. If it does not wait for that, the earlier test is given up:
        // meanwhile no other message is read, and no interruption seen.
        self.cancel_all()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (rank, stopped) = (Arc::clone(&self.rank), Arc::clone(&stop));
        let thread = spawn("mesh-test", move || rank.test(place, agent, &stopped))?;
        self.running = Some(RunningVisit { slot: place.slot, stop, thread });
        Ok(())
    }

    fn cancel(&self, slot: u32) {
        if let Some(visit) = self.running.as_ref().filter(|visit| visit.slot == slot) {
            visit.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Stops the test that runs, and waits for its end.
    fn cancel_all(&mut self) -> Result<(), Failure> {
        let Some(visit) = self.running.take() else { return Ok(()) };
        visit.stop.store(true, Ordering::Relaxed);
        match visit.thread.join() {
            Ok(written) => Ok(written?),
            Err(_) => failed("a test ended by an error of its own: this is a bug"),
        }
    }
}

impl MeasuringRank {
    /// Measures its part of a slot, keeps the rows, and reports to rank 0.
    fn test(&self, place: SlotPlace, agent: Option<SocketAddr>, stop: &AtomicBool) -> Result<(), MeshFileError> {
        let failed = |reason| MeshRow {
            sender: Some(place.client),
            ..MeshRow::without_numbers(place, Outcome::Failed(reason), unix_ns())
        };
        let rows = self.measure(place, agent, stop).unwrap_or_else(|reason| vec![failed(reason)]);
        let rows: Vec<MeshRow> = rows.into_iter().map(|row| self.clock.date(row)).collect();
        if let Err(error) = lock(&self.file).add(&rows) {
            // The others go on without this rank.
            let _ = lock(&self.sender).send(&ToRankZero::Leave(error.to_string()));
            return Err(error);
        }
        let rates = rows.iter().filter_map(|row| Some((row.option?, row.sample()?))).collect();
        let report = ToRankZero::Report { slot: place.slot, outcome: outcome_of(&rows), rates };
        // A rank 0 that is gone is noticed by the thread that receives.
        let _ = lock(&self.sender).send(&report);
        Ok(())
    }

    /// Measures every option in every direction with the agent of a hub, or with the server of this rank's user. Returns why nothing
    /// was measured.
    fn measure(&self, place: SlotPlace, agent: Option<SocketAddr>, stop: &AtomicBool) -> Result<Vec<MeshRow>, String> {
        let partner = self.partner(place, agent)?;
        let settings = &self.settings;
        let cells: Vec<Cell> = settings.cells.iter().map(|cell| cell.cell.clone()).collect();
        let visit = PairVisit {
            program: self.program.clone(),
            ends: settings.ends,
            verify: settings.verify,
            warmup_ns: settings.warmup_ns,
            window_ns: settings.window_ns,
            seed: settings.seed,
            limits: Arc::new(Limits::default()),
            number: u64::from(place.slot),
        };
        let trials = visit.measure(&cells, &partner, stop);
        let cell = |trial: &Trial| settings.cells.iter().find(|cell| cell.cell.id == trial.cell);
        let rows = trials.iter().filter_map(|trial| Some(MeshRow::all_of(place, cell(trial)?, trial)));
        let rows: Vec<MeshRow> = rows.flatten().collect();
        if rows.is_empty() { Err("the test was cancelled".into()) } else { Ok(rows) }
    }

    /// The other end of a test, or why there is none.
    fn partner(&self, place: SlotPlace, agent: Option<SocketAddr>) -> Result<VisitPartner, String> {
        let Some(agent) = agent else {
            // Rank 0 does not decide which server other hosts call.
            let server = self.server.clone();
            let server = server.ok_or("this rank was started without --connect: use the same flags on all hosts")?;
            return Ok(VisitPartner::Server(server));
        };
        if agent.port() < PRIVILEGED {
            return Err(format!("the agent of its partner would be at the privileged port {agent}"));
        }
        // No more than the agent of a rank allows.
        let most_ns = Limits::default().duration.as_nanos() as u64;
        let asked_ns = self.settings.slot_ns().saturating_mul(4).min(most_ns);
        let link = || AgentLink::open(agent, &self.key, asked_ns);
        let links = (0..sessions_of_client(&self.settings))
            .map(|_| link().map(|link| Arc::new(link) as Arc<dyn RemoteHost>))
            .collect::<Result<_, FarError>>();
        links.map(VisitPartner::Agent).map_err(|error| match error {
            // An agent of a mesh is not started by hand.
            FarError::Silent(agent, error) => format!("rank {} does not answer at {agent}: {error}", place.hub),
            error => error.to_string(),
        })
    }
}

/// How a part ended: measured if any trial was, else as the first one.
fn outcome_of(rows: &[MeshRow]) -> Outcome {
    let measured = rows.iter().find(|row| row.outcome == Outcome::Measured);
    let row = measured.or_else(|| rows.first());
    row.map_or_else(|| Outcome::Failed("nothing was measured".into()), |row| row.outcome.clone())
}

/// Slots of an earlier run whose part is complete: every cell was measured in each of its directions.
fn done(settings: &MeshSettings, rows: &[MeshRow]) -> Vec<u32> {
    let mut measured: BTreeMap<u32, BTreeSet<_>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.outcome == Outcome::Measured) {
        measured.entry(row.place.slot).or_default().insert((row.option, row.sender));
    }
    measured.into_iter().filter(|(_, trials)| trials.len() >= settings.rows_of_part()).map(|(slot, _)| slot).collect()
}
