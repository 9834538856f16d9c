//! Things that go wrong with one rank of a mesh. The others finish, and the result names what is missing.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_agent::ProvenListener;
use bytegauge_mesh::launcher::slurm_coordinator;
use bytegauge_mesh::message::{TO_RANK_0_MAX, TO_RANK_MAX, VERSION};
use bytegauge_mesh::{MeshRow, RankHello, ToRank, ToRankZero};
use bytegauge_wire::{Key, connect};
use serde_json::Value;

use crate::bench::{BINARY, Bench, Ran, Running, possible};
use crate::mesh::{LONG, SHORT, bench, rank, rows, rows_of};
use crate::running_relays::free_address;

/// How long rank 0 waits for a rank that never comes. The others have to come earlier, on a busy machine as well.
const JOIN: &str = "--join-timeout 10s";

/// Clocks of hosts that were synchronised differ by less than this.
const SAME_TIME: Duration = Duration::from_secs(600);

/// Waits for ranks that must end well.
fn all_end(ranks: impl IntoIterator<Item = Running>) {
    ranks.into_iter().for_each(|rank| drop(rank.wait().exits(0)));
}

/// Starts a rank with a directory of its own; rank 0 is at a port of loopback.
fn apart(bench: &Bench, number: u32, port: u16, flags: &str) -> Running {
    let words = "mesh --size 3 --key-file key --coordinator 127.0.0.1";
    bench.start(&format!("{words}:{port} --rank {number} --out out{number} {flags}"))
}

#[test]
fn an_absent_rank_is_named() {
    let bench = bench();
    let one = rank(&bench, 1, SHORT);
    let zero = rank(&bench, 0, &format!("{SHORT} {JOIN}")).wait().exits(0);
    zero.prints(&["1 of 3 tests measured", "2: rank 2 did not join in time"]);
    all_end([one]);
}

#[test]
fn a_killed_rank_is_named() {
    let bench = bench();
    let (mut zero, one, two) = (rank(&bench, 0, LONG), rank(&bench, 1, LONG), rank(&bench, 2, LONG));
    assert!(zero.comes_to("rows", |_| rows(&bench, 0) + rows(&bench, 1) >= 4));
    two.signal("KILL");
    two.wait();
    zero.wait().exits(0).prints(&["rank 2 disconnected"]);
    one.wait().exits(0);
}

#[test]
fn a_stopped_rank_is_named() {
    let bench = bench();
    let (mut zero, one, two) = (rank(&bench, 0, LONG), rank(&bench, 1, LONG), rank(&bench, 2, LONG));
    assert!(zero.comes_to("rows", |_| rows(&bench, 0) + rows(&bench, 1) >= 4));
    two.signal("STOP");
    let zero = zero.wait().exits(0).prints(&["rank 2 stopped answering"]);
    assert!(zero.stderr.contains("rank 2 on"), "{zero}");
    all_end([one]);
    two.kill();
}

#[test]
fn a_rank_with_another_key_is_kept_out() {
    let bench = bench();
    bench.run("agent --init --key-file other").exits(0);
    let one = rank(&bench, 1, SHORT);
    let mut zero = rank(&bench, 0, &format!("{SHORT} {JOIN}"));
    assert!(zero.comes_to("its address", |_| bench.path("out/coordinator.json").exists()));
    let two = bench.run(&format!("mesh --rank 2 --size 3 --key-file other --out out {SHORT}"));
    two.exits(5).complains(&["key"]);
    zero.wait().exits(0).prints(&["1 of 3 tests measured", "rank 2 did not join in time"]);
    all_end([one]);
}

#[test]
fn a_rank_of_another_version_is_refused() {
    let bench = bench();
    let one = rank(&bench, 1, SHORT);
    let mut zero = rank(&bench, 0, &format!("{SHORT} {JOIN}"));
    let published = bench.path("out/coordinator.json");
    assert!(zero.comes_to("its address", |_| published.exists()));
    let published: Value = serde_json::from_str(&fs::read_to_string(published).unwrap()).unwrap();
    let port = u16::try_from(published["port"].as_u64().unwrap()).unwrap();
    let key = Key::read(&bench.path("key")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut sender, mut receiver) = connect(stream, &key, VERSION, deadline).unwrap();
    let hello = RankHello {
        rank: 2,
        size: 3,
        program: "0.0.0".into(),
        host: "elsewhere".into(),
        rack: None,
        agent: ([127, 0, 0, 1], 9).into(),
    };
    sender.send(&ToRankZero::Hello(Box::new(hello))).unwrap();
    let answer: ToRank = receiver.receive(TO_RANK_MAX, Some(deadline)).unwrap();
    assert!(matches!(&answer, ToRank::Refused(reason) if reason.contains("0.0.0: use one version")), "{answer:?}");
    let zero = zero.wait().exits(0).prints(&["1 of 3 tests measured", "rank 2 did not join in time"]);
    zero.complains(&["rank 2 on elsewhere: refused", "use one version"]);
    all_end([one]);
}

