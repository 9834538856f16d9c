//! External servers: refuses factors that they cannot have, and sets those that follow from their place.
//!
//! The place, the work and the socket options of such a server are unknown: it is measured from outside. Names are looked
//! up before; nothing here uses the network.

use bytegauge_model::{Cell, Level, Place, Spec, Transport, Workload, factor};

use crate::spec::Part;
use crate::{PlanError, far, iperf3, relay};

/// Whether a factor only applies to bytegauge's own server: options of its sockets among them.
pub(crate) fn belongs_to_own_server(workload: Workload, part: &Part, name: &str) -> bool {
    if iperf3::server_writes(part) {
        return iperf3::is_of_the_writer(name);
    }
    let levels = Spec::from([("rcvbuf_on", "client".into())]);
    factor::find(name).is_some_and(|factor| factor.is_of_server(workload, &levels))
}

/// Whether a part uses external servers.
pub(crate) fn is_external(part: &Part) -> bool {
    !part.places("connect").is_empty()
}

/// Sets in a part what follows from the servers' places.
///
/// # Errors
/// If a factor does not apply to such a server.
pub(crate) fn settle(part: &mut Part, workload: Workload, verify: bool) -> Result<(), PlanError> {
    if !is_external(part) {
        return Ok(());
    }
    if part.levels.get("connect").is_some_and(|levels| levels.iter().any(Level::is_auto)) {
        return refused(
            "connect",
            "bytegauge's own server and an external one have different options: use two sessions",
        );
    }
    iperf3::settle(part, workload)?;
    if let Some(name) = part.levels.keys().find(|name| belongs_to_own_server(workload, part, name)) {
        return refused(name, if iperf3::server_writes(part) { iperf3::OF_THE_WRITER } else { of_the_server(name) });
    }
    relay::refuse_external(workload, part)?;
    settle_transport(part)?;
    // Only the client can be pinned, and the best place for it depends on the server, which may move.
    far::settle_unpinned(part, "connect", "the server's CPUs are unknown: use unpinned (and taskset)")?;
    if workload == Workload::Stream {
        if by_datagrams(part) && !iperf3::is_meant(part) {
            let why = "an external receiver does not report which datagrams arrived: use an echo server with \
           `bytegauge call --connect`, or measure both ends here";
            return refused("transport", why);
        }
        if verify {
            return refused(
                "verify",
                "the bytes that arrive at an external server cannot be compared: leave one of them out",
            );
        }
        return Ok(());
    }
    settle_rcvbuf(part)?;
    let lengths_alone = part.levels.get("response").is_some_and(|levels| levels.iter().any(|l| l.number().is_some()));
    if verify && lengths_alone {
        return refused(
            "verify",
            "only the length of a reply is given by --response, not its bytes: leave one of them out",
        );
    }
    Ok(())
}

/// Notes on what cannot be measured of the servers of these cells.
pub(crate) fn notes(workload: Workload, cells: &[&Cell]) -> Vec<String> {
    let counted = match workload {
        Workload::Stream => {
            "; the rate counts bytes that its kernel acknowledged or accepted, not bytes that it has read"
        }
        _ => "",
    };
    let note = |place: &Place| match place.is_iperf3() {
        true => iperf3::note(place),
        false => format!(
            "the server at {place} is external: its CPU time, its socket options, its queues and its CPUs cannot be \
             measured{counted}"
        ),
    };
    cells.iter().filter_map(|cell| cell.factors.connect()).map(note).collect()
}

/// An address determines the transport that reaches it, but not whether by connections or by datagrams: the latter are named.
fn settle_transport(part: &mut Part) -> Result<(), PlanError> {
    let reached = if by_datagrams(part) { Place::datagram_transport } else { Place::transport };
    let of = |transport: Transport| Level::Name(transport.to_string());
    let mut transports: Vec<Level> = part.places("connect").iter().filter_map(reached).map(of).collect();
    transports.dedup();
    if transports.len() > 1 {
        return refused("connect", "servers behind different transports cannot be compared: use a session for each");
    }
    // A server may accept both at one address.
    let also_by_mptcp = transports == [of(Transport::Tcp)] && !iperf3::is_meant(part);
    let reaches = |level: &Level| transports.contains(level) || (also_by_mptcp && *level == of(Transport::Mptcp));
    match part.levels.get("transport") {
        None => part.settle("transport", transports),
        Some(named) if named.iter().all(reaches) => {}
        Some(_) => {
            return refused(
                "transport",
                "the server's address determines it: leave it out, or use mptcp (IPv4), udp, udp6 or unix-dgram",
            );
        }
    }
    Ok(())
}

/// Whether the part names datagrams.
fn by_datagrams(part: &Part) -> bool {
    let named = part.levels.get("transport").into_iter().flatten().filter_map(Level::name);
    named.filter_map(|name| name.parse().ok()).any(|transport: Transport| transport.is_datagram())
}

