//! The opening of a line: version, Noise handshake, and the first sealed frame, which proves that the caller is alive.
//!
//! The agent's half is a state machine without a socket and without a clock, so that thousands of callers can wait in one
//! thread, and so that tests and the fuzzer step through it.
//!
//! A caller's first 56 bytes prove little: a third party that recorded them can replay them. The agent's answer has a fresh
//! key, so only a live holder of the shared key can seal the frame that follows. [`Responder`] therefore returns a line
//! only after it has opened that frame.
//!
//! Also the frames after it: seals and opens parts of messages.

use std::sync::Arc;

use serde::Serialize;
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::LineError;
use crate::key::Key;

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// First bytes of an opening.
pub(crate) const MAGIC: [u8; 6] = *b"bgfar\0";

/// Bytes of an opening: the magic and the version.
pub(crate) const OPENING: usize = 8;

/// Bytes of a handshake message without payload: a public key and a seal.
pub(crate) const HANDSHAKE: usize = 48;

/// Bytes that a caller sends before it is answered.
pub const FIRST_WORDS: usize = OPENING + HANDSHAKE;

/// The longest first frame of a caller, sealed, bytes. It holds a question of about 200 bytes; an unproven caller may not
/// make the agent hold more.
pub const FIRST_FRAME_MAX: usize = 1 << 10;

/// An opening of this version.
pub(crate) fn opening(version: u16) -> [u8; OPENING] {
    let mut opening = [0; OPENING];
    opening[..MAGIC.len()].copy_from_slice(&MAGIC);
    opening[MAGIC.len()..].copy_from_slice(&version.to_be_bytes());
    opening
}

/// Checks that the other side's opening is of our kind and version.
pub(crate) fn same_version(theirs: [u8; OPENING], ours: u16) -> Result<(), LineError> {
    let (magic, version) = theirs.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(LineError::OtherProtocol);
    }
    match u16::from_be_bytes([version[0], version[1]]) {
        theirs if theirs == ours => Ok(()),
        theirs => Err(LineError::Version { ours, theirs }),
    }
}

/// A handshake whose prologue is the opening, so that a version cannot be changed on the way.
pub(crate) fn handshake(key: &Key, prologue: &[u8], calls: bool) -> Result<HandshakeState, LineError> {
    let built = NOISE.parse().and_then(|noise| {
        let builder = builder(noise).psk(0, key.bytes())?.prologue(prologue)?;
        if calls { builder.build_initiator() } else { builder.build_responder() }
    });
    built.map_err(|_| LineError::Garbled("no handshake can be made here"))
}

fn builder<'a>(noise: NoiseParams) -> Builder<'a> {
    #[cfg(any(test, fuzzing))]
    if crate::cheap::in_use() {
        return Builder::with_resolver(noise, Box::new(crate::cheap::Cheap));
    }
    Builder::new(noise)
}

/// The two directions after a finished handshake.
pub(crate) fn directions(noise: HandshakeState) -> Result<(Sealer, FrameOpener), LineError> {
    let noise: StatelessTransportState =
        noise.into_stateless_transport_mode().map_err(|_| LineError::Garbled("the handshake was not finished"))?;
    let noise = Arc::new(noise);
    Ok((Sealer::new(Arc::clone(&noise)), FrameOpener::new(noise)))
}

/// Whether these first bytes of a connection, which may be none, can be those of a caller of any version.
pub fn may_open(first: &[u8]) -> bool {
    first.len() <= FIRST_WORDS && first.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic)
}

/// The agent's side of an opening.
///
/// Read at most [`Responder::wants`] bytes from the connection, pass them to [`Responder::take`], do what it returns.
#[derive(Debug)]
pub struct Responder {
    key: Key,
    version: u16,
    state: OpeningState,
    /// Bytes of the present state.
    have: Vec<u8>,
}

#[derive(Debug)]
enum OpeningState {
    Opening,
    Handshake,
    FrameHeader(Box<(Sealer, FrameOpener)>),
    Frame(Box<(Sealer, FrameOpener)>, usize),
    /// Proven or refused.
    Over,
}

/// The next step after some bytes of a caller.
#[derive(Debug)]
pub enum OpeningStep {
    /// More bytes are needed.
    Wants,
    /// Send this answer; then more bytes are needed.
    Answer([u8; FIRST_WORDS]),
    /// The caller holds the key and is alive.
    Proven(Box<Proven>),
}

