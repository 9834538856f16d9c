//! The messages between this host and an agent.
//!
//! Also the detection of a peer that disappears silently.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytegauge_model::escape;
use bytegauge_model::relay::RELAY_METHODS;
use bytegauge_sys::option;
use bytegauge_sys::tcp_info::tcp_info;
use bytegauge_traffic::address::Address;
use bytegauge_traffic::message::{Command, Reply};
use bytegauge_traffic::{EndError, RemoteFacts};
use bytegauge_wire::{LineError, MESSAGE_MAX, Sender};
use serde::{Deserialize, Serialize};
use socket2::{SockRef, TcpKeepalive};

/// The version of these messages and of the line. An agent of another version is not used.
pub const VERSION: u16 = 4;

/// Longest message that an agent accepts, bytes: a command with every CPU of a large machine.
pub(super) const COMMAND_MAX: usize = 64 << 10;

/// Longest first answer of an agent, bytes. It holds the facts of its machine, which every session stores: 2 KiB on a machine
/// with 2 CPUs, and a fifth of this on one with 1024.
pub(super) const WELCOME_MAX: usize = 1 << 20;

/// Longest later message of an agent, bytes; a longer report fails its trial.
pub(super) const REPLY_MAX: usize = MESSAGE_MAX;

/// Most commands of a trial after the one that opens it. A trial has three.
pub(super) const COMMANDS_MAX: usize = 8;

/// Most unread replies of an end. A trial has five.
pub(super) const REPLIES_MAX: usize = 16;

/// Longest reason or name accepted from the other side, bytes. Longer ones are cut.
pub(super) const TEXT_MAX: usize = 2 << 10;

/// Longest program version accepted from the other side, characters, all visible ASCII.
pub(super) const PROGRAM_MAX: usize = 40;

/// A text of the other side, cut to [`TEXT_MAX`].
fn cut(text: String) -> String {
    escape::cut(text, TEXT_MAX)
}

/// The other side's program version, made safe for a log.
pub(super) fn program(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(PROGRAM_MAX).collect()
}

/// Messages to an agent. Ends are numbered, so that replies of one that was given up are ignored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToAgent {
    /// The first message: asks for a session.
    Ask(Ask),
    /// Starts an end; an older one leaves.
    Start(u64),
    /// Sends a command to an end.
    Tell(u64, Box<Command>),
    /// Lets an end leave.
    End(u64),
    /// Asks for the CPU time of the session's ends.
    Used,
}

/// A request for a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ask {
    /// The version of the program.
    pub(super) program: String,
    /// Its expected length, nanoseconds.
    pub(super) duration_ns: u64,
}

/// Messages from an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToHome {
    /// The session begins; the agent describes itself.
    Welcome(Box<RemoteFacts>),
    /// The session is refused or over. The line ends.
    Refused(String),
    /// A reply of an end.
    Heard(u64, Box<Reply>),
    /// An end is gone, with the reason.
    Gone(u64, String),
    /// CPU time that the session's ends have used so far, nanoseconds.
    Used(u64),
}

/// The facts within the caps.
fn facts_within_caps(mut facts: RemoteFacts) -> RemoteFacts {
    facts.program = program(&facts.program);
    facts.missing_relays.retain(|method, _| RELAY_METHODS.iter().any(|row| row.name == method));
    facts.missing_relays.values_mut().for_each(|why| *why = cut(std::mem::take(why)));
    facts
}

impl ToHome {
    /// The same within the caps.
    /// # Errors
    /// [`LineError::Garbled`] if an end listens at another address than an IP address: this host's ends would connect to a
    /// Unix socket of this host.
    pub(super) fn within_caps(self) -> Result<ToHome, LineError> {
        Ok(match self {
            ToHome::Welcome(facts) => ToHome::Welcome(Box::new(facts_within_caps(*facts))),
            ToHome::Refused(reason) => ToHome::Refused(cut(reason)),
            ToHome::Gone(end, how) => ToHome::Gone(end, cut(how)),
            ToHome::Heard(end, reply) => ToHome::Heard(
                end,
                Box::new(match *reply {
                    Reply::Listening(Address::Ip(at)) => Reply::Listening(Address::Ip(at)),
                    Reply::Listening(_) => {
                        return Err(LineError::Garbled("an end that does not listen at an IP address"));
                    }
                    Reply::Skipped(reason) => Reply::Skipped(cut(reason)),
                    Reply::Failed(reason, report) => Reply::Failed(cut(reason), report),
                    other => other,
                }),
            ),
            ToHome::Used(ns) => ToHome::Used(ns),
        })
    }
}

/// Longest time for the last messages of a session whose time is up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Sends a message by `until`, or a moment later. A line on which one cannot be sent is ended, which wakes the thread that receives; of
/// one that is too long nothing was sent.
///
/// # Errors
/// As [`Sender::send`].
pub(super) fn send(sender: &mut Sender, word: &impl Serialize, until: Option<Instant>) -> Result<(), LineError> {
    before_sending(sender);
    let sent = match until {
        Some(until) => sender.send_until(word, until.max(Instant::now() + LAST_WORDS)),
        None => sender.send(word),
    };
    if !matches!(sent, Ok(()) | Err(LineError::TooLong { .. })) {
        sender.hang_up();
    }
    sent
}

// Detects a peer that disappears silently, by the kernel alone, so that no timer runs during a trial.
//
// Two timers of the kernel share the work (tcp(7)). While nothing is in flight, keepalive probes the peer. While data is in
// flight, keepalive pauses, and `TCP_USER_TIMEOUT` counts from the first retransmission: data sent to a peer that died a
// moment ago would restart that time. [`before_sending`] therefore subtracts the time since the peer was last heard from.

/// How long a peer may be silent before it counts as gone, ms.
const SILENT_MS: u64 = 5_000;

