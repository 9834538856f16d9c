//! The lines that end a report. Decides nothing: results and findings are settled before.

use std::collections::BTreeSet;

use bytegauge_model::unit::{counted, significant};

use super::super::document::{
    Bottleneck, Finding, FindingKind, Severity, SummaryLine, Test, TestState, VersusView, View,
};
use super::super::environment::{crowd, is_crowded};
use super::least_cpu;
use super::outcome::{BRIEF_TESTS, condition, in_short, recommended_label};
use super::sentences::CONTRADICT;
use crate::interval_rounding::percent;
use crate::phrase;

/// More tests than this have their results in the table alone.
const TESTS_MAX: usize = 6;
/// More tests with one bottleneck than this are counted instead of named.
const LIMITED_MAX: usize = 2;
/// Lines of one heading, the rest are counted.
pub const LINES_MAX: usize = 4;
/// Caveats of a session with several tests: the results and they fit on a terminal of 24 lines.
const CAVEATS_MAX: usize = 2;
/// Lines about relays: the table has their rates and CPU time, the full report their versions and descriptors.
const RELAY_MAX: usize = 2;

/// The summary: recommended options, then effects, the bottleneck and caveats.
pub fn lines(view: &View) -> Vec<SummaryLine> {
    let mut all = results(view, LINES_MAX);
    all.extend(least_cpu(view));
    let of_heading = |heading| of_heading(view, heading, LINES_MAX);
    all.extend([Heading::Effect, Heading::Memory].into_iter().flat_map(of_heading));
    all.extend(bottleneck(view));
    all.extend([Heading::Relay, Heading::Link, Heading::Caveat].into_iter().flat_map(of_heading));
    all
}

/// The lines that name the options to use; at most `max` of one heading.
pub fn results(view: &View, max: usize) -> Vec<SummaryLine> {
    let mut all: Vec<SummaryLine> = busy(view).into_iter().chain(of_heading(view, Heading::Compared, max)).collect();
    all.extend(of_heading(view, Heading::Latency, max));
    all.extend(of_tests(view));
    all.extend([Heading::Gain, Heading::Advice].into_iter().flat_map(|heading| of_heading(view, heading, max)));
    all.extend(earlier(view, max));
    all.extend(one_setting(view));
    all.extend(code(view));
    all.iter_mut().for_each(|line| line.is_result = true);
    all
}

