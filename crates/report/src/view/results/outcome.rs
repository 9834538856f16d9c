//! The result of each test in one sentence, and its intervals as text.
//!
//! Every number is an interval end of the document, rounded outward. Decides nothing: states are settled before.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{Nanos, SessionStatus};

use super::super::document::{
    Avoided, Because, Compares, Factors, FindingKind, OptionResult, OptionStatus, Test, TestState, View,
};
use super::super::knee::lowest_missed;
use super::{kept, least_cpu};
use crate::interval_rounding::{BOUND_MAX, NOTHING, ShareScale, percent};
use crate::phrase;

/// More options than this are counted instead of named.
const NAMED_MAX: usize = 3;
/// With more tests than this the line of each names fewer options.
pub const BRIEF_TESTS: usize = 4;

/// The result of a test as a sentence without a full stop.
pub fn of_test(view: &View, test: &Test) -> String {
    match test.state {
        TestState::Decided | TestState::Inconclusive => compared(view, test),
        TestState::Invalid => {
            format!("no result: the same option, measured twice, differs significantly{}", avoid(view, test))
        }
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
                _ if let Some((ns, knee)) = lowest_missed(view.cells_of(&test.id)) => {
                    let (objective, percentile) = (phrase::objective(&knee.slo), knee.percentile);
                    format!("nothing was measured: no option kept {objective} (lowest {percentile}: {})", Nanos(ns))
                }
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
        let all = option.p99_all_ns.map_or_else(String::new, |ns| format!(", of all calls {}", time(ns)));
        let p99 = option.p99_ns.map_or_else(String::new, |ns| format!(", p99 {}{all}", time(ns)));
        return Some(format!("CPU {} {unit}{p99}", significant(cpu, 3)));
    }
    let rate = option.rate.filter(|rate| *rate > 0.0)?;
    let (divisor, unit) = test.rate_scale(tests);
    let shown = |rate: f64| significant(rate / divisor, 3);
    let Some(slo) = slo(test) else {
        return Some(if test.unit == "runs/s" {
            format!("{} a run", time(1e9 / rate))
        } else {
            format!("{} {unit}", shown(rate))
        });
    };
    let all = option.overall_rate.map_or("at no rate".to_owned(), |all| format!("at {} {unit} or less", shown(all)));
    Some(format!("{} over all trials {all}, in half of them up to {} {unit}", phrase::objective(slo), shown(rate)))
}

/// The objective of a test that searches the highest rate: `p99=2ms`.
pub fn slo(test: &Test) -> Option<&str> {
    test.environment.get("slo").and_then(|level| level.as_str()).filter(|slo| slo.contains('='))
}

/// A time to three digits.
pub fn time(ns: f64) -> String {
    let (unit, name) = time_unit(ns);
    format!("{} {name}", significant(ns / unit, 3))
}

/// The unit in which a time is shown, nanoseconds, and its name.
pub fn time_unit(ns: f64) -> (f64, &'static str) {
    [(1e9, "s"), (1e6, "ms"), (1e3, "µs")].into_iter().find(|(unit, _)| ns >= *unit).unwrap_or((1.0, "ns"))
}

