//! A message of a device: one packet, or a train of TCP segments that the kernel leaves to the device to cut, as for a network
//! card (TSO). The link counts it as packets. Segments that arrive together are given as a train again, as by a card that merges
//! them (GRO): one system call for each packet would fill a CPU at 1 Gbit/s.

use std::io;
use std::ops::Range;

use bytegauge_sys::network::{Offload, PREFIX};

use crate::direction::Train;

/// Offsets in a header of IPv4 (RFC 791) and of TCP (RFC 9293) after it.
const IP_LENGTH: usize = 2;
const IP_ID: usize = 4;
const IP_CHECKSUM: usize = 10;
const IP_ADDRESSES: Range<usize> = 12..20;
const TCP_SEQUENCE: usize = 4;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;

/// The number of TCP in a header of IP.
const TCP: u16 = 6;

/// Flags that only the last segment of a train has, FIN and PSH.
const OF_THE_LAST: u8 = 0x09;

/// Flag that only the first segment has, CWR (RFC 3168).
const OF_THE_FIRST: u8 = 0x80;

/// A message of a device, with the prefix that describes it.
#[derive(Debug)]
pub(super) struct TakenMessage<'a> {
    message: &'a [u8],
    /// For a train: bytes of the IP header, of both headers, and of the payload of each packet but the last.
    cut: Option<(usize, usize, usize)>,
}

impl TakenMessage<'_> {
    /// A message from a device.
    ///
    /// # Errors
    /// For a message that is neither one packet nor a train of TCP over IPv4: the device accepts no other train.
    pub(super) fn of(message: &[u8]) -> io::Result<TakenMessage<'_>> {
        let odd = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let packet = message.get(PREFIX..).ok_or_else(|| odd("a packet without its prefix"))?;
        let cut = match Offload::of(message).segment_bytes() {
            None => None,
            Some(segment) => {
                let ip = usize::from(packet.first().ok_or_else(|| odd("an empty train"))? & 0x0f) * 4;
                let tcp = usize::from(packet.get(ip + 12).ok_or_else(|| odd("a train without a header"))? >> 4) * 4;
                if segment == 0 || ip < 20 || tcp < 20 || packet.len() < ip + tcp {
                    return Err(odd("a train with an invalid header"));
                }
                Some((ip, ip + tcp, segment))
            }
        };
        Ok(TakenMessage { message, cut })
    }

    fn packet(&self) -> &[u8] {
        &self.message[PREFIX..]
    }
}

impl Train for TakenMessage<'_> {
    type Piece = Vec<u8>;

    fn packets(&self) -> usize {
        self.cut.map_or(1, |(_, headers, segment)| (self.packet().len() - headers).div_ceil(segment).max(1))
    }

    fn bytes(&self, packet: usize) -> u64 {
        let length = self.packet().len();
        let bytes = self.cut.map_or(length, |(_, headers, segment)| {
            headers + (length - headers).saturating_sub(packet * segment).min(segment)
        });
        bytes as u64
    }

    fn cut(&self, packets: Range<usize>) -> Vec<u8> {
        let is_whole = packets == (0..self.packets());
        let Some((ip, headers, segment)) = self.cut.filter(|_| !is_whole) else { return self.message.to_vec() };
        let payload = &self.packet()[headers..];
        let begin = packets.start * segment;
        let end = (packets.end * segment).min(payload.len());
        let several = (packets.len() > 1).then_some(segment as u16);
        let offload = Offload::of(self.message).of_piece(headers as u16, several);
        let headers = &self.packet()[..headers];
        let mut piece = [offload.bytes(), headers, &payload[begin..end]].concat();
        let (before, tcp) = piece[PREFIX..].split_at_mut(ip);
        let tcp_bytes = tcp.len() as u16;
        put(before, IP_LENGTH, ip as u16 + tcp_bytes);
        put(before, IP_ID, number(before, IP_ID).wrapping_add(packets.start as u16));
        put(before, IP_CHECKSUM, 0);
        put(before, IP_CHECKSUM, !sum(before));
        let sequence = u32::from(number(tcp, TCP_SEQUENCE)) << 16 | u32::from(number(tcp, TCP_SEQUENCE + 2));
        tcp[TCP_SEQUENCE..TCP_SEQUENCE + 4].copy_from_slice(&sequence.wrapping_add(begin as u32).to_be_bytes());
        if packets.start > 0 {
            tcp[TCP_FLAGS] &= !OF_THE_FIRST;
        }
        if end < payload.len() {
            tcp[TCP_FLAGS] &= !OF_THE_LAST;
        }
        // The sum of the addresses, the protocol and the length only: the device adds the rest.
        let pseudo = [&before[IP_ADDRESSES], &TCP.to_be_bytes(), &tcp_bytes.to_be_bytes()].concat();
        put(tcp, TCP_CHECKSUM, sum(&pseudo));
        piece
    }
}

