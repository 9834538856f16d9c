//! A mesh of three ranks on one host.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use bytegauge_mesh::files;
use bytegauge_mesh::{MeshRow, RankHello, RateSample, ToRank, ToRankZero, message};
use bytegauge_model::Outcome;
use bytegauge_wire::{Key, connect};

use crate::bench::{Bench, Running, python};
use crate::connect::answering;

/// Short tests at a pace: most of these tests need that bytes arrive, not how fast.
pub const SHORT: &str = "--trial-time 50ms --warmup 10ms --rate 20M --replicates 1 --no-follow-up --seed 1";

/// Tests long enough that a signal comes in the middle of a mesh.
pub const LONG: &str = "--trial-time 200ms --warmup 10ms --rate 20M --replicates 8 --no-follow-up --seed 1";

/// A bench with a key.
pub fn bench() -> Bench {
    let bench = Bench::new();
    bench.run("agent --init --key-file key").exits(0);
    bench
}

/// Starts a rank of three.
pub fn rank(bench: &Bench, rank: u32, flags: &str) -> Running {
    bench.start(&format!("mesh --rank {rank} --size 3 --key-file key --out out {flags}"))
}

/// Rows of a rank that are in its file by now.
pub fn rows(bench: &Bench, rank: u32) -> usize {
    let name = format!("out/rank-{rank:05}.jsonl");
    let text = [name.clone(), name + ".part"].iter().find_map(|name| fs::read_to_string(bench.path(name)).ok());
    text.map_or(0, |text| text.lines().count().saturating_sub(1))
}

/// The rows in a finished file.
pub fn rows_of(path: &Path) -> Vec<MeshRow> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn three_ranks_measure_every_pair() {
    let bench = bench();
    let others = [1, 2].map(|number| rank(&bench, number, SHORT));
    let zero = rank(&bench, 0, SHORT).wait().exits(0);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
    let zero = zero.prints(&["Mesh of 3 ranks", "3 of 3 tests measured", "Typical rate"]);
    assert!(zero.stdout.lines().count() <= 24, "{zero}");
    // Two directions of three pairs, each in the file of its client.
    assert_eq!((0..3).map(|number| rows(&bench, number)).sum::<usize>(), 6);
    bench.run("mesh gather out").exits(0).prints(&["3 of 3 tests measured"]);
}

