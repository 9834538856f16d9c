//! The far host: an agent and its client over loopback, with the faults between them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytegauge_agent::AgentLink;
use bytegauge_model::{EndRole, Ends, Side};
use bytegauge_traffic::path::{FarPath, Ticket};
use bytegauge_traffic::{EndPool, RemoteHost, engine};
use bytegauge_wire::Key;
use serde_json::{Value, json};

use crate::bench::{BINARY, Bench, Ran, Running, possible, signal};
use crate::far_ways::DATAGRAMS;
use crate::raw::{Raw, number};
use crate::running_relays::free_address;

/// A stream of one cell in about a second. At a limited rate: most tests need only some bytes, and at full speed they would take
/// both CPUs from other tests.
pub const STREAM: &str = "stream --connection-age fresh --profile drain --read-size 64K --write-size 64K --trial-time 100ms --blocks 2 \
                      --rate 50M --analyses 1 --long-trials off --time 3s --seed 1 --quiet --format json";

/// The same as fast as it goes.
fn full_speed() -> String {
    STREAM.replace("--rate 50M ", "")
}

/// The same without an end. The address of an agent follows.
pub const LONG: &str = "stream --connection-age fresh --profile drain --read-size 64K --write-size 64K --trial-time 100ms --blocks 3000 \
                    --rate 50M --analyses 1 --long-trials off --seed 1 --json-stream --key-file key --host";

/// Calls without an end, served by every engine in turn: each accepts on the agent's port.
pub const LONG_CALLS: &str = "call --profile echo --flows 2 --server-engine epoll,blocking,tokio --trial-time 100ms --blocks 3000 \
                          --rate 1k --analyses 1 --long-trials off --seed 1 --json-stream --key-file key --host";

/// Calls through a relay, which go on as well: it has the agent's port for the whole of each trial.
const LONG_RELAYED: &str = "call --profile echo --flows 2 --server-engine epoll --relay hybrid,epoll --trial-time 100ms --blocks 3000 \
                          --rate 1k --analyses 1 --long-trials off --seed 1 --json-stream --key-file key --relay-host";

/// With an end at the agent, and with a relay.
const LONG_ONES: [&str; 2] = [LONG, LONG_RELAYED];

/// A longer wait means that the test hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A bench with a key, and an agent that has it.
pub fn agent(bench: &Bench, flags: &str) -> (Running, String) {
    agent_at(bench, "127.0.0.1:0", flags)
}

/// The same at a place.
fn agent_at(bench: &Bench, place: &str, flags: &str) -> (Running, String) {
    if !bench.path("key").exists() {
        bench.run("agent --init --key-file key").exits(0);
    }
    let mut agent = bench.start(&format!("agent --listen {place} --key-file key {flags}"));
    let place = agent.place();
    (agent, place)
}

/// Checks of the unit file alone: whether a service manager can read it, and its sandbox.
#[test]
fn agent_service_is_valid_and_sandboxed() {
    let bench = Bench::new();
    let unit = include_str!("../../../../packaging/bytegauge-agent.service");
    // The checker needs the program of the unit.
    let unit = bench.write("bytegauge-agent.service", &unit.replace("/usr/bin/bytegauge", BINARY));
    let tool = "systemd-analyze";
    if !possible("systemd is here", tool, &["security", "--offline=true", "--threshold=100", &unit]) {
        return;
    }
    bench.shell(&format!("{tool} verify {unit} && {tool} security --offline=true --threshold=25 {unit}")).exits(0);
}

pub fn stopped(agent: Running) -> Ran {
    agent.signal("TERM");
    agent.wait().exits(0)
}

pub fn trials(running: &Running) -> usize {
    trials_in(&running.stdout())
}

pub fn trials_in(stdout: &str) -> usize {
    stdout.lines().filter(|line| line.contains("\"event\":\"trial\"")).count()
}