/// A caller that has proved that it holds the key and is alive. [`Proven::line`] makes the line.
#[derive(Debug)]
pub struct Proven {
    pub(crate) sealer: Sealer,
    pub(crate) opener: FrameOpener,
    /// The first message, if its first frame was the last one as well.
    pub(crate) message: Option<Vec<u8>>,
}

/// Why a caller is refused.
#[derive(Debug)]
pub struct Refusal {
    /// The reason.
    pub error: LineError,
    /// The agent's opening, where the caller may learn it, so that it can name the reason as well.
    pub answer: Option<[u8; OPENING]>,
}

impl From<LineError> for Refusal {
    fn from(error: LineError) -> Refusal {
        Refusal { error, answer: None }
    }
}

impl Responder {
    /// Waits for the first byte of a caller.
    pub fn new(key: &Key, version: u16) -> Responder {
        Responder { key: key.clone(), version, state: OpeningState::Opening, have: Vec::new() }
    }

    /// How many bytes it can take now; 0 once it is over.
    pub fn wants(&self) -> usize {
        self.needed() - self.have.len()
    }

    fn needed(&self) -> usize {
        match self.state {
            OpeningState::Opening => OPENING,
            OpeningState::Handshake => HANDSHAKE,
            OpeningState::FrameHeader(_) => HEADER,
            OpeningState::Frame(_, len) => len,
            OpeningState::Over => 0,
        }
    }

    /// Takes bytes of the caller, at most [`Responder::wants`]; further ones are ignored.
    ///
    /// # Errors
    /// [`Refusal`]: the connection is to be closed, after its answer was sent.
    pub fn take(&mut self, bytes: &[u8]) -> Result<OpeningStep, Refusal> {
        self.have.extend_from_slice(&bytes[..bytes.len().min(self.wants())]);
        if matches!(self.state, OpeningState::Opening) && !may_open(&self.have) {
            return Err(LineError::OtherProtocol.into());
        }
        if self.wants() > 0 {
            return Ok(OpeningStep::Wants);
        }
        let have = std::mem::take(&mut self.have);
        match std::mem::replace(&mut self.state, OpeningState::Over) {
            OpeningState::Opening => self.opened(&have),
            OpeningState::Handshake => self.answered(&have),
            OpeningState::FrameHeader(directions) => {
                let len = announced([have[0], have[1]], FIRST_FRAME_MAX - SEAL - 1)?;
                self.state = OpeningState::Frame(directions, len);
                Ok(OpeningStep::Wants)
            }
            OpeningState::Frame(directions, _) => {
                let (sealer, mut opener) = *directions;
                let message = opener.open(&have, FIRST_FRAME_MAX).map_err(|_| LineError::Unproven)?;
                Ok(OpeningStep::Proven(Box::new(Proven { sealer, opener, message })))
            }
            OpeningState::Over => Err(LineError::Garbled("bytes after the end").into()),
        }
    }

    fn opened(&mut self, have: &[u8]) -> Result<OpeningStep, Refusal> {
        let mut theirs = [0; OPENING];
        theirs.copy_from_slice(have);
        same_version(theirs, self.version).map_err(|error| self.named(error))?;
        self.state = OpeningState::Handshake;
        Ok(OpeningStep::Wants)
    }

    fn answered(&mut self, first: &[u8]) -> Result<OpeningStep, Refusal> {
        let ours = opening(self.version);
        let mut noise = handshake(&self.key, &ours, false)?;
        noise.read_message(first, &mut []).map_err(|_| self.named(LineError::OtherKey))?;
        let mut answer = [0; FIRST_WORDS];
        answer[..OPENING].copy_from_slice(&ours);
        noise.write_message(&[], &mut answer[OPENING..]).map_err(|_| LineError::OtherKey)?;
        self.state = OpeningState::FrameHeader(Box::new(directions(noise)?));
        Ok(OpeningStep::Answer(answer))
    }

    /// A refusal that names the reason to a caller of another version or key.
    fn named(&self, error: LineError) -> Refusal {
        let answer = (!matches!(error, LineError::OtherProtocol)).then(|| opening(self.version));
        Refusal { error, answer }
    }
}

// Frames: seals parts of messages, and opens frames and joins their parts. Has no socket and no clock.
//
// A frame is a length (u16, big-endian) and as many bytes, sealed: a kind (0: more parts follow, 1: the last part), then
// a part of a JSON text. Each frame has its number in its seal.

/// The longest message that can be sent, bytes: the report of an end with thousands of flows.
pub const MESSAGE_MAX: usize = 16 << 20;

/// Bytes of a seal (the tag of Poly1305).
pub(crate) const SEAL: usize = 16;

