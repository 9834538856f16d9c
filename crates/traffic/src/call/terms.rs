//! What both ends know of a call's bytes: how long they are, and what they must be.
//!
//! A message of eight bytes or more begins with the call's number, so that a reply that belongs to another
//! call is noticed for the price of one comparison. In verify mode every byte follows from the number: those
//! of an echo from the flow's own pattern, those of other requests and replies from one pattern each, because
//! a server cannot tell its clients' flows apart.

use crate::call::setup::CallSetup;
use crate::message::PathSetup;
use crate::pattern::{Mismatch, Pattern};

/// Bytes of a call's number at the front of a message.
pub(super) const HEAD: usize = size_of::<u64>();

/// Bits of a call's number that count the calls of one flow; the flow stands above them.
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
    /// Whether messages carry the call's number.
    pub numbered: bool,
    /// Whether every byte is compared.
    pub verify: bool,
    seed: u64,
}

impl Terms {
    /// The terms of a trial.
    pub fn of(setup: &PathSetup, call: &CallSetup) -> Terms {
        Terms {
            request: call.request,
            response: call.response,
            echo: call.echoes(),
            numbered: call.request >= HEAD && call.response >= HEAD && !call.opaque,
            verify: setup.verify && !call.opaque,
            seed: setup.seed,
        }
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

    /// Writes the reply to a request that began with `head`, where it is no echo.
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
        let (pattern, offset) = self.pattern_of_request(if self.numbered { head } else { 0 });
        self.check(&pattern, offset, at, bytes, self.numbered.then_some(head))
    }

    /// Compares bytes of the reply to call `number`, from `at` on; without verify mode only its number.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn check_reply(&self, number: u64, at: usize, bytes: &[u8]) -> Result<(), Mismatch> {
        if !self.verify {
            return if self.numbered { check_head(number, at, bytes) } else { Ok(()) };
        }
        let (pattern, offset) =
            if self.echo { self.pattern_of_request(number) } else { (Pattern::new(self.seed, REPLIES), 0) };
        self.check(&pattern, offset, at, bytes, self.numbered.then_some(number))
    }

    fn check(
        &self,
        pattern: &Pattern,
        offset: u64,
        at: usize,
        bytes: &[u8],
        head: Option<u64>,
    ) -> Result<(), Mismatch> {
        let mut skip = 0;
        if let Some(head) = head {
            check_head(head, at, bytes)?;
            skip = HEAD.saturating_sub(at).min(bytes.len());
        }
        pattern.check(offset + (at + skip) as u64, &bytes[skip..])
    }

    /// Where the bytes of a request come from.
    fn pattern_of_request(&self, number: u64) -> (Pattern, u64) {
        if self.echo {
            let (flow, count) = (number >> COUNT_BITS, number & ((1 << COUNT_BITS) - 1));
            return (Pattern::new(self.seed, flow as usize), count * self.request as u64);
        }
        let offset = if self.numbered { (number & ((1 << COUNT_BITS) - 1)) * self.request as u64 } else { 0 };
        (Pattern::new(self.seed, REQUESTS), offset)
    }

    fn write_head(&self, number: u64, message: &mut [u8]) {
        if self.numbered {
            message[..HEAD].copy_from_slice(&number.to_le_bytes());
        }
    }
}

fn check_head(number: u64, at: usize, bytes: &[u8]) -> Result<(), Mismatch> {
    let head = number.to_le_bytes();
    if at >= HEAD {
        return Ok(());
    }
    let part = bytes.len().min(HEAD - at);
    match (0..part).find(|i| bytes[*i] != head[at + i]) {
        None => Ok(()),
        Some(i) => Err(Mismatch { offset: (at + i) as u64, expected: head[at + i], found: bytes[i] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms(request: usize, response: usize) -> Terms {
        let numbered = request >= HEAD && response >= HEAD;
        Terms { request, response, echo: request == response, numbered, verify: true, seed: 3 }
    }

    proptest! {
        #[test]
        fn what_is_written_passes_in_pieces_and_a_flipped_bit_does_not(
            request in 1usize..100, response in 1usize..100, count in 0u64..9, flow in 0usize..4,
            cut in 0usize..100, flip in 0usize..800,
        ) {
            let terms = terms(request, response);
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
    fn the_reply_to_another_call_is_noticed_without_verify_mode() {
        let terms = Terms { verify: false, ..terms(64, 64) };
        let mut bytes = vec![0; 64];
        terms.write_request(Terms::number(1, 5), &mut bytes);
        assert!(terms.check_reply(Terms::number(1, 5), 0, &bytes).is_ok());
        assert!(terms.check_reply(Terms::number(1, 6), 0, &bytes).is_err());
        assert!(terms.check_reply(Terms::number(2, 5), 0, &bytes).is_err());
    }
}