#[test]
fn a_stopped_rank_zero_is_given_up() {
    let bench = bench();
    let start = |flags: &str| [0, 1, 2].map(|number| rank(&bench, number, flags));
    let [mut zero, one, two] = start(LONG);
    assert!(zero.comes_to("rows", |_| rows(&bench, 1) + rows(&bench, 2) >= 4));
    zero.signal("STOP");
    for rank in [one, two] {
        rank.wait().exits(5).complains(&["rank 0 is lost", "--resume measures the rest"]);
    }
    zero.signal("CONT");
    // By its farewell, or by the end of its connection: whichever rank 0 finds first.
    zero.wait().exits(0).prints(&["Not measured", ": rank 1 "]);
    let [zero, one, two] = start(&format!("{LONG} --resume"));
    zero.wait().exits(0).prints(&["24 of 24 tests measured"]);
    all_end([one, two]);
}

#[test]
fn rank_zero_was_stopped_and_accuses_no_rank() {
    // Longer than ranks may be silent.
    const STOPPED: Duration = Duration::from_secs(17);
    let bench = bench();
    let [mut zero, one, two] = [0, 1, 2].map(|number| rank(&bench, number, LONG));
    assert!(zero.comes_to("rows", |_| rows(&bench, 1) + rows(&bench, 2) >= 4));
    zero.signal("STOP");
    thread::sleep(STOPPED);
    zero.signal("CONT");
    let zero = zero.wait().exits(0).prints(&["Mesh of 3 ranks"]);
    let lost = ["stopped answering", "disconnected", "did not stop"].map(|why| zero.stderr.contains(why));
    assert_eq!(lost, [false; 3], "{zero}");
    all_end([one, two]);
}

#[test]
fn a_rank_is_interrupted_before_it_joins() {
    let bench = bench();
    let zero = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let start = || apart(&bench, 1, zero.local_addr().unwrap().port(), SHORT);
    let interrupted = |rank: Running| drop(rank.wait().exits(130).complains(&["interrupted: it had not joined"]));
    // While it looks for rank 0: whatever listens there proves nothing.
    let looks = start();
    let (silent, _) = zero.accept().unwrap();
    looks.signal("INT");
    drop(silent);
    interrupted(looks);
    // While it waits for the settings.
    let waits = start();
    let key = Key::read(&bench.path("key")).unwrap();
    let listener = ProvenListener::new(zero.try_clone().unwrap(), key, VERSION).unwrap();
    let met = AtomicBool::new(false);
    listener.serve(&met, |caller| {
        let (_sender, mut receiver) = caller.line().unwrap();
        let hello = receiver.receive(TO_RANK_0_MAX, None).unwrap();
        assert!(matches!(&hello, ToRankZero::Hello(of) if of.rank == 1), "{hello:?}");
        waits.signal("INT");
        let next = receiver.receive::<ToRankZero>(TO_RANK_0_MAX, None);
        assert!(next.is_err(), "{next:?}");
        met.store(true, Ordering::Relaxed);
    });
    interrupted(waits);
}

/// A clock that is an hour ahead, for programs that are linked to libc.
const AHEAD: &str = "#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += 3600;
    return failed;
}
";

#[test]
fn wrong_clock_dates_no_row() {
    let bench = bench();
    let source = bench.write("ahead.c", AHEAD);
    let library = bench.path("ahead.so").display().to_string();
    if !possible("the clock of a rank is replaced", "cc", &["-shared", "-fPIC", "-o", &library, &source]) {
        return;
    }
    let words = format!("mesh --rank 2 --size 3 --key-file key --out out {SHORT}");
    let mut ahead = Command::new(BINARY);
    ahead.args(words.split_whitespace()).env("LD_PRELOAD", &library);
    let (zero, one, two) = (rank(&bench, 0, SHORT), rank(&bench, 1, SHORT), bench.spawn(ahead, words));
    zero.wait().exits(0).prints(&["3 of 3 tests measured"]);
    all_end([one, two]);
    let all: Vec<MeshRow> =
        (0..3).flat_map(|number| rows_of(&bench.path(&format!("out/rank-{number:05}.jsonl")))).collect();
    let begins = || all.iter().map(|row| row.started_unix_ns);
    let (first, last) = (begins().min().unwrap(), begins().max().unwrap());
    assert!(all.iter().any(|row| row.place.client == 2), "rank 2 measured nothing: {all:?}");
    assert!(last - first < SAME_TIME.as_nanos() as u64, "{first} to {last}");
}

