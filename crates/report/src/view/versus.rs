//! Two subjects of one session: their paired differences, block by block, and what follows from them.
//!
//! The verdict is read off the interval that is printed, so that the two never contradict each other. Differences are
//! logarithms of costs; a difference is a share of the faster one's time, so that a margin means the
//! same in both directions. Blocks count as everywhere: those up to the last look, merged where neighbours depend on each
//! other. An A/A control that differs significantly widens the interval by as much as it may differ.

use std::collections::BTreeMap;

use bytegauge_model::{CellId, Counted, Level, Spec, Versus, VersusSide, Workload, factor};
use bytegauge_stats::block_dependence::merge;
use bytegauge_stats::compare::{Comparison, ComparisonResult, ComparisonTerms, paired};
use bytegauge_stats::quantile::median;

use super::compare::GroupAnalysis;
use super::counted_trials::Settled;
use super::document::difference::longer;
use super::document::{SubjectDifference, VersusSideView, VersusView};
use super::recommendation::Conditions;
use crate::interval_rounding::{ShareScale, carried, moved_nothing, percent};
use crate::phrase;

/// The result of the paired differences.
pub struct Compared {
    /// The comparison; `None` where one of the two was not confirmed.
    pub comparison: Option<Comparison>,
    /// The three-way verdict.
    pub verdict: ComparisonResult,
    /// Why nothing is claimed whatever the interval.
    pub why_open: Option<String>,
}

impl Compared {
    /// By the blocks of the group that holds both.
    pub fn of(versus: &Versus, judged: &[GroupAnalysis], settled: &[Settled], margin: f64) -> Compared {
        let open =
            |why: Option<String>| Compared { comparison: None, verdict: ComparisonResult::Inconclusive, why_open: why };
        let Some((group, a, b)) = judged.iter().find_map(|group| {
            let choice = |side: &VersusSide| group.cells.iter().position(|&at| settled[at].cell.id == side.cell);
            Some((group, choice(&versus.a)?, choice(&versus.b)?))
        }) else {
            return open(None);
        };
        let cost = |cost: Option<f64>| cost.filter(|cost| cost.is_finite() && *cost > 0.0);
        let blocks = group.input.blocks.iter();
        let differences: Vec<f64> =
            blocks.filter_map(|block| Some((cost(block.cost[b])? / cost(block.cost[a])?).ln())).collect();
        let terms = ComparisonTerms { level: group.standing.level, delta: margin };
        let comparison = paired(&merge(&differences, group.verdict.merged_by.max(1)), &terms);
        // The cause that makes equal subjects differ may make these two differ by as much.
        let comparison = comparison.widened(alarming(group).unwrap_or(0.0));
        let verdict = comparison.by_interval(margin);
        let stalls = |choice: usize, unless: ComparisonResult| {
            let side = group.cell(Some(choice)).map(|at| &settled[at]);
            side.filter(|side| side.stalled > 0 && verdict != unless)
                .map(|side| moved_nothing(side.stalled, side.tried))
        };
        // A side that is significantly worse may stall as well.
        let why_open = why_open(group, b, &comparison, margin)
            .or_else(|| {
                stalls(a, ComparisonResult::Better).map(|why| format!("A: {why}, which no comparison of rates holds"))
            })
            .or_else(|| {
                stalls(b, ComparisonResult::Worse).map(|why| format!("B: {why}, which no comparison of rates holds"))
            })
            .or_else(|| group.behind(a).map(|share| format!("A {}, which B carries", carried(share))))
            .or_else(|| group.behind(b).map(|share| format!("B {}, which A carries", carried(share))));
        let verdict = if why_open.is_some() { ComparisonResult::Inconclusive } else { verdict };
        Compared { comparison: Some(comparison), verdict, why_open }
    }
}

/// How far the A/A control may differ from its cell, in ln, where it differs significantly.
fn alarming(group: &GroupAnalysis) -> Option<f64> {
    group.verdict.twin.filter(|twin| twin.alarm).map(|twin| twin.reach)
}

