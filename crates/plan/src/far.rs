//! The far host: refuses factors that do not work between two hosts, and sets those that follow from the agent's place.
//!
//! Names are looked up before; nothing here asks the network.

use bytegauge_model::{Cell, Direction, Level, Place, Placement, RelayMethod, Transport, Workload};

use crate::spec::Part;
use crate::{PlanError, iperf3};

/// Whether a direction is stated that needs no other host: that of an iperf3 server, or both ways at once in all cells, which two ends on
/// one host can do as well.
pub(crate) fn has_direction_here(part: &Part) -> bool {
    let stated = part.levels.get("direction");
    stated.is_some_and(|levels| levels.iter().all(goes_both_ways) || iperf3::is_meant(part))
}

fn goes_both_ways(level: &Level) -> bool {
    *level == Level::Name(Direction::Both.to_string())
}

/// Sets in a part what follows from the agents' places.
///
/// # Errors
/// If a factor has no meaning between two hosts, or is impossible there.
pub(crate) fn settle(part: &mut Part, workload: Workload) -> Result<(), PlanError> {
    let both = part.levels.get("direction").is_some_and(|levels| levels.iter().any(goes_both_ways));
    let alone = |name: &str| !part.levels.contains_key(name);
    if both && (workload != Workload::Stream || !(alone("relay") && alone("connect"))) {
        let needs = "a stream over TCP or UDP, without --relay and --connect: use --direction to or --direction from";
        return Err(PlanError::moot("direction both", needs));
    }
    let (hosts, relay_hosts) = (part.places("host"), part.places("relay_host"));
    let with = if relay_hosts.is_empty() { "host" } else { "relay-host" };
    let refused = |name, why| refused(name, with, why);
    if part.levels.contains_key("relay_host") && alone("relay") {
        return Err(PlanError::moot("relay-host", "--relay METHOD"));
    }
    if let Some(place) = relay_hosts.iter().find(|place| hosts.contains(place)) {
        let needs = format!("an agent of its own: the one at {place} runs an end of --host already");
        return Err(PlanError::moot("relay-host", &needs));
    }
    let places: Vec<Place> = hosts.iter().chain(&relay_hosts).cloned().collect();
    let Some(first) = places.first() else { return Ok(()) };
    for name in ["host", "relay_host"] {
        if part.levels.get(name).is_some_and(|levels| levels.iter().any(Level::is_auto)) {
            return refused(
                name,
                "a path between two hosts and one on this host have different settings: use two sessions",
            );
        }
    }
    if places.iter().any(|place| matches!(place, Place::Path(_) | Place::Iperf3(_))) {
        return refused(
            if hosts.is_empty() { "relay_host" } else { "host" },
            "a Unix socket is on this host, and an iperf3 server is no agent: give HOST:PORT of an agent, or leave it out",
        );
    }
    for (name, why) in [
        ("connect", "an external server is called from this host: leave one of them out"),
        (
            "urgent",
            "its delay is measured by the clock of one host, on which both ends and all between them run: use --link-delay here",
        ),
        ("competing_flows", "competing clients do not run on another host: measure them in a session of their own"),
    ] {
        if part.levels.contains_key(name) {
            return refused(name, why);
        }
    }
    if relay_hosts.is_empty() && part.levels.contains_key("relay") {
        return refused("relay", "a relay on this host would be between two ends of one host: add --relay-host");
    }
    let to = Level::Name(Direction::To.to_string());
    if !relay_hosts.is_empty() && part.levels.get("direction").is_some_and(|named| named.iter().any(|of| *of != to)) {
        return refused("direction", "an agent's end connects to this host, not to a relay: use --direction to");
    }
    let carried = carried(part, &places, first)?;
    part.settle("transport", carried);
    settle_unpinned(part, with, "two hosts have no CPUs in common: use unpinned (and taskset on either host)")
}

