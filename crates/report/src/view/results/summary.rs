//! The result of each test in one sentence, and the lines that end a report.
//!
//! Every number is an interval end of the document, rounded outward. Decides nothing: states and findings are settled
//! before.

use std::collections::BTreeSet;

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::{counted, significant, significant_down, significant_up};

use super::super::document::{
    Because, Compares, Factors, Finding, FindingKind, OptionResult, OptionStatus, Severity, SummaryLine, Test,
    TestState, VersusView, View,
};
use crate::outward::{BOUND_MAX, at_most, excludes_nothing, percent, share_range};
use crate::phrase::{self, rate_unit};

/// More options than this are counted instead of named.
const NAMED_MAX: usize = 3;
/// More tests than this have their results in the table alone.
const TESTS_MAX: usize = 6;
/// More tests with one bottleneck than this are counted instead of named.
const LIMITED_MAX: usize = 2;
/// A share that is printed as 0.
const NOTHING: f64 = 0.0005;
/// Lines of one heading, the rest are counted.
const LINES_MAX: usize = 4;

/// The result of a test as a sentence without a full stop.
pub fn of_test(view: &View, test: &Test) -> String {
    match test.state {
        TestState::Decided | TestState::Inconclusive => compared(test),
        TestState::Invalid => "no result: the A/A control differs significantly".into(),
        TestState::Unconfirmed => unconfirmed(view, test),
        TestState::Single => {
            let only = test.options.iter().find(|option| option.trials > 0);
            only.map_or_else(String::new, |only| format!("{} only: nothing to compare it with", rated(test, only)))
        }
        TestState::Failed => {
            let reason = test.options.iter().find_map(|option| option.reason.clone());
            match reason {
                Some(reason) => format!("nothing was measured: {}", reason.trim_end_matches('.')),
                None => "nothing was measured".into(),
            }
        }
    }
}

/// `4K at 1.2 GiB/s`.
fn rated(test: &Test, option: &OptionResult) -> String {
    let Some(rate) = option.rate else { return option.label.clone() };
    let (divisor, unit) = rate_unit(test.unit, rate);
    format!("{} at {} {unit}", option.label, significant(rate / divisor, 3))
}

fn unconfirmed(view: &View, test: &Test) -> String {
    let so_far = match test.compares {
        Compares::Time => {
            super::fastest(&test.options).map(|option| format!("fastest so far: {}", rated(test, option)))
        }
        Compares::Cpu => {
            let known = test.options.iter().filter_map(|option| Some((option.cpu?, option.cpu_unit?, option)));
            let least = known.min_by(|a, b| a.0.total_cmp(&b.0));
            least.map(|(cpu, unit, own)| format!("least CPU so far: {} with {} {unit}", own.label, significant(cpu, 3)))
        }
    };
    let so_far = so_far.map_or_else(String::new, |text| format!("; {text}"));
    let why = match view.status {
        _ if test.compares == Compares::Cpu && is_external(test) => {
            "no result: a fixed rate compares CPU time, and that of an external server is not visible; leave out --rate and \
             --think-time"
        }
        SessionStatus::Running => "no result yet: the first analysis is not reached",
        SessionStatus::Incomplete => "no result: interrupted before the first analysis",
        _ if depends(view, test) => "no result: neighbouring blocks depend on each other, so there are no intervals",
        _ => "no result: too few trials for an interval",
    };
    let harmful: Vec<String> =
        test.options.iter().filter(|own| super::harm::is_avoided(&own.harm)).map(harmed).collect();
    let avoid = if harmful.is_empty() { String::new() } else { format!(". Avoid: {}", harmful.join(", ")) };
    format!("{why}{so_far}{avoid}")
}

/// Whether its blocks are enough for an interval, but depend on each other.
fn depends(view: &View, test: &Test) -> bool {
    test.blocks >= super::TRIALS_MIN
        && view
            .findings
            .iter()
            .any(|one| one.kind == FindingKind::DependentBlocks && one.test.as_ref() == Some(&test.id))
}

/// Whether the other end is a server that bytegauge did not start.
fn is_external(test: &Test) -> bool {
    let has = |levels: &Factors| levels.get("connect").is_some_and(|level| !level.is_null());
    has(&test.environment) || test.options.iter().any(|option| has(&option.settings))
}

