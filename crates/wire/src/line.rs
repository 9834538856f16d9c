//! The line: an opening in the clear, a Noise handshake, then sealed frames.
//!
//! ```text
//! caller    "bgfar" 0, version (u16, big-endian)  | 48 bytes: Noise_NNpsk0, first message
//! agent     the same with its version             | 48 bytes: second message
//! both      frames: length (u16, big-endian), then as many bytes, sealed: kind (0: more comes, 1: the last), JSON
//! ```
//!
//! `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` (noiseprotocol.org, revision 34): without the key it is impossible to make the first
//! message or to read the second, and keys are fresh in every session. The opening is the prologue that both sides
//! authenticate, so that a version cannot be changed on the way. An agent answers nothing to the first bytes of another
//! protocol, and only its version to a caller with another key. Every frame has its own number in its seal: one that is
//! repeated, left out, cut or changed ends the line.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::LineError;
use crate::key::Key;
use crate::opening::{FIRST_WORDS, HANDSHAKE, OPENING, Proven, directions, handshake, opening, same_version};
use crate::opening::{FrameOpener, HEADER, Sealer, announced};

/// How long a write waits for a side that takes nothing.
const SENDING: Duration = Duration::from_secs(8);

/// How long a message of any length may take if the other side takes little at a time.
const SENDING_WHOLE: Duration = Duration::from_secs(60);

/// How long a refused side may take to close the connection.
const PARTING: Duration = Duration::from_millis(500);

/// The most bytes that are read from a refused side and discarded.
const PARTING_BYTES: usize = 4 << 10;

/// The half of a line that sends.
#[derive(Debug)]
pub struct Sender {
    stream: TcpStream,
    sealer: Sealer,
}

/// The half of a line that receives.
#[derive(Debug)]
pub struct Receiver {
    stream: TcpStream,
    opener: FrameOpener,
    /// A message that was opened together with the caller's proof.
    first: Option<Vec<u8>>,
}

/// Makes a line to an agent, until `deadline`.
///
/// # Errors
/// [`LineError`].
pub fn connect(stream: TcpStream, key: &Key, version: u16, deadline: Instant) -> Result<(Sender, Receiver), LineError> {
    let ours = opening(version);
    let mut noise = handshake(key, &ours, true)?;
    let mut first = [0; FIRST_WORDS];
    first[..OPENING].copy_from_slice(&ours);
    noise.write_message(&[], &mut first[OPENING..]).map_err(|_| LineError::OtherKey)?;
    write_by(&stream, &first, deadline)?;
    let mut theirs = [0; OPENING];
    match read_until(&stream, &mut theirs, Some(deadline)) {
        // A peer that closes the connection is no agent; a reset may come from an end that gives its port back to an agent.
        Err(LineError::Broken(error)) if error.kind() != io::ErrorKind::ConnectionReset => {
            return Err(LineError::OtherProtocol);
        }
        other => other?,
    }
    same_version(theirs, version)?;
    let mut second = [0; HANDSHAKE];
    match read_until(&stream, &mut second, Some(deadline)) {
        // An agent of the same version that sends nothing more could not read our first message.
        Err(LineError::Broken(_)) => return Err(LineError::OtherKey),
        other => other?,
    }
    noise.read_message(&second, &mut []).map_err(|_| LineError::OtherKey)?;
    let (sealer, opener) = directions(noise)?;
    Proven { sealer, opener, message: None }.line(stream)
}

impl Proven {
    /// The line to this caller, over its connection.
    ///
    /// # Errors
    /// [`LineError::Broken`] if the connection cannot be used any more.
    pub fn line(self, stream: TcpStream) -> Result<(Sender, Receiver), LineError> {
        let Proven { sealer, opener, message } = self;
        // A message is a frame or a few; none waits for another.
        stream.set_nodelay(true)?;
        let other = stream.try_clone()?;
        Ok((Sender { stream: other, sealer }, Receiver { stream, opener, first: message }))
    }
}

