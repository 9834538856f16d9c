//! Frames: seals parts of messages, and opens frames and joins their parts. Has no socket and no clock.
//!
//! A frame is a length (u16, big-endian) and as many bytes, sealed: a kind (0: more parts follow, 1: the last part), then
//! a part of a JSON text. Each frame has its number in its seal.

use std::sync::Arc;

use serde::Serialize;
use snow::StatelessTransportState;

use crate::LineError;

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