/// The verdict, the recommendation with its interval, then the options that are tied and those that are slower.
fn compared(test: &Test) -> String {
    let verdict = if test.state == TestState::Decided { "conclusive" } else { "inconclusive" };
    let named = |option: &&OptionResult| test.recommended.as_ref() == Some(&option.id);
    let Some(own) = test.options.iter().find(named) else { return format!("{verdict}: {}", too_wide(test)) };
    let others = || test.options.iter().filter(|option| option.id != own.id && option.slower_upper.is_some());
    let tied: Vec<&OptionResult> =
        others().filter(|option| matches!(option.status, OptionStatus::Best | OptionStatus::Tied)).collect();
    let slower: Vec<&OptionResult> = others().filter(|option| option.status == OptionStatus::Slower).collect();
    let upper = own.slower_upper.unwrap_or(f64::INFINITY);
    let how = match own.status {
        OptionStatus::Best if upper <= NOTHING && test.compares == Compares::Time => "the fastest".into(),
        OptionStatus::Best if upper <= NOTHING => "the least CPU time".into(),
        OptionStatus::Best => format!("within {} of the best", percent(test.margin)),
        // Its interval alone would make it the best.
        _ if upper <= test.margin => {
            format!("within {} of the best, with a limitation: see Caveat", percent(test.margin))
        }
        _ => format!("at most {} than the best", more(test, &at_most(upper))),
    };
    let mut phrases = Vec::new();
    if slower.is_empty() && !tied.is_empty() && own.status == OptionStatus::Tied {
        let all = if tied.len() == 1 { "both".into() } else { format!("all {}", tied.len() + 1) };
        phrases.push(format!(
            "{verdict}: {all} options are tied; use {} ({}), {how}",
            own.label,
            reason(test.because, test.compares)
        ));
    } else {
        phrases.push(format!("{verdict}: use {}, {how}", own.label));
        if !tied.is_empty() {
            let labels = tied.iter().map(|option| option.label.clone()).collect::<Vec<_>>();
            phrases.push(format!("Tied: {}", listed(&labels)));
        }
    }
    let harmful = others().filter(|option| option.status == OptionStatus::Harmful).map(harmed);
    let mut avoid: Vec<String> = harmful.collect();
    if !slower.is_empty() {
        avoid.push(avoided(test, slower));
    }
    if !avoid.is_empty() {
        phrases.push(format!("Avoid: {}", avoid.join(", ")));
    }
    phrases.join(". ")
}

/// An option with its first harm: `208 KiB (71.6 % of the datagrams lost)`.
fn harmed(option: &OptionResult) -> String {
    let of = |share: Option<f64>, text: &str| {
        share.map_or_else(|| text.into(), |share| format!("{} of the {text}", percent(share)))
    };
    let harm = match option.harm.first() {
        Some(FindingKind::LostDatagrams) => of(option.lost_share, "datagrams lost"),
        Some(FindingKind::FailedCalls) => of(option.failed_share, "calls failed"),
        Some(FindingKind::StarvedClients) => of(option.starved_share, "clients without an answer"),
        Some(FindingKind::ListenOverflows) => "listener's queue full".into(),
        Some(FindingKind::TimeOuts) => "time-outs of TCP".into(),
        Some(FindingKind::MissedLoad) => "offered load missed".into(),
        Some(FindingKind::Stalled) => "trials without data".into(),
        Some(FindingKind::TruncatedDatagrams) => "datagrams cut off".into(),
        _ => "see Caveat".into(),
    };
    format!("{} ({harm})", option.label)
}

/// Labels, or their number.
fn listed(labels: &[String]) -> String {
    if labels.len() <= NAMED_MAX { labels.join(", ") } else { counted(labels.len(), "other option") }
}

