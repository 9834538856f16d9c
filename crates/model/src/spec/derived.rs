//! Facts that follow from several levels of a spec together.
//!
//! Also the number of flows and threads.

use crate::emulated::EmulatedLink;
use crate::named_levels::{MessageParts, ProgramRole};
use crate::place::{Direction, Place};
use crate::relay::RelayMethod;
use crate::spec::Spec;
use crate::{Cost, Engine, Transport, Workload};

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

    /// The method of the relay, if it is bytegauge's own; [`RelayMethod::Direct`] is the level without a relay.
    pub fn relay_or_direct(&self) -> Option<RelayMethod> {
        self.relay()?.method()
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

    /// Calls that wait for their replies at the same time.
    pub fn calls_at_once(&self) -> u64 {
        self.flows().unwrap_or(1).saturating_mul(self.depth().unwrap_or(1))
    }

    /// What options are compared by: what the user `asked` for, if there is such a cost. Else by CPU time where a load is offered,
    /// which all of them reach, by the gaps of replies in parts, whose pauses set the time of a call, and by the delay of urgent messages.
    /// An emulated link takes CPU time of its own: calls over it are compared by their mean time.
    pub fn cost(&self, asked: Option<Cost>) -> Cost {
        let usual = match self.response_gap() {
            Some(ns) if ns > 0 => Cost::GapP99,
            _ if self.urgent().is_some() => Cost::Urgent,
            _ if !self.offers_load() => Cost::Time,
            _ if self.has_cost(Cost::Latency) && self.emulated_link().is_some() => Cost::Latency,
            _ => Cost::Cpu,
        };
        asked.filter(|cost| self.has_cost(*cost)).unwrap_or(usual)
    }

    /// The parts in which replies are sent; `None`: each by one write.
    pub fn response_parts(&self) -> Option<MessageParts> {
        let (header, others) = (self.response_header(), self.response_chunk());
        let bytes = |level: Option<u64>| level.map_or(usize::MAX, |bytes| bytes as usize);
        Some(MessageParts { first: bytes(Some(header.or(others)?)), others: bytes(others) })
    }

    /// Whether options can be compared by a cost.
    pub fn has_cost(&self, cost: Cost) -> bool {
        let [time, cpu] = self.workload().row().unit.costs;
        match cost {
            Cost::Time => true,
            // Operations of a ring, and runs of a program, have one kind of cost.
            Cost::Cpu => time != cpu,
            Cost::Latency | Cost::P99 => self.workload() == Workload::Call,
            Cost::GapP99 => self.response_parts().is_some(),
            Cost::Urgent => self.urgent().is_some(),
        }
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

// The number of flows and threads of a cell, by its levels.

/// Threads of the connecting end, and of the other one.
pub fn threads(levels: &Spec) -> [u64; 2] {
    match levels.workload() {
        Workload::Call => [
            threads_of_calls(levels, levels.client_engine(), levels.client_threads(), 0),
            threads_of_calls(
                levels,
                levels.server_engine(),
                levels.server_threads(),
                levels.competing_flows().unwrap_or(0),
            ),
        ],
        Workload::Stream => [threads_of_stream(levels); 2],
        _ => [1; 2],
    }
}

/// One per active connection in a blocking engine: a server has those of competing clients too.
fn threads_of_calls(levels: &Spec, engine: Option<Engine>, threads: Option<u64>, competing: u64) -> u64 {
    match engine {
        Some(engine) if engine.has_thread_a_flow() => flows(levels).saturating_add(competing),
        _ => threads.unwrap_or(1).max(1),
    }
}

/// One per flow, or one per direction if the engine has many connections per thread.
fn threads_of_stream(levels: &Spec) -> u64 {
    let lossy = levels.transport().is_some_and(Transport::is_datagram);
    match levels.engine() {
        Some(engine) if !lossy && engine != Engine::Null && !engine.has_thread_a_flow() => ways(levels),
        _ => flows(levels),
    }
}

/// Threads of the measuring end: the factor from its window to its thread time.
pub fn lanes(levels: &Spec) -> u64 {
    let [near, far] = threads(levels);
    if levels.workload() == Workload::Call { near } else { far }
}

/// Parallel flows of a cell, in each direction.
pub fn flows(levels: &Spec) -> u64 {
    levels.flows().unwrap_or(1).max(1).saturating_mul(ways(levels))
}

/// The number of directions at once.
pub fn ways(levels: &Spec) -> u64 {
    if levels.goes_both_ways() { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor;

    fn levels(pairs: &[(&str, &str)]) -> Spec {
        pairs.iter().map(|(name, text)| (*name, factor::find(name).unwrap().kind.parse(text).unwrap())).collect()
    }

    #[test]
    fn a_load_over_an_emulated_link_is_compared_by_the_time_of_calls() {
        let check = |more: &[(&str, &str)], expected: Cost| {
            let call = [("transport", "tcp"), ("request", "1"), ("client_engine", "epoll")];
            assert_eq!(levels(&[&call[..], more].concat()).cost(None), expected, "{more:?}");
        };
        let link = [("link_delay", "2ms"), ("link_loss", "0%"), ("link_rate", "1Gbit")];
        check(&link, Cost::Time);
        check(&[("call_rate", "3000")], Cost::Cpu);
        check(&[&link[..], &[("call_rate", "3000")]].concat(), Cost::Latency);
        check(&[&link[..], &[("think_time", "1s")]].concat(), Cost::Latency);
    }

    #[test]
    fn ends_have_the_threads_of_their_engines() {
        let check = |pairs: &[(&str, &str)], expected: [u64; 2]| {
            assert_eq!(threads(&levels(pairs)), expected, "{pairs:?}");
        };
        let stream =
            |transport, engine| [("transport", transport), ("engine", engine), ("flows", "50"), ("read_size", "4096")];
        check(&stream("tcp", "blocking"), [50, 50]);
        check(&stream("tcp", "epoll"), [1, 1]);
        check(&stream("tcp", "null"), [50, 50]);
        check(&stream("udp", "uring"), [50, 50]);
        let call = [("request", "1"), ("client_engine", "epoll"), ("flows", "50"), ("competing_flows", "20")];
        check(&[&call[..], &[("server_engine", "blocking")]].concat(), [1, 70]);
        check(&[&call[..], &[("server_engine", "epoll"), ("server_threads", "2")]].concat(), [1, 2]);
    }
}
