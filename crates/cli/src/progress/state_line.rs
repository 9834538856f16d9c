//! The state of a running session as a line of text. Pure: has no clock and no terminal.

use bytegauge_model::BlockRecord;
use bytegauge_model::session::Stage;
use bytegauge_model::unit::{forecast, significant};

/// A smaller share of CPU time is no disturbance.
const STEAL_MIN: f64 = 0.005;

/// Fewer CPUs used by other programs are no disturbance.
const OTHERS_MIN: f64 = 0.05;

/// The state of a session.
#[derive(Debug, Default)]
pub struct SessionProgress {
    stage: Option<Stage>,
    blocks_done: u64,
    blocks: u64,
    left_ns: Option<u64>,
    /// The sign of a program's server that is not ready, and the rest of its time, nanoseconds.
    waiting: Option<(String, u64)>,
    further_ns: u64,
    surroundings: Disturbances,
    tests: usize,
}

/// The disturbance of the blocks of this session, weighted by their lengths.
#[derive(Debug, Default)]
struct Disturbances {
    wall_ns: f64,
    stolen_ns: f64,
    others_ns: f64,
}

impl SessionProgress {
    /// A stage of a session with this number of tests begins.
    pub fn begin(&mut self, stage: Stage, blocks: u64, tests: usize) {
        (self.stage, self.blocks, self.blocks_done, self.tests) = (Some(stage), blocks, 0, tests);
    }

    /// A trial ended; `left_ns` until the end of this analysis, `further_ns` more for the later ones.
    pub fn trial(&mut self, left_ns: u64, further_ns: u64) {
        (self.left_ns, self.further_ns, self.waiting) = (Some(left_ns), further_ns, None);
    }

    /// The server of a program is not ready; without time left it is.
    pub fn wait(&mut self, ready: String, left_ns: u64) {
        self.waiting = Some((ready, left_ns)).filter(|_| left_ns > 0);
    }

    /// A block ended.
    pub fn block(&mut self, block: &BlockRecord) {
        self.blocks_done += u64::from(block.complete);
        let around = &block.surroundings;
        let wall_ns = around.wall_ns as f64;
        self.surroundings.wall_ns += wall_ns;
        self.surroundings.stolen_ns += around.steal_share.unwrap_or(0.0) * wall_ns;
        self.surroundings.others_ns += around.foreign_cpus.unwrap_or(0.0) * wall_ns;
    }

    /// Whether every block of the stage is complete.
    pub fn is_stage_complete(&self) -> bool {
        self.blocks_done >= self.blocks
    }

    /// The line. The least important part is the last: a terminal cuts what does not fit.
    pub fn progress(&self) -> String {
        let stage = self.stage.map_or("start", stage_name);
        let of_tests = if self.tests > 1 { format!(" of {} tests", self.tests) } else { String::new() };
        // A block that failed was repeated beyond the plan.
        let per_cent = 100 * self.blocks_done / self.blocks.max(self.blocks_done).max(1);
        let mut parts = vec![format!("{stage}: {per_cent} %{of_tests}")];
        if let Some((ready, left_ns)) = &self.waiting {
            let seconds = left_ns.div_ceil(1_000_000_000);
            parts.push(format!("waiting for the server, at most {seconds} s more: {ready}"));
            return parts.join(", ");
        }
        if let Some(left_ns) = self.left_ns.filter(|ns| *ns >= LEFT_MIN_NS) {
            parts.push(format!("{} left", forecast(left_ns)));
        }
        let share = |ns: f64| ns / self.surroundings.wall_ns.max(1.0);
        let (steal, others) = (share(self.surroundings.stolen_ns), share(self.surroundings.others_ns));
        if steal >= STEAL_MIN {
            parts.push(format!("steal {} %", significant(steal * 100.0, 2)));
        }
        if others >= OTHERS_MIN {
            parts.push(format!("other load {} CPUs", significant(others, 2)));
        }
        if let Some(left_ns) = self.left_ns.filter(|_| self.further_ns > 0) {
            parts.push(format!("{} if undecided", forecast(left_ns.saturating_add(self.further_ns))));
        }
        parts.join(", ")
    }
}

/// A shorter time is not shown: blocks that are left may take longer than those before.
const LEFT_MIN_NS: u64 = 1_000_000_000;

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Calibrate => "calibration",
        Stage::Screen => "screening",
        Stage::Narrow => "second screening",
        Stage::Confirm => "confirmation",
        Stage::Audit => "long-trial check",
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::GroupId;
    use bytegauge_model::session::Surroundings;

    use super::*;

    fn block(steal_share: f64, foreign_cpus: f64, complete: bool) -> BlockRecord {
        let (steal_share, foreign_cpus) = (Some(steal_share), Some(foreign_cpus));
        BlockRecord {
            index: 0,
            group: GroupId("g1".into()),
            stage: Stage::Confirm,
            started_unix_ns: 0,
            complete,
            surroundings: Surroundings { wall_ns: 100, steal_share, foreign_cpus, ..Surroundings::default() },
        }
    }

    #[test]
    fn progress_states_stage_blocks_time_and_disturbances() {
        let mut standing = SessionProgress::default();
        standing.begin(Stage::Confirm, 40, 1);
        assert_eq!(standing.progress(), "confirmation: 0 %");
        standing.trial(57_900_000_000, 0);
        standing.block(&block(0.0, 0.0, true));
        assert_eq!(standing.progress(), "confirmation: 2 %, 58 s left");
        standing.trial(5_000_000_000, 115_000_000_000);
        standing.block(&block(0.1, 0.5, false));
        let line = "confirmation: 2 %, 5 s left, steal 5 %, other load 0.25 CPUs, 120 s if undecided";
        assert_eq!(standing.progress(), line);
        standing.trial(900_000_000, 0);
        assert_eq!(standing.progress(), "confirmation: 2 %, steal 5 %, other load 0.25 CPUs");
    }

    #[test]
    fn a_wait_for_a_server_is_shown() {
        let mut standing = SessionProgress::default();
        standing.begin(Stage::Calibrate, 4, 2);
        standing.wait("tcp:7007".into(), 28_400_000_000);
        assert_eq!(
            standing.progress(),
            "calibration: 0 % of 2 tests, waiting for the server, at most 29 s more: tcp:7007"
        );
        standing.wait("tcp:7007".into(), 0);
        assert_eq!(standing.progress(), "calibration: 0 % of 2 tests");
        standing.wait("tcp:7007".into(), 1);
        standing.trial(0, 0);
        assert_eq!(standing.progress(), "calibration: 0 % of 2 tests");
    }
}