fn unconfirmed(view: &View, test: &Test) -> String {
    let so_far = match test.compares {
        Compares::Time => {
            super::fastest(&test.options).map(|option| format!("fastest so far: {}", rated(test, &view.tests, option)))
        }
        Compares::Cpu => {
            let carried = test.options.iter().filter(|option| !super::harm::is_avoided(&option.harm));
            let known = carried.filter_map(|option| Some((option.cpu?, option.cpu_unit?, option)));
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
        SessionStatus::Incomplete => "no result: the session stopped before its first analysis",
        _ if !stopped(test).is_empty() => {
            let stopped = phrase::join(&stopped(test), "and");
            &format!("no result: measuring stopped for {stopped}, whose trials kept failing")
        }
        _ if depends(view, test) => {
            "no result: the speed of the machine changed slowly during the run, so there are no intervals"
        }
        _ => "no result: too few trials for an interval",
    };
    format!("{why}{so_far}{}", avoid(view, test))
}

/// The options that were measured at first, and left the test because of failures.
fn stopped(test: &Test) -> Vec<String> {
    let stopped = test.options.iter().filter(|option| option.trials > 0 && option.reason.is_some());
    stopped.map(|option| option.label.clone()).collect()
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

/// The confirmed options with a status, without the recommended one.
fn others(test: &Test, status: OptionStatus) -> Vec<String> {
    let has_interval = |option: &&OptionResult| option.slower_upper.is_some() && option.status == status;
    let is_other = |option: &&OptionResult| test.recommended.as_ref() != Some(&option.id);
    test.options.iter().filter(has_interval).filter(is_other).map(|option| option.label.clone()).collect()
}

/// The options that are significantly slower, and not to be avoided.
fn slower_labels(test: &Test) -> Vec<String> {
    let slower = test.options.iter().filter(|option| mark(test, option) == Some(OptionMark::Slower));
    slower.map(|option| option.label.clone()).collect()
}

fn within_of_best(test: &Test) -> String {
    format!("within {} of the best", percent(test.margin))
}

/// How good the recommended option is: `the fastest`, `at most 12 % slower than the best`. The line of one of several tests is below
/// the table, which explains noise.
fn how_good(view: &View, test: &Test, own: &OptionResult, is_short: bool) -> String {
    let upper = own.slower_upper.unwrap_or(f64::INFINITY);
    let within = || within_of_best(test);
    let at_most = || match test.compares {
        _ if upper > NOTHING => {
            format!("at most {}", than_the_best(test.compares, view.scale, &view.scale.at_most(upper)))
        }
        Compares::Time => "the fastest".into(),
        Compares::Cpu => "the least CPU time".into(),
    };
    match own.status {
        OptionStatus::Best if carries_alone(test, own) => "the only one that carries the offered load".into(),
        OptionStatus::Best if upper <= NOTHING => at_most(),
        OptionStatus::Best => within(),
        // Its interval alone would make it the best.
        _ if upper <= test.margin && test.control_is_wide => {
            let noise = up_to(view.scale, test.control_upper.unwrap_or(0.0));
            match is_short {
                true => format!("{} (noise: {noise})", at_most()),
                false => format!("{}, but one option, measured twice, differs by {noise}", at_most()),
            }
        }
        _ if upper <= test.margin => format!("{}, with a limitation: see Caveat", within()),
        _ => at_most(),
    }
}

/// Whether all other options that were measured missed a load.
fn carries_alone(test: &Test, own: &OptionResult) -> bool {
    let others = || test.options.iter().filter(|option| option.trials > 0 && option.id != own.id);
    others().next().is_some() && others().all(OptionResult::missed_load)
}

/// The recommendation with its interval, then the options that are as good, those that are undecided, and those to avoid.
fn compared(view: &View, test: &Test) -> String {
    let Some(own) = test.recommended_option() else { return too_wide(view, test) };
    let (why, cpu) = match (test.because, reason(test.because)) {
        (Some(Because::LeastCpu), _) => (String::new(), ", least CPU time"),
        (_, reason) => (reason.map_or_else(String::new, |reason| format!(", the {reason}")), ""),
    };
    let rate = rate(test, &view.tests, own).map_or_else(String::new, |rate| format!(" ({rate}{cpu})"));
    let sure = match test.state {
        TestState::Decided if carries_alone(test, own) => String::new(),
        TestState::Decided => format!(", with {} confidence", percent(view.plan.level)),
        _ => String::new(),
    };
    let (good, open) = (others(test, OptionStatus::Best), others(test, OptionStatus::Tied));
    let no_difference = kept::no_difference((view, test), own, [&good, &open]);
    // Options that are alike have one sentence: only chance makes one of them the fastest.
    let has_reason = matches!(test.because, Some(Because::Default | Because::Smallest));
    let is_tie = !good.is_empty() && !has_reason && test.state == TestState::Decided;
    let alike = if is_tie && good.len() <= NAMED_MAX { &good[..] } else { &[] };
    // Without a difference none is the fastest.
    let how = match own.status {
        OptionStatus::Best if no_difference.is_some() && !good.is_empty() || is_tie => within_of_best(test),
        _ => how_good(view, test, own, false),
    } + &sure;
    let names_others = no_difference.as_ref().is_some_and(|none| none.names_others);
    let mut phrases = vec![match no_difference {
        Some(none) => format!("{} {}{rate}{} {how}", none.before, own.label, none.after),
        None if test.state == TestState::Decided => {
            let each = if alike.is_empty() { "" } else { "each " };
            let names: Vec<String> = [&[format!("{}{rate}{why}", own.label)], alike].concat();
            format!("use {}: {each}{how}", phrase::join(&names, "or"))
        }
        None => format!("the safest is {}{rate}{why}: {how}", own.label),
    }];
    if !good.is_empty() && !names_others && alike.is_empty() {
        phrases.push(format!("As good: {}", listed(&good)));
    }
    if !open.is_empty() && (test.state == TestState::Decided || !names_others) {
        phrases.push(format!("Undecided: {} may be {}", listed(&open), better(test)));
    }
    let slower = slower_labels(test);
    if !slower.is_empty() {
        phrases.push(format!("Slower: {}", listed(&slower)));
    }
    if let Some((lower, upper)) = own.more_cpu_lower.zip(own.more_cpu_upper).filter(|_| least_cpu::uses_more(own)) {
        let range = view.scale.interval(lower, upper);
        let more = is_slower(Compares::Cpu, view.scale, &range, "the option with the least");
        phrases.push(format!("{} {more}", own.label));
    }
    phrases.join(". ") + &avoid(view, test)
}

/// An option that may be better than the recommended one.
pub fn better(test: &Test) -> &'static str {
    if test.compares == Compares::Cpu { "cheaper" } else { "faster" }
}

/// The options to avoid with their numbers: `. Avoid: tokio (34–57 % slower)`.
fn avoid(view: &View, test: &Test) -> String {
    let noun = |interval: &str| than_the_best(test.compares, view.scale, interval);
    avoided(view, test, NAMED_MAX, noun).map_or_else(String::new, |text| format!(". Avoid: {text}"))
}

/// The options to avoid, the worst first, each with its reason; of many the table has the others.
fn avoided(view: &View, test: &Test, most: usize, noun: impl Fn(&str) -> String) -> Option<String> {
    // One more takes no more room than its number.
    let most = if test.avoid.len() == most + 1 { most + 1 } else { most };
    // The first interval has the noun, which is that of all.
    let first = test.avoid.iter().position(|one| one.harm.is_none());
    let reason = |at: usize, one: &Avoided| match &one.harm {
        Some(harm) => harm.clone(),
        None => {
            let interval = one.interval(view.scale);
            let slower = if first == Some(at) { noun(&interval) } else { interval };
            if one.is_screened { format!("{slower} in the screening") } else { slower }
        }
    };
    let shown = test.avoid.iter().enumerate().take(most);
    let each = shown.map(|(at, one)| format!("{} ({})", one.label, reason(at, one)));
    let more = test.avoid.len().saturating_sub(most);
    let more = (more > 0).then(|| format!("and {more} more"));
    let each: Vec<String> = each.chain(more).collect();
    (!each.is_empty()).then(|| each.join(", "))
}

/// Whether a test recommends an option of which it is undecided.
pub fn has_safest(test: &Test) -> bool {
    test.options.iter().any(|option| mark(test, option) == Some(OptionMark::Safest))
}

/// The name of a recommended option; that of an undecided test is not simply to be used: `64K (safest)`.
pub fn recommended_label(test: &Test, own: &OptionResult) -> String {
    if has_safest(test) { format!("{} (safest)", own.label) } else { own.label.clone() }
}

/// Whether an option was measured in the screening only, next to others with intervals.
pub fn is_screened(test: &Test, option: &OptionResult) -> bool {
    test.is_compared() && option.slower_upper.is_none() && !option.missed_load()
}

/// The result of one test of several in a line: its table has the other intervals.
pub fn in_short(view: &View, test: &Test) -> String {
    let Some(own) = test.recommended_option().filter(|_| test.is_compared()) else {
        return test.result.clone();
    };
    let rate = rate(test, &view.tests, own).map_or_else(String::new, |rate| format!(", {rate}"));
    let good = match &others(test, OptionStatus::Best)[..] {
        [] => String::new(),
        labels => format!("; as good: {}", listed(labels)),
    };
    let is_brief = view.tests.len() > BRIEF_TESTS;
    let list = |name: &str, labels: &[String], text: &dyn Fn(String) -> String| match labels.len() {
        0 => String::new(),
        count if is_brief || count > NAMED_MAX => format!("; {count} {name}"),
        _ => format!("; {}", text(labels.join(", "))),
    };
    let left =
        list("undecided", &others(test, OptionStatus::Tied), &|labels| format!("{labels} may be {}", better(test)))
            + &list("slower", &slower_labels(test), &|labels| format!("slower: {labels}"));
    // The lines of many tests fit on a terminal together; the table has the others.
    let most = if is_brief { 1 } else { NAMED_MAX };
    let noun = |interval: &str| more(test.compares, view.scale, interval);
    let avoid = avoided(view, test, most, noun).map_or_else(String::new, |text| format!("; avoid {text}"));
    let is_dropped = |option: &&OptionResult| !is_brief && option.rate.is_some() && is_screened(test, option);
    let dropped: Vec<String> = test.options.iter().filter(is_dropped).map(|option| option.label.clone()).collect();
    let avoid = avoid + &list("dropped as slow", &dropped, &|labels| format!("dropped as slow: {labels}"));
    let keep = if test.because == Some(Because::Present) { "keep " } else { "" };
    format!("{keep}{}{rate}, {}{good}{left}{avoid}", recommended_label(test, own), how_good(view, test, own, true))
}

/// `; measured with bbr`, where another test recommends another congestion control.
pub fn condition(view: &View, test: &Test) -> String {
    let own = advised_congestion(view, test).and(test.congestion.as_ref());
    own.map_or_else(String::new, |own| format!("; measured with {own}"))
}

/// The congestion control that another test recommends, where this test ran with one only, which is a different one.
pub fn advised_congestion<'a>(view: &'a View, test: &Test) -> Option<&'a str> {
    let own = test.congestion.as_ref()?;
    let recommended = view.tests.iter().filter_map(Test::recommended_option);
    let mut advised = recommended.filter_map(|option| option.settings.get("congestion")?.as_str());
    advised.find(|name| name != own)
}

