//! Other programs: those written only for comparison, in `lab/peers` (simple, fast, and without a line of bytegauge), and any program on
//! a CPU of its own, with a time limit, ended with this program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use bytegauge_sys::{affinity, process};
use xtask::{cargo, setup};

/// Runs a program to its end, on one CPU if that is given.
///
/// # Errors
/// When it cannot be started.
pub fn output(command: &mut Command, cpu: Option<usize>) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(command, cpu)?.wait_with_output().with_context(|| format!("waiting for {name}"))
}

/// Starts a program, on one CPU if that is given.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(command: &mut Command, cpu: Option<usize>) -> Result<Child> {
    let name = command.get_program().to_string_lossy().into_owned();
    // A child inherits the mask of the thread that starts it, which must be this one: the child ends with it.
    let allowed = affinity::allowed_cpus().context("reading this process's CPUs")?;
    if let Some(cpu) = cpu {
        affinity::pin_thread(&[cpu]).with_context(|| format!("pinning to CPU {cpu}"))?;
    }
    let child = process::die_with_parent(command).spawn();
    affinity::pin_thread(&allowed).context("going back to all CPUs")?;
    child.with_context(|| format!("starting {name}"))
}

/// A server that runs until it is dropped.
pub struct ServerProcess {
    child: Child,
    /// Held open: a server that may not print any more might end.
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl ServerProcess {
    /// Starts a server, on one CPU if that is given, and waits for the line of its output that contains `ready`.
    ///
    /// # Errors
    /// When it ends instead.
    pub fn start(command: &mut Command, cpu: Option<usize>, ready: &str) -> Result<ServerProcess> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut server = ServerProcess::started(command, cpu)?;
        loop {
            server.line.clear();
            match server.stdout.read_line(&mut server.line) {
                Ok(0) | Err(_) => bail!("{name} ended before it was ready"),
                Ok(_) if server.line.contains(ready) => return Ok(server),
                Ok(_) => {}
            }
        }
    }

    /// Starts a program that prints nothing when it is ready, on one CPU if that is given.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn started(command: &mut Command, cpu: Option<usize>) -> Result<ServerProcess> {
        let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()), cpu)?;
        let stdout = child.stdout.take().context("a started program has an output")?;
        Ok(ServerProcess { child, stdout: BufReader::new(stdout), line: String::new() })
    }

    /// The last word of the line that contained `ready`: the address where it listens.
    pub fn place(&self) -> &str {
        self.line.split_whitespace().last().unwrap_or_default()
    }

    /// CPU time so far, nanoseconds: all threads, those included that the kernel runs for it.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu_ns(&self) -> Result<u64> {
        process::cpu_time_ns(self.child.id()).context("reading the server's CPU time: it has ended")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
        cargo::visible(&mut command).with_context(|| format!("compiling {}.c", self.name))?;
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
    cargo::visible(&mut command).context("building tokio-echo")
}

/// Builds the sink in Go. Its file.
///
/// # Errors
/// When it does not build.
pub fn built_go_sink() -> Result<PathBuf> {
    let to = folder()?.join("go-sink");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&to).arg(source().join("sinks/sink.go"));
    cargo::visible(&mut command).context("building sink.go")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_waited_for_and_ended() {
        let cpu = affinity::allowed_cpus().unwrap()[0];
        let mut command = Command::new("sh");
        let server = ServerProcess::start(
            command.args(["-c", "echo one; echo ready at 1:2; exec sleep 60"]),
            Some(cpu),
            "ready",
        );
        let server = server.unwrap();
        assert_eq!(server.place(), "1:2");
        assert!(server.cpu_ns().is_ok());
        drop(server);
        let ended = ServerProcess::start(Command::new("true").arg("x"), None, "ready").map(drop);
        assert_eq!(ended.unwrap_err().to_string(), "true ended before it was ready");
    }

    #[test]
    fn a_program_runs_on_its_own_cpu() {
        let allowed = affinity::allowed_cpus().unwrap();
        let cpu = allowed[allowed.len() - 1];
        let mut command = Command::new("grep");
        let output = output(command.args(["Cpus_allowed_list", "/proc/self/status"]), Some(cpu)).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.split_whitespace().last(), Some(cpu.to_string().as_str()), "{text}");
        assert_eq!(affinity::allowed_cpus().unwrap(), allowed);
    }
}
