//! What a path is set to, whatever is said over it.

use std::net::{IpAddr, SocketAddr};

use bytegauge_model::{EmulatedLink, EndRole, FdTable, Place, Side, Spec, Transport, Work, option};
use serde::{Deserialize, Serialize};

use crate::address::{Address, Host};
use crate::fault::Fault;
use crate::relay::Between;
use crate::ticket::{SHOWN, Shown, Ticket};

/// What a path is, whatever is said over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSetup {
    /// How the ends are joined.
    pub transport: Transport,
    /// Parallel flows.
    pub flows: usize,
    /// Buffer of a read, bytes.
    pub read_size: usize,
    /// Work per read.
    pub work: Work,
    /// Private state touched per read, bytes.
    pub walk: usize,
    /// Pause between two writes, or two calls, nanoseconds.
    pub think_ns: u64,
    /// Who uses the descriptor table of each measured thread.
    #[serde(default)]
    pub fd_table: FdTable,
    /// The options to request, by their factors ([`option::OPTIONS`]).
    pub options: Spec,
    /// The host of the end that this is sent to: where it binds its sockets.
    #[serde(default)]
    pub host: Host,
    /// Where a server listens that is not ours: then only the end that writes or calls is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Address>,
    /// Who is on another host, where somebody is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<FarPath>,
    /// The emulated link between the ends, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<EmulatedLink>,
    /// How what is said is passed on, where a relay stands between the ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<Between>,
}

impl PathSetup {
    /// Resolves a cell's levels.
    ///
    /// # Errors
    /// [`Fault::Impossible`] if a level is missing or of the wrong kind: past planning, that is a bug.
    pub(crate) fn of(levels: &Spec, read_size: usize) -> Result<PathSetup, Fault> {
        let foreign = levels.connect().map(Address::of).transpose()?;
        let relay = Between::of(levels);
        Ok(PathSetup {
            transport: levels
                .transport()
                .cloned()
                .ok_or_else(|| Fault::Impossible("a cell without a known transport".into()))?,
            flows: levels.flows().unwrap_or(1) as usize,
            read_size,
            work: levels.work().unwrap_or_default(),
            walk: levels.working_set().unwrap_or(0) as usize,
            think_ns: levels.think_time().unwrap_or(0),
            fd_table: levels.fd_table().unwrap_or_default(),
            options: option::requested(levels),
            host: Host::default(),
            foreign,
            far: FarPath::of(levels, relay.as_ref())?,
            link: levels.emulated_link(),
            relay,
        })
    }

    /// What the connection of a flow shows first, where the ends are on two hosts.
    pub(crate) fn shown_by(&self, flow: usize) -> Option<Shown> {
        self.far.map(|far| far.ticket.shown_by(flow))
    }

    /// Whether an end of this path listens on the port of its agent: callers of the agent come there, too.
    pub(crate) fn shares_port(&self) -> bool {
        self.far.is_some() && self.host.port != 0
    }

    /// The address that a socket of an end is bound to before it connects to another host: the one that the other host was told of,
    /// so that it can tell this host's connections from those of others. The kernel chooses the port.
    pub(crate) fn bound_to(&self) -> Option<SocketAddr> {
        self.far.map(|_| SocketAddr::new(self.host.any_port(&self.transport).ip(), 0))
    }

    /// Bytes of a connection that are none of the workload's.
    pub(crate) fn shown_len(&self) -> u64 {
        self.far.map_or(0, |_| SHOWN as u64)
    }
}

/// Of a path over several hosts: who is at which agent, and what data connections show.
///
/// To an end at an agent every other host is who called it: of those that it is told of, the address counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarPath {
    /// The agent of one of the two ends, and that end's side of the path.
    #[serde(default)]
    pub end: Option<(SocketAddr, Side)>,
    /// The agent of the relay between them.
    #[serde(default)]
    pub relay: Option<SocketAddr>,
    /// The trial's, once it begins.
    pub ticket: Ticket,
}

impl FarPath {
    /// A path of which one end is at an agent.
    pub fn to(agent: SocketAddr, side: Side, ticket: Ticket) -> FarPath {
        FarPath { end: Some((agent, side)), relay: None, ticket }
    }

    /// The agent of whoever has this role; `None`: it is on this host.
    pub fn agent(&self, role: EndRole) -> Option<SocketAddr> {
        match role {
            EndRole::Relay => self.relay,
            role => self.end.filter(|(_, side)| *side == role.side()).map(|(agent, _)| agent),
        }
    }

    /// The agent of whoever the ends on this host are joined to: the relay's, where there is one.
    pub fn faces(&self) -> Option<SocketAddr> {
        self.relay.or(self.end.map(|(agent, _)| agent))
    }

    /// The address of the only host whose connections an end on this host takes. `None` if it is behind a relay on a third host:
    /// by which of its addresses that one connects is not known before.
    pub(crate) fn comes_from(&self) -> Option<IpAddr> {
        match (self.relay, self.end) {
            (Some(_), Some(_)) => None,
            _ => self.faces().map(|agent| agent.ip().to_canonical()),
        }
    }

    fn of(levels: &Spec, relay: Option<&Between>) -> Result<Option<FarPath>, Fault> {
        let agent = |place: &Place| match place {
            Place::Ip(agent) => Ok(*agent),
            place => Err(Fault::Impossible(format!("{place} was never looked up"))),
        };
        let end = levels.far().map(|(place, way)| agent(place).map(|agent| (agent, way.far_side()))).transpose()?;
        // The path without a relay is one between its two ends.
        let relay = levels.relay_host().filter(|_| relay.is_some()).map(agent).transpose()?;
        Ok((end.is_some() || relay.is_some()).then_some(FarPath { end, relay, ticket: Ticket::default() }))
    }
}