#[test]
fn full_disk_stops_one_rank_only() {
    let bench = bench();
    let tried = "mkdir full && mount -t tmpfs -o size=8k tmpfs full";
    if !possible(
        "a full disk is a small tmpfs",
        "unshare",
        &["-Urm", "sh", "-c", &format!("cd $(mktemp -d) && {tried}")],
    ) {
        return;
    }
    let port = free_address().port();
    let (zero, one) = (apart(&bench, 0, port, LONG), apart(&bench, 1, port, LONG));
    let two = bench.shell(&format!(
        "unshare -Urm sh -c '{tried} && exec $BYTEGAUGE mesh --rank 2 --size 3 --key-file key --coordinator 127.0.0.1:{port} \
         --out full {LONG}'"
    ));
    two.exits(5).complains(&["No space left on device", "free space"]);
    let zero = zero.wait().exits(0).prints(&["rank 2 left because of an error of its own"]);
    zero.complains(&["rank 2 leaves", "No space left on device"]);
    all_end([one]);
}

#[test]
fn directories_of_ranks_are_merged_later() {
    let bench = bench();
    let port = free_address().port();
    let others = [1, 2].map(|number| apart(&bench, number, port, SHORT));
    let zero = apart(&bench, 0, port, SHORT).wait().exits(0);
    all_end(others);
    // Each test is in the file of its client, and rank 0 has only its own.
    zero.prints(&["is not here", "rank-*.jsonl of all hosts into one directory, then: bytegauge mesh gather DIR"]);
    fs::create_dir(bench.path("all")).unwrap();
    for number in 0..3 {
        let name = format!("rank-{number:05}.jsonl");
        fs::copy(bench.path(&format!("out{number}/{name}")), bench.path(&format!("all/{name}"))).unwrap();
    }
    bench.run("mesh gather all").exits(0).prints(&["3 of 3 tests measured"]);
}

#[test]
fn ranks_of_slurm_need_no_shared_directory() {
    let bench = bench();
    let step = |job: u32| {
        move |name: &str| match name {
            "SLURM_STEP_NODELIST" => Some("localhost".to_owned()),
            "SLURM_JOB_ID" => Some(job.to_string()),
            "SLURM_STEP_ID" => Some("0".to_owned()),
            _ => None,
        }
    };
    let is_free = |job: &u32| {
        let (_, port) = slurm_coordinator(step(*job)).unwrap();
        TcpListener::bind(("0.0.0.0", port)).is_ok()
    };
    let job = (std::process::id()..).find(is_free).unwrap();
    let start = |number: u32| {
        let words = format!("mesh --key-file key --out out{number} {SHORT}");
        let mut command = Command::new(BINARY);
        command.args(words.split_whitespace());
        for name in ["SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID"] {
            command.env(name, step(job)(name).unwrap());
        }
        command.env("SLURM_PROCID", number.to_string()).env("SLURM_NTASKS", "3");
        bench.spawn(command, words)
    };
    let others = [1, 2].map(start);
    start(0).wait().exits(0).prints(&["Mesh of 3 ranks"]);
    all_end(others);
    let counts = [0, 1, 2].map(|number| rows_of(&bench.path(&format!("out{number}/rank-{number:05}.jsonl"))).len());
    assert_eq!(counts.iter().sum::<usize>(), 6);
}

#[test]
fn a_directory_that_is_not_shared_is_suspected() {
    let bench = bench();
    let ran = bench.run(&format!("mesh --rank 1 --size 3 --key-file key --out alone {SHORT} --join-timeout 1s"));
    ran.exits(5).complains(&["not on a shared file system? give --coordinator HOST:PORT"]);
}

#[test]
fn two_meshes_share_a_host() {
    let bench = bench();
    let start = |number: u32, out: &str| {
        bench.start(&format!("mesh --rank {number} --size 3 --key-file key --out {out} {SHORT}"))
    };
    let ranks: Vec<Running> = (0..3).flat_map(|number| [start(number, "a"), start(number, "b")]).collect();
    all_end(ranks);
    for out in ["a", "b"] {
        bench.run(&format!("mesh gather {out}")).exits(0).prints(&["3 of 3 tests measured"]);
    }
}

