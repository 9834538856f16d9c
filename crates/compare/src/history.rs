//! Stored sessions before and after a change: are the results worse?
//!
//! Two sessions differ by more than their trials show: another hour, another layout of memory. So a session counts once, the
//! error is the spread between sessions, and with fewer than five before there is no result
//! (`bytegauge_stats::compare::between_sessions`). Only the choice of the last session before is compared in each group, so that
//! few lines share the error of 5 %: all intervals hold together. Never pools the trials of two sessions.

use std::collections::BTreeMap;

use bytegauge_model::unit::counted;
use bytegauge_model::{CellKind, Cost, SessionId, Spec};
use bytegauge_report::view::numbers::difference::of_time;
use bytegauge_report::view::numbers::{SubjectDifference, Verdict};
use bytegauge_report::view::{matching, verifies};
use bytegauge_report::words::cost_words;
use bytegauge_report::words::interval_rounding::{ShareScale, percent};
use bytegauge_report::words::number::{common_unit, fixed, rate};
use bytegauge_report::words::paint::{Paint, TerminalStyle, wrap};
use bytegauge_report::{ConfirmedRate, Report, SessionData, Settings};
use bytegauge_stats::compare::{Comparison, MIN_SESSIONS, between_sessions};
use schemars::JsonSchema;
use serde::Serialize;

/// The comparison of sessions before and after.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HistoryView {
    /// The plan's name.
    pub plan: String,
    /// Sessions before.
    pub before: Vec<SessionId>,
    /// Sessions after.
    pub after: Vec<SessionId>,
    /// The difference that matters, as a share.
    pub margin: f64,
    /// Confidence of all intervals together, as a share.
    pub level: f64,
    /// A line per group.
    pub lines: Vec<HistoryLine>,
    /// Tests that one side has no result of.
    pub not_compared: Vec<NotCompared>,
    /// `worse` if any line is, `equivalent` or `better` if all lines are significantly no worse and no test lacks a result after,
    /// else `open`.
    pub verdict: Verdict,
    /// Sessions that are missing for a result.
    pub lacking: usize,
    /// The same as text.
    pub text: String,
}

/// The choice of the last session before in a group, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HistoryLine {
    /// The group and the choice, for people.
    pub label: String,
    /// What is compared.
    pub compares: Cost,
    /// Unit of the rates.
    pub unit: &'static str,
    /// Geometric mean over sessions of the median rates before, per second; of one session the rate of its report.
    pub rate_before: Option<f64>,
    /// The same after.
    pub rate_after: Option<f64>,
    /// Sessions before that confirmed it.
    pub sessions_before: usize,
    /// Sessions after that confirmed it.
    pub sessions_after: usize,
    /// How much longer it takes after, for the same work, with sessions as replicates, and the result.
    #[serde(flatten)]
    pub difference: SubjectDifference,
}

/// A test of the last session of one side that the other side has no result of.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NotCompared {
    /// The test, and the option where it was measured before, for people.
    pub label: String,
    /// The side without a result: `before` or `after`.
    #[schemars(extend("enum" = ["before", "after"]))]
    pub lacks: &'static str,
}

/// The confirmed cells of a session, by their levels.
type Confirmed = BTreeMap<Spec, ConfirmedRate>;

