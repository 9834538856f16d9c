//! The sentence of each finding, and the cautions of the screen.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{CellId, Cost, Nanos, kernel_faults, option};

use super::next::more_work;
use super::{ReportedFinding, Results};
use crate::findings::{Fact, Finding, LongTrials, NoiseCause, Severity};
use crate::results::{OptionResult, Test};
use crate::view::numbers::{HarmKind, WorkersView};
use crate::words::cost_words;
use crate::words::interval_rounding::{NOTHING, ShareScale, at_least, at_most, percent, share_range};
use crate::words::phrase::{self, capital};

/// Places that a caution names.
const PLACES_MAX: usize = 2;

/// Every finding with its sentence.
pub fn reported(results: &Results) -> Vec<ReportedFinding> {
    let with_text = |finding: &Finding| {
        let places = place(results, finding);
        let text = match places.is_empty() {
            true => format!("{}.", capital(&text(results, finding, ""))),
            false => format!("{places}: {}.", text(results, finding, "")),
        };
        ReportedFinding { finding: finding.clone(), text }
    };
    results.findings.iter().map(with_text).collect()
}

/// The worst findings, one sentence for each kind.
pub fn cautions(results: &Results, most: usize) -> Vec<String> {
    let serious = results.findings.iter().filter(|finding| finding.severity <= Severity::Warning);
    let mut kinds: Vec<Vec<&Finding>> = Vec::new();
    for finding in serious {
        match kinds.iter_mut().find(|all| all[0].is_like(finding)) {
            Some(all) => all.push(finding),
            None => kinds.push(vec![finding]),
        }
    }
    kinds.iter().take(most).map(|all| caution(results, all)).collect()
}

/// One caution: the sentence of the worst one, with the places of all of its kind.
fn caution(results: &Results, all: &[&Finding]) -> String {
    let places = all.iter().map(|finding| {
        // The option of one of several findings is a detail.
        let test = test_of(results, finding).filter(|_| all.len() > 1);
        test.map_or_else(|| place(results, finding), |test| test.name.clone())
    });
    let places = phrase::unique(places.filter(|place| !place.is_empty()));
    // The last one takes no more room than its count.
    let shown = if places.len() == PLACES_MAX + 1 { places.len() } else { PLACES_MAX };
    let more = places.len().saturating_sub(shown);
    let mut named = places.into_iter().take(shown).collect::<Vec<_>>().join(", ");
    if more > 0 {
        named += &format!(", {more} more");
    }
    let text = text(results, all[0], if all.len() > 1 { "up to " } else { "" });
    match named.is_empty() {
        true => format!("{}.", capital(&text)),
        false => format!("{named}: {text}."),
    }
}

/// The test that a finding is about, where the session has several.
fn test_of<'a>(results: &'a Results, finding: &Finding) -> Option<&'a Test> {
    results.test(finding.test.as_ref()?).filter(|_| results.tests.len() > 1)
}

/// `reads TCP, 64K`; empty where the session has one test and the finding concerns all of it.
fn place(results: &Results, finding: &Finding) -> String {
    let names_option = !matches!(
        finding.fact,
        Fact::ControlDiffers { .. } | Fact::Noise { cause: NoiseCause::Control, .. } | Fact::LongerTail { .. }
    );
    let option = finding.option.as_ref().filter(|_| names_option).map(|id| option(results, id));
    let names = [test_of(results, finding).map(|test| test.name.clone()), option];
    names.into_iter().flatten().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
}

fn option(results: &Results, id: &CellId) -> String {
    let found = results.tests.iter().find_map(|test| test.option(id));
    found.map_or_else(|| id.to_string(), |option| option.label.clone())
}