/// The significantly slower options, the slowest first, each with its interval; of many the slowest and their number.
fn avoided(test: &Test, mut slower: Vec<&OptionResult>) -> String {
    slower.sort_by(|a, b| b.slower_lower.unwrap_or(0.0).total_cmp(&a.slower_lower.unwrap_or(0.0)));
    let each = |option: &&OptionResult| {
        let by = interval(option.slower_lower.unwrap_or(0.0), option.slower_upper.unwrap_or(f64::INFINITY));
        format!("{} ({})", option.label, more(test, &by))
    };
    match slower.len() {
        few if few <= NAMED_MAX => slower.iter().map(each).collect::<Vec<_>>().join(", "),
        many => format!("{} and {}", each(&slower[0]), counted(many - 1, "other option")),
    }
}

/// No option is recommended: every interval is too wide.
fn too_wide(test: &Test) -> String {
    let known = test.options.iter().filter_map(|option| Some((option.slower_upper?, option)));
    let narrowest = known.min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((upper, own)) = narrowest.filter(|(upper, _)| upper.is_finite()) else {
        return "the intervals are too wide for a recommendation".into();
    };
    let up_to = format!("up to {}×", significant_up(1.0 + upper, 2));
    let how = match test.compares {
        Compares::Time => format!("may be {up_to} as slow as the best"),
        Compares::Cpu => format!("may use {up_to} the CPU time of the best"),
    };
    format!("the intervals are too wide for a recommendation; even {} {how}", own.label)
}

/// The interval of an option for tables, or why it has none.
pub fn slower(test: &Test, option: &OptionResult) -> String {
    match (option.slower_lower, option.slower_upper) {
        (Some(lower), Some(upper)) => interval(lower, upper),
        _ if option.status == OptionStatus::Failed => "failed".into(),
        _ if matches!(test.state, TestState::Decided | TestState::Inconclusive) => "screened only".into(),
        _ => "–".into(),
    }
}

/// An interval of extra time for a table and a sentence: `0–5.3 %`, and as a multiple where it includes twice the time:
/// `1.45–2.3×`, `up to 3.1×`, `at least 1.45×`.
pub fn interval(lower: f64, upper: f64) -> String {
    let from = || {
        // A lower end above 0 is shown as such.
        let digits = (3..=6).find(|&digits| significant_down(1.0 + lower, digits) != "1").unwrap_or(3);
        significant_down(1.0 + lower, digits)
    };
    match upper {
        upper if !excludes_nothing(upper) => share_range(lower, upper),
        upper if upper >= BOUND_MAX && lower <= 0.0 => "any multiple".into(),
        upper if upper >= BOUND_MAX => format!("at least {}×", from()),
        upper if lower <= 0.0 => format!("up to {}×", significant_up(1.0 + upper, 2)),
        upper => format!("{}–{}×", from(), significant_up(1.0 + upper, 3)),
    }
}

/// A share or a multiple, with its noun.
pub fn more(test: &Test, share: &str) -> String {
    let is_multiple = !share.ends_with('%');
    match test.compares {
        Compares::Time if is_multiple => format!("{share} as slow"),
        Compares::Time => format!("{share} slower"),
        Compares::Cpu if is_multiple => format!("{share} the CPU time"),
        Compares::Cpu => format!("{share} more CPU time"),
    }
}

/// Why an option is recommended, in brackets behind it.
pub fn reason(because: Option<Because>, compares: Compares) -> &'static str {
    match because {
        Some(Because::Fastest) if compares == Compares::Cpu => "least CPU time",
        Some(Because::Fastest) => "fastest",
        Some(Because::Default) => "the default",
        Some(Because::Smallest) => "smallest",
        Some(Because::SmallestMaximum) => "safest",
        Some(Because::Only) | None => "only option",
    }
}

/// The summary: results, effects, the bottleneck, caveats.
pub fn lines(view: &View) -> Vec<SummaryLine> {
    let mut all = of_heading(view, Heading::Compared);
    all.extend(results(view));
    for heading in [Heading::Gain, Heading::Advice, Heading::Effect, Heading::OneSetting] {
        all.extend(of_heading(view, heading));
    }
    all.extend(code(view));
    all.extend(of_heading(view, Heading::Memory));
    all.extend(bottleneck(view));
    for heading in [Heading::Relay, Heading::Link, Heading::Caveat] {
        all.extend(of_heading(view, heading));
    }
    all
}

