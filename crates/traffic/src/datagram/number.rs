//! The number at the front of every datagram: its index in its flow, from 0.
//!
//! Eight bytes, the lowest first, so that a datagram that is shorter holds the low bytes of its number, and one that
//! was truncated shows them. The missing bytes are those of the expected number: right as long as the two differ by less
//! than half of the range of the bytes, 127 datagrams with one byte.

/// Bytes of a whole number.
pub const NUMBER_LEN: usize = 8;

/// Where the number is in a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// The product's own: the number alone, from 0.
    #[default]
    Plain,
    /// iperf3's with counters of eight bytes: seconds, microseconds and the number from 1, the highest byte first.
    Iperf3,
}

/// Bytes at the front of a datagram of iperf3.
const IPERF3_LEN: usize = 16;

/// Writes the front of a datagram of iperf3, sent at `now_ns`. A datagram that is shorter stays as it is.
#[inline]
pub fn write_iperf3(datagram: &mut [u8], number: u64, now_ns: u64) {
    let Some(front) = datagram.first_chunk_mut::<IPERF3_LEN>() else { return };
    let (seconds, us) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000 / 1000);
    front[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
    front[4..8].copy_from_slice(&(us as u32).to_be_bytes());
    front[8..].copy_from_slice(&(number + 1).to_be_bytes());
}

/// Reads the number of a datagram of iperf3. `None`: the datagram is shorter, or is no data.
#[inline]
pub fn read_iperf3(datagram: &[u8]) -> Option<u64> {
    let front: &[u8; IPERF3_LEN] = datagram.first_chunk()?;
    let [.., a, b, c, d, e, f, g, h] = *front;
    u64::from_be_bytes([a, b, c, d, e, f, g, h]).checked_sub(1)
}

/// Writes a number over the front of a datagram.
#[inline]
pub fn write(datagram: &mut [u8], number: u64) {
    let bytes = number.to_le_bytes();
    match datagram.first_chunk_mut() {
        Some(front) => *front = bytes,
        None => {
            let len = datagram.len();
            datagram.copy_from_slice(&bytes[..len]);
        }
    }
}

/// Reads the number of a datagram where `expected` is the next one. `None` for an empty one.
#[inline]
pub fn read(datagram: &[u8], expected: u64) -> Option<u64> {
    match datagram.first_chunk() {
        Some(front) => Some(u64::from_le_bytes(*front)),
        None => nearest(datagram, expected),
    }
}

fn nearest(low: &[u8], expected: u64) -> Option<u64> {
    if low.is_empty() {
        return None;
    }
    let mut bytes = [0; NUMBER_LEN];
    bytes[..low.len()].copy_from_slice(low);
    let range = 1u64 << (8 * low.len());
    let ahead = u64::from_le_bytes(bytes).wrapping_sub(expected) & (range - 1);
    let behind = range - ahead;
    // Before the first one there is none.
    Some(if ahead < range / 2 || behind > expected { expected.saturating_add(ahead) } else { expected - behind })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_round_trip(len in 1usize..20, number in 1000u64..u64::MAX / 2, apart in -100i64..100) {
            let mut datagram = vec![7; len];
            write(&mut datagram, number);
            prop_assert_eq!(read(&datagram, number.wrapping_add_signed(apart)), Some(number));
        }

        #[test]
        fn iperf3_numbers_survive_the_way(len in 16usize..40, number in 0u64..u64::MAX, now_ns: u64) {
            let mut datagram = vec![7; len];
            write_iperf3(&mut datagram, number, now_ns);
            prop_assert_eq!(read_iperf3(&datagram), Some(number));
            prop_assert_eq!(read_iperf3(&datagram[..15]), None);
        }

        #[test]
        fn truncated_numbers_are_restored(kept in 1usize..8, number in 1000u64..u64::MAX / 2) {
            let mut datagram = vec![7; 100];
            write(&mut datagram, number);
            prop_assert_eq!(read(&datagram[..kept], number), Some(number));
        }
    }

    #[test]
    fn the_first_ones_have_none_before_them() {
        assert_eq!(read(&[0], 0), Some(0));
        assert_eq!(read(&[200], 0), Some(200));
        assert_eq!(read(&[255], 300), Some(255));
        assert_eq!(read(&[], 7), None);
    }
}
