//! Rank 0: accepts the other ranks, and carries out the decisions of the coordinator.
//!
//! One thread accepts ([`ProvenListener`]), one per rank receives, and one decides ([`RankZero::run`]). The thread that decides
//! waits for no rank longer than [`TO_RANK`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytegauge_agent::{ProvenCaller, ProvenListener};
use bytegauge_mesh::coordinator::{Action, Coordinator, CoordinatorLimits, LostRank, MissingPart};
use bytegauge_mesh::message::{TO_RANK_0_MAX, VERSION, shortened};
use bytegauge_mesh::rate_model::rack_numbers;
use bytegauge_mesh::result::{FollowUpRound, follow_up};
use bytegauge_mesh::{
    MeshResult, MeshRow, MeshSettings, Rank, RankHello, RateSample, SlotId, SlotPlace, ToRank, ToRankZero,
};
use bytegauge_model::escape;
use bytegauge_model::unit::counted;
use bytegauge_sys::clock::unix_ns;
use bytegauge_wire::{Key, LineError, Receiver, Sender};

use super::flags::MeshFlags;
use super::member::{ALIVE_EVERY, host_name, spawn};
use super::rendezvous::{self, PublishedFile};
use crate::exit_code::Failure;
use crate::terminal;

/// Connections with a proof at a time, in addition to one per rank: ranks that come again, or are refused.
const SPARE_CONNECTIONS: usize = 64;

/// Messages of all ranks that wait. Further ones wait in the connections of the ranks that send them.
const EVENTS_MAX: usize = 1024;

/// How long a rank may take to make room for a message.
const TO_RANK: Duration = Duration::from_secs(2);

/// How long a rank may take to take the settings.
const WELCOME: Duration = Duration::from_secs(8);

/// How long a rank may be silent; it sends something every 2 s.
const SILENCE: Duration = Duration::from_secs(15);

/// How long a test may take beyond three times its expected time: set-up over a slow network, and the time-outs of the
/// client itself.
const SLOT_BEYOND: Duration = Duration::from_secs(40);

/// How long a client may take to stop.
const CANCEL: Duration = Duration::from_secs(20);

/// From a turn of the thread that decides to the next one, after which it was stopped or starved, and not the ranks.
const AWAY: Duration = Duration::from_secs(3);

/// How long ranks may take to finish their files.
const FINISH: Duration = Duration::from_secs(20);

/// The stack of a thread that receives, bytes.
const STACK: usize = 256 << 10;

/// A message of a rank, or a change of its connection.
enum RankEvent {
    /// A rank introduced itself. It receives whether it may join, or the reason why not.
    Hello(Box<RankHello>, mpsc::Sender<Result<(), String>>),
    /// An admitted rank has the settings.
    Joined(Box<RankPeer>),
    /// An admitted rank did not take the settings.
    NotJoined(Rank),
    /// It sent something.
    Message(Rank, ToRankZero),
    /// Its connection is over.
    Closed(Rank),
}

/// A rank that is connected.
struct RankPeer {
    hello: RankHello,
    sender: Sender,
    near: IpAddr,
}

impl RankPeer {
    /// Sends a message; one that the rank makes no room for ends its connection.
    fn send(&mut self, message: &ToRank) -> Result<(), LineError> {
        self.sender.send_until(message, Instant::now() + TO_RANK)
    }
}

/// Rank 0 as it listens.
pub struct RankZero {
    listener: TcpListener,
    // Removes the file at the end.
    _published: Option<PublishedFile>,
    flags: MeshFlags,
    settings: MeshSettings,
    key: Key,
    stop: Arc<AtomicBool>,
}

impl RankZero {
    /// Listens at the address of the flags.
    ///
    /// # Errors
    /// [`Failure`] with the next step.
    pub fn listen(
        flags: &MeshFlags,
        settings: MeshSettings,
        key: Key,
        stop: Arc<AtomicBool>,
    ) -> Result<RankZero, Failure> {
        let (listener, published) = rendezvous::listen(flags, &host_name())?;
        Ok(RankZero { listener, _published: published, flags: flags.clone(), settings, key, stop })
    }

