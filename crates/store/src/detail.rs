//! An end's JSON column: the kernel's report on each flow, and counters that only some ends have.
//!
//! An end with one flow repeats no number: its flow is rebuilt from the end's columns. A report reads up to a hundred
//! thousand trials, so this matters. Interval series are never in here.

use std::collections::HashMap;
use std::sync::Arc;

use bytegauge_model::{
    CallReport, CellId, DatagramReport, EffectiveOptions, EndReport, EngineReport, FlowReport, Iperf3Report,
    RelayProgramReport, RelayReport, RingReport, TaskReport, TcpReport,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::counters;

/// The part of an end's report that is not a counter.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EndDetail {
    /// Time on a run queue.
    queued_ns: Option<u64>,
    /// The calls.
    call: Option<Box<CallReport>>,
    /// The engine.
    engine: Option<Box<EngineReport>>,
    /// Counts of datagrams.
    datagrams: Option<Box<DatagramReport>>,
    /// Counts of a ring.
    ring: Option<Box<RingReport>>,
    /// Counts of a relay.
    relay: Option<Box<RelayReport>>,
    /// Facts about a program that served as the relay.
    relay_program: Option<Box<RelayProgramReport>>,
    /// The result of a program.
    task: Option<Box<TaskReport>>,
    /// The results of an iperf3 server.
    iperf3: Option<Box<Iperf3Report>>,
    /// The only flow, whose counters are the end's.
    only: Option<KernelDetail>,
    /// The flows, where there are several or their counters differ from the end's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flows: Vec<FlowReport>,
}

/// The kernel's report on a flow.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct KernelDetail {
    tcp: Option<Box<TcpReport>>,
    options: Arc<EffectiveOptions>,
    socket_memory: Option<u64>,
    queued_bytes: Option<u64>,
    datagrams: Option<Box<DatagramReport>>,
}

/// Removes the series, which are stored separately.
fn without_series(mut end: EndReport) -> EndReport {
    end.flows.iter_mut().for_each(|flow| flow.series.clear());
    end
}

impl EndDetail {
    /// The part of an end's report that has no column of its own.
    pub(crate) fn of(end: &EndReport) -> EndDetail {
        let flows = without_series(end.clone()).flows;
        if let [flow] = flows.as_slice() {
            let FlowReport { tcp, options, socket_memory, queued_bytes, datagrams, .. } = flow.clone();
            let kernel = KernelDetail { tcp, options, socket_memory, queued_bytes, datagrams };
            if kernel.clone().flow(end) == *flow {
                return EndDetail { only: Some(kernel), ..EndDetail::without_flows(end) };
            }
        }
        EndDetail { flows, ..EndDetail::without_flows(end) }
    }

    /// Everything except the flows.
    fn without_flows(end: &EndReport) -> EndDetail {
        let EndReport { queued_ns, call, engine, datagrams, ring, relay, relay_program, task, iperf3, .. } = end;
        EndDetail {
            queued_ns: *queued_ns,
            call: call.clone(),
            engine: engine.clone(),
            datagrams: datagrams.clone(),
            ring: ring.clone(),
            relay: relay.clone(),
            relay_program: relay_program.clone(),
            task: task.clone(),
            iperf3: iperf3.clone(),
            only: None,
            flows: Vec::new(),
        }
    }

    /// The column's text, without null values.
    pub(crate) fn text(&self) -> Result<String, serde_json::Error> {
        Ok(lean(serde_json::to_value(self)?).to_string())
    }

    /// Rebuilds the end from its counters and this.
    pub(crate) fn rebuild(self, numbers: [u64; counters::COUNT]) -> EndReport {
        let EndDetail { queued_ns, call, engine, datagrams, ring, relay, relay_program, task, iperf3, .. } = self;
        let mut end = EndReport {
            queued_ns,
            call,
            engine,
            datagrams,
            ring,
            relay,
            relay_program,
            task,
            iperf3,
            ..counters::end(numbers, self.flows)
        };
        if let Some(kernel) = self.only {
            end.flows = vec![kernel.flow(&end)];
        }
        end
    }
}

impl KernelDetail {
    /// The only flow of an end.
    fn flow(self, end: &EndReport) -> FlowReport {
        let KernelDetail { tcp, options, socket_memory, queued_bytes, datagrams } = self;
        FlowReport { tcp, options, socket_memory, queued_bytes, datagrams, ..counters::flow(end) }
    }
}

/// Names of cells, and options of flows, kept once for all trials of a cell that have the same. Options are most of what a flow
/// would take in memory.
#[derive(Default)]
pub(crate) struct SharedParts(HashMap<Arc<str>, Vec<Arc<EffectiveOptions>>>);

/// Different options of a cell that are kept for comparison: those of its ends, and a few that the kernel changed.
const DIFFERENT_MAX: usize = 8;

impl SharedParts {
    /// The name of a cell.
    pub(crate) fn cell(&mut self, name: &str) -> CellId {
        if let Some((known, _)) = self.0.get_key_value(name) {
            return CellId(Arc::clone(known));
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name), Vec::new());
        CellId(name)
    }

    /// Lets the flows of an end share the options that earlier trials of its cell had.
    pub(crate) fn share(&mut self, cell: &CellId, end: &mut EndReport) {
        let Some(known) = self.0.get_mut(&cell.0) else { return };
        for flow in &mut end.flows {
            match known.iter().find(|known| **known == flow.options) {
                Some(known) => flow.options = Arc::clone(known),
                None if known.len() < DIFFERENT_MAX => known.push(Arc::clone(&flow.options)),
                None => {}
            }
        }
    }
}

/// Removes nulls: every field reads its absence as null, and less text is read faster.
fn lean(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().filter(|(_, field)| !field.is_null()).map(|(name, field)| (name, lean(field))).collect()
        }
        Value::Array(items) => items.into_iter().map(lean).collect(),
        other => other,
    }
}
