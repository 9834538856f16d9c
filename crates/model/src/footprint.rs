//! The memory of a cell: among equally good cells the recommendation prefers the smallest.

use crate::trial::effective;
use crate::{EndReport, Engine, Level, RcvbufOn, Spec, Trial, Workload};

/// Buffers of both ends and, if the plan varies them, of the kernel; bytes over all flows. `None` if the cell has no read size,
/// or the size of a varied buffer is unknown.
pub fn footprint(levels: &Spec, trials: &[&Trial], varied: &[String]) -> Option<u64> {
    match levels.workload() {
        Workload::Stream => {}
        Workload::Call => return of_calls(levels, trials, varied),
        Workload::Ring => return levels.entries().map(|entries| entries.saturating_mul(ENTRY_BYTES)),
        // How a program uses its value is unknown; the smaller of two equally good sizes is taken.
        _ => return levels.value()?.number(),
    }
    let flows = levels.flows().unwrap_or(1);
    let mut each = levels.read_size()?;
    // One-ended sources have no writer; a two-ended import may not state its writer's size.
    each = each.saturating_add(levels.write_size().unwrap_or(0));
    for buffer in BUFFERS {
        if varied.iter().any(|name| name == buffer.factor) && buffer.applies(levels) {
            each = each.saturating_add(buffer.size(levels, trials)?);
        }
    }
    Some(each.saturating_mul(flows))
}

/// A submission of 64 bytes, two completions of 16.
const ENTRY_BYTES: u64 = 96;

/// The memory that the server's kernel may use for its connections in the buffers that the plan varies, and its receive buffers
/// if those vary: one per thread, or per connection if each has a thread. `None` if neither does: an engine has no size.
fn of_calls(levels: &Spec, trials: &[&Trial], varied: &[String]) -> Option<u64> {
    let varies = |name: &str| varied.iter().any(|varied| varied == name);
    let connections =
        levels.flows().unwrap_or(0).max(1) + levels.idle_flows().unwrap_or(0) + levels.competing_flows().unwrap_or(0);
    let mut bytes = None;
    let mut add = |each: u64, times: u64| {
        bytes = Some(bytes.unwrap_or(0_u64).saturating_add(each.saturating_mul(times)));
    };
    for buffer in BUFFERS.iter().filter(|buffer| varies(buffer.factor) && buffer.applies(levels)) {
        add(buffer.size(levels, trials)?, connections);
    }
    if varies("read_size") {
        let thread_a_flow = levels.server_engine().is_some_and(Engine::has_thread_a_flow);
        let threads = levels.server_threads().unwrap_or(0).max(1);
        add(levels.read_size().unwrap_or(0), if thread_a_flow { connections } else { threads });
    }
    bytes
}

/// A kernel buffer that a factor sets.
pub struct FactorBuffer {
    /// The factor.
    pub factor: &'static str,
}

/// The kernel's buffers: the writer's, the reader's, the pipe's.
pub const BUFFERS: &[FactorBuffer] =
    &[FactorBuffer { factor: "sndbuf" }, FactorBuffer { factor: "rcvbuf" }, FactorBuffer { factor: "pipe_size" }];

impl FactorBuffer {
    fn applies(&self, levels: &Spec) -> bool {
        levels.get(self.factor) != Level::Absent
    }

    /// The size reported by the kernel, or else the requested one.
    pub fn size(&self, levels: &Spec, trials: &[&Trial]) -> Option<u64> {
        effective(trials, self.end_of(levels))
            .and_then(|options| options.get(self.factor).number())
            .or_else(|| levels.get(self.factor).number())
    }

    fn end_of(&self, levels: &Spec) -> fn(&Trial) -> Option<&EndReport> {
        if self.is_of_source(levels) { |trial| trial.source_side() } else { |trial| trial.sink_side() }
    }

    /// Whether it is the writer's, or the client's. In calls both buffers are the server's, unless the plan sets the client's.
    pub fn is_of_source(&self, levels: &Spec) -> bool {
        match levels.workload() {
            Workload::Stream => self.factor == "sndbuf",
            Workload::Call => self.factor == "rcvbuf" && levels.rcvbuf_on() == Some(RcvbufOn::Client),
            _ => false,
        }
    }
}
