//! Limits of the machine: files, CPUs, rights. Reported before the measurement.

use crate::bench::{Bench, possible};
use crate::raw::{Raw, name};

const MANY: &str = "stream --connection-age fresh --transport unix --profile drain --read-size 4K --write-size 4K --trial-time 200ms --blocks 1 --time 2s";

#[test]
fn more_flows_than_files() {
    let bench = Bench::new();
    let ran = bench.shell(&format!("ulimit -n 128 && exec \"$BYTEGAUGE\" {MANY} --flows 100")).exits(2);
    ran.complains(&["100 flows need 264 open files", "hard limit is 128", "use fewer --flows", "ulimit -Hn"]);
    assert!(!bench.path("data").exists());
}

#[test]
fn the_soft_limit_is_raised_first() {
    let bench = Bench::new();
    let ran =
        bench.shell(&format!("ulimit -Sn 64 && ulimit -Hn 4096 && exec \"$BYTEGAUGE\" {MANY} --flows 60 --quiet"));
    ran.exits(0);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!(raw.troubles(), [""; 0]);
}

#[test]
fn some_flows_fit_and_some_do_not() {
    let bench = Bench::new();
    let ran = bench.shell(&format!("ulimit -n 128 && exec \"$BYTEGAUGE\" {MANY} --flows 2,100 --dry-run")).exits(0);
    ran.prints(&["1 option in 2 tests", "skipped: 100 flows need 264 open files"]);
}

/// The table of what a connection holds is neither too small, so that a relay runs out, nor refuses one that fits.
#[test]
fn relay_opens_the_files_of_its_method() {
    let words = "call --transport tcp --profile echo --flows 100 --request 1K --server-engine epoll --client-engine epoll \
                 --relay epoll,hybrid,std-copy,splice --rate 5k --trial-time 100ms --blocks 1 --analyses 1 --time 2s --quiet --format json";
    for (files, is_short) in [(264, true), (664, false)] {
        let bench = Bench::new();
        let ran = bench.shell(&format!("ulimit -n {files} && exec \"$BYTEGAUGE\" {words}"));
        assert!(matches!(ran.status.code(), Some(0 | 5)), "{ran}");
        let document = bench.run("report --format json").json();
        for cell in document["cells"].as_array().expect("a list") {
            let (relay, reason) = (name(&cell["factors"]["relay"]), cell["reason"].as_str().unwrap_or_default());
            let missing_requirement = reason.contains("descriptor") || reason.contains("open files");
            let six = ["std-copy", "splice"].contains(&relay.as_str());
            assert_eq!(missing_requirement, six && is_short, "{relay} with {files}: {reason}");
        }
    }
}

#[test]
fn no_thread_may_be_made() {
    let limited = "setpriv --reuid 65534 --clear-groups prlimit --nproc";
    if !possible("another user with a limit", "sh", &["-c", &format!("exec {limited}=1 true")]) {
        return;
    }
    let bench = Bench::new();
    // The binary, and a folder to write to, where that user may go.
    bench.shell("chmod 777 . && cp \"$BYTEGAUGE\" here").exits(0);
    let script = |most: u32, words: &str| format!("exec {limited}={most} ./here {words} --store r.db");
    if bench.shell(&script(1, "--version")).status.code() != Some(0) {
        eprintln!("SKIPPED: this folder is not open to another user");
        return;
    }
    // The first thread is for signals, the next ones are the ends.
    for (most, words) in [(1, MANY), (2, MANY), (2, &format!("{MANY} --ends processes")), (1, "ring --time 2s")] {
        let ran = bench.shell(&script(most, words));
        assert!(matches!(ran.status.code(), Some(2 | 5)) && !ran.stderr.contains("panicked"), "{ran}");
        ran.complains(&["Resource temporarily unavailable", "limit on processes"]);
    }
}

#[test]
fn files_that_may_not_grow() {
    let bench = Bench::new();
    // In blocks of 512 bytes, or of 1024: in any case less than the store's tables and some trials.
    let ran = bench
        .shell(&format!("ulimit -f 300 && exec \"$BYTEGAUGE\" {} --quiet", MANY.replace("--blocks 1", "--blocks 500")));
    ran.exits(5).complains(&["results.db", "ulimit -f", "everything recorded before is kept"]);
    bench.run("report list").exits(0);
    // Not even the tables have room: SQLite takes it for a full disk.
    let bench = Bench::new();
    let ran = bench.shell(&format!("ulimit -f 8 && exec \"$BYTEGAUGE\" {MANY} --quiet"));
    ran.exits(5).complains(&["results.db", "ulimit -f", "raise"]);
}

#[test]
fn one_cpu_only() {
    if !possible("one CPU", "taskset", &["-c", "0", "true"]) {
        return;
    }
    let bench = Bench::new();
    let ran = bench.shell(&format!("exec taskset -c 0 \"$BYTEGAUGE\" {MANY}")).exits(2);
    ran.complains(&["placement cross-core: only one core is allowed to this process", "use another --placement"]);
    bench.shell(&format!("exec taskset -c 0 \"$BYTEGAUGE\" {MANY} --placement same-cpu --quiet")).exits(0);
    bench.shell(&format!("exec taskset -c 0 \"$BYTEGAUGE\" {MANY} --placement unpinned --quiet")).exits(0);
}

