//! A relay on another host, over loopback: its bytes, its admission, its targets, and its end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::{EndRole, Spec};
use bytegauge_traffic::path::SHOWN;
use bytegauge_traffic::{Address, Command, Reply, relay};
use serde_json::Value;

use crate::bench::Bench;
use crate::far::{agent, ends_of, stopped};
use crate::far_bounds::{ALLOWED, Caller, PATIENCE, TOO_MUCH};
use crate::raw::{Raw, name, number};

const RELAYED: &str = "stream --connection-age fresh --profile drain --read-size 64K --write-size 64K --trial-time 100ms --blocks 2 --analyses 1 \
                       --rate 50M --long-trials off --time 8s --seed 1 --quiet --format json";

const CALL: &str = "call --work none --flows 4 --server-engine epoll --trial-time 100ms --blocks 2 --analyses 1 --long-trials off \
                    --rate 2k --time 8s --seed 1 --quiet --format json";

/// One of each way in which a relay can accept connections.
const WAYS: [&str; 7] = ["read-write", "pipe", "splice", "epoll", "tokio", "uring", "uring-multishot"];

/// Those that this machine has.
fn ways() -> impl Iterator<Item = &'static str> {
    WAYS.into_iter().filter(|way| relay::missing_requirement(way.parse().unwrap()).is_none())
}

/// Every cell was measured, with its relay at the agent and nothing lost on either side of it.
#[track_caller]
fn check_relayed(document: &Value, bench: &Bench, place: &str, connects: bool) {
    let raw = Raw::of(bench, document["session"].as_i64().unwrap());
    let machine = &raw.session["machine"];
    assert_eq!(machine["far_hosts"][place]["machine"]["boot_id"], machine["boot_id"], "the agent is on this machine");
    let (mut relayed, mut cpu_ns) = (0, 0);
    for cell in document["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] != "floor") {
        let relay = name(&cell["factors"]["relay"]);
        assert_eq!(cell["factors"]["relay_host"], place, "{cell}");
        if cell["outcome"] != "measured" {
            assert!(relay::missing_requirement(relay.parse().unwrap()).is_some(), "{cell}");
            continue;
        }
        let of_cell = raw.trials.iter().filter(|trial| trial["cell"] == cell["id"]);
        for trial in of_cell.filter(|trial| trial["outcome"]["kind"] == "measured") {
            let (ends, report) = (&trial["ends"], &trial["ends"]["relay"]["relay"]);
            assert_eq!(report.is_null(), relay == "direct", "{trial}");
            if report.is_null() {
                continue;
            }
            relayed += 1;
            cpu_ns += number(&ends["relay"]["cpu_ns"]);
            assert_eq!(report["unconnected"], 0, "{trial}");
            assert!(report["host_busy_ns"].is_null(), "its host is this one, which is seen already: {trial}");
            if let Some(sent) = ends["source"]["total_bytes"].as_u64() {
                let counts = ["taken_up", "given_up"].map(|count| number(&report[count]));
                assert_eq!(counts, [sent; 2], "{trial}");
                assert_eq!(ends["sink"]["total_bytes"], sent, "{trial}");
            } else {
                let completed = number(&ends["client"]["call"]["completed"]);
                assert!(completed > 0 && number(&ends["server"]["call"]["completed"]) >= completed, "{trial}");
                assert!(!connects || number(&report["connections"]) >= completed, "{trial}");
            }
        }
    }
    // A relay may be kept from running for the whole of a short window, and not of all of them.
    assert!(relayed > 0 && cpu_ns > 0, "{document}");
}