#[test]
fn second_mesh_keeps_the_first_directory() {
    let bench = bench();
    let (mut zero, one) = (rank(&bench, 0, SHORT), rank(&bench, 1, SHORT));
    assert!(zero.comes_to("its file", |_| bench.path("out/rank-00000.jsonl.part").exists()));
    let published = fs::read(bench.path("out/coordinator.json")).unwrap();
    rank(&bench, 0, SHORT).wait().exits(5).complains(&["exists already", "--resume"]);
    assert_eq!(fs::read(bench.path("out/coordinator.json")).unwrap(), published);
    all_end([rank(&bench, 2, SHORT), zero, one]);
}

/// Three hosts are network namespaces on a bridge, `$host0` to `$host2`.
const THREE_HOSTS: &str = r#"
set -e
ids=
trap 'kill $ids 2>/dev/null || true' EXIT
ip link add br0 type bridge
ip link set br0 up
for n in 0 1 2; do
  unshare -n sleep 300 & host=$!
  ids="$ids $host"
  while [ "$(readlink /proc/$host/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
  ip link add cable$n type veth peer name eth0 netns $host
  ip link set cable$n master br0 up
  nsenter -t $host -n sh -c "ip link set lo up; ip addr add 10.9.0.$((n + 1))/24 dev eth0; ip link set eth0 up"
  eval "host$n=$host"
done
# Starts a rank: NUMBER HOST FLAGS…
rank() {
  number=$1; on=$2; shift 2
  nsenter -t $on -n $BYTEGAUGE mesh --rank $number --size 3 --key-file key --out out "$@" > $number.out 2> $number.err & rank=$!
  ids="$ids $rank"
}
"#;

/// Runs a script between three hosts. `None` where such namespaces are not allowed.
fn between_three_hosts(bench: &Bench, script: &str) -> Option<Ran> {
    let tried = "ip link add br0 type bridge && ip link add a type veth peer name b && unshare -n true && nsenter -t $$ -n true";
    if !possible("three hosts are network namespaces", "unshare", &["-Urn", "sh", "-c", tried]) {
        return None;
    }
    let inner = bench.write("three-hosts.sh", &format!("{THREE_HOSTS}\n{script}"));
    Some(bench.shell(&format!("unshare -Urn sh {inner}")).exits(0))
}

#[test]
fn a_cut_cable_is_named() {
    let bench = bench();
    let script = format!(
        "rank 1 $host1 {LONG}; one=$rank\n\
         rank 2 $host2 {LONG}; two=$rank\n\
         rank 0 $host0 {LONG}; zero=$rank\n\
         until [ \"$(cat out/rank-*.jsonl.part 2> /dev/null | wc -l)\" -ge 12 ]; do kill -0 $zero; sleep 0.02; done\n\
         ip link set cable2 down\n\
         wait $zero; wait $one\n\
         if wait $two; then exit 9; fi\n\
         cat 0.out; cat 2.err >&2"
    );
    let Some(ran) = between_three_hosts(&bench, &script) else { return };
    ran.prints(&["rank 2 stopped answering", "Not measured"]).complains(&["rank 2: rank 0 is lost", "--resume"]);
}

/// Hosts that have IPv6 alone, except at loopback.
const IPV6_ALONE: &str = r#"
n=0
for host in $host0 $host1 $host2; do
  n=$((n + 1))
  nsenter -t $host -n sh -c "ip -4 addr flush dev eth0; ip addr add fd00::$n/64 dev eth0 nodad"
done
"#;

#[test]
fn hosts_with_ipv6_alone_measure_each_other() {
    if !Path::new("/proc/net/if_inet6").exists() {
        eprintln!("skipped: this kernel has no IPv6");
        return;
    }
    let bench = bench();
    let script = format!(
        "{IPV6_ALONE}\n\
         rank 1 $host1 {SHORT}; one=$rank\n\
         rank 2 $host2 {SHORT}; two=$rank\n\
         rank 0 $host0 {SHORT}; zero=$rank\n\
         wait $zero; wait $one; wait $two\n\
         cat 0.out"
    );
    let Some(ran) = between_three_hosts(&bench, &script) else { return };
    ran.prints(&["3 of 3 tests measured"]);
}
