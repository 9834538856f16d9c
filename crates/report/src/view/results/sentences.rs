//! The sentences of findings: one table for the terminal, the page, Markdown, JUnit and JSON.
//!
//! Numbers are rounded outward, so that a printed interval contains the computed one.

mod effect;

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{CellId, Level, Nanos};

use super::super::document::{Compares, Finding, FindingKind, Test, View};
use super::outcome::{is_slower, than_the_best, time, up_to};
use super::run_length::more_work;
use crate::interval_rounding::{ShareScale, percent};
use crate::phrase::{self, rate_unit};

/// Levels that only the kernel of this machine gives a meaning.
const CONGESTION: &str = "congestion";

/// Where the intervals of two sessions have nothing in common.
pub(super) const CONTRADICT: &str = "the two sessions contradict each other";

/// The sentence of a finding.
pub fn sentence(view: &View, finding: &Finding) -> String {
    let phrases = Sentence { view, finding };
    let text = phrases.text();
    match finding.kind {
        FindingKind::BiggestEffect | FindingKind::OneSetting => text,
        FindingKind::Comparison | FindingKind::LongerP99 => phrases.test_name() + &text,
        _ => phrases.place() + &text,
    }
}

fn is_control(kind: FindingKind) -> bool {
    matches!(kind, FindingKind::ControlDiffers | FindingKind::ControlWide)
}

struct Sentence<'a> {
    view: &'a View,
    finding: &'a Finding,
}

