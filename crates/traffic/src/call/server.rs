//! One connection of the server: receives whole requests, does the work, replies.
//!
//! A reply begins when its request is complete. An echo sends back the same bytes, from where the engine received them; a
//! reply of another length is written once and carries the request's number. While a reply is sent no further request is read,
//! so that a client that does not read its replies cannot make the server buffer more and more.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use bytegauge_model::{MessageParts, MessageWrites};
use bytegauge_sys::clock::monotonic_ns;

use crate::call::admission::PendingPlace;
use crate::call::message_bytes::{HEAD, parts_to_copy};
use crate::call::server_worker::ServerWorker;
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::path::{SHOWN, Shown};

/// One connection.
#[derive(Debug)]
pub struct ServerFlow {
    pub(super) worker: ServerWorker,
    state: ServerState,
    /// Received bytes of the current request.
    have: usize,
    head: [u8; HEAD],
    /// An echo: bytes of complete requests to send back, and the bytes before them, which are not sent.
    ready: usize,
    skip: usize,
    /// Received bytes of an incomplete request.
    part: usize,
    /// Unsent bytes of a reply that is no echo.
    left: usize,
    /// When the next part of it may be sent, nanoseconds of the monotonic clock; 0: now.
    next_part_ns: u64,
    /// The parts of a reply that is copied into one buffer before it is sent.
    parts: Box<[u8]>,
    /// Requests that wait for a reply that is no echo.
    waiting: VecDeque<u64>,
    /// The first bytes that it sent, the number of missing bytes of its ticket, and its place until then.
    shown: Shown,
    to_show: usize,
    place: Option<PendingPlace>,
    /// The bytes that it sent, if they are no ticket.
    unadmitted: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    Open,
    /// The client sends no more; complete requests are still answered.
    HalfShut,
    /// To be closed.
    Leaving,
    Gone,
    /// A planted stall.
    Stuck,
}

impl ServerFlow {
    /// An accepted connection, and its worker; `None` if there is no place for it.
    pub(super) fn new(worker: ServerWorker, connection: BorrowedFd<'_>) -> Option<ServerFlow> {
        let place = match &worker.shared.unadmitted {
            Some(unadmitted) => Some(unadmitted.comes(connection)?),
            None => None,
        };
        let to_show = if place.is_some() { SHOWN } else { 0 };
        let parts = parts_to_copy(worker.shared.writes, worker.shared.parts, worker.shared.terms().response);
        Some(ServerFlow {
            worker,
            state: ServerState::Open,
            have: 0,
            head: [0; HEAD],
            ready: 0,
            skip: 0,
            part: 0,
            left: 0,
            next_part_ns: 0,
            parts,
            waiting: VecDeque::new(),
            shown: [0; SHOWN],
            to_show,
            place,
            unadmitted: Vec::new(),
        })
    }