/// The first harm of an option: `71.6 % of the datagrams lost`.
pub fn harmed(option: &OptionResult) -> String {
    let of = |share: Option<f64>, text: &str| {
        share.map_or_else(|| text.into(), |share| format!("{} of the {text}", percent(share)))
    };
    match option.harm.first() {
        Some(FindingKind::LostDatagrams) => of(option.lost_share, "datagrams lost"),
        Some(FindingKind::FailedCalls) => of(option.failed_share, "calls failed"),
        Some(FindingKind::StarvedClients) => of(option.starved_share, "clients without an answer"),
        Some(FindingKind::ListenOverflows) => "listener's queue full".into(),
        Some(FindingKind::TimeOuts) => "time-outs of TCP".into(),
        Some(FindingKind::MissedLoad) => of(option.carried_share, "offered load carried"),
        Some(FindingKind::Stalled) => "trials without data".into(),
        Some(FindingKind::TruncatedDatagrams) => "datagrams cut off".into(),
        _ => "see Caveat".into(),
    }
}

/// `up to 12 %`, or `over 10×`.
pub fn up_to(scale: ShareScale, share: f64) -> String {
    match scale.at_most(share) {
        text if share >= BOUND_MAX => text,
        text => format!("up to {text}"),
    }
}

/// The name of a factor in headings and sentences: `write size`, `SO_RCVBUF`.
pub fn factor_name(factor: &str) -> String {
    match factor {
        "read_size" | "write_size" => factor.replace('_', " "),
        "congestion" => "congestion control".into(),
        other => phrase::in_code(other).to_owned(),
    }
}

