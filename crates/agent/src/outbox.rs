//! The messages that one side of a session sends, kept until the other side has received them: a broken line loses nothing.
//!
//! Messages are numbered, and each acknowledges the last one received. Over a new line, unacknowledged messages are sent
//! again; duplicates are ignored.
//!
//! Also the detection of a peer that disappears silently.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytegauge_sys::option;
use bytegauge_sys::tcp_info::tcp_info;
use bytegauge_traffic::EndError;
use bytegauge_wire::{LineError, Sender};
use serde::Serialize;
use socket2::{SockRef, TcpKeepalive};

use crate::protocol::NumberedMessage;

/// Most messages kept: a session with more unacknowledged messages is given up. A trial has fewer than ten.
pub(super) const KEPT_MAX: usize = 16;

/// Longest time for the last messages of a session whose time is up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One side's messages.
#[derive(Debug)]
pub(super) struct OutgoingPost<T> {
    /// The line, while it is up.
    sender: Option<Sender>,
    /// The number of the last message sent.
    last_sent: u64,
    kept: VecDeque<(u64, T)>,
    /// The last number received from the other side.
    heard: u64,
    /// When the other side was last heard from on the line that broke last.
    last_heard: Instant,
    /// When the session's time is up, if limited.
    until: Option<Instant>,
}

impl<T: Serialize> OutgoingPost<T> {
    /// The state of a line before its first message.
    pub(super) fn new(sender: Sender) -> OutgoingPost<T> {
        OutgoingPost { sender: Some(sender), ..OutgoingPost::without_line() }
    }

    /// The state of a session whose line is broken.
    pub(super) fn without_line() -> OutgoingPost<T> {
        OutgoingPost {
            sender: None,
            last_sent: 0,
            kept: VecDeque::new(),
            heard: 0,
            last_heard: Instant::now(),
            until: None,
        }
    }

    /// The same of a session that ends at `until`: the other side receives its messages by then, or a moment later, or the
    /// line is given up.
    #[must_use]
    pub(super) fn until(self, until: Instant) -> OutgoingPost<T> {
        OutgoingPost { until: Some(until), ..self }
    }

    /// The numbers of kept messages.
    #[cfg(any(test, fuzzing))]
    pub(super) fn kept(&self) -> Vec<u64> {
        self.kept.iter().map(|(number, _)| *number).collect()
    }

    /// Sends a message, now or when there is a line again. `instead` replaces a message that is too long, given the cap.
    ///
    /// # Errors
    /// If too many messages are unacknowledged.
    pub(super) fn send(&mut self, word: T, instead: impl FnOnce(usize) -> T) -> Result<(), LineError> {
        if self.kept.len() >= KEPT_MAX {
            self.break_off();
            return Err(LineError::Late);
        }
        self.last_sent += 1;
        let number = self.last_sent;
        let word = match self.transmit(number, &word) {
            Err(LineError::TooLong { max }) => {
                let shorter = instead(max);
                let _ = self.transmit(number, &shorter);
                shorter
            }
            _ => word,
        };
        self.kept.push_back((number, word));
        Ok(())
    }

    /// Handles a received message and the acknowledgement in it. Returns whether the message is new.
    ///
    /// # Errors
    /// If a message is missing, or one was acknowledged that was never sent: the peer breaks the protocol.
    pub(super) fn hear(&mut self, number: u64, heard: u64) -> Result<bool, LineError> {
        if number > self.heard + 1 || heard > self.last_sent {
            return Err(LineError::Garbled("messages out of sequence"));
        }
        self.kept.retain(|(kept, _)| *kept > heard);
        let is_new = number > self.heard;
        self.heard = self.heard.max(number);
        Ok(is_new)
    }

    /// The last number received.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// Whether the line is up, as far as this side knows.
    pub(super) fn is_up(&self) -> bool {
        self.sender.is_some()
    }