/// Starts a long session, as soon as the agent has a place for it, and waits until some of it is measured.
pub fn under_way(bench: &Bench, words: &str, place: &str) -> Running {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut session = bench.start(&format!("{words} {place}"));
        if session.comes_to("trials", |session| trials(session) >= 3) {
            return session;
        }
        // An agent on a busy machine notices a lost client a moment later.
        let ran = session.wait();
        assert!(ran.stderr.contains("busy until") && Instant::now() < deadline, "{ran}");
    }
}

/// Measures as soon as the agent has a place for it.
pub fn measured_once_free(bench: &Bench, place: &str) -> Ran {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ran = bench.run(&format!("{STREAM} --host {place} --key-file key"));
        // Or it has too many pending connections and closes this one.
        let comes_too_early =
            ["busy until", "no bytegauge agent", "the connection broke"].iter().any(|text| ran.stderr.contains(text));
        if ran.status.success() || !comes_too_early {
            return ran.exits(0);
        }
        assert!(Instant::now() < deadline, "{ran}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The number of ends that the agent runs.
pub fn ends_of(bench: &Bench) -> usize {
    bench.ends().len()
}

/// Waits until no end runs any more.
pub fn until_no_end(bench: &Bench) {
    let deadline = Instant::now() + PATIENCE;
    while ends_of(bench) > 0 {
        assert!(Instant::now() < deadline, "an end is left behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
pub fn check_cells(ran: &Ran, place: &str, role: [&str; 2], bench: &Bench) {
    let document = ran.json();
    // Next to the null engine, which stays on this host.
    let cells: Vec<&Value> =
        document["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] != "floor").collect();
    assert!(!cells.is_empty());
    for cell in &cells {
        assert_eq!((&cell["outcome"], &cell["factors"]["host"]), (&"measured".into(), &place.into()), "{ran}");
    }
    let raw = Raw::of(bench, document["session"].as_i64().unwrap());
    let far = &raw.session["machine"]["far_hosts"][place];
    assert_eq!(far["machine"]["boot_id"], raw.session["machine"]["boot_id"], "the agent is on this machine");
    // One that was too short for a call was measured once more.
    let measured = |trial: &&Value| trial["cell"] == "c1" && trial["outcome"]["kind"] == "measured";
    assert!(raw.trials.iter().any(|trial| measured(&trial)));
    for trial in raw.trials.iter().filter(measured) {
        for role in role {
            assert!(number(&trial["ends"][role]["window_ns"]) > 0, "{role}: {trial}");
            assert!(number(&trial["ends"][role]["cpu_ns"]) > 0, "{role}: {trial}");
        }
    }
}

#[test]
fn streams_cross_hosts_in_both_directions() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    for flags in ["--verify", "--direction from --flows 3 --rcvbuf 64K", "--engine epoll --flows 3", "--ends processes"]
    {
        let ran = bench.run(&format!("{} --host {place} --key-file key {flags}", full_speed())).exits(0);
        check_cells(&ran, &place, ["source", "sink"], &bench);
    }
    assert_eq!(ends_of(&bench), 0);
    // Where both ends are on one host, it is not asked.
    let both = bench.run(&format!("{STREAM} --transport tcp")).exits(0);
    assert_eq!(both.json()["cells"][0]["factors"]["host"], Value::Null);
    stopped(agent).complains(&["measures (bytegauge", "trials with"]);
}

#[test]
fn calls_cross_hosts_in_both_directions() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let call = "call --work none --trial-time 100ms --blocks 2 --analyses 1 --long-trials off --time 3s --seed 1 --quiet \
                --format json";
    for flags in [
        "--flows 4 --server-engine epoll",
        "--flows 4 --server-engine blocking --direction from --verify",
        "--flows 2 --server-engine epoll --connect-per-call",
        "--flows 2 --server-engine tokio --response 4K --depth 2 --idle-flows 3",
    ] {
        let ran = bench.run(&format!("{call} --host {place} --key-file key {flags}")).exits(0);
        check_cells(&ran, &place, ["client", "server"], &bench);
    }
    stopped(agent);
}

#[test]
fn busy_agent_reports_when_it_is_free() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    // For streams the agent gives up its port for a moment of each trial; for calls the end or the relay has it, and passes
    // connections on.
    for words in [LONG, LONG_CALLS, LONG_RELAYED] {
        let first = under_way(&bench, words, &place);
        let others: Vec<Running> =
            (0..6).map(|_| bench.start(&format!("{STREAM} --host {place} --key-file key"))).collect();
        for other in others {
            other.wait().exits(5).complains(&[
                "the agent is busy until",
                "with a session of 127.0.0.1",
                "--max-sessions",
            ]);
        }
        let ran = first.insist("INT").exits(130);
        let raw = Raw::of(&bench, ran.json_lines()[0]["session"].as_i64().unwrap());
        assert_eq!(raw.troubles(), Vec::<String>::new());
        measured_once_free(&bench, &place);
    }
    check_cells(&measured_once_free(&bench, &place), &place, ["source", "sink"], &bench);
    stopped(agent);
}

#[test]
fn agent_can_serve_several_clients() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "--max-sessions 3");
    let first = under_way(&bench, LONG, &place);
    let others: Vec<Running> =
        (0..2).map(|at| bench.start(&format!("{STREAM} --host {place} --key-file key --store other{at}.db"))).collect();
    for other in others {
        other.wait().exits(0);
    }
    first.insist("INT").exits(130);
    stopped(agent);
}

/// Runs a command that may not make rings, as in most containers: `io_uring_setup` is system call 425 everywhere, and is answered
/// with EPERM (seccomp(2)).
const WITHOUT_RINGS: &str = r#"
import ctypes, os, struct, sys
code = b"".join(struct.pack("HBBI", *one) for one in [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)])
held = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(held))
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn missing_features_of_a_host_are_skipped() {
    let uring = "uring:plain".parse().unwrap();
    let tried = ["-c", WITHOUT_RINGS, "/bin/true"];
    if engine::missing_requirement(uring).is_some() || !possible("system calls can be forbidden", "python3", &tried) {
        return;
    }
    let bench = Bench::new();
    bench.run("agent --init --key-file key").exits(0);
    let words = "agent --listen 127.0.0.1:0 --key-file key";
    let mut command = Command::new("python3");
    command.args(["-c", WITHOUT_RINGS, BINARY]).args(words.split(' '));
    let mut agent = bench.spawn(command, words.into());
    let place = agent.place();
    let calls = "call --profile echo --trial-time 100ms --blocks 1 --analyses 1 --long-trials off --time 6s --seed 1 --quiet --format json \
                 --server-engine epoll,uring:plain";
    let datagrams = DATAGRAMS.replace("plain,mmsg,gso", "plain,uring:plain");
    for words in [calls, &format!("{STREAM} --engine epoll,uring:plain"), &datagrams] {
        let ran = bench.run(&format!("{words} --host {place} --key-file key")).exits(0);
        let raw = Raw::of(&bench, ran.json()["session"].as_i64().unwrap());
        let skipped = |trial: &&Value| trial["outcome"]["kind"] == "skipped";
        let of_ring: Vec<&Value> = raw.trials.iter().filter(skipped).collect();
        assert!(!of_ring.is_empty(), "{ran}");
        for trial in of_ring {
            let reason = trial["outcome"]["reason"].as_str().unwrap();
            assert!(reason.starts_with(&format!("at {place}: ")) && reason.contains("io_uring"), "{reason}");
            assert_eq!(trial["ends"], json!({}), "{trial}");
        }
    }
    let reported = stopped(agent).stderr;
    assert!(!reported.contains("was refused"), "{reported}");
}

