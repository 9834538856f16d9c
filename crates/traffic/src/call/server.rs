//! One connection of the server: takes whole requests, does the work, replies.
//!
//! A reply begins when its request is complete, however it arrived. An echo sends back the very bytes, from where the
//! engine received them; a reply of another length is written once and carries the request's number. While a reply is being sent no further
//! request is read, so that a client that does not take its replies cannot make the server hold more and more.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytegauge_model::Work;

use crate::call::setup::CallSetup;
use crate::call::strangers::{Place, Strangers};
use crate::call::terms::{HEAD, Terms};
use crate::count::Count;
use crate::end::Body;
use crate::fault::Fault;
use crate::flow::{End, Flow, Want};
use crate::plant::Plant;
use crate::setup::Setup;
use crate::stream::{CopyOut, Effort, SpinPerByte, Sum, Walk};
use crate::ticket::{SHOWN, Shown};

/// What all connections of one server thread share.
#[derive(Debug)]
pub struct Desk {
    terms: Terms,
    connect_per_call: bool,
    read_once: bool,
    /// Requests served, as the meter's marks see them.
    served: Count,
    begun: Count,
    verified_bytes: AtomicU64,
    labour: Option<Mutex<Labour>>,
    plant: Option<Plant>,
    /// The planted stop has happened; it happens once.
    stopped: AtomicBool,
    body: Body,
    /// Set with a planted death: where threads share a server, all of them leave.
    abort: Arc<AtomicBool>,
    fault: Mutex<Option<Fault>>,
    /// Who has yet to show a ticket before anything of it is answered, where clients are on another host.
    strangers: Option<Strangers>,
}

/// The work on one request.
#[derive(Debug)]
struct Labour {
    effort: AnyEffort,
    walk: Option<Walk>,
}

#[derive(Debug)]
enum AnyEffort {
    None,
    Sum(Sum),
    Copy(CopyOut),
    Spin(SpinPerByte),
}

/// One connection.
#[derive(Debug)]
pub struct ServerFlow {
    desk: Arc<Desk>,
    state: State,
    /// Bytes of the present request that arrived.
    have: usize,
    head: [u8; HEAD],
    /// An echo: bytes of complete requests that are to be sent back, and of what stands before them, which is not.
    ready: usize,
    skip: usize,
    /// Bytes that arrived and are neither: of a request that is not complete.
    part: usize,
    /// Bytes of a reply that is no echo that were not sent yet.
    left: usize,
    /// Something else was written where that reply is.
    overwrote: bool,
    /// Requests that wait for a reply that is no echo.
    waiting: VecDeque<u64>,
    /// What it has shown, of which so many bytes are still to come, and where it stands until then.
    shown: Shown,
    to_show: usize,
    place: Option<Place>,
    /// What it has said, if that is no ticket.
    said: Vec<u8>,
    /// Replies that a planted fault makes longer, shorter or wrong: the plant, for the next one.
    spoil: Option<Plant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The client sends no more; what is complete is still answered.
    HalfShut,
    /// To be closed.
    Leaving,
    Gone,
    /// A planted stall.
    Stuck,
}

impl Desk {
    /// The desk of one thread, or of those that an engine with a thread a connection makes.
    pub fn new(setup: &Setup<CallSetup>, body: Body, abort: Arc<AtomicBool>) -> Desk {
        let call = &setup.task;
        let path = &call.path;
        let shared = call.server_engine.has_thread_a_flow();
        let effort = match path.work {
            Work::None => AnyEffort::None,
            Work::Sum => AnyEffort::Sum(Sum::default()),
            Work::Copy => AnyEffort::Copy(CopyOut::new(path.read_size)),
            Work::NsPerByte(ns) => AnyEffort::Spin(SpinPerByte(ns)),
        };
        let walk = (path.walk > 0).then(|| Walk::new(path.walk));
        let works = path.work != Work::None || walk.is_some();
        Desk {
            terms: Terms::of(setup),
            connect_per_call: call.connect_per_call,
            read_once: call.read_once,
            served: Count::new(shared),
            begun: Count::new(shared),
            verified_bytes: AtomicU64::new(0),
            labour: works.then(|| Mutex::new(Labour { effort, walk })),
            plant: setup.plant,
            stopped: AtomicBool::new(false),
            body,
            abort,
            fault: Mutex::new(None),
            strangers: path.far.map(|far| Strangers::new(far.ticket, path.flows + call.idle_flows)),
        }
    }