fn settle_rcvbuf(part: &mut Part) -> Result<(), PlanError> {
    let client = vec![Level::Name("client".into())];
    match part.levels.get("rcvbuf_on") {
        Some(named) if *named != client => refused("rcvbuf_on", "only the client's buffer can be set: use client"),
        // Over datagrams the server's socket is where it is, and only the client's socket can be set.
        None if part.levels.contains_key("rcvbuf") && !by_datagrams(part) => {
            part.settle("rcvbuf_on", client);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn of_the_server(name: &str) -> &'static str {
    match name {
        "server_engine" => "it sets bytegauge's own server: leave it out, or use --client-engine",
        "profile" => "profiles set the work of bytegauge's own server: leave it out (--idle-flows works in call)",
        _ => "it sets bytegauge's own server: leave it out",
    }
}

pub(crate) fn refused<T>(name: &str, why: &'static str) -> Result<T, PlanError> {
    far::refused(name, "connect", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::resolve::plan_of_flags as plan_of;

    fn plan(flags: &[(&str, &str)]) -> Result<Plan, String> {
        plan_of(Workload::Call, flags)
    }

    #[test]
    fn servers_are_cells_of_one_group() {
        let plan = plan(&[("connect", "127.0.0.1:7000,127.0.0.1:7001")]).unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len()), (1, 2));
        for cell in &plan.cells {
            let absent = |name: &&str| cell.factors.get(name) == Level::Absent;
            assert!(
                ["profile", "work", "read_once", "load_flows", "server_engine", "backlog", "linger"].iter().all(absent),
                "{cell:?}"
            );
            assert_eq!(cell.factors.get("transport").name(), Some("tcp"));
            assert_eq!(cell.factors.get("placement").name(), Some("unpinned"));
        }
        assert_eq!(plan.notes.iter().filter(|note| note.contains("cannot be measured")).count(), 2);
        assert!(plan.notes.iter().any(|note| note.contains("127.0.0.1:7000")));
    }

    #[test]
    fn only_the_writer_of_a_stream_is_set() {
        let at = ("connect", "127.0.0.1:7000");
        let plan = plan_of(Workload::Stream, &[at, ("write_size", "64K,256K")]).unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len()), (1, 2));
        let absent = |name: &&str| plan.cells[0].factors.get(name) == Level::Absent;
        assert!(
            ["profile", "work", "working_set", "read_size", "rcvbuf", "rcvlowat"].iter().all(absent),
            "{:?}",
            plan.cells[0]
        );
        assert!(plan.notes.iter().any(|note| note.contains("not bytes that it has read")), "{:?}", plan.notes);
        for name in ["read_size", "rcvbuf", "rcvlowat", "work", "profile"] {
            let text = if name == "work" {
                "sum"
            } else if name == "profile" {
                "drain"
            } else {
                "64K"
            };
            let error = plan_of(Workload::Stream, &[at, (name, text)]).unwrap_err();
            assert!(error.contains(&format!("--{} does not work with --connect", name.replace('_', "-"))), "{error}");
        }
    }

    #[test]
    fn the_address_determines_the_transport() {
        let check = |at: &str, transport: &str| {
            let plan = plan(&[("connect", at)]).unwrap();
            assert_eq!(plan.cells[0].factors.get("transport").name(), Some(transport));
        };
        check("[::1]:80", "tcp6");
        check("unix:/x", "unix");
    }

    #[test]
    fn datagrams_are_named() {
        let check = |at: &str, transport: &str| {
            let plan = plan(&[("connect", at), ("transport", transport)]).unwrap();
            let levels = &plan.cells[0].factors;
            assert_eq!(
                (levels.get("transport").name(), levels.get("client_engine").name()),
                (Some(transport), Some("plain"))
            );
        };
        check("127.0.0.1:7", "udp");
        check("[::1]:7", "udp6");
        check("unix:/x", "unix-dgram");
        let by_both = plan(&[("connect", "127.0.0.1:7"), ("transport", "tcp,mptcp")]).unwrap();
        let of = |name: &str| by_both.cells.iter().any(|cell| cell.factors.get("transport").name() == Some(name));
        assert!(of("tcp") && of("mptcp"));
        for (at, transport) in
            [("[::1]:7", "mptcp"), ("127.0.0.1:7", "udp6"), ("unix:/x", "udp"), ("127.0.0.1:7", "udp,tcp")]
        {
            let error = plan(&[("connect", at), ("transport", transport)]).unwrap_err();
            assert!(error.contains("--transport does not work"), "{error}");
        }
    }

    #[test]
    fn factors_of_the_own_server_are_refused() {
        let check = |flags: &[(&str, &str)], part: &str| {
            let flags: Vec<_> = [("connect", "127.0.0.1:7000")].iter().chain(flags).copied().collect();
            let error = plan(&flags).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(
            &[("server_engine", "epoll")],
            "--server-engine does not work with --connect: it sets bytegauge's own server",
        );
        check(&[("server_threads", "2")], "--server-threads does not work with --connect");
        check(&[("backlog", "5")], "--backlog does not work");
        check(&[("reuseport", "on")], "--reuseport does not work");
        check(&[("linger", "0")], "--linger does not work");
        check(&[("work", "sum")], "--work does not work");
        check(&[("rcvbuf", "5000"), ("rcvbuf_on", "listener")], "--rcvbuf-on does not work");
        check(&[("rcvbuf", "5000"), ("rcvbuf_on", "accepted")], "use client");
        check(&[("transport", "unix")], "--transport does not work");
        check(&[("placement", "cross-core")], "--placement does not work");
        check(&[("connect", "127.0.0.1:1,unix:/x")], "different transports");
        check(&[("connect", "127.0.0.1:1,auto")], "use two sessions");
    }

    #[test]
    fn a_receive_buffer_is_the_clients() {
        let plan = plan(&[("connect", "127.0.0.1:7000"), ("rcvbuf", "5000")]).unwrap();
        assert_eq!(plan.cells[0].factors.get("rcvbuf_on").name(), Some("client"));
    }
}