    /// Takes the first bytes of a connection, its ticket. Returns the remaining bytes; none if it is not admitted.
    #[cold]
    fn take_ticket<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (part, rest) = bytes.split_at(bytes.len().min(self.to_show));
        self.skip += part.len();
        let at = SHOWN - self.to_show;
        self.shown[at..at + part.len()].copy_from_slice(part);
        self.to_show -= part.len();
        if self.to_show > 0 {
            return rest;
        }
        let unadmitted = self.worker.shared.unadmitted.as_ref();
        let is_client = unadmitted
            .zip(self.place.as_ref())
            .is_some_and(|(unadmitted, place)| unadmitted.admits(place, &self.shown));
        self.finish_admission();
        if is_client && self.worker.opens() {
            return rest;
        }
        self.state = ServerState::Gone;
        if !is_client {
            // Open: it may be a caller of the agent.
            self.unadmitted = [&self.shown, rest].concat();
        }
        &[]
    }

    /// It has sent its ticket or leaves: its place is free for another.
    #[cold]
    #[inline(never)]
    fn finish_admission(&mut self) {
        if let (Some(unadmitted), Some(place)) = (&self.worker.shared.unadmitted, self.place.take()) {
            unadmitted.leaves(&place);
        }
    }

    /// The first bytes of a connection that is not one of the trial's, or may not be.
    pub(super) fn unclaimed(&self) -> Option<&[u8]> {
        match self.to_show {
            0 if self.unadmitted.is_empty() => None,
            0 => Some(&self.unadmitted),
            missing => Some(&self.shown[..SHOWN - missing]),
        }
    }

    /// A request is complete.
    fn served_one(&mut self) {
        self.have = 0;
        self.worker.serves();
        if self.worker.shared.terms().echo {
            self.ready += std::mem::take(&mut self.part);
        } else {
            self.waiting.push_back(u64::from_le_bytes(self.head));
        }
        let shared = &self.worker.shared;
        if shared.stalls(|| shared.served()) {
            self.state = ServerState::Stuck;
        }
    }

    /// Takes the part of `bytes` that belongs to the current request. Returns the remaining bytes.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let terms = *self.worker.shared.terms();
        let (part, rest) = bytes.split_at(bytes.len().min(terms.request - self.have));
        if self.have == 0 {
            self.worker.begins();
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
        if self.have == terms.request || self.worker.shared.read_once {
            self.served_one();
        }
        rest
    }

    #[cold]
    fn check(&mut self, part: &[u8]) {
        let at = self.have - part.len();
        // The head is whole only once this number of bytes is there: the bytes before are the number itself.
        let skip = HEAD.saturating_sub(at).min(part.len());
        let skip = if self.worker.shared.terms().is_numbered() { skip } else { 0 };
        let head = u64::from_le_bytes(self.head);
        self.worker.check(head, at + skip, &part[skip..]);
    }

    /// Whether there is something to send.
    fn has_reply(&self) -> bool {
        self.ready > 0 || self.left > 0 || !self.waiting.is_empty()
    }

    /// A part of a reply was sent: the next one waits. Flows of a server do not get the time of events, so the clock is read here, for
    /// replies with pauses only.
    #[cold]
    fn pause(&mut self) {
        let sent = self.worker.shared.terms().response - self.left;
        if self.left > 0 && sent > 0 && self.worker.shared.parts.end_of(sent - 1) == sent {
            self.next_part_ns = monotonic_ns() + self.worker.shared.gap_ns;
        }
    }

    /// The rest of a pause between two parts; `None` once it is over.
    #[cold]
    fn pauses(&mut self) -> Option<Want> {
        if monotonic_ns() < self.next_part_ns {
            return Some(Want::Pause(self.next_part_ns));
        }
        self.next_part_ns = 0;
        None
    }

    /// All ready bytes were sent.
    fn replied(&mut self) {
        if !self.has_reply() && (self.worker.shared.connect_per_call || self.state == ServerState::HalfShut) {
            self.state = ServerState::Leaving;
        }
    }
}

impl Flow for ServerFlow {
    #[inline]
    fn want(&mut self, _now_ns: u64) -> Want {
        if self.next_part_ns > 0
            && let Some(pause) = self.pauses()
        {
            return pause;
        }
        match self.state {
            ServerState::Open | ServerState::HalfShut if self.has_reply() => Want::Send,
            ServerState::Open => Want::Receive,
            ServerState::HalfShut | ServerState::Leaving => {
                self.state = ServerState::Gone;
                Want::Close
            }
            ServerState::Gone => Want::Done,
            ServerState::Stuck => Want::Pause(u64::MAX),
        }
    }

    fn room(&self) -> usize {
        if self.worker.shared.terms().echo { 0 } else { self.worker.shared.terms().response }
    }

    fn compose(&mut self, room: &mut [u8], is_new: bool) -> usize {
        let Some(head) = self.waiting.pop_front() else { return 0 };
        let len = self.worker.shared.terms().response;
        if is_new {
            self.worker.shared.terms().write_reply(head, &mut room[..len]);
        } else if self.worker.shared.terms().is_numbered() {
            room[..HEAD].copy_from_slice(&head.to_le_bytes());
        }
        if !self.parts.is_empty() {
            room[..len].copy_from_slice(&self.parts);
            self.worker.shared.terms().write_reply(head, &mut room[..len]);
        }
        self.left = len;
        len
    }

    fn parts(&self) -> MessageParts {
        if self.worker.shared.writes == MessageWrites::Copy { MessageParts::WHOLE } else { self.worker.shared.parts }
    }

    fn writes(&self) -> MessageWrites {
        self.worker.shared.writes
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.worker.shared.file.as_deref().map(AsFd::as_fd)
    }

    fn quickack_again(&self) -> Option<bool> {
        self.worker.shared.quickack_again
    }

    #[inline]
    fn echoes(&self) -> bool {
        self.worker.shared.terms().echo
    }

    #[inline]
    fn returns(&self) -> Range<usize> {
        if self.ready > 0 { self.skip..self.skip + self.ready } else { 0..0 }
    }

