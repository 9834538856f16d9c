//! What an error number means for a call.

use bytegauge_model::ErrorClass;

/// The numbers of Linux (asm-generic/errno.h), which are the same on every machine this runs on.
const CLASSES: &[(i32, ErrorClass)] = &[
    (32, ErrorClass::Reset),        // EPIPE
    (104, ErrorClass::Reset),       // ECONNRESET
    (103, ErrorClass::Reset),       // ECONNABORTED
    (111, ErrorClass::Refused),     // ECONNREFUSED
    (2, ErrorClass::Refused),       // ENOENT: a Unix socket whose name is gone
    (110, ErrorClass::TimedOut),    // ETIMEDOUT
    (99, ErrorClass::NoPort),       // EADDRNOTAVAIL
    (98, ErrorClass::NoPort),       // EADDRINUSE
    (24, ErrorClass::NoDescriptor), // EMFILE
    (23, ErrorClass::NoDescriptor), // ENFILE
    (101, ErrorClass::Unreachable), // ENETUNREACH
    (113, ErrorClass::Unreachable), // EHOSTUNREACH
];

/// `EAGAIN`: only a Unix socket that does not block says so to connect(2), where the backlog is full.
const AGAIN: i32 = 11;

/// The class of what an attempt to connect was told.
pub fn class_of_connect(errno: i32) -> ErrorClass {
    if errno == AGAIN { ErrorClass::BacklogFull } else { class_of(errno) }
}

/// The class of an error number.
pub fn class_of(errno: i32) -> ErrorClass {
    CLASSES.iter().find(|(number, _)| *number == errno).map_or(ErrorClass::Other(errno), |(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn the_numbers_are_those_of_this_kernel() {
        let kind = |class| {
            let (number, _) = CLASSES.iter().find(|(_, other)| *other == class).unwrap();
            Error::from_raw_os_error(*number).kind()
        };
        assert_eq!(kind(ErrorClass::Reset), ErrorKind::BrokenPipe);
        assert_eq!(kind(ErrorClass::Refused), ErrorKind::ConnectionRefused);
        assert_eq!(kind(ErrorClass::TimedOut), ErrorKind::TimedOut);
        assert_eq!(kind(ErrorClass::NoPort), ErrorKind::AddrNotAvailable);
        assert_eq!(kind(ErrorClass::Unreachable), ErrorKind::NetworkUnreachable);
        assert_eq!(class_of(5), ErrorClass::Other(5));
        assert_eq!(Error::from_raw_os_error(AGAIN).kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_full_backlog_is_told_from_nobody_there() {
        assert_eq!(class_of_connect(AGAIN), ErrorClass::BacklogFull);
        assert_eq!([2, 111].map(class_of_connect), [ErrorClass::Refused; 2]);
        assert_eq!(class_of(AGAIN), ErrorClass::Other(AGAIN));
    }
}
