//! Limits of an agent: refuses unsupported tasks and tasks that exceed its caps.
//!
//! In admitted commands it sets what the caller does not decide: where the end binds, which addresses it connects to
//! (`forward`), which CPUs it uses.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use bytegauge_model::{Bytes, EndRole, FACTORS, Factor, FactorKey, Nanos, RelayChoice, Spec, Transport, Workload};
use bytegauge_traffic::address::{Address, Host};
use bytegauge_traffic::message::Command;
use bytegauge_traffic::meter::Schedule;
use bytegauge_traffic::path::{FarPath, Ticket};
use bytegauge_traffic::setup::{Bound, Setup};
use bytegauge_traffic::transport::socket_buffers;
use bytegauge_traffic::{VisitLimits, relay};

use crate::session_counts::{EndDemand, Spent, not_made_for};

/// Longest grace of an end at an agent before it counts as stalled, nanoseconds.
const GRACE_MAX_NS: u64 = 60_000_000_000;

/// Most threads of one end.
const THREADS_MAX: usize = 256;

/// Kernel and stack memory assumed per flow, in addition to its socket buffers, bytes.
const FLOW_BYTES: u64 = 512 << 10;

/// Size of a bin of a series, bytes.
const BIN_BYTES: u64 = 16;

/// Limits of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Sessions at once.
    pub sessions: usize,
    /// Connections of a trial, idle ones included.
    pub flows: usize,
    /// Longest session.
    pub duration: Duration,
    /// Bytes of a session at the ends that run here.
    pub bytes: u64,
    /// Memory of an end, bytes.
    pub memory: u64,
    /// Offered load, bytes per second; `None`: unlimited.
    pub rate: Option<u64>,
    /// Addresses that ends may connect to in addition to ports from 1024 on of the callers' own addresses.
    pub relay_to: Vec<Forward>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 1,
            flows: 2048,
            duration: Duration::from_secs(3600),
            bytes: 16 << 40,
            memory: 2 << 30,
            rate: None,
            relay_to: Vec::new(),
        }
    }
}

/// The two addresses of a line at an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    /// The agent's.
    pub(super) here: IpAddr,
    /// The caller's.
    pub(super) peer: IpAddr,
    /// The port at which ends listen; 0: any.
    pub(super) port: u16,
}

impl Limits {
    /// Admits a command for an end here, in a session that has already moved `spent`.
    ///
    /// # Errors
    /// The reason for a refusal and the next step, as a text for the caller's user.
    pub(super) fn admitted(&self, command: Command, between: Between, spent: Spent) -> Result<Command, String> {
        let Command::Open(role, mut setup, address) = command else { return Ok(command) };
        if spent.bytes >= self.bytes {
            return Err(self.used_up(spent));
        }
        if setup.spec.connect().is_some() {
            return Err(not_made_for("a third party to a path"));
        }
        self.allows(role, &setup)?;
        let far = setup.far.filter(|far| far.ticket != Ticket::default() && far.agent(role).is_some());
        let Some(far) = far else { return Err(not_made_for("a path without a ticket")) };
        // Listeners among which the kernel chooses (SO_REUSEPORT) have a port of their own. The agent's socket carries no MPTCP.
        let has_own_port = setup.reuseport() || *setup.transport() == Transport::Mptcp;
        let port = if has_own_port { 0 } else { between.port };
        if Host::default().any_port(setup.transport()).is_ipv6() != between.here.is_ipv6() {
            return Err(format!(
                "the agent was called at {}, where an end cannot have {}: call it at its other address, or use the \
                 transport of this one",
                between.here,
                setup.transport()
            ));
        }
        setup.host = Host { port, ..Host::at(between.here) };
        if role != EndRole::Relay {
            // An end does not use the relay's settings.
            setup.spec.clear(FactorKey::relay);
        }
        let caller = SocketAddr::new(between.peer, 0);
        setup.far =
            Some(FarPath { end: far.end.map(|(_, side)| (caller, side)), relay: far.relay.and(Some(caller)), ..far });
        setup.cpus.clear();
        setup.grace_ns = setup.grace_ns.min(GRACE_MAX_NS);
        // The caller gives up an end after one grace and reports it; if it does not, the end stops by itself.
        let lasts_ns = length_ns(&setup).saturating_add(2 * setup.grace_ns);
        setup.bound = Some(Bound { bytes: self.bytes - spent.bytes, lasts_ns });
        let address = match (role, address) {
            (EndRole::Sink | EndRole::Server, None) => None,
            (EndRole::Source | EndRole::Client | EndRole::Relay, Some(Address::Ip(named))) => {
                // A relay may connect to a third host; other ends connect to the caller, whatever address it gives.
                let host = if role == EndRole::Relay { named.ip() } else { between.peer };
                let place = SocketAddr::new(host, named.port());
                Some(Address::Ip(admitted(place, between.peer, &self.relay_to)?))
            }
            _ => return Err(not_made_for("such an end")),
        };
        Ok(Command::Open(role, setup, address))
    }

