//! A program that is started from a process with other work to do: a keeper supervises it.
//!
//! The keeper is this program run as `PROGRAM end keeper`. It supervises the external program (`sys::supervisor`): when the
//! process that asked for the program ends, however it ends, the keeper ends the program with everything that it started.
//! The program keeps its process number until then, so that its observer never meets another process of the same number.
//!
//! Also temporary folders, and the removal of what killed processes left behind.

use std::env::temp_dir;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use bytegauge_sys::children::{self, WaitResult};
use bytegauge_sys::owner::{OwnedFolder, remove_abandoned_folders};
use bytegauge_sys::process::{die_with_parent, ended_within};
use bytegauge_sys::supervisor::{self, Supervisor};

/// The keeper's name on the command line, after `end`.
pub const ROLE: &str = "keeper";

/// Time that a program has to end after SIGTERM.
const LEAVE: Duration = Duration::from_secs(3);

/// Time that a keeper has to end its program.
const KEEPER_LEAVE: Duration = Duration::from_secs(15);

/// Time that a program has to start.
const START: Duration = Duration::from_secs(30);

/// Pause between two checks.
const STEP: Duration = Duration::from_millis(2);

/// The keeper's message that the program has ended.
const ENDED: &str = "ended";

/// A program with its keeper. Dropping it ends both, and everything that the program started.
#[derive(Debug)]
pub struct KeptProgram {
    /// The program's process number; it leads its own session.
    pub pid: u32,
    keeper: Child,
    control: BufReader<UnixStream>,
}

impl KeptProgram {
    /// Starts `words` with the given standard input, output and error. `program` is this program's own file.
    ///
    /// # Errors
    /// The error of starting the program or its keeper.
    pub fn start(program: &Path, words: &[OsString], stdio: [Stdio; 3]) -> io::Result<KeptProgram> {
        let (control, theirs) = UnixStream::pair()?;
        control.set_read_timeout(Some(START))?;
        let mut command = Command::new(program);
        let [input, output, errors] = stdio;
        command.stdin(input).stdout(output).stderr(errors);
        let descriptor = children::pass(&mut command, theirs.into());
        command.args(["end", ROLE, "--"]).arg(descriptor.to_string()).args(words);
        // Not in the caller's session: an interrupt at the terminal is for the caller alone.
        children::lead_session(&mut command);
        die_with_parent(&mut command);
        let keeper = command.spawn()?;
        // This closes our copy of the other side: the death of either side ends the control line.
        drop(command);
        let mut kept = KeptProgram { pid: 0, keeper, control: BufReader::new(control) };
        kept.pid = kept.read_word()?.parse::<i64>().map_err(io::Error::other).and_then(|number| match number {
            pid @ 1.. => Ok(pid as u32),
            // An error number, negated.
            error => Err(io::Error::from_raw_os_error(-error as i32)),
        })?;
        Ok(kept)
    }

    /// The write end of the program's standard input, if that is a pipe.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.keeper.stdin.take()
    }

    /// The read end of the program's standard output, if that is a pipe.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.keeper.stdout.take()
    }

    /// Whether the program has ended by itself, within `patience`.
    ///
    /// # Errors
    /// If the keeper died.
    pub fn ends_within(&mut self, patience: Duration) -> io::Result<bool> {
        self.control.get_ref().set_read_timeout(Some(patience.max(STEP)))?;
        match self.read_word() {
            Ok(word) => Ok(word == ENDED),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends the program if it still runs, and returns its exit status.
    ///
    /// # Errors
    /// If the keeper cannot be waited for.
    pub fn finish(&mut self) -> io::Result<ExitStatus> {
        // A keeper that died has closed it already.
        let _ = self.control.get_ref().shutdown(Shutdown::Both);
        match ended_within(&mut self.keeper, KEEPER_LEAVE, STEP) {
            Some(status) => Ok(status),
            None => self.keeper.wait(),
        }
    }

    fn read_word(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.control.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for KeptProgram {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// Serves as keeper: the first word is the descriptor of the control line, the others are the program's. Returns the
/// program's exit code; 128 + N if signal N ended it.
///
/// # Errors
/// When the control line or the program cannot be used.
pub fn keep(words: &[OsString]) -> io::Result<u8> {
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "a keeper needs a descriptor and a program");
    let [descriptor, first, rest @ ..] = words else { return Err(missing()) };
    let descriptor = descriptor.to_str().and_then(|text| text.parse().ok()).ok_or_else(missing)?;
    let mut control = UnixStream::from(children::passed(descriptor)?);
    let supervisor = Supervisor::begin()?;
    let mut command = Command::new(first);
    command.args(rest);
    children::in_own_session(&mut command, &[]);
    let pid = match command.spawn() {
        Ok(child) => child.id(),
        Err(error) => {
            writeln!(control, "-{}", error.raw_os_error().unwrap_or(0))?;
            return Ok(1);
        }
    };
    // A reader of the program's output must not wait for the keeper, nor take it for the program's peer.
    children::close_standard_streams()?;
    writeln!(control, "{pid}")?;
    let ended = children::watch(pid)?;
    let mut is_reported = false;
    loop {
        let ended = (!is_reported).then(|| ended.as_fd());
        let fds: Vec<_> = [control.as_fd()].into_iter().chain(ended).collect();
        let found = children::wait_any(&fds, Duration::from_secs(60))?;
        if found[0] {
            break;
        }
        if found.get(1) == Some(&true) {
            is_reported = true;
            // The caller may have ended; the next round shows it.
            let _ = writeln!(control, "{ENDED}");
        }
    }
    if !is_reported {
        children::signal_group(pid, children::TERM);
        // A stopped program gets the signal as well.
        children::signal_group(pid, children::CONT);
        children::wait_any(&[ended.as_fd()], LEAVE)?;
    }
    let status = match children::reap(Some(pid))? {
        WaitResult::Ended(ended) => ended.status,
        WaitResult::Alive | WaitResult::NoChild => ExitStatus::from_raw(children::KILL),
    };
    supervisor.sweep(Duration::ZERO)?;
    Ok(status.code().or_else(|| Some(128 + status.signal()?)).and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

// Temporary folders, and the removal of what killed processes left behind: programs and folders.
//
// Never touches anything of a live process or of another user.

/// The start of every folder's name.
const NAME: &str = "bytegauge-";

/// Things that were left behind, and are gone now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Processes that were killed. The ports that they held are free again.
    pub processes: u64,
    /// Folders that were removed.
    pub folders: u64,
}

impl Leftovers {
    /// Ends and removes whatever a killed process of this user left behind.
    pub fn remove() -> Leftovers {
        let processes = supervisor::end_abandoned_programs();
        Leftovers { processes, folders: remove_abandoned_folders(&temp_dir(), NAME) }
    }
}

/// A temporary folder of this process.
pub fn folder() -> io::Result<OwnedFolder> {
    OwnedFolder::create_in(&temp_dir(), NAME)
}
