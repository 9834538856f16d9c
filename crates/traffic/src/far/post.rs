//! What one side of a session says, kept until the other one has heard it: a line that breaks loses nothing.
//!
//! Words are numbered, and each tells which was heard last from the other side. Over a line that is taken up again those are
//! said once more that were not heard; those that come twice are heard once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytegauge_wire::{LineError, Sender};
use serde::Serialize;

use crate::far::watch::{before_sending, kept_until, last_heard};
use crate::far::words::Said;

/// Words that are kept at most: a side that asks and asks, and hears nothing, is given up. A trial has fewer than ten.
pub(super) const KEPT_MAX: usize = 16;

/// How long the last words of a session may take whose time is up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One side's words.
#[derive(Debug)]
pub(super) struct OutgoingPost<T> {
    /// The line, while it stands.
    sender: Option<Sender>,
    /// The number of the last word.
    said: u64,
    kept: VecDeque<(u64, T)>,
    /// The last number from the other side.
    heard: u64,
    /// When the other side was last heard on the line that broke last.
    last_heard: Instant,
    /// When the session's time is up, if it has an end.
    until: Option<Instant>,
}

impl<T: Serialize> OutgoingPost<T> {
    /// The post of a line on which nothing was said yet.
    pub(super) fn new(sender: Sender) -> OutgoingPost<T> {
        OutgoingPost { sender: Some(sender), ..OutgoingPost::without_line() }
    }

    /// The post of a session whose line is broken.
    pub(super) fn without_line() -> OutgoingPost<T> {
        OutgoingPost { sender: None, said: 0, kept: VecDeque::new(), heard: 0, last_heard: Instant::now(), until: None }
    }

    /// The same of a session that ends then: the other side takes its words by then, or a moment later, or the line is given up.
    #[must_use]
    pub(super) fn until(self, until: Instant) -> OutgoingPost<T> {
        OutgoingPost { until: Some(until), ..self }
    }

    /// The numbers of the words that are kept.
    #[cfg(any(test, fuzzing))]
    pub(super) fn kept(&self) -> Vec<u64> {
        self.kept.iter().map(|(number, _)| *number).collect()
    }

    /// Says a word: now, or when the line is taken up again. Where it is too long, what `instead` makes of the cap.
    ///
    /// # Errors
    /// When too many words are not acknowledged.
    pub(super) fn say(&mut self, word: T, instead: impl FnOnce(usize) -> T) -> Result<(), LineError> {
        if self.kept.len() >= KEPT_MAX {
            self.break_off();
            return Err(LineError::Late);
        }
        self.said += 1;
        let number = self.said;
        match self.send(number, &word) {
            Err(LineError::TooLong { max }) => {
                let word = instead(max);
                let sent = self.send(number, &word);
                self.kept.push_back((number, word));
                self.sent(&sent);
            }
            sent => {
                self.kept.push_back((number, word));
                self.sent(&sent);
            }
        }
        Ok(())
    }

    /// A word came, with the last number that its side has heard. Whether it is new.
    ///
    /// # Errors
    /// When one between was lost, or one was heard that was never said: not over a line of ours.
    pub(super) fn hear(&mut self, number: u64, heard: u64) -> Result<bool, LineError> {
        if number > self.heard + 1 || heard > self.said {
            return Err(LineError::Garbled("words that do not follow each other"));
        }
        self.kept.retain(|(kept, _)| *kept > heard);
        let is_new = number > self.heard;
        self.heard = self.heard.max(number);
        Ok(is_new)
    }

    /// The last number that was heard.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// Whether a line stands, as far as this side knows.
    pub(super) fn stands(&self) -> bool {
        self.sender.is_some()
    }

