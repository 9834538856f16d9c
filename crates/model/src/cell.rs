//! Cells and groups: one combination of levels, and the set within which options are compared.
//!
//! Also their memory, and two of them that are compared with each other.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::end::stored_names;
use crate::spec::Spec;
use crate::trial::effective;
use crate::{Engine, Level, RcvbufOn, Trial, Workload};

/// A cell's name within its session: `c17`; its A/A control is `c17t`, its group's harness floor `g3n`. Trials of a cell share
/// it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CellId(pub Arc<str>);

/// A group's name within its session: `g3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct GroupId(pub String);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The kind of a cell in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CellKind {
    /// A combination that is a candidate.
    #[default]
    Candidate,
    /// The screening leader a second time under another id: differences between the two are noise.
    Twin,
    /// The null engine: the cost of the harness itself.
    Floor,
    /// A path without the relays that are compared: their upper limit, never compared.
    Ceiling,
    /// A published loop that measures something other than it seems to: shown, never compared.
    Artefact,
}

stored_names!(CellKind, CELL_KINDS {
    Candidate = "candidate", Twin = "twin", Floor = "floor", Ceiling = "ceiling", Artefact = "artefact",
});

/// One combination of factor levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its name in the session.
    pub id: CellId,
    /// The group it belongs to.
    pub group: GroupId,
    /// Candidate, A/A control or floor.
    #[serde(default)]
    pub kind: CellKind,
    /// The cell that an A/A control repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_of: Option<CellId>,
    /// The level of every factor.
    pub factors: Spec,
}

impl Cell {
    /// The cell that the data belongs to: for an A/A control, the cell that it repeats.
    pub fn subject(&self) -> &CellId {
        self.twin_of.as_ref().unwrap_or(&self.id)
    }
}

/// Cells that are equal in every condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name in the session.
    pub id: GroupId,
    /// The conditions.
    pub factors: Spec,
}

// Two subjects that are compared with each other: their cells, and the words that name them.

/// Two subjects of one session. The question is whether the second is worse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versus {
    /// The present one.
    pub a: VersusSide,
    /// The one that may replace it.
    pub b: VersusSide,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersusSide {
    /// Its cell.
    pub cell: CellId,
    /// As it was given: `run:stream --read-size 4K`.
    pub words: String,
}

// The memory of a cell: among equally good cells the recommendation prefers the smallest.

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
    for buffer in varied_buffers(levels, varied) {
        each = each.saturating_add(buffer_size(buffer, levels, trials)?);
    }
    Some(each.saturating_mul(flows))
}

/// The kernel's buffers that the plan varies and that exist with these levels.
fn varied_buffers(levels: &Spec, varied: &[String]) -> impl Iterator<Item = &'static str> {
    let exists = move |buffer: &&str| varied.iter().any(|name| name == buffer) && levels.get(buffer) != Level::Absent;
    BUFFERS.into_iter().filter(exists)
}

/// A submission of 64 bytes, two completions of 16.
const ENTRY_BYTES: u64 = 96;

/// The memory that the server's kernel may use for its connections in the buffers that the plan varies, and its receive buffers
/// if those vary: one per thread, or per connection if each has a thread. `None` if neither does: an engine has no size.
fn of_calls(levels: &Spec, trials: &[&Trial], varied: &[String]) -> Option<u64> {
    let connections =
        levels.flows().unwrap_or(0).max(1) + levels.idle_flows().unwrap_or(0) + levels.competing_flows().unwrap_or(0);
    let mut bytes = None;
    let mut add = |each: u64, times: u64| {
        bytes = Some(bytes.unwrap_or(0_u64).saturating_add(each.saturating_mul(times)));
    };
    for buffer in varied_buffers(levels, varied) {
        add(buffer_size(buffer, levels, trials)?, connections);
    }
    if varied.iter().any(|name| name == "read_size") {
        let thread_a_flow = levels.server_engine().is_some_and(Engine::has_thread_a_flow);
        let threads = levels.server_threads().unwrap_or(0).max(1);
        add(levels.read_size().unwrap_or(0), if thread_a_flow { connections } else { threads });
    }
    bytes
}

/// The factors that set the kernel's buffers: the writer's, the reader's, the pipe's.
pub const BUFFERS: [&str; 3] = ["sndbuf", "rcvbuf", "pipe_size"];

/// The size of one of [`BUFFERS`] as the kernel reported it, or else as requested.
pub fn buffer_size(factor: &str, levels: &Spec, trials: &[&Trial]) -> Option<u64> {
    // In calls both buffers are the server's, unless the plan sets the client's.
    let is_of_source = match levels.workload() {
        Workload::Stream => factor == "sndbuf",
        Workload::Call => factor == "rcvbuf" && levels.rcvbuf_on() == Some(RcvbufOn::Client),
        _ => false,
    };
    let end = if is_of_source { Trial::source_side } else { Trial::sink_side };
    let reported = effective(trials, end).and_then(|options| options.get(factor).number());
    reported.or_else(|| levels.get(factor).number())
}