    #[inline]
    fn sent(&mut self, n: usize, _now_ns: u64) {
        if self.left > 0 {
            self.left -= n;
            if self.worker.shared.gap_ns > 0 {
                self.pause();
            }
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
            rest = self.take_ticket(rest);
        }
        self.worker.works_on(rest);
        while !rest.is_empty() {
            rest = self.take(rest);
        }
        true
    }

    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        self.to_show = 0;
        self.finish_admission();
        self.state = match (self.state, end) {
            (ServerState::Open, ConnectionEnd::Eof) => ServerState::HalfShut,
            _ => ServerState::Gone,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Barrier, mpsc};
    use std::time::Duration;

    use bytegauge_model::{FactorKey, Side, Spec, Workload};

    use super::*;
    use crate::call::ServerShared;
    use crate::message::Body;
    use crate::path::FarPath;
    use crate::path::Ticket;
    use crate::setup::Setup;
    use crate::stream::ReaderWork;

    const REQUEST: usize = 8;

    fn shared(change: impl FnOnce(&mut Setup)) -> Arc<ServerShared> {
        let levels = Spec::from([
            ("transport", "unix".into()),
            ("engine", "blocking".into()),
            ("request", (REQUEST as u64).into()),
        ])
        .with_workload(Workload::Call);
        let mut setup = Setup::of(&levels).unwrap();
        change(&mut setup);
        Arc::new(ServerShared::new(&Arc::new(setup), Body::Thread, Arc::default(), None))
    }

    fn flow(shared: &Arc<ServerShared>, work: Option<ReaderWork>) -> ServerFlow {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let served = Arc::new(shared.watched().counter());
        ServerFlow::new(ServerWorker::new(shared, served, work), ours.as_fd()).unwrap()
    }

    /// The work of two connections has to run at the same time, or neither ends.
    #[test]
    fn no_connection_waits_for_the_work_of_another() {
        let (shared, barrier) = (shared(|_| {}), Arc::new(Barrier::new(2)));
        let (done, is_done) = mpsc::channel();
        for _ in 0..2 {
            let (mut flow, done) = (flow(&shared, Some(ReaderWork::meeting(Arc::clone(&barrier)))), done.clone());
            std::thread::spawn(move || {
                flow.received(&mut [1; REQUEST], 0);
                drop(flow);
                done.send(()).unwrap();
            });
        }
        for _ in 0..2 {
            is_done.recv_timeout(Duration::from_secs(60)).expect("the work of both connections runs at once");
        }
        assert_eq!((shared.served(), shared.ended().begun), (2, 2));
    }

    #[test]
    fn work_is_made_once_the_ticket_is_shown() {
        let ticket = Ticket::fresh().unwrap();
        let served = shared(|setup| {
            setup.spec.put(FactorKey::working_set, 64);
            setup.far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket));
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let flow = || {
            let _caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            let counter = Arc::new(served.watched().counter());
            ServerFlow::new(ServerWorker::new(&served, counter, None), accepted.as_fd()).unwrap()
        };
        let mut shown = ticket.shown_by(0);
        let mut client = flow();
        client.received(&mut shown[..SHOWN - 1], 0);
        assert!(!client.worker.has_work());
        client.received(&mut shown[SHOWN - 1..], 0);
        assert!(client.worker.has_work() && client.want(0) == Want::Receive);
        let mut other = flow();
        other.received(&mut Ticket::fresh().unwrap().shown_by(0), 0);
        assert!(!other.worker.has_work() && other.want(0) == Want::Done);
        assert_eq!(other.unclaimed().map(<[u8]>::len), Some(SHOWN));
    }

    #[test]
    fn work_that_misses_a_request_is_a_fault() {
        let of_walk = || shared(|setup| setup.spec.put(FactorKey::working_set, 64));
        let served = of_walk();
        let mut complete = flow(&served, ReaderWork::of(served.setup()));
        complete.received(&mut [1; 2 * REQUEST + 1], 0);
        drop(complete);
        assert_eq!((served.served(), served.ended().begun, served.take_fault().is_none()), (2, 3, true));
        // A flow without the work that the trial requires.
        let served = of_walk();
        flow(&served, None).received(&mut [1; REQUEST], 0);
        let fault = served.take_fault().expect("a request was served without its work").to_string();
        assert!(fault.contains("worked on 0 requests"), "{fault}");
    }
}