/// The reason for which there is no result, whatever the interval.
fn why_open(group: &GroupAnalysis, b: usize, comparison: &Comparison, margin: f64) -> Option<String> {
    let verdict = &group.verdict;
    if !group.standing.proves {
        return Some("too few pairs were measured to judge by".into());
    }
    if let Some(why) = verdict.inconclusive {
        return Some(why.to_string());
    }
    let decides = comparison.by_interval(margin) != ComparisonResult::Inconclusive;
    if alarming(group).is_some() && !decides {
        return Some("the same subject measured twice in every block differs by more than chance allows".into());
    }
    let slow = verdict.contradicted.contains(&b) && !group.input.cells[b].unfit && comparison.difference <= 0.0;
    slow.then(|| "plain means, in which slow trials count in full, show the opposite".into())
}

/// The results of a session that compares two.
pub fn versus(versus: &Versus, judged: &[GroupAnalysis], conditions: &Conditions) -> VersusView {
    let margin = conditions.margin;
    let compared = Compared::of(versus, judged, conditions.settled, margin);
    let (a, b) = (levels(&versus.a.cell, conditions), levels(&versus.b.cell, conditions));
    let offered = judged.iter().any(|group| group.offered);
    let side = |side: &VersusSide, own: Option<&Spec>, other: Option<&Spec>| {
        let at = conditions.settled.iter().position(|settled| settled.cell.id == side.cell);
        let cell = at.map(|at| &conditions.cells[at]);
        let cpu = at.and_then(|at| {
            let settled = &conditions.settled[at];
            let each = settled.trials.iter().filter_map(|trial| trial.cpu_ns_per_unit());
            match settled.cell.factors.workload() {
                // As the table of both has it.
                Workload::Stream if !settled.cell.factors.has_relay() => conditions.cells[at].median("cpu_ns_per_byte"),
                _ => median(&each.collect::<Vec<_>>()),
            }
        });
        VersusSideView {
            cell: side.cell.clone(),
            words: side.words.clone(),
            differs: differs(own, other),
            trials: cell.map_or(0, |cell| cell.trials),
            rate: cell.and_then(|cell| cell.estimate.median),
            cpu_ns: cpu,
            reason: cell.and_then(|cell| cell.reason.clone()),
        }
    };
    let (a_side, b_side) = (side(&versus.a, a, b), side(&versus.b, b, a));
    let comparison = compared.comparison;
    let judged_level = judged.first().map_or(0.95, |group| group.standing.level);
    let counts = judged.iter().flat_map(|group| &group.cells).any(|at| is_counted(&conditions.settled[*at]));
    let compares_cpu = offered || judged.iter().any(|group| super::check::compares_cpu(group, conditions.settled));
    let cost = match (counts, compares_cpu) {
        (true, _) => Cost::EVENTS,
        (false, true) => Cost::CPU,
        (false, false) => Cost::TIME,
    };
    let text = text(&compared, [&a_side, &b_side], margin, &cost);
    VersusView {
        alike: alike(a, b),
        cost: cost.name,
        difference: SubjectDifference::of(comparison.as_ref(), compared.verdict),
        blocks: comparison.map_or(0, |comparison| comparison.n),
        level: judged_level,
        margin,
        why_open: compared.why_open,
        text,
        a: a_side,
        b: b_side,
    }
}

fn levels<'a>(cell: &CellId, conditions: &'a Conditions) -> Option<&'a Spec> {
    conditions.settled.iter().find(|settled| settled.cell.id == *cell).map(|settled| &settled.cell.factors)
}

/// The levels of one side that the other has not. Programs differ by their commands.
fn differs(own: Option<&Spec>, other: Option<&Spec>) -> BTreeMap<String, String> {
    let Some((own, other)) = own.zip(other) else { return BTreeMap::new() };
    let apart =
        factor::of(own.workload()).filter(|row| row.name != "value" && own.get(row.name) != other.get(row.name));
    // A level that does not apply to one side and was not set on the other is no difference.
    let asked = |levels: &Spec, name: &str| levels.get(name) != Level::Absent && levels.get(name) != Level::auto();
    let apart = apart.filter(|row| asked(own, row.name) || asked(other, row.name));
    let shown = |name: &str| match own.get(name) {
        Level::Absent => "–".to_owned(),
        level => phrase::level(name, &level),
    };
    apart.map(|row| (phrase::in_code(row.name).to_owned(), shown(row.name))).collect()
}