/// Least time that data may stay unacknowledged, ms: enough to retransmit a lost segment.
const UNDER_WAY_MIN_MS: u64 = 1_000;

/// Enables detection of a dead host or network: after 2 s of silence the kernel probes every second, and gives up after
/// [`SILENT_MS`].
pub(super) fn watch(stream: &TcpStream) -> Result<(), EndError> {
    let socket = SockRef::from(stream);
    let second = Duration::from_secs(1);
    let probes = TcpKeepalive::new().with_time(2 * second).with_interval(second).with_retries(3);
    let patience = Some(Duration::from_millis(SILENT_MS));
    let watched = socket.set_tcp_keepalive(&probes).and_then(|()| socket.set_tcp_user_timeout(patience));
    watched.map_err(EndError::io("watching for a silent peer"))
}

/// Limits how long the next data may stay unacknowledged.
fn before_sending(line: &impl AsFd) {
    let silent_ms = silence(line).as_millis().min(u128::from(SILENT_MS)) as u64;
    let left_ms = (SILENT_MS - silent_ms).max(UNDER_WAY_MIN_MS);
    // If it fails, a dead peer is detected later.
    let _ = option::set(line.as_fd(), &option::USER_TIMEOUT.to(left_ms));
}

fn silence(line: &impl AsFd) -> Duration {
    let last_ack_ms = tcp_info(line.as_fd()).ok().and_then(|info| info.last_ack_ms);
    Duration::from_millis(last_ack_ms.unwrap_or(0).into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn received(word: Value) -> Result<ToHome, LineError> {
        serde_json::from_value::<ToHome>(word).unwrap().within_caps()
    }

    #[test]
    fn texts_of_an_agent_are_cut() {
        let long = "é".repeat(TEXT_MAX);
        for word in [
            json!({"refused": long}),
            json!({"gone": [1, long]}),
            json!({"heard": [1, {"skipped": long}]}),
            json!({"heard": [1, {"failed": [long, bytegauge_model::EndReport::default()]}]}),
        ] {
            let text = match received(word).unwrap() {
                ToHome::Refused(text) | ToHome::Gone(_, text) => text,
                ToHome::Heard(_, reply) => match *reply {
                    Reply::Skipped(text) | Reply::Failed(text, _) => text,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            assert_eq!(text, "é".repeat(TEXT_MAX / 2));
        }
    }

    #[test]
    fn welcome_keeps_known_methods_and_a_short_program() {
        let missing = json!({"splice": "x".repeat(2 * TEXT_MAX), "no such method": "y"});
        let welcome = json!({"program": "1\u{1b}[2J".repeat(99), "machine": {}, "missing_relays": missing});
        let Ok(ToHome::Welcome(welcome)) = received(json!({"welcome": welcome})) else { panic!() };
        assert_eq!(welcome.program.len(), PROGRAM_MAX);
        assert!(!welcome.program.contains('\u{1b}'));
        let kept: Vec<(&String, usize)> = welcome.missing_relays.iter().map(|(name, why)| (name, why.len())).collect();
        assert_eq!(kept, [(&"splice".to_owned(), TEXT_MAX)]);
    }

    #[test]
    fn ends_of_an_agent_listen_at_ip_addresses() {
        let listening = |at: Value| received(json!({"heard": [1, {"listening": at}]}));
        assert!(listening(json!({"ip": "192.0.2.1:4711"})).is_ok());
        for at in
            [json!({"path": "/run/x"}), json!({"abstract": "x"}), json!({"ports": ["192.0.2.1:1"]}), json!("alone")]
        {
            assert!(matches!(listening(at.clone()), Err(LineError::Garbled(_))), "{at}");
        }
    }
}

#[cfg(test)]
mod silent_peer_tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use bytegauge_sys::option::Value;
    use bytegauge_wire::{FIRST_WORDS, Key, OpeningStep, Responder, connect};

    use super::*;

    fn timeout_ms(stream: &TcpStream) -> u64 {
        match option::read(stream.as_fd(), option::USER_TIMEOUT) {
            Ok(Value::Number(ms)) => ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn silence_counts_against_data_under_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _peer = listener.accept().unwrap();
        watch(&stream).unwrap();
        assert_eq!(timeout_ms(&stream), SILENT_MS);
        // No message is sent meanwhile. The kernel counts in ticks of at most 10 ms.
        std::thread::sleep(Duration::from_millis(300));
        before_sending(&stream);
        let left_ms = timeout_ms(&stream);
        assert!((UNDER_WAY_MIN_MS..=SILENT_MS - 290).contains(&left_ms), "{left_ms}");
    }

    #[test]
    fn blocked_peer_ends_with_its_session() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::create(&folder.path().join("key")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let soon = Instant::now() + Duration::from_secs(60);
        let ours = key.clone();
        let calling = std::thread::spawn(move || connect(TcpStream::connect(at).unwrap(), &ours, 1, soon).unwrap());
        let (mut stream, mut responder) = (listener.accept().unwrap().0, Responder::new(&key, 1));
        let mut first = [0; FIRST_WORDS];
        stream.read_exact(&mut first).unwrap();
        responder.take(&first[..responder.wants()]).unwrap();
        let Ok(OpeningStep::Answer(answer)) = responder.take(&first[first.len() - responder.wants()..]) else {
            panic!()
        };
        stream.write_all(&answer).unwrap();
        let (mut sender, _receiver) = calling.join().unwrap();
        // More than both socket buffers hold.
        let sent = send(&mut sender, &"x".repeat(MESSAGE_MAX / 2), Some(Instant::now()));
        // The deadline ends it, before the line counts as stuck.
        assert!(matches!(sent, Err(LineError::Late)), "{sent:?}");
    }
}