fn number(header: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

fn put(header: &mut [u8], at: usize, number: u16) {
    header[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// The ones' complement sum of 16-bit words (RFC 1071) of an even number of bytes.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A train of 250 bytes in segments of 100, as from a kernel.
    fn train(flags: u8) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
        put(&mut ip, IP_LENGTH, 52 + 250);
        let checksum = !sum(&ip);
        put(&mut ip, IP_CHECKSUM, checksum);
        let mut tcp = vec![0; 32];
        tcp[TCP_SEQUENCE..TCP_SEQUENCE + 4].copy_from_slice(&0xffff_ffce_u32.to_be_bytes());
        tcp[12] = 8 << 4;
        tcp[TCP_FLAGS] = flags;
        [&Offload::of(&[]).of_piece(52, Some(100)).bytes()[..], &ip, &tcp, &(0..250).collect::<Vec<u8>>()].concat()
    }

    fn check(packets: Range<usize>, segment: Option<usize>, id: u16, sequence: u32, flags: u8, payload: Range<u8>) {
        let message = train(0x99);
        let piece = TakenMessage::of(&message).unwrap().cut(packets);
        assert_eq!(Offload::of(&piece).segment_bytes(), segment);
        let (ip, tcp) = (&piece[PREFIX..PREFIX + 20], &piece[PREFIX + 20..]);
        assert_eq!(u16::from_be_bytes([ip[2], ip[3]]) as usize, ip.len() + tcp.len());
        assert_eq!(u16::from_be_bytes([ip[4], ip[5]]), id);
        // A header with a correct checksum has a sum of all ones.
        assert_eq!(sum(ip), 0xffff);
        assert_eq!(tcp[4..8], sequence.to_be_bytes());
        assert_eq!(tcp[TCP_FLAGS], flags);
        assert_eq!(tcp[32..], payload.collect::<Vec<u8>>());
        let pseudo = [&ip[IP_ADDRESSES], &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
        assert_eq!(tcp[16..18], sum(&pseudo).to_be_bytes());
    }

    #[test]
    fn a_train_is_cut_between_its_packets() {
        let message = train(0x99);
        let taken = TakenMessage::of(&message).unwrap();
        assert_eq!((taken.packets(), [0, 1, 2].map(|at| taken.bytes(at))), (3, [152, 152, 102]));
        assert_eq!(taken.cut(0..3), message);
        // Sequence numbers and packet numbers wrap around.
        check(0..1, None, 0xffff, 0xffff_ffce, 0x90, 0..100);
        check(0..2, Some(100), 0xffff, 0xffff_ffce, 0x90, 0..200);
        check(1..3, Some(100), 0, 50, 0x19, 100..250);
        check(2..3, None, 1, 150, 0x19, 200..250);
    }

    #[test]
    fn a_malformed_message_is_refused() {
        let mut message = train(0x10);
        let one_packet = Offload::of(&message).of_piece(52, None);
        message[..PREFIX].copy_from_slice(one_packet.bytes());
        let taken = TakenMessage::of(&message).unwrap();
        assert_eq!((taken.packets(), taken.bytes(0), taken.cut(0..1)), (1, 302, message.clone()));
        for length in [0, PREFIX - 1, PREFIX, PREFIX + 25, PREFIX + 51] {
            let message = train(0x10);
            assert!(TakenMessage::of(&message[..length]).is_err(), "{length}");
        }
    }
}
