//! The result of each test in one sentence, and its intervals as text.
//!
//! Every number is an interval end of the document, rounded outward. Decides nothing: states are settled before.

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::{counted, significant};

use super::super::document::{
    Because, Compares, Factors, FindingKind, OptionResult, OptionStatus, Test, TestState, View,
};
use crate::interval_rounding::{ShareScale, at_most, percent, up_to};
use crate::phrase::rate_unit;

/// More options than this are counted instead of named.
const NAMED_MAX: usize = 3;
/// With more tests than this the line of each names fewer options.
const BRIEF_TESTS: usize = 4;
/// A share that is printed as 0.
const NOTHING: f64 = 0.0005;

/// The result of a test as a sentence without a full stop.
pub fn of_test(view: &View, test: &Test) -> String {
    match test.state {
        TestState::Decided | TestState::Inconclusive => compared(test, &view.tests),
        TestState::Invalid => format!("no result: the A/A control differs significantly{}", avoid_harm(test)),
        TestState::Unconfirmed => unconfirmed(view, test),
        TestState::Single => {
            let only = test.options.iter().find(|option| option.trials > 0);
            only.map_or_else(String::new, |only| {
                format!("{} only: nothing to compare it with", rated(test, &view.tests, only))
            })
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
fn rated(test: &Test, tests: &[Test], option: &OptionResult) -> String {
    match rate(test, tests, option) {
        Some(rate) => format!("{} at {rate}", option.label),
        None => option.label.clone(),
    }
}

/// The rate of an option; the CPU time of its work where that is compared, and the time of a run of a program.
fn rate(test: &Test, tests: &[Test], option: &OptionResult) -> Option<String> {
    if let Some((cpu, unit)) = option.cpu.zip(option.cpu_unit).filter(|_| test.compares == Compares::Cpu) {
        return Some(format!("CPU {} {unit}", significant(cpu, 3)));
    }
    let rate = option.rate.filter(|rate| *rate > 0.0)?;
    let (divisor, unit) = rate_scale(test, tests);
    match test.unit {
        "runs/s" => Some(format!("{} a run", time(1e9 / rate))),
        _ => Some(format!("{} {unit}", significant(rate / divisor, 3))),
    }
}

/// A smaller rate in the unit of the fastest one has too many zeros to be read.
const SHARE_READ: f64 = 0.1;
/// A larger rate in the unit of the slowest one has too many digits.
const UNITS_READ: f64 = 1e4;

/// The divisor and the unit of rates: one for all tests of a session, so that they compare by eye; one for a test where no unit
/// suits all.
pub fn rate_scale(test: &Test, tests: &[Test]) -> (f64, &'static str) {
    let alike = tests.iter().filter(|other| other.unit == test.unit).flat_map(|other| &other.options);
    let of_all = common_scale(test.unit, alike.filter_map(|option| option.rate));
    let of_test = || common_scale(test.unit, test.options.iter().filter_map(|option| option.rate));
    let fastest = test.options.iter().filter_map(|option| option.rate).fold(0.0, f64::max);
    of_all.or_else(of_test).unwrap_or_else(|| rate_unit(test.unit, fastest))
}

/// The unit in which the fastest and the slowest of these rates can be read; `None` where there is none.
fn common_scale(unit: &'static str, rates: impl Iterator<Item = f64>) -> Option<(f64, &'static str)> {
    let (least, most) = rates
        .filter(|rate| *rate > 0.0)
        .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), rate| (least.min(rate), most.max(rate)));
    let large = rate_unit(unit, most);
    let small = rate_unit(unit, least.min(most));
    match least < SHARE_READ * large.0 {
        false => Some(large),
        true => (most < UNITS_READ * small.0).then_some(small),
    }
}

/// A time to three digits.
pub fn time(ns: f64) -> String {
    let (unit, name) =
        [(1e9, "s"), (1e6, "ms"), (1e3, "µs")].into_iter().find(|(unit, _)| ns >= *unit).unwrap_or((1.0, "ns"));
    format!("{} {name}", significant(ns / unit, 3))
}

fn unconfirmed(view: &View, test: &Test) -> String {
    let so_far = match test.compares {
        Compares::Time => {
            super::fastest(&test.options).map(|option| format!("fastest so far: {}", rated(test, &view.tests, option)))
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
    format!("{why}{so_far}{}", avoid_harm(test))
}

/// The options with harm, of a test without intervals: `. Avoid: 208K (71.6 % of the datagrams lost)`.
fn avoid_harm(test: &Test) -> String {
    let harmful: Vec<String> =
        test.options.iter().filter(|own| super::harm::is_avoided(&own.harm)).map(harmed).collect();
    if harmful.is_empty() { String::new() } else { format!(". Avoid: {}", harmful.join(", ")) }
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

/// The recommended option.
pub fn recommended(test: &Test) -> Option<&OptionResult> {
    test.options.iter().find(|option| test.recommended.as_ref() == Some(&option.id))
}

/// The confirmed options with one of these statuses, without the recommended one.
fn others<'a>(test: &'a Test, statuses: &'a [OptionStatus]) -> impl Iterator<Item = &'a OptionResult> {
    let has_interval = |option: &&OptionResult| option.slower_upper.is_some();
    let is_other = |option: &&OptionResult| test.recommended.as_ref() != Some(&option.id);
    test.options.iter().filter(has_interval).filter(is_other).filter(|option| statuses.contains(&option.status))
}

/// How good the recommended option is: `the fastest`, `at most 12 % slower`, followed by `than`.
fn how_good(test: &Test, own: &OptionResult, than: &str) -> String {
    let upper = own.slower_upper.unwrap_or(f64::INFINITY);
    match own.status {
        OptionStatus::Best if upper <= NOTHING && test.compares == Compares::Time => "the fastest".into(),
        OptionStatus::Best if upper <= NOTHING => "the least CPU time".into(),
        OptionStatus::Best => format!("within {} of the best", percent(test.margin)),
        // Its interval alone would make it the best.
        _ if upper <= test.margin && test.control_is_wide => {
            let reach = test.control_upper.unwrap_or(0.0);
            let control = if than.is_empty() { "; A/A control" } else { ", but the A/A control differs by" };
            format!("within {} of the best{control} {}", percent(test.margin), at_most_by(reach))
        }
        _ if upper <= test.margin => {
            format!("within {} of the best, with a limitation: see Caveat", percent(test.margin))
        }
        _ => format!("at most {}{than}", more(test, &at_most(upper))),
    }
}

/// The verdict, the recommendation with its interval, then the options that are tied and those that are slower.
fn compared(test: &Test, tests: &[Test]) -> String {
    let is_decided = test.state == TestState::Decided;
    let Some(own) = recommended(test) else {
        return format!("{}: {}", if is_decided { "conclusive" } else { "inconclusive" }, too_wide(test));
    };
    let tied: Vec<&OptionResult> = others(test, &[OptionStatus::Best, OptionStatus::Tied]).collect();
    let slower: Vec<&OptionResult> = others(test, &[OptionStatus::Slower]).collect();
    let how = how_good(test, own, " than the best");
    let why = match test.because {
        Some(Because::Fastest) | None => None,
        because => Some(reason(because).to_owned()),
    };
    let known: Vec<String> = rate(test, tests, own).into_iter().chain(why).collect();
    let why = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    let all_tied = slower.is_empty() && !tied.is_empty() && own.status == OptionStatus::Tied;
    let all = if tied.len() == 1 { "both".into() } else { format!("all {}", tied.len() + 1) };
    let mut phrases = vec![match (is_decided, all_tied) {
        (true, _) => format!("conclusive: use {}{why}, {how}", own.label),
        (false, true) => format!("inconclusive: {all} options are tied. For now use {}{why}, {how}", own.label),
        (false, false) => format!("inconclusive. For now use {}{why}, {how}", own.label),
    }];
    if !all_tied && !tied.is_empty() {
        phrases.push(format!("Tied: {}", listed(&labels(&tied))));
    }
    let mut avoid: Vec<String> = others(test, &[OptionStatus::Harmful]).map(harmed).collect();
    if !slower.is_empty() {
        avoid.push(avoided(test, slower));
    }
    avoid.extend(screened(test));
    if !avoid.is_empty() {
        phrases.push(format!("Avoid: {}", avoid.join(", ")));
    }
    phrases.join(". ")
}

/// The levels that are significantly slower by the screening, then the options that were far slower there: `write 4K (by the
/// screening)`.
fn screened(test: &Test) -> Vec<String> {
    let of = |labels: &[String], why: &str| (!labels.is_empty()).then(|| format!("{} ({why})", listed(labels)));
    let known = [of(&test.screened_slower, "by the screening"), of(&test.screened_out, "screened only")];
    known.into_iter().flatten().collect()
}

/// The result of one test of several in a line: its table has the intervals.
pub fn in_short(test: &Test, tests: &[Test]) -> String {
    let Some(own) = recommended(test).filter(|_| matches!(test.state, TestState::Decided | TestState::Inconclusive))
    else {
        return test.result.clone();
    };
    let for_now = if test.state == TestState::Decided { "" } else { " for now" };
    let rate = rate(test, tests, own).map_or_else(String::new, |rate| format!(", {rate}"));
    let tied: Vec<&OptionResult> = others(test, &[OptionStatus::Best, OptionStatus::Tied]).collect();
    let tied = if tied.is_empty() { String::new() } else { format!("; tied: {}", listed(&labels(&tied))) };
    let avoided: Vec<&OptionResult> = others(test, &[OptionStatus::Harmful, OptionStatus::Slower]).collect();
    // The lines of many tests fit on a terminal together; the table has the others.
    let is_brief = tests.len() > BRIEF_TESTS;
    let avoided = match avoided.as_slice() {
        [] => None,
        few if few.len() <= if is_brief { 1 } else { NAMED_MAX } => Some(labels(few).join(", ")),
        many => Some(format!("{} and {}", slowest(many).label, counted(many.len() - 1, "other option"))),
    };
    let by_screening = if is_brief { Vec::new() } else { screened(test) };
    let avoided: Vec<String> = avoided.into_iter().chain(by_screening).collect();
    let avoid = if avoided.is_empty() { String::new() } else { format!("; avoid {}", avoided.join(", ")) };
    format!("{}{for_now}{rate}, {}{tied}{avoid}", own.label, how_good(test, own, ""))
}

/// `; measured with bbr`, where another test recommends another congestion control.
pub fn condition(view: &View, test: &Test) -> String {
    let Some(own) = &test.congestion else { return String::new() };
    let advised = view.tests.iter().filter_map(recommended).filter_map(|option| option.settings.get("congestion"));
    let mut differing = advised.filter_map(|name| name.as_str()).filter(|name| *name != own);
    differing.next().map_or_else(String::new, |_| format!("; measured with {own}"))
}

fn labels(options: &[&OptionResult]) -> Vec<String> {
    options.iter().map(|option| option.label.clone()).collect()
}

fn slowest<'a>(options: &[&'a OptionResult]) -> &'a OptionResult {
    let lower = |option: &OptionResult| option.slower_lower.unwrap_or(0.0);
    options.iter().copied().max_by(|a, b| lower(a).total_cmp(&lower(b))).expect("one at least")
}

/// An option with its first harm: `208 KiB (71.6 % of the datagrams lost)`.
pub fn harmed(option: &OptionResult) -> String {
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

/// `up to 12 %`, or `more than 1000 %`.
pub fn at_most_by(share: f64) -> String {
    let text = at_most(share);
    match text.strip_prefix('>') {
        Some(least) => format!("more than {least}"),
        None => format!("up to {text}"),
    }
}

/// Labels, or their number.
fn listed(labels: &[String]) -> String {
    if labels.len() <= NAMED_MAX { labels.join(", ") } else { counted(labels.len(), "other option") }
}

/// The significantly slower options, the slowest first, each with its interval; of many the slowest and their number.
fn avoided(test: &Test, mut slower: Vec<&OptionResult>) -> String {
    slower.sort_by(|a, b| b.slower_lower.unwrap_or(0.0).total_cmp(&a.slower_lower.unwrap_or(0.0)));
    let each = |option: &&OptionResult| {
        let by = scale(test).interval(option.slower_lower.unwrap_or(0.0), option.slower_upper.unwrap_or(f64::INFINITY));
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
    let verb = match test.compares {
        Compares::Time => "be",
        Compares::Cpu => "use",
    };
    let how = than_the_best(&more(test, &up_to(upper)));
    format!("the intervals are too wide for a recommendation; even {} may {verb} {how}", own.label)
}

/// The scale of all intervals of a test: its largest value decides.
pub fn scale(test: &Test) -> ShareScale {
    ShareScale::of(test.options.iter().filter_map(|option| option.slower_upper))
}

/// The heading of the intervals of a test.
pub fn slower_heading(test: &Test) -> &'static str {
    match (test.compares, scale(test).multiples) {
        (Compares::Time, false) => "slower by (95 %)",
        (Compares::Time, true) => "times as slow (95 %)",
        (Compares::Cpu, false) => "more CPU by (95 %)",
        (Compares::Cpu, true) => "times the CPU (95 %)",
    }
}

/// The interval of an option for tables, or why it has none.
pub fn slower(test: &Test, option: &OptionResult) -> String {
    match (option.slower_lower, option.slower_upper) {
        (Some(lower), Some(upper)) => scale(test).interval(lower, upper),
        _ if option.status == OptionStatus::Failed => "failed".into(),
        _ if matches!(test.state, TestState::Decided | TestState::Inconclusive) => "screened only".into(),
        _ => "–".into(),
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

/// A difference by [`more`], from the best option: `2× as slow as the best`, `12 % slower than the best`.
pub fn than_the_best(how: &str) -> String {
    format!("{how} {} the best", if how.ends_with("as slow") { "as" } else { "than" })
}

/// Why an option is recommended although another one is faster, in brackets behind it.
pub fn reason(because: Option<Because>) -> &'static str {
    match because {
        Some(Because::Fastest) => "fastest",
        Some(Because::Default) => "the default",
        Some(Because::Smallest) => "smallest",
        Some(Because::SmallestMaximum) => "smallest upper limit",
        Some(Because::Only) | None => "only option",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_suits_all_rates() {
        let unit = |rates: &[f64]| common_scale("bytes/s", rates.iter().copied()).map(|(_, unit)| unit);
        let (mib, gib) = (f64::from(1 << 20), f64::from(1 << 30));
        assert_eq!(unit(&[0.3 * gib, 2.0 * gib]), Some("GiB/s"));
        assert_eq!(unit(&[50.0 * mib, 2.0 * gib]), Some("MiB/s"));
        assert_eq!(unit(&[2.0 * mib, 12.0 * gib]), None);
        assert_eq!(unit(&[]), Some("B/s"));
    }
}
