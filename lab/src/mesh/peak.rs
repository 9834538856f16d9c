//! The time and the peak memory of a process.

use std::fs;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How often the memory is read.
const LOOK: Duration = Duration::from_millis(10);

/// Time and memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPeak {
    /// How it ended.
    pub status: ExitStatus,
    /// From the call to its end.
    pub time: Duration,
    /// The largest resident memory, bytes (`VmHWM`).
    pub memory: u64,
}

/// Waits for a process, and reads its memory meanwhile.
///
/// # Errors
/// When it cannot be waited for.
pub fn wait(child: &mut Child) -> Result<ProcessPeak> {
    let began = Instant::now();
    let mut memory = 0;
    loop {
        memory = resident(child.id()).unwrap_or(0).max(memory);
        if let Some(status) = child.try_wait().context("waiting for bytegauge")? {
            return Ok(ProcessPeak { status, time: began.elapsed(), memory });
        }
        thread::sleep(LOOK);
    }
}

/// The largest resident memory of a process so far, bytes (proc_pid_status(5)).
fn resident(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
    }
}
