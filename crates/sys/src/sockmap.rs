//! Sockets that the kernel redirects to one another: two maps of sockets, and a program of fourteen instructions that
//! names, for what arrives at one socket, the other one (bpf(2), `BPF_PROG_TYPE_SK_SKB`; net/core/sock_map.c).
//!
//! The end of a stream may arrive as a segment of its own, without a byte. The program drops it; nothing is lost, since
//! the kernel has noted the end already. If it were redirected, the kernel would find nothing to send and take that for
//! a failure of the other socket: it reports `EPIPE` there, and redirects nothing more (net/core/skmsg.c, `sk_psock_backlog`).
//!
//! One map holds the targets, by the cookie of the socket at which bytes arrive; the other one holds the sockets whose
//! bytes the program sees. With a single map, bytes that arrive between two entries are dropped: their target is missing.
//!
//! Never reads a byte, and cannot tell when all bytes have passed: `TCP_INFO` of both sockets tells.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt;

use crate::option;
use crate::{errno, kernel};

/// First Linux release, major and minor, in which redirection is sound. Before, a direction whose socket had been full
/// could wait for ever, since the kernel did not check it again (`sk_psock_backlog` of net/core/skmsg.c uses delayed work now).
pub const SINCE: (u32, u32) = (6, 6);

/// How often the program is offered again to a kernel that was interrupted.
const LOADS: usize = 10;

// Commands, types and numbers of bpf(2) (include/uapi/linux/bpf.h).
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const PROG_ATTACH: libc::c_long = 8;
const MAP_TYPE_SOCKHASH: u32 = 18;
const PROG_TYPE_SK_SKB: u32 = 14;
const SK_SKB_VERDICT: u32 = 38;
const PSEUDO_MAP_FD: u8 = 1;
const GET_SOCKET_COOKIE: i32 = 46;
const SK_REDIRECT_HASH: i32 = 72;

/// The attributes of any of these commands: as many words as the longest of them takes here, the others zero.
#[repr(C, align(8))]
#[derive(Default)]
struct Attributes([u32; 32]);

impl Attributes {
    fn of(words: &[u32]) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.0[..words.len()].copy_from_slice(words);
        attributes
    }

    /// A 64-bit value at an even word, as an address or a number.
    fn with_long(mut self, at: usize, value: u64) -> Attributes {
        let halves: [u32; 2] = if cfg!(target_endian = "little") {
            [value as u32, (value >> 32) as u32]
        } else {
            [(value >> 32) as u32, value as u32]
        };
        self.0[at..at + 2].copy_from_slice(&halves);
        self
    }
}

