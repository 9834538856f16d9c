//! Names of error numbers (errno(3)), to distinguish errors that [`std::io::ErrorKind`] does not.
//!
//! Numbers differ between architectures, so they come from libc.

pub use libc::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH,
    EINPROGRESS, EINVAL, EIO, EMFILE, ENETUNREACH, ENFILE, ENOENT, ENOPROTOOPT, EOPNOTSUPP, EPERM, EPIPE, ESRCH,
    ETIMEDOUT,
};
