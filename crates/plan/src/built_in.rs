//! The ready plans, by name: the files of `plans/`, built into the program.
//!
//! Also a survey, which runs them at a small scale.

use bytegauge_model::{factor, suggest};

use crate::spec::{PlanSpec, parse};
use crate::{PlanError, file};

/// Name and text of every ready plan.
pub const PLANS: &[(&str, &str)] = &[
    ("buffer-size", include_str!("../plans/buffer-size.toml")),
    ("buffer-alignment", include_str!("../plans/buffer-alignment.toml")),
    ("buffer-grid", include_str!("../plans/buffer-grid.toml")),
    ("read-sweep", include_str!("../plans/read-sweep.toml")),
    ("pipe-sizes", include_str!("../plans/pipe-sizes.toml")),
    ("socket-buffers", include_str!("../plans/socket-buffers.toml")),
    ("tcp-echo", include_str!("../plans/tcp-echo.toml")),
    ("udp-echo", include_str!("../plans/udp-echo.toml")),
    ("receive-buffer", include_str!("../plans/receive-buffer.toml")),
    ("part-written", include_str!("../plans/part-written.toml")),
    ("streaming", include_str!("../plans/streaming.toml")),
    ("relay-copy", include_str!("../plans/relay-copy.toml")),
    ("relay-calls", include_str!("../plans/relay-calls.toml")),
    ("remote-tcp", include_str!("../plans/remote-tcp.toml")),
    ("delay-loss", include_str!("../plans/delay-loss.toml")),
    ("ring-nop", include_str!("../plans/ring-nop.toml")),
];

/// The ready plan of that name, with examples of the factors that its user must give, for display.
///
/// # Errors
/// As [`find`].
pub fn shown(name: &str) -> Result<PlanSpec, PlanError> {
    let mut spec = find(name)?;
    let examples: Vec<_> = spec
        .wants
        .iter()
        .filter_map(|name| Some((factor::find(name)?, (*name == "host").then_some(EXAMPLE_HOST)?.to_owned())))
        .collect();
    spec.set_all(&examples)?;
    Ok(spec)
}

/// An example address without a host (RFC 5737).
const EXAMPLE_HOST: &str = "192.0.2.1:7300";

/// The ready plan of that name.
///
/// # Errors
/// [`PlanError::Usage`] with what may have been meant.
pub fn find(name: &str) -> Result<PlanSpec, PlanError> {
    match PLANS.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => file::parse(name, text),
        None => {
            let hint = suggest::hint(name, PLANS.iter().map(|(name, _)| *name));
            PlanError::usage(format!("no plan is called `{name}`{hint} (or give a path that ends in .toml)"))
        }
    }
}

// A survey: the ready plans at a small scale, one after another. Lists the plans, their questions and their shares of the time.

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
    SurveyStep { plan: "pipe-sizes", asks: "which sizes for pipes", part: 14, levels: &[] },
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
        let mut spec = find(self.plan)?;
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
