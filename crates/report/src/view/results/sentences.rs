//! The sentences of findings: one table for the terminal, the page, Markdown, JUnit and JSON.
//!
//! Numbers are rounded outward, so that a printed interval contains the computed one.

use bytegauge_model::unit::{counted, significant, significant_down, significant_up};
use bytegauge_model::{CellId, GroupId, Level, Nanos};

use super::super::document::{Finding, FindingKind, Test, View};
use crate::interval_rounding::{SlowerScale, at_least, at_most, percent, share_range, up_to};
use crate::phrase::{self, rate_unit};

/// Levels that only the kernel of this machine gives a meaning.
const CONGESTION: &str = "congestion";

/// The sentence of a finding.
pub fn sentence(view: &View, finding: &Finding) -> String {
    let phrases = Sentence { view, finding };
    let text = phrases.text();
    match finding.kind {
        FindingKind::BiggestEffect | FindingKind::OneSetting => text,
        FindingKind::Comparison => phrases.test_name() + &text,
        _ => phrases.place() + &text,
    }
}

struct Sentence<'a> {
    view: &'a View,
    finding: &'a Finding,
}

impl Sentence<'_> {
    /// `Read from TCP, 64K: `; nothing where the session has one test and the finding concerns all of it.
    fn place(&self) -> String {
        let test = self.finding.test.as_ref().and_then(|id| self.test(id)).filter(|_| self.view.tests.len() > 1);
        let names = [test.map(|test| test.name.clone()), self.finding.option.as_ref().map(|id| self.option(id))];
        let names: Vec<String> = names.into_iter().flatten().filter(|name| !name.is_empty()).collect();
        if names.is_empty() { String::new() } else { format!("{}: ", names.join(", ")) }
    }

    /// The name of the test and a colon; nothing where the session has one test.
    fn test_name(&self) -> String {
        let test = self.finding.test.as_ref().and_then(|id| self.test(id)).filter(|_| self.view.tests.len() > 1);
        test.map_or_else(String::new, |test| format!("{}: ", test.name))
    }

    fn test(&self, id: &GroupId) -> Option<&Test> {
        self.view.tests.iter().find(|test| test.id == *id)
    }

    fn option(&self, id: &CellId) -> String {
        let options = self.view.tests.iter().flat_map(|test| &test.options);
        options
            .into_iter()
            .find(|option| option.id == *id)
            .map_or_else(|| id.to_string(), |option| option.label.clone())
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

    /// Rates of one finding, in one unit.
    fn rates(&self, rates: [f64; 2]) -> [String; 2] {
        let id = self.finding.test.as_ref();
        let unit = id.and_then(|id| self.test(id)).map_or("bytes/s", |test| test.unit);
        let (divisor, unit) = rate_unit(unit, rates[0].max(rates[1]));
        rates.map(|rate| format!("{} {unit}", significant(rate / divisor, 3)))
    }

    /// Seconds to two digits.
    fn seconds(&self, name: &str) -> String {
        format!("{} s", significant(self.number(name), 2))
    }

    /// The end of an interval of extra time: `up to 12 % slower`.
    fn up_to_slower(&self) -> String {
        match self.known("slower_upper").map(|upper| (upper, up_to(upper))) {
            Some((upper, text)) if text.ends_with('%') => format!("at most {} slower", at_most(upper)),
            Some((_, text)) => format!("{text} as slow"),
            None => "slower by an unknown amount".into(),
        }
    }

    fn text(&self) -> String {
        use FindingKind as LevelKind;
        match self.finding.kind {
            LevelKind::Comparison => self.comparison(),
            LevelKind::BiggestEffect => self.effect(),
            LevelKind::OneSetting => self.one_setting(),
            LevelKind::ControlDiffers | LevelKind::ControlContradicts | LevelKind::ControlWide => self.control(),
            LevelKind::LongTrialsContradict
            | LevelKind::LongTrialsConfirm
            | LevelKind::LongTrialsInconclusive
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
            | LevelKind::NoLongerBest
            | LevelKind::NoLongerSlower => self.unsteady(),
            LevelKind::ScreenedSlower | LevelKind::ScreenedOnly | LevelKind::CongestionOverLoopback => self.screening(),
            LevelKind::UnevenSteal
            | LevelKind::Steal
            | LevelKind::Throttled
            | LevelKind::OtherPrograms
            | LevelKind::HarnessCost
            | LevelKind::NoisyMachine => self.machine(),
            _ => self.session(),
        }
    }

    /// `epoll is 1.31× as fast as blocking (1.25–1.4×).`
    fn comparison(&self) -> String {
        let fast = self.finding.option.as_ref().map(|id| self.option(id)).unwrap_or_default();
        let slow = self.other();
        let of_cpu = self.finding.test.as_ref().and_then(|id| self.test(id));
        let of_cpu = of_cpu.is_some_and(|test| test.compares == super::Compares::Cpu);
        let (times, lower) = (self.number("times"), self.number("times_lower"));
        let upper = self.known("times_upper").map(|upper| format!("–{}", significant_up(upper, 3)));
        let range = match upper {
            Some(upper) => format!("{}{upper}×", significant_down(lower, 3)),
            None => format!("at least {}×", significant_down(lower, 3)),
        };
        match (lower > 1.0, of_cpu) {
            (true, false) => format!("{fast} is {}× as fast as {slow} ({range}).", significant(times, 3)),
            (true, true) => format!("{slow} uses {}× the CPU time of {fast} ({range}).", significant(times, 3)),
            (false, false) => format!("{fast} and {slow} are tied: {fast} is {range} as fast."),
            (false, true) => format!("{fast} and {slow} are tied: {slow} uses {range} the CPU time."),
        }
    }

    fn effect(&self) -> String {
        if self.finding.names.is_empty() {
            return self.effect_of_options();
        }
        let what = match self.name("factor") {
            "placement" => "the placement of the ends",
            "transport" => "the transport",
            CONGESTION => "TCP congestion control",
            "write_size" => "the write size",
            "read_size" => "the read size",
            other => phrase::in_code(other),
        };
        let test = self.finding.test.as_ref().and_then(|id| self.test(id));
        let place =
            test.filter(|_| self.view.tests.len() > 1).map_or_else(String::new, |test| format!(" ({})", test.name));
        let (fast, slow) = (self.level("level"), self.level("other_level"));
        let of_cpu = test.is_some_and(|test| test.compares == super::Compares::Cpu);
        let times = self.known("times_lower").map(|lower| {
            let upper =
                self.known("times_upper").map_or_else(String::new, |upper| format!("–{}", significant_up(upper, 2)));
            format!("{}{upper}×", significant_down(lower, 2))
        });
        let how = match (of_cpu, times, self.known("rate").zip(self.known("other_rate"))) {
            (true, Some(times), _) => format!("{slow} uses {times} the CPU time of {fast}"),
            (true, None, _) => format!("{slow} uses more CPU time than {fast}"),
            (false, Some(times), Some((rate, _))) => {
                format!("{fast} reaches {}, {times} the rate of {slow}", self.rates([rate, rate])[0])
            }
            (false, None, Some((rate, other))) => {
                let [rate, other] = self.rates([rate, other]);
                // The best option with each level: other settings may differ, too.
                let labels = self.finding.option.as_ref().zip(self.finding.other.as_ref());
                match labels.map(|(own, slow)| (self.option(own), self.option(slow))) {
                    Some((own, best)) => {
                        format!("{fast} reaches {rate} ({own}), {slow} {other} at best ({best})")
                    }
                    None => format!("{fast} reaches {rate}, {slow} {other}"),
                }
            }
            (false, times, None) => format!("{fast} is {} faster than {slow}", times.unwrap_or_default()),
        };
        let loopback =
            self.name("factor") == CONGESTION && self.view.groups.iter().any(super::valid_for::is_group_over_loopback);
        let loopback = if loopback { " Measured over loopback; a network may differ." } else { "" };
        format!("{what}{place}: {how}.{loopback}")
    }

    /// No setting has a larger effect than the options of the tests.
    fn effect_of_options(&self) -> String {
        let Some(option) = &self.finding.option else {
            return "none found: no option and no other setting is significantly slower.".into();
        };
        let test = self.finding.test.as_ref().and_then(|id| self.test(id));
        let place =
            test.filter(|_| self.view.tests.len() > 1).map_or_else(String::new, |test| format!("{}: ", test.name));
        let (lower, upper) = (self.number("slower_lower"), self.known("slower_upper").unwrap_or(f64::INFINITY));
        let by = test.map_or_else(String::new, |test| {
            super::outcome::more(test, &super::outcome::scale(test).interval(lower, upper))
        });
        format!("{place}{} is {}.", self.option(option), super::outcome::than_the_best(&by))
    }

    fn one_setting(&self) -> String {
        let factor = self.name("factor");
        let is_true = |name: &str| self.finding.names.get(name).and_then(serde_json::Value::as_bool) == Some(true);
        let tests = match (is_true("all_tests"), self.number("tests") as usize) {
            (true, 2) => "both tests".to_owned(),
            (true, many) => format!("all {many} tests"),
            (false, many) => format!("{many} tests"),
        };
        let upper = self.number("slower_upper");
        let mut varying = self.view.tests.iter().filter(|test| test.varied.iter().any(|name| name == factor));
        let of_cpu = varying.any(|test| test.compares == super::Compares::Cpu);
        let more = if of_cpu { "more CPU time" } else { "slower" };
        let how = match upper <= 0.0005 {
            true => format!("not {more}"),
            false => format!("at most {} {more}", at_most(upper)),
        };
        let with = if is_true("alone") { "" } else { " with the best other settings" };
        format!("{} {} in {tests}, {how}{with}.", phrase::in_code(factor), self.level("level"))
    }

    fn control(&self) -> String {
        let up_to = |name| at_most(self.number(name).abs());
        match self.finding.kind {
            FindingKind::ControlDiffers => {
                let (a, b) = (self.number("lower").abs(), self.number("upper").abs());
                let range = share_range(a.min(b), a.max(b));
                match self.known("widened") {
                    Some(more) => format!(
                        "the A/A control (it was measured twice) differs by {range}: the interval is wider by {} on each \
                         side.",
                        at_most(more)
                    ),
                    None => format!(
                        "the A/A control (it was measured twice) differs by {range}, so the test has no valid result."
                    ),
                }
            }
            FindingKind::ControlContradicts => format!(
                "its second measurement (the A/A control) is {} than the best, so the result is inconclusive.",
                self.up_to_slower()
            ),
            _ => format!(
                "the A/A control (it was measured twice) differs by {}: too much to decide within {}.",
                match up_to("reach").strip_prefix('>') {
                    Some(least) => format!("more than {least}"),
                    None => format!("up to {}", up_to("reach")),
                },
                self.share("margin")
            ),
        }
    }

    fn long_trials(&self) -> String {
        let window = Nanos((self.number("window_s") * 1e3) as u64 * 1_000_000);
        match self.finding.kind {
            FindingKind::LongTrialsContradict => {
                let lower = at_least(self.number("slower_lower"));
                format!(
                    "in trials of {window} it is at least {lower} slower than {}: use {0} for long-lived connections.",
                    self.other()
                )
            }
            FindingKind::LongTrialsConfirm => {
                format!("trials of {window} confirm the recommendation: {}.", self.up_to_slower())
            }
            FindingKind::LongTrialsInconclusive => match self.known("slower_lower") {
                Some(lower) => {
                    let upper = self.known("slower_upper").unwrap_or(f64::INFINITY);
                    let range = SlowerScale::of([upper].into_iter()).interval(lower, upper);
                    format!("in trials of {window} it is {range} slower than {}, which does not decide.", self.other())
                }
                None => format!("too few trials of {window} to check the recommendation."),
            },
            _ => {
                let age = Nanos((self.number("age_s") * 1e3) as u64 * 1_000_000);
                format!("connections older than {age} may differ: no long-trial check was run (--long-trials).")
            }
        }
    }

    fn harm(&self) -> String {
        match self.finding.kind {
            FindingKind::Stalled => {
                format!("no data moved in {} of {}.", self.number("trials") as usize, self.count("of", "trial"))
            }
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
                "its mean, which counts slow trials in full, contradicts its median, so its result is inconclusive."
                    .into()
            }
            FindingKind::Drift => {
                let [first, last] = self.rates([self.number("first"), self.number("last")]);
                let changed = if self.number("last") < self.number("first") { "fell" } else { "rose" };
                format!(
                    "its rate {changed} from {first} to {last} during the session: the machine or its load changed."
                )
            }
            FindingKind::SeveralSpeeds => {
                let modes: Vec<[f64; 2]> = self
                    .finding
                    .names
                    .get("modes")
                    .and_then(|value| serde_json::from_value(value.clone()).ok())
                    .unwrap_or_default();
                let each: Vec<String> = modes
                    .iter()
                    .map(|[rate, share]| format!("{} in {} of the trials", self.rates([*rate; 2])[0], percent(*share)))
                    .collect();
                format!("ran at {} different speeds: {}.", modes.len(), phrase::join(&each, "and"))
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
                let lower = self.number("slower_lower");
                let range =
                    self.known("slower_upper").map_or_else(|| at_least(lower), |upper| share_range(lower, upper));
                let against = self.level("against");
                format!(
                    "{} {} is {range} slower than {against} (screening).",
                    phrase::in_code(self.name("factor")),
                    self.level("level")
                )
            }
            FindingKind::ScreenedOnly => format!(
                "{} confirmed in every block; {} more measured in the screening only.",
                self.count("confirmed", "option"),
                self.number("options") as usize
            ),
            _ => {
                let default = self.view.environment.congestion();
                let default = default.map_or_else(String::new, |name| format!(" (default: {name})"));
                let others = self.finding.names.get("tests_with_another");
                let others: Vec<String> =
                    others.and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or_default();
                let others = match others.is_empty() {
                    true => String::new(),
                    false => format!(
                        " {} ran with {}, not with {}.",
                        phrase::join(&others, "and"),
                        self.name("other_level"),
                        self.name("level")
                    ),
                };
                format!("congestion control{default} was compared over loopback only; a network may differ.{others}")
            }
        }
    }

    fn machine(&self) -> String {
        match self.finding.kind {
            FindingKind::UnevenSteal => format!(
                "CPU steal hit {} of its trials, and {} of those of {}; this explains part of the difference.",
                self.share("most_share"),
                self.share("least_share"),
                self.other()
            ),
            FindingKind::Steal => {
                format!("CPU steal in {} of {}.", self.number("trials") as usize, self.count("of", "trial"))
            }
            FindingKind::Throttled => {
                format!("The control group throttled the session for {}.", self.seconds("throttled_s"))
            }
            FindingKind::OtherPrograms => {
                let of = self.known("of_cpus").map_or_else(String::new, |cpus| format!(" of {cpus}"));
                format!("Other programs used {}{of} CPUs.", significant(self.number("cpus"), 2))
            }
            FindingKind::HarnessCost => format!("Measuring takes {} of the shortest call.", self.share("share")),
            _ => format!("The machine was not quiet: grade {} on the scale from A (quiet) to D.", self.name("grade")),
        }
    }

    fn session(&self) -> String {
        match self.finding.kind {
            FindingKind::FewBlocks => format!(
                "{} of {} planned blocks were measured.",
                self.number("blocks") as usize,
                self.number("planned") as usize
            ),
            FindingKind::DependentBlocks => {
                "neighbouring blocks depend on each other, so there are no intervals.".into()
            }
            FindingKind::ShortRuns => {
                let run = Nanos(self.number("run_ns") as u64);
                format!("A run takes {run}, and starting the program is part of it: give it more work.")
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
            FindingKind::PlanReduced => format!("The machine was slower than planned, so only {}.", self.name("kept")),
            FindingKind::Overrun => format!(
                "The session took {} of the {} given: every block that began was finished.",
                self.seconds("took_s"),
                self.seconds("given_s")
            ),
            _ => String::new(),
        }
    }
}
