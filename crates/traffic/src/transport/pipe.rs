//! A pipe. It is made as a named one, so that two processes can meet, and loses its name at once.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytegauge_sys::io::set_nonblocking;
use bytegauge_sys::pipe::{O_NONBLOCK, make_fifo};

use crate::address::Address;
use crate::setup::Setup;
use crate::transport::options::Moment;
use crate::transport::{Listening, set_options};
use crate::{EndError, keeper};
use bytegauge_model::Side;

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