#[test]
fn an_agent_of_another_version_is_named() {
    let bench = Bench::new();
    bench.run("agent --init --key-file key").exits(0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let other = std::thread::spawn(move || {
        let mut caller = listener.accept().unwrap().0;
        caller.write_all(b"bgfar\0\xff\xfe").unwrap();
        // Until it has left.
        let _ = caller.read_to_end(&mut Vec::new());
    });
    let ran = bench.run(&format!("{STREAM} --host {place} --key-file key"));
    ran.exits(5).complains(&["version 65534", "this one 4", "one version of bytegauge on both hosts"]);
    other.join().unwrap();
}

/// An agent at a port that no other socket gets automatically, so that it can be started again there.
pub fn restartable(bench: &Bench) -> (Running, String) {
    agent_at(bench, &free_address().to_string(), "")
}

/// Starts the agent again where it was, as soon as no end of the former one has its port.
fn restarted(bench: &Bench, place: &str) -> Running {
    until_no_end(bench);
    let (agent, at) = agent_at(bench, place, "");
    assert_eq!(at, place);
    agent
}

/// No trial of a session failed.
fn check_no_trouble(bench: &Bench, ran: &Ran) {
    let session = ran.json_lines()[0]["session"].as_i64().unwrap();
    assert_eq!(Raw::of(bench, session).troubles(), Vec::<String>::new(), "{ran}");
}

#[test]
fn restart_of_an_agent_is_survived() {
    let bench = Bench::new();
    for words in LONG_ONES {
        let (agent, place) = restartable(&bench);
        let mut session = under_way(&bench, words, &place);
        agent.kill();
        session.until("a note of the loss", |session| session.stdout().contains("was lost"));
        let (agent, before) = (restarted(&bench, &place), trials(&session));
        session.until("more trials", |session| trials(session) >= before + 6);
        let ran = session.insist("INT").exits(130);
        assert!(ran.stdout.contains("is back after"), "{ran}");
        check_no_trouble(&bench, &ran);
        stopped(agent);
        until_no_end(&bench);
    }
}

#[test]
fn lost_host_interrupts_the_session() {
    let bench = Bench::new();
    for words in LONG_ONES {
        let (agent, place) = restartable(&bench);
        let session = under_way(&bench, &words.replace("--json-stream", "--json-stream --host-wait 200ms"), &place);
        let reported = trials(&session);
        agent.kill();
        let ran = session.wait().exits(6).complains(&[&place, "did not come back within 200 ms", "--resume"]);
        check_no_trouble(&bench, &ran);
        let lines = ran.json_lines();
        let (id, report) = (lines[0]["session"].as_i64().unwrap(), &lines.last().unwrap()["report"]);
        assert_eq!(report["status"], "incomplete");
        let raw = Raw::of(&bench, id);
        let measured = raw.trials.len();
        assert!(measured >= reported, "{measured} of {reported}");
        bench.run(&format!("report {id} --full")).prints(&["did not come back"]);
        // It goes on where it was.
        let agent = restarted(&bench, &place);
        let workload = words.split(' ').next().unwrap();
        let mut session = bench.start(&format!("{workload} --resume {id} --json-stream --key-file key"));
        session.until("more trials", |session| trials(session) >= 6);
        let ran = session.insist("INT").exits(130);
        check_no_trouble(&bench, &ran);
        assert!(Raw::of(&bench, id).trials.len() >= measured + 6);
        stopped(agent);
        until_no_end(&bench);
    }
}

#[test]
fn far_ends_report_their_resources() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let key = Key::read(&bench.path("key")).unwrap();
    let link: Arc<dyn RemoteHost> = Arc::new(AgentLink::open(place.parse().unwrap(), &key, 0).unwrap());
    assert_eq!(link.used_ns(), Some(0));
    let mut cast = EndPool::new(Ends::Processes, Path::new(BINARY)).with_links(vec![Arc::clone(&link)]);
    let far = FarPath::to(link.agent(), Side::Sink, Ticket::default());
    cast.joined(Some(far), None, 0).unwrap();
    cast.end(EndRole::Sink).unwrap();
    let used_ns = link.used_ns().unwrap();
    assert!(used_ns > 0);
    // A client that left has used it as well.
    drop(cast);
    assert!(link.used_ns() >= Some(used_ns));
    drop(link);
    stopped(agent);
}

