//! Transports without sockets: pipes, and one-ended sources (a device or any readable file), which have no listener and no writer.
//!
//! A pipe is made as a named one, so that two processes can meet, and loses its name at once.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use bytegauge_model::{Side, Transport};
use bytegauge_sys::io::set_nonblocking;
use bytegauge_sys::pipe::{O_NONBLOCK, make_fifo};

use crate::address::Address;
use crate::setup::Setup;
use crate::transport::options::Moment;
use crate::transport::{Listening, set_options};
use crate::{EndError, keeper};

/// The reading ends.
pub(super) fn listen(setup: &Setup) -> Result<Listening, EndError> {
    let folder = keeper::folder().map_err(EndError::io("making a folder for pipes"))?;
    let (mut paths, mut readers) = (Vec::new(), Vec::new());
    for flow in 0..setup.joined() {
        let path = folder.path().join(flow.to_string());
        make_fifo(&path).map_err(EndError::io(format!("making the pipe {}", path.display())))?;
        // Opening for reading without a writer waits, unless non-blocking (fifo(7)).
        readers.push(open(&path, OpenOptions::new().read(true))?);
        paths.push(path);
    }
    let accept = move |_: &Setup| {
        // Moved into this function: the folder is removed with it, and nothing depends on the names any more then.
        let _held = &folder;
        // No read happens before `Go`, and `Go` comes after the source has opened its side: from here on a
        // read that finds nothing may wait, and never takes "no writer yet" for the end.
        let readers = std::mem::take(&mut readers);
        for reader in &readers {
            set_nonblocking(reader.as_fd(), false).map_err(EndError::io("making a pipe wait"))?;
        }
        Ok(readers)
    };
    Ok(Listening { address: Address::Fifos(paths), accept: Box::new(accept) })
}

/// The writing ends.
pub(super) fn connect(address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
    let Address::Fifos(paths) = address else {
        return Err(EndError::Impossible(format!("a pipe cannot connect to {address:?}")));
    };
    let opened = paths.iter().map(|path| {
        let writer = open(path, OpenOptions::new().write(true))?;
        set_nonblocking(writer.as_fd(), false).map_err(EndError::io("making a pipe wait"))?;
        set_options(&writer, Moment::Own, Side::Source, setup)?;
        Ok(writer)
    });
    opened.collect()
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<OwnedFd, EndError> {
    let file = options.custom_flags(O_NONBLOCK).open(path);
    file.map(OwnedFd::from).map_err(EndError::io(format!("opening the pipe {}", path.display())))
}

/// The sink without a source.
pub(super) fn alone() -> Listening {
    let accept = |setup: &Setup| {
        let Transport::Source(path) = setup.transport() else { return Ok(Vec::new()) };
        (0..setup.joined()).map(|_| open_source(path).map(OwnedFd::from)).collect()
    };
    Listening { address: Address::Alone, accept: Box::new(accept) }
}

/// Opens a source, or returns why it is none.
///
/// # Errors
/// [`EndError::Missing`] with the reason and the next step.
fn open_source(path: &str) -> Result<File, EndError> {
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
pub(super) fn probe(path: &str) -> Result<(), String> {
    // A named pipe or terminal would block in open(2) until there is a writer.
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
    if kind.as_ref().is_ok_and(FileTypeExt::is_fifo) {
        return Err(format!("{path} is a named pipe: measure pipes with --transport pipe"));
    }
    if kind.is_ok_and(|kind| kind.is_socket()) {
        return Err(format!("{path} is a socket: measure sockets with --transport unix"));
    }
    open_source(path).map(drop).map_err(|fault| fault.to_string())
}
