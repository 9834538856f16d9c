//! The memory that a cell takes: what the recommendation keeps small among equally good cells.

use bytegauge_model::{EndReport, Levels, Trial};

use super::counters::effective;

/// Buffers of both ends and, where the plan varies them, of the kernel; bytes over all flows. `None` where the
/// cell has no read size, or a varied buffer's size is not known.
pub fn footprint(levels: &Levels, trials: &[&Trial], varied: &[String]) -> Option<u64> {
    let flows = levels.get("flows").number().unwrap_or(1);
    let mut each = levels.get("read_size").number()?;
    // One-ended sources have no writer; a two-ended import may not tell its writer's size.
    each = each.saturating_add(levels.get("write_size").number().unwrap_or(0));
    for buffer in BUFFERS {
        if varied.iter().any(|name| name == buffer.factor) && buffer.applies(levels) {
            each = each.saturating_add(buffer.size(levels, trials)?);
        }
    }
    Some(each.saturating_mul(flows))
}

/// A kernel buffer that a factor sets.
pub struct Buffer {
    /// The factor.
    pub factor: &'static str,
    end: fn(&Trial) -> Option<&EndReport>,
    read: fn(&bytegauge_model::EffectiveOptions) -> Option<u64>,
}

/// The kernel's buffers: the writer's, the reader's, the pipe's.
pub const BUFFERS: &[Buffer] = &[
    Buffer { factor: "sndbuf", end: |trial| trial.source.as_ref(), read: |options| options.sndbuf },
    Buffer { factor: "rcvbuf", end: |trial| trial.sink.as_ref(), read: |options| options.rcvbuf },
    Buffer { factor: "pipe_size", end: |trial| trial.sink.as_ref(), read: |options| options.pipe_size },
];

impl Buffer {
    fn applies(&self, levels: &Levels) -> bool {
        *levels.get(self.factor) != bytegauge_model::Level::Absent
    }

    /// The size that the kernel reports, or else the one that was asked for.
    pub fn size(&self, levels: &Levels, trials: &[&Trial]) -> Option<u64> {
        effective(trials, self.end).and_then(self.read).or_else(|| levels.get(self.factor).number())
    }
}
