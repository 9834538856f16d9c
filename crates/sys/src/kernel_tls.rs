//! TLS by the kernel (Documentation/networking/tls.rst): a connection encrypts what it sends and decrypts what it receives.
//!
//! The keys are those that the caller gives, without a handshake. Every engine then moves plain bytes with its usual calls.

use std::io;
use std::os::fd::BorrowedFd;

use crate::errno;
use crate::option;

/// Bytes of a key of AES-256.
pub const KEY_LEN: usize = libc::TLS_CIPHER_AES_GCM_256_KEY_SIZE;

/// Nonce and number of the first record of a direction.
const IV: [u8; libc::TLS_CIPHER_AES_GCM_256_IV_SIZE] = [0; libc::TLS_CIPHER_AES_GCM_256_IV_SIZE];
const SALT: [u8; libc::TLS_CIPHER_AES_GCM_256_SALT_SIZE] = [0; libc::TLS_CIPHER_AES_GCM_256_SALT_SIZE];
const FIRST_RECORD: [u8; libc::TLS_CIPHER_AES_GCM_256_REC_SEQ_SIZE] = [0; libc::TLS_CIPHER_AES_GCM_256_REC_SEQ_SIZE];

/// The keys of a connection, seen from one end.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The key of the direction in which this end sends.
    pub send: [u8; KEY_LEN],
    /// The key of the other direction.
    pub receive: [u8; KEY_LEN],
}

/// Has the kernel encrypt a connected TCP socket with TLS 1.3 and AES-256-GCM, in both directions.
///
/// # Errors
///
/// [`is_missing`] where this kernel has no TLS, `EOPNOTSUPP` for a socket that is not TCP, `ENOTCONN` before the connection is
/// established, `EINVAL` where the kernel lacks TLS 1.3 or the cipher.
pub fn encrypt(fd: BorrowedFd<'_>, keys: &Keys) -> io::Result<()> {
    option::write_bytes(fd, (libc::IPPROTO_TCP, libc::TCP_ULP), b"tls")?;
    for (direction, key) in [(libc::TLS_TX, &keys.send), (libc::TLS_RX, &keys.receive)] {
        option::write_bytes(fd, (libc::SOL_TLS, direction), &crypto_info(key))?;
    }
    Ok(())
}

/// Whether an error of [`encrypt`] means that the kernel has no TLS, or has not loaded it: it loads the module only for a process
/// with `CAP_NET_ADMIN` (`tcp_ulp_find_autoload`, net/ipv4/tcp_ulp.c).
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(errno::ENOENT | errno::ENOPROTOOPT))
}

/// `struct tls12_crypto_info_aes_gcm_256` of linux/tls.h, which TLS 1.3 uses too: version, cipher, nonce, key, salt, record.
fn crypto_info(key: &[u8; KEY_LEN]) -> Vec<u8> {
    let version = libc::TLS_1_3_VERSION;
    let cipher = libc::TLS_CIPHER_AES_GCM_256;
    [&version.to_ne_bytes()[..], &cipher.to_ne_bytes(), &IV, key, &SALT, &FIRST_RECORD].concat()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::io as calls;
    use crate::tests::tcp_pair;

    const KEYS: Keys = Keys { send: [1; KEY_LEN], receive: [2; KEY_LEN] };

    #[test]
    fn the_structure_is_as_long_as_the_kernels() {
        assert_eq!(crypto_info(&KEYS.send).len(), size_of::<libc::tls12_crypto_info_aes_gcm_256>());
    }

    #[test]
    fn bytes_pass_encrypted_or_the_kernel_lacks_it() {
        let (client, server) = tcp_pair();
        let theirs = Keys { send: KEYS.receive, receive: KEYS.send };
        match encrypt(client.as_fd(), &KEYS) {
            Ok(()) => {
                encrypt(server.as_fd(), &theirs).unwrap();
                let mut buffer = [0; 16];
                for (from, to) in [(&client, &server), (&server, &client)] {
                    assert_eq!(calls::write(from.as_fd(), b"text").unwrap(), 4);
                    assert_eq!((calls::read(to.as_fd(), &mut buffer).unwrap(), &buffer[..4]), (4, &b"text"[..]));
                }
            }
            Err(error) => assert!(is_missing(&error), "{error}"),
        }
    }

    #[test]
    fn other_sockets_and_files_are_refused() {
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(encrypt(unix.as_fd(), &KEYS).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = encrypt(file.as_fd(), &KEYS).unwrap_err();
        assert!(!is_missing(&error), "{error}");
    }
}
