//! The line: an opening in the clear, a Noise handshake, then sealed frames.
//!
//! ```text
//! caller    "bgfar" 0, version (u16, big-endian)  | 48 bytes: Noise_NNpsk0, first message
//! agent     the same with its version             | 48 bytes: second message
//! both      frames: length (u16, big-endian), then so many bytes, sealed: kind (0: more comes, 1: the last), JSON
//! ```
//!
//! `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` (noiseprotocol.org, revision 34): whoever lacks the key can neither make the
//! first message nor read the second, and keys are fresh in every session. The opening is part of what both sign (the
//! prologue), so that nobody changes a version on the way. An agent answers nothing at all to a stranger's first bytes,
//! and nothing after its version to who has another key. Every frame has its own number in its seal: one that is repeated,
//! left out, cut or changed ends the line.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::{Builder, HandshakeState, StatelessTransportState};
use thiserror::Error;

use crate::key::Key;

/// The longest message that a side may be willing to take, bytes: the report of an end with thousands of flows.
pub const MESSAGE_MAX: usize = 16 << 20;

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// What an opening begins with.
const MAGIC: [u8; 6] = *b"bgfar\0";

/// Bytes of an opening: the magic and the version.
const OPENING: usize = 8;

/// Bytes of a handshake message without payload: a public key and a seal.
const HANDSHAKE: usize = 48;

/// What a caller says before it is answered, bytes.
pub const FIRST_WORDS: usize = OPENING + HANDSHAKE;

/// Bytes of a seal (Poly1305's tag).
const SEAL: usize = 16;

/// The longest frame: what Noise seals at once (section 3 of the specification).
const FRAME_MAX: usize = 65_535;

/// What a frame holds of a message.
const PART_MAX: usize = FRAME_MAX - SEAL - 1;

const MORE: u8 = 0;
const LAST: u8 = 1;

/// How long a side that takes nothing is written to.
const SENDING: Duration = Duration::from_secs(8);

/// How long one that takes little is written to, for a message of any length.
const SENDING_WHOLE: Duration = Duration::from_secs(60);

/// How long a side that was turned away may take to hang up.
const PARTING: Duration = Duration::from_millis(500);

/// What of a side that was turned away is read and thrown away at most, bytes.
const PARTING_BYTES: usize = 4 << 10;

/// Why a line is no more.
#[derive(Debug, Error)]
pub enum LineError {
    /// The other side hung up, or the path failed.
    #[error("the connection broke ({0})")]
    Broken(#[from] io::Error),
    /// Nothing came until the deadline.
    #[error("nothing came in time")]
    Late,
    /// What answered is something else.
    #[error("what answers there is no bytegauge agent: check the address and port")]
    Stranger,
    /// It speaks another version.
    #[error(
        "one side speaks version {theirs} of the far host's language and this one {ours}: use one version of bytegauge on both hosts"
    )]
    Version {
        /// Ours.
        ours: u16,
        /// The other side's.
        theirs: u16,
    },
    /// The keys differ.
    #[error("the other side does not have the same key: copy one --key-file to both hosts")]
    OtherKey,
    /// A message is longer than is taken.
    #[error("a message of more than {max} bytes was refused")]
    TooLong {
        /// The cap.
        max: usize,
    },
    /// A frame was changed on the way, repeated, left out or never made by our program.
    #[error("what came is not what was sent, or was not made by this program: {0}")]
    Garbled(&'static str),
}

/// The half of a line that sends.
#[derive(Debug)]
pub struct Sender {
    stream: TcpStream,
    noise: Arc<StatelessTransportState>,
    number: u64,
    frame: Vec<u8>,
}

/// The half of a line that receives.
#[derive(Debug)]
pub struct Receiver {
    stream: TcpStream,
    noise: Arc<StatelessTransportState>,
    number: u64,
    frame: Vec<u8>,
    max: usize,
}

/// Makes a line to an agent, until `deadline`; messages of more than `max` bytes are refused.
///
/// # Errors
/// [`LineError`].
pub fn connect(
    stream: TcpStream,
    key: &Key,
    version: u16,
    max: usize,
    deadline: Instant,
) -> Result<(Sender, Receiver), LineError> {
    let ours = opening(version);
    let mut noise = handshake(key, &ours, true)?;
    let mut first = [0; FIRST_WORDS];
    first[..OPENING].copy_from_slice(&ours);
    noise.write_message(&[], &mut first[OPENING..]).map_err(|_| LineError::OtherKey)?;
    write_by(&stream, &first, deadline)?;
    let mut theirs = [0; OPENING];
    match read_by(&stream, &mut theirs, deadline) {
        // Whoever speaks first, or hangs up, is no agent; one may be reset by a listener that leaves its port to an agent.
        Err(LineError::Broken(error)) if error.kind() != io::ErrorKind::ConnectionReset => {
            return Err(LineError::Stranger);
        }
        other => other?,
    }
    same_version(theirs, version)?;
    let mut second = [0; HANDSHAKE];
    match read_by(&stream, &mut second, deadline) {
        // An agent of the same version that says nothing more could not read our first message.
        Err(LineError::Broken(_)) => return Err(LineError::OtherKey),
        other => other?,
    }
    noise.read_message(&second, &mut []).map_err(|_| LineError::OtherKey)?;
    halves(stream, noise, max)
}

