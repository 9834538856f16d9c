//! Tests of the limits of an agent.

use std::path::PathBuf;

use std::os::fd::AsFd;

use bytegauge_model::{FactorKey, Level, Side, Spec, Transport};
use bytegauge_sys::option::{self, Value};

use super::*;
use bytegauge_traffic::{PlantedFault, VisitLimits};

const HERE: [u8; 4] = [192, 0, 2, 1];
const PEER: [u8; 4] = [192, 0, 2, 9];

fn setup() -> Setup {
    stream("tcp", "blocking")
}

fn stream(transport: &str, engine: &str) -> Setup {
    let (flows, size) = (Level::from(4), Level::from(4096));
    let levels = [("transport", transport.into()), ("engine", engine.into()), ("flows", flows)];
    let sizes = [("read_size", size.clone()), ("write_size", size)];
    between_hosts(Setup::of(&levels.into_iter().chain(sizes).collect()).unwrap())
}

fn calls_over_udp() -> Setup {
    let levels = Spec::from([("transport", "udp".into()), ("request", 512.into())]).with_workload(Workload::Call);
    between_hosts(Setup::of(&levels).unwrap())
}

fn between_hosts(mut setup: Setup) -> Setup {
    let far = FarPath::to(SocketAddr::new(HERE.into(), 1), Side::Sink, Ticket::fresh().unwrap());
    setup.far = Some(far);
    setup
}

fn open(role: EndRole, setup: Setup, address: Option<Address>) -> Result<Command, String> {
    let between = Between { here: HERE.into(), peer: PEER.into(), port: 7 };
    Limits::default().admitted(Command::Open(role, Box::new(setup), address), between, Spent::default())
}

#[test]
fn ends_bind_here_and_connect_to_the_caller() {
    let mut asked = setup();
    asked.host = Host::at([203, 0, 113, 5].into());
    asked.cpus.insert(EndRole::Sink, vec![0]);
    let Command::Open(_, heard, None) = open(EndRole::Sink, asked.clone(), None).unwrap() else { panic!() };
    assert_eq!(heard.host, Host { v4: HERE.into(), port: 7, ..Host::default() });
    assert!(heard.cpus.is_empty());
    assert_eq!(heard.far.unwrap().faces().unwrap().ip(), IpAddr::from(PEER), "datagram callers");
    asked.far.as_mut().unwrap().end = Some(((HERE, 1).into(), Side::Source));
    let elsewhere = Address::Ip(([203, 0, 113, 5], 4000).into());
    let Command::Open(_, _, address) = open(EndRole::Source, asked, Some(elsewhere)).unwrap() else { panic!() };
    assert_eq!(address, Some(Address::Ip((PEER, 4000).into())));
    assert_eq!(
        Limits::default().admitted(
            Command::Go,
            Between { here: HERE.into(), peer: PEER.into(), port: 0 },
            Spent { bytes: u64::MAX, charged: 0 }
        ),
        Ok(Command::Go)
    );
}

/// A stream with a relay on this host.
fn relayed(relay: &str) -> Setup {
    let mut setup = setup();
    setup.spec.set("relay", relay.into());
    setup.far = Some(FarPath { end: None, relay: Some((HERE, 1).into()), ..setup.far.unwrap() });
    setup
}

#[test]
fn relays_connect_to_the_caller_or_allowed_addresses() {
    let relay = |limits: &Limits, place: ([u8; 4], u16)| {
        let between = Between { here: HERE.into(), peer: PEER.into(), port: 7 };
        let asked = Command::Open(EndRole::Relay, Box::new(relayed("splice")), Some(Address::Ip(place.into())));
        limits.admitted(asked, between, Spent::default())
    };
    let Ok(Command::Open(_, heard, address)) = relay(&Limits::default(), (PEER, 4000)) else { panic!() };
    assert_eq!(address, Some(Address::Ip((PEER, 4000).into())));
    assert_eq!((heard.host.v4, heard.host.port, heard.relay().is_some()), (HERE.into(), 7, true));
    assert!(heard.bound.is_some());
    let elsewhere = ([203, 0, 113, 5], 4000);
    assert!(relay(&Limits::default(), elsewhere).unwrap_err().contains("--relay-to 203.0.113.5:4000"));
    assert!(relay(&Limits::default(), (HERE, 4000)).is_err() && relay(&Limits::default(), (PEER, 22)).is_err());
    let limits = Limits { relay_to: vec!["203.0.113.5".parse().unwrap()], ..Limits::default() };
    let Ok(Command::Open(_, _, address)) = relay(&limits, elsewhere) else { panic!() };
    assert_eq!(address, Some(Address::Ip(elsewhere.into())));
}

