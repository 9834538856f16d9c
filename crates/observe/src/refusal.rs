//! Why a program cannot be observed, and the next step.

use std::fs;
use std::io;

use bytegauge_sys::owner::OwnerProcess;
use bytegauge_sys::process::spawn_error_hint;
use bytegauge_sys::trace;

use crate::descriptor;

/// Why a program cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// There is no such process.
    #[error("there is no process {0}: `ps -ef` lists them, `pgrep NAME` finds one by its name")]
    NoProcess(u32),
    /// A debugger or another tracer has it.
    #[error(
        "process {pid} is traced by process {tracer} ({name}), and only one tracer is possible: end that one, then try again"
    )]
    Traced {
        /// The process.
        pid: u32,
        /// The tracer.
        tracer: u32,
        /// The tracer's name.
        name: String,
    },
    /// The system does not allow it: why, and what to do.
    #[error("process {0} may not be traced: {1}")]
    NotAllowed(u32, String),
    /// A 32-bit program.
    #[error(
        "process {0} is a 32-bit program, whose system calls have other numbers: build it for 64 bits, or count with `strace -c -f -p {0}`"
    )]
    Is32Bit(u32),
    /// The architecture is not supported.
    #[error("bytegauge observe supports x86-64 and aarch64 only: use `strace -c -f -p PID` here")]
    Architecture,
    /// Something else went wrong.
    #[error(
        "observing process {pid} failed: {source}{next}: observe again, or use `strace -c -f -p {pid}`",
        next = spawn_error_hint(source)
    )]
    System {
        /// The process.
        pid: u32,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The process, after checks that do not need a sample.
pub(super) fn must_be_traceable(pid: u32) -> Result<OwnerProcess, ObserveError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| ObserveError::NoProcess(pid))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let process = OwnerProcess::of(pid).ok_or(ObserveError::NoProcess(pid))?;
    // The kernel accepts a thread's number too, but that is only a part of a program.
    if field("Tgid:") != Some(&pid.to_string()) {
        let reason = format!("it is a thread of process {}: pass that number", field("Tgid:").unwrap_or("?"));
        return Err(ObserveError::NotAllowed(pid, reason));
    }
    if pid == std::process::id() {
        return Err(ObserveError::NotAllowed(pid, "it is bytegauge itself: pass another process".into()));
    }
    if let Some(tracer) = field("TracerPid:").and_then(|text| text.parse().ok()).filter(|tracer| *tracer > 0) {
        return Err(ObserveError::Traced { pid, tracer, name: descriptor::name_of(tracer) });
    }
    match trace::is_32_bit(pid) {
        Some(true) => Err(ObserveError::Is32Bit(pid)),
        _ => Ok(process),
    }
}

/// Why the kernel refused, and what to do.
pub fn refused(pid: u32, error: io::Error) -> ObserveError {
    match error.kind() {
        io::ErrorKind::NotFound => ObserveError::NoProcess(pid),
        io::ErrorKind::Unsupported => ObserveError::Architecture,
        io::ErrorKind::PermissionDenied => {
            let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            ObserveError::NotAllowed(pid, why_not(scope.trim(), owner(pid), owner(std::process::id())))
        }
        _ if error.raw_os_error() == Some(bytegauge_sys::errno::ESRCH) => ObserveError::NoProcess(pid),
        _ => ObserveError::System { pid, source: error },
    }
}

/// The reason, from the system's settings (Documentation/admin-guide/LSM/Yama.rst).
fn why_not(ptrace_scope: &str, owner: Option<u32>, own: Option<u32>) -> String {
    match ptrace_scope {
        "3" => "tracing is switched off until the next boot (kernel.yama.ptrace_scope = 3)".into(),
        _ if owner != own => {
            "it belongs to another user: run bytegauge as that user, or as root (sudo bytegauge …)".into()
        }
        "1" => "only programs that the tracer started may be traced (kernel.yama.ptrace_scope = 1): run as root, let \
                bytegauge start it (write the command after --), or sudo sysctl -w kernel.yama.ptrace_scope=0"
            .into(),
        "2" => "only root may trace (kernel.yama.ptrace_scope = 2): sudo bytegauge …".into(),
        _ => "the kernel refuses: it may have more rights than you (setuid, capabilities), or a container forbids ptrace \
              (docker run --cap-add SYS_PTRACE)"
            .into(),
    }
}

/// The user that a process belongs to.
fn owner(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).ok().map(|of| of.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_next_step() {
        for (scope, owner, expected) in [
            ("1", 1000, "after --"),
            ("2", 1000, "sudo"),
            ("3", 1000, "until the next boot"),
            ("0", 0, "another user"),
            ("", 1000, "SYS_PTRACE"),
        ] {
            let reason = why_not(scope, Some(owner), Some(1000));
            assert!(reason.contains(expected), "{scope}: {reason}");
        }
    }
}
