//! Statistics under the noise of a real machine, and tests that switch features of the whole machine off: only an idle
//! machine allows them, so they run one by one, and only if asked for (CONTRIBUTING.md).
//!
//! The same statistics are tested on generated numbers in `stats` and `report`, the same planted effects by their counts in
//! `artefacts`; these tests combine both.

use crate::bench::Bench;

const DEVICE: &str = "stream --transport /dev/zero --profile drain --seed 1";

#[test]
#[ignore = "needs a quiet machine: see CONTRIBUTING.md"]
fn a_placement_with_two_modes() {
    let bench = Bench::new();
    let words = format!("{DEVICE} --read-size 64K,128K --trial-time 5ms --time 5s --blocks 40");
    // Every other block far slower than the rest.
    let document = bench.run(&format!("{words} --plant c1@modes:20000 --format json")).exits(0).json();
    let planted = document["cells"].as_array().unwrap().iter().find(|cell| cell["id"] == "c1").unwrap();
    let modes = planted["modes"]["modes"].as_array().unwrap_or_else(|| panic!("no modes: {planted}"));
    assert_eq!(modes.len(), 2, "{modes:?}");
    bench.run("report --full").exits(0).prints(&["different speeds: "]);
}

#[test]
#[ignore = "needs a quiet machine: see CONTRIBUTING.md"]
fn a_first_case_that_pays_the_warm_up() {
    let bench = Bench::new();
    let words = format!("{DEVICE} --read-size 64K --blocks 6 --time 20s");
    // 30 ms of slow reads at the beginning of every trial: left out as far as a trial allows.
    let document = bench.run(&format!("{words} --plant cold:30000000 --format json")).exits(0).json();
    assert_eq!(document["groups"][0]["warmup_ns"], 2_500_000, "{}", document["groups"][0]);
    // 200 of the 300 ms of a calibration trial.
    bench.run(&format!("{words} --plant cold:200000000 --full")).exits(0).prints(&["not steady"]);
}

#[test]
#[ignore = "needs a quiet machine: see CONTRIBUTING.md"]
fn knee_is_near_the_capacity() {
    // Some 200 µs a call, which is nearly all there is to it: a lenient limit is kept up to most of the capacity.
    let words = "call --transport unix --server-engine epoll --placement unpinned --flows 4 --request 100 --blocks 2 \
                 --time 60s --work 2000ns --slo p90=50ms --trial-time 100ms --format json";
    let document = Bench::new().run(words).exits(0).json();
    let cell = &document["cells"][0];
    let rates = cell["estimate"]["median"].as_f64().zip(cell["call"]["knee"]["closed_per_second"].as_f64());
    assert!(rates.is_some_and(|(rate, closed)| rate >= 0.3 * closed), "{document}");
}

/// Short calls of many connections, for which a ring needs its memory.
const RING: &str = "call --transport unix --profile echo --client-engine epoll --flows 50 --trial-time 200ms --blocks 1 \
                    --time 3s --quiet --format json";

#[test]
#[ignore = "switches io_uring off for the whole machine: see CONTRIBUTING.md"]
fn io_uring_switched_off() {
    // The switch is the whole machine's: it is put back whatever happens.
    let bench = Bench::new();
    let script = |rest: &str| {
        format!(
            "switch=/proc/sys/kernel/io_uring_disabled\n\
             before=$(cat $switch) && trap 'echo $before > $switch' EXIT INT TERM && echo 2 > $switch || exit 77\n{rest}"
        )
    };
    let ran = bench.shell(&script(&format!("\"$BYTEGAUGE\" {RING} --server-engine epoll,uring")));
    if ran.status.code() == Some(77) {
        eprintln!("SKIPPED: kernel.io_uring_disabled cannot be set here");
        return;
    }
    let document = ran.exits(0).json();
    let [epoll, uring] = [&document["cells"][0], &document["cells"][1]];
    assert_eq!((&epoll["outcome"], &uring["outcome"]), (&"measured".into(), &"skipped".into()), "{document}");
    let reason = uring["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("io_uring is switched off by kernel.io_uring_disabled=2"), "{reason}");

    // Datagrams go without it too, and rings are all made of it.
    let udp = "stream --transport udp --write-size 1000 --trial-time 20ms --blocks 1 --time 3s --quiet --format json";
    let document =
        bench.shell(&script(&format!("\"$BYTEGAUGE\" {udp} --engine plain,uring:multishot"))).exits(0).json();
    let outcomes: Vec<_> = document["cells"].as_array().unwrap().iter().map(|cell| &cell["outcome"]).collect();
    assert!(outcomes.contains(&&"measured".into()) && outcomes.contains(&&"skipped".into()), "{document}");
    let ran = bench.shell(&script("\"$BYTEGAUGE\" ring --entries 64 --blocks 1 --time 2s")).exits(2);
    ran.complains(&["nothing of this plan can be measured here", "kernel.io_uring_disabled=2"]);

    // Where it is all that was asked for, nothing is begun.
    let ran = bench.shell(&script(&format!("\"$BYTEGAUGE\" {RING} --server-engine uring:plain"))).exits(2);
    ran.complains(&["nothing of this plan can be measured here", "kernel.io_uring_disabled=2", "use --engine epoll"]);
}