/// The transports between this host and the agents at these places.
fn carried(part: &Part, places: &[Place], first: &Place) -> Result<Vec<Level>, PlanError> {
    let with = if part.places("relay_host").is_empty() { "host" } else { "relay-host" };
    // A name is looked up before its transport is needed: a plan that is only printed keeps the first guess.
    let transport = first.transport().unwrap_or(Transport::Tcp);
    if places.iter().any(|place| place.transport().is_some_and(|of| of != transport)) {
        return refused("host", with, "agents behind IPv4 and IPv6 cannot be compared: use a session for each");
    }
    let datagrams = first.datagram_transport().unwrap_or(Transport::Udp);
    let is = |named: &Level, transport: &Transport| *named == Level::Name(transport.to_string());
    // MPTCP has IPv4 addresses, and connects as TCP does.
    let by_connections =
        |named: &Level| is(named, &transport) || (transport == Transport::Tcp && is(named, &Transport::Mptcp));
    match part.levels.get("transport").map(Vec::as_slice) {
        None => Ok(vec![Level::Name(transport.to_string())]),
        Some(named) if named.iter().all(by_connections) => Ok(named.to_vec()),
        Some([named]) if is(named, &datagrams) => Ok(vec![named.clone()]),
        _ => refused(
            "transport",
            with,
            "between two hosts a session measures tcp and mptcp, or UDP: use --transport udp (an IPv6 address has tcp6 or udp6)",
        ),
    }
}

/// Notes on what is not measured on the far hosts of these cells, and on the path without their relays.
pub(crate) fn notes(workload: Workload, cells: &[&Cell]) -> Vec<String> {
    let end = if workload == Workload::Call { "client or server" } else { "reader or writer" };
    let note = |(place, _): (&Place, Direction)| {
        format!(
            "the {end} at {place} reports its own CPU time, calls and TCP_INFO; the load of other programs there \
 is not measured, and the clocks of the two hosts are never compared"
        )
    };
    cells.iter().filter_map(|cell| cell.factors.far()).map(note).chain(relay_notes(cells)).collect()
}

fn relay_notes(cells: &[&Cell]) -> impl Iterator<Item = String> {
    cells.iter().filter_map(|cell| {
        let place = cell.factors.relay_host()?;
        let relay = format!(
            "the relay at {place} reports its own CPU time and calls, and the CPU time of its whole machine, which is added to \
 this host's; the load of other programs there is not measured"
        );
        let direct = "the path without a relay crosses no network: both its ends are on this host, so it shows their limit, \
              not that of the links to the relay";
        let is_direct = cell.factors.relay_or_direct() == Some(RelayMethod::Direct) && cell.factors.far().is_none();
        Some(if is_direct { direct.to_owned() } else { relay })
    })
}

/// Leaves the ends unpinned, where their CPUs cannot be chosen together.
///
/// # Errors
/// If a placement is named.
pub(crate) fn settle_unpinned(part: &mut Part, with: &str, why: &str) -> Result<(), PlanError> {
    let unpinned = vec![Level::Name(Placement::Unpinned.to_string())];
    if part.levels.get("placement").is_some_and(|named| *named != unpinned) {
        return refused("placement", with, why);
    }
    part.settle("placement", unpinned);
    Ok(())
}