/// Labels, or their number.
pub fn listed(labels: &[String]) -> String {
    if labels.len() <= NAMED_MAX { labels.join(", ") } else { counted(labels.len(), "other option") }
}

/// No option is recommended: every interval is too wide.
fn too_wide(view: &View, test: &Test) -> String {
    let known = test.options.iter().filter_map(|option| Some((option.slower_upper?, option)));
    let narrowest = known.min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, own)) = narrowest.filter(|(upper, own)| *upper <= test.margin && !own.harm.is_empty()) {
        let (own, within) = (&own.label, within_of_best(test));
        return format!("nothing is recommended: {own} is {within}, but harmful{}", avoid(view, test));
    }
    let even = narrowest.filter(|(upper, _)| upper.is_finite()).map(|(upper, own)| {
        let verb = match (test.compares, view.scale.multiples) {
            (Compares::Time, false) => "be",
            (Compares::Time, true) => "take",
            (Compares::Cpu, _) => "use",
        };
        let how = than_the_best(test.compares, view.scale, &up_to(view.scale, upper));
        format!(": even {} may {verb} {how}", own.label)
    });
    format!("undecided, nothing is recommended{}{}", even.unwrap_or_default(), avoid(view, test))
}

/// The scale of all differences of a session: the largest one decides.
pub fn scale(view: &View) -> ShareScale {
    let of_option =
        |option: &OptionResult| [option.slower_upper, option.more_cpu_upper].into_iter().flatten().collect::<Vec<_>>();
    let options = view.tests.iter().flat_map(|test| test.options.iter().flat_map(of_option));
    let controls = view.tests.iter().filter_map(|test| test.control_upper);
    ShareScale::of(options.chain(controls))
}

/// The heading of the intervals of a test.
pub fn slower_heading(test: &Test, scale: ShareScale) -> &'static str {
    match (test.compares, scale.multiples) {
        (Compares::Time, false) => "slower than best (95 %)",
        (Compares::Time, true) => "time / best time (95 %)",
        (Compares::Cpu, false) => "more CPU than best (95 %)",
        (Compares::Cpu, true) => "CPU time / least (95 %)",
    }
}

