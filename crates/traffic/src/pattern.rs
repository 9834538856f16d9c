//! The pattern of verify mode: a byte for every offset of every flow, from a seed.
//!
//! A block that arrives twice, is left out, or comes from another flow does not match, because the byte
//! depends on the offset and on the flow. Eight bytes come from one mixing step ([`mix`]).

use bytegauge_model::mix;

/// The pattern of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    key: u64,
    /// Bytes after which it begins again.
    period: u64,
}

/// A byte that differs from the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} arrived as {found:#04x}, but was sent as {expected:#04x}")]
pub struct Mismatch {
    /// Offset in the stream.
    pub offset: u64,
    /// The byte of the pattern.
    pub expected: u8,
    /// The byte that was found.
    pub found: u8,
}

impl Pattern {
    /// The pattern of flow number `flow` under `seed`.
    pub fn new(seed: u64, flow: usize) -> Pattern {
        Pattern { key: mix(seed ^ mix(flow as u64)), period: u64::MAX }
    }

    /// The same, which begins again after every `period` bytes, a multiple of eight.
    pub fn repeating(self, period: u64) -> Pattern {
        Pattern { period, ..self }
    }

    /// Writes the pattern from `offset` on over `buffer`.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        self.words(offset, buffer.len(), |range, bytes| {
            buffer[range].copy_from_slice(bytes);
            true
        });
    }

    /// Compares `bytes` with the pattern from `offset` on.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn check(&self, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        let mut mismatch = None;
        self.words(offset, bytes.len(), |range, expected| {
            let start = range.start;
            if &bytes[range] == expected {
                return true;
            }
            let at = (0..expected.len()).find(|i| bytes[start + i] != expected[*i]).unwrap_or(0);
            mismatch = Some(Mismatch {
                offset: offset + (start + at) as u64,
                expected: expected[at],
                found: bytes[start + at],
            });
            false
        });
        mismatch.map_or(Ok(()), Err)
    }

    /// Visits the pattern's bytes for `len` bytes from `offset`, at most eight at a time, until `visit`
    /// returns `false`.
    fn words(&self, offset: u64, len: usize, mut visit: impl FnMut(std::ops::Range<usize>, &[u8]) -> bool) {
        let mut done = 0;
        while done < len {
            let at = (offset + done as u64) % self.period;
            let word = mix(self.key ^ (at / 8)).to_le_bytes();
            let skip = (at % 8) as usize;
            let take = (8 - skip).min(len - done);
            if !visit(done..done + take, &word[skip..skip + take]) {
                return;
            }
            done += take;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_of_any_size_are_one_stream(offset in 0u64..1000, cuts in prop::collection::vec(0usize..60, 1..8)) {
            let pattern = Pattern::new(7, 3);
            let mut at = offset;
            for cut in cuts {
                let mut piece = vec![0; cut];
                pattern.fill(at, &mut piece);
                prop_assert_eq!(pattern.check(at, &piece), Ok(()));
                at += cut as u64;
            }
        }

        #[test]
        fn one_flipped_bit_is_found_where_it_is(len in 1usize..300, at in 0usize..300, bit in 0u8..8) {
            let at = at % len;
            let pattern = Pattern::new(7, 3);
            let mut bytes = vec![0; len];
            pattern.fill(100, &mut bytes);
            bytes[at] ^= 1 << bit;
            let mismatch = pattern.check(100, &bytes).unwrap_err();
            prop_assert_eq!(mismatch.offset, 100 + at as u64);
            prop_assert_eq!(mismatch.found, mismatch.expected ^ (1 << bit));
        }
    }

    #[test]
    fn flows_and_shifts_differ() {
        let mut bytes = vec![0; 64];
        Pattern::new(7, 3).fill(0, &mut bytes);
        assert!(Pattern::new(7, 4).check(0, &bytes).is_err());
        assert!(Pattern::new(7, 3).check(8, &bytes).is_err());
    }
}