/// The sentence without its place and its full stop; `up_to` is written before a share that is the largest of several.
fn text(results: &Results, finding: &Finding, up_to: &str) -> String {
    let own = || finding.option.as_ref().map(|id| option(results, id)).unwrap_or_default();
    let other = || finding.other.as_ref().map_or_else(|| "another option".to_owned(), |id| option(results, id));
    let shown = |upper: Option<f64>| upper.map_or_else(|| "an unknown amount".to_owned(), at_most);
    let compares = finding.test.as_ref().and_then(|id| results.test(id)).map_or(Cost::Time, |test| test.compares);
    let words = cost_words(compares);
    match &finding.fact {
        Fact::ControlDiffers { widened } => {
            format!("{}, measured twice, differs: intervals are wider by {}", own(), at_most(*widened))
        }
        Fact::Noise { cause, amount, of } => noise(*cause, *amount, *of),
        Fact::SeveralSpeeds { slow_share, times_least, times_most } => {
            let [least, most] = [*times_least, *times_most].map(|times| significant(times, 2));
            let times = if least == most { least } else { format!("{least} to {most}") };
            match *slow_share > 0.0 {
                true => format!("{up_to}{:.0} % of the trials take {times}× as long", slow_share * 100.0),
                false => format!("few slow trials: the average takes {up_to}{times}× the time of the median"),
            }
        }
        Fact::FailedTrials { trials, of, why } => {
            // What to do follows the reason.
            let why = why.as_ref().and_then(|why| why.split(": ").next());
            let why = why.map_or_else(String::new, |why| format!("; the last: {why}"));
            format!("{trials} of {} failed and were left out{why}", counted(*of, "trial"))
        }
        Fact::Harm { harm, share } => harmed(results, *harm, (*share, up_to), finding.option.is_none()),
        Fact::TcpDrops { counts } => {
            // The known fault shows in this counter alone.
            let by_fault = counts.contains_key("TCPRcvQDrop");
            let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            let release = results.environment.text(&["kernel_release"]);
            let known = release.and_then(kernel_faults::of).filter(|_| by_fault);
            let known = known.map_or_else(String::new, |fault| format!("; {}", fault.sentence));
            format!("TCP segments found no room at a receiver ({}){known}", counts.join(", "))
        }
        Fact::NoEffect { factor, why } => format!("{} has no effect here: {why}", phrase::in_code(factor)),
        Fact::LongTrials { result, window_s, lower, upper } => {
            let window = Nanos((*window_s * 1e9) as u64);
            match result {
                LongTrials::Contradict => {
                    let (least, other) = (at_least(lower.unwrap_or(0.0)), other());
                    format!(
                        "in trials of {window} it takes at least {least} longer than {other}: use {other} for long \
                         connections"
                    )
                }
                LongTrials::ContradictTogether => {
                    let all = results.tests.len();
                    format!("trials of {window} of all {all} tests together contradict the recommendations")
                }
                LongTrials::Confirm => {
                    format!("trials of {window} confirm it: at most {} slower than the best", shown(*upper))
                }
                LongTrials::Open => format!("trials of {window} neither confirm nor contradict it"),
                LongTrials::Missing => "connections older than those measured may differ (--long-trials)".into(),
            }
        }
        Fact::BeyondLoopback { factor } => {
            let known = option::of_factor(factor).and_then(|row| row.beyond_loopback);
            let sentence = known.map_or("a network may differ", |known| known.sentence);
            format!("{} was compared over loopback: {sentence}", phrase::in_code(factor))
        }
        Fact::ShortRuns { run_ns } => {
            format!("the start of the program may be a large part of so short a run: {}", more_work(Some(*run_ns)))
        }
        Fact::ProcessesLeft { runs, killed: false } => {
            format!("processes were left behind, and ended, after {}", counted(*runs, "run"))
        }
        Fact::ProcessesLeft { runs, killed: true } => {
            format!("the server ignored its stop signal and was killed after {} (--stop)", counted(*runs, "run"))
        }
        Fact::Reduced { kept } => format!("trials took longer than planned: there was time for {kept} only"),
        Fact::Earlier { session, contradicts: true, .. } => {
            format!("recommended by session {session}; the two sessions contradict each other")
        }
        Fact::Earlier { session, upper, .. } => {
            format!("recommended by session {session}; here it is at most {} {}", shown(*upper), words.above)
        }
        Fact::Advice { session, test, held, lower, upper } => {
            let slower = lower.zip(*upper).map(|(lower, upper)| ShareScale::of([lower]).interval(lower, upper));
            let how = match (held, slower) {
                (Some(true), _) => "holds here".to_owned(),
                (Some(false), Some(slower)) => {
                    format!("does not hold here: it takes {slower} longer than the best")
                }
                (None, _) if upper.is_some_and(|upper| upper <= NOTHING) => {
                    "is the faster one of the two values here, which does not show that it is the best".to_owned()
                }
                _ => "is undecided here".to_owned(),
            };
            format!("the recommendation of session {session} ({test}) {how}")
        }
        Fact::UnevenWorkers { workers } => up_to.replace("up to", "at worst") + &shared_calls(workers),
        Fact::LongerTail { times_lower, times_upper } => {
            let upper = times_upper.map_or(f64::INFINITY, |times| times - 1.0);
            let times = ShareScale { multiples: true }.interval(times_lower - 1.0, upper);
            format!("the p99 of {} is {times} that of {}", own(), other())
        }
    }
}

