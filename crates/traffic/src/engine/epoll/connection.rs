//! Handles one connection in the epoll engine: as much as its flow wants and the socket allows.
//!
//! A send is tried at once and waited for only if the socket is full. A receive that left room in the buffer has emptied the
//! socket, and the next one waits for an event. Edge-triggered, this holds only until an event announces the end of the
//! stream, which may have arrived before that receive and is not announced again (epoll(7), questions and answers).
//!
//! With `MSG_ZEROCOPY` the socket's error queue announces that the kernel returned memory, as `EPOLLERR`.

use std::io;
use std::os::fd::AsFd;

use bytegauge_model::{AfterEvent, EngineReport, EpollMode};
use bytegauge_sys::epoll::Ready;

use crate::EndError;
use crate::engine::epoll::EpollLoop;
use crate::engine::event_loop::{EngineLink, LISTENER, Then, WaitingFor};
use crate::engine::flow_state::time_for;
use crate::engine::flow_state::{KeptBytes, UnsentMessage};
use crate::engine::system_calls::{Calls, MessagePart, ZeroCopySends, ack_quickly};
use crate::engine::{errno, nothing_to_send, unconnected};
use crate::flow::{CallResult, ConnectionEnd, Doing, Flow, Party};

/// A connection's readiness.
#[derive(Default)]
pub(super) struct Registration {
    /// The events last requested; `None` while the descriptor is not registered.
    pub(super) asked: Option<Ready>,
    /// Whether a receive may return bytes.
    readable: bool,
    /// Whether no send can succeed before an event.
    pub(super) is_full: bool,
    /// An event has announced the end of the stream, so receiving continues until then.
    ending: bool,
    /// Whether it waits for the kernel to return memory of sends without copies, not for room.
    pub(super) awaits_return: bool,
    /// Its sends without copies.
    pub(super) in_place: Option<Box<ZeroCopySends>>,
    pub(super) calls: Calls,
    pub(super) unsent: UnsentMessage,
    /// Received bytes to be sent back, if they could not stay in the shared buffer.
    pub(super) kept: KeptBytes,
}

impl Registration {
    /// Adds the sends without copies of a connection that ends, or leaves the engine, to the counts.
    pub(super) fn add_up(&mut self, fd: impl AsFd, report: &mut EngineReport) {
        let Some(mut sends) = self.in_place.take() else { return };
        report.buffer_bytes += sends.len() as u64;
        sends.finish(fd.as_fd(), report);
    }
}

impl EngineLink for Registration {
    fn renew(&mut self) {
        let (mut unsent, mut kept) = (std::mem::take(&mut self.unsent), std::mem::take(&mut self.kept));
        unsent.forget();
        kept.forget();
        *self = Registration { unsent, kept, ..Registration::default() };
    }

    fn take_in(&mut self) {
        self.unsent.renew_flow();
    }
}

