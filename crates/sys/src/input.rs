//! Reads whole files that come from outside, each kind up to a size stated here.
//!
//! `docs/input-limits.md` lists these limits and those of other crates.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use thiserror::Error;

/// The size limit of one kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputLimit {
    /// The kind of file.
    pub what: &'static str,
    /// The largest size, bytes.
    pub max_bytes: u64,
}

/// A plan. The largest ready plan has 4 KiB.
pub const PLAN: InputLimit = InputLimit { what: "plan file", max_bytes: 1 << 20 };

/// The configuration of a relay that is a program.
pub const RELAY_CONFIG: InputLimit = InputLimit { what: "relay configuration", max_bytes: 1 << 20 };

/// Stacks that perf(1) printed of one trial.
pub const PERF_SCRIPT: InputLimit = InputLimit { what: "output of perf script", max_bytes: 512 << 20 };

/// Errors that perf(1) printed.
pub const PERF_ERRORS: InputLimit = InputLimit { what: "errors of perf", max_bytes: 1 << 20 };

/// The file with the address of a mesh's rank 0.
pub const RANK_ZERO_ADDRESS: InputLimit = InputLimit { what: "address of rank 0", max_bytes: 64 << 10 };

/// All limits of this module.
pub const INPUT_LIMITS: [InputLimit; 5] = [PLAN, RELAY_CONFIG, PERF_SCRIPT, PERF_ERRORS, RANK_ZERO_ADDRESS];

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum InputError {
    /// It cannot be opened or read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It exceeds the limit.
    #[error("it holds more than {} KiB, the most that a {} may have", .0.max_bytes >> 10, .0.what)]
    TooLarge(InputLimit),
    /// It is not UTF-8.
    #[error("it is not UTF-8 text")]
    NotText,
}

impl InputLimit {
    /// The text of a file. Pipes and devices are read like files, as far as the limit goes.
    ///
    /// # Errors
    /// When it cannot be read, holds more than the limit, or is not text.
    pub fn read(self, path: &Path) -> Result<String, InputError> {
        String::from_utf8(self.read_bytes(path)?).map_err(|_| InputError::NotText)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// When it cannot be read or holds more than the limit.
    pub fn read_bytes(self, path: &Path) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        // One byte more than the limit shows that there is more.
        File::open(path)?.take(self.max_bytes + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > self.max_bytes { Err(InputError::TooLarge(self)) } else { Ok(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_file_is_read_to_its_limit() {
        let read = PLAN.read(Path::new("/dev/zero"));
        assert!(matches!(&read, Err(InputError::TooLarge(limit)) if *limit == PLAN), "{read:?}");
        let message = read.unwrap_err().to_string();
        assert_eq!(message, "it holds more than 1024 KiB, the most that a plan file may have");
    }

    #[test]
    fn file_of_exactly_the_limit_is_read() {
        let limit = InputLimit { what: "test", max_bytes: 3 };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(limit.read(file.path()).unwrap(), "abc");
        std::fs::write(file.path(), "abcd").unwrap();
        assert!(matches!(limit.read(file.path()), Err(InputError::TooLarge(_))));
        std::fs::write(file.path(), b"\xff").unwrap();
        assert!(matches!(limit.read(file.path()), Err(InputError::NotText)));
    }
}