impl HistoryView {
    /// Compares sessions; the last of those before determines the compared cells.
    pub fn of(before: &[SessionData], after: &[SessionData], settings: &Settings) -> Option<HistoryView> {
        let last = before.last()?;
        let margin = settings.margin.unwrap_or(last.record.margin);
        let level = settings.confidence();
        let named = named(last, settings);
        let measured = |sessions: &[SessionData]| -> Vec<Confirmed> {
            let rates = sessions.iter().map(|session| ConfirmedRate::all_of(session, settings));
            rates.map(|rates| rates.into_iter().map(|rate| (rate.levels.clone(), rate)).collect()).collect()
        };
        let (was, is) = (measured(before), measured(after));
        let is_after = |one: &&Named| is.iter().any(|session| session.contains_key(&one.levels));
        let (present, absent): (Vec<&Named>, Vec<&Named>) = named.iter().partition(is_after);
        let named_after = after.last().map_or_else(Vec::new, |last| self::named(last, settings));
        let is_new = |one: &&Named| named.iter().all(|known| known.conditions != one.conditions);
        let lacks = |label: &String, lacks| NotCompared { label: label.clone(), lacks };
        let only_before = absent.iter().map(|one| lacks(&one.label, "after"));
        let only_after = named_after.iter().filter(is_new).map(|one| lacks(&one.title, "before"));
        let not_compared: Vec<NotCompared> = only_before.chain(only_after).collect();
        let each = 1.0 - (1.0 - level) / present.len().max(1) as f64;
        let lines: Vec<HistoryLine> = present.iter().map(|one| line(one, &was, &is, (each, margin))).collect();
        let fewest = lines.iter().map(|line| line.sessions_before).min().unwrap_or(before.len());
        let lacking = MIN_SESSIONS.saturating_sub(fewest);
        let verifying =
            |sessions: &[SessionData]| sessions.iter().map(|session| verifies(&session.trials)).collect::<Vec<_>>();
        let verifying = [verifying(before), verifying(after)].concat();
        let mixed = verifying.contains(&true) && verifying.contains(&false);
        let is_whole = absent.is_empty();
        let verdict = if mixed { Verdict::Open } else { overall(&lines, is_whole) };
        let ids = |sessions: &[SessionData]| sessions.iter().map(|session| session.record.id).collect();
        Some(HistoryView {
            plan: last.record.plan_name.clone(),
            before: ids(before),
            after: ids(after),
            margin,
            level,
            text: match mixed {
                true => MIXED.to_owned(),
                false => text(&lines, verdict, lacking, fewest, margin),
            },
            verdict,
            lacking,
            lines,
            not_compared,
        })
    }
}

/// The choices of a session, one per group.
struct Named {
    title: String,
    label: String,
    conditions: Spec,
    compares: Cost,
    unit: &'static str,
    levels: Spec,
}

fn named(session: &SessionData, settings: &Settings) -> Vec<Named> {
    let view = Report::of(session, settings);
    let of_group = view.groups.iter().filter_map(|group| {
        let candidates = || view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Candidate && cell.trials > 0);
        let named = group.recommendation.cell.as_ref().and_then(|id| view.cell(id)).or_else(|| candidates().next())?;
        let levels = &session.cells.iter().find(|row| row.cell.id == named.id)?.cell.factors;
        let test = view.test(&group.id)?;
        let option = test.options.iter().find(|option| option.id == named.id)?;
        let label = match candidates().count() {
            0 | 1 => test.title.clone(),
            _ => format!("{}: {}", test.title, option.label),
        };
        Some(Named {
            title: test.title.clone(),
            label,
            conditions: test.environment.clone(),
            compares: test.compares,
            unit: named.estimate.unit,
            levels: matching(levels, None),
        })
    });
    of_group.collect()
}

/// The geometric mean over sessions, `None` without any: the compared quantity is the mean of ln costs, and a median would show
/// another difference.
fn over_sessions(rates: &[f64]) -> Option<f64> {
    let mean = rates.iter().map(|rate| rate.ln()).sum::<f64>() / rates.len() as f64;
    Some(mean.exp()).filter(|rate| rate.is_finite())
}

fn line(named: &Named, was: &[Confirmed], is: &[Confirmed], (level, margin): (f64, f64)) -> HistoryLine {
    let of = |sessions: &[Confirmed]| -> (Vec<f64>, Option<f64>) {
        let found: Vec<&ConfirmedRate> = sessions.iter().filter_map(|session| session.get(&named.levels)).collect();
        let rates: Vec<f64> = found.iter().filter_map(|measured| measured.rate).collect();
        (found.iter().map(|measured| measured.ln_cost).collect(), over_sessions(&rates))
    };
    let ((before, rate_before), (after, rate_after)) = (of(was), of(is));
    let comparison: Comparison = between_sessions(&before, &after, level);
    HistoryLine {
        label: named.label.clone(),
        compares: named.compares,
        unit: named.unit,
        rate_before,
        rate_after,
        sessions_before: before.len(),
        sessions_after: after.len(),
        difference: SubjectDifference::of(Some(&comparison), comparison.by_interval(margin)),
    }
}