fn results(view: &View) -> Vec<SummaryLine> {
    if let Some(versus) = &view.versus {
        let result = line("Result", format!("{}.", phrase::capital(&versus.text)));
        return [result].into_iter().chain(pairs(view, versus)).collect();
    }
    match view.tests.as_slice() {
        [test] => vec![line("Result", format!("{}.", phrase::capital(&test.result)))],
        tests if tests.len() <= TESTS_MAX => {
            tests.iter().map(|test| line(&test.name, format!("{}.", test.result))).collect()
        }
        tests => vec![line("Results", counts(tests))],
    }
}

/// How many pairs are behind the comparison of two.
fn pairs(view: &View, versus: &VersusView) -> Option<SummaryLine> {
    let group = view.groups.first().filter(|_| versus.blocks > 0)?;
    let used = group.blocks.used.max(versus.blocks);
    let merged = match used > versus.blocks {
        true => format!(", which count as {} because neighbours depend on each other", versus.blocks),
        false => String::new(),
    };
    let look = group.look.as_ref().filter(|look| look.of > 1);
    let look = look.map_or_else(String::new, |look| format!("; analysis {} of at most {}", look.done, look.of));
    let level = percent(view.plan.level);
    Some(line("Basis", format!("{level} confidence, {} of A and B{merged}{look}.", counted(used, "pair"))))
}

/// How many tests have which state.
fn counts(tests: &[Test]) -> String {
    let known = [
        (TestState::Decided, "conclusive"),
        (TestState::Inconclusive, "inconclusive"),
        (TestState::Unconfirmed, "without a result yet"),
        (TestState::Invalid, "without a valid result"),
        (TestState::Single, "with one option only"),
        (TestState::Failed, "failed"),
    ];
    let count = |state: TestState| tests.iter().filter(|test| test.state == state).count();
    let phrases = known.into_iter().map(|(state, text)| (count(state), text)).filter(|(count, _)| *count > 0);
    let phrases: Vec<String> = phrases.map(|(count, text)| format!("{count} {text}")).collect();
    format!("{}: {}.", counted(tests.len(), "test"), phrases.join(", "))
}

fn line(heading: &str, text: String) -> SummaryLine {
    SummaryLine { heading: heading.to_owned(), text }
}

/// Headings of findings.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub enum Heading {
    Compared,
    Gain,
    Advice,
    Effect,
    OneSetting,
    Memory,
    Relay,
    Link,
    LongTrials,
    Valid,
    Caveat,
    Note,
}

impl Heading {
    /// The heading of a finding.
    pub fn of(finding: &Finding) -> Heading {
        match (finding.kind, finding.severity) {
            (FindingKind::Comparison, _) => Heading::Compared,
            (FindingKind::Gain, _) => Heading::Gain,
            (FindingKind::Advice, _) => Heading::Advice,
            (FindingKind::BiggestEffect, _) => Heading::Effect,
            (FindingKind::OneSetting, _) => Heading::OneSetting,
            (FindingKind::Memory, _) => Heading::Memory,
            (FindingKind::Relay, _) => Heading::Relay,
            (FindingKind::Link, _) => Heading::Link,
            (_, Severity::Error | Severity::Warning) => Heading::Caveat,
            (FindingKind::LongTrialsConfirm | FindingKind::LongTrialsInconclusive, _)
            | (FindingKind::LongTrialsMissing, _) => Heading::LongTrials,
            (FindingKind::ValidFor, _) => Heading::Valid,
            _ => Heading::Note,
        }
    }

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Heading::Compared => "Compared",
            Heading::Gain => "Gain",
            Heading::Advice => "Advice",
            Heading::Effect => "Biggest effect",
            Heading::OneSetting => "One setting for all",
            Heading::Memory => "Memory",
            Heading::Relay => "Relay",
            Heading::Link => "Link",
            Heading::LongTrials => "Long-trial check",
            Heading::Valid => "Valid for",
            Heading::Caveat => "Caveat",
            Heading::Note => "Note",
        }
    }
}

