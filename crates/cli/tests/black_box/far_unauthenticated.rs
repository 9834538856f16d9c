//! The far host: clients of an agent without its key, or with it and against its protocol, over loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_agent::{self as far, AgentLink};
use bytegauge_traffic::RemoteHost;
use bytegauge_wire::{self as wire, Key};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::far::{
    LONG, PATIENCE, STREAM, agent, check_cells, measured_once_free, stopped, trials, under_way, until_no_end,
};
use crate::raw::{Raw, number};

#[test]
fn another_key_measures_and_disturbs_nothing() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    bench.run("agent --init --key-file other").exits(0);
    let mut session = under_way(&bench, LONG, &place);
    let ran = bench.run(&format!("{STREAM} --host {place} --key-file other"));
    ran.exits(5).complains(&["does not have the same key", "--key-file"]);
    // Garbage, halves of an opening, whole ones with noise, and silence, more of it than the agent hears at once.
    let mut silent = Vec::new();
    for round in 0..100u8 {
        let Ok(mut stream) = TcpStream::connect(&place) else { continue };
        // An agent that hears enough of them hangs up.
        let _ = match round % 4 {
            0 => stream.write_all(b"GET / HTTP/1.1\r\n\r\n"),
            1 => stream.write_all(&b"bgfar\0\0\x03"[..usize::from(round) % 8]),
            2 => stream.write_all(&[&b"bgfar\0\0\x03"[..], &[round; 48]].concat()),
            _ => Ok(()),
        };
        silent.push(stream);
    }
    let so_far = trials(&session);
    session.until("more trials", |session| trials(session) >= so_far + 3);
    let ran = session.insist("INT").exits(130);
    let raw = Raw::of(&bench, ran.json_lines()[0]["session"].as_i64().unwrap());
    assert_eq!(raw.troubles(), Vec::<String>::new());
    drop(silent);
    // Those that are gone make room at once, those that were silent within seconds.
    check_cells(&measured_once_free(&bench, &place), &place, ["source", "sink"], &bench);
    stopped(agent).complains(&["was refused: its first bytes are not those of a bytegauge caller"]);
}

#[test]
fn silent_connections_lock_no_caller_out() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    // More than are heard, and they stay.
    let silent: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(&place).unwrap()).collect();
    let ran = bench.run(&format!("{STREAM} --host {place} --key-file key")).exits(0);
    check_cells(&ran, &place, ["source", "sink"], &bench);
    drop(silent);
    stopped(agent);
}

/// The first bytes of a caller, as recorded on the path. They do not depend on the agent.
fn recorded(key: &Key) -> [u8; wire::FIRST_WORDS] {
    let tap = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = tap.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| wire::connect(TcpStream::connect(at).unwrap(), key, far::VERSION, Instant::now() + PATIENCE));
        let mut first = [0; wire::FIRST_WORDS];
        tap.accept().unwrap().0.read_exact(&mut first).unwrap();
        first
    })
}

fn replay(place: &str, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // An agent that has no room for it hangs up.
    let _ = stream.write_all(first);
    stream
}

#[test]
fn replayed_openings_lock_no_caller_out() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let first = recorded(&Key::read(&bench.path("key")).unwrap());
    // They stay, and are more than an agent lets measure at a time.
    let held: Vec<TcpStream> = (0..150).map(|_| replay(&place, &first)).collect();
    let ran = bench.run(&format!("{STREAM} --host {place} --key-file key")).exits(0);
    check_cells(&ran, &place, ["source", "sink"], &bench);
    // Others come all the time.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held: Vec<TcpStream> = Vec::new();
            let until = Instant::now() + PATIENCE;
            while !over.load(Ordering::Relaxed) && Instant::now() < until {
                held.push(replay(&place, &first));
                if held.len() > 300 {
                    held.remove(0);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let ran = bench.run(&format!("{STREAM} --host {place} --key-file key"));
        over.store(true, Ordering::Relaxed);
        check_cells(&ran.exits(0), &place, ["source", "sink"], &bench);
    });
    drop(held);
    stopped(agent);
}