pub(crate) fn refused<T>(name: &str, with: &str, why: &str) -> Result<T, PlanError> {
    PlanError::usage(format!("--{} does not work with --{with}: {why}", name.replace('_', "-")))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::RelayPlacement;

    use super::*;
    use crate::resolve::plan_of_flags as plan;
    use crate::{Catalog, Plan, PlanSpec, resolve};
    use bytegauge_model::factor;

    #[test]
    fn a_far_host_sets_the_transport() {
        for (at, transport) in [("192.0.2.7:4711", "tcp"), ("[2001:db8::7]:4711", "tcp6")] {
            let flags = [("host", at), ("direction", "to,from"), ("read_size", "64K"), ("write_size", "64K")];
            let plan = plan(Workload::Stream, &flags).unwrap();
            assert!(plan.groups.iter().all(|group| group.factors.far().unwrap().0.to_string() == at));
            let directions: Vec<_> = plan.groups.iter().map(|group| group.factors.far().unwrap().1).collect();
            assert!(directions.contains(&Direction::To) && directions.contains(&Direction::From));
            for cell in &plan.cells {
                assert_eq!(cell.factors.get("transport").name(), Some(transport));
                assert_eq!(cell.factors.get("placement").name(), Some("unpinned"));
            }
            assert!(plan.notes.iter().any(|note| note.contains(at)), "{:?}", plan.notes);
        }
    }

    #[test]
    fn mptcp_connects_hosts_by_ipv4() {
        let transports = |at: &str, named: &str| {
            let flags =
                [("host", at), ("transport", named), ("profile", "sum"), ("read_size", "64K"), ("write_size", "64K")];
            let plan = plan(Workload::Stream, &flags).map_err(|error| error.to_string())?;
            let of = |cell: &Cell| cell.factors.get("transport").to_string();
            Ok::<_, String>(plan.cells.iter().map(of).collect::<Vec<_>>())
        };
        assert_eq!(transports("192.0.2.7:4711", "mptcp").unwrap(), ["mptcp"]);
        assert_eq!(transports("192.0.2.7:4711", "tcp,mptcp").unwrap(), ["tcp", "mptcp"]);
        for (at, named) in [("[2001:db8::7]:4711", "mptcp"), ("192.0.2.7:4711", "udp,mptcp")] {
            assert!(transports(at, named).unwrap_err().contains("measures tcp and mptcp, or UDP"), "{at}");
        }
    }

    #[test]
    fn datagrams_to_far_hosts_ignore_local_mtu() {
        for (at, transport) in [("192.0.2.7:4711", "udp"), ("[2001:db8::7]:4711", "udp6")] {
            let mut spec = PlanSpec::named("a test", Workload::Stream);
            let sizes = [("read_size", "64K"), ("write_size", "1000"), ("direction", "to,from"), ("profile", "drain")];
            let flags = [("host", at), ("transport", transport)].into_iter().chain(sizes);
            let flags: Vec<_> = flags.map(|(name, text)| (factor::find(name).unwrap(), text.to_owned())).collect();
            spec.set_all(&flags).unwrap();
            // Notes on this host's loopback, which they never use.
            let catalog = Catalog { loopback_mtu: Some(1500), ..Catalog::default() };
            let plan = resolve(&spec, &catalog, 1).unwrap();
            assert_eq!((plan.groups.len(), plan.cells.len(), plan.skipped.len()), (2, 6, 0));
            for cell in &plan.cells {
                assert_eq!(cell.factors.get("transport").name(), Some(transport));
                assert_eq!(cell.factors.far().unwrap().0.to_string(), at);
            }
            assert!(plan.notes.iter().all(|note| !note.contains("MTU")), "{:?}", plan.notes);
        }
    }

    #[test]
    fn bytes_go_both_ways_at_once() {
        let sizes = [("read_size", "64K"), ("write_size", "64K"), ("profile", "drain")];
        let of = |workload, flags: &[(&'static str, &'static str)]| {
            let sizes = if workload == Workload::Stream { &sizes[..] } else { &[] };
            plan(workload, &[sizes, flags].concat())
        };
        let (host, both) = (("host", "192.0.2.7:1"), ("direction", "both"));
        let going = |plan: &Plan| plan.groups.iter().filter(|group| group.factors.goes_both_ways()).count();
        let far = of(Workload::Stream, &[host, ("direction", "to,both")]).unwrap();
        assert_eq!((far.groups.len(), going(&far)), (2, 1));
        let here = of(Workload::Stream, &[("transport", "tcp"), both]).unwrap();
        assert!(going(&here) == here.groups.len() && !here.groups.is_empty());
        let check = |workload, flags: &[(&'static str, &'static str)], part: &str| {
            let error = of(workload, flags).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        for at in [&[host][..], &[]] {
            let datagrams = [("transport", "udp"), ("write_size", "1000"), both];
            let plan = of(Workload::Stream, &[at, &datagrams].concat()).unwrap();
            assert!(going(&plan) == plan.groups.len() && !plan.groups.is_empty());
        }
        let nothing = "--direction both has no effect without a stream over TCP or UDP";
        check(Workload::Call, &[host, both], nothing);
        check(Workload::Stream, &[("transport", "tcp"), both, ("relay", "splice")], nothing);
        assert!(of(Workload::Stream, &[("transport", "tcp"), both, ("connect", "127.0.0.1:7")]).is_err());
        assert!(of(Workload::Stream, &[("transport", "tcp"), both, ("engine", "tokio")]).is_ok());
        for unix in ["unix", "unix-dgram"] {
            let fits = "--direction fits none of the chosen transports";
            check(Workload::Stream, &[("transport", unix), both], fits);
        }
        check(Workload::Stream, &[("transport", "tcp"), ("direction", "to,both")], "without --host");
    }

    #[test]
    fn plans_without_far_host_have_no_such_level() {
        let plan = plan(Workload::Call, &[("transport", "tcp")]).unwrap();
        assert!(
            plan.cells
                .iter()
                .all(|cell| ["host", "direction"].iter().all(|name| cell.factors.get(name) == Level::Absent))
        );
        assert!(plan.cells.iter().all(|cell| cell.factors.get("relay_host") == Level::Absent));
    }

    #[test]
    fn far_relays_are_compared_with_the_direct_path() {
        for (at, transport) in [("192.0.2.7:4711", "tcp"), ("[2001:db8::7]:4711", "tcp6")] {
            let flags = [("relay_host", at), ("relay", "direct,splice,haproxy,cmd:x {listen} {upstream}")];
            let plan = plan(Workload::Call, &flags).unwrap();
            let cells: Vec<&Cell> = plan.cells.iter().chain(&plan.artefacts).collect();
            for cell in &cells {
                assert_eq!(cell.factors.relay_host().unwrap().to_string(), at);
                assert_eq!(cell.factors.get("transport"), transport.into());
                assert_eq!(cell.factors.placement(), Some(Placement::Unpinned));
                assert_eq!(cell.factors.relay_placement(), Some(RelayPlacement::Unpinned));
            }
            // An agent runs no command of a caller.
            let reasons: Vec<&str> = plan.skipped.iter().filter_map(|(_, outcome)| outcome.reason()).collect();
            assert_eq!(2 * reasons.len(), cells.len(), "{reasons:?}");
            assert!(reasons.iter().all(|reason| reason.contains("--relay-host")), "{reasons:?}");
            let has_note = |text: &str| plan.notes.iter().any(|note| note.contains(text));
            assert!(has_note(&format!("the relay at {at}")) && has_note("crosses no network"), "{:?}", plan.notes);
        }
        let three = [("relay_host", "192.0.2.7:1"), ("host", "192.0.2.8:1"), ("relay", "splice")];
        let plan = plan(Workload::Stream, &three).unwrap();
        assert!(plan.cells.iter().all(|cell| cell.factors.relay_host() != cell.factors.host()));
    }

    #[test]
    fn a_far_relay_may_have_missing_features() {
        let mut spec = PlanSpec::named("a test", Workload::Call);
        let flags = [("relay_host", "192.0.2.7:1"), ("relay", "uring")];
        let flags: Vec<_> = flags.map(|(name, text)| (factor::find(name).unwrap(), text.to_owned())).into();
        spec.set_all(&flags).unwrap();
        let missing = [(("relay", "uring".to_owned()), "no io_uring".to_owned())].into();
        let catalog = Catalog { missing, ..Catalog::default() };
        assert!(resolve(&spec, &catalog, 1).unwrap().skipped.is_empty());
    }

    #[test]
    fn what_a_relay_elsewhere_cannot_do_is_refused() {
        let check = |flags: &[(&str, &str)], part: &str| {
            let flags: Vec<_> = [("relay_host", "192.0.2.7:1")].iter().chain(flags).copied().collect();
            let error = plan(Workload::Call, &flags).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        let relay = ("relay", "splice");
        check(&[], "--relay-host has no effect without --relay METHOD");
        check(&[relay, ("connect", "127.0.0.1:1")], "--connect does not work with --relay-host");
        check(&[relay, ("competing_flows", "2")], "--competing-flows does not work with --relay-host");
        check(&[relay, ("transport", "unix")], "--transport does not work with --relay-host");
        check(&[relay, ("host", "192.0.2.7:1")], "an agent of its own");
        check(&[relay, ("host", "192.0.2.8:1"), ("direction", "from")], "use --direction to");
        check(&[relay, ("host", "[::1]:1")], "IPv4 and IPv6");
        check(&[relay, ("relay_placement", "own")], "use --relay-placement unpinned");
        check(&[("relay", "haproxy")], "agents run no programs");
    }

    #[test]
    fn what_two_hosts_cannot_do_is_refused() {
        let check = |flags: &[(&str, &str)], part: &str| {
            let flags: Vec<_> = [("host", "192.0.2.7:1")].iter().chain(flags).copied().collect();
            let error = plan(Workload::Call, &flags).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(&[("connect", "127.0.0.1:1")], "--connect does not work with --host");
        check(&[("relay", "splice")], "--relay does not work with --host: a relay on this host");
        check(&[("competing_flows", "2")], "--competing-flows does not work with --host");
        assert!(plan(Workload::Call, &[("host", "192.0.2.7:1"), ("transport", "udp")]).is_ok());
        for others in ["tcp6", "udp6", "unix", "unix-dgram", "tcp,udp"] {
            check(&[("transport", others)], "--transport does not work with --host: between two hosts a session");
        }
        check(&[("placement", "cross-core")], "--placement does not work");
        check(&[("host", "unix:/x")], "--host does not work");
        check(&[("host", "192.0.2.7:1,[::1]:1")], "IPv4 and IPv6");
        check(&[("host", "192.0.2.7:1,auto")], "use two sessions");
        let alone = plan(Workload::Call, &[("transport", "tcp"), ("direction", "from")]).unwrap_err();
        assert!(alone.contains("without --host"), "{alone}");
    }
}