#[test]
fn no_role_connects_to_privileged_ports() {
    let check = |role: EndRole, mut asked: Setup| {
        if role != EndRole::Relay {
            asked.far.as_mut().unwrap().end = Some(((HERE, 1).into(), role.side()));
        }
        let to = |limits: &Limits, port: u16| {
            let between = Between { here: HERE.into(), peer: PEER.into(), port: 7 };
            let address = Some(Address::Ip((PEER, port).into()));
            limits.admitted(Command::Open(role, Box::new(asked.clone()), address), between, Spent::default())
        };
        for port in [0, 1, 22, 80, 1023] {
            let refused = to(&Limits::default(), port).unwrap_err();
            assert!(refused.contains(&format!("--relay-to 192.0.2.9:{port}")), "{role}: {refused}");
        }
        assert!(to(&Limits::default(), 1024).is_ok(), "{role}");
        let limits = Limits { relay_to: vec!["192.0.2.9:80".parse().unwrap()], ..Limits::default() };
        assert!(to(&limits, 80).is_ok() && to(&limits, 81).is_err(), "{role}");
    };
    let levels = Spec::from([("transport", "tcp".into()), ("request", 512.into())]).with_workload(Workload::Call);
    let calls = between_hosts(Setup::of(&levels).unwrap());
    check(EndRole::Source, setup());
    check(EndRole::Source, stream("udp", "mmsg"));
    check(EndRole::Client, calls);
    check(EndRole::Client, calls_over_udp());
    check(EndRole::Relay, relayed("splice"));
}

#[test]
fn buffers_of_a_relay_count() {
    let mut asked = relayed("read-write");
    asked.spec.set("relay_buffer", (1 << 30).into());
    let refused = open(EndRole::Relay, asked, Some(Address::Ip((PEER, 4000).into()))).unwrap_err();
    assert!(refused.contains("--max-memory"), "{refused}");
}

#[test]
fn unsupported_ends_are_refused() {
    let check = |role: EndRole, address: Option<Address>, change: fn(&mut Setup)| {
        let mut asked = setup();
        change(&mut asked);
        let refused = open(role, asked, address).unwrap_err();
        assert!(refused.contains("measure that on one host"), "{refused}");
    };
    check(EndRole::Sink, None, |setup| setup.plant = Some(PlantedFault::Corrupt(1)));
    check(EndRole::Sink, None, |setup| setup.slowdown_ns = Some(1.0));
    check(EndRole::Sink, None, |setup| setup.spec.put(FactorKey::transport, Transport::UnixDatagram));
    check(EndRole::Sink, None, |setup| setup.spec.set("transport", "/etc/passwd".into()));
    check(EndRole::Sink, None, |setup| setup.spec.set("connect", "192.0.2.9:80".into()));
    check(EndRole::Sink, None, |setup| setup.far = None);
    check(EndRole::Sink, None, |setup| setup.far.as_mut().unwrap().ticket = Ticket::default());
    check(EndRole::Source, Some(Address::Ip((PEER, 80).into())), |_| {});
    check(EndRole::Sink, Some(Address::Ip((PEER, 80).into())), |_| {});
    for role in [EndRole::Relay, EndRole::Command, EndRole::Ring, EndRole::Competitor] {
        check(role, None, |_| {});
    }
    let to_caller = || Some(Address::Ip((PEER, 4000).into()));
    check(EndRole::Relay, to_caller(), |setup| *setup = relayed("haproxy"));
    check(EndRole::Relay, to_caller(), |setup| *setup = relayed("cmd:true {listen} {upstream}"));
    check(EndRole::Relay, to_caller(), |setup| *setup = relayed("addr:127.0.0.1:9000=127.0.0.1:9001"));
    check(EndRole::Relay, None, |setup| *setup = relayed("splice"));
    check(EndRole::Relay, Some(Address::Path(PathBuf::from("/run/x"))), |setup| *setup = relayed("splice"));
    check(EndRole::Sink, None, |setup| *setup = relayed("splice"));
    check(EndRole::Relay, to_caller(), |setup| {
        *setup = relayed("splice");
        setup.far.as_mut().unwrap().relay = None;
    });
    check(EndRole::Relay, to_caller(), |setup| {
        *setup = relayed("splice");
        setup.spec.put(FactorKey::transport, Transport::Unix);
    });
    let mut from = setup();
    from.far.as_mut().unwrap().end = Some(((HERE, 1).into(), Side::Source));
    assert!(open(EndRole::Source, from, Some(Address::Path(PathBuf::from("/run/x")))).is_err());
    let run = serde_json::json!({"command": ["true"], "metric": "wall"});
    let program = Setup::of_program(&Spec::default(), &serde_json::from_value(run).unwrap());
    assert!(open(EndRole::Command, program.clone(), None).is_err());
    assert!(open(EndRole::Sink, program, None).is_err());
}

