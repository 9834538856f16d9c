//! The class of an error number of a call.

use bytegauge_model::ErrorClass;
use bytegauge_sys::errno;

const CLASSES: &[(i32, ErrorClass)] = &[
    (errno::EPIPE, ErrorClass::Reset),
    (errno::ECONNRESET, ErrorClass::Reset),
    (errno::ECONNABORTED, ErrorClass::Reset),
    (errno::ECONNREFUSED, ErrorClass::Refused),
    // A Unix socket whose name has been removed.
    (errno::ENOENT, ErrorClass::Refused),
    (errno::ETIMEDOUT, ErrorClass::TimedOut),
    (errno::EADDRNOTAVAIL, ErrorClass::NoPort),
    (errno::EADDRINUSE, ErrorClass::NoPort),
    (errno::EMFILE, ErrorClass::NoDescriptor),
    (errno::ENFILE, ErrorClass::NoDescriptor),
    (errno::ENETUNREACH, ErrorClass::Unreachable),
    (errno::EHOSTUNREACH, ErrorClass::Unreachable),
];

/// The class of a failed attempt to connect. Only a non-blocking Unix socket gets `EAGAIN`, if the backlog is full.
pub fn class_of_connect(errno: i32) -> ErrorClass {
    if errno == errno::EAGAIN { ErrorClass::BacklogFull } else { class_of(errno) }
}

/// The class of an error number.
pub fn class_of(errno: i32) -> ErrorClass {
    CLASSES.iter().find(|(number, _)| *number == errno).map_or(ErrorClass::Other(errno), |(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_class_keeps_its_number() {
        assert_eq!(class_of(errno::EAFNOSUPPORT), ErrorClass::Other(errno::EAFNOSUPPORT));
    }

    #[test]
    fn full_backlog_differs_from_no_listener() {
        assert_eq!(class_of_connect(errno::EAGAIN), ErrorClass::BacklogFull);
        assert_eq!([errno::ENOENT, errno::ECONNREFUSED].map(class_of_connect), [ErrorClass::Refused; 2]);
        assert_eq!(class_of(errno::EAGAIN), ErrorClass::Other(errno::EAGAIN));
    }
}
