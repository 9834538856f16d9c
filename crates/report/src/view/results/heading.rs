//! The heading of a session: its plan, its duration, and the machine.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{SessionStatus, Spec};
use bytegauge_stats::noise_grade::STEAL_DISTURBED;

use super::super::document::{Compares, FindingKind, GroupView, Severity, Test, View};
use super::super::environment::crowd;
use super::valid_for;
use crate::interval_rounding::{age_range, percent, shown_age};

/// A machine is not quiet where CPU steal hit more than this share of the trials, however short it was.
const OFTEN: f64 = 0.1;

/// Whether a finding shows that the machine was disturbed, or that its speed changed.
fn is_disturbed(view: &View) -> bool {
    use FindingKind::{DependentBlocks, Drift, OtherPrograms, Steal, Throttled, UnevenSteal};
    view.findings.iter().any(|finding| match finding.kind {
        Steal => finding.numbers["trials"] > OFTEN * finding.numbers["of"],
        UnevenSteal | Throttled | OtherPrograms | Drift | DependentBlocks => finding.severity == Severity::Warning,
        _ => false,
    })
}

/// A duration in seconds, as the heading and the findings print it.
pub fn seconds(ns: u64) -> String {
    format!("{} s", significant(ns as f64 / 1e9, 2))
}

/// Trials whose lengths differ by less than this factor have one length in the heading.
const ALIKE: f64 = 1.2;

/// The trials of which a rate is the median: `rates: medians of trials of 25 ms, from 50 ms after connecting`.
fn trials(view: &View) -> Option<String> {
    let range = |ranges: &mut dyn Iterator<Item = (u64, u64)>| ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let shown = |(least, most): (u64, u64)| match most as f64 <= ALIKE * least as f64 {
        true => shown_age(most),
        false => age_range(least, most),
    };
    let length = shown(range(&mut view.groups.iter().filter_map(|group| group.trial_ns.map(|ns| (ns, ns))))?);
    let start = range(&mut view.groups.iter().filter_map(|group| group.age_ns.map(|(from, _)| (from, from))));
    let start = start.map_or_else(String::new, |range| format!(", from {} after connecting", shown(range)));
    let is_timed = |test: &Test| test.compares == Compares::Cpu && test.options.iter().any(|own| own.p99_ns.is_some());
    let shown = if view.tests.iter().all(is_timed) { "percentiles" } else { "rates" };
    Some(format!("{shown}: medians of trials of {length}{start}")).filter(|_| view.status != SessionStatus::Imported)
}

/// `bytegauge buffer-size · session 1 · 51 s · 2 CPUs, Linux 6.18`.
pub fn heading(view: &View) -> String {
    let took = view.elapsed_ns.filter(|ns| *ns >= 1_000_000_000).map(seconds);
    let status = match view.status {
        SessionStatus::Complete => None,
        other => Some(other.name().to_owned()),
    };
    let steal = view.environment.steal_share.filter(|share| *share > STEAL_DISTURBED);
    let steal = steal.map(|share| format!("CPU steal {}", percent(share)));
    let crowd = crowd(&view.environment)
        .map(|(busy, cpus)| format!("busy machine: other programs used {} of {cpus} CPUs", significant(busy, 2)));
    let is_shown = crowd.is_none() && (view.environment.grade >= Some('C') || !is_disturbed(view));
    let quiet = view.environment.quietness().filter(|_| is_shown).map(|quiet| format!("{quiet} machine"));
    let program = view.check.as_ref().map(|check| check.program.clone());
    // The number of CPUs is known already where others used them.
    let cpus = view.environment.allowed_cpus().filter(|_| crowd.is_none()).map(|n| counted(n, "CPU"));
    let kernel = view.environment.fact(&["kernel_release"]).and_then(|kernel| kernel.as_str());
    let kernel = kernel.map(|release| format!("Linux {}", release.split('-').next().unwrap_or(release)));
    let machine = [cpus, kernel].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let machine = Some(machine).filter(|machine| !machine.is_empty());
    let groups: Vec<Spec> = view.groups.iter().map(GroupView::spec).collect();
    let pinned = valid_for::pinned(&groups);
    let session = Some(format!("session {}", view.session));
    let parts = [program, session, took, status, quiet, crowd, machine, steal, pinned, trials(view)];
    let rest: Vec<String> = parts.into_iter().flatten().collect();
    format!("bytegauge {} · {}", view.plan.name, rest.join(" · "))
}
