//! The door of a sink on another host: who shows the trial's ticket comes in, in any order; strangers wait outside, few of
//! them, and are sent away when it shuts.
//!
//! Never blocks on one connection, so that a stranger who says nothing holds nobody up.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use bytegauge_model::Side;
use socket2::Socket;

use crate::astray::{pass_on, pass_on_rest};
use crate::fault::Fault;
use crate::path::PathSetup;
use crate::ticket::{SHOWN, Shown, Ticket};
use crate::transport::options::Moment;
use crate::transport::{JOIN_TIMEOUT, set_options};

/// Connections beyond the flows that may stand at the door; whoever has stood there longest goes first.
const STRANGERS_MAX: usize = 64;

/// How often the door is looked after: nothing is measured yet.
const LOOK_AFTER: Duration = Duration::from_micros(500);

/// Somebody who has not shown everything yet.
struct Waiting {
    socket: Socket,
    shown: Shown,
    have: usize,
}

/// Takes one connection a flow from whoever shows the ticket.
pub(super) fn admit_all(listener: &Socket, setup: &PathSetup, ticket: &Ticket) -> Result<Vec<OwnedFd>, Fault> {
    listener.set_nonblocking(true).map_err(Fault::io("making a listener not block"))?;
    let deadline = Instant::now() + JOIN_TIMEOUT;
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut flows: Vec<Option<Socket>> = (0..setup.flows).map(|_| None).collect();
    while flows.contains_none() {
        let mut news = false;
        match listener.accept() {
            Ok((socket, _)) => {
                news = true;
                // Nobody is held up by one who cannot be asked.
                if socket.set_nonblocking(true).is_ok() {
                    waiting.push(Waiting { socket, shown: [0; SHOWN], have: 0 });
                }
                if waiting.len() > setup.flows + STRANGERS_MAX {
                    waiting.remove(0).go_elsewhere(setup);
                }
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(Fault::Io { doing: "waiting for the source to connect".into(), source: error }),
        }
        let mut at = 0;
        while at < waiting.len() {
            match waiting[at].look(ticket) {
                Look::Waits => at += 1,
                Look::Leaves => drop(waiting.swap_remove(at)),
                Look::IsNoFlow => waiting.swap_remove(at).go_elsewhere(setup),
                Look::Enters(flow) => {
                    news = true;
                    let Waiting { socket, .. } = waiting.swap_remove(at);
                    // A flow comes once: a second one with its number is none of ours.
                    if let Some(place) = flows.get_mut(flow).filter(|place| place.is_none()) {
                        *place = Some(socket);
                    }
                }
            }
        }
        if !news {
            if Instant::now() >= deadline {
                let source = io::Error::new(io::ErrorKind::TimedOut, "its data connections did not come in time");
                return Err(Fault::Io { doing: "waiting for the other host to connect".into(), source });
            }
            std::thread::sleep(LOOK_AFTER);
        }
    }
    if setup.shares_port() {
        waiting.into_iter().for_each(|other| other.go_elsewhere(setup));
        pass_on_rest(listener.as_fd());
    }
    let ready = |socket: Socket| {
        socket.set_nonblocking(false).map_err(Fault::io("making a connection block"))?;
        set_options(&socket, Moment::Accepted, Side::Sink, setup)?;
        Ok(socket.into())
    };
    flows.into_iter().flatten().map(ready).collect()
}

trait ContainsNone {
    fn contains_none(&self) -> bool;
}

impl<T> ContainsNone for Vec<Option<T>> {
    fn contains_none(&self) -> bool {
        self.iter().any(Option::is_none)
    }
}

enum Look {
    Waits,
    Leaves,
    IsNoFlow,
    Enters(usize),
}

impl Waiting {
    fn look(&mut self, ticket: &Ticket) -> Look {
        match self.socket.read(&mut self.shown[self.have..]) {
            Ok(0) => Look::Leaves,
            Ok(n) => {
                self.have += n;
                if self.have < SHOWN {
                    return Look::Waits;
                }
                ticket.admits(&self.shown).map_or(Look::IsNoFlow, Look::Enters)
            }
            Err(error) if is_passing(&error) => Look::Waits,
            Err(_) => Look::Leaves,
        }
    }
}

impl Waiting {
    /// Who shows no ticket may have come to see the agent.
    fn go_elsewhere(self, setup: &PathSetup) {
        if setup.shares_port() {
            pass_on(&self.socket, &self.shown[..self.have]);
        }
    }
}

/// Whether an error only says that there is nothing now.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};

    use bytegauge_model::Spec;

    use super::*;

    fn path(flows: u64) -> PathSetup {
        let levels = Spec::from([("transport", "tcp".into()), ("flows", flows.into())]);
        PathSetup::of(&levels, 4096).unwrap()
    }

    #[test]
    fn flows_come_in_any_order_and_strangers_hold_nobody_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let ticket = Ticket::fresh().unwrap();
        let door = std::thread::spawn(move || admit_all(&listener.into(), &path(3), &ticket).unwrap());
        // Silent ones, more than may wait; one that says half; one with another ticket; one that leaves.
        let silent: Vec<_> = (0..STRANGERS_MAX + 20).map(|_| TcpStream::connect(at).unwrap()).collect();
        let mut half = TcpStream::connect(at).unwrap();
        half.write_all(&ticket.shown_by(0)[..SHOWN - 1]).unwrap();
        let mut other = TcpStream::connect(at).unwrap();
        other.write_all(&Ticket::fresh().unwrap().shown_by(0)).unwrap();
        TcpStream::connect(at).unwrap().shutdown(Shutdown::Both).unwrap();
        let show = |flow: usize, then: &[u8]| {
            let mut socket = TcpStream::connect(at).unwrap();
            // At one stroke: who is turned away may not live to say more.
            socket.write_all(&[&ticket.shown_by(flow)[..], then].concat()).unwrap();
            socket
        };
        let _flows = [show(2, b"c"), show(0, b"a"), show(0, b"x"), show(9, b"x"), show(1, b"b")];
        let admitted = door.join().unwrap();
        let first = |fd: &OwnedFd| {
            let mut byte = [0];
            assert_eq!(bytegauge_sys::io::read(fd.as_fd(), &mut byte).unwrap(), 1);
            byte[0]
        };
        assert_eq!(admitted.iter().map(first).collect::<Vec<_>>(), b"abc");
        // Whoever was not let in has heard nothing but the end.
        drop(silent);
        let mut answer = Vec::new();
        let _reset = other.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }
}
