//! The line over loopback: accepted messages, and every way in which data must be refused.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::opening::{FIRST_FRAME_MAX, MAGIC, OpeningStep, Responder, may_open};
use crate::opening::{MESSAGE_MAX, PART_MAX};

const VERSION: u16 = 7;

/// Small enough to test lengths around it, and beyond one frame.
const MAX: usize = 2 * PART_MAX + 100;

fn key() -> Key {
    let folder = tempfile::tempdir().unwrap();
    Key::create(&folder.path().join("key")).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (caller, listener.accept().unwrap().0)
}

type Ends = Result<(Sender, Receiver), LineError>;

/// The message by which a caller proves that it is alive.
const PROOF: &str = "alive";

/// Takes a line from a caller. `read`: its first bytes that were read already.
fn accept(stream: TcpStream, mut read: &[u8], key: &Key, version: u16, deadline: Instant) -> Ends {
    let mut responder = Responder::new(key, version);
    loop {
        let mut bytes = vec![0; responder.wants()];
        let had = read.read(&mut bytes)?;
        read_until(&stream, &mut bytes[had..], Some(deadline))?;
        match responder.take(&bytes) {
            Ok(OpeningStep::Wants) => {}
            Ok(OpeningStep::Answer(answer)) => write_by(&stream, &answer, deadline)?,
            Ok(OpeningStep::Proven(proven)) => {
                let (sender, mut receiver) = proven.line(stream)?;
                assert_eq!(receiver.receive::<String>(MAX, Some(deadline))?, PROOF);
                return Ok((sender, receiver));
            }
            Err(refusal) => {
                if let Some(answer) = refusal.answer {
                    write_by(&stream, &answer, deadline)?;
                    part(&stream);
                }
                return Err(refusal.error);
            }
        }
    }
}

/// Makes a line, and proves that it is alive.
fn call(stream: TcpStream, key: &Key, version: u16) -> Ends {
    let (mut sender, receiver) = connect(stream, key, version, soon())?;
    sender.send(&PROOF)?;
    Ok((sender, receiver))
}

/// The results of a caller and an agent, each with its key and version.
fn met((caller, agent): (TcpStream, TcpStream), ours: &(Key, u16), theirs: (Key, u16)) -> (Ends, Ends) {
    let agent = thread::spawn(move || accept(agent, &[], &theirs.0, theirs.1, soon()));
    let caller = call(caller, &ours.0, ours.1);
    (caller, agent.join().unwrap())
}

fn line() -> ((Sender, Receiver), (Sender, Receiver)) {
    let key = key();
    let (caller, agent) = met(pair(), &(key.clone(), VERSION), (key, VERSION));
    (caller.unwrap(), agent.unwrap())
}

#[test]
fn messages_around_the_caps_pass_both_ways() {
    let ((mut to_agent, mut at_home), (mut to_home, mut at_agent)) = line();
    // A JSON string is two bytes longer than its text.
    let lengths =
        (0..40).chain(PART_MAX - 6..PART_MAX + 6).chain(2 * PART_MAX - 6..2 * PART_MAX + 2).chain(MAX - 6..=MAX - 2);
    for length in lengths {
        let text = "x".repeat(length);
        let sent = text.clone();
        let sending = thread::spawn(move || {
            to_agent.send(&sent).unwrap();
            to_agent
        });
        assert!(at_agent.receive::<String>(MAX, Some(soon())).unwrap() == text, "{length}");
        to_agent = sending.join().unwrap();
        if length < 40 {
            to_home.send(&text).unwrap();
            assert_eq!(at_home.receive::<String>(MAX, None).unwrap(), text);
        }
    }
}