#[test]
fn streams_cross_a_far_relay() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    for flags in [
        format!("--relay direct,{} --verify", WAYS.join(",")),
        "--relay hybrid,splice --relay-threads direction,one,cpus --flows 3 --ends processes".into(),
    ] {
        let ran = bench.run(&format!("{RELAYED} --relay-host {place} --key-file key {flags}")).exits(0);
        check_relayed(&ran.json(), &bench, &place, false);
    }
    let plan =
        bench.run(&format!("{RELAYED} --relay-host {place} --relay direct,splice --key-file key --dry-run")).exits(0);
    plan.prints(&["the path without a relay crosses no network"]);
    assert_eq!(ends_of(&bench), 0);
    stopped(agent).complains(&["measures (bytegauge", "trials with"]);
}

#[test]
fn calls_cross_a_far_relay() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    for (flags, connects) in [
        (format!("--relay direct,{} --request 10K", WAYS.join(",")), false),
        ("--relay read-write,epoll,tokio --verify --request 10K --idle-flows 3".into(), false),
        ("--relay read-write,epoll,tokio,uring --connect-per-call on --request 512".into(), true),
    ] {
        let ran = bench.run(&format!("{CALL} --relay-host {place} --key-file key {flags}")).exits(0);
        check_relayed(&ran.json(), &bench, &place, connects);
    }
    stopped(agent);
}

