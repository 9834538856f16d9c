//! An end's JSON column: the kernel's report on each flow, and counters that only some ends have.
//!
//! An end with one flow repeats no number: its flow is rebuilt from the end's columns. A report reads up to a hundred
//! thousand trials, so this matters. Interval series are never in here.

use std::collections::HashMap;
use std::sync::Arc;

use bytegauge_model::{
    CallReport, CellId, DatagramReport, EffectiveOptions, EndReport, EngineReport, FlowReport, Iperf3Report,
    OptionalCount, RelayProgramReport, RelayReport, RingReport, TaskReport, TcpReport,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::column;

/// The part of an end's report that is not a counter. `O` are the options of an only flow: read, they are text, which most trials of a
/// cell share.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "O: Deserialize<'de> + Default"))]
pub(crate) struct EndDetail<O> {
    /// Time on a run queue.
    queued_ns: OptionalCount,
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
    only: Option<KernelDetail<O>>,
    /// The flows, where there are several or their counters differ from the end's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flows: Vec<FlowReport>,
}

/// The kernel's report on a flow.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "O: Deserialize<'de> + Default"))]
struct KernelDetail<O> {
    tcp: Option<Box<TcpReport>>,
    options: O,
    datagrams: Option<Box<DatagramReport>>,
}

/// Removes the series, which are stored separately.
fn without_series(mut end: EndReport) -> EndReport {
    end.flows.iter_mut().for_each(|flow| flow.series.clear());
    end
}

impl EndDetail<Arc<EffectiveOptions>> {
    /// The part of an end's report that has no column of its own.
    pub(crate) fn of(end: &EndReport) -> EndDetail<Arc<EffectiveOptions>> {
        let flows = without_series(end.clone()).flows;
        if let [flow] = flows.as_slice() {
            let FlowReport { tcp, options, datagrams, .. } = flow.clone();
            let kernel = KernelDetail { tcp, options, datagrams };
            if kernel.clone().flow(end) == *flow {
                return EndDetail { only: Some(kernel), ..EndDetail::without_flows(end) };
            }
        }
        EndDetail { flows, ..EndDetail::without_flows(end) }
    }

    /// Everything except the flows.
    fn without_flows(end: &EndReport) -> EndDetail<Arc<EffectiveOptions>> {
        let EndReport { call, engine, datagrams, ring, relay, relay_program, task, iperf3, .. } = end;
        EndDetail {
            queued_ns: end.queued_ns,
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
}

/// As it is read.
pub(crate) type StoredDetail<'a> = EndDetail<Option<&'a RawValue>>;

impl StoredDetail<'_> {
    /// Rebuilds the end of a cell's trial from its counters and this.
    ///
    /// # Errors
    /// When the options are damaged.
    pub(crate) fn rebuild(
        self,
        numbers: [u64; column::COUNT],
        cell: &CellId,
        shared: &mut SharedParts,
    ) -> Result<EndReport, serde_json::Error> {
        let EndDetail { queued_ns, call, engine, datagrams, ring, relay, relay_program, task, iperf3, .. } = self;
        let mut end = EndReport {
            call,
            engine,
            datagrams,
            ring,
            relay,
            relay_program,
            task,
            iperf3,
            ..column::end(numbers, self.flows)
        };
        end.queued_ns = queued_ns;
        match self.only {
            Some(KernelDetail { tcp, options, datagrams }) => {
                let options = shared.options(cell, options.map_or("{}", RawValue::get))?;
                let kernel = KernelDetail { tcp, options, datagrams };
                end.flows = vec![kernel.flow(&end)];
            }
            None => shared.share(cell, &mut end),
        }
        Ok(end)
    }
}

impl KernelDetail<Arc<EffectiveOptions>> {
    /// The only flow of an end.
    fn flow(self, end: &EndReport) -> FlowReport {
        let KernelDetail { tcp, options, datagrams } = self;
        FlowReport { tcp, options, datagrams, counts: end.counts, ..FlowReport::default() }
    }
}

/// Names of cells, and options of flows with their text, kept once for all trials of a cell that have the same. Options are most of
/// what a flow would take in memory, and of the time to read it.
#[derive(Default)]
pub(crate) struct SharedParts(HashMap<Arc<str>, Vec<KnownOptions>>);

/// Options with their text, which is empty where they came in a list of several flows.
type KnownOptions = (Box<str>, Arc<EffectiveOptions>);

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

    /// The options that a text holds.
    fn options(&mut self, cell: &CellId, text: &str) -> Result<Arc<EffectiveOptions>, serde_json::Error> {
        let known = self.0.get_mut(&cell.0);
        if let Some((_, options)) = known.iter().flat_map(|known| known.iter()).find(|(other, _)| **other == *text) {
            return Ok(Arc::clone(options));
        }
        let options: Arc<EffectiveOptions> = serde_json::from_str(text)?;
        if let Some(known) = known.filter(|known| known.len() < DIFFERENT_MAX) {
            known.push((text.into(), Arc::clone(&options)));
        }
        Ok(options)
    }

    /// Lets the flows of an end share the options that earlier trials of its cell had.
    fn share(&mut self, cell: &CellId, end: &mut EndReport) {
        let Some(known) = self.0.get_mut(&cell.0) else { return };
        for flow in &mut end.flows {
            match known.iter().find(|(_, known)| *known == flow.options) {
                Some((_, known)) => flow.options = Arc::clone(known),
                None if known.len() < DIFFERENT_MAX => known.push(("".into(), Arc::clone(&flow.options))),
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