/// One instruction (`struct bpf_insn`).
fn instruction(code: u8, target: u8, source: u8, offset: i16, value: i32) -> u64 {
    let registers = if cfg!(target_endian = "little") { source << 4 | target } else { target << 4 | source };
    let mut bytes = [0; 8];
    (bytes[0], bytes[1]) = (code, registers);
    bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
    bytes[4..].copy_from_slice(&value.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// `return skb->len ? bpf_sk_redirect_hash(skb, &targets, &cookie, 0) : SK_DROP` with the cookie of the socket at which `skb`
/// arrived.
fn program(targets: BorrowedFd<'_>) -> [u64; 14] {
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const CALL: u8 = 0x85;
    [
        instruction(MOVE, 6, 1, 0, 0),
        // `len` is the first word of what the program is given; 0 is SK_DROP, and leads to the end.
        instruction(0x61, 2, 1, 0, 0),
        instruction(SET, 0, 0, 0, 0),
        instruction(0x15, 2, 0, 9, 0),
        instruction(CALL, 0, 0, 0, GET_SOCKET_COOKIE),
        // The cookie goes on the stack, eight bytes below its top.
        instruction(0x7b, 10, 0, -8, 0),
        instruction(MOVE, 1, 6, 0, 0),
        // A constant of 64 bits takes two.
        instruction(0x18, 2, PSEUDO_MAP_FD, 0, targets.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE, 3, 10, 0, 0),
        instruction(0x07, 3, 0, 0, -8),
        instruction(SET, 4, 0, 0, 0),
        instruction(CALL, 0, 0, 0, SK_REDIRECT_HASH),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// Sockets that pass on what arrives at them.
#[derive(Debug)]
pub struct SockMap {
    targets: OwnedFd,
    armed: OwnedFd,
}

impl SockMap {
    /// Makes maps with room for `most` directions. A closed socket leaves them by itself.
    ///
    /// # Errors
    ///
    /// `Unsupported` before [`SINCE`], `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`, `EINVAL` or `ENOSYS` if the kernel was built without it.
    pub fn new(most: u32) -> io::Result<SockMap> {
        if kernel::running_version().is_some_and(|release| release < SINCE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let map = || descriptor(MAP_CREATE, &Attributes::of(&[MAP_TYPE_SOCKHASH, 8, 8, most.max(1)]));
        let (targets, armed) = (map()?, map()?);
        let program = program(targets.as_fd());
        let licence = c"GPL";
        let load = Attributes::of(&[PROG_TYPE_SK_SKB, program.len() as u32])
            .with_long(2, program.as_ptr() as u64)
            .with_long(4, licence.as_ptr() as u64);
        // A signal in the middle of the kernel's check ends it: it is to be asked again (`EAGAIN`, kernel/bpf/verifier.c).
        let mut loaded = descriptor(PROG_LOAD, &load);
        for _ in 0..LOADS {
            match &loaded {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => loaded = descriptor(PROG_LOAD, &load),
                _ => break,
            }
        }
        let program = loaded?;
        let words = [armed.as_raw_fd(), program.as_raw_fd()].map(|fd| fd as u32);
        call(PROG_ATTACH, &Attributes::of(&[words[0], words[1], SK_SKB_VERDICT]))?;
        Ok(SockMap { targets, armed })
    }

    /// Redirects what arrives at a socket from now on to another one, and what is queued there already. Both are
    /// connected over TCP.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the peer of either has ended its stream already: then nothing is redirected. `E2BIG` without room.
    pub fn redirect(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
        let cookie: u64 = sockopt::socket_cookie(from)?;
        let enter = |map: &OwnedFd, socket: BorrowedFd<'_>| {
            let socket = socket.as_raw_fd() as u64;
            let words = Attributes::of(&[map.as_raw_fd() as u32]);
            let (key, value) = (&raw const cookie as u64, &raw const socket as u64);
            call(MAP_UPDATE_ELEM, &words.with_long(2, key).with_long(4, value)).map(drop)
        };
        // The target is there before anything is looked at.
        enter(&self.targets, to)?;
        enter(&self.armed, from)?;
        // Bytes that arrived before wake no reader. Setting the low-water mark wakes the reader if it is reached
        // (net/ipv4/tcp.c, `tcp_set_rcvlowat`).
        option::write_int(from, (libc::SOL_SOCKET, libc::SO_RCVLOWAT), 1)
    }
}

fn descriptor(command: libc::c_long, attributes: &Attributes) -> io::Result<OwnedFd> {
    // SAFETY: these commands make a descriptor.
    unsafe { errno::descriptor(call(command, attributes)?) }
}

fn call(command: libc::c_long, attributes: &Attributes) -> io::Result<libc::c_int> {
    let size = size_of::<Attributes>();
    // SAFETY: the kernel reads `size` bytes of attributes and what they point to: a program, a licence, a key or a value,
    // of which each lives in the caller through the call. It writes nothing: no log is asked for.
    let returned = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size) };
    errno::of(returned as libc::c_int)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::tests::tcp_pair;

    #[test]
    fn bytes_before_and_after_are_redirected() {
        let map = match SockMap::new(4) {
            Ok(map) => map,
            Err(error) => return eprintln!("SKIPPED: no sockmap here: {error}"),
        };
        let ((mut client, front), (back, mut server)) = (tcp_pair(), tcp_pair());
        client.write_all(b"before ").unwrap();
        map.redirect(front.as_fd(), back.as_fd()).unwrap();
        client.write_all(b"and after").unwrap();
        let mut found = [0; 16];
        server.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"before and after");
        map.redirect(back.as_fd(), front.as_fd()).unwrap();
        server.write_all(b"back").unwrap();
        client.read_exact(&mut found[..4]).unwrap();
        assert_eq!(&found[..4], b"back");
    }
}