#[test]
fn a_message_beyond_the_cap_ends_the_line() {
    for length in [MAX - 1, MAX, MAX + PART_MAX] {
        let ((mut to_agent, _at_home), (_to_home, mut at_agent)) = line();
        let sending = thread::spawn(move || to_agent.send(&"x".repeat(length)));
        assert!(
            matches!(at_agent.receive::<String>(MAX, Some(soon())), Err(LineError::TooLong { max: MAX })),
            "{length}"
        );
        drop((at_agent, _to_home));
        // Whether the rest found room in the kernel's buffers is undefined.
        let _ = sending.join().unwrap();
    }
    let ((mut to_agent, _at_home), _agent) = line();
    let refused = to_agent.send(&"x".repeat(MESSAGE_MAX));
    assert!(matches!(refused, Err(LineError::TooLong { max: MESSAGE_MAX })), "{refused:?}");
}

#[test]
fn another_key_opens_nothing() {
    let (caller, agent) = met(pair(), &(key(), VERSION), (key(), VERSION));
    assert!(matches!(agent, Err(LineError::OtherKey)), "{agent:?}");
    assert!(matches!(caller, Err(LineError::OtherKey)), "{caller:?}");
}

#[test]
fn another_version_is_named_on_both_sides() {
    let key = key();
    let (caller, agent) = met(pair(), &(key.clone(), 3), (key, 4));
    let texts = [caller.unwrap_err().to_string(), agent.unwrap_err().to_string()];
    assert!(texts[0].contains("version 4") && texts[0].contains("this one 3"), "{texts:?}");
    assert!(texts[1].contains("version 3") && texts[1].contains("this one 4"), "{texts:?}");
}

/// The agent's error for these bytes, and how many bytes it answered.
fn answered(bytes: &[u8]) -> (LineError, usize) {
    let (mut caller, agent) = pair();
    let key = key();
    let agent = thread::spawn(move || accept(agent, &[], &key, VERSION, soon()).unwrap_err());
    let mut answer = Vec::new();
    // The agent may have seen enough before all is written, and reset the unread bytes.
    let _ = caller.write_all(bytes).and_then(|()| caller.shutdown(Shutdown::Write));
    let _ = caller.read_to_end(&mut answer);
    (agent.join().unwrap(), answer.len())
}

#[test]
fn other_protocols_get_no_answer() {
    for bytes in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"SSH-2.0-x\r\n", &[0; 100], &[0xff; 3]] {
        let (error, answered) = answered(bytes);
        assert!(matches!(error, LineError::OtherProtocol | LineError::Broken(_)), "{error}");
        assert_eq!(answered, 0);
    }
}

#[test]
fn cut_handshake_ends_the_line() {
    let mut first = opening(VERSION).to_vec();
    first.extend([0x5a; HANDSHAKE]);
    for cut in 0..first.len() {
        let (error, answered) = answered(&first[..cut]);
        assert!(matches!(error, LineError::Broken(_)), "{cut}: {error}");
        assert_eq!(answered, 0);
    }
    let (error, answered) = answered(&first);
    assert!(matches!(error, LineError::OtherKey), "{error}");
    assert_eq!(answered, OPENING);
}

#[test]
fn bytes_that_were_read_already_count() {
    let key = key();
    for read in [0, 1, OPENING, OPENING + 7, FIRST_WORDS] {
        let (caller, mut agent) = pair();
        let ours = key.clone();
        let theirs = key.clone();
        let caller = thread::spawn(move || call(caller, &ours, VERSION));
        let mut first = vec![0; read];
        agent.read_exact(&mut first).unwrap();
        assert!(may_open(&first));
        let (mut sender, _) = accept(agent, &first, &theirs, VERSION, soon()).unwrap();
        sender.send(&"hello").unwrap();
        let (_, mut receiver) = caller.join().unwrap().unwrap();
        assert_eq!(receiver.receive::<String>(MAX, Some(soon())).unwrap(), "hello");
    }
    assert!(!may_open(b"bgfax") && !may_open(&[MAGIC.as_slice(), &[0; FIRST_WORDS]].concat()));
}

#[test]
fn other_answers_are_no_agent() {
    for answer in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let (caller, mut other) = pair();
        other.write_all(answer).unwrap();
        let closing = thread::spawn(move || part(&other));
        let error = connect(caller, &key(), VERSION, soon()).unwrap_err();
        assert!(matches!(error, LineError::OtherProtocol), "{error}");
        closing.join().unwrap();
    }
}

