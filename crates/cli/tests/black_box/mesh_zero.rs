//! A hostile rank 0: no rank runs a program for it, reaches another service, or ends by an error of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bytegauge_mesh::files;
use bytegauge_mesh::message::{TO_RANK_0_MAX, VERSION};
use bytegauge_mesh::{MeshSettings, SlotPlace, ToRank, ToRankZero};
use bytegauge_model::Outcome;
use bytegauge_wire::{Key, OpeningStep, Receiver, Responder, Sender};
use serde_json::{Value, json};

use crate::bench::{Bench, Ran, Running, unused_address};
use crate::mesh::{SHORT, bench};

/// Rank 1 of two, its connection to the test, which is its rank 0, and settings that it accepts.
struct Captive {
    bench: Bench,
    rank: Running,
    sender: Sender,
    receiver: Receiver,
    settings: MeshSettings,
}

fn until() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// The line of a caller, once it has proved that it has the key.
fn proven(mut stream: TcpStream, key: &Key) -> (Sender, Receiver) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut responder = Responder::new(key, VERSION);
    loop {
        let mut bytes = vec![0; responder.wants()];
        stream.read_exact(&mut bytes).unwrap();
        match responder.take(&bytes).unwrap() {
            OpeningStep::Wants => {}
            OpeningStep::Answer(answer) => stream.write_all(&answer).unwrap(),
            OpeningStep::Proven(proven) => {
                stream.set_read_timeout(None).unwrap();
                return proven.line(stream).unwrap();
            }
        }
    }
}

impl Captive {
    fn start() -> Captive {
        let bench = bench();
        let words = |rank: u32, out: &str| format!("mesh --rank {rank} --size 2 --key-file key --out {out} {SHORT}");
        // A real mesh gives the settings.
        let one = bench.start(&words(1, "real"));
        bench.run(&words(0, "real")).exits(0);
        one.wait().exits(0);
        let settings = files::read(&bench.path("real")).unwrap().settings;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let rank = bench.start(&format!("{} --coordinator {address}", words(1, "out")));
        let (stream, _) = listener.accept().unwrap();
        let key = Key::read(&bench.path("key")).unwrap();
        let (sender, mut receiver) = proven(stream, &key);
        let hello: ToRankZero = receiver.receive(TO_RANK_0_MAX, Some(until())).unwrap();
        assert!(matches!(&hello, ToRankZero::Hello(hello) if hello.rank == 1), "{hello:?}");
        Captive { bench, rank, sender, receiver, settings }
    }

    /// Sends settings with changed JSON.
    fn welcome(&mut self, change: impl Fn(&mut Value)) {
        let mut settings = serde_json::to_value(&self.settings).unwrap();
        change(&mut settings);
        self.sender.send(&json!({"welcome": {"settings": settings, "unix_ns": 0}})).unwrap();
    }

    /// Starts a test with an agent at an address: how it ends.
    fn test(&mut self, agent: Option<SocketAddr>) -> Outcome {
        let place = SlotPlace { replicate: 0, round: 0, slot: 0, hub: 0, client: 1, clients: 1 };
        self.sender.send(&ToRank::Start { place, agent }).unwrap();
        loop {
            match self.receiver.receive(TO_RANK_0_MAX, Some(until())).unwrap() {
                ToRankZero::Report { outcome, .. } => return outcome,
                ToRankZero::Leave(reason) => panic!("it leaves: {reason}"),
                _ => {}
            }
        }
    }

    /// The rank must end by itself.
    fn ends(self) -> Ran {
        let Captive { bench: _bench, rank, sender, receiver, .. } = self;
        let ran = rank.wait();
        drop((sender, receiver));
        assert!(!ran.stderr.contains("panicked"), "{ran}");
        ran
    }
}

#[test]
fn settings_without_bounds_are_refused() {
    let check = |change: fn(&mut Value), text: &str| {
        let mut captive = Captive::start();
        captive.welcome(change);
        captive.ends().exits(5).complains(&["rank 0", text]);
    };
    check(|settings| settings["ranks"] = json!(u32::MAX), "4294967295 ranks");
    check(|settings| settings["margin"] = json!(7), "a margin of 7");
    check(|settings| settings["cells"][0]["option"] = json!(9), "option 9");
    check(|settings| settings["cells"][0]["cell"] = json!("all"), "rank 0");
}

#[test]
fn tests_reach_no_program_and_no_other_service() {
    let mut captive = Captive::start();
    let touched = captive.bench.path("touched");
    let third = TcpListener::bind("127.0.0.1:0").unwrap();
    third.set_nonblocking(true).unwrap();
    let place = third.local_addr().unwrap().to_string();
    captive.welcome(|settings| {
        let cells = settings["cells"].as_array().unwrap().clone();
        let with = |name: &str, level: &str| {
            let mut cell = cells[0].clone();
            cell["cell"]["factors"][name] = json!(level);
            cell
        };
        settings["cells"] = json!([
            with("relay", &format!("cmd:touch {} {{listen}} {{upstream}}", touched.display())),
            with("relay", &format!("addr:{place}=127.0.0.1:1")),
            with("connect", &place),
            with("transport", "/etc/passwd"),
            with("transport", "unix"),
        ]);
    });
    // Nothing listens there: a visit ends before its first trial.
    let (_unused, refuses) = unused_address();
    let refuses = refuses.parse().unwrap();
    for agent in [Some(SocketAddr::from(([127, 0, 0, 1], 22))), Some(refuses), None] {
        let end = captive.test(agent);
        assert!(matches!(end, Outcome::Failed(_)), "{agent:?}: {end:?}");
    }
    // At the agent of another rank, each cell is refused on its own.
    let other = captive.bench.start("agent --listen 127.0.0.1:0 --key-file key");
    let mut other = other;
    let agent = other.place().parse().unwrap();
    let end = captive.test(Some(agent));
    let rows = fs::read_to_string(captive.bench.path("out/rank-00001.jsonl.part")).unwrap();
    assert!(matches!(end, Outcome::Failed(_) | Outcome::Skipped(_)), "{rows}");
    assert!(!touched.exists() && third.accept().is_err());
    captive.sender.send(&ToRank::Finish).unwrap();
    let file = captive.bench.path("out/rank-00001.jsonl");
    let Captive { bench: _bench, rank, .. } = captive;
    rank.wait().exits(0);
    assert!(fs::read_to_string(file).unwrap().lines().count() > 4);
}

#[test]
fn tests_of_other_ranks_are_refused() {
    for (hub, client) in [(1, 0), (1, 1), (7, 1), (0, u32::MAX)] {
        let mut captive = Captive::start();
        captive.welcome(|_| {});
        let place = SlotPlace { replicate: 0, round: 0, slot: 0, hub, client, clients: 1 };
        captive.sender.send(&ToRank::Start { place, agent: None }).unwrap();
        captive.ends().exits(5).complains(&["none of this rank"]);
    }
}

#[test]
fn results_outlast_a_rank_zero_that_hangs_up() {
    let mut captive = Captive::start();
    captive.welcome(|_| {});
    captive.test(None);
    captive.sender.hang_up();
    let part = captive.bench.path("out/rank-00001.jsonl.part");
    let Captive { bench: _bench, rank, .. } = captive;
    rank.wait().exits(5).complains(&["rank 0 is lost", "--resume"]);
    assert!(part.exists());
}