#[test]
fn options_without_an_agent_are_skipped() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let words = format!("{RELAYED} --relay-host {place} --key-file key --relay");
    let ran = bench.run_args(
        &[
            &words.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>()[..],
            &["epoll,cmd:touch ran {listen} {upstream}"],
        ]
        .concat(),
    );
    let cells = ran.exits(0).json()["cells"].as_array().unwrap().clone();
    let outcome = |relay: &str| {
        let cell = cells.iter().find(|cell| name(&cell["factors"]["relay"]).starts_with(relay)).unwrap();
        (name(&cell["outcome"]), cell["reason"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(outcome("epoll").0, "measured");
    assert!(outcome("cmd:").1.contains("agents run no programs"), "{cells:?}");
    assert!(!bench.path("ran").exists());
    stopped(agent);
}

/// A caller whose relay at an agent runs until it is stopped or has moved its allowed bytes.
fn patient(bench: &Bench, place: &str, relay: &str) -> Caller {
    let levels = Spec::from([
        ("transport", "tcp".into()),
        ("engine", "blocking".into()),
        ("read_size", 65_536.into()),
        ("write_size", 16_384.into()),
        ("relay", relay.into()),
    ]);
    let mut caller = Caller::of(bench, place, EndRole::Relay, &levels);
    // After a stop a relay may wait so long for a connection that its peer leaves open: less than the test waits for its answer.
    (caller.setup.window_ns, caller.setup.grace_ns) = (PATIENCE.as_nanos() as u64, PATIENCE.as_nanos() as u64 / 4);
    caller
}

/// The next connection of a listener, whose reads do not wait for ever either.
fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((connection, _)) => {
                connection.set_nonblocking(false).unwrap();
                connection.set_read_timeout(Some(PATIENCE)).unwrap();
                return connection;
            }
            Err(_) => assert!(Instant::now() < deadline, "no connection arrived"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Opens a relay before a listener: where it listens.
fn opened(caller: &mut Caller, upstream: SocketAddr) -> Result<SocketAddr, String> {
    match caller.open(Some(upstream)) {
        Reply::Listening(Address::Ip(at)) => {
            assert_eq!(caller.hear(), Reply::Ready);
            Ok(at)
        }
        Reply::Skipped(reason) => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn relay_to_another_target_is_refused() {
    let bench = Bench::new();
    // The whole of 127.0.0.0/8 is this host, and the agent's caller is 127.0.0.1.
    let elsewhere = TcpListener::bind("127.0.0.2:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let at = elsewhere.local_addr().unwrap();
    for (flags, allowed) in
        [("".to_owned(), false), ("--relay-to 127.0.0.3".into(), false), (format!("--relay-to {at}"), true)]
    {
        let (agent, place) = agent(&bench, &flags);
        let mut caller = patient(&bench, &place, "read-write");
        match opened(&mut caller, at) {
            Ok(_) => assert!(allowed, "{flags}"),
            Err(reason) => {
                let expected = [&format!("not to {at}"), "127.0.0.1", "--relay-to"];
                assert!(!allowed && expected.iter().all(|text| reason.contains(text)), "{flags}: {reason}");
                // Not to a server of this host's system either.
                let ssh = opened(&mut caller, "127.0.0.1:22".parse().unwrap()).unwrap_err();
                assert!(ssh.contains("ports from 1024 on"), "{ssh}");
            }
        }
        drop(caller);
        stopped(agent);
    }
    assert_eq!(elsewhere.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "no connection was made");
    bench.run("agent --listen 127.0.0.1:0 --key-file key --relay-to example.com").exits(2).complains(&["--relay-to"]);
}

/// The bytes of a connection until it ends.
fn heard(mut connection: TcpStream) -> Vec<u8> {
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    match connection.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("admitted without a ticket"),
        _ => bytes,
    }
}

#[test]
fn without_a_ticket_nothing_is_passed_on() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    for relay in ways() {
        let mut caller = patient(&bench, &place, relay);
        let at = opened(&mut caller, upstream.local_addr().unwrap()).unwrap();
        caller.tell(Command::Go);
        let shown = caller.ticket.shown_by(0);
        let mut other = shown;
        other[7] ^= 1;
        for opening in
            [&b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"[..], &other, &shown[..SHOWN - 1], b"x"]
        {
            let mut outsider = TcpStream::connect(at).unwrap();
            outsider.write_all(opening).unwrap();
            assert_eq!(heard(outsider), b"", "{relay}");
        }
        // A silent connection is not counted.
        let silent = TcpStream::connect(at).unwrap();
        let mut flow = TcpStream::connect(at).unwrap();
        flow.write_all(&[&shown[..], b"hello"].concat()).unwrap();
        flow.shutdown(Shutdown::Write).unwrap();
        // A passed connection would have arrived before this one.
        let mut behind = accepted(&upstream);
        let mut came = Vec::new();
        behind.read_to_end(&mut came).unwrap();
        assert_eq!(came, [&shown[..], b"hello"].concat(), "{relay}");
        drop((behind, silent));
        assert_eq!(heard(flow), b"", "{relay}");
        caller.tell(Command::Stop);
        match caller.hear() {
            Reply::Done(report) => {
                let relay = report.relay.as_ref().unwrap();
                assert!(relay.host_busy_ns.is_some());
                assert_eq!((relay.connections, relay.taken_up, relay.given_up, relay.unconnected), (1, 5, 5, 0));
            }
            other => panic!("{relay}: {other:?}"),
        }
    }
    stopped(agent);
}

#[test]
fn unstopped_relay_ends_at_its_limit() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, ALLOWED);
    let mut most = 0;
    for relay in ways() {
        let mut caller = patient(&bench, &place, relay);
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = opened(&mut caller, upstream.local_addr().unwrap()).unwrap();
        caller.tell(Command::Go);
        let mut flow = TcpStream::connect(at).unwrap();
        flow.set_write_timeout(Some(PATIENCE)).unwrap();
        flow.write_all(&caller.ticket.shown_by(0)).unwrap();
        let mut behind = accepted(&upstream);
        let over = AtomicBool::new(false);
        let came = std::thread::scope(|scope| {
            // No end stops it.
            scope.spawn(|| {
                let bytes = [7; 16_384];
                while flow.write_all(&bytes).is_ok() {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let (mut came, mut bytes) = (0, vec![0; 65_536]);
            while let Ok(n @ 1..) = behind.read(&mut bytes) {
                came += n;
                assert!(came < TOO_MUCH, "{relay}: it goes on");
            }
            over.store(true, Ordering::Relaxed);
            came
        });
        caller.refused_more();
        // One that gets a CPU late may find more than it is allowed at once, and passes none of that on.
        most = most.max(came);
    }
    assert!(most > SHOWN, "nothing was passed on");
    stopped(agent);
}
