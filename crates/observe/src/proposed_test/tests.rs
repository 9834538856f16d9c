//! Tests of derived tests.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::SocketWaits;
use bytegauge_plan::{Catalog, resolve};
use bytegauge_sys::trace::{Transfer, Way};

use super::*;
use crate::call_counts::OneWay;
use crate::descriptor::PeerProcess;
use crate::observations::TracingCost;

fn side(name: &'static str, asked: u64, moved: u64, calls: u64) -> Option<SideView> {
    let mut side = OneWay::default();
    let transfer = Transfer {
        fd: 3,
        way: Way::In,
        asked: Some(asked),
        address: Some(0),
        moved: moved as i64,
        pieces: 1,
        messages: 1,
    };
    (0..calls).for_each(|_| side.add(name, &transfer));
    side.view()
}

fn end(leads: Leads, reads: Option<SideView>, writes: Option<SideView>, turns: u64) -> EndView {
    let (options, peers) = (BTreeMap::new(), BTreeSet::new());
    let start_up = matches!(&leads, Leads::File { path } if path.starts_with("/lib/"));
    EndView {
        label: leads.label(),
        leads,
        flows: 2,
        seen: 2,
        reads,
        writes,
        turns,
        exchanges: turns.div_ceil(2),
        peers,
        options,
        unasked: None,
        start_up,
    }
}

fn observed(ends: Vec<EndView>, command: &[&str]) -> Observed {
    Observed {
        program: "thing".into(),
        pid: 7,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        processes: 1,
        threads: 1,
        threads_at_once: 1,
        under: None,
        ends,
        connection_waits: Default::default(),
        waits: 0,
        uring: (0, 0),
        slow_copies: None,
        user_ns_per_byte: Some(0.25),
        user_ns_per_call: None,
        cpus: None,
        limit_cpus: None,
        throttled: None,
        ended: true,
        started: false,
        interrupted: false,
        cost: TracingCost::default(),
    }
}

/// Checks that `run` accepts the plan, and that it contains these lines.
#[track_caller]
fn check_plan(ends: Vec<EndView>, kind: ProgramKind, lines: &[&str]) -> DerivedTest {
    let asked = DerivedTest::of(&observed(ends, &["thing", "--buffer", "64K"]), "observed-thing");
    assert_eq!(asked.kind, kind, "{asked:?}");
    let plan = asked.plan.as_deref().expect("a plan");
    for line in lines {
        assert!(plan.lines().any(|there| there == *line), "no `{line}` in {plan}");
    }
    let spec =
        bytegauge_plan::file::parse("observed-thing.toml", plan).unwrap_or_else(|error| panic!("{error}\n{plan}"));
    let resolved = resolve(&spec, &Catalog::default(), 1).unwrap_or_else(|error| panic!("{error}\n{plan}"));
    assert!(resolved.cells.len() > 1, "{plan}");
    asked
}

fn tcp() -> Leads {
    Leads::Connected { transport: "tcp".into(), peer: "127.0.0.1:9".into() }
}

fn served() -> Leads {
    Leads::Accepted { transport: "tcp".into(), port: 7000 }
}

#[test]
fn a_reader_is_tested_with_its_peers_sizes() {
    let short = vec![end(tcp(), side("read", 65_536, 1448, 90), None, 0)];
    let lines = ["role = \"reader\"", "write-size = \"1448\"", "work = \"0.25ns\"", "flows = 2"];
    let asked = check_plan(short, ProgramKind::Reader, &lines);
    assert_eq!(asked.tune.command, "bytegauge tune --values 4K..1M --now 64K -- thing --buffer {value}");
    let full = vec![end(tcp(), side("read", 10_000, 10_000, 90), None, 0)];
    let asked =
        check_plan(full, ProgramKind::Reader, &["write-size = \"16K,1M\"", "read-size = \"4K,10000,16K,64K,256K,1M\""]);
    assert!(asked.assumed[0].contains("not visible"));
}

#[test]
fn requests_have_the_size_of_whole_ones() {
    // Samples that cut one request in six: 60 reads, and 50 turns each way.
    let whole = |side: Option<SideView>, bytes| side.map(|side| SideView { bytes_per_turn: Some(bytes), ..side });
    let (reads, writes) = (whole(side("read", 4096, 100, 60), 100), whole(side("write", 900, 900, 50), 900));
    check_plan(vec![end(served(), reads, writes, 100)], ProgramKind::Server, &["request = 100", "response = 900"]);
}

