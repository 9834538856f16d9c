//! Entry points of the fuzzer (`fuzz/`): bytes of a peer, without a socket. Compiled for tests and the fuzzer alone.

use std::sync::{Arc, OnceLock};

use crate::cheap;
use crate::key::Key;
use crate::opening::{FIRST_WORDS, HANDSHAKE, OpeningStep, Responder, directions, handshake, opening as opening_of};
use crate::opening::{FrameOpener, HEADER, Sealer, announced};

const VERSION: u16 = 3;

/// The longest message that is accepted, bytes: short, so that inputs reach it.
const MAX: usize = 64;

/// As [`opening`], with substitutes for the cryptography: a hundred times as many per second.
///
/// # Panics
/// As [`opening`].
pub fn cheap_opening(input: &[u8]) {
    cheap::with(|| opening(input));
}

/// As [`frames`], with substitutes for the cryptography.
///
/// # Panics
/// As [`frames`].
pub fn cheap_frames(input: &[u8]) {
    static LINE: OnceLock<(Sealer, FrameOpener)> = OnceLock::new();
    cheap::with(|| frames_over(LINE.get_or_init(line), input));
}

/// Steps an agent's side of an opening through any bytes. The first byte chooses how: bit 0, a caller that holds the key
/// and is alive, whose first frame has the rest; bit 1, one byte of that is changed on the way; the others, how many bytes
/// come at a time.
///
/// # Panics
/// If a caller is proven that is not alive, or a live one is not.
pub fn opening(input: &[u8]) {
    let Some((mode, rest)) = input.split_first() else { return };
    let key = Key::fixed();
    let mut responder = Responder::new(&key, VERSION);
    let chunk = 1 + usize::from(mode >> 2);
    if mode & 1 == 0 {
        let (proven, _) = fed(&mut responder, rest, chunk);
        assert!(!proven, "no caller made a key");
        return;
    }
    let ours = opening_of(VERSION);
    let mut caller = handshake(&key, &ours, true).expect("a handshake");
    let mut first = [0; FIRST_WORDS];
    first[..ours.len()].copy_from_slice(&ours);
    caller.write_message(&[], &mut first[ours.len()..]).expect("a first message");
    let (proven, answer) = fed(&mut responder, &first, chunk);
    let answer = answer.expect("an answer to a caller with the key");
    assert!(!proven, "the handshake alone is no proof");
    caller.read_message(&answer[ours.len()..], &mut []).expect("an answer that opens");
    let (mut sealer, _) = directions(caller).expect("a finished handshake");
    let text = String::from_utf8_lossy(&rest[..rest.len().min(2000)]);
    // As a message of one part; sealing a longer one makes a buffer of 64 KiB first.
    let message = serde_json::to_vec(&text).expect("a text");
    let mut frame = sealer.sealed(&[&[crate::opening::LAST][..], &message].concat());
    let is_changed = mode & 2 != 0;
    if is_changed {
        let at = HEADER + usize::from(rest.first().copied().unwrap_or(0)) % (frame.len() - HEADER);
        frame[at] ^= 1;
    }
    let (proven, _) = fed(&mut responder, &frame, chunk);
    // The message may be longer than a first frame may be.
    assert!(!is_changed || !proven, "a changed frame is no proof");
    assert!(is_changed || proven || frame.len() > crate::FIRST_FRAME_MAX, "a live caller");
}

/// Feeds bytes until the responder takes no more. Returns whether the caller is proven, and the answer to it.
fn fed(responder: &mut Responder, mut bytes: &[u8], chunk: usize) -> (bool, Option<[u8; FIRST_WORDS]>) {
    let mut answered = None;
    while !bytes.is_empty() && responder.wants() > 0 {
        let (part, rest) = bytes.split_at(bytes.len().min(chunk).min(responder.wants()));
        bytes = rest;
        match responder.take(part) {
            Ok(OpeningStep::Wants) => {}
            Ok(OpeningStep::Answer(answer)) => answered = Some(answer),
            Ok(OpeningStep::Proven(_)) => return (true, answered),
            Err(_) => return (false, answered),
        }
    }
    (false, answered)
}

/// Opens frames of any content. The input is a list of frames: a byte that selects how it is sealed (0: as it is, bytes of
/// the path; 1: sealed; 2: sealed and changed), a byte of length, and the bytes. A sealed frame begins with its kind.
///
/// # Panics
/// If a message is longer than is accepted, or a changed frame opens.
pub fn frames(input: &[u8]) {
    static LINE: OnceLock<(Sealer, FrameOpener)> = OnceLock::new();
    frames_over(LINE.get_or_init(line), input);
}

fn frames_over((sealer, opener): &(Sealer, FrameOpener), input: &[u8]) {
    let (mut sealer, mut opener, mut rest) = (sealer.renewed(), opener.renewed(), input);
    while let [how, len, bytes @ ..] = rest {
        let (bytes, left) = bytes.split_at(bytes.len().min(usize::from(*len)));
        rest = left;
        let mut frame = match how {
            0 => bytes.to_vec(),
            _ => sealer.sealed(bytes),
        };
        let is_changed = *how == 2;
        if is_changed {
            let last = frame.len() - 1;
            frame[last] ^= 1;
        }
        let Some((header, sealed)) = frame.split_first_chunk::<HEADER>() else { return };
        let Ok(announced) = announced(*header, MAX) else { return };
        let Ok(message) = opener.open(&sealed[..announced.min(sealed.len())], MAX) else { return };
        assert!(!is_changed, "a changed frame opened");
        assert!(message.is_none_or(|message| message.len() <= MAX), "a message beyond its cap");
    }
}

/// A line from a caller that seals to its agent that opens.
fn line() -> (Sealer, FrameOpener) {
    let (key, ours) = (Key::fixed(), opening_of(VERSION));
    let mut caller = handshake(&key, &ours, true).expect("a handshake");
    let mut agent = handshake(&key, &ours, false).expect("a handshake");
    let (mut first, mut second) = ([0; HANDSHAKE], [0; HANDSHAKE]);
    caller.write_message(&[], &mut first).expect("a first message");
    agent.read_message(&first, &mut []).expect("a first message that opens");
    agent.write_message(&[], &mut second).expect("an answer");
    caller.read_message(&second, &mut []).expect("an answer that opens");
    let finished = |noise| directions(noise).expect("a finished handshake");
    (finished(caller).0, finished(agent).1)
}

impl Sealer {
    fn renewed(&self) -> Sealer {
        Sealer::new(Arc::clone(&self.noise))
    }

    /// A frame with these bytes, its kind among them.
    fn sealed(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADER + plain.len() + crate::opening::SEAL];
        let len = self.noise.write_message(self.number, plain, &mut frame[HEADER..]).expect("a short frame");
        self.number += 1;
        frame[..HEADER].copy_from_slice(&(len as u16).to_be_bytes());
        frame
    }
}

impl FrameOpener {
    fn renewed(&self) -> FrameOpener {
        FrameOpener::new(Arc::clone(&self.noise))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_bytes_pass_the_fuzz_targets(input in prop::collection::vec(any::<u8>(), 0..200)) {
            opening(&input);
            cheap_opening(&input);
            frames(&input);
            cheap_frames(&input);
        }
    }
}