    /// The line broke, or is being replaced: new messages are kept. A thread that waits to receive is woken.
    pub(super) fn break_off(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.last_heard = last_heard(&sender);
            sender.hang_up();
        }
    }

    /// How long the session of a broken line is kept.
    pub(super) fn kept_until(&self) -> Instant {
        kept_until(self.last_heard)
    }

    /// A new line is up, on which the other side acknowledged `heard`: sends the rest.
    pub(super) fn take_up(&mut self, sender: Sender, heard: u64) {
        self.break_off();
        self.sender = Some(sender);
        self.kept.retain(|(kept, _)| *kept > heard);
        let kept = std::mem::take(&mut self.kept);
        for (number, word) in &kept {
            let _ = self.transmit(*number, word);
        }
        self.kept = kept;
    }

    /// Ends sending on the line, if it is up; receiving continues.
    pub(super) fn end(&self) {
        self.sender.iter().for_each(Sender::end);
    }

    /// The line, if it is up.
    pub(super) fn line(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    /// Sends a message if the line is up. One that could not be sent breaks it off, and is sent again over the next line; of one that
    /// is too long nothing was sent.
    fn transmit(&mut self, number: u64, word: &T) -> Result<(), LineError> {
        let Some(sender) = self.sender.as_mut() else { return Ok(()) };
        before_sending(sender);
        let word = NumberedMessage(number, self.heard, word);
        let sent = match self.until {
            Some(until) => sender.send_until(&word, until.max(Instant::now() + LAST_WORDS)),
            None => sender.send(&word),
        };
        if !matches!(sent, Ok(()) | Err(LineError::TooLong { .. })) {
            self.break_off();
        }
        sent
    }
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

/// How long a session is kept after its line broke.
const KEPT: Duration = Duration::from_millis(4_500);

/// How long a session is kept after its peer was last heard from. Both sides promise to be free within 10 s.
const KEPT_AFTER_SILENCE: Duration = Duration::from_millis(9_500);

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
pub(super) fn before_sending(line: &impl AsFd) {
    let silent_ms = silence(line).as_millis().min(u128::from(SILENT_MS)) as u64;
    let left_ms = (SILENT_MS - silent_ms).max(UNDER_WAY_MIN_MS);
    // If it fails, a dead peer is detected later.
    let _ = option::set(line.as_fd(), &option::USER_TIMEOUT.to(left_ms));
}

/// When the peer of a line was last heard from; now, if the kernel does not report it.
pub(super) fn last_heard(line: &impl AsFd) -> Instant {
    let now = Instant::now();
    now.checked_sub(silence(line)).unwrap_or(now)
}

/// How long to keep a session whose line breaks now, given when its peer was last heard from.
pub(super) fn kept_until(last_heard: Instant) -> Instant {
    (Instant::now() + KEPT).min(last_heard + KEPT_AFTER_SILENCE)
}

fn silence(line: &impl AsFd) -> Duration {
    let last_ack_ms = tcp_info(line.as_fd()).ok().and_then(|info| info.last_ack_ms);
    Duration::from_millis(last_ack_ms.unwrap_or(0).into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use bytegauge_wire::{Key, OpeningStep, Receiver, Responder, connect};

    use super::*;

    const MAX: usize = 1 << 16;

    /// A line over loopback: the caller's sending half, and the other side.
    fn line() -> (Sender, Receiver, Sender) {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::create(&folder.path().join("key")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let ours = key.clone();
        let calling = std::thread::spawn(move || {
            let (mut sender, receiver) = connect(TcpStream::connect(at).unwrap(), &ours, 1, soon()).unwrap();
            sender.send(&"alive").unwrap();
            (sender, receiver)
        });
        let (mut stream, mut responder) = (listener.accept().unwrap().0, Responder::new(&key, 1));
        let proven = loop {
            let mut bytes = vec![0; responder.wants()];
            stream.read_exact(&mut bytes).unwrap();
            match responder.take(&bytes).unwrap() {
                OpeningStep::Wants => {}
                OpeningStep::Answer(answer) => stream.write_all(&answer).unwrap(),
                OpeningStep::Proven(proven) => break proven,
            }
        };
        let (theirs, mut receiver) = proven.line(stream).unwrap();
        assert_eq!(receiver.receive::<String>(MAX, Some(soon())).unwrap(), "alive");
        (calling.join().unwrap().0, receiver, theirs)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Numbers and messages received until the line ends.
    fn come(receiver: &mut Receiver) -> Vec<(u64, String)> {
        let words = std::iter::from_fn(|| receiver.receive::<NumberedMessage<String>>(MAX, Some(soon())).ok());
        words.map(|NumberedMessage(number, _, word)| (number, word)).collect()
    }

    fn send(post: &mut OutgoingPost<String>, word: &str) {
        post.send(word.into(), |max| format!("more than {max}")).unwrap();
    }

    fn words(of: &[(u64, &str)]) -> Vec<(u64, String)> {
        of.iter().map(|(number, word)| (*number, (*word).into())).collect()
    }

    #[test]
    fn unacknowledged_words_are_sent_again() {
        let (sender, mut receiver, _theirs) = line();
        let mut post = OutgoingPost::new(sender);
        send(&mut post, "a");
        send(&mut post, "b");
        // The first of them was acknowledged.
        assert!(post.hear(1, 1).unwrap());
        post.break_off();
        assert!(!post.is_up());
        assert_eq!(come(&mut receiver), words(&[(1, "a"), (2, "b")]));
        // It is kept, and does not block.
        send(&mut post, "c");
        let (sender, mut receiver, _theirs) = line();
        post.take_up(sender, 1);
        send(&mut post, "d");
        post.break_off();
        assert_eq!(come(&mut receiver), words(&[(2, "b"), (3, "c"), (4, "d")]));
        // Duplicates are ignored, and a gap is an error.
        assert_eq!((post.hear(2, 4).unwrap(), post.hear(2, 4).unwrap(), post.heard()), (true, false, 2));
        assert!(post.hear(4, 4).is_err() && post.hear(3, 5).is_err());
    }

    #[test]
    fn peer_without_acknowledgements_is_given_up() {
        let (sender, _receiver, _theirs) = line();
        let mut post = OutgoingPost::new(sender);
        post.break_off();
        for _ in 0..KEPT_MAX {
            send(&mut post, "x");
        }
        assert!(post.send("x".into(), |_| "long".into()).is_err());
        assert_eq!(post.hear(0, KEPT_MAX as u64).ok(), Some(false));
        assert!(post.send("x".into(), |_| "long".into()).is_ok());
    }

    #[test]
    fn blocked_peer_ends_with_its_session() {
        let (sender, _receiver, _theirs) = line();
        let mut post = OutgoingPost::new(sender).until(Instant::now());
        // More than both socket buffers hold.
        let sent = post.transmit(1, &"x".repeat(bytegauge_wire::MESSAGE_MAX / 2));
        // The deadline ends it, before the line counts as stuck.
        assert!(matches!(sent, Err(LineError::Late)), "{sent:?}");
    }

    #[test]
    fn long_words_are_replaced() {
        let (sender, mut receiver, _theirs) = line();
        let mut post = OutgoingPost::new(sender);
        send(&mut post, &"x".repeat(bytegauge_wire::MESSAGE_MAX));
        post.break_off();
        assert_eq!(come(&mut receiver), words(&[(1, &format!("more than {}", bytegauge_wire::MESSAGE_MAX))]));
    }
}

#[cfg(test)]
mod silent_peer_tests {
    use std::net::TcpListener;

    use bytegauge_sys::option::Value;

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
        assert!(last_heard(&stream) <= Instant::now() - Duration::from_millis(290));
    }

    #[test]
    fn silence_shortens_the_time_a_session_is_kept() {
        let now = Instant::now();
        let check = |silent_ms: u64, kept_ms: u64| {
            let until = kept_until(now.checked_sub(Duration::from_millis(silent_ms)).unwrap());
            let expected = now + Duration::from_millis(kept_ms);
            assert!(until >= expected && until < expected + Duration::from_secs(60), "{silent_ms}");
        };
        check(0, 4_500);
        check(5_000, 4_500);
        assert_eq!(kept_until(now - Duration::from_millis(6_500)), now + Duration::from_millis(3_000));
        assert!(kept_until(now - Duration::from_secs(20)) < now);
    }
}