    /// Where the member of this process connects.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn own_address(&self) -> Result<SocketAddr, Failure> {
        let address = self.listener.local_addr().map_err(Failure::failed)?;
        let own = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Ok(SocketAddr::new(own, address.port()))
    }

    /// Coordinates until everything is over. Returns rows of the parts that were not measured.
    ///
    /// # Errors
    /// If no thread can be made.
    pub fn run(self) -> Result<Vec<MeshRow>, Failure> {
        let (events, inbox) = mpsc::sync_channel(EVENTS_MAX);
        let closing = Arc::new(AtomicBool::new(false));
        let listener = self.listener.try_clone().map_err(Failure::failed)?;
        let listener = ProvenListener::new(listener, self.key.clone(), VERSION)?;
        let (settings, stop_accepting) = (Arc::new(self.settings.clone()), Arc::clone(&closing));
        let accept = move || accept_ranks(&listener, &settings, &events, &stop_accepting);
        let accepting = spawn("mesh-accept", accept)?;
        let mut board = Board::new(&self);
        board.run(&inbox);
        let missing = board.missing();
        closing.store(true, Ordering::Relaxed);
        // Threads that wait until there is room for a message go on.
        drop(inbox);
        let _ = accepting.join();
        Ok(missing)
    }
}

/// Accepts ranks, and gives each a thread.
fn accept_ranks(
    listener: &ProvenListener,
    settings: &Arc<MeshSettings>,
    events: &mpsc::SyncSender<RankEvent>,
    closing: &AtomicBool,
) {
    // Each connection holds one more reference.
    let connected = Arc::new(());
    let most = settings.ranks as usize + SPARE_CONNECTIONS;
    listener.serve(closing, |caller| {
        if Arc::strong_count(&connected) > most {
            return;
        }
        let (settings, events, counted) = (Arc::clone(settings), events.clone(), Arc::clone(&connected));
        let thread = thread::Builder::new().name("mesh-rank".into()).stack_size(STACK);
        // Without a thread the connection is closed, and the rank tries again.
        let _ = thread.spawn(move || {
            if let Some((rank, receiver)) = meet(caller, &settings, &events) {
                receive(rank, receiver, &events);
            }
            drop(counted);
        });
    });
}

/// Lets a rank introduce itself, and sends it the settings if it may join: its number and where its messages come from.
fn meet(
    caller: ProvenCaller,
    settings: &MeshSettings,
    events: &mpsc::SyncSender<RankEvent>,
) -> Option<(Rank, Receiver)> {
    let (near, until) = (caller.near().ok()?.ip(), caller.until);
    let (mut sender, mut receiver) = caller.line().ok()?;
    let ToRankZero::Hello(hello) = receiver.receive(TO_RANK_0_MAX, Some(until)).ok()? else { return None };
    let hello = Box::new(hello.within_caps());
    let rank = hello.rank;
    let (answer, answered) = mpsc::channel();
    events.send(RankEvent::Hello(hello.clone(), answer)).ok()?;
    if let Err(reason) = answered.recv().ok()? {
        let _ = sender.send_until(&ToRank::Refused(reason), Instant::now() + TO_RANK);
        sender.part();
        return None;
    }
    let welcome = ToRank::Welcome { settings: Box::new(settings.clone()), unix_ns: unix_ns() };
    if sender.send_until(&welcome, Instant::now() + WELCOME).is_err() {
        let _ = events.send(RankEvent::NotJoined(rank));
        return None;
    }
    events.send(RankEvent::Joined(Box::new(RankPeer { hello: *hello, sender, near }))).ok()?;
    Some((rank, receiver))
}

/// Passes messages on until the connection is over.
fn receive(rank: Rank, mut receiver: Receiver, events: &mpsc::SyncSender<RankEvent>) {
    while let Ok(message) = receiver.receive(TO_RANK_0_MAX, None) {
        if events.send(RankEvent::Message(rank, message)).is_err() {
            return;
        }
    }
    let _ = events.send(RankEvent::Closed(rank));
}

