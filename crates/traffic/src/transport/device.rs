//! One-ended sources: a device or any readable file. There is no listener and no writer.

use std::fs::File;
use std::os::fd::OwnedFd;

use bytegauge_model::Transport;

use crate::EndError;
use crate::address::Address;
use crate::setup::Setup;
use crate::transport::Listening;

/// The sink without a source.
pub(super) fn alone() -> Listening {
    let accept = |setup: &Setup| {
        let Transport::Source(path) = setup.transport() else { return Ok(Vec::new()) };
        (0..setup.joined()).map(|_| open(path).map(OwnedFd::from)).collect()
    };
    Listening { address: Address::Alone, accept: Box::new(accept) }
}

/// Opens a source, or returns why it is none.
///
/// # Errors
/// [`EndError::Missing`] with the reason and the next step.
pub(crate) fn open(path: &str) -> Result<File, EndError> {
    let missing = |why: String| EndError::Missing(format!("{path} cannot be read: {why}: check --transport"));
    let file = File::open(path).map_err(|error| missing(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| missing(error.to_string()))?;
    if metadata.is_dir() {
        return Err(missing("it is a directory".into()));
    }
    if metadata.is_file() && metadata.len() == 0 {
        return Err(missing("it is empty".into()));
    }
    Ok(file)
}

/// Whether a source can be opened, before it is planned.
///
/// # Errors
/// The reason, with the next step.
pub fn probe(path: &str) -> Result<(), String> {
    // A named pipe or terminal would block in open(2) until there is a writer.
    use std::os::unix::fs::FileTypeExt;
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
    if kind.as_ref().is_ok_and(FileTypeExt::is_fifo) {
        return Err(format!("{path} is a named pipe: measure pipes with --transport pipe"));
    }
    if kind.is_ok_and(|kind| kind.is_socket()) {
        return Err(format!("{path} is a socket: measure sockets with --transport unix"));
    }
    open(path).map(drop).map_err(|fault| fault.to_string())
}
