//! Arbitrary input from a network: for the fuzzer (`fuzz/`), and for the tests of this folder.
//!
//! An input is a list of lines, each a step of a peer that follows no rule, so that it can be read, and changed at any byte:
//!
//! ```text
//! r BYTES   sends these bytes unchanged
//! w BYTES   seals them as a whole message, after a handshake with the right key
//! m BYTES   seals them as a part of a message, of which more comes
//! k BYTES   seals them unchanged: the first is the frame's kind
//! c         opens another connection
//! x         closes, and waits until the other side has
//! ```
//!
//! `$S` stands for the setup of a trial, `$D` for one of datagrams, `$R` for one with a relay.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytegauge_agent::{Agent, AgentLink, AgentSetup, Limits, VERSION};
use bytegauge_model::{Place, Side, Spec};
use bytegauge_traffic::Setup;
use bytegauge_traffic::path::{FarPath, Ticket};
use bytegauge_wire::Key;
use snow::{Builder, StatelessTransportState};

/// A peer that is silent for this time has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most steps of an input.
const STEPS_MAX: usize = 64;

/// The longest step, bytes: more than an agent accepts.
const STEP_MAX: usize = 80_000;

/// Bytes that a caller sends before an agent answers: eight, and the handshake's 48.
const OPENING: usize = 8;
const HANDSHAKE: usize = 48;

const SECRET: [u8; 32] = [7; 32];

/// An agent survives any input, and serves the next caller.
pub fn agent(input: &[u8]) {
    static AGENT: OnceLock<(SocketAddr, Key)> = OnceLock::new();
    static STOP: AtomicBool = AtomicBool::new(false);
    let (agent, key) = AGENT.get_or_init(|| {
        let key = key_of(&key_text()).expect("a key");
        let limits = Limits { sessions: 60, ..Limits::default() };
        // Ends that are silent and leave, since only the agent is tested.
        let setup =
            AgentSetup { key: key.clone(), limits, program: "/bin/true".into(), machine: || 0.into(), log: |_| {} };
        let agent = Agent::listen(&Place::Ip(([127, 0, 0, 1], 0).into()), setup).expect("an agent");
        let place = agent.place().expect("its place");
        std::thread::spawn(move || agent.serve(&STOP));
        (place, key)
    });
    let mut callers = vec![Rogue::call(*agent)];
    for (kind, bytes) in steps(input) {
        match kind {
            b'c' if callers.len() < 8 => callers.push(Rogue::call(*agent)),
            b'x' => *callers.last_mut().expect("a caller") = Rogue::call(*agent),
            _ => callers.last_mut().expect("a caller").step(kind, &replaced(&bytes)),
        }
    }
    drop(callers);
    AgentLink::open(*agent, key, 0).expect("an agent that hears the next caller");
}

/// The measuring host survives any input from an agent.
pub fn home(input: &[u8]) {
    let key = key_of(&key_text()).expect("a key");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let agent = listener.local_addr().expect("its number");
    let input = input.to_owned();
    let other = std::thread::spawn(move || {
        let Ok((stream, _)) = listener.accept() else { return };
        drop(listener);
        let mut side = Rogue { stream, noise: None, number: 0, answers: false };
        for (kind, bytes) in steps(&input) {
            side.step(kind, &replaced(&bytes));
        }
    });
    drop(AgentLink::open(agent, &key, 0));
    other.join().expect("an agent");
}

/// A key file with any content.
pub fn key(input: &[u8]) {
    if let Some(key) = key_of(input) {
        assert_eq!(format!("{key:?}"), "Key(…)");
    }
}

fn key_of(text: &[u8]) -> Option<Key> {
    let file = tempfile::NamedTempFile::new().ok()?;
    std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o600)).ok()?;
    std::fs::write(file.path(), text).ok()?;
    Key::read(Path::new(file.path())).ok()
}

fn key_text() -> Vec<u8> {
    format!("bytegauge-key-1 {}\n", "07".repeat(SECRET.len())).into_bytes()
}

fn steps(input: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let lines = input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(STEPS_MAX);
    lines.map(|line| (line[0], line[2.min(line.len())..line.len().min(STEP_MAX)].to_vec())).collect()
}

