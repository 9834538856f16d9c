//! Stores that cannot be used: the reason, the next step, and nothing that was measured is lost.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};

use crate::bench::{Bench, QUICK, Ran, Running, possible};
use crate::raw::Raw;

/// A session of the null engine: quick, and it never fails.
const NULL: &str = "stream --engine null --connection-age fresh --transport unix --profile drain --read-size 4K,8K --write-size 4K \
                    --trial-time 1ms --blocks 6 --time 1s --quiet";

/// How a command prefix takes away root's right to write anything.
fn without_rights() -> Option<&'static str> {
    possible("a user without rights", "unshare", &["-U", "true"]).then_some("unshare -U")
}

#[track_caller]
fn check_refused(ran: Ran, expected: &[&str]) {
    let ran = ran.exits(5).complains(expected).complains(&["--store"]);
    assert!(ran.stdout.is_empty() && !ran.stderr.contains("panicked"), "{ran}");
}

/// Wrong usage: nothing was measured.
#[track_caller]
fn check_no_file(ran: Ran, expected: &[&str]) {
    let ran = ran.exits(2).complains(expected).complains(&["--store"]);
    assert!(ran.stdout.is_empty(), "{ran}");
}

#[test]
fn a_directory() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).expect("a folder");
    check_no_file(bench.run(&format!("{NULL} --store folder")), &["folder"]);
    check_no_file(bench.run("report list --store folder"), &["folder"]);
}

#[test]
fn what_keeps_nothing() {
    let bench = Bench::new();
    for (store, kind) in [("", "is empty"), (":memory:", "memory"), ("/dev/null", "is a device")] {
        for words in [NULL, "report list"] {
            let mut words: Vec<&str> = words.split(' ').collect();
            words.extend(["--store", store]);
            check_no_file(bench.run_args(&words), &[kind, "give the path of a file"]);
        }
    }
    assert!(!bench.path("data").exists());
}

/// A link to the file, or to its folder, in a folder that all users may write to.
#[test]
fn links_of_other_users_are_not_followed() {
    let bench = Bench::new();
    bench.shell("mkdir own && ln -s own/r.db link.db && ln -s own folder").exits(0);
    bench.run(&format!("{NULL} --store link.db")).exits(0);
    bench.run("report list --store folder/r.db").exits(0);
    if bench.shell("chown -h 65534 link.db folder").status.code() != Some(0) {
        eprintln!("SKIPPED: a link of another user needs root");
        return;
    }
    for (store, link) in [("link.db", "link.db"), ("folder/r.db", "folder"), ("folder/new.db", "folder")] {
        for words in [NULL, "report list"] {
            let texts = [link, "symbolic link of another user"];
            check_refused(bench.run(&format!("{words} --store {store}")), &texts);
        }
    }
    assert!(!bench.path("own/new.db").exists());
    bench.shell("mkdir data && ln -s ../own data/bytegauge && chown -h 65534 data/bytegauge").exits(0);
    check_refused(bench.run(NULL), &["symbolic link of another user"]);
}

#[test]
fn a_name_that_is_too_long() {
    let bench = Bench::new();
    let name = "x".repeat(300);
    check_refused(bench.run(&format!("{NULL} --store {name}")), &["too long for its file system"]);
}

/// Runs a script after some trials, while the session is stopped: a short session would end before a slow script.
#[track_caller]
fn meanwhile(bench: &Bench, running: &mut Running, script: &str) {
    running.until("some trials", |running| running.stdout().matches("\"trial\"").count() >= 2);
    running.signal("STOP");
    bench.shell(script).exits(0);
    running.signal("CONT");
}

#[test]
fn lost_store_is_reported() {
    // Atomically, so that the store exists at each moment.
    let replace = "ln results.db other.db && touch new.db && mv -f new.db results.db";
    for (script, how) in [("rm results.db", "deleted"), (replace, "replaced")] {
        let bench = Bench::new();
        let mut running = bench.start(&format!("{QUICK} --store results.db --json-stream"));
        meanwhile(&bench, &mut running, script);
        let ran = running.wait().exits(5).complains(&[how, "results.db.saved-1", "--resume"]);
        let reported = ran.stdout.matches("\"event\":\"trial\"").count();
        let kept = bench.run("--store results.db.saved-1 report export 1").exits(0).json_lines();
        let trials = kept.iter().filter(|line| line["kind"] == "trial").count();
        assert!(trials >= reported && reported >= 2, "{trials} of {reported} are kept: {ran}");
        bench.run("--store results.db.saved-1 stream --resume --quiet").exits(0);
    }
    let bench = Bench::new();
    let mut running = bench.start(&format!("{QUICK} --store results.db --json-stream"));
    meanwhile(&bench, &mut running, ": >results.db");
    let ran = running.wait().exits(5);
    assert!(!ran.stderr.contains("panicked") && ran.stderr.contains("results.db"), "{ran}");
}

