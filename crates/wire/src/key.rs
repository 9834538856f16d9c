//! The one secret that both sides hold, and its file.

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Bytes of a key: the size of a pre-shared key in Noise (noiseprotocol.org, revision 34, section 9).
const LEN: usize = 32;

/// First bytes of a key file: the kind of file, and its version.
const TITLE: &str = "bytegauge-key-1 ";

/// Bytes of a key file at most; a longer file is not read to its end.
pub const KEY_FILE_MAX: u64 = 256;

/// Bits of a mode that give access to users other than the owner.
const OTHERS: u32 = 0o077;

/// A secret of 32 random bytes. Its holders may measure.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; LEN]);

/// Why there is no key.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A key is never overwritten: the other side would be locked out.
    #[error("{0} exists, and a key is never overwritten: use it, or remove it first if no host needs it any more")]
    Exists(PathBuf),
    /// It cannot be written.
    #[error("the key file {0} cannot be written ({1}): use a path in a folder that you may write to")]
    Unwritable(PathBuf, io::Error),
    /// It cannot be read.
    #[error("the key file {0} cannot be read ({1}): copy the one that `bytegauge agent --init` made on the other host")]
    Unreadable(PathBuf, io::Error),
    /// Others may read it.
    #[error(
        "users other than its owner can open the key file {0}: run `chmod 600 {0}`, and make a new key if another user has read it"
    )]
    Open(PathBuf),
    /// It holds something else.
    #[error("{0} is not a key file: make one with `bytegauge agent --init --key-file FILE` and copy it to both hosts")]
    Malformed(PathBuf),
    /// The system has no random bytes.
    #[error("the system gives no random bytes ({0}): is getrandom(2) allowed here?")]
    Unrandom(String),
}

/// Random bytes of the kernel (getrandom(2)), fit for keys.
///
/// # Errors
/// [`KeyError::Unrandom`] where a sandbox forbids the call.
pub fn random<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| KeyError::Unrandom(error.to_string()))?;
    Ok(bytes)
}

impl Key {
    /// A new key, in a file that only its owner may read (mode 0600). An existing file is left alone.
    ///
    /// # Errors
    /// [`KeyError`], with the next step.
    pub fn create(path: &Path) -> Result<Key, KeyError> {
        let key = Key(random()?);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(path.into()),
            _ => KeyError::Unwritable(path.into(), error),
        })?;
        let written = file.write_all(format!("{TITLE}{}\n", key.hex()).as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // A part of a key is useless, and would block the next attempt.
            let _ = fs::remove_file(path);
            return Err(KeyError::Unwritable(path.into(), error));
        }
        Ok(key)
    }

    /// The key in a file.
    ///
    /// # Errors
    /// [`KeyError`], with the next step: it cannot be read, others may read it, or it holds something else.
    pub fn read(path: &Path) -> Result<Key, KeyError> {
        let unreadable = |error| KeyError::Unreadable(path.into(), error);
        // Opening a named pipe would wait for its writer.
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(KeyError::Malformed(path.into()));
        }
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.permissions().mode() & OTHERS != 0 {
            return Err(KeyError::Open(path.into()));
        }
        let mut bytes = Vec::new();
        file.take(KEY_FILE_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
        let key = std::str::from_utf8(&bytes).ok().and_then(|text| parse(text.trim_end()));
        key.ok_or_else(|| KeyError::Malformed(path.into()))
    }

    /// A key without secrecy, for tests and the fuzzer.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn fixed() -> Key {
        Key([7; LEN])
    }

    pub(crate) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(2 * LEN), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// A key is never printed.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

fn parse(text: &str) -> Option<Key> {
    let digits = text.strip_prefix(TITLE)?.as_bytes();
    if digits.len() != 2 * LEN {
        return None;
    }
    let mut key = [0; LEN];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| (pair[at] as char).to_digit(16);
        *byte = (digit(0)? * 16 + digit(1)?) as u8;
    }
    Some(Key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_can_read_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let made = Key::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Key::read(&path).unwrap(), made);
        assert_ne!(Key::create(&folder.path().join("other")).unwrap(), made);
        assert_eq!(format!("{made:?}"), "Key(…)");
    }

    #[test]
    fn a_key_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(Key::create(&path), Err(KeyError::Exists(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn other_files_are_refused_with_a_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(Key::read(&path).unwrap_err().to_string().contains("agent --init"));
        let made = Key::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Key::read(&path).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let good = format!("{TITLE}{}", made.hex());
        let long = format!("{good}{}", "0".repeat(1000));
        for bad in ["", "x", TITLE, &good[..good.len() - 1], &format!("{good}0"), &good.replace("-1 ", "-2 "), &long] {
            fs::write(&path, bad).unwrap();
            assert!(matches!(Key::read(&path), Err(KeyError::Malformed(_))), "{bad}");
        }
        fs::write(&path, good).unwrap();
        assert_eq!(Key::read(&path).unwrap(), made);
        assert!(matches!(Key::read(folder.path()), Err(KeyError::Malformed(_))));
    }
}