/// The messages that an agent receives if "one" and "two" were sent and their frames changed on the way.
fn tampered(edit: impl FnOnce(Vec<Vec<u8>>) -> Vec<u8> + Send + 'static) -> (Vec<String>, LineError) {
    let (caller, mut near) = pair();
    let (mut far, agent) = pair();
    let (mut near_in, mut far_in) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let back = thread::spawn(move || {
        // Opening and handshake are all that an agent sends here.
        let mut bytes = [0; OPENING + HANDSHAKE];
        far_in.read_exact(&mut bytes).unwrap();
        near.write_all(&bytes).unwrap();
    });
    let forth = thread::spawn(move || {
        let mut first = [0; OPENING + HANDSHAKE];
        near_in.read_exact(&mut first).unwrap();
        far.write_all(&first).unwrap();
        // The proof passes unchanged.
        let mut len = [0; HEADER];
        near_in.read_exact(&mut len).unwrap();
        let mut proof = vec![0; usize::from(u16::from_be_bytes(len))];
        near_in.read_exact(&mut proof).unwrap();
        far.write_all(&[&len[..], &proof].concat()).unwrap();
        let mut rest = Vec::new();
        near_in.read_to_end(&mut rest).unwrap();
        let mut frames = Vec::new();
        while rest.len() >= 2 {
            let len = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
            let left = rest.split_off(2 + len);
            frames.push(std::mem::replace(&mut rest, left));
        }
        // An agent that has seen enough takes no more.
        let _ = far.write_all(&edit(frames));
        let _ = far.shutdown(Shutdown::Write);
    });
    let key = key();
    let (ours, theirs) = met((caller, agent), &(key.clone(), VERSION), (key, VERSION));
    let ((mut sender, _receiver), (_to_home, mut receiver)) = (ours.unwrap(), theirs.unwrap());
    sender.send(&"one").unwrap();
    sender.send(&"two").unwrap();
    sender.stream.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    let error = loop {
        match receiver.receive(MAX, Some(soon())) {
            Ok(text) => heard.push(text),
            Err(error) => break error,
        }
    };
    drop((receiver, _to_home));
    back.join().unwrap();
    forth.join().unwrap();
    (heard, error)
}

#[test]
fn tampered_frames_end_the_line() {
    let check = |edit: fn(Vec<Vec<u8>>) -> Vec<u8>, heard: &[&str], garbled: bool| {
        let (found, error) = tampered(edit);
        assert_eq!(found, heard, "{error}");
        assert_eq!(matches!(error, LineError::Garbled(_)), garbled, "{error}");
    };
    check(|frames| frames.concat(), &["one", "two"], false);
    check(|frames| [&frames[0], &frames[0], &frames[1]].map(Vec::as_slice).concat(), &["one"], true);
    check(|frames| frames[1].clone(), &[], true);
    check(|frames| [&frames[1], &frames[0]].map(Vec::as_slice).concat(), &[], true);
    check(
        |mut frames| {
            frames[1].pop();
            frames.concat()
        },
        &["one"],
        false,
    );
    check(
        |mut frames| {
            frames[0][10] ^= 1;
            frames.concat()
        },
        &[],
        true,
    );
    check(|frames| [&frames[0][..], &[0, 16], &[7; 16]].concat(), &["one"], true);
    check(|frames| [&frames[0][..], &[0, 0]].concat(), &["one"], true);
}

/// The first bytes of a caller, as recorded on the path.
fn recorded(key: &Key) -> [u8; FIRST_WORDS] {
    let (caller, mut tap) = pair();
    let ours = key.clone();
    let calling = thread::spawn(move || connect(caller, &ours, VERSION, soon()).unwrap_err());
    let mut first = [0; FIRST_WORDS];
    tap.read_exact(&mut first).unwrap();
    drop(tap);
    calling.join().unwrap();
    first
}