#[test]
fn refusals_name_the_flag_that_allows_more() {
    let check = |limits: Limits, change: fn(&mut Setup), named: &str| {
        let between = Between { here: HERE.into(), peer: PEER.into(), port: 0 };
        let mut asked = setup();
        let open = |setup: &Setup| Command::Open(EndRole::Sink, Box::new(setup.clone()), None);
        assert!(limits.admitted(open(&asked), between, Spent::default()).is_ok() || limits.rate.is_some());
        change(&mut asked);
        let refused = limits.admitted(open(&asked), between, Spent::default()).unwrap_err();
        assert!(refused.contains(named), "{refused}");
    };
    let all = Limits::default;
    check(all(), |setup| setup.spec.put(FactorKey::flows, 2049), "--max-flows");
    check(all(), |setup| setup.spec.put(FactorKey::flows, u64::MAX), "--max-flows");
    check(all(), |setup| setup.window_ns = u64::MAX, "--max-duration");
    check(all(), |setup| setup.spec.put(FactorKey::read_size, u64::MAX), "--max-memory");
    check(all(), |setup| setup.spec.put(FactorKey::working_set, u64::MAX), "--max-memory");
    check(Limits { rate: Some(1000), ..all() }, |_| {}, "--max-rate");
    // The caps of datagrams are the same; an end has buffers for as many as it receives at once.
    let datagrams = |changes: &[(&str, Level)]| {
        let mut asked = stream("udp", "mmsg");
        changes.iter().for_each(|(name, level)| asked.spec.set(name, level.clone()));
        asked
    };
    assert!(open(EndRole::Sink, datagrams(&[]), None).is_ok());
    let most = || Level::Number(u64::MAX);
    for (changes, named) in [
        (vec![("batch", (1 << 20).into())], "--max-memory"),
        (vec![("outstanding", most())], "--max-memory"),
        (vec![("write_size", most())], "--max-memory"),
        (vec![("flows", 2049.into())], "--max-flows"),
        (vec![("flows", 1025.into()), ("host", "192.0.2.1:1".into()), ("direction", "both".into())], "--max-flows"),
    ] {
        let refused = open(EndRole::Sink, datagrams(&changes), None).unwrap_err();
        assert!(refused.contains(named), "{refused}");
    }
    let calls = |change: fn(&mut Setup)| {
        let mut asked = calls_over_udp();
        change(&mut asked);
        open(EndRole::Server, asked, None)
    };
    assert!(calls(|setup| setup.spec.put(FactorKey::flows, 2000)).is_ok(), "one socket for all clients");
    for (change, named) in [
        ((|setup| setup.spec.set("batch", (1 << 20).into())) as fn(&mut Setup), "--max-memory"),
        (|setup| setup.spec.put(FactorKey::outstanding, u64::MAX), "--max-memory"),
        (|setup| setup.spec.put(FactorKey::request, u64::MAX), "--max-memory"),
        (|setup| setup.spec.put(FactorKey::flows, 2049), "--max-flows"),
        (|setup| setup.until_stopped = true, "until they are stopped"),
        (|setup| setup.spec.put(FactorKey::urgent, 10_000_000), "urgent messages"),
    ] {
        let refused = calls(change).unwrap_err();
        assert!(refused.contains(named), "{refused}");
    }
    let slow = Limits { rate: Some(1000), ..all() };
    let paced = |rate: u64| {
        let between = Between { here: HERE.into(), peer: PEER.into(), port: 0 };
        let asked = Box::new(datagrams(&[("rate", rate.into())]));
        slow.admitted(Command::Open(EndRole::Sink, asked, None), between, Spent::default())
    };
    assert!(paced(1000).is_ok() && paced(1001).unwrap_err().contains("--max-rate"));
}

