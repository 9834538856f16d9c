//! A trial's JSON column: what the kernel said of each flow, and what the machine did.
//!
//! An end with one flow repeats no number: its flow is rebuilt from the end's columns, because a hundred
//! thousand trials are read for one report. Interval series are never in here.

use bytegauge_model::{
    CallReport, DatagramReport, EffectiveOptions, EndReport, EngineReport, FlowReport, MachineUse, RingReport,
    TcpReport, Trial,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::counters;

/// The column.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Detail {
    #[serde(default)]
    source: EndDetail,
    #[serde(default)]
    sink: EndDetail,
    /// What a second group of clients counted.
    #[serde(default)]
    pub(crate) competing: Option<EndReport>,
    #[serde(default)]
    machine: Option<MachineUse>,
}

/// What one end has beside its counters.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct EndDetail {
    /// Time on a run queue.
    queued_ns: Option<u64>,
    /// What the calls were like.
    call: Option<CallReport>,
    /// What the engine did.
    engine: Option<EngineReport>,
    /// What became of datagrams.
    datagrams: Option<DatagramReport>,
    /// What a ring counted.
    ring: Option<RingReport>,
    /// The only flow, whose counters are the end's.
    only: Option<Kernel>,
    /// The flows, where there are several or their counters differ from the end's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flows: Vec<FlowReport>,
}

/// What the kernel said of a flow.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kernel {
    tcp: Option<TcpReport>,
    options: EffectiveOptions,
    socket_memory: Option<u64>,
    queued_bytes: Option<u64>,
    datagrams: Option<DatagramReport>,
}

impl Detail {
    /// What of a trial has no column of its own.
    pub(crate) fn of(trial: &Trial) -> Detail {
        let end = |end: &Option<EndReport>| end.as_ref().map(EndDetail::of).unwrap_or_default();
        Detail {
            source: end(&trial.source),
            sink: end(&trial.sink),
            competing: trial.competing.clone().map(without_series),
            machine: trial.machine.clone(),
        }
    }

    /// The column's text, without what is absent anyway.
    pub(crate) fn text(&self) -> Result<String, serde_json::Error> {
        Ok(lean(serde_json::to_value(self)?).to_string())
    }

    /// Rebuilds the two ends from their counters and this.
    pub(crate) fn ends(
        self,
        source: Option<[u64; counters::COUNT]>,
        sink: Option<[u64; counters::COUNT]>,
    ) -> (Option<EndReport>, Option<EndReport>, Option<MachineUse>) {
        (source.map(|n| self.source.rebuild(n)), sink.map(|n| self.sink.rebuild(n)), self.machine)
    }
}

/// Nobody calibrates by competing clients.
fn without_series(mut end: EndReport) -> EndReport {
    end.flows.iter_mut().for_each(|flow| flow.series.clear());
    end
}

impl EndDetail {
    fn of(end: &EndReport) -> EndDetail {
        let flows = without_series(end.clone()).flows;
        if let [flow] = flows.as_slice() {
            let FlowReport { tcp, options, socket_memory, queued_bytes, datagrams, .. } = flow.clone();
            let kernel = Kernel { tcp, options, socket_memory, queued_bytes, datagrams };
            if kernel.clone().flow(end) == *flow {
                return EndDetail { only: Some(kernel), ..EndDetail::beside(end) };
            }
        }
        EndDetail { flows, ..EndDetail::beside(end) }
    }

    /// Everything but the flows.
    fn beside(end: &EndReport) -> EndDetail {
        let EndReport { queued_ns, call, engine, datagrams, ring, .. } = end;
        EndDetail {
            queued_ns: *queued_ns,
            call: call.clone(),
            engine: *engine,
            datagrams: *datagrams,
            ring: *ring,
            only: None,
            flows: Vec::new(),
        }
    }

    fn rebuild(self, numbers: [u64; counters::COUNT]) -> EndReport {
        let EndDetail { queued_ns, call, engine, datagrams, ring, .. } = self;
        let mut end = EndReport { queued_ns, call, engine, datagrams, ring, ..counters::end(numbers, self.flows) };
        if let Some(kernel) = self.only {
            end.flows = vec![kernel.flow(&end)];
        }
        end
    }
}

impl Kernel {
    /// The only flow of an end.
    fn flow(self, end: &EndReport) -> FlowReport {
        let Kernel { tcp, options, socket_memory, queued_bytes, datagrams } = self;
        FlowReport { tcp, options, socket_memory, queued_bytes, datagrams, ..counters::flow(end) }
    }
}

/// Drops nulls: every field here reads its absence as just that, and less text is read faster.
fn lean(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().filter(|(_, field)| !field.is_null()).map(|(name, field)| (name, lean(field))).collect()
        }
        Value::Array(items) => items.into_iter().map(lean).collect(),
        other => other,
    }
}