    /// The reason why a session may move no more bytes.
    pub(super) fn used_up(&self, spent: Spent) -> String {
        let charged = match spent.charged {
            0 => String::new(),
            bytes => {
                format!(", {} of them charged for ends that died or were given up there without a report", Bytes(bytes))
            }
        };
        format!(
            "the agent allows {} a session and they are used up{charged}: use a smaller --time, or start it with a larger \
             --max-bytes",
            Bytes(self.bytes)
        )
    }

    fn allows(&self, role: EndRole, setup: &Setup) -> Result<(), String> {
        let EndDemand { flows, rate, largest, threads, besides } = EndDemand::of(role, setup)?;
        let transport = setup.transport();
        if !(transport.is_udp() || transport.is_tcp()) {
            return Err(not_made_for(&format!("the transport {transport}")));
        }
        if setup.until_stopped {
            return Err(not_made_for("clients that run until they are stopped"));
        }
        if setup.spec.urgent().is_some() {
            return Err(not_made_for("urgent messages, whose delay is measured by one clock"));
        }
        if setup.plant.is_some() || setup.slowdown_ns.is_some() {
            return Err(not_made_for("a third party to a path"));
        }
        let is_relay = has_relay(role, setup)?;
        if flows > self.flows {
            let what = format!("{} connections and this needs {flows}", self.flows);
            return beyond(&what, "fewer --flows (of calls also fewer --idle-flows)", "larger --max-flows");
        }
        if threads > THREADS_MAX {
            return Err(format!("the agent allows {THREADS_MAX} threads and this needs {threads}: use fewer"));
        }
        let trial_ns = length_ns(setup);
        if u128::from(trial_ns) > self.duration.as_nanos() {
            let what = format!("sessions of {} and this trial takes {}", nanos(self.duration), Nanos(trial_ns));
            return beyond(&what, "a shorter --trial-time", "longer --max-duration");
        }
        let schedule = Schedule { warmup_ns: setup.warmup_ns, window_ns: setup.window_ns, until_stopped: false };
        let bins = schedule.bins_max(setup.series) as u64 * BIN_BYTES;
        let own = largest.saturating_add(bins);
        let sockets_of_each = FLOW_BYTES.saturating_add(socket_buffers(setup, role));
        let each = match is_relay {
            false => own.saturating_add(sockets_of_each),
            true => relay::memory(setup).saturating_add(sockets_of_each.saturating_mul(2)),
        };
        // The threads of a datagram server share one socket or have one each, whatever the number of clients.
        let sockets = match role == EndRole::Server && transport.is_datagram() {
            true => threads,
            false => flows,
        };
        let memory = (sockets as u64).saturating_mul(each).saturating_add(besides);
        if memory > self.memory {
            let what = format!("{} of memory and this may need {}", Bytes(self.memory), Bytes(memory));
            return beyond(&what, "fewer --flows or smaller buffers", "larger --max-memory");
        }
        in_range(&setup.spec)?;
        match (self.rate, rate) {
            (None, _) => Ok(()),
            (Some(max), Some(rate)) if rate <= max => Ok(()),
            (Some(max), _) => Err(format!(
                "the agent allows {}/s and this may take more: offer a load with --rate, or start it with a larger --max-rate",
                Bytes(max)
            )),
        }
    }
}

/// Refuses what exceeds a limit, with two ways out.
fn beyond(what: &str, less: &str, more: &str) -> Result<(), String> {
    Err(format!("the agent allows {what}: use {less}, or start it with a {more}"))
}

impl VisitLimits for Limits {
    /// Checks a trial that another host asks this one to measure with a third: its ends here move data over the network to
    /// that host, or to an external server that the user of this host has named, within these limits, and do nothing else.
    fn allow_visit(&self, setup: &Setup) -> Result<(), String> {
        if setup.relay().is_some() || setup.spec.emulated_link().is_some() || setup.program.is_some() {
            return Err("a relay, an emulated link or a program is not measured for another host".into());
        }
        let far = setup.far.is_some_and(|far| far.end.is_some());
        if far == setup.external().is_some() {
            return Err("a trial without another host is not measured for one".into());
        }
        let roles = match (setup.workload(), far) {
            (Workload::Call, true) => &[EndRole::Client, EndRole::Server][..],
            (Workload::Call, false) => &[EndRole::Client],
            (_, true) => &[EndRole::Source, EndRole::Sink],
            (_, false) => &[EndRole::Source],
        };
        roles.iter().try_for_each(|role| self.allows(*role, setup))
    }
}

