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
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::column;

/// The column's text: the report of an end without the counters that have columns, the series, which are stored separately, and null
/// values.
pub(crate) fn text(end: &EndReport) -> Result<String, serde_json::Error> {
    let mut whole = end.clone();
    whole.flows.iter_mut().for_each(|flow| flow.series.clear());
    let mut fields = lean(serde_json::to_value(whole)?);
    remove(&mut fields, &column::NAMES);
    // All fields of a flow: those that `OnlyFlow` does not read have to be known.
    if let [FlowReport { counts, back: false, tcp: _, options: _, datagrams: _, series: _ }] = end.flows.as_slice()
        && *counts == end.counts
    {
        let mut only = fields["flows"][0].take();
        remove(&mut only, &column::NAMES);
        remove(&mut only, &["queued_ns"]);
        fields["only"] = only;
        remove(&mut fields, &["flows"]);
    } else if end.flows.is_empty() {
        remove(&mut fields, &["flows"]);
    }
    Ok(fields.to_string())
}

fn remove(value: &mut Value, names: &[&str]) {
    value.as_object_mut().into_iter().for_each(|fields| fields.retain(|name, _| !names.contains(&name.as_str())));
}

/// The part of an end's report that is not a counter, as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct StoredDetail<'a> {
    /// Time on a run queue.
    queued_ns: OptionalCount,
    call: Option<Box<CallReport>>,
    engine: Option<Box<EngineReport>>,
    datagrams: Option<Box<DatagramReport>>,
    ring: Option<Box<RingReport>>,
    relay: Option<Box<RelayReport>>,
    relay_program: Option<Box<RelayProgramReport>>,
    task: Option<Box<TaskReport>>,
    iperf3: Option<Box<Iperf3Report>>,
    /// The only flow, whose counters are the end's.
    #[serde(borrow)]
    only: Option<OnlyFlow<'a>>,
    /// The flows, where there are several or their counters differ from the end's.
    flows: Vec<FlowReport>,
}

/// The kernel's report on a flow. Its options are text, which most trials of a cell share.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OnlyFlow<'a> {
    tcp: Option<Box<TcpReport>>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
    datagrams: Option<Box<DatagramReport>>,
}

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
        let StoredDetail { queued_ns, call, engine, datagrams, ring, relay, relay_program, task, iperf3, .. } = self;
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
            Some(OnlyFlow { tcp, options, datagrams }) => {
                let options = shared.options(cell, options.map_or("{}", RawValue::get))?;
                end.flows = vec![FlowReport { tcp, options, datagrams, counts: end.counts, ..FlowReport::default() }];
            }
            None => shared.share(cell, &mut end),
        }
        Ok(end)
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