#[test]
fn visits_move_data_to_the_other_host_alone() {
    let limits = Limits::default();
    assert_eq!(limits.allow_visit(&setup()), Ok(()));
    assert_eq!(limits.allow_visit(&calls_over_udp()), Ok(()));
    let check = |change: fn(&mut Setup)| {
        let mut asked = setup();
        change(&mut asked);
        limits.allow_visit(&asked).unwrap_err();
    };
    check(|setup| setup.spec.set("relay", "cmd:touch /tmp/x {listen} {upstream}".into()));
    check(|setup| setup.spec.set("relay", "epoll".into()));
    check(|setup| {
        setup.spec.set("link_delay", 1_000_000.into());
        setup.spec.set("link_loss", "1%".into());
        setup.spec.set("link_rate", "1Gbit".into());
        assert!(setup.spec.emulated_link().is_some());
    });
    check(|setup| setup.spec.set("connect", "192.0.2.9:80".into()));
    check(|setup| setup.spec.set("transport", "/etc/passwd".into()));
    check(|setup| setup.spec.put(FactorKey::transport, Transport::Unix));
    check(|setup| setup.spec.put(FactorKey::flows, 1 << 20));
    check(|setup| setup.spec.put(FactorKey::working_set, 1 << 50));
    check(|setup| setup.window_ns = u64::MAX);
    check(|setup| setup.far = None);
    let run = serde_json::json!({"command": ["true"], "metric": "wall"});
    let program = Setup::of_program(&Spec::default(), &serde_json::from_value(run).unwrap());
    assert!(limits.allow_visit(&program).is_err());
}

#[test]
fn work_of_every_connection_that_may_open_counts() {
    let server = |threads: u64, connect_per_call: bool, memory: u64| {
        let levels = Spec::from([("transport", "tcp".into()), ("request", 512.into()), ("engine", "epoll".into())])
            .with_workload(Workload::Call);
        let mut asked = between_hosts(Setup::of(&levels).unwrap());
        let spec = &mut asked.spec;
        spec.put(FactorKey::flows, 10);
        spec.put(FactorKey::idle_flows, 5);
        spec.put(FactorKey::server_threads, threads);
        spec.put(FactorKey::working_set, 1 << 20);
        spec.put(FactorKey::connect_per_call, connect_per_call);
        Limits { memory, ..Limits::default() }.allows(EndRole::Server, &asked)
    };
    // Clients, closing connections, and a margin.
    for (threads, connect_per_call, work) in [(1, false, 79), (3, false, 3 * 79), (1, true, 89)] {
        let refused = server(threads, connect_per_call, work << 20).unwrap_err();
        assert!(refused.contains("--max-memory"), "{refused}");
        // Sockets and silent connections need a fraction of this.
        assert_eq!(server(threads, connect_per_call, (work << 20) + (64 << 20)), Ok(()));
    }
}

#[test]
fn ends_of_the_other_family_are_refused() {
    for transport in ["tcp6", "udp6"] {
        let refused = open(EndRole::Sink, stream(transport, "blocking"), None).unwrap_err();
        assert!(refused.contains("192.0.2.1") && refused.contains(transport), "{refused}");
    }
}