/// The state of the thread that decides.
struct Board<'a> {
    zero: &'a RankZero,
    began: Instant,
    coordinator: Coordinator,
    peers: BTreeMap<Rank, RankPeer>,
    /// Admitted ranks that do not have the settings yet.
    joining: BTreeSet<Rank>,
    /// Rates by option.
    samples: Vec<Vec<RateSample>>,
    /// Racks by rank.
    racks: BTreeMap<Rank, String>,
    follow_up: FollowUpState,
    /// When ranks must have left, once everything is over.
    finishing: Option<Instant>,
    shown: Instant,
}

impl<'a> Board<'a> {
    fn new(zero: &'a RankZero) -> Board<'a> {
        let settings = &zero.settings;
        let ns = |time: Duration| time.as_nanos() as u64;
        let limits = CoordinatorLimits {
            join_ns: ns(zero.flags.join),
            silence_ns: ns(SILENCE),
            slot_ns: settings.slot_ns().saturating_mul(3).saturating_add(ns(SLOT_BEYOND)),
            cancel_ns: ns(CANCEL),
            concurrent: settings.concurrent.map_or(usize::MAX, |count| count as usize),
        };
        Board {
            zero,
            began: Instant::now(),
            coordinator: Coordinator::new(settings.schedule(), limits),
            peers: BTreeMap::new(),
            joining: BTreeSet::new(),
            samples: vec![Vec::new(); settings.options.len()],
            racks: BTreeMap::new(),
            follow_up: if settings.follow_up { FollowUpState::Wanted } else { FollowUpState::Done },
            finishing: None,
            shown: Instant::now(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn run(&mut self, inbox: &mpsc::Receiver<RankEvent>) {
        let (mut alive, mut turn) = (Instant::now(), Instant::now());
        loop {
            let event = inbox.recv_timeout(Duration::from_millis(200));
            // It is stopped while it waits, so before time passes for the coordinator.
            if turn.elapsed() >= AWAY {
                self.coordinator.was_away(self.now_ns());
            }
            turn = Instant::now();
            match event {
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.coordinator.tick(self.now_ns());
            self.carry_out();
            if alive.elapsed() >= ALIVE_EVERY {
                alive = Instant::now();
                self.send_all(&ToRank::Alive);
                self.show_progress(false);
            }
            let is_stopped = self.zero.stop.load(Ordering::Relaxed);
            if (self.coordinator.is_over() || is_stopped)
                && self.finishing.is_none()
                && !self.is_followed_up(is_stopped)
            {
                self.finishing = Some(Instant::now() + FINISH);
                self.show_progress(true);
                // An interrupted mesh ends without a whole file, so that it can be resumed.
                if is_stopped { self.peers.clear() } else { self.send_all(&ToRank::Finish) }
            }
            if self.finishing.is_some_and(|until| self.peers.is_empty() || Instant::now() >= until) {
                return;
            }
        }
    }

    fn handle(&mut self, event: RankEvent) {
        let now_ns = self.now_ns();
        match event {
            RankEvent::Hello(hello, answer) => self.welcome(&hello, &answer),
            RankEvent::Joined(peer) => {
                let rank = peer.hello.rank;
                self.joining.remove(&rank);
                self.racks.extend(peer.hello.rack.clone().map(|rack| (rank, rack)));
                self.peers.insert(rank, *peer);
            }
            RankEvent::NotJoined(rank) => {
                self.joining.remove(&rank);
            }
            RankEvent::Message(rank, ToRankZero::Done(slots)) => {
                self.coordinator.join(rank, &slots, now_ns);
            }
            RankEvent::Message(rank, ToRankZero::Alive) => self.coordinator.heard(rank, now_ns),
            RankEvent::Message(rank, ToRankZero::Report { slot, outcome, rates }) => {
                let rates = self.coordinator.own_rates(rank, slot, &rates, self.samples.len());
                if self.coordinator.report(rank, slot, outcome, now_ns) {
                    for (option, sample) in rates {
                        self.samples[option as usize].push(sample);
                    }
                }
            }
            RankEvent::Message(rank, ToRankZero::Leave(reason)) => {
                self.note(&format!("rank {rank} leaves: {}", shortened(reason)));
                self.coordinator.lose(rank, LostRank::Left, now_ns);
                self.peers.remove(&rank);
            }
            RankEvent::Message(_, ToRankZero::Hello(_)) => {}
            RankEvent::Closed(rank) => {
                self.peers.remove(&rank);
                if self.finishing.is_none() {
                    self.coordinator.lose(rank, LostRank::Disconnected, now_ns);
                }
            }
        }
    }

    /// Admits a rank, or refuses it with the reason.
    fn welcome(&mut self, hello: &RankHello, answer: &mpsc::Sender<Result<(), String>>) {
        let settings = &self.zero.settings;
        let program = env!("CARGO_PKG_VERSION");
        let rank = hello.rank;
        let reason = if hello.size != settings.ranks {
            Some(format!(
                "this mesh has {} ranks, and rank {rank} expects {}: use the same --size",
                settings.ranks, hello.size
            ))
        } else if rank >= settings.ranks {
            Some(format!("rank {rank} is out of range"))
        } else if hello.program != program {
            Some(format!("rank 0 runs bytegauge {program}, and rank {rank} {}: use one version", hello.program))
        } else if let Some(peer) = self.peers.get(&rank) {
            Some(format!("rank {rank} is taken by {}: give each process a rank of its own", peer.hello.host))
        } else if self.joining.contains(&rank) {
            Some(format!("rank {rank} is taken: give each process a rank of its own"))
        } else if self.coordinator.lost().any(|(lost, _)| lost == rank) {
            Some(format!("rank {rank} is too late, or was lost: --resume measures its tests"))
        } else {
            None
        };
        match reason {
            Some(reason) => {
                self.note(&format!("rank {rank} on {}: refused: {reason}", hello.host));
                let _ = answer.send(Err(reason));
            }
            None if answer.send(Ok(())).is_ok() => {
                self.joining.insert(rank);
            }
            None => {}
        }
    }

    fn carry_out(&mut self) {
        for action in self.coordinator.take_actions() {
            match action {
                Action::Start(rank, slot) => {
                    let start = self.start(rank, slot);
                    self.send(rank, start.as_ref());
                }
                Action::Cancel(rank, slot) => self.send(rank, Some(&ToRank::Cancel { slot })),
                Action::Drop(rank, why) => {
                    let host = self.peers.remove(&rank).map(|peer| {
                        peer.sender.hang_up();
                        format!(" on {}", peer.hello.host)
                    });
                    self.note(&format!("rank {rank}{} {why}", host.unwrap_or_default()));
                }
            }
        }
    }

    /// Sends a message. A rank that does not take it is lost, and so is one for which there is no message.
    fn send(&mut self, rank: Rank, message: Option<&ToRank>) {
        if message.and_then(|message| self.peers.get_mut(&rank)?.send(message).ok()).is_none() {
            self.peers.remove(&rank);
            self.coordinator.lose(rank, LostRank::Disconnected, self.now_ns());
        }
    }

    /// The message that starts a client; `None` if a member is gone.
    fn start(&self, rank: Rank, slot: SlotId) -> Option<ToRank> {
        let of = self.coordinator.schedule().slot(slot);
        let client = self.peers.get(&rank)?;
        let place = SlotPlace::of(slot, of, rank);
        if of.hub >= self.zero.settings.ranks {
            return Some(ToRank::Start { place, agent: None });
        }
        // Rank 0 listens at all addresses: its partner uses the one that it reached.
        let listens = self.peers.get(&of.hub)?.hello.agent;
        let ip = if listens.ip().is_unspecified() { client.near } else { listens.ip() };
        Some(ToRank::Start { place, agent: Some(SocketAddr::new(ip, listens.port())) })
    }

    /// Repeats suspects once, after the pattern. `false` if there are none, or they have been repeated.
    fn is_followed_up(&mut self, is_stopped: bool) -> bool {
        if is_stopped {
            return false;
        }
        match std::mem::replace(&mut self.follow_up, FollowUpState::Done) {
            FollowUpState::Done => false,
            FollowUpState::Wanted => {
                let empty = vec![Vec::new(); self.samples.len()];
                let samples = std::mem::replace(&mut self.samples, empty);
                self.follow_up = FollowUpState::find(samples, &self.racks, &self.zero.settings);
                true
            }
            FollowUpState::Finding(thread) if !thread.is_finished() => {
                self.follow_up = FollowUpState::Finding(thread);
                true
            }
            FollowUpState::Finding(thread) => self.add_rounds(&thread.join().unwrap_or_default()),
        }
    }

    /// Adds rounds: whether there is something to measure.
    fn add_rounds(&mut self, rounds: &[FollowUpRound]) -> bool {
        let settings = &self.zero.settings;
        let now_ns = self.now_ns();
        for (at, round) in rounds.iter().enumerate() {
            let slots: Vec<_> = round.iter().map(|(hub, client)| (*hub, vec![*client])).collect();
            self.coordinator.push_round(settings.replicates + at as u32, &slots, now_ns);
        }
        if !rounds.is_empty() {
            self.note(&format!("follow-up: {}", counted(rounds.len(), "round")));
        }
        self.carry_out();
        !self.coordinator.is_over()
    }

    fn send_all(&mut self, message: &ToRank) {
        let ranks: Vec<Rank> = self.peers.keys().copied().collect();
        ranks.into_iter().for_each(|rank| self.send(rank, Some(message)));
    }

    /// Rows of parts that were not measured.
    fn missing(&self) -> Vec<MeshRow> {
        let schedule = self.coordinator.schedule();
        let row = |part: &MissingPart| {
            let place = SlotPlace::of(part.slot, schedule.slot(part.slot), part.client);
            MeshRow::without_numbers(place, part.outcome.clone(), unix_ns())
        };
        self.coordinator.missing().iter().map(row).collect()
    }

    fn note(&self, text: &str) {
        if !self.zero.flags.quiet {
            terminal::note(&format!("mesh: {}", escape::line(text)));
        }
    }

    fn show_progress(&mut self, is_over: bool) {
        if !is_over && self.shown.elapsed() < Duration::from_secs(10) {
            return;
        }
        self.shown = Instant::now();
        let all = self.coordinator.schedule().len();
        let over = all - self.coordinator.slots_left();
        let lost = self.coordinator.lost().count();
        let lost = if lost == 0 { String::new() } else { format!(", {} lost", counted(lost, "rank")) };
        let present = counted(self.peers.len(), "rank");
        self.note(&format!("{over} of {all} tests over, {present} present{lost}"));
    }
}

// Finds the pairs and hosts that are repeated after the pattern.

/// The repetition of suspects.
pub enum FollowUpState {
    /// After the pattern.
    Wanted,
    /// Suspects are being found.
    Finding(JoinHandle<Vec<FollowUpRound>>),
    /// It is over, or not wanted.
    Done,
}

impl FollowUpState {
    /// Finds suspects in a thread of its own: a million rates take seconds, in which ranks need signs of life. `samples` has the
    /// rates of each option.
    pub fn find(
        samples: Vec<Vec<RateSample>>,
        racks: &BTreeMap<Rank, String>,
        settings: &MeshSettings,
    ) -> FollowUpState {
        let (racks, _) = rack_numbers(settings.ranks, |rank| racks.get(&rank).map(String::as_str));
        let (margin, seed) = (settings.margin, settings.seed);
        let find = move || {
            let mut rounds: Vec<FollowUpRound> = Vec::new();
            for of_option in &samples {
                // A round that an option before has asked for is made once; those of one option are repetitions.
                let earlier = rounds.clone();
                let own = follow_up(&MeshResult::of(of_option, &racks, margin), seed);
                rounds.extend(own.into_iter().filter(|round| !earlier.contains(round)));
            }
            rounds
        };
        spawn("mesh-suspects", find).map_or(FollowUpState::Done, FollowUpState::Finding)
    }
}