    /// Requests served, counted where the meter can see it.
    pub fn served(&self) -> &Count {
        &self.served
    }

    /// Requests of which at least a byte arrived.
    pub fn begun(&self) -> u64 {
        self.begun.value()
    }

    /// Bytes of requests that were compared.
    pub fn verified_bytes(&self) -> u64 {
        self.verified_bytes.load(Ordering::Relaxed)
    }

    /// What was wrong with the requests, if anything.
    pub fn take_fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn works_on(&self, bytes: &[u8]) {
        let Some(labour) = &self.labour else { return };
        match &mut labour.lock().unwrap_or_else(PoisonError::into_inner).effort {
            AnyEffort::None => {}
            AnyEffort::Sum(sum) => sum.spend(bytes),
            AnyEffort::Copy(copy) => copy.spend(bytes),
            AnyEffort::Spin(spin) => spin.spend(bytes),
        }
    }

    fn walks(&self) {
        let Some(labour) = &self.labour else { return };
        if let Some(walk) = &mut labour.lock().unwrap_or_else(PoisonError::into_inner).walk {
            walk.walk();
        }
    }

    /// What messages are made of.
    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The planted fault, if any.
    pub(super) fn plant(&self) -> Option<Plant> {
        self.plant
    }

    /// A request arrived whole: does the work. How many were served by now.
    pub(super) fn serves(&self, request: &[u8]) -> u64 {
        self.begun.add();
        self.works_on(request);
        self.walks();
        self.served.add()
    }

    /// Compares bytes of a request, from `at` on.
    #[cold]
    pub(super) fn check(&self, head: u64, at: usize, bytes: &[u8]) {
        match self.terms.check_request(head, at, bytes) {
            Ok(()) => {
                self.verified_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            Err(mismatch) => {
                let (offset, expected, found) = (mismatch.offset, mismatch.expected, mismatch.found);
                let fault = Fault::Corrupt { flow: (head >> 40) as usize, offset, expected, found };
                self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
            }
        }
    }

    /// Carries out a planted fault that is due, now that so many requests were served.
    #[cold]
    pub(super) fn planted(&self, plant: Plant, served: u64) -> Planted {
        let received = served * self.terms.request as u64;
        match plant {
            Plant::Die { after_bytes } if received >= after_bytes => match self.body {
                Body::Process => std::process::abort(),
                // Without the panic hook: the death is planned, and standard error belongs to the user.
                Body::Thread => {
                    self.abort.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(Box::new("planted death"))
                }
            },
            Plant::Stall { after_bytes } if received >= after_bytes => Planted::Stuck,
            Plant::Nap { after_bytes, ns }
                if received >= after_bytes && !self.stopped.swap(true, Ordering::Relaxed) =>
            {
                std::thread::sleep(Duration::from_nanos(ns));
                Planted::Nothing
            }
            Plant::Spin { ns } => {
                crate::spin::spin_by_clock_ns(ns);
                Planted::Nothing
            }
            Plant::ShortReply { after_bytes }
            | Plant::LongReply { after_bytes }
            | Plant::Corrupt { offset: after_bytes }
                if received >= after_bytes && !self.stopped.swap(true, Ordering::Relaxed) =>
            {
                Planted::Spoil
            }
            _ => Planted::Nothing,
        }
    }
}

/// What a planted fault asks of whoever serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    /// Nothing, now.
    Nothing,
    /// To serve no more, and keep what is open.
    Stuck,
    /// To spoil the next reply.
    Spoil,
}