#[test]
fn caller_cannot_raise_the_limits_of_an_end() {
    let mut asked = setup();
    (asked.warmup_ns, asked.window_ns, asked.grace_ns) = (1, 10, u64::MAX);
    asked.bound = Some(Bound { bytes: u64::MAX, lasts_ns: u64::MAX });
    let limits = Limits { bytes: 1000, ..Limits::default() };
    let between = Between { here: HERE.into(), peer: PEER.into(), port: 0 };
    let after = |bytes, charged| {
        let open = Command::Open(EndRole::Sink, Box::new(asked.clone()), None);
        limits.admitted(open, between, Spent { bytes, charged })
    };
    let Ok(Command::Open(_, heard, _)) = after(400, 400) else { panic!() };
    assert_eq!(heard.bound, Some(Bound { bytes: 600, lasts_ns: 11 + 2 * GRACE_MAX_NS }));
    assert_eq!(heard.far.unwrap().faces().unwrap().ip(), IpAddr::from(PEER), "datagram callers");
    let refused = |charged| after(1000, charged).unwrap_err();
    assert!(refused(0).contains("used up: use") && refused(0).contains("--max-bytes"));
    assert!(refused(600).contains("600 B of them charged for ends that died"), "{}", refused(600));
}

#[test]
fn kernel_socket_memory_counts() {
    let check = |asked: &Setup, role: EndRole, side: Side| {
        // The buffers that the kernel itself allots.
        let socket = bytegauge_traffic::transport::prepared(asked, side).unwrap();
        let given =
            [option::SEND_BUFFER, option::RECEIVE_BUFFER].map(|known| match option::read(socket.as_fd(), known) {
                Ok(Value::Number(bytes)) => bytes,
                other => panic!("{other:?}"),
            });
        let memory = asked.flows() as u64 * given.iter().sum::<u64>();
        let limits = Limits { memory, ..Limits::default() };
        assert!(limits.allows(role, asked).unwrap_err().contains("--max-memory"), "{role}");
        let limits = Limits { memory: 2 * memory + (64 << 20), ..limits };
        assert_eq!(limits.allows(role, asked), Ok(()), "{role}");
    };
    let mut asked = stream("udp", "plain");
    asked.spec.put(FactorKey::flows, 64);
    check(&asked, EndRole::Sink, Side::Sink);
    for (transport, engine) in [("udp", "plain"), ("tcp", "blocking")] {
        let mut asked = stream(transport, engine);
        asked.spec.put(FactorKey::sndbuf, 64 << 20);
        asked.spec.put(FactorKey::rcvbuf, 64 << 20);
        check(&asked, EndRole::Source, Side::Source);
        check(&asked, EndRole::Sink, Side::Sink);
    }
}

#[test]
fn visits_call_an_external_server_within_the_limits() {
    let at = [("transport", "tcp".into()), ("request", 512.into()), ("connect", "192.0.2.9:80".into())];
    let asked = Setup::of(&Spec::from(at).with_workload(Workload::Call)).unwrap();
    assert_eq!(Limits::default().allow_visit(&asked), Ok(()));
    let mut many = asked;
    many.spec.put(FactorKey::flows, 1 << 20);
    assert!(Limits::default().allow_visit(&many).unwrap_err().contains("--max-flows"));
}

#[test]
fn numbers_beyond_their_factors_are_refused() {
    let client = |depth: u64| {
        let levels = Spec::from([("transport", "tcp".into()), ("request", 1.into())]).with_workload(Workload::Call);
        let mut asked = Setup::of(&levels).unwrap();
        let ticket = Ticket::fresh().unwrap();
        asked.far = Some(FarPath::to(([192, 0, 2, 1], 1).into(), Side::Sink, ticket));
        asked.spec.put(FactorKey::depth, depth);
        Limits::default().allow_visit(&asked)
    };
    assert_eq!(client(4096), Ok(()));
    // An outstanding call takes 48 bytes, and its message one.
    let refused = client(1 << 29).unwrap_err();
    assert!(refused.contains("--depth: 536870912 is out of range: use 1 to 4096"), "{refused}");
}