#[test]
fn every_kind_has_a_plan_that_runs() {
    let writes = || side("write", 8192, 8192, 50);
    let unix = Leads::Unix { transport: "unix".into(), peer: "x".into() };
    check_plan(vec![end(unix, None, writes(), 0)], ProgramKind::Writer, &["role = \"writer\"", "transport = \"unix\""]);
    check_plan(vec![end(Leads::Pipe { fd: 1 }, None, writes(), 0)], ProgramKind::Writer, &["transport = \"pipe\""]);
    let calls = || (side("read", 4096, 100, 50), side("write", 900, 900, 50));
    let (reads, answers) = calls();
    let lines = ["workload = \"call\"", "request = 100", "response = 900", "work = \"2.5ns\""];
    let asked = check_plan(vec![end(served(), reads, answers, 100)], ProgramKind::Server, &lines);
    let expected = "--now 4K --start 'exec thing --buffer 64K {value}' --ready tcp:7000 -- CLIENT";
    assert!(asked.tune.command.ends_with(expected), "{}", asked.tune.command);
    let (reads, requests) = calls();
    check_plan(vec![end(tcp(), reads, requests, 100)], ProgramKind::Client, &["request = 900", "response = 100"]);
    let (reads, writes) = (side("read", 4096, 4096, 50), side("write", 4096, 4096, 50));
    check_plan(
        vec![end(tcp(), reads.clone(), writes.clone(), 2)],
        ProgramKind::Both,
        &["role = \"writer\"", "role = \"reader\""],
    );
    let passed = vec![end(served(), reads, None, 0), end(tcp(), None, writes, 0)];
    check_plan(passed, ProgramKind::Relay, &["relay-buffer = \"4K,16K,64K,256K,1M\""]);
    let itself = Leads::Connected { transport: "tcp".into(), peer: "127.0.0.1:7000".into() };
    let both = vec![
        end(served(), side("read", 100, 100, 50), side("write", 2, 2, 50), 100),
        end(itself, side("read", 2, 2, 50), side("write", 100, 100, 50), 100),
    ];
    check_plan(both, ProgramKind::Server, &["request = 100", "response = 2"]);
    let udp = Leads::Accepted { transport: "udp".into(), port: 53 };
    check_plan(vec![end(udp, side("recvmsg", 2048, 512, 9), None, 0)], ProgramKind::Reader, &["write-size = 512"]);
    let zero = Leads::File { path: "/dev/zero".into() };
    check_plan(
        vec![end(zero, side("read", 512, 512, 9), None, 0)],
        ProgramKind::FileReader,
        &["transport = \"/dev/zero\""],
    );
}

#[test]
fn behaviour_without_a_test_is_only_checked() {
    let out = end(Leads::File { path: "/tmp/out".into() }, None, side("write", 4096, 4096, 9), 0);
    let asked = DerivedTest::of(&observed(vec![out], &["cp", "--size=4096", "a b"]), "x");
    assert_eq!((asked.kind, asked.plan), (ProgramKind::Other, None));
    assert_eq!(asked.tune.command, "bytegauge tune --values 4K..1M --now 4K -- cp --size={value} 'a b'");
    assert_eq!(DerivedTest::of(&observed(Vec::new(), &["x"]), "x").plan, None);
    let library = end(Leads::File { path: "/lib/libc.so.6".into() }, side("read", 832, 832, 1), None, 0);
    assert_eq!(DerivedTest::of(&observed(vec![library], &["x"]), "x").plan, None);
}

