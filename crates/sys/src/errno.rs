//! Error numbers by their names (errno(3)), for whoever has to tell apart what [`std::io::ErrorKind`] does not.
//!
//! Never a number written by hand: some differ between architectures.

pub use libc::{
    EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINPROGRESS,
    EMFILE, ENETUNREACH, ENFILE, ENOENT, EOPNOTSUPP, EPERM, EPIPE, ESRCH, ETIMEDOUT,
};