impl<P: Party> EpollLoop<'_, P> {
    pub(super) fn on_event(&mut self, token: u64, ready: Ready) -> Result<(), EndError> {
        let index = token as u32;
        // The event may be of a connection that was closed after the wait returned.
        if !self.is_current(token) {
            return Ok(());
        }
        if self.port.mode.after_event != AfterEvent::Nothing {
            self.unregister(index)?;
        }
        let slot = &mut self.slots[index as usize];
        let gone = ready.intersects(Ready::HUP | Ready::ERR);
        let (readable, writable) =
            (gone || ready.intersects(Ready::IN | Ready::RDHUP), gone || ready.intersects(Ready::OUT));
        slot.link.readable |= readable;
        slot.link.is_full &= !writable;
        slot.link.awaits_return &= !writable;
        slot.link.ending |= gone || ready.intersects(Ready::RDHUP);
        if slot.queued {
            return Ok(());
        }
        let expected = match slot.waits {
            WaitingFor::Receive => readable,
            WaitingFor::Send => writable,
            WaitingFor::Either => readable || writable,
            WaitingFor::Connected if writable => return self.on_connected(index),
            WaitingFor::Connected => false,
            WaitingFor::Moment | WaitingFor::No => return self.ignore_events(index, gone),
        };
        if !expected {
            return Ok(());
        }
        self.timers.clear(index);
        // The clock was read after the wait ended; the flow may use that time until it receives.
        self.advance(index, self.now_ns)
    }

    /// After an event in a mode that registers again for each wait: the event has disarmed the connection, or it is removed.
    fn unregister(&mut self, index: u32) -> Result<(), EndError> {
        let slot = &mut self.slots[index as usize];
        let (Some(fd), Some(_)) = (&slot.fd, slot.link.asked.take()) else { return Ok(()) };
        if self.port.mode.after_event == AfterEvent::Rearm {
            slot.link.asked = Some(Ready::empty());
            return Ok(());
        }
        self.report.system_calls += 1;
        self.port.epoll.remove(fd.as_fd()).map_err(EndError::io("removing a connection"))
    }

    /// Stops level-triggered events for which no flow waits: they would repeat.
    fn ignore_events(&mut self, index: u32, gone: bool) -> Result<(), EndError> {
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        // An edge, or an event that has removed or disarmed its connection, does not repeat.
        let repeats = !self.port.mode.edge && self.port.mode.after_event == AfterEvent::Nothing;
        let (true, Some(fd)) = (repeats, &slot.fd) else { return Ok(()) };
        self.report.system_calls += 1;
        // The kernel reports these events in any case (epoll_ctl(2)).
        let asked = (!gone).then_some(Ready::empty());
        slot.link.asked = asked;
        let ignored = match asked {
            None => self.port.epoll.remove(fd.as_fd()),
            Some(nothing) => self.port.epoll.modify(fd.as_fd(), nothing, token),
        };
        ignored.map_err(EndError::io("ignoring a connection"))
    }

    /// Sends once, if there is room: by a call of the party, or the flow's message, or received bytes that go back.
    pub(super) fn try_to_send(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let (Some(flow), Some(fd)) = (&mut slot.flow, &slot.fd) else { return Err(unconnected()) };
        if slot.link.is_full {
            return self.rest(index, WaitingFor::Send);
        }
        if P::CALLS {
            self.report.system_calls += 1;
            let sent = self.party.transfer(Doing::Sending, flow, fd.as_fd(), self.meter, now_ns);
            return self.moved(index, Doing::Sending, sent, now_ns);
        }
        if self.station.zero_copy {
            return self.send_in_place(index, now_ns);
        }
        let back = flow.returns();
        let returns = !back.is_empty() && !slot.link.unsent.holds();
        let is_fresh = self.port.fresh_of == token;
        let (bytes, part) = match (returns, is_fresh) {
            (true, true) => (&self.port.buffer[self.port.fresh.clone()][back.clone()], None),
            (true, false) => (slot.link.kept.part(&back), None),
            (false, _) => slot.link.unsent.next_part(flow),
        };
        let asked = bytes.len();
        if asked == 0 {
            return Err(nothing_to_send());
        }
        self.report.system_calls += 1 + part.map_or(0, MessagePart::more_calls);
        let sent = match part {
            Some(part) => part.send(fd.as_fd(), bytes, false),
            None => slot.link.calls.send(fd.as_fd(), bytes),
        };
        self.report.system_calls += slot.link.calls.more_calls();
        let sent = sent.map(|n| {
            self.meter.count(n, asked);
            match (returns, is_fresh) {
                (true, true) => self.port.fresh.start += back.start + n,
                (true, false) => slot.link.kept.drop_first(back.start + n),
                (false, _) => slot.link.unsent.sent(n),
            }
            *now_ns = time_for::<P::Flow>();
            flow.sent(n, *now_ns);
            // A short send has filled the socket, also for edges (epoll(7), questions and answers); a library takes as much
            // as it has room for.
            CallResult::Some { is_ready: n == asked || slot.link.calls.is_tls() }
        });
        self.moved(index, Doing::Sending, sent, now_ns)
    }

    /// Receives once, if there are bytes: by a call of the party, or into the engine's memory.
    pub(super) fn try_to_receive(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        if !P::CALLS && !self.port.fresh.is_empty() {
            self.keep_fresh_bytes();
        }
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let (Some(flow), Some(fd)) = (&mut slot.flow, &slot.fd) else { return Err(unconnected()) };
        if !slot.link.readable {
            return self.rest(index, WaitingFor::Receive);
        }
        self.report.system_calls += 1;
        if P::CALLS {
            let received = self.party.transfer(Doing::Receiving, flow, fd.as_fd(), self.meter, now_ns);
            return self.moved(index, Doing::Receiving, received, now_ns);
        }
        let asked = self.port.buffer.len();
        // After the kept bytes, or else into the shared buffer, which is in the caches.
        let apart = slot.link.kept.holds();
        let buffer = if apart { slot.link.kept.room(asked) } else { &mut self.port.buffer[..] };
        let received = slot.link.calls.receive(fd.as_fd(), buffer);
        self.report.system_calls += slot.link.calls.more_calls();
        self.report.system_calls += ack_quickly(fd.as_fd(), flow.quickack_again());
        let received = received.map(|n| {
            if n == 0 {
                return CallResult::End;
            }
            self.meter.count(n, asked);
            *now_ns = time_for::<P::Flow>();
            let bytes = if apart {
                slot.link.kept.received(n, true)
            } else {
                if flow.echoes() {
                    (self.port.fresh, self.port.fresh_of) = (0..n, token);
                }
                &mut self.port.buffer[..n]
            };
            match flow.received(bytes, *now_ns) {
                // Decrypted bytes may be left, which no event announces.
                true => CallResult::Some { is_ready: n == asked || slot.link.calls.is_tls() },
                false => CallResult::Refused,
            }
        });
        self.moved(index, Doing::Receiving, received, now_ns)
    }

    /// Handles the result of a call.
    #[inline]
    pub(super) fn moved(
        &mut self,
        index: u32,
        doing: Doing,
        moved: io::Result<CallResult>,
        now_ns: &mut u64,
    ) -> Result<Then, EndError> {
        let link = &mut self.slots[index as usize].link;
        match (moved, doing) {
            (Ok(CallResult::Some { is_ready }), Doing::Receiving) => {
                link.readable = is_ready || link.ending;
                self.now_ns = *now_ns;
            }
            (Ok(CallResult::Some { is_ready }), _) => {
                link.is_full = !is_ready;
                self.now_ns = *now_ns;
            }
            (other, _) => return self.not_moved(index, doing, other, now_ns),
        }
        Ok(Then::Ask)
    }

    /// After a call that moved nothing: waits for an event, or reports the end or the failure to the flow.
    fn not_moved(
        &mut self,
        index: u32,
        doing: Doing,
        moved: io::Result<CallResult>,
        now_ns: &mut u64,
    ) -> Result<Then, EndError> {
        let slot = &mut self.slots[index as usize];
        match (moved, doing) {
            (Ok(CallResult::Refused), _) => {
                self.leave(index);
                return Ok(Then::Rest);
            }
            (Ok(_), Doing::Receiving) => {
                slot.eof = true;
                *now_ns = self.tick();
                self.end(index, ConnectionEnd::Eof, *now_ns);
            }
            (Ok(_), _) => self.fail(index, doing, 0, *now_ns),
            (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => {}
            (Err(error), Doing::Receiving) if error.kind() == io::ErrorKind::WouldBlock => {
                slot.link.readable = false;
                return self.rest(index, WaitingFor::Receive);
            }
            (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => {
                slot.link.is_full = true;
                return self.rest(index, WaitingFor::Send);
            }
            (Err(error), _) => {
                *now_ns = self.tick();
                self.fail(index, doing, errno(&error), *now_ns);
            }
        }
        Ok(Then::Ask)
    }

    /// Copies bytes that a flow has not sent back yet, before the buffer is used again.
    #[cold]
    fn keep_fresh_bytes(&mut self) {
        let (token, fresh) = (self.port.fresh_of, std::mem::take(&mut self.port.fresh));
        self.port.fresh_of = LISTENER;
        if self.is_current(token) {
            self.slots[token as u32 as usize].link.kept.keep(&self.port.buffer[fresh]);
        }
    }

    /// Receives if there are bytes, or else sends if there is room, or else waits for either.
    pub(super) fn try_both(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        let slot = &self.slots[index as usize];
        let hears_of_bytes = slot.link.readable || slot.link.asked.is_some_and(|asked| asked.intersects(Ready::IN));
        if !slot.link.is_full && !hears_of_bytes {
            // Receive first, or a peer that accepts everything would never be read from.
            self.ask_for(index, Ready::IN)?;
        }
        let slot = &self.slots[index as usize];
        let mut then = Then::Rest;
        if slot.link.readable {
            then = self.try_to_receive(index, now_ns)?;
        } else if !slot.link.is_full {
            then = self.try_to_send(index, now_ns)?;
        }
        let slot = &self.slots[index as usize];
        if then == Then::Ask || slot.flow.is_none() {
            return Ok(then);
        }
        if slot.link.readable || !slot.link.is_full {
            return Ok(Then::Ask);
        }
        self.rest(index, WaitingFor::Either)
    }

    /// Requests the events for which a flow waits from epoll, unless that was done.
    #[inline]
    pub(super) fn request_awaited_events(&mut self, index: u32) -> Result<(), EndError> {
        let slot = &self.slots[index as usize];
        let wanted = match slot.waits {
            WaitingFor::No | WaitingFor::Moment => return Ok(()),
            WaitingFor::Receive => Ready::IN,
            // An error queue is announced in any case.
            WaitingFor::Send if slot.link.awaits_return => Ready::empty(),
            WaitingFor::Send | WaitingFor::Connected => Ready::OUT,
            WaitingFor::Either => Ready::IN | Ready::OUT,
        };
        if slot.link.asked == Some(wanted) { Ok(()) } else { self.ask_for(index, wanted) }
    }

    fn ask_for(&mut self, index: u32, wanted: Ready) -> Result<(), EndError> {
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let Some(fd) = &slot.fd else { return Ok(()) };
        // Edges are requested once.
        let everything = Ready::IN | Ready::OUT | Ready::RDHUP | Ready::ET;
        let wanted = match self.port.mode {
            EpollMode { edge: true, .. } => everything,
            EpollMode { after_event: AfterEvent::Rearm, .. } => wanted | Ready::ONESHOT,
            _ => wanted,
        };
        if slot.link.asked == Some(wanted) {
            return Ok(());
        }
        self.report.system_calls += 1;
        let asked = match slot.link.asked.replace(wanted) {
            None => self.port.epoll.add(fd.as_fd(), wanted, token),
            Some(_) => self.port.epoll.modify(fd.as_fd(), wanted, token),
        };
        asked.map_err(EndError::io("waiting for a connection"))
    }

    /// Sends the flow's message without copies; its socket may have room.
    #[inline(never)]
    pub(super) fn send_in_place(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        let slot = &mut self.slots[index as usize];
        let (Some(flow), Some(fd)) = (&mut slot.flow, &slot.fd) else { return Err(unconnected()) };
        let sends = slot.link.in_place.get_or_insert_default();
        let sent = match sends.send(fd.as_fd(), flow) {
            Ok(Some((moved, asked))) => {
                self.meter.count(moved, asked);
                flow.sent(moved, *now_ns);
                Ok(CallResult::Some { is_ready: moved == asked })
            }
            Ok(None) => {
                // Room in the socket is no news: only an error queue with notifications is.
                slot.link.awaits_return = true;
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::WouldBlock {
                    // Notifications that wait would be announced again and again.
                    let _ = sends.reap(fd.as_fd());
                }
                Err(error)
            }
        };
        self.moved(index, Doing::Sending, sent, now_ns)
    }
}