fn replaced(bytes: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    let setups =
        [("$S", "tcp", "blocking", "direct"), ("$D", "udp", "mmsg", "direct"), ("$R", "tcp", "blocking", "epoll")];
    let named = setups.iter().filter(|(name, ..)| text.contains(name));
    let text = named.fold(text.to_owned(), |text, (name, transport, engine, relay)| {
        text.replace(name, &setup(transport, engine, relay))
    });
    text.into_bytes()
}

/// The setup of a trial, as an agent admits it.
fn setup(transport: &str, engine: &str, relay: &str) -> String {
    let levels = [("transport", transport.into()), ("engine", engine.into()), ("relay", relay.into())];
    let levels = levels.into_iter().chain([("read_size", 4096.into()), ("write_size", 4096.into())]).collect::<Spec>();
    let mut setup = Setup::of(&levels).expect("a setup");
    let ticket = Ticket::fresh().expect("random bytes");
    let agent = Some(([127, 0, 0, 1], 1).into());
    setup.far = Some(match setup.relay() {
        Some(_) => FarPath { end: None, relay: agent, ticket },
        None => FarPath { end: agent.map(|agent| (agent, Side::Sink)), relay: None, ticket },
    });
    serde_json::to_string(&setup).expect("its text")
}

/// One side of a line, which may send any bytes.
struct Rogue {
    stream: TcpStream,
    noise: Option<StatelessTransportState>,
    number: u64,
    /// Whether it called.
    answers: bool,
}

impl Rogue {
    fn call(agent: SocketAddr) -> Rogue {
        let stream = TcpStream::connect(agent).expect("an agent that listens");
        Rogue { stream, noise: None, number: 0, answers: true }
    }

    fn step(&mut self, kind: u8, bytes: &[u8]) {
        // The other side may close after an invalid message.
        let _ = match kind {
            b'r' => self.stream.write_all(bytes).ok(),
            b'w' => self.seal(&[&[1], bytes].concat()),
            b'm' => self.seal(&[&[0], bytes].concat()),
            b'k' => self.seal(bytes),
            _ => None,
        };
    }

    fn seal(&mut self, plain: &[u8]) -> Option<()> {
        if self.noise.is_none() {
            self.noise = Some(self.handshake()?);
        }
        let mut frame = vec![0; 2 + 65_535];
        let plain = &plain[..plain.len().min(65_519)];
        let len = self.noise.as_ref()?.write_message(self.number, plain, &mut frame[2..]).ok()?;
        self.number += 1;
        frame[..2].copy_from_slice(&(len as u16).to_be_bytes());
        self.stream.write_all(&frame[..2 + len]).ok()
    }

    fn handshake(&mut self) -> Option<StatelessTransportState> {
        self.stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let opening = [&b"bgfar\0"[..], &VERSION.to_be_bytes()].concat();
        let noise = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s".parse().ok()?;
        let builder = Builder::new(noise).psk(0, &SECRET).ok()?.prologue(&opening).ok()?;
        let (mut theirs, mut message) = ([0; OPENING + HANDSHAKE], [0; HANDSHAKE]);
        let mut noise = if self.answers { builder.build_initiator().ok()? } else { builder.build_responder().ok()? };
        if self.answers {
            noise.write_message(&[], &mut message).ok()?;
            self.stream.write_all(&[&opening[..], &message].concat()).ok()?;
            self.stream.read_exact(&mut theirs).ok()?;
            noise.read_message(&theirs[OPENING..], &mut []).ok()?;
        } else {
            self.stream.read_exact(&mut theirs).ok()?;
            noise.read_message(&theirs[OPENING..], &mut []).ok()?;
            noise.write_message(&[], &mut message).ok()?;
            self.stream.write_all(&[&opening[..], &message].concat()).ok()?;
        }
        noise.into_stateless_transport_mode().ok()
    }
}

/// Ends sending, and reads until the other side closes.
impl Drop for Rogue {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.set_read_timeout(Some(PATIENCE));
        let mut heard = [0; 4096];
        loop {
            match self.stream.read(&mut heard) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    assert!(error.kind() != ErrorKind::WouldBlock, "the other side does not hang up");
                    return;
                }
            }
        }
    }
}
