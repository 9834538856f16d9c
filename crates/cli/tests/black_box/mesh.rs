//! A mesh of three ranks on one host.

use std::fs;

use crate::bench::{Bench, Running};

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
    let flags = "--workload call --pattern incast:2 --trial-time 50ms --warmup 10ms --rate 500 --replicates 1 --seed 1";
    let others = [1, 2].map(|number| rank(&bench, number, flags));
    rank(&bench, 0, flags).wait().exits(0).prints(&["incast:2", "6 of 6 tests measured", "All clients together"]);
    others.into_iter().for_each(|other| drop(other.wait().exits(0)));
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
    bench.run("mesh gather nowhere").exits(5).complains(&["nowhere"]);
}
