//! The system calls that move bytes, wait for them, or close a descriptor: their numbers and the layout of their arguments.
//!
//! Numbers are those of this machine's own architecture; those that it does not have are left out (aarch64 has no poll(2)).
//! Never reads the memory of another process.

use libc::c_long;

/// Which arguments of a call state what it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Descriptor first, bytes asked for third.
    Bytes(Way),
    /// Descriptor first, pieces second, their number third.
    Pieces(Way),
    /// Descriptor first, a `struct msghdr` second.
    Message(Way),
    /// Descriptor first, an array of `struct mmsghdr` second, their number third.
    Messages(Way),
    /// From one descriptor to another within the kernel: which argument names the source, the target, the bytes.
    Pass { from: usize, to: usize, bytes: usize },
    /// Waits until descriptors can be read or written.
    Wait,
    /// Ends the descriptor that this argument names.
    End(usize),
    /// `io_uring_enter`: the ring first, how many operations second.
    Ring,
}

/// Which way bytes go, seen from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// To the program.
    In,
    /// From it.
    Out,
}

const PASS_SPLICE: Shape = Shape::Pass { from: 0, to: 2, bytes: 4 };

/// Every call that is looked at.
#[rustfmt::skip]
const CALLS: &[(c_long, &str, Shape)] = &[
    (libc::SYS_read, "read", Shape::Bytes(Way::In)),
    (libc::SYS_write, "write", Shape::Bytes(Way::Out)),
    (libc::SYS_pread64, "pread64", Shape::Bytes(Way::In)),
    (libc::SYS_pwrite64, "pwrite64", Shape::Bytes(Way::Out)),
    (libc::SYS_recvfrom, "recvfrom", Shape::Bytes(Way::In)),
    (libc::SYS_sendto, "sendto", Shape::Bytes(Way::Out)),
    (libc::SYS_readv, "readv", Shape::Pieces(Way::In)),
    (libc::SYS_writev, "writev", Shape::Pieces(Way::Out)),
    (libc::SYS_preadv, "preadv", Shape::Pieces(Way::In)),
    (libc::SYS_pwritev, "pwritev", Shape::Pieces(Way::Out)),
    (libc::SYS_preadv2, "preadv2", Shape::Pieces(Way::In)),
    (libc::SYS_pwritev2, "pwritev2", Shape::Pieces(Way::Out)),
    (libc::SYS_vmsplice, "vmsplice", Shape::Pieces(Way::Out)),
    (libc::SYS_recvmsg, "recvmsg", Shape::Message(Way::In)),
    (libc::SYS_sendmsg, "sendmsg", Shape::Message(Way::Out)),
    (libc::SYS_recvmmsg, "recvmmsg", Shape::Messages(Way::In)),
    (libc::SYS_sendmmsg, "sendmmsg", Shape::Messages(Way::Out)),
    (libc::SYS_sendfile, "sendfile", Shape::Pass { from: 1, to: 0, bytes: 3 }),
    (libc::SYS_splice, "splice", PASS_SPLICE),
    (libc::SYS_copy_file_range, "copy_file_range", PASS_SPLICE),
    (libc::SYS_epoll_pwait, "epoll_pwait", Shape::Wait),
    (libc::SYS_epoll_pwait2, "epoll_pwait2", Shape::Wait),
    (libc::SYS_ppoll, "ppoll", Shape::Wait),
    (libc::SYS_pselect6, "pselect6", Shape::Wait),
    (libc::SYS_close, "close", Shape::End(0)),
    (libc::SYS_dup3, "dup3", Shape::End(1)),
    (libc::SYS_io_uring_enter, "io_uring_enter", Shape::Ring),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait", Shape::Wait),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll", Shape::Wait),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select", Shape::Wait),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_dup2, "dup2", Shape::End(1)),
];

/// The name and shape of a call by its number, if it is one of the traced ones.
pub(super) fn known(number: u64) -> Option<(&'static str, Shape)> {
    let is_it = |(known, ..): &&(c_long, &'static str, Shape)| *known as u64 == number;
    CALLS.iter().find(is_it).map(|(_, name, shape)| (*name, *shape))
}

/// Calls that return `EINTR` whenever their thread is stopped, although no handler of a signal ran (signal(7),
/// "Interruption of system calls and library functions by stop signals"). They can be restarted: they have done nothing.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_restartable(number: u64) -> bool {
    const RESTARTABLE: &[c_long] = &[
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_io_getevents,
        libc::SYS_io_uring_enter,
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_recvfrom,
        libc::SYS_sendto,
        libc::SYS_recvmsg,
        libc::SYS_sendmsg,
        libc::SYS_recvmmsg,
        libc::SYS_accept,
        libc::SYS_accept4,
    ];
    RESTARTABLE.iter().any(|known| *known as u64 == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_occurs_once() {
        for (at, (number, name, _)) in CALLS.iter().enumerate() {
            let again = CALLS[at + 1..].iter().any(|(other, known, _)| other == number || known == name);
            assert!(!again, "{name}");
        }
        assert_eq!(known(libc::SYS_sendto as u64), Some(("sendto", Shape::Bytes(Way::Out))));
        assert_eq!(known(libc::SYS_getpid as u64), None);
    }
}
