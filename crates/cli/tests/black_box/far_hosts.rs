//! The far host between two network namespaces, joined by a cable: one port, both families, packets of other sizes, a cut.

use serde_json::Value;

use crate::bench::{Bench, Ran, possible};
use crate::far::{LONG, LONG_CALLS, STREAM};
use crate::far_ways::{DATAGRAMS, check_datagrams};
use crate::raw::Raw;

/// Hosts are network namespaces of a user of our own. `$FAR` runs a command on the one that is joined to this one by a cable.
const TWO_HOSTS: &str = r#"
set -e
ids=
trap 'kill $ids 2>/dev/null || true' EXIT
# Makes a host: $host is a process there.
host() {
  unshare -n sleep 300 & host=$!
  ids="$ids $host"
  while [ "$(readlink /proc/$host/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
  nsenter -t $host -n ip link set lo up
}
# Joins two hosts by a cable: ONE ITS-LINK OTHER ITS-LINK NETWORK
cable() {
  nsenter -t $1 -n ip link add $2 type veth peer name $4 netns $3
  plug $1 $2 $5 1
  plug $3 $4 $5 2
}
plug() {
  nsenter -t $1 -n sh -c "ip addr add 10.9.$3.$4/24 dev $2; ip -6 addr add fd09:$3::$4/64 dev $2 nodad; ip link set $2 up"
}
# Starts an agent: NAME HOST LISTEN FLAGS…
agent() {
  name=$1; on=$2; at=$3; shift 3
  nsenter -t $on -n $BYTEGAUGE agent --listen $at --key-file key "$@" > $name.out 2> $name.err & ids="$ids $!"
  until grep -q listening $name.out; do sleep 0.01; done
}
ip link set lo up
host; far=$host
FAR="nsenter -t $far -n"
cable $$ near0 $far far0 0
$BYTEGAUGE agent --init --key-file key
agent agent $far 10.9.0.2:4711
"#;

/// Runs a script between two hosts. `None` where such namespaces are not allowed.
fn between_two_hosts(bench: &Bench, script: &str) -> Option<Ran> {
    let tried = "ip link add near0 type veth peer name far0 && unshare -n true && nsenter -t $$ -n true";
    if !possible("two hosts are network namespaces", "unshare", &["-Urn", "sh", "-c", tried]) {
        return None;
    }
    let inner = bench.write("two-hosts.sh", &format!("{TWO_HOSTS}\n{script}"));
    Some(bench.shell(&format!("unshare -Urn sh {inner}")).exits(0))
}

#[test]
fn hosts_measure_over_one_port_and_ipv6() {
    let bench = Bench::new();
    let script = format!(
        "$BYTEGAUGE {STREAM} --host 10.9.0.2:4711 --key-file key --direction to,from,both --flows 2 > one.json\n\
         agent six $far '[fd09:0::2]:4713'\n\
         $BYTEGAUGE {STREAM} --host '[fd09:0::2]:4713' --key-file key > three.json\n\
         $BYTEGAUGE call --profile echo --flows 2 --server-engine epoll --trial-time 400ms --blocks 2 --analyses 1 \
         --rate 1k --long-trials off --time 8s --quiet --format json --host 10.9.0.2:4711 --key-file key > two.json"
    );
    let Some(_ran) = between_two_hosts(&bench, &script) else { return };
    for file in ["one.json", "two.json", "three.json"] {
        let text = std::fs::read_to_string(bench.path(file)).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        // The null engine, the harness's floor, moves what a busy machine lets it.
        for cell in document["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] != "floor") {
            assert_eq!(cell["outcome"], "measured", "{text}");
        }
    }
}

#[test]
fn agent_uses_one_port() {
    let bench = Bench::new();
    // State 0A: it listens; the port of the agent, 4711, is 1267 in hexadecimal.
    let script = format!(
        "$BYTEGAUGE {LONG_CALLS} 10.9.0.2:4711 > long.jsonl 2> long.err & session=$!\n\
         until [ \"$(grep -c 0200090A:1267 listening 2> /dev/null)\" = 2 ] && [ \"$(grep -c '\"trial\"' long.jsonl)\" -ge 9 ]; do\n\
           $FAR grep ' 0A ' /proc/net/tcp | tee -a all > listening\n\
         done\n\
         kill -INT $session\n\
         wait $session || true"
    );
    let Some(ran) = between_two_hosts(&bench, &script) else { return };
    let all = std::fs::read_to_string(bench.path("all")).unwrap();
    let others: Vec<&str> = all.lines().filter(|row| !row.contains(":1267 ")).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(Raw::of(&bench, 1).troubles(), Vec::<String>::new(), "{ran}");
}

#[test]
fn datagrams_use_the_port_of_the_agent() {
    let bench = Bench::new();
    let script = format!(
        "$BYTEGAUGE {DATAGRAMS} --flows 3 --host 10.9.0.2:4711 --key-file key > to.json 2> to.err & session=$!\n\
         while kill -0 $session 2> /dev/null; do\n\
           $FAR grep -v local_address /proc/net/udp >> bound || true\n\
           sleep 0.01\n\
         done\n\
         wait $session\n\
         $BYTEGAUGE {DATAGRAMS} --flows 3 --direction from --host 10.9.0.2:4711 --key-file key > from.json\n\
         agent six $far '[fd09:0::2]:4713'\n\
         $BYTEGAUGE {} --host '[fd09:0::2]:4713' --key-file key > six.json",
        DATAGRAMS.replace("udp", "udp6"),
    );
    let Some(ran) = between_two_hosts(&bench, &script) else { return };
    for file in ["to.json", "from.json", "six.json"] {
        let text = std::fs::read_to_string(bench.path(file)).unwrap();
        check_datagrams(&serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {ran}")));
    }
    // Port 4711 is 1267 in hexadecimal; of the door and three flows four are bound to it for a moment.
    let bound = std::fs::read_to_string(bench.path("bound")).unwrap();
    // A socket at 127.0.0.1 asks the kernel what it can do, and no other host reaches it.
    let known = [" 0200090A:1267 ", " 0100007F:"];
    let others: Vec<&str> = bound.lines().filter(|row| !known.iter().any(|known| row.contains(known))).collect();
    assert!(others.is_empty() && !bound.is_empty(), "{others:?}");
}

/// Makes a third host with a cable to this one and one to the other host, and starts agents at both: that of the other one,
/// whose relays may connect to the third, at another port than the one whose relays may not.
const THIRD_HOST: &str = r#"
host; third=$host
cable $$ near1 $third third0 1
cable $far far1 $third third1 2
$FAR ip route add 10.9.1.2/32 via 10.9.2.2
agent there $third 10.9.1.2:4711
agent free $far 10.9.0.2:4712 --relay-to 10.9.1.2:4711
"#;

/// Relayed here means that its bytes crossed the cable to the relay's host, and from there another one.
#[test]
fn relay_and_server_are_on_different_hosts() {
    let bench = Bench::new();
    let calls = "call --profile echo --flows 2 --server-engine epoll --trial-time 400ms --blocks 2 --analyses 1 --long-trials off \
                 --rate 1k --time 8s --quiet --format json";
    let script = format!(
        "{THIRD_HOST}\n\
         $BYTEGAUGE {STREAM} --relay hybrid,epoll --relay-host 10.9.0.2:4711 --key-file key > home.json\n\
         $BYTEGAUGE {STREAM} --relay hybrid,epoll --relay-host 10.9.0.2:4712 --host 10.9.1.2:4711 --key-file key > third.json\n\
         $BYTEGAUGE {calls} --relay hybrid,epoll --relay-host 10.9.0.2:4712 --host 10.9.1.2:4711 --key-file key > calls.json\n\
         $FAR cat /proc/net/dev > dev\n\
         $BYTEGAUGE {STREAM} --relay epoll --relay-host 10.9.0.2:4711 --host 10.9.1.2:4711 --key-file key --store no.db > no.json || true\n\
         $BYTEGAUGE report export 1 --store no.db > no.jsonl"
    );
    let Some(ran) = between_two_hosts(&bench, &script) else { return };
    for (file, hosts) in [("home.json", 1), ("third.json", 2), ("calls.json", 2)] {
        let text = std::fs::read_to_string(bench.path(file)).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {ran}"));
        for cell in document["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] != "floor") {
            assert_eq!(cell["outcome"], "measured", "{file}: {text}");
        }
        let raw = Raw::of(&bench, document["session"].as_i64().unwrap());
        assert_eq!(raw.session["machine"]["far_hosts"].as_object().unwrap().len(), hosts, "{file}");
        assert!(raw.trials.iter().any(|trial| !trial["ends"]["relay"]["relay"].is_null()), "{file}");
    }
    // The other host passed bytes to the third one, whose agent only it can reach.
    let dev = std::fs::read_to_string(bench.path("dev")).unwrap();
    let row = dev.lines().find_map(|row| row.trim().strip_prefix("far1:")).unwrap();
    let sent: u64 = row.split_whitespace().nth(8).unwrap().parse().unwrap();
    assert!(sent > 1 << 20, "{dev}");
    // An agent without permission of its owner connects only to its caller.
    let refused = std::fs::read_to_string(bench.path("no.jsonl")).unwrap();
    assert!(refused.contains("--relay-to 10.9.1.2:4711"), "{refused} {ran}");
}

#[test]
fn hosts_with_different_mtus_measure() {
    let bench = Bench::new();
    // Neither side learns what the other one's link takes but from the segment sizes in the handshake.
    let script = format!(
        "ip link set near0 mtu 1280\n\
         $BYTEGAUGE {STREAM} --host 10.9.0.2:4711 --key-file key --direction to,from > small.json\n\
         ip link set near0 mtu 9000\n\
         $FAR ip link set far0 mtu 1300\n\
         $BYTEGAUGE {STREAM} --host 10.9.0.2:4711 --key-file key --direction to,from > large.json"
    );
    let Some(ran) = between_two_hosts(&bench, &script) else { return };
    for file in ["small.json", "large.json"] {
        let text = std::fs::read_to_string(bench.path(file)).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let cells = document["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] != "floor");
        let outcomes: Vec<&Value> = cells.map(|cell| &cell["outcome"]).collect();
        assert!(outcomes.iter().all(|outcome| *outcome == "measured"), "{outcomes:?} {ran}");
    }
}

#[test]
fn cut_cable_ends_both_sides_and_keeps_trials() {
    let bench = Bench::new();
    let long = LONG.replace("--json-stream", "--json-stream --host-wait 1s");
    let script = format!(
        "$BYTEGAUGE {long} 10.9.0.2:4711 > long.jsonl 2> long.err & session=$!\n\
         until [ \"$(grep -c '\"event\":\"trial\"' long.jsonl)\" -ge 3 ]; do sleep 0.02; done\n\
         ip link set near0 down\n\
         code=0; wait $session || code=$?\n\
         echo $code > code\n\
         ip link set near0 up\n\
         {}",
        again("--host 10.9.0.2:4711 --key-file key")
    );
    let Some(ran) = between_two_hosts(&bench, &script) else { return };
    kept_and_free(&bench, &ran);
    assert_eq!(std::fs::read_to_string(bench.path("code")).unwrap(), "6\n", "the host was lost: {ran}");
    // A peer that is silent has not hung up.
    let reported = std::fs::read_to_string(bench.path("agent.err")).unwrap();
    assert!(reported.lines().next().is_some_and(|row| row.contains("measures")), "{reported}");
    let left = reported.lines().find(|row| row.contains("left after")).unwrap();
    assert!(left.contains("(the connection broke"), "{left}");
}

/// A script's part: measures once more, as soon as the agents are free.
fn again(words: &str) -> String {
    format!(
        "until $BYTEGAUGE {STREAM} {words} > again.json 2> again.err; do\n\
           grep -q 'busy until\\|no agent answers' again.err || exit 1\n\
           sleep 0.1\n\
         done\n"
    )
}

/// The trials before the cut are kept, and one more is measured after it.
fn kept_and_free(bench: &Bench, ran: &impl std::fmt::Display) -> Raw {
    let raw = Raw::of(bench, 1);
    let measured = raw.trials.iter().filter(|trial| trial["outcome"]["kind"] == "measured").count();
    assert!(measured >= 3, "{ran}");
    let again: Value = serde_json::from_str(&std::fs::read_to_string(bench.path("again.json")).unwrap()).unwrap();
    assert_eq!(again["cells"][0]["outcome"], "measured", "{ran}");
    raw
}

/// Cuts the cable of the relay and its control connection, of the reader's control connection only, and of the relay's
/// output: in each case the session ends by itself with the reason and frees both agents.
#[test]
fn cut_cable_with_relay_frees_both_agents() {
    let relayed = "--relay epoll --relay-host 10.9.0.2:4712 --key-file key --host 10.9.1.2:4711";
    let long = LONG.trim_end_matches(" --key-file key --host").replace("--json-stream", "--json-stream --host-wait 1s");
    for (cut, host) in [("near0", "$$"), ("near1", "$$"), ("far1", "$far")] {
        let bench = Bench::new();
        let script = format!(
            "{THIRD_HOST}\n\
             $BYTEGAUGE {long} {relayed} > long.jsonl 2> long.err & session=$!\n\
             until [ \"$(grep -c '\"event\":\"trial\"' long.jsonl)\" -ge 3 ]; do sleep 0.02; done\n\
             nsenter -t {host} -n ip link set {cut} down\n\
             code=0; wait $session || code=$?\n\
             echo $code > code\n\
             nsenter -t {host} -n ip link set {cut} up\n\
             $FAR ip route replace 10.9.1.2/32 via 10.9.2.2\n\
             {}",
            again(relayed)
        );
        let Some(ran) = between_two_hosts(&bench, &script) else { return };
        let raw = kept_and_free(&bench, &ran);
        let code = std::fs::read_to_string(bench.path("code")).unwrap();
        if cut == "far1" {
            // Both agents answer: it is the cell that fails, and nothing is left to measure.
            let why = "connecting from the relay to the end behind it";
            assert!(raw.troubles().iter().any(|trouble| trouble.contains(why)), "{:?} {ran}", raw.troubles());
            assert_eq!(code, "5\n", "{ran}");
        } else {
            let message = std::fs::read_to_string(bench.path("long.err")).unwrap();
            assert!(message.contains("did not come back within"), "{message}");
            assert_eq!(code, "6\n", "{cut}: {ran}");
        }
    }
}