/// A reader that compares every byte does other work.
const MIXED: &str = "undecided: some of the sessions compare every byte (--verify) and some do not, and the time for that is \
                     in every difference; measure both with it or both without";

/// The result of all lines; one that is not worse needs all tests.
fn overall(lines: &[HistoryLine], is_whole: bool) -> Verdict {
    let is = |verdict: Verdict| move |line: &HistoryLine| line.difference.verdict == verdict;
    let any = |verdict| lines.iter().any(is(verdict));
    match () {
        () if lines.is_empty() => Verdict::Open,
        () if any(Verdict::Worse) => Verdict::Worse,
        () if !is_whole || any(Verdict::Open) => Verdict::Open,
        () if lines.iter().all(is(Verdict::Better)) => Verdict::Better,
        () => Verdict::Equivalent,
    }
}

fn text(lines: &[HistoryLine], verdict: Verdict, lacking: usize, fewest: usize, margin: f64) -> String {
    let within = percent(margin);
    if lines.is_empty() {
        return "not compared: the sessions have no result in common".into();
    }
    if lacking > 0 && verdict == Verdict::Open {
        return format!(
            "undecided: {} before the change {} too few to know how much sessions differ by themselves; \
             measure {lacking} more of them ({MIN_SESSIONS} are needed)",
            counted(fewest, "session"),
            if fewest == 1 { "is" } else { "are" }
        );
    }
    let count = |of: Verdict| lines.iter().filter(|line| line.difference.verdict == of).count();
    let of = counted(lines.len(), "test");
    match verdict {
        Verdict::Worse => format!("worse: {} of {of} slower by more than {within}", count(Verdict::Worse)),
        Verdict::Better => format!("better: all of {of} faster"),
        Verdict::Equivalent => format!("equivalent: 0 of {of} slower by more than {within}"),
        _ if count(Verdict::Open) == 0 => format!("undecided: 0 of {of} slower by more than {within}"),
        _ => format!(
            "undecided: {} of {of} may be slower by more than {within}; more sessions narrow the intervals",
            count(Verdict::Open)
        ),
    }
}

// Sessions before and after: a line per test, the slowest first, then the verdict.

/// More lines than this fit no screen.
const LINES_MAX: usize = 12;