impl Sender {
    /// Sends a message.
    ///
    /// # Errors
    /// [`LineError::TooLong`] beyond [`MESSAGE_MAX`](crate::MESSAGE_MAX), before anything is sent; [`LineError::Broken`] where
    /// the other side takes nothing for 8 s, and [`LineError::Late`] where not all of it is taken within a minute.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), LineError> {
        self.send_until(message, Instant::now() + SENDING_WHOLE)
    }

    /// Sends a message as [`send`](Sender::send) does, but no longer than until `deadline`.
    ///
    /// # Errors
    /// As [`send`](Sender::send).
    pub fn send_until(&mut self, message: &impl Serialize, deadline: Instant) -> Result<(), LineError> {
        let (stream, deadline) = (&self.stream, deadline.min(Instant::now() + SENDING_WHOLE));
        self.sealer.seal(message, |frame| write_by(stream, frame, deadline))
    }

    /// Announces that nothing more follows: the other side receives the end of the line.
    pub fn end(&self) {
        // A closed connection needs no closing.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the line for both halves and wakes a waiting thread.
    pub fn hang_up(&self) {
        // A closed connection needs no closing.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends the line so that the last message arrives: waits up to half a second until the other side has closed it.
    pub fn part(&self) {
        part(&self.stream);
    }
}

impl Receiver {
    /// The next message, of at most `max` bytes, until `deadline`; without one, as long as the connection exists.
    ///
    /// # Errors
    /// [`LineError`]; the line cannot be used any more.
    pub fn receive<T: DeserializeOwned>(&mut self, max: usize, deadline: Option<Instant>) -> Result<T, LineError> {
        let message = match self.first.take() {
            Some(first) if first.len() > max => return Err(LineError::TooLong { max }),
            Some(first) => first,
            None => self.message(max, deadline)?,
        };
        serde_json::from_slice(&message).map_err(|_| LineError::Garbled("a message that means nothing here"))
    }

    fn message(&mut self, max: usize, deadline: Option<Instant>) -> Result<Vec<u8>, LineError> {
        loop {
            let mut header = [0; HEADER];
            read_until(&self.stream, &mut header, deadline)?;
            let mut sealed = vec![0; announced(header, max)?];
            read_until(&self.stream, &mut sealed, deadline)?;
            if let Some(message) = self.opener.open(&sealed, max)? {
                return Ok(message);
            }
        }
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Fills `bytes`, however slowly they come, until the deadline.
fn read_until(mut stream: &TcpStream, bytes: &mut [u8], deadline: Option<Instant>) -> Result<(), LineError> {
    let mut have = 0;
    while have < bytes.len() {
        stream.set_read_timeout(deadline.map(left).transpose()?)?;
        match stream.read(&mut bytes[have..]) {
            Ok(0) => return Err(LineError::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // This read timed out (socket(7), SO_RCVTIMEO); the next round checks the deadline. A connection that timed out gives
            // another error (ETIMEDOUT), and is broken.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && deadline.is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes all bytes, however slowly they are taken, until the deadline, and fails if none is taken for [`SENDING`].
fn write_by(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> Result<(), LineError> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?.min(SENDING)))?;
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // This write timed out (socket(7), SO_SNDTIMEO), perhaps because of the deadline.
            Err(error) => return left(deadline).and(Err(error.into())),
        }
    }
    Ok(())
}

/// Time left, or [`LineError::Late`].
fn left(deadline: Instant) -> Result<Duration, LineError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(LineError::Late) } else { Ok(left) }
}

/// Closes the connection so that the last bytes arrive. A socket that is closed with unread bytes resets the connection,
/// which discards bytes that are still under way (RFC 1122, 4.2.2.13).
fn part(mut stream: &TcpStream) {
    let deadline = Instant::now() + PARTING;
    let mut thrown = [0; 512];
    let mut read = 0;
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    while read < PARTING_BYTES {
        let Ok(left) = left(deadline) else { return };
        let took = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut thrown));
        match took {
            Ok(0) | Err(_) => return,
            Ok(n) => read += n,
        }
    }
}

#[cfg(test)]
mod tests;