impl ServerFlow {
    /// A connection that was accepted by a thread with this desk; `None` where there is no place for it.
    pub fn new(desk: Arc<Desk>, connection: BorrowedFd<'_>) -> Option<ServerFlow> {
        let place = match &desk.strangers {
            Some(strangers) => Some(strangers.enters(connection)?),
            None => None,
        };
        let to_show = if place.is_some() { SHOWN } else { 0 };
        Some(ServerFlow {
            desk,
            state: State::Open,
            have: 0,
            head: [0; HEAD],
            ready: 0,
            skip: 0,
            part: 0,
            left: 0,
            overwrote: false,
            waiting: VecDeque::new(),
            shown: [0; SHOWN],
            to_show,
            place,
            said: Vec::new(),
            spoil: None,
        })
    }

    /// Takes what a connection shows first. What is left over; nothing, of a stranger.
    #[cold]
    fn look<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (part, rest) = bytes.split_at(bytes.len().min(self.to_show));
        self.skip += part.len();
        let at = SHOWN - self.to_show;
        self.shown[at..at + part.len()].copy_from_slice(part);
        self.to_show -= part.len();
        if self.to_show > 0 {
            return rest;
        }
        self.is_no_stranger();
        if self.desk.strangers.as_ref().is_some_and(|strangers| strangers.admits(&self.shown)) {
            return rest;
        }
        // Open: it may be somebody else's caller.
        self.state = State::Gone;
        self.said = [&self.shown, rest].concat();
        &[]
    }

    /// It has shown everything or leaves: another may have its place.
    fn is_no_stranger(&mut self) {
        if let (Some(strangers), Some(place)) = (&self.desk.strangers, self.place.take()) {
            strangers.leaves(&place);
        }
    }

    /// What a connection has said that is none of ours, or may not be.
    pub(super) fn astray(&self) -> Option<&[u8]> {
        match self.to_show {
            0 if self.said.is_empty() => None,
            0 => Some(&self.said),
            missing => Some(&self.shown[..SHOWN - missing]),
        }
    }

    /// A request is complete.
    fn served_one(&mut self) {
        self.have = 0;
        self.desk.walks();
        let served = self.desk.served.add();
        if self.desk.terms.echo {
            self.ready += std::mem::take(&mut self.part);
        } else {
            self.waiting.push_back(u64::from_le_bytes(self.head));
        }
        if let Some(plant) = self.desk.plant {
            self.planted(plant, served);
        }
    }

    /// Takes the part of `bytes` that belongs to the present request. What is left over.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let terms = &self.desk.terms;
        let (part, rest) = bytes.split_at(bytes.len().min(terms.request - self.have));
        if self.have == 0 {
            self.desk.begun.add();
        }
        if self.have < HEAD {
            let head = part.len().min(HEAD - self.have);
            self.head[self.have..self.have + head].copy_from_slice(&part[..head]);
        }
        if terms.echo {
            self.part += part.len();
        }
        self.have += part.len();
        if terms.verify && !terms.echo {
            self.check(part);
        }
        if self.have == terms.request || self.desk.read_once {
            self.served_one();
        }
        rest
    }

    #[cold]
    fn check(&self, part: &[u8]) {
        let at = self.have - part.len();
        // The head is whole only once so many bytes are there: what comes before is the number itself.
        let skip = HEAD.saturating_sub(at).min(part.len());
        let skip = if self.desk.terms.is_numbered() { skip } else { 0 };
        let head = u64::from_le_bytes(self.head);
        self.desk.check(head, at + skip, &part[skip..]);
    }

    #[cold]
    fn planted(&mut self, plant: Plant, served: u64) {
        match self.desk.planted(plant, served) {
            Planted::Nothing => {}
            Planted::Stuck => self.state = State::Stuck,
            Planted::Spoil => self.spoil = Some(plant),
        }
    }

    /// Whether there is something to send.
    fn has_reply(&self) -> bool {
        self.ready > 0 || self.left > 0 || !self.waiting.is_empty() || self.spoils_an_echo()
    }

    /// Whether a byte too much is to be sent behind an echo.
    fn spoils_an_echo(&self) -> bool {
        self.desk.terms.echo && matches!(self.spoil, Some(Plant::LongReply { .. }))
    }

    /// Spoils an echo whose last bytes have just arrived.
    #[cold]
    fn spoil_echo(&mut self, bytes: &mut [u8]) {
        match self.spoil {
            Some(Plant::ShortReply { .. }) => {
                self.ready -= self.ready.div_ceil(2);
                self.state = if self.ready == 0 { State::Leaving } else { State::HalfShut };
            }
            Some(Plant::Corrupt { .. }) => bytes[0] ^= 1,
            // A byte too many follows once the echo is sent.
            _ => return,
        }
        self.spoil = None;
    }

    /// Spoils a reply that was just written. Its length.
    #[cold]
    fn spoil_reply(&mut self, reply: &mut [u8], len: usize) -> usize {
        self.overwrote = true;
        match self.spoil.take() {
            Some(Plant::ShortReply { .. }) => {
                self.state = State::HalfShut;
                self.waiting.clear();
                len - len.div_ceil(2)
            }
            Some(Plant::LongReply { .. }) => {
                reply[len] = 0xee;
                len + 1
            }
            Some(Plant::Corrupt { .. }) => {
                reply[0] ^= 1;
                len
            }
            _ => len,
        }
    }

    /// All that was ready is sent.
    fn replied(&mut self) {
        if !self.has_reply() && (self.desk.connect_per_call || self.state == State::HalfShut) {
            self.state = State::Leaving;
        }
    }
}