/// Whether a caller may begin so, of whatever version: what has come of its first bytes, which may be none.
pub fn may_open(said: &[u8]) -> bool {
    said.len() <= FIRST_WORDS && said.iter().zip(MAGIC).all(|(said, magic)| *said == magic)
}

/// Takes a line from a caller, until `deadline`; messages of more than `max` bytes are refused. What somebody else has read of
/// its first words already is `said`.
///
/// # Errors
/// [`LineError`]; the caller was told of another version and of nothing else.
pub fn accept(
    stream: TcpStream,
    mut said: &[u8],
    key: &Key,
    version: u16,
    max: usize,
    deadline: Instant,
) -> Result<(Sender, Receiver), LineError> {
    let mut read = |bytes: &mut [u8]| {
        // From what was said as long as there is some: that cannot fail, and never takes more than there is room for.
        let had = said.read(bytes)?;
        read_by(&stream, &mut bytes[had..], deadline)
    };
    let mut theirs = [0; OPENING];
    read(&mut theirs)?;
    let ours = opening(version);
    if let Err(error) = same_version(theirs, version) {
        if matches!(error, LineError::Version { .. }) {
            write_by(&stream, &ours, deadline)?;
            part(&stream);
        }
        return Err(error);
    }
    let mut first = [0; HANDSHAKE];
    read(&mut first)?;
    write_by(&stream, &ours, deadline)?;
    let mut noise = handshake(key, &ours, false)?;
    noise.read_message(&first, &mut []).map_err(|_| LineError::OtherKey)?;
    let mut second = [0; HANDSHAKE];
    noise.write_message(&[], &mut second).map_err(|_| LineError::OtherKey)?;
    write_by(&stream, &second, deadline)?;
    halves(stream, noise, max)
}

fn opening(version: u16) -> [u8; OPENING] {
    let mut opening = [0; OPENING];
    opening[..MAGIC.len()].copy_from_slice(&MAGIC);
    opening[MAGIC.len()..].copy_from_slice(&version.to_be_bytes());
    opening
}

fn same_version(theirs: [u8; OPENING], ours: u16) -> Result<(), LineError> {
    let (magic, version) = theirs.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(LineError::Stranger);
    }
    match u16::from_be_bytes([version[0], version[1]]) {
        theirs if theirs == ours => Ok(()),
        theirs => Err(LineError::Version { ours, theirs }),
    }
}

fn handshake(key: &Key, prologue: &[u8], calls: bool) -> Result<HandshakeState, LineError> {
    let built = NOISE.parse().and_then(|noise| {
        let builder = Builder::new(noise).psk(0, key.bytes())?.prologue(prologue)?;
        if calls { builder.build_initiator() } else { builder.build_responder() }
    });
    built.map_err(|_| LineError::Garbled("no handshake can be made here"))
}

fn halves(stream: TcpStream, noise: HandshakeState, max: usize) -> Result<(Sender, Receiver), LineError> {
    let noise =
        noise.into_stateless_transport_mode().map_err(|_| LineError::Garbled("the handshake was not finished"))?;
    let noise = Arc::new(noise);
    // A message is a frame or a few; none waits for another.
    stream.set_nodelay(true)?;
    let other = stream.try_clone()?;
    Ok((
        Sender { stream: other, noise: Arc::clone(&noise), number: 0, frame: vec![0; 2 + FRAME_MAX] },
        Receiver { stream, noise, number: 0, frame: vec![0; FRAME_MAX], max },
    ))
}