#[test]
fn a_folder_that_is_a_file() {
    let bench = Bench::new();
    bench.write("file", "text");
    check_refused(bench.run(&format!("{NULL} --store file/results.db")), &["cannot create the folder"]);
}

#[test]
fn another_kind_of_file() {
    let bench = Bench::new();
    let text = "not a database, despite its name\n".repeat(40);
    bench.write("results.db", &text);
    for words in [&format!("{NULL} --store results.db"), "report list --store results.db", "report --store results.db"]
    {
        check_refused(bench.run(words), &["results.db is not a result store of bytegauge"]);
    }
    assert_eq!(fs::read_to_string(bench.path("results.db")).expect("the file"), text, "it is left alone");
}

#[test]
fn a_folder_that_takes_no_file() {
    let Some(drop) = without_rights() else { return };
    let bench = Bench::new();
    fs::create_dir(bench.path("closed")).expect("a folder");
    let ran = bench.shell(&format!("chmod 555 closed && exec {drop} \"$BYTEGAUGE\" {NULL} --store closed/results.db"));
    check_refused(ran, &["closed/results.db", "permission"]);
    let ran = bench.shell(&format!("exec {drop} \"$BYTEGAUGE\" {NULL} --store closed/deeper/results.db"));
    check_refused(ran, &["closed/deeper", "ermission denied"]);
}

#[test]
fn a_store_that_may_only_be_read() {
    let Some(drop) = without_rights() else { return };
    let bench = Bench::new();
    bench.run(NULL).exits(0);
    let ran = bench.shell(&format!("chmod 444 data/bytegauge/* && exec {drop} \"$BYTEGAUGE\" {NULL}"));
    check_refused(ran, &["is read-only"]);
    bench.run("report 1").exits(0);
}

/// Where SQLite keeps `user_version` in its header (sqlite.org/fileformat.html).
const USER_VERSION: u64 = 60;

#[test]
fn a_store_of_another_version() {
    let bench = Bench::new();
    bench.run(NULL).exits(0);
    patch(&bench, USER_VERSION, &99_u32.to_be_bytes());
    for words in [NULL, "report list", "report", "report export 1"] {
        check_refused(
            bench.run(words),
            &["schema 99, and this version of bytegauge reads 3", "use the version that wrote them"],
        );
    }
}

#[test]
fn a_store_with_holes() {
    let bench = Bench::new();
    bench.run(NULL).exits(0);
    let length = fs::metadata(bench.store()).expect("the store").len();
    patch(&bench, 4096, &vec![0xa5; length as usize - 4096]);
    for words in [NULL, "report list", "report 1", "report export 1"] {
        let ran = bench.run(words).exits(5).complains(&["damaged", "move the file away", "recover"]);
        assert!(!ran.stderr.contains("panicked"), "{ran}");
    }
}

#[test]
fn any_byte_may_rot() {
    let bench = Bench::new();
    bench.run(NULL).exits(0);
    let sound = fs::read(bench.store()).expect("the store");
    let seed = crate::bench::clock_seed();
    let mut state = seed;
    for round in 0..24 {
        let mut rotten = sound.clone();
        for _ in 0..64 {
            // A linear congruential generator will do to choose bytes (Knuth's MMIX constants).
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 20) as usize % rotten.len();
            rotten[at] ^= (state >> 12) as u8 | 1;
        }
        fs::write(bench.store(), &rotten).expect("the store");
        for words in ["report list", "report 1", "report export 1"] {
            let ran = bench.run(words);
            let code = ran.status.code();
            assert!(matches!(code, Some(0 | 2 | 5)), "seed {seed}, round {round}: {ran}");
            assert!(!ran.stderr.contains("panicked"), "seed {seed}, round {round}: {ran}");
            assert!(code == Some(0) || ran.stderr.starts_with("bytegauge: "), "seed {seed}, round {round}: {ran}");
        }
    }
}