#[test]
fn killed_client_frees_the_agent() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    for words in LONG_ONES {
        under_way(&bench, words, &place).kill();
        check_cells(&measured_once_free(&bench, &place), &place, ["source", "sink"], &bench);
        until_no_end(&bench);
    }
    stopped(agent);
}

#[test]
fn killed_far_end_fails_only_its_trial() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    for words in LONG_ONES {
        let mut session = under_way(&bench, words, &place);
        // Between two blocks there is none for a moment.
        let deadline = Instant::now() + PATIENCE;
        while !bench.ends().first().is_some_and(|id| signal(*id, "KILL")) {
            assert!(Instant::now() < deadline, "no end runs");
            std::thread::sleep(Duration::from_millis(5));
        }
        let so_far = trials(&session);
        session.until("more trials", |session| trials(session) >= so_far + 4);
        session.insist("INT").exits(130);
    }
    stopped(agent);
}

#[test]
fn options_beyond_the_caps_name_the_flag() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "--max-flows 2 --max-memory 64M --max-duration 5m");
    let run = |flags: &str| bench.run(&format!("{STREAM} --host {place} --key-file key {flags}"));
    // One of two cells is let in.
    let ran = run("--flows 1,3").exits(0);
    let reasons: Vec<String> = Raw::of(&bench, ran.json()["session"].as_i64().unwrap()).reasons();
    assert!(reasons.iter().any(|reason| reason.contains("--max-flows")), "{reasons:?}");
    let long = "stream --profile drain --read-size 64K --write-size 64K --trial-time 6m --blocks 3 --quiet";
    let ran = bench.run(&format!("{long} --host {place} --key-file key"));
    ran.exits(5).complains(&["--max-duration", "--time"]);
    stopped(agent);
    for (stream, cap, flags) in [
        (full_speed().as_str(), "--max-rate 20M", "--rate 10M,max"),
        (STREAM, "--max-bytes 1K", ""),
        (DATAGRAMS, "--max-rate 20M", "--rate 10M,max"),
        (DATAGRAMS, "--max-bytes 1K", "--direction from"),
        (DATAGRAMS, "--max-memory 8M", "--batch 512"),
    ] {
        let bench = Bench::new();
        let (agent, place) = self::agent(&bench, cap);
        // The remaining cells are not listed: the first trial already exceeds the allowed bytes.
        bench.run(&format!("{stream} --host {place} --key-file key {flags}"));
        let reasons = Raw::of(&bench, 1).reasons();
        let flag = cap.split(' ').next().unwrap();
        assert!(reasons.iter().any(|reason| reason.contains(flag)), "{cap}: {reasons:?}");
        stopped(agent);
    }
}