/// The tests, the basis and the verdict.
pub fn render(view: &HistoryView, style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    let width = style.columns.clamp(60, 100);
    let ids = |ids: &[SessionId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let head = format!("bytegauge {} · before: {} · after: {}", view.plan, ids(&view.before), ids(&view.after));
    let mut out = vec![paint.bold(&head), String::new()];
    let mut lines: Vec<&HistoryLine> = view.lines.iter().collect();
    lines.sort_by(|a, b| b.difference.longer.unwrap_or(0.0).total_cmp(&a.difference.longer.unwrap_or(0.0)));
    let scale = scale(&view.lines);
    for line in lines.iter().take(LINES_MAX) {
        let text = text_of_line(line, scale, unit(&view.lines, line));
        out.extend(wrap(&line.label, width - 2).iter().map(|label| format!("  {}", paint.bold(label))));
        out.extend(wrap(&text, width - 4).iter().map(|line| format!("    {line}")));
    }
    if lines.len() > LINES_MAX {
        out.push(paint.dim(&format!("  … {} more: --format json", lines.len() - LINES_MAX)));
    }
    for lacks in ["after", "before"] {
        let of_side = view.not_compared.iter().filter(|test| test.lacks == lacks);
        let labels: Vec<&str> = of_side.map(|test| test.label.as_str()).collect();
        if !labels.is_empty() {
            let text = format!("Not compared, because there is no result {lacks}: {}.", labels.join("; "));
            out.extend(wrap(&text, width - 2).iter().map(|line| format!("  {line}")));
        }
    }
    out.push(String::new());
    let basis = format!(
        "Basis: one option of each test, the recommended one of session {} where there is one. Rates are medians. Intervals hold together at {}; \
         each session counts once.",
        view.before.last().map_or_else(String::new, ToString::to_string),
        percent(view.level)
    );
    out.extend(wrap(&basis, width).iter().map(|line| paint.dim(line)));
    out.extend(wrap(&format!("Result: {}.", view.text), width).iter().map(|line| paint.bold(line)));
    out.join("\n") + "\n"
}

/// The differences of all lines have one unit, so that they can be compared.
fn scale(lines: &[HistoryLine]) -> ShareScale {
    let each = lines.iter().flat_map(|line| [line.difference.longer, line.difference.lower, line.difference.upper]);
    ShareScale::of(each.flatten().map(of_time))
}

/// The unit of a line's rates: that of all lines where they can be read in it.
fn unit(lines: &[HistoryLine], line: &HistoryLine) -> Option<(f64, &'static str)> {
    let rates = |line: &HistoryLine| [line.rate_before, line.rate_after].into_iter().flatten();
    let alike = lines.iter().filter(|other| other.unit == line.unit).flat_map(rates);
    common_unit(line.unit, alike).or_else(|| common_unit(line.unit, rates(line)))
}

fn text_of_line(line: &HistoryLine, scale: ShareScale, unit: Option<(f64, &str)>) -> String {
    let shown = |per_second: Option<f64>| match (per_second, unit) {
        (None, _) => "–".into(),
        (Some(value), None) => rate(line.unit, value),
        (Some(value), Some((divisor, name))) => format!("{} {name}", fixed(value / divisor, 3)),
    };
    let SubjectDifference { longer, lower, upper, verdict } = line.difference;
    let [difference, lower, upper] = [longer, lower, upper].map(|longer| longer.map(of_time));
    let noun = cost_words(line.compares).noun;
    let difference = difference.map_or_else(|| "–".into(), |share| format!("{noun} {}", scale.signed(share)));
    let interval = match (lower, upper) {
        (Some(lower), Some(upper)) => format!(" ({})", scale.signed_interval(lower, upper)),
        _ => format!(", no interval ({} before)", counted(line.sessions_before, "session")),
    };
    let verdict = match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Equivalent => "equivalent",
        Verdict::Open => "undecided",
    };
    format!("{} → {}: {difference}{interval}: {verdict}", shown(line.rate_before), shown(line.rate_after))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Cost;

    use super::*;
    use crate::history::NotCompared;

    fn line(label: &str, (rate_before, rate_after): (f64, f64), difference: SubjectDifference) -> HistoryLine {
        HistoryLine {
            compares: Cost::Time,
            label: label.into(),
            unit: "bytes/s",
            rate_before: Some(rate_before),
            rate_after: Some(rate_after),
            sessions_before: 5,
            sessions_after: 1,
            difference,
        }
    }

    #[test]
    fn half_the_time_is_the_reverse_of_twice() {
        for (longer, expected) in [(0.5, 0.5), (-1.0, -0.5), (-0.25, -0.2), (0.0, 0.0)] {
            assert!((of_time(longer) - expected).abs() < 1e-12, "{longer}");
        }
        let difference = SubjectDifference {
            longer: Some(-1.0),
            lower: Some(-1.2041),
            upper: Some(-0.8013),
            verdict: Verdict::Better,
        };
        let line = line("tcp", (1e9, 2e9), difference);
        let text = text_of_line(&line, scale(std::slice::from_ref(&line)), None);
        assert!(text.ends_with(": time −50 % (−54.7 % to −44.4 %): better"), "{text}");
    }

    #[test]
    fn every_test_is_listed_in_one_unit() {
        let gib = f64::from(1 << 30);
        let open = SubjectDifference { longer: Some(-1.0), lower: None, upper: None, verdict: Verdict::Open };
        let view = HistoryView {
            plan: "buffer-size".into(),
            before: vec![SessionId(1)],
            after: vec![SessionId(2)],
            margin: 0.05,
            level: 0.95,
            lines: vec![line("read", (0.5 * gib, gib), open), line("write", (2.0 * gib, 3.0 * gib), open)],
            not_compared: vec![
                NotCompared { label: "TCP: 4K".into(), lacks: "after" },
                NotCompared { label: "pipe".into(), lacks: "before" },
            ],
            verdict: Verdict::Open,
            lacking: 4,
            text: String::new(),
        };
        let text = render(&view, &TerminalStyle { columns: 80, ..TerminalStyle::default() });
        assert!(text.contains("no result after: TCP: 4K.") && text.contains("no result before: pipe."), "{text}");
        assert!(text.contains("0.500 GiB/s → 1.00 GiB/s") && !text.contains("MiB/s"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