/// How the threads of a server shared the calls.
pub fn shared_calls(WorkersView { threads, fair_share, least_share, most_share }: &WorkersView) -> String {
    let fair = percent(*fair_share);
    let range = share_range(*least_share, *most_share);
    format!("the {threads} threads of the server had {range} of the calls each, where at most {fair} would be fair")
}

fn noise(cause: NoiseCause, amount: f64, of: Option<f64>) -> String {
    match cause {
        NoiseCause::Control => {
            let most = at_most(amount);
            let most = most.strip_prefix('>').map_or_else(|| format!("up to {most}"), |least| format!("over {least}"));
            format!("the same option, measured twice, is {most} apart")
        }
        NoiseCause::DependentBlocks => "the speed of the machine changed slowly during the session".into(),
        NoiseCause::MeansDisagree => "slower than the best by the average of its trials, not by their median".into(),
        NoiseCause::OtherPrograms => {
            let used = significant(amount, 2);
            let of = of
                .map_or_else(|| format!("{used} CPUs"), |cpus| format!("{used} of {}", counted(cpus as usize, "CPU")));
            format!("other programs used {of}")
        }
        NoiseCause::Steal => {
            let of = counted(of.unwrap_or(0.0) as usize, "trial");
            format!("the hypervisor took CPU time in {amount} of {of}")
        }
        NoiseCause::Throttled => format!("the control group throttled the session for {} s", significant(amount, 2)),
        NoiseCause::LateClients => format!(
            "{} of {} are the delay of the load generator",
            Nanos(amount as u64),
            Nanos(of.unwrap_or(0.0) as u64)
        ),
        NoiseCause::Harness => format!("measuring takes {} of the shortest call", percent(amount)),
    }
}

/// The first harm of an option without its details: `71.6 % of the datagrams lost`.
pub fn harm_of(results: &Results, option: &OptionResult) -> String {
    let mut of_option = results.findings.iter().filter(|finding| finding.option.as_ref() == Some(&option.id));
    let first = of_option.find_map(|finding| match finding.fact {
        Fact::Harm { harm, share } if option.harm.first() == Some(&harm) => {
            Some(harmed(results, harm, (share, ""), false))
        }
        _ => None,
    });
    let text = first.unwrap_or_else(|| "harmful".into());
    text.split("; ").next().unwrap_or_default().to_owned()
}

fn harmed(results: &Results, harm: HarmKind, (amount, up_to): (f64, &str), of_all: bool) -> String {
    let share = format!("{up_to}{}", percent(amount));
    match harm {
        HarmKind::DelayedAcks => format!(
            "{share} of the calls take 40 ms and more: Nagle's algorithm holds the rest of a message back until a delayed \
             acknowledgement comes; TCP_NODELAY at the end that writes in parts, or one write a message, avoids it"
        ),
        HarmKind::Stalled => format!("no data moved in {share} of its trials"),
        HarmKind::MissedLoad if of_all => {
            format!("no option carried the offered load, the best one {share} of it: offer less")
        }
        HarmKind::MissedLoad => format!("{share} of the offered load carried; another option carried it"),
        HarmKind::FailedCalls => format!("{share} of the calls failed"),
        HarmKind::LostDatagrams => format!("{share} of the datagrams lost"),
        HarmKind::CutDatagrams => format!("{share} of the datagrams cut off by the reader's buffer"),
        HarmKind::StarvedClients => format!("{share} of the clients had no answer during a whole trial"),
        // A client tries again, so that one call may find it full several times.
        HarmKind::ListenOverflows if amount >= 1.0 => {
            format!("the listener's queue was full {up_to}{} times for each call", significant(amount, 2))
        }
        HarmKind::ListenOverflows => format!("the listener's queue was full in {share} of the calls"),
        HarmKind::TimeOuts => format!("TCP waited for its retransmission time-out in {share} of the calls"),
        HarmKind::CopiedSends => {
            let loopback = results.groups.iter().any(|group| crate::findings::is_loopback(&group.factors));
            let loopback = if loopback { ", as always over loopback" } else { "" };
            format!("{share} of the zero-copy sends were copied{loopback}")
        }
    }
}