#[test]
fn a_log_that_is_torn() {
    let bench = Bench::new();
    bench.run(NULL).exits(0);
    let mut running = bench.start(&NULL.replace("--blocks 6", "--blocks 5000"));
    let log = bench.path("data/bytegauge/results.db-wal");
    running.until("a log", |_| fs::metadata(&log).is_ok_and(|log| log.len() > 400_000));
    running.kill();
    let length = fs::metadata(&log).expect("the log").len();
    OpenOptions::new().write(true).open(&log).and_then(|file| file.set_len(length - 3000)).expect("a torn log");
    let raw = Raw::of(&bench, 2);
    raw.check_sound();
    assert!(!raw.trials.is_empty());
    Raw::of(&bench, 1).check_sound();
}

/// Measures on a tiny file system until it is full, and carries the store off to where there is room.
const FULL: &str = "mount -t tmpfs -o size=1m none small || exit 99
\"$BYTEGAUGE\" $WORDS --store small/results.db; code=$?
umask 022; mkdir -p data/bytegauge; cp small/results.db* data/bytegauge/ || exit 98
exit $code";

#[test]
fn a_disk_that_is_full() {
    let namespaces = [&["-m", "true"][..], &["-Urm", "true"]];
    let mount = ["mount", "-t", "tmpfs", "none", "/mnt"];
    let Some(flags) = namespaces.into_iter().map(|words| words[0]).find(|flags| {
        let words: Vec<&str> = [*flags].into_iter().chain(mount).collect();
        possible("a file system of its own", "unshare", &words)
    }) else {
        return;
    };
    let bench = Bench::new();
    fs::create_dir(bench.path("small")).expect("a folder");
    let words = NULL.replace("--blocks 6", "--blocks 150").replace("--quiet", "--json-stream");
    let script = format!("WORDS='{words}' exec unshare {flags} sh -c '{FULL}'");
    let ran = bench.shell(&script).exits(5).complains(&["no space left", "--store", "kept", "--resume"]);
    let reported = ran.json_lines().iter().filter(|line| line["event"] == "trial").count();
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert!(reported > 20, "{reported} trials before the disk was full");
    assert_eq!(raw.trials.len(), reported, "reported trials are kept");
    assert_ne!(raw.status(), "complete");
    // With room again it goes on where it was.
    bench.run("stream --resume 1 --quiet").exits(0);
    let after = Raw::of(&bench, 1);
    after.check_sound();
    assert_eq!((after.status(), after.confirmed()["g1"]), ("complete", 150));
    assert_eq!(after.trials[..reported], raw.trials);
}

#[test]
fn a_store_that_vanishes_under_way() {
    let bench = Bench::new();
    let mut running = bench.start(&NULL.replace("--blocks 6", "--blocks 100").replace("--quiet", ""));
    running.until("confirmation", |running| running.stderr().contains("confirmation: "));
    fs::remove_dir_all(bench.path("data")).expect("the folder");
    let ran = running.wait();
    assert!(matches!(ran.status.code(), Some(0 | 5)) && !ran.stderr.contains("panicked"), "{ran}");
}

#[test]
fn a_store_that_another_holds() {
    if !possible("another writer", "sqlite3", &["--version"]) {
        return;
    }
    let bench = Bench::new();
    bench.run(NULL).exits(0);
    // Held for longer than a writer waits.
    let mut holder = bench.spawn(
        {
            let mut command = std::process::Command::new("sh");
            command.args([
                "-c",
                "{ echo 'BEGIN IMMEDIATE; SELECT 1;'; sleep 120; } | exec sqlite3 data/bytegauge/results.db",
            ]);
            command
        },
        "a holder".into(),
    );
    holder.until("the lock", |holder| holder.stdout().contains('1'));
    bench.run("report 1").exits(0);
    bench.run(NULL).exits(5).complains(&["locked by another process", "fuser"]);
}

fn patch(bench: &Bench, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(bench.store()).expect("the store");
    file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(bytes)).expect("the store");
}