/// Checks that every number is one that the command line takes. The demand of an end is counted for such numbers only.
///
/// # Errors
/// The reason of a refusal, with the range.
fn in_range(spec: &Spec) -> Result<(), String> {
    let checked = |factor: &Factor| {
        let checked = factor.kind.check(&spec.level(factor.key));
        checked.map_err(|error| format!("the agent does not allow this --{}: {error}", factor.flag()))
    };
    FACTORS.iter().try_for_each(checked)
}

/// Whether an end is to be a relay: one of our methods, on a TCP path whose relay is here.
fn has_relay(role: EndRole, setup: &Setup) -> Result<bool, String> {
    match setup.relay() {
        None if role == EndRole::Relay => Err(not_made_for("a relay without a method")),
        None => Ok(false),
        Some(RelayChoice::Program(_) | RelayChoice::Running(_)) => Err(not_made_for("a program that is a relay")),
        Some(RelayChoice::Method(_))
            if !setup.transport().is_tcp() || setup.far.is_none_or(|far| far.relay.is_none()) =>
        {
            Err(not_made_for("such a relay"))
        }
        Some(RelayChoice::Method(_)) => Ok(role == EndRole::Relay),
    }
}

/// The longest time of a trial, nanoseconds.
pub(super) fn length_ns(setup: &Setup) -> u64 {
    let longer_ns = if setup.workload() == Workload::Call { setup.timeout_ns() } else { 0 };
    setup.warmup_ns.saturating_add(setup.window_ns).saturating_add(longer_ns)
}

/// A time as printed.
pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos().min(u128::from(u64::MAX)) as u64)
}

// Addresses that an agent's ends may connect to: the caller's own, and those that the agent's owner allows. An agent is no
// open proxy.

/// Lower ports are for privileged servers (`net.ipv4.ip_unprivileged_port_start`), which ends of a session are not.
const PRIVILEGED: u16 = 1024;

/// An address that an agent's owner allows ends to connect to, with one port or all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    address: IpAddr,
    port: Option<u16>,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Forward, String> {
        if let Ok(place) = text.parse::<SocketAddr>() {
            return Ok(Forward { address: place.ip().to_canonical(), port: Some(place.port()) });
        }
        let address = text.parse::<IpAddr>().map_err(|_| {
            format!("{text} is no address: give for example 192.0.2.7, 192.0.2.7:4711 or [2001:db8::7]:4711")
        })?;
        Ok(Forward { address: address.to_canonical(), port: None })
    }
}

/// The address that an end connects to for a caller. This is the one rule for all connections of an agent, in any role: a
/// port from 1024 on of the caller's own address, or an address that the agent's owner allows.
///
/// # Errors
/// The allowed addresses, as a text for the caller's user.
pub(super) fn admitted(named: SocketAddr, caller: IpAddr, allowed: &[Forward]) -> Result<SocketAddr, String> {
    let place = SocketAddr::new(named.ip().to_canonical(), named.port());
    let is_callers = place.ip() == caller && place.port() >= PRIVILEGED;
    let is_named = |forward: &Forward| {
        forward.address == place.ip() && forward.port.map_or(place.port() >= PRIVILEGED, |port| port == place.port())
    };
    if is_callers || allowed.iter().any(is_named) {
        return Ok(place);
    }
    Err(format!(
        "the agent's ends connect to the caller's own address ({caller}, ports from {PRIVILEGED} on) and not to {place}: start \
         it with --relay-to {place} if they may"
    ))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod forward_tests {
    use super::*;

    #[test]
    fn ends_connect_to_caller_or_allowed_places() {
        let caller: IpAddr = [192, 0, 2, 9].into();
        let allowed: Vec<Forward> =
            ["198.51.100.7", "203.0.113.5:80", "[2001:db8::7]:4711"].map(|text| text.parse().unwrap()).to_vec();
        let check = |place: &str, expected: bool| {
            let named = place.parse().unwrap();
            match (admitted(named, caller, &allowed), expected) {
                (Ok(_), true) => {}
                (Err(reason), false) => {
                    assert!(reason.contains("--relay-to") && reason.contains("192.0.2.9"), "{reason}");
                }
                (actual, _) => panic!("{place}: {actual:?}"),
            }
        };
        check("192.0.2.9:40000", true);
        check("192.0.2.9:1024", true);
        check("192.0.2.9:1023", false);
        check("[::ffff:192.0.2.9]:40000", true);
        check("192.0.2.8:40000", false);
        check("127.0.0.1:40000", false);
        check("198.51.100.7:9000", true);
        check("198.51.100.7:22", false);
        check("203.0.113.5:80", true);
        check("203.0.113.5:8080", false);
        check("[2001:db8::7]:4711", true);
        check("[2001:db8::7]:4712", false);
        assert!(admitted("127.0.0.1:40000".parse().unwrap(), caller, &[]).is_err());
        for text in ["", "example.com", "192.0.2.7:", "192.0.2.7:99999", "192.0.2.0/24"] {
            assert!(text.parse::<Forward>().unwrap_err().contains("192.0.2.7:4711"), "{text}");
        }
    }
}
