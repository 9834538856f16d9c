//! An end's JSON column: what the kernel said of each flow, and what it counted that not every end counts.
//!
//! An end with one flow repeats no number: its flow is rebuilt from the end's columns, because a hundred
//! thousand trials are read for one report. Interval series are never in here.

use bytegauge_model::{
    CallReport, DatagramReport, EffectiveOptions, EndReport, EngineReport, FlowReport, RelayProgramReport, RelayReport,
    RingReport, TaskReport, TcpReport,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::counters;

/// What one end has beside its counters.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EndDetail {
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
    /// What a relay counted.
    relay: Option<RelayReport>,
    /// What is known of a program that was the relay.
    relay_program: Option<RelayProgramReport>,
    /// What became of a program.
    task: Option<TaskReport>,
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

/// Series stand apart.
fn without_series(mut end: EndReport) -> EndReport {
    end.flows.iter_mut().for_each(|flow| flow.series.clear());
    end
}

impl EndDetail {
    /// What of an end has no column of its own.
    pub(crate) fn of(end: &EndReport) -> EndDetail {
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
        let EndReport { queued_ns, call, engine, datagrams, ring, relay, relay_program, task, .. } = end;
        EndDetail {
            queued_ns: *queued_ns,
            call: call.clone(),
            engine: *engine,
            datagrams: *datagrams,
            ring: *ring,
            relay: *relay,
            relay_program: relay_program.clone(),
            task: task.clone(),
            only: None,
            flows: Vec::new(),
        }
    }

    /// The column's text, without what is absent anyway.
    pub(crate) fn text(&self) -> Result<String, serde_json::Error> {
        Ok(lean(serde_json::to_value(self)?).to_string())
    }

    /// The end again, from its counters and this.
    pub(crate) fn rebuild(self, numbers: [u64; counters::COUNT]) -> EndReport {
        let EndDetail { queued_ns, call, engine, datagrams, ring, relay, relay_program, task, .. } = self;
        let mut end = EndReport {
            queued_ns,
            call,
            engine,
            datagrams,
            ring,
            relay,
            relay_program,
            task,
            ..counters::end(numbers, self.flows)
        };
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
