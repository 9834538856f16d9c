//! Encryption of connections: none, by a library in the program, or by the kernel.

use crate::name_tables::{Engine, EpollMode, names};

names! {
    /// How a connection is encrypted.
    #[derive(Default)]
    Tls, "kind of encryption", TLS_KINDS {
        #[default]
        None = "none": "bytes are not encrypted",
        Rustls = "rustls": "TLS 1.3 by the library rustls, as in Rust programs",
        Kernel = "kernel": "TLS 1.3 by the kernel (kTLS), keys set without a handshake",
    }
}

impl Tls {
    /// Whether an end of a stream can use it with this engine.
    pub fn fits_stream(self, engine: Engine) -> bool {
        match self {
            Tls::None => true,
            Tls::Rustls => engine == Engine::Blocking,
            Tls::Kernel => works_with_kernel(engine),
        }
    }

    /// Whether an end of calls can use it with this engine.
    pub fn fits_call(self, engine: Engine) -> bool {
        match self {
            Tls::None => true,
            Tls::Rustls => matches!(engine, Engine::Blocking | Engine::Epoll(_)),
            Tls::Kernel => works_with_kernel(engine),
        }
    }
}

/// Whether an engine works over a connection that the kernel encrypts.
///
/// The kernel returns decrypted records one by one, so after a receive that left room in its buffer there may be more, which no edge
/// announces: an engine that waits for one would stall. The kernel also refuses sends with `MSG_WAITALL` (net/tls/tls_sw.c,
/// `tls_sw_sendmsg`), which io_uring needs for whole messages.
fn works_with_kernel(engine: Engine) -> bool {
    matches!(engine, Engine::Blocking | Engine::Epoll(EpollMode { edge: false, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_fit_who_encrypts() {
        let check = |tls: Tls, engine: &str, expected| {
            let engine = engine.parse().unwrap();
            assert_eq!((tls.fits_stream(engine), tls.fits_call(engine)), expected, "{tls} {engine}");
        };
        check(Tls::Rustls, "blocking", (true, true));
        check(Tls::Rustls, "epoll:edge", (false, true));
        check(Tls::Rustls, "uring", (false, false));
        check(Tls::Kernel, "uring", (false, false));
        check(Tls::Kernel, "epoll", (true, true));
        check(Tls::Kernel, "epoll:edge", (false, false));
        check(Tls::Kernel, "tokio", (false, false));
        check(Tls::None, "tokio", (true, true));
    }
}
