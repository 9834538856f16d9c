//! Facts that follow from several levels of a spec together.

use crate::emulated::EmulatedLink;
use crate::far::Direction;
use crate::place::Place;
use crate::program::ProgramRole;
use crate::relay::RelayMethod;
use crate::spec::Spec;

impl Spec {
    /// The agent of the other host, where one end runs, and the direction; `None` where both ends are here.
    pub fn far(&self) -> Option<(&Place, Direction)> {
        Some((self.host()?, self.direction().unwrap_or_default()))
    }

    /// Whether the two ends are joined over the loopback interface of this host.
    pub fn is_over_loopback(&self) -> bool {
        let is_network = self.transport().is_some_and(|transport| transport.is_tcp() || transport.is_udp());
        let is_here = self.far().is_none() && self.relay_host().is_none() && self.emulated_link().is_none();
        is_network && is_here && self.connect().is_none()
    }

    /// Whether a relay is between the ends; the path without one has a level, too.
    pub fn has_relay(&self) -> bool {
        self.relay().is_some_and(|relay| relay.method() != Some(RelayMethod::Direct))
    }

    /// Whether an iperf3 server is the other end.
    pub fn is_with_iperf3(&self) -> bool {
        self.connect().is_some_and(Place::is_iperf3)
    }

    /// Whether an iperf3 server writes and the end here reads: the program that is asked about reads. Datagrams have no role, but a
    /// direction.
    pub fn iperf3_writes(&self) -> bool {
        let reads = self.role() == Some(ProgramRole::Reader) || self.direction() == Some(Direction::From);
        reads && self.is_with_iperf3()
    }

    /// Whether bytes go both ways at once.
    pub fn goes_both_ways(&self) -> bool {
        self.direction() == Some(Direction::Both)
    }

    /// Whether an end or a relay is on another host, whose CPUs are none of this one's.
    pub fn spans_hosts(&self) -> bool {
        self.host().is_some() || self.relay_host().is_some()
    }

    /// The emulated link between the two ends; `None` without one.
    pub fn emulated_link(&self) -> Option<EmulatedLink> {
        Some(EmulatedLink { delay_ns: self.link_delay()?, loss: self.link_loss()?, rate: self.link_rate()? })
    }

    /// Whether a load below the maximum is offered. Then options reach the same rate, and their CPU time is compared.
    pub fn offers_load(&self) -> bool {
        self.offered_rate().is_some() || self.think_time().is_some_and(|ns| ns > 0) || self.burst().is_some()
    }

    /// Whether each trial searches for the highest rate that keeps an objective: it takes many measurements, and sets the load itself.
    pub fn searches_rate(&self) -> bool {
        self.slo().is_some() || self.max_loss().is_some()
    }

    /// The bursts of a writer: bytes of each, and nanoseconds from one to the next; `None` where it writes without bursts.
    pub fn bursts(&self) -> Option<(u64, u64)> {
        let (writes, bytes, every_ns) = (self.burst()?, self.write_size()?, self.every()?);
        Some((writes.saturating_mul(bytes), every_ns))
    }

    /// The offered load, in bytes or calls per second; `None` for the maximum.
    pub fn offered_rate(&self) -> Option<u64> {
        self.rate().or(self.call_rate())
    }
}