#[test]
fn replayed_openings_do_not_flood_the_log() {
    const REPLAYS: u64 = 400;
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let first = recorded(&Key::read(&bench.path("key")).unwrap());
    for round in 0..REPLAYS {
        let mut stream = replay(&place, &first);
        let mut answer = [0; wire::FIRST_WORDS];
        stream.read_exact(&mut answer).unwrap();
        // Half of them go on with a frame that cannot open.
        if round % 2 == 0 {
            stream.write_all(&[&[0, 40][..], &[9; 40]].concat()).unwrap();
            let _ = stream.read(&mut [0]);
        }
    }
    check_cells(&measured_once_free(&bench, &place), &place, ["source", "sink"], &bench);
    let reported = stopped(agent).stderr;
    let count = |words: &str| reported.lines().filter(|row| row.contains(words)).count() as u64;
    let more = reported
        .lines()
        .filter_map(|row| row.strip_prefix("agent: ")?.split_once(" more caller")?.0.parse::<u64>().ok());
    let in_full = count("was refused");
    assert_eq!(in_full + more.sum::<u64>(), REPLAYS, "{reported}");
    assert!(in_full < REPLAYS / 4 && count("with the key") == 0, "{reported}");
}

#[test]
fn late_first_bytes_get_in_among_silent_connections() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let key = Key::read(&bench.path("key")).unwrap();
    let genuine = TcpStream::connect(&place).unwrap();
    // They come after it, and are more than an agent lets measure at a time.
    let silent: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(&place).unwrap()).collect();
    // The agent has taken all of them in once it has answered the last one.
    let mut last = replay(&place, &recorded(&key));
    last.read_exact(&mut [0; wire::FIRST_WORDS]).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let (mut sender, mut receiver) = wire::connect(genuine, &key, far::VERSION, deadline).unwrap();
    sender.send(&json!({"ask": {"program": "x", "duration_ns": 0}})).unwrap();
    let welcome: Value = receiver.receive(wire::MESSAGE_MAX, Some(deadline)).unwrap();
    assert!(welcome["welcome"].is_object(), "{welcome}");
    drop(silent);
    stopped(agent);
}

