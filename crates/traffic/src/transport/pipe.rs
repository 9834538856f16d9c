//! A pipe. It is made as a named one, so that two processes can meet, and loses its name at once.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytegauge_sys::io::set_nonblocking;
use bytegauge_sys::owner::OwnedFolder;
use bytegauge_sys::pipe::{O_NONBLOCK, make_fifo};

use crate::address::Address;
use crate::setup::Setup;
use crate::transport::options::Moment;
use crate::transport::{Joint, Listening, set_options};
use crate::{EndError, keeper};
use bytegauge_model::Side;

/// The joint of `pipe`.
pub struct Pipe;

struct Fifos {
    /// Removed with this value: nothing depends on the names any more.
    folder: OwnedFolder,
    paths: Vec<PathBuf>,
    readers: Vec<OwnedFd>,
}

impl Joint for Pipe {
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listening>, EndError> {
        let folder = keeper::folder().map_err(EndError::io("making a folder for pipes"))?;
        let mut fifos = Fifos { folder, paths: Vec::new(), readers: Vec::new() };
        for flow in 0..setup.joined() {
            let path = fifos.folder.path().join(flow.to_string());
            make_fifo(&path).map_err(EndError::io(format!("making the pipe {}", path.display())))?;
            // Opening for reading without a writer waits, unless non-blocking (fifo(7)).
            fifos.readers.push(open(&path, OpenOptions::new().read(true))?);
            fifos.paths.push(path);
        }
        Ok(Box::new(fifos))
    }

    fn connect(&self, address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        let Address::Fifos(paths) = address else {
            return Err(EndError::Impossible(format!("a pipe cannot connect to {address:?}")));
        };
        paths
            .iter()
            .map(|path| {
                let writer = open(path, OpenOptions::new().write(true))?;
                set_nonblocking(writer.as_fd(), false).map_err(EndError::io("making a pipe wait"))?;
                set_options(&writer, Moment::Own, Side::Source, setup)?;
                Ok(writer)
            })
            .collect()
    }
}

impl Listening for Fifos {
    fn address(&self) -> Address {
        Address::Fifos(self.paths.clone())
    }

    fn accept(&mut self, _setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        // No read happens before `Go`, and `Go` comes after the source has opened its side: from here on a
        // read that finds nothing may wait, and never takes "no writer yet" for the end.
        let readers = std::mem::take(&mut self.readers);
        for reader in &readers {
            set_nonblocking(reader.as_fd(), false).map_err(EndError::io("making a pipe wait"))?;
        }
        Ok(readers)
    }
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<OwnedFd, EndError> {
    let file = options.custom_flags(O_NONBLOCK).open(path);
    file.map(OwnedFd::from).map_err(EndError::io(format!("opening the pipe {}", path.display())))
}