#[test]
fn wrong_usage_names_the_missing_part() {
    let bench = Bench::new();
    let check = |words: &str, texts: &[&str]| drop(bench.run(words).exits(2).complains(texts));
    check("agent", &["--init", "--listen"]);
    check("agent --listen 127.0.0.1:0", &["--key-file"]);
    check("agent --listen 127.0.0.1:0 --key-file none", &["none", "agent --init"]);
    check(&format!("{STREAM} --host 127.0.0.1:1"), &["--key-file"]);
    check(&format!("{STREAM} --host 127.0.0.1:1 --key-file none"), &["agent --init"]);
    bench.run("agent --init --key-file key").exits(0);
    check("agent --init --key-file key", &["never overwritten"]);
    check("agent --listen 127.0.0.1:0 --key-file key --max-sessions 0", &["--max-sessions"]);
    check(&format!("{STREAM} --transport tcp --key-file key"), &["--host"]);
    check(&format!("{STREAM} --transport tcp --direction from"), &["--host"]);
    check("call --transport udp --direction both", &["--direction both has no effect without", "TCP or UDP"]);
    let absent = bench.run(&format!("{STREAM} --host 127.0.0.1:1 --key-file key")).exits(5);
    absent.complains(&["no agent answers at 127.0.0.1:1", "agent --listen"]);
    // A dry run contacts no host.
    bench.run(&format!("{STREAM} --host 127.0.0.1:1 --key-file key --dry-run")).exits(0);
}