fn of_tests(view: &View) -> Vec<SummaryLine> {
    if let Some(versus) = &view.versus {
        let result = line("Result", format!("{}.", phrase::capital(&versus.text)));
        return [result].into_iter().chain(pairs(view, versus)).collect();
    }
    match view.tests.as_slice() {
        [test] => vec![line("Result", format!("{}.", phrase::capital(&test.result)))],
        tests if tests.len() <= TESTS_MAX => {
            let text = |test| format!("{}{}.", in_short(view, test), condition(view, test));
            tests.iter().map(|test| line(&test.name, text(test))).collect()
        }
        tests => [Some(line("Results", counts(tests))), used(tests)].into_iter().flatten().collect(),
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

/// The recommendations of an earlier session: one line for several tests, since the results of this one come first.
fn earlier(view: &View, max: usize) -> Vec<SummaryLine> {
    let all = || view.findings.iter().filter(|finding| Heading::of(finding) == Heading::Earlier);
    let (Some(first), 2..) = (all().next(), all().count()) else { return of_heading(view, Heading::Earlier, max) };
    if max == usize::MAX {
        return of_heading(view, Heading::Earlier, max);
    }
    let (count, tests) = (all().count(), counted(view.tests.len(), "result"));
    let session = first.numbers.get("session").copied().unwrap_or(0.0);
    let fits = match all().filter(|finding| finding.kind == FindingKind::EarlierContradicts).count() {
        0 => "intervals allow both".to_owned(),
        some => format!("in {some}, {CONTRADICT} (--full)"),
    };
    let text = format!("{count} of {tests} differ from session {session}; {fits}.");
    vec![line(Heading::Earlier.name(), text)]
}

/// The values that may serve several tests, in one line.
fn one_setting(view: &View) -> Option<SummaryLine> {
    let each = view.findings.iter().filter(|finding| finding.kind == FindingKind::OneSetting);
    let each: Vec<&str> = each.map(|finding| finding.text.trim_end_matches('.')).collect();
    (!each.is_empty()).then(|| line(Heading::OneSetting.name(), format!("{}.", each.join("; "))))
}

/// The options with the least CPU time, of tests that time leaves undecided.
fn least_cpu(view: &View) -> Option<SummaryLine> {
    let all = phrase::grouped(view.tests.iter().filter_map(|test| Some((least_cpu::least(test)?, test.name.clone()))));
    let is_single = view.tests.len() == 1;
    let each = all.iter().map(|(least, names)| match is_single {
        true => least.clone(),
        false => format!("{least} ({})", names.join(", ")),
    });
    // The tables tell it of many tests.
    (1..=BRIEF_TESTS)
        .contains(&all.iter().map(|(_, names)| names.len()).sum())
        .then(|| line("Least CPU", format!("{}.", each.collect::<Vec<_>>().join("; "))))
}

/// How many tests have which state.
fn counts(tests: &[Test]) -> String {
    let known = [
        (TestState::Decided, "decided"),
        (TestState::Inconclusive, "undecided"),
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

/// Texts with their counts, the most frequent first.
fn counts_of(texts: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut known: Vec<(String, usize)> = Vec::new();
    for text in texts {
        match known.iter_mut().find(|(one, _)| *one == text) {
            Some((_, count)) => *count += 1,
            None => known.push((text, 1)),
        }
    }
    known.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    known
}

/// The recommended options of many tests, each with the number of its tests.
fn used(tests: &[Test]) -> Option<SummaryLine> {
    let compared = tests.iter().filter(|test| test.state != TestState::Single);
    let known = counts_of(compared.filter_map(|test| Some(recommended_label(test, test.recommended_option()?))));
    let hidden = known.len().saturating_sub(LINES_MAX);
    let mut each: Vec<String> =
        known.iter().take(LINES_MAX).map(|(label, count)| format!("{label} in {}", counted(*count, "test"))).collect();
    each.extend((hidden > 0).then(|| format!("{hidden} more in the table")));
    (!each.is_empty()).then(|| line("Use", format!("{}.", each.join("; "))))
}

/// The heading of what limits the tests.
const BOTTLENECK: &str = "Bottleneck";

/// Whether a line has a reason for the settings: the biggest effect, and what limits.
pub fn is_reason(line: &SummaryLine) -> bool {
    [Heading::Effect.name(), BOTTLENECK].contains(&line.heading.as_str())
}

fn line(heading: &str, text: String) -> SummaryLine {
    SummaryLine { heading: heading.to_owned(), text, more: None, is_result: false }
}

/// Headings of findings.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub enum Heading {
    Compared,
    Latency,
    Gain,
    Advice,
    Effect,
    OneSetting,
    Memory,
    Relay,
    Link,
    LongTrials,
    Valid,
    Earlier,
    Caveat,
    Busy,
    Note,
}

impl Heading {
    /// The heading of a finding.
    pub fn of(finding: &Finding) -> Heading {
        match (finding.kind, finding.severity) {
            (FindingKind::Comparison, _) => Heading::Compared,
            (FindingKind::LongerP99, _) => Heading::Latency,
            (FindingKind::Gain, _) => Heading::Gain,
            (FindingKind::Advice, _) => Heading::Advice,
            (FindingKind::BiggestEffect, _) => Heading::Effect,
            (FindingKind::OneSetting, _) => Heading::OneSetting,
            (FindingKind::Memory, Severity::Result) => Heading::Memory,
            (FindingKind::Relay, _) => Heading::Relay,
            (FindingKind::Link, _) => Heading::Link,
            (FindingKind::EarlierContradicts | FindingKind::EarlierDiffers, _) => Heading::Earlier,
            (FindingKind::OtherPrograms, _) if is_of_crowd(finding) => Heading::Busy,
            (_, Severity::Error | Severity::Warning) => Heading::Caveat,
            (FindingKind::LongTrialsConfirm | FindingKind::LongTrialsInconclusive, _)
            | (FindingKind::LongTrialsMissing, _) => Heading::LongTrials,
            (FindingKind::ValidFor, _) => Heading::Valid,
            _ => Heading::Note,
        }
    }

    /// Whether its findings are among the last lines, which name the options to use.
    pub fn is_result(self) -> bool {
        matches!(
            self,
            Heading::Compared
                | Heading::Latency
                | Heading::Gain
                | Heading::Advice
                | Heading::Earlier
                | Heading::OneSetting
                | Heading::Busy
        )
    }

    /// Whether a line of the summary with this heading repeats findings.
    pub fn is_of_finding(name: &str) -> bool {
        let of_facts = [Heading::Effect, Heading::Memory, Heading::Relay, Heading::Link, Heading::Caveat];
        of_facts.iter().any(|heading| heading.name() == name)
    }

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Heading::Compared => "Compared",
            Heading::Latency => "Latency",
            Heading::Gain => "Gain",
            Heading::Advice => "Advice",
            Heading::Effect => "Biggest effect",
            Heading::OneSetting => "One setting for all",
            Heading::Memory => "Memory",
            Heading::Relay => "Relay",
            Heading::Link => "Link",
            Heading::LongTrials => "Long-trial check",
            Heading::Valid => "Valid for",
            Heading::Earlier => "Earlier session",
            Heading::Caveat => "Caveat",
            Heading::Busy => "Busy machine",
            Heading::Note => "Note",
        }
    }
}

/// The worst findings of a heading, one of each kind, with the number of those that are left out.
fn of_heading(view: &View, heading: Heading, lines_max: usize) -> Vec<SummaryLine> {
    // The table has the intervals of options; levels of a factor have none there.
    let is_in_table = |finding: &Finding| finding.kind == FindingKind::Comparison && finding.names.is_empty();
    let mut all: Vec<&Finding> = view.findings.iter().filter(|finding| Heading::of(finding) == heading).collect();
    all.retain(|finding| lines_max == usize::MAX || !is_in_table(finding));
    let found = all.len();
    let is_caveat = heading == Heading::Caveat;
    if is_caveat {
        // A busy machine widens intervals, which show it already.
        let rank = |finding: &Finding| (finding.severity, is_noise(finding.kind));
        all.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
        // Only caveats of one kind are merged.
        let mut kinds: BTreeSet<FindingKind> = BTreeSet::new();
        all.retain(|finding| kinds.insert(finding.kind));
    }
    let max = match heading {
        Heading::Effect => 1,
        Heading::Caveat if view.tests.len() > 1 => CAVEATS_MAX,
        Heading::Relay => lines_max.min(RELAY_MAX),
        _ => lines_max,
    };
    // One more takes little more room than its number.
    all.truncate(if is_caveat && found == max.saturating_add(1) { found } else { max });
    let mut lines: Vec<SummaryLine> = all.iter().map(|finding| line(heading.name(), finding.text.clone())).collect();
    let hidden = found - all.len();
    if let Some(last) = lines.last_mut().filter(|_| hidden > 0 && heading != Heading::Effect) {
        last.more = Some(hidden);
    }
    lines
}

/// Whether other programs used a fifth of the CPUs or more, which the last line reports.
fn is_of_crowd(finding: &Finding) -> bool {
    let number = |name: &str| finding.numbers.get(name).copied();
    number("cpus").zip(number("of_cpus")).is_some_and(|(cpus, of)| is_crowded(cpus, of))
}

/// How large a finding is, as a share: the worst one of a kind is shown.
fn size(finding: &Finding) -> f64 {
    let number = |name: &str| finding.numbers.get(name).copied();
    let share_of = |part: &str, of: &str| number(part).zip(number(of)).map(|(part, of)| part / of);
    let changed = |from: &str, to: &str| number(from).zip(number(to)).map(|(from, to)| (to / from).ln().abs());
    let known = match finding.kind {
        FindingKind::ControlDiffers => ["lower", "upper"].into_iter().filter_map(number).map(f64::abs).reduce(f64::max),
        FindingKind::ControlWide => number("reach"),
        FindingKind::LongTrialsContradict | FindingKind::LongTrialsInconclusive => number("slower_lower"),
        FindingKind::Drift => changed("first", "last"),
        FindingKind::SeveralSpeeds => changed("slowest", "fastest").or_else(|| changed("median", "average")),
        FindingKind::SlowTrialsDisagree => changed("rate", "other_rate"),
        FindingKind::Stalled | FindingKind::Steal | FindingKind::FailedTrials => share_of("trials", "of"),
        FindingKind::MissedLoad => number("carried_share").map(|share| 1.0 - share),
        FindingKind::UnevenSteal => share_of("most_share", "least_share"),
        _ => finding.numbers.iter().find(|(name, _)| name.ends_with("_share")).map(|(_, share)| *share),
    };
    known.map_or(0.0, f64::abs)
}

/// Whether a finding is about the machine or about single trials, and not about a result.
fn is_noise(kind: FindingKind) -> bool {
    use FindingKind as LevelKind;
    matches!(
        kind,
        LevelKind::Steal
            | LevelKind::OtherPrograms
            | LevelKind::NoisyMachine
            | LevelKind::HarnessCost
            | LevelKind::SeveralSpeeds
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

/// Other programs that used much of the machine meanwhile: on a quiet one the result may be another.
fn busy(view: &View) -> Option<SummaryLine> {
    let (used, of) =
        crowd(&view.environment).filter(|_| view.tests.iter().any(|test| test.state != TestState::Failed))?;
    let used = significant(used, 2);
    let so = match view.tests.iter().any(Test::is_compared) {
        true => ", so intervals are wide",
        false => "; a quiet machine may have another result",
    };
    Some(line(Heading::Busy.name(), format!("other programs used {used} of {of} CPUs{so}.")))
}

/// The limits of the recommended options, and the changes that may help.
fn bottleneck(view: &View) -> Option<SummaryLine> {
    let mut limits: Vec<(&Bottleneck, Vec<&Test>)> = Vec::new();
    for (test, found) in view.tests.iter().filter_map(|test| Some((test, test.bottleneck.as_ref()?))) {
        match limits.iter_mut().find(|(known, _)| known.title == found.title) {
            Some((_, tests)) => tests.push(test),
            None => limits.push((found, vec![test])),
        }
    }
    let (all, is_one) = (view.tests.len(), limits.len() == 1);
    let each = limits.iter().map(|(found, tests)| match tests.len() {
        1 if all == 1 => found.text.trim_end_matches('.').to_owned(),
        count if is_one && count == all => format!("{}, in all tests", found.title),
        count if !is_one && all <= TESTS_MAX && count <= LIMITED_MAX => {
            let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
            format!("{} ({})", found.title, names.join(", "))
        }
        count => format!("{} ({count} of {all} tests)", found.title),
    });
    let each: Vec<String> = each.collect();
    let remedy = remedy(view).map_or_else(String::new, |text| format!(" {}.", phrase::capital(text)));
    (!each.is_empty()).then(|| line(BOTTLENECK, format!("{}.{remedy}", each.join("; "))))
}

/// The change that may help in all tests; where they differ, their details have the changes.
fn remedy(view: &View) -> Option<&str> {
    let mut all = view.tests.iter().filter_map(|test| test.bottleneck.as_ref()).map(|found| found.remedy.as_deref());
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = include_str!("../../../../../docs/glossary.md");

    #[test]
    fn every_heading_is_in_the_glossary() {
        let of_findings = [
            Heading::Compared,
            Heading::Latency,
            Heading::Gain,
            Heading::Advice,
            Heading::Effect,
            Heading::OneSetting,
            Heading::Memory,
            Heading::Relay,
            Heading::Link,
            Heading::LongTrials,
            Heading::Valid,
            Heading::Earlier,
            Heading::Caveat,
            Heading::Busy,
            Heading::Note,
        ];
        let others = [
            "Result",
            "Results",
            "Use",
            "Basis",
            "In the program",
            "Least CPU",
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