    /// The line broke, or is to: what is said is kept. A thread that waits for words of the other side is woken.
    pub(super) fn break_off(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.last_heard = last_heard(&sender);
            sender.hang_up();
        }
    }

    /// Until when the session of a line that broke is kept.
    pub(super) fn kept_until(&self) -> Instant {
        kept_until(self.last_heard)
    }

    /// Another line stands, on which the other side told how much it has heard: says the rest.
    pub(super) fn take_up(&mut self, sender: Sender, heard: u64) {
        self.break_off();
        self.sender = Some(sender);
        self.kept.retain(|(kept, _)| *kept > heard);
        let kept = std::mem::take(&mut self.kept);
        for (number, word) in &kept {
            let sent = self.send(*number, word);
            self.sent(&sent);
        }
        self.kept = kept;
    }

    /// Nothing more will be said on the line, if it stands; the other side is still heard.
    pub(super) fn end(&self) {
        self.sender.iter().for_each(Sender::end);
    }

    /// The line, if it stands.
    pub(super) fn line(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    fn send(&mut self, number: u64, word: &T) -> Result<(), LineError> {
        let (heard, until) = (self.heard, self.until);
        self.sender.as_mut().map_or(Ok(()), |sender| {
            before_sending(sender);
            let word = Said(number, heard, word);
            match until {
                Some(until) => sender.send_until(&word, until.max(Instant::now() + LAST_WORDS)),
                None => sender.send(&word),
            }
        })
    }

    /// What could not be sent is said again over the next line.
    fn sent(&mut self, sent: &Result<(), LineError>) {
        if sent.is_err() {
            self.break_off();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use bytegauge_wire::{Key, OpeningStep, Receiver, Responder, connect};

    use super::*;

    const MAX: usize = 1 << 16;

    /// A line over loopback: the sending half of its caller, and the other side.
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

    /// Numbers and words that come until the line ends.
    fn come(receiver: &mut Receiver) -> Vec<(u64, String)> {
        let words = std::iter::from_fn(|| receiver.receive::<Said<String>>(MAX, Some(soon())).ok());
        words.map(|Said(number, _, word)| (number, word)).collect()
    }

    fn say(post: &mut OutgoingPost<String>, word: &str) {
        post.say(word.into(), |max| format!("more than {max}")).unwrap();
    }

    fn words(of: &[(u64, &str)]) -> Vec<(u64, String)> {
        of.iter().map(|(number, word)| (*number, (*word).into())).collect()
    }

    #[test]
    fn unacknowledged_words_are_sent_again() {
        let (sender, mut receiver, _theirs) = line();
        let mut post = OutgoingPost::new(sender);
        say(&mut post, "a");
        say(&mut post, "b");
        // The first of them was heard.
        assert!(post.hear(1, 1).unwrap());
        post.break_off();
        assert!(!post.stands());
        assert_eq!(come(&mut receiver), words(&[(1, "a"), (2, "b")]));
        // It is kept, and does not block.
        say(&mut post, "c");
        let (sender, mut receiver, _theirs) = line();
        post.take_up(sender, 1);
        say(&mut post, "d");
        post.break_off();
        assert_eq!(come(&mut receiver), words(&[(2, "b"), (3, "c"), (4, "d")]));
        // What the other side says twice is heard once, and a hole is none of ours.
        assert_eq!((post.hear(2, 4).unwrap(), post.hear(2, 4).unwrap(), post.heard()), (true, false, 2));
        assert!(post.hear(4, 4).is_err() && post.hear(3, 5).is_err());
    }

    #[test]
    fn a_side_that_hears_nothing_is_given_up() {
        let (sender, _receiver, _theirs) = line();
        let mut post = OutgoingPost::new(sender);
        post.break_off();
        for _ in 0..KEPT_MAX {
            say(&mut post, "x");
        }
        assert!(post.say("x".into(), |_| "long".into()).is_err());
        assert_eq!(post.hear(0, KEPT_MAX as u64).ok(), Some(false));
        assert!(post.say("x".into(), |_| "long".into()).is_ok());
    }

    #[test]
    fn side_that_takes_nothing_keeps_no_session_beyond_its_time() {
        let (sender, _receiver, _theirs) = line();
        let mut post = OutgoingPost::new(sender).until(Instant::now());
        // More than both sockets hold, so that most of it waits to be taken.
        let sent = post.send(1, &"x".repeat(bytegauge_wire::MESSAGE_MAX / 2));
        // It is the deadline that ends it, before the line is found to be stuck.
        assert!(matches!(sent, Err(LineError::Late)), "{sent:?}");
    }

    #[test]
    fn long_words_are_replaced() {
        let (sender, mut receiver, _theirs) = line();
        let mut post = OutgoingPost::new(sender);
        say(&mut post, &"x".repeat(bytegauge_wire::MESSAGE_MAX));
        post.break_off();
        assert_eq!(come(&mut receiver), words(&[(1, &format!("more than {}", bytegauge_wire::MESSAGE_MAX))]));
    }
}