/// The first findings of a heading, one of each kind, with the number of those that are left out.
fn of_heading(view: &View, heading: Heading) -> Vec<SummaryLine> {
    let of_it: Vec<&Finding> = view.findings.iter().filter(|finding| Heading::of(finding) == heading).collect();
    let mut kinds: BTreeSet<FindingKind> = BTreeSet::new();
    // Only caveats of one kind are merged.
    let once = |finding: &&&Finding| heading != Heading::Caveat || kinds.insert(finding.kind);
    let mut all: Vec<&Finding> = of_it.iter().filter(once).copied().collect();
    // A busy machine widens intervals, which show it already.
    all.sort_by_key(|finding| (finding.severity, is_noise(finding.kind)));
    let max = if matches!(heading, Heading::Effect) { 1 } else { LINES_MAX };
    let shown = all.len().min(max);
    let mut lines: Vec<SummaryLine> =
        all.iter().take(shown).map(|finding| line(heading.name(), finding.text.clone())).collect();
    let hidden = of_it.len() - shown;
    if let Some(last) = lines.last_mut().filter(|_| hidden > 0 && heading != Heading::Effect) {
        last.text.push_str(&format!(" ({hidden} more: --full)"));
    }
    lines
}

/// Whether a finding is about the machine, and not about a result.
fn is_noise(kind: FindingKind) -> bool {
    use FindingKind as LevelKind;
    matches!(
        kind,
        LevelKind::Steal
            | LevelKind::OtherPrograms
            | LevelKind::NoisyMachine
            | LevelKind::HarnessCost
            | LevelKind::LateClient
            | LevelKind::Throttled
    )
}

/// The code for the program, where it is the same in all tests.
fn code(view: &View) -> Option<SummaryLine> {
    let codes: BTreeSet<&Vec<String>> =
        view.tests.iter().filter(|test| test.recommended.is_some()).map(|test| &test.code).collect();
    let [code] = codes.into_iter().collect::<Vec<_>>()[..] else { return None };
    (!code.is_empty() && view.versus.is_none()).then(|| line("In the program", format!("{}.", code.join(", "))))
}

/// The limits of the recommended options, by the limit.
fn bottleneck(view: &View) -> Option<SummaryLine> {
    let mut limits: Vec<(String, Vec<&Test>)> = Vec::new();
    for test in &view.tests {
        let Some(found) = &test.bottleneck else { continue };
        let name = phrase::limit(found.limit).to_owned();
        match limits.iter_mut().find(|(known, _)| *known == name) {
            Some((_, tests)) => tests.push(test),
            None => limits.push((name, vec![test])),
        }
    }
    let text = match limits.as_slice() {
        [] => return None,
        [(name, tests)] => match tests.as_slice() {
            [test] => test.bottleneck.as_ref()?.text.clone(),
            _ if view.tests.len() == tests.len() => format!("{name}, in all tests"),
            _ => format!("{name}, in {} of {} tests", tests.len(), view.tests.len()),
        },
        _ => {
            let each = limits.iter().map(|(name, tests)| match tests.as_slice() {
                tests if view.tests.len() <= TESTS_MAX && tests.len() <= LIMITED_MAX => {
                    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
                    format!("{name} ({})", names.join(", "))
                }
                tests => format!("{name} ({} of {} tests)", tests.len(), view.tests.len()),
            });
            each.collect::<Vec<_>>().join("; ")
        }
    };
    Some(line("Bottleneck", format!("{}.", text.trim_end_matches('.'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = include_str!("../../../../../docs/glossary.md");

    #[test]
    fn every_heading_is_in_the_glossary() {
        let of_findings = [
            Heading::Compared,
            Heading::Gain,
            Heading::Advice,
            Heading::Effect,
            Heading::OneSetting,
            Heading::Memory,
            Heading::Relay,
            Heading::Link,
            Heading::LongTrials,
            Heading::Valid,
            Heading::Caveat,
            Heading::Note,
        ];
        let others = [
            "Result",
            "Results",
            "Basis",
            "In the program",
            "Bottleneck",
            "Summary",
            "Findings",
            "Next",
            "All details",
        ];
        for name in of_findings.map(Heading::name).into_iter().chain(others) {
            assert!(GLOSSARY.contains(&format!("\n| {name} |")), "{name}");
        }
    }
}
