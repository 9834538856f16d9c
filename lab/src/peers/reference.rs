//! Programs written only for comparison, in `lab/peers`: simple, fast, and without a line of bytegauge.
//!
//! Built when they are needed, each with the usual tools of its language. A server prints where it listens.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use xtask::{cargo, setup, steps};

/// A program in C, and the libraries that it is linked with.
#[derive(Clone, Copy, Debug)]
pub struct InC {
    /// Its file's name without `.c`.
    pub name: &'static str,
    libraries: &'static [&'static str],
}

/// The two ends of a stream.
pub const STREAM_ENDS: InC = InC::of("stream_ends", &[]);

/// Checks that C programs can be built; the reason if they cannot.
pub fn prepare_c() -> Result<(), String> {
    setup::package("cc", "gcc")?;
    setup::file(Path::new("/usr/include/stdio.h"), "libc6-dev")
}

/// Checks that C programs that use io_uring can be built.
pub fn prepare_uring() -> Result<(), String> {
    prepare_c()?;
    setup::file(Path::new("/usr/include/liburing.h"), "liburing-dev")
}

impl InC {
    /// A program by its file's name without `.c`.
    pub const fn of(name: &'static str, libraries: &'static [&'static str]) -> InC {
        InC { name, libraries }
    }

    /// Builds the program. Its file.
    ///
    /// # Errors
    /// When the compiler refuses it.
    pub fn built(self) -> Result<PathBuf> {
        let to = folder()?.join(self.name);
        let mut command = Command::new("cc");
        command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&to);
        command.arg(source().join("c").join(self.name).with_extension("c"));
        command.args(self.libraries.iter().map(|library| format!("-l{library}")));
        steps::visible(&mut command).with_context(|| format!("compiling {}.c", self.name))?;
        Ok(to)
    }
}

/// Builds the server on Tokio.
///
/// # Errors
/// When it does not build.
pub fn build_tokio_echo() -> Result<()> {
    let to = folder()?.join("tokio-echo");
    let mut command = cargo::command(&["build", "--locked", "--release", "--quiet"]);
    command.current_dir(source().join("tokio-echo")).env("CARGO_TARGET_DIR", &to);
    steps::visible(&mut command).map(drop).context("building tokio-echo")
}

/// Builds the sink in Go. Its file.
///
/// # Errors
/// When it does not build.
pub fn built_go_sink() -> Result<PathBuf> {
    let to = folder()?.join("go-sink");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&to).arg(source().join("sinks/sink.go"));
    steps::visible(&mut command).context("building sink.go")?;
    Ok(to)
}

/// The folder of their sources.
pub fn source() -> PathBuf {
    cargo::root().join("lab/peers")
}

/// Where they are built to.
fn folder() -> Result<PathBuf> {
    let folder = cargo::workspace()?.target_directory.join("peers");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}
