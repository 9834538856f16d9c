//! Busy loops, for tests that must hold next to them.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use bytegauge_sys::process::die_with_parent;

/// Processes that only use CPU time, until this is dropped.
pub struct BusyLoops(Vec<Child>);

impl BusyLoops {
    /// Starts `count` processes.
    pub fn start(count: usize) -> Result<BusyLoops> {
        let mut loops = BusyLoops(Vec::new());
        for _ in 0..count {
            let mut busy = Command::new("sh");
            busy.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            loops.0.push(die_with_parent(&mut busy).spawn().context("starting a busy loop")?);
        }
        Ok(loops)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for busy in &mut self.0 {
            // It may have been ended from outside.
            let _ = busy.kill();
            let _ = busy.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_end_with_their_owner() {
        let loops = BusyLoops::start(2).unwrap();
        let ids: Vec<u32> = loops.0.iter().map(Child::id).collect();
        let runs = |id: &u32| std::path::Path::new(&format!("/proc/{id}")).exists();
        assert!(ids.iter().all(runs));
        drop(loops);
        assert!(!ids.iter().any(runs));
    }
}
