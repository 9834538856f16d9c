//! A survey: the ready plans at a small scale, one after another. Lists the plans, their questions and their shares of the time.

use crate::built_in;
use crate::error::PlanError;
use crate::spec::{PlanSpec, parse};
use bytegauge_model::factor;

/// Default time of a survey.
pub const SURVEY_NS: u64 = 300_000_000_000;

/// One plan of a survey.
#[derive(Clone, Copy, Debug)]
pub struct SurveyStep {
    /// The ready plan.
    pub plan: &'static str,
    /// Its question, as text.
    pub asks: &'static str,
    /// Its part of the time, relative to the sum of all parts.
    pub part: u64,
    /// Levels in place of the plan's, by factor.
    levels: &'static [(&'static str, &'static str)],
}

/// The plans, the most common ones first.
pub const STEPS: &[SurveyStep] = &[
    SurveyStep { plan: "buffer-size", asks: "which sizes to read and write with", part: 28, levels: &[] },
    SurveyStep { plan: "pipe-sizes", asks: "which sizes for pipes and devices", part: 14, levels: &[] },
    SurveyStep {
        plan: "tcp-echo",
        asks: "which engine for few and for many connections, and the gain by io_uring",
        part: 22,
        levels: &[("flows", "1,150"), ("request", "128")],
    },
    SurveyStep {
        plan: "socket-buffers",
        asks: "whether to set SO_RCVBUF and SO_SNDBUF",
        part: 16,
        levels: &[("profile", "program")],
    },
    SurveyStep {
        plan: "udp-echo",
        asks: "the gain by batching datagrams",
        part: 12,
        levels: &[("flows", "50"), ("request", "512")],
    },
    SurveyStep { plan: "relay-copy", asks: "how to relay a stream", part: 12, levels: &[] },
    SurveyStep { plan: "relay-calls", asks: "how to relay messages", part: 12, levels: &[] },
    SurveyStep { plan: "ring-nop", asks: "the ceiling of an io_uring", part: 10, levels: &[("entries", "64,1024")] },
];

impl SurveyStep {
    /// Its plan, with its share of the time of a survey of `steps` that takes `budget_ns`.
    ///
    /// # Errors
    /// When the ready plan does not take the levels, which the test of the table excludes.
    pub fn spec(&self, steps: &[SurveyStep], budget_ns: u64) -> Result<PlanSpec, PlanError> {
        let mut spec = built_in::find(self.plan)?;
        for (name, text) in self.levels {
            let Some(factor) = factor::find(name) else { continue };
            let levels = parse(factor, text)?;
            spec.parts.iter_mut().for_each(|part| part.set(factor, levels.clone()));
        }
        spec.budget_ns = Some(self.budget_ns(steps, budget_ns));
        // Plans whose trials are long enough to be checked have a session of their own.
        spec.audit = 0.0;
        Ok(spec)
    }

    /// Its time, nanoseconds.
    pub fn budget_ns(&self, steps: &[SurveyStep], budget_ns: u64) -> u64 {
        let parts: u64 = steps.iter().map(|step| step.part).sum();
        (u128::from(budget_ns) * u128::from(self.part) / u128::from(parts.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, resolve};

    #[test]
    fn every_step_resolves_within_its_time() {
        for step in STEPS {
            let plan = resolve(&step.spec(STEPS, SURVEY_NS).unwrap(), &Catalog::default(), 1).unwrap();
            let schedule = plan.schedule();
            assert!(schedule.blocks >= plan.design.blocks_min, "{}: {schedule:?}", step.plan);
            assert!(schedule.total_ns() <= step.budget_ns(STEPS, SURVEY_NS), "{}: {schedule:?}", step.plan);
            assert!(!plan.notes.iter().any(|note| note.contains("too short")), "{}: {:?}", step.plan, plan.notes);
            assert_eq!(plan.name, step.plan);
        }
        let all: u64 = STEPS.iter().map(|step| step.budget_ns(STEPS, SURVEY_NS)).sum();
        assert!(all <= SURVEY_NS && all > SURVEY_NS - 1_000_000);
    }
}