#[test]
fn placements_that_the_machine_lacks_are_skipped() {
    let bench = Bench::new();
    // Sixteen nodes have no machine that runs this; a machine with several has cross-node.
    let ran = bench.run(&format!("{MANY} --placement unpinned,cross-node,smt-sibling --dry-run")).exits(0);
    assert!(ran.stdout.contains("options in 3 tests"), "{ran}");
}

#[test]
fn a_file_that_may_not_be_read() {
    if !possible("a user without rights", "unshare", &["-U", "true"]) {
        return;
    }
    let bench = Bench::new();
    bench.write("secret", "text");
    let ran = bench.shell("chmod 000 secret && exec unshare -U \"$BYTEGAUGE\" stream --transport ./secret").exits(2);
    ran.complains(&["./secret cannot be read", "Permission denied", "check --transport"]);
}

#[test]
fn no_ipv6() {
    if !possible("a network of its own", "unshare", &["-Urn", "true"]) {
        return;
    }
    // In a fresh network namespace not even the loopback device is up.
    let bench = Bench::new();
    let words = MANY.replace("--transport unix", "--transport tcp6,unix");
    let ran = bench.shell(&format!("exec unshare -Urn \"$BYTEGAUGE\" {words} --quiet --format json")).exits(0);
    let document = ran.json();
    assert_eq!(
        (&document["cells"][0]["outcome"], &document["cells"][1]["outcome"]),
        (&"skipped".into(), &"measured".into()),
        "{ran}"
    );
}

#[test]
fn a_congestion_control_that_is_not_loaded() {
    let bench = Bench::new();
    let words = MANY.replace("unix", "tcp");
    let ran = bench.run(&format!("{words} --congestion nosuch")).exits(2);
    ran.complains(&["congestion control nosuch is not available here", "available: ", "load its module"]);
}

#[test]
fn a_congestion_control_that_is_reserved() {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control"));
    let (available, allowed) = (read("available").unwrap(), read("allowed").unwrap());
    let is_allowed = |name: &&str| allowed.split_whitespace().any(|other| other == *name);
    let Some(reserved) = available.split_whitespace().find(|name| !is_allowed(name)) else {
        eprintln!(
            "SKIPPED: a congestion control that is reserved: all of them ({}) are allowed here",
            available.trim()
        );
        return;
    };
    if !possible("a user without rights", "unshare", &["-U", "true"]) {
        return;
    }
    let bench = Bench::new();
    let words = MANY.replace("unix", "tcp");
    let ran = bench.shell(&format!("exec unshare -U \"$BYTEGAUGE\" {words} --congestion auto,{reserved} --dry-run"));
    ran.exits(0).prints(&[&format!("skipped: congestion control {reserved} is reserved"), "or run as root"]);
}

const RING: &str = "call --transport unix --profile echo --client-engine epoll --flows 50 --trial-time 200ms --blocks 1 \
                    --time 3s --quiet --format json";

#[test]
fn too_little_locked_memory_for_a_ring() {
    if !possible("a user without rights", "unshare", &["-U", "true"]) {
        return;
    }
    // Root's own memory is not counted, and before Linux 6.14 a ring's was not either.
    let bench = Bench::new();
    for limit_kib in [0, 64] {
        let script =
            format!("ulimit -l {limit_kib} && exec unshare -U \"$BYTEGAUGE\" {RING} --server-engine epoll,uring");
        let document = bench.shell(&script).exits(0).json();
        let [epoll, uring] = [&document["cells"][0], &document["cells"][1]];
        assert_eq!(epoll["outcome"], "measured", "{document}");
        if uring["outcome"] == "measured" {
            eprintln!("SKIPPED: rings of this kernel do not depend on `ulimit -l`");
            return;
        }
        assert_eq!(uring["outcome"], "skipped", "{document}");
        let reason = uring["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(&format!("`ulimit -l` ({limit_kib} KiB here)")), "{reason}");
        assert!(reason.contains("raise it with `ulimit -l unlimited`"), "{reason}");
    }
}

const CALLS: &str =
    "call --transport tcp --profile echo --server-engine epoll --client-engine epoll --blocks 1 --time 3s";

#[test]
fn thousand_connections_and_too_many() {
    let bench = Bench::new();
    let run = |duration: &str| {
        let words = format!("{CALLS} --flows 1000 --trial-time {duration} --quiet --format json");
        bench.shell(&format!("ulimit -n 4096 && exec \"$BYTEGAUGE\" {words}"))
    };
    let ran = run("200ms");
    // A busy machine may complete none of them in this time.
    let ran = if ran.stdout.contains("use a longer --trial-time") { run("6s") } else { ran };
    let document = ran.exits(0).json();
    assert_eq!(document["cells"][0]["outcome"], "measured", "{document}");

    // Twenty thousand of them, and the ports they need, are refused before anything is opened.
    let ran = bench.shell(&format!("ulimit -n 4096 && exec \"$BYTEGAUGE\" {CALLS} --flows 20000")).exits(2);
    ran.complains(&["20000 flows need", "hard limit is 4096", "use fewer --flows"]);
    assert!(bench.path("data").exists(), "the first run kept its results");
}