impl Flow for ServerFlow {
    #[inline]
    fn want(&mut self, _now_ns: u64) -> Want {
        match self.state {
            State::Open | State::HalfShut if self.has_reply() => Want::Send,
            State::Open => Want::Receive,
            State::HalfShut => {
                self.state = State::Gone;
                Want::Close
            }
            State::Leaving => {
                self.state = State::Gone;
                Want::Close
            }
            State::Gone => Want::Done,
            State::Stuck => Want::Pause(u64::MAX),
        }
    }

    fn room(&self) -> usize {
        // And the byte that a planted fault adds.
        let reply = if self.desk.terms.echo { 0 } else { self.desk.terms.response };
        if self.desk.plant.is_some() { reply + 1 } else { reply }
    }

    fn compose(&mut self, room: &mut [u8], is_new: bool) -> usize {
        if self.desk.terms.echo {
            self.spoil = None;
            room[0] = 0xee;
            self.left = 1;
            return 1;
        }
        let Some(head) = self.waiting.pop_front() else { return 0 };
        let len = self.desk.terms.response;
        if is_new || std::mem::take(&mut self.overwrote) {
            self.desk.terms.write_reply(head, &mut room[..len]);
        } else if self.desk.terms.is_numbered() {
            room[..HEAD].copy_from_slice(&head.to_le_bytes());
        }
        self.left = if self.spoil.is_some() { self.spoil_reply(room, len) } else { len };
        self.left
    }

    #[inline]
    fn echoes(&self) -> bool {
        self.desk.terms.echo
    }

    #[inline]
    fn returns(&self) -> Range<usize> {
        if self.ready > 0 { self.skip..self.skip + self.ready } else { 0..0 }
    }

    #[inline]
    fn sent(&mut self, n: usize, _now_ns: u64) {
        if self.left > 0 {
            self.left -= n;
        } else {
            self.skip = 0;
            self.ready -= n;
        }
        if self.left == 0 && self.ready == 0 {
            self.replied();
        }
    }

    #[inline]
    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        let mut rest: &[u8] = bytes;
        if self.to_show > 0 {
            rest = self.look(rest);
        }
        self.desk.works_on(rest);
        while !rest.is_empty() {
            rest = self.take(rest);
        }
        if self.spoil.is_some() && self.desk.terms.echo {
            self.spoil_echo(bytes);
        }
        true
    }

    fn ended(&mut self, end: End, _now_ns: u64) {
        self.to_show = 0;
        self.is_no_stranger();
        self.state = match (self.state, end) {
            (State::Open, End::Eof) => State::HalfShut,
            _ => State::Gone,
        };
    }
}