#[test]
fn calls_of_several_clients_meet_at_one_server() {
    let bench = bench();
    let flags =
        "--workload call --pattern incast:2 --trial-time 500ms --warmup 10ms --rate 500 --replicates 1 --seed 1";
    let others = [1, 2].map(|number| rank(&bench, number, flags));
    rank(&bench, 0, flags).wait().exits(0).prints(&["incast:2", "6 of 6 tests measured", "All clients together"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
}

#[test]
fn ranks_call_an_external_server_together() {
    let (bench, server) = (bench(), answering(100, |_| {}));
    let flags = "--workload call --pattern incast:2 --request 100 --timeout 5s --trial-time 500ms --warmup 10ms --rate 500 --seed 1";
    let flags = format!("{flags} --replicates 1 --connect {}", server.address);
    let others = [1, 2].map(|number| rank(&bench, number, &flags));
    let zero = rank(&bench, 0, &flags).wait().exits(0);
    // Two rounds of two clients: one of the three hosts calls twice.
    zero.prints(&["4 of 4 tests measured", &format!("{}: ", server.address), "for all clients together", "(rank 2)"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
    let all: Vec<MeshRow> =
        (0..3).flat_map(|number| rows_of(&bench.path(&format!("out/rank-{number:05}.jsonl")))).collect();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|row| (row.place.hub, row.receiver()) == (3, Some(3)) && row.times().is_some()));
}

#[test]
fn ranks_without_connect_call_no_server() {
    let (bench, server) = (bench(), answering(100, |_| {}));
    let flags = "--workload call --pattern incast:2 --request 100 --timeout 5s --trial-time 50ms --warmup 10ms --replicates 1 --seed 1";
    let connect = format!("{flags} --connect {}", server.address);
    let others = [rank(&bench, 1, &connect), rank(&bench, 2, flags)];
    let zero = rank(&bench, 0, &connect).wait().exits(0);
    zero.prints(&["this rank was started without --connect"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
}

#[test]
fn calls_run_on_idle_and_loaded_paths() {
    let bench = bench();
    let flags = "--workload call --load-flows 0,2 --trial-time 300ms --warmup 50ms --rate 500 --replicates 1 --no-follow-up --seed 1";
    let others = [1, 2].map(|number| rank(&bench, number, flags));
    let zero = rank(&bench, 0, flags).wait().exits(0);
    zero.prints(&["3 of 3 tests measured", "load 0", "load 2", "Time of all calls: p50"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
    let all: Vec<MeshRow> =
        (0..3).flat_map(|number| rows_of(&bench.path(&format!("out/rank-{number:05}.jsonl")))).collect();
    // Two directions of three pairs, on both paths.
    let loaded = all.iter().filter(|row| row.load_rate.is_some_and(|rate| rate > 0.0)).count();
    let outcomes: Vec<_> = all.iter().map(|row| (row.option, row.sender, &row.outcome)).collect();
    assert_eq!((all.len(), loaded), (12, 6), "{outcomes:?}");
    assert!(all.iter().all(|row| row.times().is_some()), "{outcomes:?}");
}

#[test]
fn both_directions_run_at_once() {
    let bench = bench();
    let flags = "--trial-time 200ms --warmup 10ms --rate 20M --replicates 1 --no-follow-up --seed 1 --verify --direction to,from,both";
    let others = [1, 2].map(|number| rank(&bench, number, flags));
    let zero = rank(&bench, 0, flags).wait().exits(0);
    zero.prints(&["3 of 3 tests measured", "one way", "both ways at once"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
    let all: Vec<MeshRow> =
        (0..3).flat_map(|number| rows_of(&bench.path(&format!("out/rank-{number:05}.jsonl")))).collect();
    assert!(all.iter().all(|row| row.rate > Some(0.0)), "{all:?}");
    for (pair, directions) in [(0, 1), (0, 2), (1, 2)].into_iter().flat_map(|pair| [(pair, false), (pair, true)]) {
        let of_pair = |row: &&MeshRow| {
            let ends = (row.place.hub.min(row.place.client), row.place.hub.max(row.place.client));
            ends == pair && (row.sender == Some(pair.1)) == directions
        };
        let mut begins: Vec<u64> = all.iter().filter(of_pair).map(|row| row.started_unix_ns).collect();
        begins.dedup();
        // Once alone, and once together with the other direction.
        assert_eq!(begins.len(), 2, "{all:?}");
    }
    let mut begins: Vec<u64> = all.iter().map(|row| row.started_unix_ns).collect();
    begins.sort_unstable();
    begins.dedup();
    assert!(files::read(&bench.path("out")).unwrap().settings.verify);
    // One of the three trials of each pair has two rows.
    assert_eq!((all.len(), begins.len()), (12, 9), "{all:?}");
}

#[test]
fn clients_of_an_incast_send_and_receive() {
    let bench = bench();
    let flags =
        "--pattern incast:2 --direction both --trial-time 200ms --warmup 10ms --rate 20M --replicates 1 --seed 1";
    let others = [1, 2].map(|number| rank(&bench, number, flags));
    rank(&bench, 0, flags).wait().exits(0).prints(&["6 of 6 tests measured", "All clients together"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
}

#[test]
fn options_and_directions_alternate_within_a_test() {
    let bench = bench();
    let flags = format!("{SHORT} --flows 1,2,3");
    let others = [1, 2].map(|number| rank(&bench, number, &flags));
    rank(&bench, 0, &flags).wait().exits(0).prints(&["3 of 3 tests measured", "flows 3"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
    let all = (0..3).flat_map(|number| rows_of(&bench.path(&format!("out/rank-{number:05}.jsonl"))));
    let outcomes: Vec<_> = all.map(|row| (row.option, row.sender, row.outcome)).collect();
    // Two directions of three options of three pairs.
    assert_eq!(outcomes.len(), 18);
    assert!(outcomes.iter().all(|(_, _, outcome)| *outcome == Outcome::Measured), "{outcomes:?}");
}

#[test]
fn an_interrupted_mesh_is_resumed() {
    let bench = bench();
    let (mut zero, one, two) = (rank(&bench, 0, LONG), rank(&bench, 1, LONG), rank(&bench, 2, LONG));
    assert!(zero.comes_to("rows", |_| rows(&bench, 1) + rows(&bench, 2) >= 4));
    for rank in [&two, &one, &zero] {
        rank.signal("TERM");
    }
    zero.wait().exits(130).complains(&["--resume"]);
    let _ = [one.wait(), two.wait()];
    let before: Vec<usize> = (0..3).map(|number| rows(&bench, number)).collect();
    let resumed = format!("{LONG} --resume");
    let others = [1, 2].map(|number| rank(&bench, number, &resumed));
    rank(&bench, 0, &resumed).wait().exits(0).prints(&["24 of 24 tests measured"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
    assert!((0..3).all(|number| rows(&bench, number) >= before[number as usize]));
}

/// Takes part as rank 2 and reports rates of other pairs of hosts, of ranks that do not exist, and again and again.
fn report_false_rates(bench: &Bench) {
    let text = fs::read(bench.path("out/coordinator.json")).unwrap();
    let published: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let zero = ("127.0.0.1", published["port"].as_u64().unwrap() as u16);
    let key = Key::read(&bench.path("key")).unwrap();
    let until = || Instant::now() + Duration::from_secs(60);
    let stream = TcpStream::connect(zero).unwrap();
    let (mut sender, mut receiver) = connect(stream, &key, message::VERSION, until()).unwrap();
    // Bound and without listen(2): a port that refuses.
    let refuses = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    refuses.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let agent = refuses.local_addr().unwrap().as_socket().unwrap();
    let program = env!("CARGO_PKG_VERSION").into();
    let hello = RankHello { rank: 2, size: 3, program, host: "\u{1b}[2J".into(), rack: None, agent };
    sender.send(&ToRankZero::Hello(Box::new(hello))).unwrap();
    let rate = |sender, receiver| (0, RateSample { sender, receiver, ln_rate: -1.0 });
    let rates = vec![rate(0, 0), rate(u32::MAX, 0), rate(2, 2), rate(0, 1), rate(0, u32::MAX)];
    loop {
        let report = match receiver.receive(message::TO_RANK_MAX, Some(until())).unwrap() {
            ToRank::Welcome { .. } => ToRankZero::Done(vec![u32::MAX]),
            ToRank::Start { place, .. } => {
                let rates = rates.clone();
                ToRankZero::Report { slot: place.slot, outcome: Outcome::Measured, rates }
            }
            ToRank::Finish => return,
            _ => ToRankZero::Alive,
        };
        sender.send(&report).unwrap();
        sender.send(&report).unwrap();
    }
}

#[test]
fn a_lying_rank_stops_no_other() {
    let bench = bench();
    // Afterwards pairs that look slow are repeated, so rates of other ranks would count.
    let flags = "--trial-time 50ms --warmup 10ms --rate 20M --replicates 3 --seed 1";
    let mut zero = rank(&bench, 0, flags);
    let one = rank(&bench, 1, flags);
    assert!(zero.comes_to("its address", |_| bench.path("out/coordinator.json").exists()));
    report_false_rates(&bench);
    zero.wait().exits(0).prints(&["Mesh of 3 ranks"]);
    one.wait().exits(0);
}

#[test]
fn bad_words_are_refused() {
    let bench = bench();
    let check = |words: &str, texts: &[&str]| {
        bench.run(&format!("mesh {words}")).exits(2).complains(texts);
    };
    check("--key-file key --out out", &["rank of this process is unknown", "--rank"]);
    check("--rank 0 --key-file key --out out", &["number of processes is unknown"]);
    check("--rank 3 --size 3 --key-file key --out out", &["out of range"]);
    check("--rank 0 --size 3 --out out", &["--key-file"]);
    check("--rank 0 --size 3 --key-file key", &["--out DIR"]);
    check("--rank 0 --size 3 --key-file key --out out --pattern ring", &["matchings:K"]);
    check("--rank 0 --size 3 --key-file key --out out --concurrent 0", &["--concurrent"]);
    check("--rank 0 --size 3 --key-file key --out out --margin 95%", &["--margin"]);
    check(
        "--rank 0 --size 3 --key-file key --out out --pattern incast:2 --direction to,from",
        &["one of to, from or both"],
    );
    check("--rank 0 --size 3 --key-file key --out out --workload call --direction both", &["stream", "--direction to"]);
    let to_server = |flags: &str| format!("--rank 0 --size 3 --key-file key --out out --workload call {flags}");
    check(&to_server("--connect 127.0.0.1:9"), &["--connect", "incast:K"]);
    check(&to_server("--pattern incast:2 --connect unix:/x"), &["--connect", "HOST:PORT"]);
    check(&to_server("--pattern incast:2 --connect 127.0.0.1:9 --server-engine epoll"), &["--server-engine"]);
    bench.run("mesh gather nowhere").exits(2).complains(&["nowhere"]);
}

/// Validates each document of standard input against the schemas of Kubernetes, unknown fields included.
const VALIDATE: &str = "import sys, yaml, kubernetes_validate\n\
                        for document in yaml.safe_load_all(sys.stdin):\n    \
                            kubernetes_validate.validate(document, sys.argv[1], strict=True)\n    \
                            print(document['kind'])";

#[test]
fn the_manifest_fits_the_schemas_of_kubernetes() {
    let Some(python) = python("the manifest is validated", "import yaml, kubernetes_validate") else { return };
    let bench = bench();
    let script = bench.write("validate.py", VALIDATE);
    for version in ["1.29", "1.33"] {
        let validate = |manifest: &str| bench.shell(&format!("{manifest} | {python} {script} {version}"));
        let printed = "$BYTEGAUGE mesh print kubernetes --size 8 -- --pattern matchings:5 --rack 'a b'";
        assert_eq!(validate(printed).exits(0).stdout, "Service\nJob\n");
        // The schemas do refuse what does not fit.
        validate(&format!("{printed} | sed s/backoffLimitPerIndex/backoffLimitPerIndexes/")).exits(1);
    }
}
