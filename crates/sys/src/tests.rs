//! Helpers of tests.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than any machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until an effect of another thread or of the kernel is there.
///
/// A closed descriptor stays open briefly if another test of the process starts a program at that moment: the child has
/// copies of all descriptors until it executes the program. Packets over the loopback may be processed by a kernel
/// thread, which waits for a CPU like any other.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}");
        thread::yield_now();
    }
}

/// Removed on drop, also after a failing test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("bytegauge-sys-{}-{unique}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("scratch directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and the directories above it.
    pub(crate) fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("inside the scratch directory")).expect("parents");
        fs::write(path, text).expect("fixture file");
        self
    }

    /// Creates an empty directory and its parents.
    pub(crate) fn dir(&self, name: &str) -> &Self {
        fs::create_dir_all(self.0.join(name)).expect("fixture directory");
        self
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Both ends of a TCP connection over loopback: the one that connected, and the one that accepted.
pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}