/// The common levels of both that differ from the default.
fn alike(a: Option<&Spec>, b: Option<&Spec>) -> String {
    let Some((a, b)) = a.zip(b) else { return String::new() };
    let reported = |name: &str| !matches!(a.get(name), Level::Absent) && a.get(name) != Level::auto();
    let same = factor::of(a.workload()).filter(|row| {
        row.name != "value" && a.get(row.name) == b.get(row.name) && reported(row.name) && !is_nothing(&a.get(row.name))
    });
    same.map(|row| format!("{} {}", phrase::in_code(row.name), phrase::level(row.name, &a.get(row.name))))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A level that asks for nothing.
fn is_nothing(level: &Level) -> bool {
    matches!(level, Level::Number(0)) || matches!(level.name(), Some("none" | "off" | "max" | "direct"))
}

/// The compared quantity of the two, and the words for a difference, with the verb in both moods.
struct Cost {
    name: &'static str,
    /// With a percentage: `is … slower than`.
    more: [&'static str; 3],
    /// With a multiple: `takes … as long as`.
    multiple: [&'static str; 3],
}

impl Cost {
    const TIME: Cost =
        Cost { name: "time", more: ["is", "be", "slower than"], multiple: ["takes", "take", "as long as"] };
    const CPU: Cost = Cost {
        name: "cpu time",
        more: ["uses", "use", "more CPU time than"],
        multiple: ["uses", "use", "as much CPU time as"],
    };
    const EVENTS: Cost = Cost {
        name: "events",
        more: ["has", "have", "more events than"],
        multiple: ["has", "have", "as many events as"],
    };
}

/// Whether runs are rated by what was counted meanwhile.
fn is_counted(settled: &Settled) -> bool {
    settled.measured.iter().any(|trial| trial.task().is_some_and(|task| task.counted == Counted::Events))
}

fn text(compared: &Compared, [a, b]: [&VersusSideView; 2], margin: f64, cost: &Cost) -> String {
    let Some(comparison) = compared.comparison.filter(|_| a.trials > 0 && b.trials > 0) else {
        let missing = [("A", a), ("B", b)].into_iter().find(|(_, side)| side.trials == 0 || side.reason.is_some());
        let why = |side: &VersusSideView| side.reason.clone().unwrap_or_else(|| "the session ended before".into());
        if a.trials == 0 && b.trials == 0 && a.reason.is_some() {
            return format!("nothing to compare: neither A nor B was measured ({})", why(a));
        }
        return match missing {
            Some((name, side)) => format!("nothing to compare: {name} was not measured ({})", why(side)),
            None => "nothing to compare: no block is complete".into(),
        };
    };
    match &compared.why_open {
        Some(why) => format!("inconclusive: {why}"),
        None => phrases(&comparison, compared.verdict, margin, cost),
    }
}

/// A verdict with its interval.
fn phrases(comparison: &Comparison, verdict: ComparisonResult, margin: f64, cost: &Cost) -> String {
    let within = percent(margin);
    let (d, lower, upper) = (comparison.difference, comparison.lower, comparison.upper);
    let scale = ShareScale::of([d, lower, upper].map(|ln| longer(ln).abs()));
    let [is, be, than] = if scale.multiples { cost.multiple } else { cost.more };
    let differs = |[slower, faster]: [&str; 2], from: f64, to: f64| {
        let from = scale.least_beyond(margin, from.max(0.0).exp_m1());
        let (size, to) = (scale.estimate(d.abs().exp_m1()), scale.most(to.exp_m1()));
        format!("{slower} {is} {size} {than} {faster} ({from} to {to})")
    };
    // An interval that includes 0 has no slower side.
    let slower = match (lower > 0.0, upper < 0.0) {
        (true, _) => Some(differs(["B", "A"], lower, upper)),
        (_, true) => Some(differs(["A", "B"], -upper, -lower)),
        _ => None,
    };
    match verdict {
        ComparisonResult::Worse => {
            format!("{}: a regression of more than the margin of {within}", differs(["B", "A"], lower, upper))
        }
        ComparisonResult::Better => {
            format!("{}: B is better by more than the margin of {within}", differs(["A", "B"], -upper, -lower))
        }
        ComparisonResult::Equivalent => {
            let small = slower.map_or_else(String::new, |slower| format!("; {slower}"));
            format!("equivalent: the difference is within the margin of {within}{small}")
        }
        ComparisonResult::Inconclusive => match slower {
            Some(slower) => format!("inconclusive: {slower}, which may be less than the margin of {within}"),
            None => format!(
                "inconclusive: B may {be} up to {} {than} A, and A up to {} {than} B (margin {within})",
                scale.most(upper.exp_m1()),
                scale.most((-lower).exp_m1()),
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_one_takes_longer_whichever_it_is() {
        let close = |ln: f64, expected: f64| assert!((longer(ln) - expected).abs() < 1e-12, "{ln}");
        close(1.05f64.ln(), 0.05);
        close(-1.05f64.ln(), -0.05);
        close(0.0, 0.0);
    }

    #[test]
    fn one_text_has_one_scale() {
        let time = Cost::TIME;
        let check = |[lower, difference, upper]: [f64; 3], verdict: ComparisonResult, expected: &str| {
            let (lower, difference, upper) = (lower.ln(), difference.ln(), upper.ln());
            let p = 1.0;
            let comparison =
                Comparison { difference, lower, upper, n: 12, p_any: p, p_beyond: p, p_equivalent: p, verdict };
            assert_eq!(phrases(&comparison, verdict, 0.05, &time), expected);
        };
        check(
            [1.0 / 4.36, 0.91, 2.8],
            ComparisonResult::Inconclusive,
            "inconclusive: B may take up to 2.8× as long as A, and A up to 4.36× as long as B (margin 5 %)",
        );
        check(
            [0.9, 1.0, 1.9],
            ComparisonResult::Inconclusive,
            "inconclusive: B may be up to 90 % slower than A, and A up to 11.2 % slower than B (margin 5 %)",
        );
        check(
            [0.8, 1.0, 1.5],
            ComparisonResult::Inconclusive,
            "inconclusive: B may be up to 50 % slower than A, and A up to 25 % slower than B (margin 5 %)",
        );
        check(
            [1.02, 1.06, 1.1],
            ComparisonResult::Inconclusive,
            "inconclusive: B is 6 % slower than A (2 % to 10 %), which may be less than the margin of 5 %",
        );
        check(
            [4.9, 4.95, 5.0],
            ComparisonResult::Worse,
            "B takes 4.95× as long as A (4.9× to 5×): a regression of more than the margin of 5 %",
        );
        check(
            [1.4, 1.5, 1.6],
            ComparisonResult::Worse,
            "B is 50 % slower than A (40 % to 60 %): a regression of more than the margin of 5 %",
        );
        // Outward, and yet beyond the margin where that is what decides.
        check(
            [1.0501, 1.0704, 1.0916],
            ComparisonResult::Worse,
            "B is 7 % slower than A (5.01 % to 9.2 %): a regression of more than the margin of 5 %",
        );
    }

    proptest::proptest! {
        #[test]
        fn the_interval_of_two_is_printed_outwards(lower in 1e-4f64..1.2, width in 1e-4f64..1.2, margin in 1u32..20) {
            let margin = f64::from(margin) / 100.0;
            let time = Cost::TIME;
            let (upper, p) = (lower + width, 1.0);
            let difference = lower + width / 2.0;
            let verdict = ComparisonResult::Inconclusive;
            let comparison =
                Comparison { difference, lower, upper, n: 12, p_any: p, p_beyond: p, p_equivalent: p, verdict };
            let verdict = comparison.by_interval(margin);
            let text = phrases(&comparison, verdict, margin, &time);
            let (_, ends) = text.split_once('(').expect("an interval");
            let (from, to) = ends.split_once(" to ").expect("two ends");
            let ln = |end: &str| {
                let number: f64 = end.split([' ', '×']).next().expect("a number").parse().expect(end);
                if text.contains("× as long") { number.ln() } else { (number / 100.0).ln_1p() }
            };
            proptest::prop_assert!(ln(from) <= lower + 1e-9 && ln(to) >= upper - 1e-9, "{lower} {upper}: {text}");
            // A result beyond the margin is not printed as the margin.
            proptest::prop_assert!(verdict != ComparisonResult::Worse || ln(from) > margin.ln_1p(), "{lower} {margin}: {text}");
        }
    }
}
