//! What one run of a program of the user's is set to.

use std::time::Duration;

use bytegauge_model::{Level, Metric, ProgramTask, ServerTask};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;

/// How long a program may take to leave once it was told, before it is killed.
pub(crate) const LEAVE: Duration = Duration::from_secs(3);

/// How long what a program leaves behind may take to go of its own accord.
pub(crate) const SETTLE: Duration = Duration::from_millis(200);

/// How long a port may stay taken after its server has left.
pub(crate) const RELEASE: Duration = Duration::from_secs(1);

/// Everything that is to be known of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSetup {
    /// The words of what is measured.
    pub command: Vec<String>,
    /// The words of what is run before, unmeasured.
    pub prepare: Option<Vec<String>>,
    /// The server that is started before and stopped after.
    pub server: Option<ServerTask>,
    /// What is measured.
    pub metric: Metric,
    /// How long each of the programs may take, nanoseconds.
    pub timeout_ns: u64,
}

impl TaskSetup {
    /// A task with its value in place.
    ///
    /// # Errors
    /// [`Fault::Impossible`] if the value does not fit: past planning, that is a bug.
    pub fn of(task: &ProgramTask, value: &Level, timeout_ns: u64) -> Result<TaskSetup, Fault> {
        let bug = |error: bytegauge_model::task::TaskError| Fault::Impossible(error.to_string());
        Ok(TaskSetup {
            command: task.command_for(value).map_err(bug)?,
            prepare: task.prepare_for(value).map_err(bug)?,
            server: task.server_for(value).map_err(bug)?,
            metric: task.metric.clone(),
            timeout_ns,
        })
    }

    /// How long all of it may take, nanoseconds.
    pub fn patience_ns(&self) -> u64 {
        let parts = 1 + u64::from(self.prepare.is_some()) + u64::from(self.server.is_some());
        let leave_ns = (LEAVE + SETTLE + RELEASE).as_nanos() as u64;
        self.timeout_ns.saturating_mul(parts).saturating_add(leave_ns)
    }
}