/// Bytes of a frame's length.
pub(crate) const HEADER: usize = 2;

/// The longest sealed frame, bytes: the limit of Noise (section 3 of the specification).
const FRAME_MAX: usize = 65_535;

/// The longest part of a message in one frame, bytes.
pub(crate) const PART_MAX: usize = FRAME_MAX - SEAL - 1;

const MORE: u8 = 0;
pub(crate) const LAST: u8 = 1;

/// Seals messages.
#[derive(Debug)]
pub(crate) struct Sealer {
    pub(crate) noise: Arc<StatelessTransportState>,
    pub(crate) number: u64,
    frame: Vec<u8>,
}

impl Sealer {
    pub(crate) fn new(noise: Arc<StatelessTransportState>) -> Sealer {
        Sealer { noise, number: 0, frame: Vec::new() }
    }

    /// Seals a message, and passes each of its frames to `send`.
    ///
    /// # Errors
    /// [`LineError::TooLong`] beyond [`MESSAGE_MAX`], before anything is sent; errors of `send`.
    pub(crate) fn seal(
        &mut self,
        message: &impl Serialize,
        mut send: impl FnMut(&[u8]) -> Result<(), LineError>,
    ) -> Result<(), LineError> {
        let bytes = serde_json::to_vec(message).map_err(|_| LineError::Garbled("a message that cannot be written"))?;
        if bytes.len() > MESSAGE_MAX {
            return Err(LineError::TooLong { max: MESSAGE_MAX });
        }
        self.frame.resize(HEADER + FRAME_MAX, 0);
        let mut rest: &[u8] = &bytes;
        let mut plain = Vec::with_capacity(rest.len().min(PART_MAX) + 1);
        loop {
            let (part, left) = rest.split_at(rest.len().min(PART_MAX));
            plain.clear();
            plain.push(if left.is_empty() { LAST } else { MORE });
            plain.extend_from_slice(part);
            let sealed = self.noise.write_message(self.number, &plain, &mut self.frame[HEADER..]);
            let len = sealed.map_err(|_| LineError::Garbled("a frame that cannot be sealed"))?;
            self.number += 1;
            self.frame[..HEADER].copy_from_slice(&(len as u16).to_be_bytes());
            send(&self.frame[..HEADER + len])?;
            if left.is_empty() {
                return Ok(());
            }
            rest = left;
        }
    }
}

/// Opens frames, and joins their parts to messages.
#[derive(Debug)]
pub(crate) struct FrameOpener {
    pub(crate) noise: Arc<StatelessTransportState>,
    number: u64,
    /// The parts of the message that is not complete yet.
    message: Vec<u8>,
}

/// The length of a sealed frame that its header announces, bytes. Nothing is allocated before this check.
///
/// # Errors
/// [`LineError`] for a frame without a kind, and for one that alone exceeds a message of `max` bytes.
pub(crate) fn announced(header: [u8; HEADER], max: usize) -> Result<usize, LineError> {
    let len = usize::from(u16::from_be_bytes(header));
    if len <= SEAL {
        return Err(LineError::Garbled("a frame that is too short"));
    }
    if len - SEAL - 1 > max {
        return Err(LineError::TooLong { max });
    }
    Ok(len)
}

impl FrameOpener {
    pub(crate) fn new(noise: Arc<StatelessTransportState>) -> FrameOpener {
        FrameOpener { noise, number: 0, message: Vec::new() }
    }

    /// Opens the next frame. Returns the message if the frame is its last one.
    ///
    /// # Errors
    /// [`LineError`] for a broken seal, an unknown kind, an empty part before the last, and a message beyond `max` bytes.
    pub(crate) fn open(&mut self, sealed: &[u8], max: usize) -> Result<Option<Vec<u8>>, LineError> {
        let mut plain = vec![0; sealed.len()];
        let opened = self.noise.read_message(self.number, sealed, &mut plain);
        let len = opened.map_err(|_| LineError::Garbled("a frame whose seal is broken"))?;
        self.number += 1;
        let (last, part) = match plain[..len].split_first() {
            Some((&LAST, part)) => (true, part),
            // Empty parts could continue without end.
            Some((&MORE, part)) if !part.is_empty() => (false, part),
            _ => return Err(LineError::Garbled("a frame of an unknown kind")),
        };
        if self.message.len() + part.len() > max {
            return Err(LineError::TooLong { max });
        }
        self.message.extend_from_slice(part);
        Ok(last.then(|| std::mem::take(&mut self.message)))
    }
}