#[test]
fn unauthenticated_connections_lock_no_client_out() {
    // More than the agent and the server can hold; each sends nothing, or only the start of a ticket.
    const OUTSIDERS: usize = 200;
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    // Clients come all the time. Each engine serves in its own way.
    let words = "call --profile echo --connect-per-call on --flows 2 --server-engine epoll,blocking,tokio --trial-time 500ms \
                 --blocks 500 --analyses 1 --long-trials off --seed 1 --json-stream --key-file key --host";
    let session = under_way(&bench, words, &place);
    let so_far = trials(&session);
    let mut silent: Vec<TcpStream> = Vec::new();
    let until = Instant::now() + PATIENCE;
    while trials(&session) < so_far + 9 && Instant::now() < until {
        // Others come for those that were sent away, or whose trial has ended.
        silent.retain(|stream| {
            stream.set_nonblocking(true).unwrap();
            matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        });
        // Few at a time: it is their silence that is in the way, and not their number.
        for begin in [&b""[..], &[7; 9]].into_iter().take(OUTSIDERS - silent.len()) {
            let Ok(mut stream) = TcpStream::connect(&place) else { break };
            let _ = stream.write_all(begin);
            silent.push(stream);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(trials(&session) >= so_far + 9);
    let ran = session.insist("INT").exits(130);
    let raw = Raw::of(&bench, ran.json_lines()[0]["session"].as_i64().unwrap());
    assert_eq!(raw.troubles(), Vec::<String>::new());
    let calls: Vec<&Value> = raw.trials.iter().map(|trial| &trial["ends"]["client"]["call"]).collect();
    let failed = calls.iter().flat_map(|call| call["errors"].as_array()).flatten().map(|error| number(&error["count"]));
    // On a busy machine it can include a call whose start was not noticed in time.
    assert!(failed.sum::<u64>() * 10 < calls.iter().map(|call| number(&call["completed"])).sum::<u64>(), "{calls:?}");
    stopped(agent);
}

#[test]
fn refused_connections_do_not_flood_the_log() {
    const OUTSIDERS: u64 = 400;
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    // An agent closes an unauthenticated connection.
    let turned_away = |_| {
        let mut stream = TcpStream::connect(&place).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let _ = stream.read(&mut [0]);
    };
    (0..OUTSIDERS).for_each(turned_away);
    let ran = bench.run(&format!("{STREAM} --host {place} --key-file key")).exits(0);
    check_cells(&ran, &place, ["source", "sink"], &bench);
    let reported = stopped(agent).stderr;
    let rows = |words: &str| reported.lines().filter(|row| row.contains(words)).count() as u64;
    // A client with the key is admitted, whatever the number of others.
    assert_eq!((rows("measures (bytegauge"), rows("trials with")), (1, 1), "{reported}");
    // The first of them in full, and the number of the others: none is lost.
    let in_full = rows("was refused: its first bytes are");
    let more = reported.lines().filter_map(|row| {
        let (count, rest) = row.strip_prefix("agent: ")?.split_once(" more caller")?;
        assert!(rest.contains("without the key") && rest.contains("the last from 127.0.0.1:"), "{row}");
        count.parse::<u64>().ok()
    });
    assert_eq!(in_full + more.sum::<u64>(), OUTSIDERS, "{reported}");
    // Only a limited number a minute is in full: one in four would be too many.
    assert!(in_full > 0 && in_full < OUTSIDERS / 4, "{reported}");
}

#[test]
fn program_name_cannot_write_to_the_terminal() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let key = Key::read(&bench.path("key")).unwrap();
    let program = format!("9\u{1b}[2J\nagent: 192.0.2.1 left{}", "x".repeat(800));
    let welcomed = answers(&place, &key, &[json!({"ask": {"program": program, "duration_ns": 0}})]);
    assert_eq!(welcomed.len(), 1);
    let reported = stopped(agent).stderr;
    let row = reported.lines().find(|row| row.contains("measures (bytegauge 9")).unwrap();
    assert!(row.len() < 200 && !reported.contains('\u{1b}') && !reported.contains("agent: 192.0.2.1"), "{reported}");
}

/// An agent's replies to a client with its key and against its protocol, until the last reply.
fn answers(place: &str, key: &Key, messages: &[Value]) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    let stream = TcpStream::connect(place).unwrap();
    let (mut sender, mut receiver) = wire::connect(stream, key, far::VERSION, deadline).unwrap();
    for message in messages {
        // An agent that has heard enough hangs up.
        let _ = sender.send(message);
    }
    sender.end();
    std::iter::from_fn(|| receiver.receive(wire::MESSAGE_MAX, Some(deadline)).ok()).collect()
}

#[test]
fn nonsense_with_the_key_ends_the_session() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "--max-sessions 20");
    let key = Key::read(&bench.path("key")).unwrap();
    let ask = || json!({"ask": {"program": "x", "duration_ns": 0}});
    let answers = |words: &[Value]| answers(&place, &key, words);
    // No first word at all, or none that asks.
    for first in [json!(7), json!({"start": 1}), json!("used"), json!({"ask": "x".repeat(60_000)})] {
        assert_eq!(answers(&[first]), Vec::<Value>::new());
    }
    // Early commands, and ends that were never started.
    for word in [
        ask(),
        json!({"tell": [3, "go"]}),
        json!({"tell": [0, {"open": ["sink", {}, null]}]}),
        json!({"end": u64::MAX}),
        json!("no such word"),
    ] {
        let answers = answers(&[ask(), word]);
        assert!(answers.len() == 1 && answers[0]["welcome"].is_object(), "{answers:?}");
    }
    // A question has one answer.
    let used = answers(&[ask(), json!("used"), json!("used")]);
    assert!(used.len() == 3 && used[1..].iter().all(|used| *used == json!({"used": 0})), "{used:?}");
    check_cells(&measured_once_free(&bench, &place), &place, ["source", "sink"], &bench);
    until_no_end(&bench);
    stopped(agent);
}