/// Steps a responder through bytes, at most `chunk` at a time: its answer, and whether the caller is proven.
fn stepped(key: &Key, bytes: &[u8], chunk: usize) -> (Option<[u8; FIRST_WORDS]>, Result<bool, LineError>) {
    let (mut responder, mut rest, mut answered) = (Responder::new(key, VERSION), bytes, None);
    while !rest.is_empty() {
        let (part, left) = rest.split_at(rest.len().min(chunk).min(responder.wants()));
        rest = left;
        match responder.take(part) {
            Ok(OpeningStep::Wants) => {}
            Ok(OpeningStep::Answer(answer)) => answered = Some(answer),
            Ok(OpeningStep::Proven(_)) => return (answered, Ok(true)),
            Err(refusal) => return (answered, Err(refusal.error)),
        }
    }
    (answered, Ok(false))
}

#[test]
fn replayed_opening_proves_nothing() {
    let key = key();
    let first = recorded(&key);
    for chunk in [1, 7, FIRST_WORDS] {
        let (answer, proven) = stepped(&key, &first, chunk);
        assert!(answer.is_some() && !proven.unwrap(), "{chunk}");
        for frame in [[&[0, 40][..], &[9; 40]].concat(), [&[0, 17][..], &[0; 17]].concat()] {
            let (_, proven) = stepped(&key, &[&first[..], &frame].concat(), chunk);
            assert!(matches!(proven, Err(LineError::Unproven)), "{proven:?}");
        }
    }
}

#[test]
fn replayed_first_frame_proves_nothing() {
    let key = key();
    let (caller, mut agent) = pair();
    let ours = key.clone();
    let calling = thread::spawn(move || call(caller, &ours, VERSION).unwrap());
    let mut responder = Responder::new(&key, VERSION);
    let mut all = Vec::new();
    loop {
        let mut bytes = vec![0; responder.wants()];
        agent.read_exact(&mut bytes).unwrap();
        all.extend_from_slice(&bytes);
        match responder.take(&bytes).unwrap() {
            OpeningStep::Wants => {}
            OpeningStep::Answer(answer) => agent.write_all(&answer).unwrap(),
            OpeningStep::Proven(_) => break,
        }
    }
    drop(calling.join().unwrap());
    // A replay of everything that the caller sent: the agent's key is another one.
    let (_, proven) = stepped(&key, &all, usize::MAX);
    assert!(matches!(proven, Err(LineError::Unproven)), "{proven:?}");
}

#[test]
fn long_first_frame_is_refused_unread() {
    let key = key();
    let first = recorded(&key);
    let header = |len: usize| [&first[..], &(len as u16).to_be_bytes()].concat();
    let (_, refused) = stepped(&key, &header(FIRST_FRAME_MAX + 1), usize::MAX);
    assert!(matches!(refused, Err(LineError::TooLong { .. })), "{refused:?}");
    let (_, waits) = stepped(&key, &header(FIRST_FRAME_MAX), usize::MAX);
    assert!(!waits.unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_other_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (error, _) = answered(&bytes);
        prop_assert!(!matches!(error, LineError::Late), "{}", error);
    }

    #[test]
    fn unsealed_bytes_after_a_handshake_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (heard, error) = tampered(move |_| bytes);
        prop_assert!(heard.is_empty());
        prop_assert!(!matches!(error, LineError::Late), "{}", error);
    }
}

#[test]
fn slow_reader_is_given_up_at_the_deadline() {
    let ((mut to_agent, at_home), (to_home, at_agent)) = line();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // Enough to give the kernel room for some more from time to time.
                let _ = (&at_agent.stream).read(&mut [0; 64]);
                thread::sleep(Duration::from_millis(1));
            }
        });
        // More than the buffers of both sockets hold, and than is read in that time.
        let message = "x".repeat(MESSAGE_MAX - 2);
        let sent = to_agent.send_until(&message, Instant::now() + Duration::from_millis(300));
        over.store(true, Ordering::Relaxed);
        // Either is possible first: a write that was cut short, or the end of the time.
        assert!(matches!(sent, Err(LineError::Late | LineError::Broken(_))), "{sent:?}");
        // The reader is woken.
        to_agent.hang_up();
    });
    drop((at_home, to_home));
}
