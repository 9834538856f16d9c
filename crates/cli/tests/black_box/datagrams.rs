//! `stream` over datagrams: the defaults, the refused combinations, and the report of losses.

use crate::bench::{Bench, possible};
use crate::raw::Raw;

const SHORT: &str = "--profile drain --trial-time 100ms --blocks 2 --long-trials off --time 8s";

#[test]
fn the_defaults_fit_datagrams() {
    let bench = Bench::new();
    let ran = bench.run(&format!("stream --transport udp --write-size 1000 {SHORT} --full")).exits(0);
    ran.prints(&["plain", "mmsg", "gso", "datagrams/s", "lost"]);
    let raw = Raw::of(&bench, 1);
    assert_eq!(raw.troubles(), [""; 0]);
    let document = bench.run("report --format json").exits(0).json();
    let cells = document["cells"].as_array().unwrap();
    for cell in cells.iter().filter(|cell| cell["kind"] == "candidate") {
        let datagrams = &cell["datagrams"];
        assert!(datagrams["arrived"].as_u64().is_some_and(|count| count > 0), "{cell}");
        let number = |name: &str| datagrams[name].as_u64().unwrap();
        // Every number is accounted for, unknown ones included.
        assert_eq!(number("sent"), number("arrived") - number("duplicated") + number("lost"));
        assert_eq!(number("lost"), number("lost_at_socket") + number("lost_unknown"));
        assert!(datagrams["namespace"]["sent"].as_u64().is_some_and(|count| count > 0), "{cell}");
        // The requested value and the one of the kernel: the document has both.
        assert!(cell["counters"]["options"]["rcvbuf"]["sink"].as_u64().is_some_and(|bytes| bytes > 0), "{cell}");
    }
    assert!(cells.iter().any(|cell| cell["datagrams"]["datagrams_per_packet"].as_f64().is_some_and(|n| n > 60.0)));
}

#[test]
fn unix_datagrams_are_never_lost() {
    let bench = Bench::new();
    let flags = "--write-size 1000 --engine plain,mmsg --ends processes";
    let ran = bench.run(&format!("stream --transport unix-dgram {flags} {SHORT} --format json")).exits(0);
    for cell in ran.json()["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] == "candidate") {
        assert_eq!((&cell["outcome"], &cell["datagrams"]["lost"]), (&"measured".into(), &0.into()), "{cell}");
    }
}

#[test]
fn oversized_datagram_is_refused_with_the_limit() {
    let check = |flags: &str, parts: &[&str]| {
        let bench = Bench::new();
        bench.run(&format!("stream {flags} {SHORT}")).exits(2).complains(parts);
        assert!(!bench.path("data").exists());
    };
    check("--transport udp --write-size 65508", &["over the limit of udp, 65507 B", "use a smaller --write-size"]);
    check(
        "--transport udp --engine gso --write-size 64 --batch 65",
        &["at most 64 datagrams", "use a smaller --batch"],
    );
    check("--transport udp --engine gso --write-size 8K --batch 8", &["at most 65507 B at once", "--batch, or auto"]);
    check("--transport udp --engine blocking", &["blocking does not carry udp", "plain, mmsg, gso"]);
    check("--transport tcp --engine mmsg", &["mmsg does not carry tcp", "blocking"]);
    check("--transport unix-dgram --engine gso", &["gso does not carry unix-dgram"]);
    check("--transport udp --engine plain --batch 8", &["--batch has no effect without --engine mmsg or gso"]);
    check("--transport udp --engine plain --nodelay on", &["--nodelay fits none of the chosen transports (udp)"]);
    check("--transport tcp --batch 8", &["--batch fits none of the chosen transports (tcp)", "udp, udp6, unix-dgram"]);
}

#[test]
fn short_buffer_is_reported() {
    let bench = Bench::new();
    let ran =
        bench.run(&format!("stream --transport udp --engine plain --write-size 8K --read-size 4K {SHORT} --full"));
    ran.exits(0).prints(&["cut off by --read-size"]);
}

#[test]
fn fragmented_datagrams_are_reported() {
    let up = "ip link set lo mtu 1500 up";
    if !possible("a loopback of its own", "unshare", &["-Urn", "sh", "-c", up]) {
        return;
    }
    let bench = Bench::new();
    let flags = format!("stream --transport udp --write-size 4000 --engine plain,gso {SHORT} --format json");
    let ran = bench.shell(&format!("exec unshare -Urn sh -c '{up} && exec \"$BYTEGAUGE\" {flags}'")).exits(0);
    let document = ran.json();
    let notes = document["notes"].to_string();
    assert!(notes.contains("over the loopback's MTU of 1500 B: IP cuts each into fragments"), "{notes}");
    assert!(notes.contains("engine gso cannot cut datagrams of 4000 B"), "{notes}");
    let outcomes: Vec<&str> =
        document["cells"].as_array().unwrap().iter().take(2).filter_map(|cell| cell["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["measured", "skipped"]);
}

#[test]
fn the_highest_rate_keeps_the_loss() {
    let bench = Bench::new();
    // A reader with 20 ns of work for each byte takes at most 50,000 datagrams a second on any machine; the sender is faster. What
    // waits in its buffer when the 100 ms begin adds to them.
    let words = "stream --transport udp --write-size 1000 --engine plain --work 20ns --max-loss 30% --blocks 1 \
                 --long-trials off --trial-time 100ms --time 60s --format json";
    let document = bench.run(words).exits(0).json();
    let cell = document["cells"].as_array().unwrap().iter().find(|cell| cell["kind"] == "candidate").unwrap();
    assert_eq!(cell["outcome"], "measured", "{cell}");
    let lost = cell["datagrams"]["lost_share"].as_f64().unwrap();
    let rate = cell["estimate"]["median"].as_f64().unwrap();
    assert!(lost <= 0.3 && rate > 0.0 && rate <= 60e6, "{lost} lost at {rate} bytes/s: {cell}");
    let refused = bench.run("stream --transport udp --write-size 1000 --max-loss 1% --rate 10M --time 5s").exits(2);
    assert!(refused.stderr.contains("leave one of them out"), "{}", refused.stderr);
}