#[test]
fn tests_that_the_security_document_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/research/security.md")).unwrap();
    let is_name = |word: &&str| word.contains('_') && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let named: Vec<&str> = document.split('`').skip(1).step_by(2).filter(is_name).collect();
    assert!(named.len() > 30, "{named:?}");
    let (mut folders, mut tests) = (vec![root.join("crates")], String::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension() {
                None if entry.is_dir() => folders.push(entry),
                Some(rust) if rust == "rs" => tests.push_str(&std::fs::read_to_string(entry).unwrap()),
                _ => {}
            }
        }
    }
    let missing: Vec<&&str> = named.iter().filter(|name| !tests.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The most memory that a process ever had, bytes (proc_pid_status(5), `VmHWM`).
fn most_memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let row = status.lines().find_map(|row| row.strip_prefix("VmHWM:")).unwrap();
    row.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn agent_memory_stays_bounded() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "--max-sessions 20");
    let key = Key::read(&bench.path("key")).unwrap();
    let first_word = |len: usize| {
        let stream = TcpStream::connect(&place).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let (mut sender, _receiver) = wire::connect(stream, &key, far::VERSION, deadline).unwrap();
        // An agent that has heard enough hangs up.
        let _ = sender.send(&"x".repeat(len));
    };
    // Around the cap of 64 KiB, and around that of a frame.
    (65_500..65_560).step_by(7).chain((131_050..131_080).step_by(7)).for_each(first_word);
    // The longest that there is, and others so long that all of them, at the same time, are twice what is asked below.
    std::thread::scope(|scope| {
        scope.spawn(|| first_word(wire::MESSAGE_MAX - 2));
        (0..24).for_each(|_| drop(scope.spawn(|| first_word(wire::MESSAGE_MAX / 4))));
    });
    // Callers that send a byte now and then, more than the agent admits at a time.
    let mut slow: Vec<TcpStream> = (0..150).filter_map(|_| TcpStream::connect(&place).ok()).collect();
    for byte in b"bgfar\0\0\x03xxxx" {
        slow.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(slow);
    check_cells(&measured_once_free(&bench, &place), &place, ["source", "sink"], &bench);
    let most = most_memory(agent.id());
    // It may never be made to hold more than 64 callers with the longest command each: 4 MiB, and their stacks.
    assert!(most < 56 << 20, "{most}");
    stopped(agent);
}

#[test]
fn fifty_callers_at_once_are_all_answered() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "--max-sessions 2");
    let key = Key::read(&bench.path("key")).unwrap();
    let at: std::net::SocketAddr = place.parse().unwrap();
    let answers: Vec<String> = std::thread::scope(|scope| {
        let caller = || match AgentLink::open(at, &key, 0) {
            Ok(link) => link.used_ns().map_or("silent".into(), |_| "measures".into()),
            Err(error) => error.to_string(),
        };
        let callers: Vec<_> = (0..50).map(|_| scope.spawn(caller)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let reported = |text: &str| answers.iter().filter(|answer| answer.contains(text)).count();
    assert!(reported("measures") >= 2, "{answers:?}");
    assert_eq!(reported("measures") + reported("busy until"), 50, "{answers:?}");
    check_cells(&measured_once_free(&bench, &place), &place, ["source", "sink"], &bench);
    stopped(agent);
}
