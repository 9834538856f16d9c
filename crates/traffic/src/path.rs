//! A path over several hosts: the role at each agent, and the first bytes of connections.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use bytegauge_model::{EndRole, Engine, Place, Side, Workload};
use bytegauge_wire::random;
use serde::{Deserialize, Serialize};

use crate::EndError;
use crate::iperf3::message::COOKIE_LEN;
use crate::setup::Setup;

impl Setup {
    /// The first bytes of a flow's connection, if the ends are on two hosts.
    pub(crate) fn shown_by(&self, flow: usize) -> Option<Shown> {
        self.far.map(|far| far.ticket.shown_by(flow))
    }

    /// Whether an end of this path listens on the port of its agent: callers of the agent connect there, too.
    pub(crate) fn shares_port(&self) -> bool {
        self.far.is_some() && self.host.port != 0
    }

    /// The address that a socket of an end is bound to before it connects to another host: the one that the other host expects,
    /// so that it can distinguish this host's connections from others. The kernel chooses the port.
    pub(crate) fn bound_to(&self) -> Option<SocketAddr> {
        self.far.map(|_| SocketAddr::new(self.host.any_port(self.transport()).ip(), 0))
    }

    /// Bytes at the start of a connection that are not the workload's.
    pub fn shown_len(&self) -> u64 {
        match self.far {
            Some(_) => SHOWN as u64,
            None if self.is_with_iperf3() => COOKIE_LEN as u64,
            None => 0,
        }
    }
}

/// A path over several hosts: the role at each agent, and the first bytes of data connections.
///
/// To an end at an agent every other host is a caller: only the addresses of announced hosts are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarPath {
    /// The agent of one of the two ends, and that end's side of the path.
    #[serde(default)]
    pub end: Option<(SocketAddr, Side)>,
    /// The agent of the relay between them.
    #[serde(default)]
    pub relay: Option<SocketAddr>,
    /// The trial's ticket, once it begins.
    pub ticket: Ticket,
}

impl FarPath {
    /// A path with one end at an agent.
    pub fn to(agent: SocketAddr, side: Side, ticket: Ticket) -> FarPath {
        FarPath { end: Some((agent, side)), relay: None, ticket }
    }

    /// The agent of a role; `None`: it is on this host.
    pub fn agent(&self, role: EndRole) -> Option<SocketAddr> {
        match role {
            EndRole::Relay => self.relay,
            role => self.end.filter(|(_, side)| *side == role.side()).map(|(agent, _)| agent),
        }
    }

    /// The agent of the peer of the ends on this host: the relay's, if there is one.
    pub fn faces(&self) -> Option<SocketAddr> {
        self.relay.or(self.end.map(|(agent, _)| agent))
    }

    /// The address of the only host whose connections an end on this host accepts. `None` if it is behind a relay on a third host,
    /// since the address from which that host connects is unknown in advance.
    pub(crate) fn comes_from(&self) -> Option<IpAddr> {
        match (self.relay, self.end) {
            (Some(_), Some(_)) => None,
            _ => self.faces().map(|agent| agent.ip().to_canonical()),
        }
    }

    /// The agents that a cell names; none for the harness's own loop, which has no server.
    pub(crate) fn of(setup: &Setup) -> Result<Option<FarPath>, EndError> {
        let engine =
            setup.engine_of(if setup.workload() == Workload::Call { EndRole::Client } else { EndRole::Source });
        if engine.is_none_or(|engine| engine == Engine::Null) {
            return Ok(None);
        }
        let agent = |place: &Place| match place {
            Place::Ip(agent) => Ok(*agent),
            place => Err(EndError::Impossible(format!("{place} was never looked up"))),
        };
        let spec = &setup.spec;
        let end = spec.far().map(|(place, way)| agent(place).map(|agent| (agent, way.far_side()))).transpose()?;
        // The path without a relay is one between its two ends.
        let relay = spec.relay_host().filter(|_| setup.relay().is_some()).map(agent).transpose()?;
        Ok((end.is_some() || relay.is_some()).then_some(FarPath { end, relay, ticket: Ticket::default() }))
    }
}

