//! The bytes of a call, as known to both ends: their number and their values.
//!
//! A message of eight bytes or more begins with the call's number, so that a reply to another call is detected by one
//! comparison. A shorter datagram begins with as much of the number as fits, the low bytes, which distinguish a reply from
//! those to earlier calls. In verify mode every byte follows from the number: those of an echo from the flow's own pattern,
//! those of other requests and replies from one pattern each, because a server cannot distinguish its clients' flows.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytegauge_model::{MessageParts, MessageWrites};
use bytegauge_sys::file;

use crate::EndError;
use crate::pattern::{Mismatch, Pattern};
use crate::setup::Setup;

/// Bytes of a call's number at the start of a message.
pub(super) const HEAD: usize = size_of::<u64>();

/// Bits of a call's number that count the calls of one flow; the bits above them are the flow's number.
const COUNT_BITS: u32 = 40;

/// The two patterns that belong to no flow.
const REQUESTS: usize = usize::MAX;
const REPLIES: usize = usize::MAX - 1;

/// The bytes of the calls of one trial.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Bytes of a request.
    pub request: usize,
    /// Bytes of a reply.
    pub response: usize,
    /// Whether a reply is the request itself.
    pub echo: bool,
    /// Bytes of the call's number with which messages begin: all, none, or in short datagrams some.
    pub head: usize,
    /// Whether every byte is compared.
    pub verify: bool,
    seed: u64,
}

impl Terms {
    /// Those of an echo, compared byte for byte.
    #[cfg(test)]
    pub(super) fn for_test(len: usize, head: usize) -> Terms {
        Terms { request: len, response: len, echo: true, head, verify: head > 0, seed: 3 }
    }

    /// The terms of a trial.
    pub fn of(setup: &Setup) -> Terms {
        let room = if setup.is_opaque() { 0 } else { setup.request().min(setup.response()) };
        Terms {
            request: setup.request(),
            response: setup.response(),
            echo: setup.echoes(),
            head: match room {
                HEAD.. => HEAD,
                room if setup.transport().is_datagram() => room,
                _ => 0,
            },
            verify: setup.verify && !setup.is_opaque(),
            seed: setup.seed,
        }
    }

    /// Whether messages carry the whole number.
    pub fn is_numbered(&self) -> bool {
        self.head == HEAD
    }

    /// The part of a number that messages carry.
    pub fn carried(&self, number: u64) -> u64 {
        if self.is_numbered() { number } else { number & ((1 << (8 * self.head)) - 1) }
    }

    /// The part of its number that a message carries; `None` if it is too short even for that.
    pub fn head_of(&self, message: &[u8]) -> Option<u64> {
        let mut head = [0; HEAD];
        head[..self.head].copy_from_slice(message.get(..self.head)?);
        Some(u64::from_le_bytes(head))
    }

    /// The number of a flow's `count`th call.
    pub fn number(flow: usize, count: u64) -> u64 {
        ((flow as u64) << COUNT_BITS) | (count & ((1 << COUNT_BITS) - 1))
    }

    /// Writes the request of a call.
    pub fn write_request(&self, number: u64, request: &mut [u8]) {
        if self.verify {
            let (pattern, offset) = self.pattern_of_request(number);
            pattern.fill(offset, request);
        }
        self.write_head(number, request);
    }

    /// Writes the reply to a request that began with `head`, if it is no echo.
    pub fn write_reply(&self, head: u64, reply: &mut [u8]) {
        if self.verify {
            Pattern::new(self.seed, REPLIES).fill(0, reply);
        }
        self.write_head(head, reply);
    }

    /// Compares bytes of a request at the server, from `at` on. An echo is compared by the client.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn check_request(&self, head: u64, at: usize, bytes: &[u8]) -> Result<(), Mismatch> {
        if !self.verify || self.echo {
            return Ok(());
        }
        let (pattern, offset) = self.pattern_of_request(head);
        self.check(&pattern, offset, at, bytes, head)
    }

    /// Compares bytes of the reply to call `number`, from `at` on; without verify mode only its number.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn check_reply(&self, number: u64, at: usize, bytes: &[u8]) -> Result<(), Mismatch> {
        if !self.verify {
            return self.check_head(number, at, bytes);
        }
        let (pattern, offset) =
            if self.echo { self.pattern_of_request(number) } else { (Pattern::new(self.seed, REPLIES), 0) };
        self.check(&pattern, offset, at, bytes, number)
    }

    fn check(&self, pattern: &Pattern, offset: u64, at: usize, bytes: &[u8], number: u64) -> Result<(), Mismatch> {
        self.check_head(number, at, bytes)?;
        let skip = self.head.saturating_sub(at).min(bytes.len());
        pattern.check(offset + (at + skip) as u64, &bytes[skip..])
    }

    fn check_head(&self, number: u64, at: usize, bytes: &[u8]) -> Result<(), Mismatch> {
        let head = number.to_le_bytes();
        let part = self.head.saturating_sub(at).min(bytes.len());
        match (0..part).find(|i| bytes[*i] != head[at + i]) {
            None => Ok(()),
            Some(i) => Err(Mismatch { offset: (at + i) as u64, expected: head[at + i], found: bytes[i] }),
        }
    }

    /// The pattern of a request's bytes.
    fn pattern_of_request(&self, number: u64) -> (Pattern, u64) {
        if self.echo {
            let (flow, count) = (number >> COUNT_BITS, number & ((1 << COUNT_BITS) - 1));
            return (Pattern::new(self.seed, flow as usize), count * self.request as u64);
        }
        let offset = if self.is_numbered() { (number & ((1 << COUNT_BITS) - 1)) * self.request as u64 } else { 0 };
        (Pattern::new(self.seed, REQUESTS), offset)
    }

    /// Writes as much of a number as messages carry.
    pub(super) fn write_head(&self, number: u64, message: &mut [u8]) {
        message[..self.head].copy_from_slice(&number.to_le_bytes()[..self.head]);
    }
}

