//! Other programs: those written only for comparison, in `lab/peers` (simple, fast, and without a line of bytegauge), and any program on
//! a CPU of its own, ended with this program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use bytegauge_sys::{affinity, children, process};
use xtask::cargo;

/// Starts a process on one CPU: a child inherits the mask of the thread that starts it.
///
/// # Errors
/// When the CPU is not allowed, or nothing can be started.
pub fn on_cpu<T>(cpu: usize, start: impl FnOnce() -> Result<T>) -> Result<T> {
    let allowed = affinity::allowed_cpus().context("reading this process's CPUs")?;
    affinity::pin_thread(&[cpu]).with_context(|| format!("pinning to CPU {cpu}"))?;
    let started = start();
    affinity::pin_thread(&allowed).context("going back to all CPUs")?;
    started
}

/// Runs a program to its end, on these CPUs or any.
///
/// # Errors
/// When it cannot be started.
pub fn output(command: &mut Command, cpus: &[usize]) -> Result<Output> {
    let child = spawned(command.stderr(Stdio::piped()), cpus)?;
    child.wait_with_output().context("reading a program's output")
}

/// Starts a program in a session of its own, as an end of bytegauge is: the scheduler shares a CPU between sessions first.
fn spawned(command: &mut Command, cpus: &[usize]) -> Result<Child> {
    let name = command.get_program().to_string_lossy().into_owned();
    children::in_own_session(command, cpus);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("starting {name}"))
}

/// A program that runs until it is dropped.
pub struct ServerProcess {
    child: Child,
    /// Held open: a server that may not print any more might end.
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl ServerProcess {
    /// Starts a server on a CPU, and waits for the line of its output that contains its address.
    ///
    /// # Errors
    /// When it ends instead.
    pub fn listening(command: &mut Command, cpu: usize) -> Result<ServerProcess> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut server = ServerProcess::started(command, cpu)?;
        while !server.line.contains("listening on") {
            server.line.clear();
            if !server.stdout.read_line(&mut server.line).is_ok_and(|len| len > 0) {
                bail!("{name} ended before it listened");
            }
        }
        Ok(server)
    }

    /// Starts a program on a CPU that prints nothing when it is ready.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn started(command: &mut Command, cpu: usize) -> Result<ServerProcess> {
        let mut child = spawned(command, &[cpu])?;
        let stdout = child.stdout.take().context("a started program has an output")?;
        Ok(ServerProcess { child, stdout: BufReader::new(stdout), line: String::new() })
    }

    /// The address where it listens: the last word of the line.
    pub fn place(&self) -> &str {
        self.line.split_whitespace().last().unwrap_or_default()
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a program so far, nanoseconds: all threads, those included that the kernel runs for it.
///
/// # Errors
/// When it has ended.
pub fn cpu_ns(id: u32) -> Result<u64> {
    process::cpu_time_ns(id).context("reading a program's CPU time: it has ended")
}

/// Builds a program in C by its file's name without `.c`, with these libraries. Its file.
///
/// # Errors
/// When the compiler or a library is missing.
pub fn built_in_c(name: &str, libraries: &[&str]) -> Result<PathBuf> {
    let to = folder()?.join(name);
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&to);
    command.arg(source().join("c").join(name).with_extension("c")).args(libraries);
    cargo::visible(&mut command)
        .with_context(|| format!("compiling {name}.c (Debian: gcc, libc6-dev, liburing-dev)"))?;
    Ok(to)
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

/// Where they are built to, and results are kept.
pub fn folder() -> Result<PathBuf> {
    let folder = cargo::workspace()?.target_directory.join("peers");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// The value in a file that keeps results, if the file exists.
///
/// # Errors
/// When it cannot be read, or contains something else.
pub fn kept<T: serde::de::DeserializeOwned>(file: &Path) -> Result<Option<T>> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{}: remove it", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_waited_for_and_ended() {
        let cpu = affinity::allowed_cpus().unwrap()[0];
        let mut command = Command::new("sh");
        let server =
            ServerProcess::listening(command.args(["-c", "echo one; echo listening on 1:2; exec sleep 60"]), cpu);
        let server = server.unwrap();
        assert_eq!(server.place(), "1:2");
        assert!(cpu_ns(server.id()).is_ok());
        drop(server);
        let ended = ServerProcess::listening(Command::new("true").arg("x"), cpu).map(drop);
        assert_eq!(ended.unwrap_err().to_string(), "true ended before it listened");
    }

    #[test]
    fn a_program_runs_on_its_own_cpu() {
        let allowed = affinity::allowed_cpus().unwrap();
        let cpu = allowed[allowed.len() - 1];
        let mut command = Command::new("grep");
        let output = output(command.args(["Cpus_allowed_list", "/proc/self/status"]), &[cpu]).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.split_whitespace().last(), Some(cpu.to_string().as_str()), "{text}");
        assert_eq!(on_cpu(cpu, || Ok(affinity::allowed_cpus()?)).unwrap(), [cpu]);
        assert_eq!(affinity::allowed_cpus().unwrap(), allowed);
    }
}