#[test]
fn a_long_message_and_receipt_are_a_stream() {
    // Six uploads, each of 22 MB read by 4 KiB, with an answer of 19 B at its end.
    let uploads = |exchanges, calls| {
        let mut end = end(served(), side("recvfrom", 4096, 4096, calls), side("sendto", 19, 19, 6), exchanges);
        (end.seen, end.exchanges) = (6, exchanges);
        vec![end]
    };
    check_plan(uploads(6, 32_000), ProgramKind::Reader, &["role = \"reader\"", "write-size = \"16K,1M\""]);
    // Short ones are requests, on a connection each; so are long ones that follow each other on one.
    check_plan(uploads(6, 6 * 20), ProgramKind::Server, &["request = 81920", "response = 19"]);
    let mut kept = uploads(600, 600 * 400);
    kept[0].writes = side("sendto", 19, 19, 600);
    check_plan(kept, ProgramKind::Server, &["request = 1638400", "response = 19"]);
    // A download after a request.
    let mut down = end(served(), side("read", 512, 100, 3), side("write", 65_536, 65_536, 900), 3);
    (down.seen, down.exchanges) = (3, 3);
    check_plan(vec![down], ProgramKind::Writer, &["role = \"writer\""]);
}

#[test]
fn few_bytes_over_a_pipe_are_ignored() {
    let zero = Leads::File { path: "/dev/zero".into() };
    let pipe = end(Leads::Pipe { fd: 2 }, None, side("write", 80, 80, 3), 0);
    let ends = vec![end(zero, side("read", 65_536, 65_536, 90), None, 0), pipe];
    check_plan(ends, ProgramKind::FileReader, &["transport = \"/dev/zero\""]);
}

#[test]
fn missing_bounds_and_ended_peers_are_named() {
    let zero = Leads::File { path: "/dev/zero".into() };
    let runs = |command: &[&str]| Observed {
        ended: false,
        ..observed(vec![end(zero.clone(), side("read", 512, 512, 9), None, 0)], command)
    };
    let asked = DerivedTest::of(&runs(&["cat", "/dev/zero"]), "x");
    assert!(asked.tune.lacks.as_ref().is_some_and(|lacks| lacks.contains("end by itself")), "{asked:?}");
    let asked = DerivedTest::of(&runs(&["dd", "if=/dev/zero", "bs=512"]), "x");
    assert!(asked.tune.lacks.is_none() && asked.tune.command.contains("count=1073741824"), "{asked:?}");
    let mut reader = end(tcp(), side("read", 65_536, 1448, 90), None, 0);
    reader.peers.insert(PeerProcess { ended: true, pid: 17_239, name: "client.py".into() });
    let asked = DerivedTest::of(&observed(vec![reader.clone()], &["x"]), "x");
    assert!(asked.assumed[0].contains("client.py, process 17239, has ended"), "{asked:?}");
    reader.peers.insert(PeerProcess { ended: false, pid: 99_999, name: "next".into() });
    let asked = DerivedTest::of(&observed(vec![reader], &["x"]), "x");
    assert!(asked.assumed[0].contains("to observe next: bytegauge observe --pid 99999"), "{asked:?}");
}

#[test]
fn a_connection_per_request_is_no_stream() {
    // As Python's http.server: two reads and three writes on each connection.
    let (reads, writes) = (side("recv", 8192, 90, 40), side("write", 4096, 4096, 60));
    let one = EndView { seen: 20, flows: 1, ..end(served(), reads, writes, 20) };
    check_plan(vec![one], ProgramKind::Server, &["workload = \"call\""]);
}

#[test]
fn a_wait_has_the_command_that_proves_its_cause() {
    let (reads, writes) = (side("read", 4096, 100, 50), side("write", 900, 900, 50));
    let mut seen = observed(vec![end(served(), reads, writes, 100)], &["thing"]);
    seen.connection_waits = SocketWaits { samples: 10, held: 9, ..SocketWaits::default() };
    let check = |seen: &Observed, expected: &str| {
        let asked = DerivedTest::of(seen, "observed-thing");
        let proofs: Vec<&str> = asked.waits.iter().map(|one| one.proof.as_str()).collect();
        assert_eq!(proofs, [expected]);
    };
    seen.ended = true;
    check(&seen, "bytegauge tune --option nodelay=on --start 'exec thing' --ready tcp:7000 -- CLIENT");
    // A running server has its port.
    seen.ended = false;
    check(&seen, "bytegauge tune --pid 7 --port 7000 --option nodelay=on --metric wall");
    let root = PeerProcess { pid: 6, name: "thing".into(), ended: false };
    seen.under = Some(root);
    check(&seen, "bytegauge tune --pid 6 --port 7000 --option nodelay=on --metric wall");
}