/// The parts of a message, where its writer copies them into one buffer before each send; else nothing.
pub(super) fn parts_to_copy(writes: MessageWrites, parts: MessageParts, len: usize) -> Box<[u8]> {
    let copied = if writes == MessageWrites::Copy && parts.first < len { len } else { 0 };
    vec![0x5a; copied].into_boxed_slice()
}

/// A reply in a file in memory, where a server sends all but its first part from one. The number of a call is in the first part, so
/// that the rest of all replies is the same.
///
/// # Errors
/// [`EndError::Missing`] if messages are not of that kind, [`EndError::Io`] if no file can be made.
pub fn reply_file(setup: &Setup) -> Result<Option<Arc<File>>, EndError> {
    let writes = setup.message_writes();
    if !writes.sends_file() {
        return Ok(None);
    }
    let missing = |what: String| Err(EndError::Missing(format!("--message-writes {writes} {what}")));
    if setup.request_parts().is_some() {
        return missing("sends replies: leave out --request-chunk".into());
    }
    if setup.spec.response_parts().is_some_and(|parts| parts.first < HEAD) {
        return missing(format!("numbers the first part of a reply, which needs {HEAD} bytes or more"));
    }
    let mut reply = vec![0; setup.response()];
    Terms::of(setup).write_reply(0, &mut reply);
    let made = || {
        let file = file::in_memory(c"bytegauge")?;
        file.write_all_at(&reply, 0)?;
        Ok(Arc::new(file))
    };
    made().map(Some).map_err(EndError::io("making a file in memory"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(request: usize, response: usize) -> Terms {
        let head = if request.min(response) >= HEAD { HEAD } else { 0 };
        Terms { request, response, echo: request == response, head, verify: true, seed: 3 }
    }

    proptest! {
        #[test]
        fn only_unchanged_bytes_pass(
            request in 1usize..100, response in 1usize..100, count in 0u64..9, flow in 0usize..4,
            cut in 0usize..100, flip in 0usize..800, datagram in any::<bool>(),
        ) {
            let terms = terms(request, response);
            let terms = Terms { head: if datagram { HEAD.min(request).min(response) } else { terms.head }, ..terms };
            let number = Terms::number(flow, count);
            let mut sent = vec![0; request];
            terms.write_request(number, &mut sent);
            prop_assert_eq!(terms.check_request(number, 0, &sent), Ok(()));
            let mut reply = sent.clone();
            if !terms.echo {
                reply = vec![0; response];
                terms.write_reply(number, &mut reply);
            }
            let cut = cut.min(response);
            prop_assert_eq!(terms.check_reply(number, 0, &reply[..cut]), Ok(()));
            prop_assert_eq!(terms.check_reply(number, cut, &reply[cut..]), Ok(()));
            let flip = flip % (8 * response);
            reply[flip / 8] ^= 1 << (flip % 8);
            prop_assert!(terms.check_reply(number, 0, &reply).is_err());
        }
    }

    #[test]
    fn a_short_datagram_carries_the_low_bytes() {
        let short = Terms { head: 2, ..terms(2, 2) };
        let mut bytes = [0; 2];
        short.write_request(Terms::number(7, 0x1_0203), &mut bytes);
        assert_eq!((bytes, short.head_of(&bytes), short.head_of(&bytes[..1])), ([3, 2], Some(0x203), None));
        assert_eq!((short.carried(Terms::number(7, 0x1_0203)), terms(8, 8).carried(u64::MAX)), (0x203, u64::MAX));
        assert_eq!(Terms { head: 0, ..short }.head_of(&[]), Some(0));
    }

    #[test]
    fn reply_to_another_call_is_detected() {
        let terms = Terms { verify: false, ..terms(64, 64) };
        let mut bytes = vec![0; 64];
        terms.write_request(Terms::number(1, 5), &mut bytes);
        assert!(terms.check_reply(Terms::number(1, 5), 0, &bytes).is_ok());
        assert!(terms.check_reply(Terms::number(1, 6), 0, &bytes).is_err());
        assert!(terms.check_reply(Terms::number(2, 5), 0, &bytes).is_err());
    }
}