// The first bytes of a data connection between two hosts, before anything of it counts or is answered.
//
// A ticket is valid for one trial. It is sent over the encrypted line, and shown in the clear: it excludes third parties that
// find an open port, but not those that read the traffic, who could take over the connection as well.

/// Bytes of a ticket.
pub const LEN: usize = 32;

/// Bytes that a connection shows: the ticket, and the number of its flow (u32, little-endian).
pub const SHOWN: usize = LEN + 4;

/// The bytes that are shown.
pub type Shown = [u8; SHOWN];

/// Admits connections and senders of datagrams that show a trial's ticket, from one host alone: other hosts cannot use an overheard
/// ticket.
#[derive(Debug)]
pub(crate) struct Admission {
    ticket: Ticket,
    /// That host; if it is not known in advance, that of the first one admitted.
    host: OnceLock<IpAddr>,
}

impl Admission {
    pub(crate) fn new(ticket: Ticket, host: Option<IpAddr>) -> Admission {
        Admission { ticket, host: host.map_or_else(OnceLock::new, |host| OnceLock::from(host.to_canonical())) }
    }

    /// Whether a peer may be of that host.
    pub(crate) fn may_enter(&self, peer: Option<IpAddr>) -> bool {
        peer.is_some_and(|peer| self.host.get().is_none_or(|host| *host == peer.to_canonical()))
    }

    /// The flow of a peer that shows exactly these bytes; `None`: it is not admitted.
    pub(crate) fn admits(&self, peer: Option<IpAddr>, shown: &[u8]) -> Option<usize> {
        let flow = self.ticket.admits(shown.try_into().ok()?)?;
        let peer = peer?.to_canonical();
        (*self.host.get_or_init(|| peer) == peer).then_some(flow)
    }

    /// That host, if it is known.
    pub(crate) fn host(&self) -> Option<IpAddr> {
        self.host.get().copied()
    }
}

/// Random bytes that only the two ends of a trial know.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket([u8; LEN]);

impl Ticket {
    /// A new one.
    ///
    /// # Errors
    /// [`EndError::Missing`] where the system gives no random bytes.
    pub fn fresh() -> Result<Ticket, EndError> {
        random().map(Ticket).map_err(|error| EndError::Missing(error.to_string()))
    }

    /// The bytes that a flow's connection shows.
    pub fn shown_by(&self, flow: usize) -> Shown {
        let mut shown = [0; SHOWN];
        shown[..LEN].copy_from_slice(&self.0);
        shown[LEN..].copy_from_slice(&(flow as u32).to_le_bytes());
        shown
    }

    /// The answer of a datagram server to a valid ticket: shorter than the ticket.
    pub(crate) fn answer(&self) -> [u8; LEN] {
        self.0
    }

    /// The flow of these bytes, if the ticket is this one. Takes the same time wherever they differ.
    pub fn admits(&self, shown: &Shown) -> Option<usize> {
        let (ticket, flow) = shown.split_at(LEN);
        let differ = ticket.iter().zip(self.0).fold(0, |differ, (theirs, ours)| differ | (theirs ^ ours));
        let flow = u32::from_le_bytes([flow[0], flow[1], flow[2], flow[3]]);
        // A ticket that was never filled in admits no connection.
        (differ == 0 && *self != Ticket::default()).then_some(flow as usize)
    }
}

/// A ticket is never printed.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ticket_itself_is_admitted() {
        let ticket = Ticket::fresh().unwrap();
        assert_eq!(ticket.admits(&ticket.shown_by(70_000)), Some(70_000));
        for at in 0..LEN {
            let mut shown = ticket.shown_by(0);
            shown[at] ^= 1;
            assert_eq!(ticket.admits(&shown), None);
        }
        let unfilled = Ticket::default();
        assert_eq!(unfilled.admits(&unfilled.shown_by(0)), None);
    }
}