/// An interval under that heading, with letters for its ends, and its meaning.
pub fn interval_explained(compares: Compares, scale: ShareScale) -> (&'static str, &'static str) {
    match (compares, scale.multiples) {
        (Compares::Time, false) => ("A–B %", "between A and B % slower than the best; 100 % is twice the time"),
        (Compares::Time, true) => ("A–B×", "takes A to B times as long as the best"),
        (Compares::Cpu, false) => ("A–B %", "between A and B % more CPU time than the best; 100 % is twice as much"),
        (Compares::Cpu, true) => ("A–B×", "takes A to B times the CPU time of the best"),
    }
}

/// The interval of an option for tables, or why it has none.
pub fn slower(test: &Test, option: &OptionResult, scale: ShareScale) -> String {
    match (option.slower_lower, option.slower_upper) {
        (Some(lower), Some(upper)) => scale.interval(lower, upper),
        _ if option.status == OptionStatus::Failed => "failed".into(),
        _ if option.missed_load() => "missed the load".into(),
        _ if test.is_compared() => "screening only".into(),
        _ => "–".into(),
    }
}

/// A difference with its noun: `12 % slower`, `1.12× as long`.
pub fn more(compares: Compares, scale: ShareScale, amount: &str) -> String {
    let noun = match (compares, scale.multiples) {
        (Compares::Time, false) => "slower",
        (Compares::Time, true) => "as long",
        (Compares::Cpu, false) => "more CPU time",
        (Compares::Cpu, true) => "as much CPU time",
    };
    format!("{amount} {noun}")
}

/// A difference by [`more`] from another option: `is 12 % slower than the best`, `takes 1.12× as long as the best`.
pub fn is_slower(compares: Compares, scale: ShareScale, amount: &str, than: &str) -> String {
    let verb = match (compares, scale.multiples) {
        (Compares::Time, false) => "is",
        (Compares::Time, true) => "takes",
        (Compares::Cpu, _) => "uses",
    };
    let conjunction = if scale.multiples { "as" } else { "than" };
    format!("{verb} {} {conjunction} {than}", more(compares, scale, amount))
}

/// The same from the best option, without a verb: `12 % slower than the best`, `1.12× as long as the best`.
pub fn than_the_best(compares: Compares, scale: ShareScale, amount: &str) -> String {
    format!("{} {} the best", more(compares, scale, amount), if scale.multiples { "as" } else { "than" })
}

/// Why an option is recommended although another one is faster, where its interval does not show it.
pub fn reason(because: Option<Because>) -> Option<&'static str> {
    match because {
        Some(Because::Default) => Some("default"),
        Some(Because::Smallest) => Some("smallest"),
        Some(Because::LeastCpu) => Some("least CPU"),
        _ => None,
    }
}

/// The result of an option that has an interval, as one word of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionMark {
    /// The recommended option of a decided test.
    Use,
    /// The recommended option of an undecided test: it is slower by least in the worst case.
    Safest,
    /// The present value of a program, which is recommended.
    Keep,
    /// Within the margin of the best.
    AsGood,
    /// Its interval includes that of the best.
    Undecided,
    /// Significantly slower, and not to be avoided.
    Slower,
    /// Surely worse by more than the margin and than the noise, or harmful.
    Avoid,
}

impl OptionMark {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            OptionMark::Use => "use",
            OptionMark::Safest => "safest",
            OptionMark::Keep => "keep",
            OptionMark::AsGood => "as good",
            OptionMark::Undecided => "undecided",
            OptionMark::Slower => "slower",
            OptionMark::Avoid => "avoid",
        }
    }
}

/// The one mark of an option; `None` where its test has no result for it: it failed, or was measured in short trials only.
pub fn mark(test: &Test, option: &OptionResult) -> Option<OptionMark> {
    if test.avoid.iter().any(|avoid| avoid.option.as_ref() == Some(&option.id)) {
        return Some(OptionMark::Avoid);
    }
    if test.recommended.as_ref() == Some(&option.id) {
        return match test.state {
            TestState::Single => None,
            _ if test.because == Some(Because::Present) => Some(OptionMark::Keep),
            TestState::Decided => Some(OptionMark::Use),
            _ => Some(OptionMark::Safest),
        };
    }
    let compared = option.slower_upper.and(Some(option.status))?;
    match compared {
        OptionStatus::Best => Some(OptionMark::AsGood),
        OptionStatus::Tied | OptionStatus::Harmful => Some(OptionMark::Undecided),
        OptionStatus::Slower => Some(OptionMark::Slower),
        OptionStatus::Unconfirmed | OptionStatus::Skipped | OptionStatus::Failed => None,
    }
}