impl Sentence<'_> {
    /// `Read from TCP, 64K: `; nothing where the session has one test and the finding concerns all of it.
    fn place(&self) -> String {
        let option = self.finding.option.as_ref().filter(|_| !is_control(self.finding.kind));
        let names = [self.one_of_several().map(|test| test.name.clone()), option.map(|id| self.option(id))];
        let names: Vec<String> = names.into_iter().flatten().filter(|name| !name.is_empty()).collect();
        if names.is_empty() { String::new() } else { format!("{}: ", names.join(", ")) }
    }

    /// The name of the test and a colon; nothing where the session has one test.
    fn test_name(&self) -> String {
        self.one_of_several().map_or_else(String::new, |test| format!("{}: ", test.name))
    }

    /// The test that the finding is about.
    fn own_test(&self) -> Option<&Test> {
        self.view.test(self.finding.test.as_ref()?)
    }

    /// The same where the session has several, so that its name tells something.
    fn one_of_several(&self) -> Option<&Test> {
        self.own_test().filter(|_| self.view.tests.len() > 1)
    }

    fn option(&self, id: &CellId) -> String {
        let mut options = self.view.tests.iter().flat_map(|test| &test.options);
        options.find(|option| option.id == *id).map_or_else(|| id.to_string(), |option| option.label.clone())
    }

    fn other(&self) -> String {
        self.finding.other.as_ref().map_or_else(|| "another option".to_owned(), |id| self.option(id))
    }

    fn number(&self, name: &str) -> f64 {
        self.finding.numbers.get(name).copied().unwrap_or(0.0)
    }

    fn known(&self, name: &str) -> Option<f64> {
        self.finding.numbers.get(name).copied()
    }

    fn share(&self, name: &str) -> String {
        percent(self.number(name))
    }

    fn count(&self, name: &str, noun: &str) -> String {
        counted(self.number(name) as usize, noun)
    }

    fn name(&self, name: &str) -> &str {
        self.finding.names.get(name).and_then(|value| value.as_str()).unwrap_or_default()
    }

    fn level(&self, name: &str) -> String {
        let value = self.finding.names.get(name).cloned().unwrap_or_default();
        let level: Level = serde_json::from_value(value).unwrap_or(Level::Absent);
        let factor = self.name("factor");
        match self.view.environment.congestion().filter(|_| factor == CONGESTION && level.is_auto()) {
            Some(current) => format!("{current} (current)"),
            None => phrase::level(factor, &level),
        }
    }

    /// The divisor and the unit of rates up to this one.
    fn rate_scale(&self, fastest: f64) -> (f64, &'static str) {
        // All tests of a session have one workload, and so one unit.
        let test = self.own_test().or(self.view.tests.first());
        test.map_or_else(|| rate_unit("bytes/s", fastest), |test| test.rate_scale(&self.view.tests))
    }

    /// Rates of one finding, in one unit.
    fn rates(&self, rates: [f64; 2]) -> [String; 2] {
        let (divisor, unit) = self.rate_scale(rates[0].max(rates[1]));
        rates.map(|rate| format!("{} {unit}", significant(rate / divisor, 3)))
    }

    /// Seconds to two digits.
    fn seconds(&self, name: &str) -> String {
        format!("{} s", significant(self.number(name), 2))
    }

    /// The quantity by which the options of the test are compared.
    fn compares(&self) -> Compares {
        self.own_test().map_or(Compares::Time, |test| test.compares)
    }

    /// `is 12 % slower than epoll`.
    fn is_slower(&self, amount: &str, than: &str) -> String {
        is_slower(self.compares(), self.view.scale, amount, than)
    }

    /// The end of an interval of extra time: `at most 12 % slower than the best`.
    fn at_most_slower(&self) -> String {
        let upper = self.known("slower_upper").unwrap_or(f64::INFINITY);
        format!("at most {}", than_the_best(self.compares(), self.view.scale, &self.view.scale.at_most(upper)))
    }

    fn text(&self) -> String {
        use FindingKind as LevelKind;
        match self.finding.kind {
            LevelKind::Comparison => self.comparison(),
            LevelKind::LongerP99 => self.longer_p99(),
            LevelKind::BiggestEffect => self.effect(),
            LevelKind::OneSetting => self.one_setting(),
            LevelKind::ControlDiffers | LevelKind::ControlWide => self.control(),
            LevelKind::LongTrialsContradict
            | LevelKind::LongTrialsConfirm
            | LevelKind::LongTrialsInconclusive
            | LevelKind::LongTrialsDiffer
            | LevelKind::LongTrialsMissing => self.long_trials(),
            LevelKind::Stalled
            | LevelKind::MissedLoad
            | LevelKind::FailedCalls
            | LevelKind::LostDatagrams
            | LevelKind::StarvedClients
            | LevelKind::ListenOverflows
            | LevelKind::TimeOuts
            | LevelKind::CopiedSends
            | LevelKind::TruncatedDatagrams
            | LevelKind::NoBackPressure => self.harm(),
            LevelKind::SlowTrialsDisagree
            | LevelKind::MeansDisagree
            | LevelKind::Drift
            | LevelKind::SeveralSpeeds
            | LevelKind::FailedTrials
            | LevelKind::NoLongerBest
            | LevelKind::NoLongerSlower => self.unsteady(),
            LevelKind::NoEffect => {
                format!("{} has no effect here: {}.", phrase::in_code(self.name("factor")), self.name("why"))
            }
            LevelKind::ScreenedSlower | LevelKind::ScreenedOnly | LevelKind::CongestionOverLoopback => self.screening(),
            LevelKind::EarlierContradicts | LevelKind::EarlierDiffers => self.earlier(),
            LevelKind::UnevenSteal
            | LevelKind::Steal
            | LevelKind::Throttled
            | LevelKind::OtherPrograms
            | LevelKind::HarnessCost
            | LevelKind::NoisyMachine => self.machine(),
            _ => self.session(),
        }
    }

    fn longer_p99(&self) -> String {
        let option = self.finding.option.as_ref().map(|id| self.option(id)).unwrap_or_default();
        let upper = self.known("times_upper").map_or(f64::INFINITY, |times| times - 1.0);
        let times = ShareScale { multiples: true }.interval(self.number("times_lower") - 1.0, upper);
        let all = |id: Option<&CellId>| self.view.cell(id?)?.call.as_ref()?.p99_all_ns.map(time);
        let both = all(self.finding.other.as_ref()).zip(all(self.finding.option.as_ref()));
        let both =
            both.map_or_else(String::new, |(of, than)| format!("; of all calls together {of} instead of {than}"));
        format!("the p99 of {} in the median trial is {times} that of {option}{both}.", self.other())
    }

    /// The A/A control repeats the option that led the screening, which is not always the recommended one.
    fn control(&self) -> String {
        let twice = self.finding.option.as_ref().map(|id| self.option(id)).unwrap_or_default();
        let scale = self.view.scale;
        match self.finding.kind {
            FindingKind::ControlDiffers => {
                let range = self.control_range().unwrap_or_default();
                let so = match self.known("widened") {
                    Some(more) => format!(": the interval is wider by {} on each side", scale.at_most(more)),
                    None => ", so the test has no valid result".into(),
                };
                format!("{twice}, measured twice, differs by {range}{so}.")
            }
            _ => format!("noise of {} ({twice}, measured twice).", up_to(scale, self.number("reach").abs())),
        }
    }

    /// By how much the control differs from its option; `None` where it may not differ at all.
    fn control_range(&self) -> Option<String> {
        let (lower, upper) = (self.known("lower")?, self.known("upper")?);
        // The reverse of 7 % less time is 7.5 % more.
        let [a, b] = [lower, upper].map(|share| if share < 0.0 { 1.0 / (1.0 + share) - 1.0 } else { share });
        (lower * upper > 0.0).then(|| self.view.scale.interval(a.min(b), a.max(b)))
    }

    fn long_trials(&self) -> String {
        let window = Nanos((self.number("window_s") * 1e3) as u64 * 1_000_000);
        match self.finding.kind {
            FindingKind::LongTrialsContradict => {
                let least = format!("at least {}", self.view.scale.at_least(self.number("slower_lower")));
                let other = self.other();
                let slower = self.is_slower(&least, &other);
                format!("in trials of {window} it {slower}: use {other} for long-lived connections.")
            }
            FindingKind::LongTrialsConfirm => {
                format!("trials of {window} confirm the recommendation: {}.", self.at_most_slower())
            }
            FindingKind::LongTrialsInconclusive => match self.known("slower_lower") {
                Some(lower) => {
                    let upper = self.known("slower_upper").unwrap_or(f64::INFINITY);
                    let slower = self.is_slower(&self.view.scale.interval(lower, upper), &self.other());
                    format!("in trials of {window} it {slower}, which does not decide.")
                }
                None => format!(
                    "too few trials of {window} to check the recommendation: they neither confirm nor contradict it."
                ),
            },
            FindingKind::LongTrialsDiffer => {
                let than = if self.number("rate_share") < 1.0 { "slower" } else { "faster" };
                format!(
                    "in trials of {window} all {} checked were {than} than in the tables, typically at {:.0} % of the rate; \
                     programs with long connections may see those rates.",
                    self.count("options", "option"),
                    self.number("rate_share") * 100.0
                )
            }
            _ => {
                let age = Nanos((self.number("age_s") * 1e3) as u64 * 1_000_000);
                format!("connections older than {age} may differ: no long-trial check was run (--long-trials).")
            }
        }
    }

    /// The option that an earlier session recommended, and the interval that it has here.
    fn earlier(&self) -> String {
        let by = format!("recommended by session {}", self.number("session"));
        let slower = |amount: String| self.is_slower(&amount, "the best");
        let at_least = |lower| slower(format!("at least {}", self.view.scale.at_least(lower)));
        let (lower, upper) = (self.number("slower_lower"), self.known("slower_upper"));
        match (self.finding.kind, self.known("slower_there"), upper) {
            (FindingKind::EarlierContradicts, Some(lower), _) => {
                format!("{by}, where {} {}; {CONTRADICT}.", self.other(), at_least(lower))
            }
            (FindingKind::EarlierContradicts, ..) => format!("{by}, but it {} here; {CONTRADICT}.", at_least(lower)),
            (_, _, Some(upper)) if lower > 0.0 => {
                let interval = slower(self.view.scale.interval(lower, upper));
                format!("{by}; here it {interval}, which its interval there allows.")
            }
            (_, _, Some(_)) if self.finding.other.is_none() => format!("{by}, and nothing here contradicts it."),
            (_, Some(lower), Some(_)) => {
                format!("{by}, where {} {}; nothing here contradicts it.", self.other(), at_least(lower))
            }
            (_, _, Some(upper)) => {
                let most = slower(format!("at most {}", self.view.scale.at_most(upper)));
                format!("{by}; here it {most}, and may be the best.")
            }
            _ => format!("{by}; here it has no interval ({}).", self.name("interval")),
        }
    }

    fn harm(&self) -> String {
        match self.finding.kind {
            FindingKind::Stalled => {
                format!("no data moved in {} of {}.", self.number("trials") as usize, self.count("of", "trial"))
            }
            FindingKind::MissedLoad if self.finding.option.is_none() => format!(
                "no option carried the offered load, the best one {} of it: offer less, so that options are compared at one load.",
                self.share("carried_share")
            ),
            FindingKind::MissedLoad => {
                format!("carried {} of the offered load; another option carried it.", self.share("carried_share"))
            }
            FindingKind::FailedCalls => format!("{} of the calls failed.", self.share("failed_share")),
            FindingKind::LostDatagrams => format!(
                "{} of the datagrams were lost (least in this test: {}).",
                self.share("lost_share"),
                self.share("least_share")
            ),
            FindingKind::StarvedClients => format!(
                "{} of the clients had no answer during a whole trial; the longest wait was at least {}.",
                self.share("starved_share"),
                self.seconds(if self.number("drain_s") > self.number("longest_s") { "drain_s" } else { "longest_s" })
            ),
            FindingKind::ListenOverflows => format!(
                "the listener's queue was full for {} of the calls, and those clients waited for a second or more.",
                self.share("overflow_share")
            ),
            FindingKind::TimeOuts => format!(
                "TCP waited for its retransmission time-out (200 ms or more, a second for a new connection) in {} of the calls.",
                self.share("timeout_share")
            ),
            FindingKind::CopiedSends => {
                let loopback = self.view.groups.iter().any(super::valid_for::is_group_over_loopback);
                let loopback = if loopback { ", as always over loopback; a network card may differ" } else { "" };
                format!("the kernel copied {} of the zero-copy sends{loopback}.", self.share("copied_share"))
            }
            FindingKind::TruncatedDatagrams => {
                format!("the reader's buffer cut off {} of the datagrams.", self.share("truncated_share"))
            }
            _ => "this relay has no back-pressure: a slow reader makes it store data without a limit.".into(),
        }
    }

    fn unsteady(&self) -> String {
        match self.finding.kind {
            FindingKind::SlowTrialsDisagree => {
                let [own, other] = self.rates([self.number("rate"), self.number("other_rate")]);
                format!("over all trials, slow ones included, it reached {own} and {} {other}.", self.other())
            }
            FindingKind::MeansDisagree => {
                "slower than the best by the average of its trials, but not by their median, so it is undecided.".into()
            }
            FindingKind::Drift => {
                let [first, last] = self.rates([self.number("first"), self.number("last")]);
                let changed = if self.number("last") < self.number("first") { "fell" } else { "rose" };
                format!(
                    "its rate {changed} from {first} to {last} during the session: the machine or its load may have changed."
                )
            }
            FindingKind::FailedTrials => format!(
                "{} of {} failed and were left out, so it may look better than it is.",
                self.number("trials") as usize,
                self.count("of", "trial")
            ),
            FindingKind::SeveralSpeeds if self.known("average").is_some() => {
                let [median, average] = self.rates([self.number("median"), self.number("average")]);
                format!("its trials differ much: median {median}, average {average}.")
            }
            FindingKind::SeveralSpeeds => {
                let modes = self.finding.names.get("modes").cloned().unwrap_or_default();
                let modes: Vec<[f64; 2]> = serde_json::from_value(modes).unwrap_or_default();
                let rate = |rate: f64| self.rates([rate, self.number("fastest")])[0].clone();
                let each = modes.iter().map(|[at, share]| format!("{} in {:.0} %", rate(*at), share * 100.0));
                let each: Vec<String> = each.collect();
                format!("ran at {} different speeds: {} of the trials.", modes.len(), phrase::join(&each, "and"))
            }
            FindingKind::NoLongerBest => {
                "an earlier analysis found it within the margin; the present one does not.".into()
            }
            _ => "an earlier analysis found it significantly slower; the present one does not.".into(),
        }
    }

    fn screening(&self) -> String {
        match self.finding.kind {
            FindingKind::ScreenedSlower => {
                let upper = self.known("slower_upper").unwrap_or(f64::INFINITY);
                let range = self.view.scale.interval(self.number("slower_lower"), upper);
                let slower = self.is_slower(&range, &self.level("against"));
                let factor = phrase::in_code(self.name("factor"));
                format!("{factor} {} {slower} in the screening (a few short trials).", self.level("level"))
            }
            // A program has as many values as its user lists, and few runs of each.
            FindingKind::ScreenedOnly if self.view.check.is_some() => format!(
                "{} left out after a few runs each, which noise may mislead; to measure all of them, list fewer (--values) or \
                 give more --time.",
                self.count("options", "value")
            ),
            FindingKind::ScreenedOnly => format!(
                "{} confirmed in every block; {} more measured in the screening only.",
                self.count("confirmed", "option"),
                self.number("options") as usize
            ),
            _ => {
                let default = self.view.environment.congestion();
                let default = default.map_or_else(String::new, |name| format!(" (default: {name})"));
                format!("congestion control{default} was compared over loopback only; a network may differ.")
            }
        }
    }

    fn machine(&self) -> String {
        match self.finding.kind {
            FindingKind::UnevenSteal => format!(
                "CPU steal hit {} of its trials, and {} of those of {}; this may explain part of the difference.",
                self.share("most_share"),
                self.share("least_share"),
                self.other()
            ),
            FindingKind::Steal => {
                let (hit, trials) = (self.number("trials") as usize, self.count("of", "trial"));
                format!("The hypervisor took CPU time (steal) in {hit} of the {trials} behind the results.")
            }
            FindingKind::Throttled => {
                format!("The control group throttled the session for {}.", self.seconds("throttled_s"))
            }
            FindingKind::OtherPrograms => {
                let of = self.known("of_cpus").map_or_else(String::new, |cpus| format!(" of {cpus}"));
                format!("Other programs used {}{of} CPUs.", significant(self.number("cpus"), 2))
            }
            FindingKind::HarnessCost => format!("Measuring takes {} of the shortest call.", self.share("share")),
            _ => format!("The machine was {}: {}.", self.name("quietness"), self.name("reason")),
        }
    }

    fn session(&self) -> String {
        match self.finding.kind {
            FindingKind::FewBlocks => format!(
                "{} measured in the time given, fewer than the {} planned.",
                self.count("blocks", "block"),
                self.number("planned") as usize
            ),
            FindingKind::DependentBlocks => {
                "neighbouring blocks depend on each other (the speed of the machine changed slowly), so there are no intervals."
                    .into()
            }
            FindingKind::ShortRuns => {
                let advice = more_work(Some(self.number("run_ns")));
                format!("The start of the program may be a large part of so short a run: {advice}.")
            }
            FindingKind::ProcessesLeft => {
                format!("Processes were left behind, and ended, after {}.", self.count("runs", "run"))
            }
            FindingKind::ServerKilled => {
                format!(
                    "The server ignored its stop signal and was killed after {} (--stop).",
                    self.count("runs", "run")
                )
            }
            FindingKind::PlanReduced => {
                format!("The machine was slower than planned: there was time for {} only.", self.name("kept"))
            }
            FindingKind::Overrun => format!(
                "The session took {} of the {} given: every block that began was finished.",
                self.seconds("took_s"),
                self.seconds("given_s")
            ),
            _ => String::new(),
        }
    }
}
