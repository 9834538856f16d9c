//! The result of each test in one sentence, and its intervals as text.
//!
//! Every number is an interval end of the document, rounded outward. Decides nothing: states are settled before.

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::{counted, significant};

use super::super::document::{
    Because, Compares, Factors, FindingKind, OptionResult, OptionStatus, Test, TestState, View,
};
use crate::interval_rounding::{SlowerScale, at_most, percent, up_to};
use crate::phrase::rate_unit;

/// More options than this are counted instead of named.
const NAMED_MAX: usize = 3;
/// A share that is printed as 0.
const NOTHING: f64 = 0.0005;

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
        _ if upper <= test.margin => {
            format!("within {} of the best, with a limitation: see Caveat", percent(test.margin))
        }
        _ => format!("at most {}{than}", more(test, &at_most(upper))),
    }
}

/// The verdict, the recommendation with its interval, then the options that are tied and those that are slower.
fn compared(test: &Test) -> String {
    let is_decided = test.state == TestState::Decided;
    let Some(own) = recommended(test) else {
        return format!("{}: {}", if is_decided { "conclusive" } else { "inconclusive" }, too_wide(test));
    };
    let tied: Vec<&OptionResult> = others(test, &[OptionStatus::Best, OptionStatus::Tied]).collect();
    let slower: Vec<&OptionResult> = others(test, &[OptionStatus::Slower]).collect();
    let how = how_good(test, own, " than the best");
    let why = match test.because {
        Some(Because::Fastest) | None => String::new(),
        because => format!(" ({})", reason(because)),
    };
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
    if !avoid.is_empty() {
        phrases.push(format!("Avoid: {}", avoid.join(", ")));
    }
    phrases.join(". ")
}

/// The result of one test of several in a line: its table has the intervals.
pub fn in_short(test: &Test) -> String {
    let Some(own) = recommended(test).filter(|_| matches!(test.state, TestState::Decided | TestState::Inconclusive))
    else {
        return test.result.clone();
    };
    let for_now = if test.state == TestState::Decided { "" } else { " for now" };
    let avoided: Vec<&OptionResult> = others(test, &[OptionStatus::Harmful, OptionStatus::Slower]).collect();
    let avoid = match avoided.as_slice() {
        [] => String::new(),
        few if few.len() <= NAMED_MAX => format!("; avoid {}", labels(few).join(", ")),
        many => format!("; avoid {} and {}", slowest(many).label, counted(many.len() - 1, "other option")),
    };
    format!("{}{for_now}, {}{avoid}", own.label, how_good(test, own, ""))
}

/// ` (measured with bbr)`, where another test recommends another congestion control.
pub fn condition(view: &View, test: &Test) -> String {
    let Some(own) = &test.congestion else { return String::new() };
    let advised = view.tests.iter().filter_map(recommended).filter_map(|option| option.settings.get("congestion"));
    let mut differing = advised.filter_map(|name| name.as_str()).filter(|name| *name != own);
    differing.next().map_or_else(String::new, |_| format!(" (measured with {own})"))
}

fn labels(options: &[&OptionResult]) -> Vec<String> {
    options.iter().map(|option| option.label.clone()).collect()
}

fn slowest<'a>(options: &[&'a OptionResult]) -> &'a OptionResult {
    let lower = |option: &OptionResult| option.slower_lower.unwrap_or(0.0);
    options.iter().copied().max_by(|a, b| lower(a).total_cmp(&lower(b))).expect("one at least")
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
pub fn scale(test: &Test) -> SlowerScale {
    SlowerScale::of(test.options.iter().filter_map(|option| option.slower_upper))
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
        Some(Because::SmallestMaximum) => "smallest maximum",
        Some(Because::Only) | None => "only option",
    }
}