impl Sender {
    /// Sends a message.
    ///
    /// # Errors
    /// [`LineError::TooLong`] beyond [`MESSAGE_MAX`], of which nothing is sent; [`LineError::Broken`] where nobody takes any of it
    /// for 8 s, and [`LineError::Late`] where not all of it is taken within a minute.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), LineError> {
        self.send_by(message, Instant::now() + SENDING_WHOLE)
    }

    fn send_by(&mut self, message: &impl Serialize, deadline: Instant) -> Result<(), LineError> {
        let bytes = serde_json::to_vec(message).map_err(|_| LineError::Garbled("a message that cannot be written"))?;
        if bytes.len() > MESSAGE_MAX {
            return Err(LineError::TooLong { max: MESSAGE_MAX });
        }
        let mut rest: &[u8] = &bytes;
        let mut plain = Vec::with_capacity(rest.len().min(PART_MAX) + 1);
        loop {
            let (part, left) = rest.split_at(rest.len().min(PART_MAX));
            plain.clear();
            plain.push(if left.is_empty() { LAST } else { MORE });
            plain.extend_from_slice(part);
            let sealed = self.noise.write_message(self.number, &plain, &mut self.frame[2..]);
            let len = sealed.map_err(|_| LineError::Garbled("a frame that cannot be sealed"))?;
            self.number += 1;
            self.frame[..2].copy_from_slice(&(len as u16).to_be_bytes());
            write_by(&self.stream, &self.frame[..2 + len], deadline)?;
            if left.is_empty() {
                return Ok(());
            }
            rest = left;
        }
    }

    /// Says that nothing more comes: the other side hears it as the end of the line.
    pub fn end(&self) {
        // What is closed already needs no closing.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the line for both halves: whoever waits is woken.
    pub fn hang_up(&self) {
        // What is closed already needs no closing.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends the line so that what was sent last arrives: waits, for half a second, until the other side has hung up.
    pub fn part(&self) {
        part(&self.stream);
    }
}

impl Receiver {
    /// The next message, until `deadline`; without one, for as long as the connection is there.
    ///
    /// # Errors
    /// [`LineError`]; the line is of no use any more.
    pub fn receive<T: DeserializeOwned>(&mut self, deadline: Option<Instant>) -> Result<T, LineError> {
        let max = self.max;
        let mut message = Vec::new();
        loop {
            let (last, part) = self.frame(deadline)?;
            if message.len() + part.len() > max {
                return Err(LineError::TooLong { max });
            }
            message.extend_from_slice(part);
            if last {
                break;
            }
        }
        serde_json::from_slice(&message).map_err(|_| LineError::Garbled("a message that means nothing here"))
    }

    /// The next frame: whether its message ends with it, and its part of the message.
    fn frame(&mut self, deadline: Option<Instant>) -> Result<(bool, &[u8]), LineError> {
        let mut len = [0; 2];
        read_until(&self.stream, &mut len, deadline)?;
        let len = usize::from(u16::from_be_bytes(len));
        // Not even a kind fits.
        if len <= SEAL {
            return Err(LineError::Garbled("a frame that is too short"));
        }
        // Beyond the cap by itself: not even read.
        if len - SEAL - 1 > self.max {
            return Err(LineError::TooLong { max: self.max });
        }
        let mut sealed = vec![0; len];
        read_until(&self.stream, &mut sealed, deadline)?;
        let opened = self.noise.read_message(self.number, &sealed, &mut self.frame);
        let len = opened.map_err(|_| LineError::Garbled("a frame whose seal is broken"))?;
        self.number += 1;
        match self.frame[..len].split_first() {
            Some((&LAST, part)) => Ok((true, part)),
            // Empty parts would go on for ever.
            Some((&MORE, part)) if !part.is_empty() => Ok((false, part)),
            _ => Err(LineError::Garbled("a frame of an unknown kind")),
        }
    }
}

fn read_by(stream: &TcpStream, bytes: &mut [u8], deadline: Instant) -> Result<(), LineError> {
    read_until(stream, bytes, Some(deadline))
}

/// Reads so many bytes, however slowly they come, until the deadline.
fn read_until(mut stream: &TcpStream, bytes: &mut [u8], deadline: Option<Instant>) -> Result<(), LineError> {
    let mut have = 0;
    while have < bytes.len() {
        stream.set_read_timeout(deadline.map(left).transpose()?)?;
        match stream.read(&mut bytes[have..]) {
            Ok(0) => return Err(LineError::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                // With a deadline the time is up, or the next round says so; without, the connection timed out.
                if deadline.is_none() {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes so many bytes, however slowly they are taken, until the deadline; none of them for [`SENDING`] is an end as well.
fn write_by(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> Result<(), LineError> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?.min(SENDING)))?;
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Time left, or [`LineError::Late`].
fn left(deadline: Instant) -> Result<Duration, LineError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(LineError::Late) } else { Ok(left) }
}

/// Hangs up so that what was sent last arrives: closed with unread bytes, a connection is reset and takes what was on its
/// way with it (RFC 1122, 4.2.2.13).
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
