//! The answer as text. Every claim has its level, its margin and its scope; an open result states what more blocks may bring.
//!
//! Only assembles the decisions of the view: there is no rule of evidence here.
//!
//! Long because its tests spell every sentence out.

use bytegauge_model::unit::{byte_rate, counted, significant, significant_up};
use bytegauge_model::workload::WorkloadRow;
use bytegauge_model::{Nanos, Workload};

use crate::outward::{BOUND_MAX, at_most, digits, percent_up, range, range_of_times};
use crate::phrase::{capital, join, profile_phrase, rate_unit};

/// The input of a verdict sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The conditions: "Unix sockets, ends on different CPUs".
    pub subject: String,
    /// The workload: it determines the units and the end of the program.
    pub workload: Workload,
    /// Base unit of its rates.
    pub unit: &'static str,
    /// The verdict on the choice.
    pub answer: Answer,
    /// Notes on the choice: whether to set a buffer at all, errors.
    pub remarks: Vec<String>,
    /// The rate of the named cell, in each profile.
    pub rates: Vec<Rate>,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Confidence level, as a share.
    pub level: f64,
    /// The trials were imported, from an unknown machine.
    pub imported: bool,
    /// The effect of another placement.
    pub placement: Option<Placement>,
    /// Grade, steal and the reach of the A/A control.
    pub environment: Option<String>,
    /// The choice is at most this much slower than the best confirmed, as a share.
    pub bound: Option<f64>,
    /// From the first trial to the last, seconds.
    pub seconds: Option<f64>,
    /// The age of connections when a trial's window opened and closed, nanoseconds.
    pub age_ns: Option<(u64, u64)>,
}

/// The verdict on the choice.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// One choice was significantly good enough in every profile.
    Proven {
        /// The choice as an instruction.
        choice: String,
        /// Whether anything smaller was measured; `None` if sizes do not vary.
        smaller: Option<bool>,
    },
    /// Adjacent profiles share a choice, others have another; in the order of the profiles.
    Boundary(Vec<(Vec<String>, String)>),
    /// No significant result.
    NotProven {
        /// The choice with the smallest bound; without bounds the leading one.
        best: String,
        /// The reason, if it is not just too few blocks.
        why: Option<String>,
        /// The likely gain of more blocks.
        outlook: Outlook,
    },
    /// The session is running, and its first analysis is not due yet.
    Running {
        /// The choice so far.
        choice: String,
        /// Measured rounds of confirmation blocks.
        blocks: u64,
        /// Their final number.
        planned: Option<u64>,
    },
    /// The session was interrupted: stopping at a chosen time can produce any result.
    Interrupted {
        /// The choice so far.
        choice: String,
        /// Measured rounds of confirmation blocks.
        blocks: u64,
        /// Their planned number.
        planned: Option<u64>,
        /// Whether it can continue here.
        goes_on: bool,
    },
    /// Significant, but only for a reader that discards the bytes.
    DrainOnly {
        /// The choice as an instruction.
        choice: String,
        /// Significant for that reader.
        proven: bool,
    },
    /// One cell.
    Single(String),
    /// No result, with the reason.
    Nothing(String),
}

/// The rate of a cell in one profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The profile.
    pub profile: String,
    /// The median, bytes or calls per second.
    pub per_second: f64,
    /// Its interval, in the same unit.
    pub interval: Option<(f64, f64)>,
    /// CPU time as text, if it is the compared quantity: "0.31 CPU s/GiB".
    pub cpu: Option<String>,
    /// Latency as text: "p99 310 µs".
    pub latency: Option<String>,
}

/// The likely gain of more blocks for an open verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Outlook {
    /// Analyses are left.
    Left {
        /// Blocks until the last of them.
        blocks: u64,
        /// The likely bound then, as a share; `None` if there is none yet.
        bound: Option<f64>,
    },
    /// None is left.
    Nothing,
    /// It was imported, and cannot continue here.
    Elsewhere,
    /// Estimates are so close, or blocks so correlated, that no number of blocks would reduce a bound to the margin.
    Hopeless,
}

/// The forecast of a bound after more blocks: it falls with the root of their number.
///
/// In a replay of 290 cuts of 37 stored sessions this held in 195 of 250. Differences of pairs forecast 31 significant results, of
/// which only 9 occurred (docs/research/statistics.md).
pub fn likely_bound(bound: f64, blocks_now: f64, blocks_then: f64) -> f64 {
    bound * (blocks_now / blocks_then).sqrt()
}

/// The effect of another placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// "ends on the same CPU".
    pub phrase: String,
    /// Bytes or calls per second there.
    pub per_second: f64,
    /// It is faster than the placement of the verdict.
    pub faster: bool,
    /// The compared quantity in a word, if it differs by more than the confirmed choices among themselves.
    pub beats: Option<&'static str>,
}

impl Verdict {
    /// The verdict as one paragraph.
    pub fn text(&self) -> String {
        let mut sentences = vec![format!("{}: {}", self.subject, self.answer_text())];
        sentences.extend(self.remarks.iter().cloned());
        sentences.extend(self.placement.as_ref().map(|placement| self.placement_text(placement)));
        sentences.extend(self.environment.as_ref().map(|environment| format!("({environment})")));
        sentences.join(" ")
    }

    fn answer_text(&self) -> String {
        match &self.answer {
            Answer::Proven { choice, smaller } => {
                let smaller = match smaller {
                    Some(true) => " Nothing smaller was shown as good.",
                    Some(false) => " Nothing smaller was measured.",
                    None => "",
                };
                format!("{choice}. {}.{smaller}", self.claim())
            }
            Answer::Boundary(parts) => self.boundary(parts),
            Answer::NotProven { best, why, outlook } => {
                let why = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
                let outlook = outlook_text(outlook);
                let (rates, bound) = (self.rates_behind(), self.bound_text());
                // If none is within the margin, the smallest bound is named.
                let open = self.margin..BOUND_MAX;
                let named =
                    if self.bound.is_some_and(|bound| open.contains(&bound)) { "best bounded" } else { "the best" };
                match self.bound.is_some_and(excludes_nothing) {
                    true => format!("no answer yet{why}; {named} so far is to {best}{rates}{bound}; {outlook}."),
                    false => format!("not proven{why}; {named} so far is to {best}{rates}{bound}; {outlook}."),
                }
            }
            Answer::Running { choice, blocks, planned } => {
                let of = planned.map_or_else(String::new, |planned| format!(" of {planned}"));
                let rates = self.rates_behind();
                format!(
                    "not judged yet ({blocks}{of} blocks so far, and only the number fixed beforehand proves anything); the \
                     choice so far is to {choice}{rates}."
                )
            }
            Answer::Interrupted { choice, blocks, planned, goes_on } => {
                let next = if *goes_on { "; go on with --resume" } else { "" };
                let of = planned.map_or_else(String::new, |planned| format!(" of {planned}"));
                let rates = self.rates_behind();
                format!(
                    "not proven (interrupted after {blocks}{of} blocks, and only the number fixed beforehand proves \
                     anything); the choice so far is to {choice}{rates}{next}."
                )
            }
            Answer::DrainOnly { choice, proven } => {
                let shown = if *proven { self.claim() } else { format!("{}, not proven", self.rates_text()) };
                let WorkloadRow { idle_worker: idle, worker: who, working_profiles: profiles, .. } =
                    self.workload.row();
                format!(
                    "to {choice} is enough for {idle}. {shown}. That holds for such a {who} alone: one that works shifts \
                     the answer (add --profile {profiles})."
                )
            }
            Answer::Single(choice) => {
                let choice = if choice.is_empty() { String::new() } else { format!("{choice}, ") };
                format!("{choice}{}. No other choice was confirmed, so there is nothing to compare.", self.rates_text())
            }
            Answer::Nothing(why) => format!("nothing is recommended: {why}."),
        }
    }

    /// Rates, margin, profiles, scope.
    fn claim(&self) -> String {
        let profiles = match self.rates.len() {
            0 | 1 => String::new(),
            _ => format!(", whether the {} {}", self.workload.row().worker, join(&self.phrases(), "or")),
        };
        let rates = self.span();
        let bound = self.bound.map_or_else(String::new, |bound| format!("{}, ", self.at_most(bound, "")));
        let margin = percent(self.margin);
        format!("{rates}, within {margin} of the best confirmed{profiles} ({bound}{})", self.scope())
    }

    /// The result for a choice that is not significant.
    fn bound_text(&self) -> String {
        let Some(bound) = self.bound else { return String::new() };
        let than = " than whichever confirmed choice is best";
        match bound {
            bound if bound >= BOUND_MAX => {
                format!("; how much more {} it takes than the best is not bounded ({})", self.resource(), self.scope())
            }
            bound if excludes_nothing(bound) => format!(
                "; it may take {} the {} of whichever confirmed choice is best ({})",
                up_to_times(bound),
                self.resource(),
                self.scope()
            ),
            bound => format!("; it {} ({})", self.at_most(bound, than), self.scope()),
        }
    }

    /// `takes at most 12 % more time than whichever confirmed choice is best`: the named one may be that one.
    fn at_most(&self, bound: f64, than: &str) -> String {
        match is_nothing(bound) {
            true => format!("takes no more {} than any other confirmed", self.resource()),
            false => format!("takes at most {} more {}{than}", at_most(bound), self.resource()),
        }
    }

    /// The compared quantity of a choice.
    fn resource(&self) -> &'static str {
        if self.rates.iter().any(|rate| rate.cpu.is_some()) { "CPU time" } else { "time" }
    }

    /// The rates of the slowest profile and of the fastest, each with its interval.
    fn span(&self) -> String {
        let by_rate = |a: &&Rate, b: &&Rate| a.per_second.total_cmp(&b.per_second);
        let (Some(slow), Some(fast)) = (self.rates.iter().min_by(by_rate), self.rates.iter().max_by(by_rate)) else {
            return capital(&self.rates_text());
        };
        let offered = self.rates.iter().any(|rate| rate.cpu.is_some());
        if self.rates.len() == 1 || offered {
            return capital(&self.rates_text());
        }
        format!(
            "{} when the {who} {} to {} when it {}",
            self.with_interval(slow),
            profile_phrase(&slow.profile),
            self.with_interval(fast),
            profile_phrase(&fast.profile),
            who = self.workload.row().worker
        )
    }

    fn boundary(&self, parts: &[(Vec<String>, String)]) -> String {
        let each: Vec<String> = parts
            .iter()
            .enumerate()
            .map(|(at, (_, choice))| match parts.get(at + 1).and_then(|(profiles, _)| profiles.first()) {
                Some(next) => {
                    format!("to {choice} is enough until the {} {}", self.workload.row().worker, profile_phrase(next))
                }
                None => format!("then {choice}"),
            })
            .collect();
        format!(
            "no one choice was shown for every {}: {}. Each is within {} of the best confirmed there ({}).",
            self.workload.row().worker,
            each.join("; "),
            percent(self.margin),
            self.scope()
        )
    }

    /// The scope: these seconds, connections of this age.
    fn scope(&self) -> String {
        let seconds = || self.seconds.map(|seconds| format!("these {} s", significant(seconds, 3)));
        let scope = if self.imported { Some("these trials alone".to_owned()) } else { seconds() };
        let age = self.age_ns.map(|(from, to)| aged(from, to));
        let shown = format!("shown at {}", percent(self.level));
        [Some(shown), scope, age].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn phrases(&self) -> Vec<String> {
        self.rates.iter().map(|rate| profile_phrase(&rate.profile)).collect()
    }

    fn rates_behind(&self) -> String {
        if self.rates.is_empty() { String::new() } else { format!(": {}", self.rates_text()) }
    }

    fn rates_text(&self) -> String {
        match self.rates.as_slice() {
            [] => "no rate is known".into(),
            [one] => self.rate_text(one),
            [first, others @ ..] => {
                let who = self.workload.row().worker;
                let first = format!("{} when the {who} {}", self.rate_text(first), profile_phrase(&first.profile));
                let others =
                    others.iter().map(|r| format!("{} when it {}", self.rate_text(r), profile_phrase(&r.profile)));
                [first].into_iter().chain(others).collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn rate_text(&self, rate: &Rate) -> String {
        let cpu = rate.cpu.as_ref().map_or_else(String::new, |cpu| format!(" for {cpu}"));
        let latency = rate.latency.as_ref().map_or_else(String::new, |latency| format!(", {latency}"));
        format!("{}{cpu}{latency}", self.with_interval(rate))
    }

    /// `3.29 GiB/s (2.72 to 3.54)`.
    fn with_interval(&self, rate: &Rate) -> String {
        let median = self.shown(rate.per_second);
        let Some((lower, upper)) = rate.interval else { return median };
        if self.workload == Workload::Check {
            return self.with_interval_of_runs(rate.per_second, lower, upper);
        }
        // Both ends in the unit of the median: `0.25 to 3.58` for `2.84 GiB/s`.
        let base = match self.workload {
            Workload::Call => "calls/s",
            Workload::Ring => "NOPs/s",
            _ => "bytes/s",
        };
        let (divisor, _) = rate_unit(base, rate.per_second);
        format!("{median} ({})", range(lower / divisor, upper / divisor))
    }

    /// The same for a program's runs, whose time is the rate's inverse.
    fn with_interval_of_runs(&self, per_second: f64, lower: f64, upper: f64) -> String {
        let median = self.shown(per_second);
        let (divisor, _) = rate_unit(self.unit, per_second);
        let ends = match self.unit {
            "runs/s" => range_of_times(1e9 / per_second, 1e9 / upper, 1e9 / lower),
            "runs/M events" => range(1e6 / upper - 1.0, 1e6 / lower - 1.0),
            "bytes/s" => range(lower / divisor, upper / divisor),
            _ => range(lower, upper),
        };
        format!("{median} ({ends})")
    }

    fn placement_text(&self, placement: &Placement) -> String {
        let only = if placement.faster { "" } else { "only " };
        let weight =
            placement.beats.map_or_else(String::new, |what| format!(": placement matters more than {what} here"));
        let rate = self.shown(placement.per_second);
        format!("{} would reach {only}{rate}{weight}.", capital(&placement.phrase))
    }

    fn shown(&self, per_second: f64) -> String {
        match (self.workload, self.unit) {
            (Workload::Check, "bytes/s") => byte_rate(per_second),
            (Workload::Check, "runs/s") => format!("{} a run", Nanos((1e9 / per_second) as u64)),
            (Workload::Check, "runs/M events") => format!("{} events a run", significant(1e6 / per_second - 1.0, 3)),
            (Workload::Check, unit) => format!("{} {unit}", significant(per_second, 3)),
            _ => (self.workload.row().unit.rate)(per_second),
        }
    }
}

/// From this share on a bound does not exclude twice the time of the best: that is no answer, however precise it looks.
const TWOFOLD: f64 = 1.0;

/// Whether a bound is too wide for a recommendation.
pub fn excludes_nothing(bound: f64) -> bool {
    bound >= TWOFOLD
}

/// A bound that does not exclude a double, as text: `up to 2.9 ×`, or `over 10 ×` if it is as good as none.
pub fn up_to_times(bound: f64) -> String {
    match bound >= BOUND_MAX {
        true => format!("over {} ×", 1.0 + BOUND_MAX),
        false => format!("up to {}", times(1.0 + bound)),
    }
}

/// A multiple of the best's time, rounded up: `2.9 ×`, `>10 ×`.
pub fn times(times: f64) -> String {
    match times >= 1.0 + BOUND_MAX {
        true => format!(">{} ×", 1.0 + BOUND_MAX),
        false => format!("{} ×", significant_up(times, 2)),
    }
}

/// The age of a connection. Windows open and close with a lap, so more digits have no meaning.
pub fn shown_age(ns: u64) -> String {
    let to = [1, MS / 10, MS][usize::from(ns >= MS) + usize::from(ns >= 10 * MS)];
    Nanos(ns.saturating_add(to / 2) / to * to).to_string()
}

/// How closely a choice and its A/A control agree: `measured twice: equal to within 30 %`.
pub fn measured_twice(reach: f64) -> String {
    format!("measured twice: equal to within {}", share_or_times(reach))
}

/// How far two equal ones may be apart: `at most 30 % apart`.
pub fn apart(reach: f64) -> String {
    let most = if reach < 1.0 { "at most" } else { "up to" };
    format!("{most} {} apart", share_or_times(reach))
}

/// A share, rounded up, as text: `30 %`, and `5.6 ×` for 459 % more.
pub fn share_or_times(share: f64) -> String {
    match share < 1.0 {
        true => percent_up(share),
        false => format!("{} ×", significant_up(1.0 + share, 2)),
    }
}

/// The share of an offered load that a choice carried: `carried 47 % of the load`.
pub fn carried(share: f64) -> String {
    format!("carried {} of the load", percent(share))
}

/// `1 of 22 trials moved nothing`.
pub fn moved_nothing(stalled: usize, of: usize) -> String {
    format!("{stalled} of {} moved nothing", counted(of, "trial"))
}

/// How far two measurements of the same cell are apart, given the cost of one relative to the other, as a share. Which of them is
/// slower has no meaning, and 41 % less is 70 % more.
pub fn same_twice(difference: f64) -> String {
    let times = (1.0 + difference).max(1.0 / (1.0 + difference));
    match times < 2.0 {
        true => format!("{} apart", percent(times - 1.0)),
        false => format!("{} × apart", significant(times, 2)),
    }
}

/// Whether a bound is printed as zero: no other confirmed choice is better.
pub fn is_nothing(bound: f64) -> bool {
    bound <= 1e-9
}

/// The age of connections during the measurement: `connections 50 to 76 ms after they opened`.
pub fn aged(from_ns: u64, to_ns: u64) -> String {
    format!("connections {} after they opened", age_range(from_ns, to_ns))
}

/// `50 to 76 ms`.
pub fn age_range(from_ns: u64, to_ns: u64) -> String {
    let (from, to) = (shown_age(from_ns), shown_age(to_ns));
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    let from = match (unit(&from), from.split_once(' ')) {
        (Some(own), Some((number, _))) if unit(&to).as_ref() == Some(&own) => number.to_owned(),
        _ => from,
    };
    format!("{from} to {to}")
}

const MS: u64 = 1_000_000;

/// A forecast this far beyond the measured blocks is no plan.
pub const FORECAST_MAX_S: f64 = 3600.0;

fn outlook_text(outlook: &Outlook) -> String {
    let bring = match outlook {
        Outlook::Left { bound: Some(bound), .. } => format!("likely bring the bound to {}", at_most(*bound)),
        Outlook::Left { bound: None, .. } => "may bring a bound that is an answer".to_owned(),
        Outlook::Nothing => return "no judgement of this session is left".into(),
        Outlook::Elsewhere => return "nobody can go on with it here".into(),
        Outlook::Hopeless => return "more blocks alone would not settle it".into(),
    };
    format!("the judgements that are left {bring}: go on with --resume --until conclusive")
}

/// A budget as the flag takes it, rounded up to a usual number.
pub fn budget(seconds: f64) -> String {
    match seconds {
        s if s <= 55.0 => format!("{:.0}s", (s / 5.0).ceil() * 5.0),
        s if s <= 90.0 => "90s".into(),
        s => format!("{:.0}m", (s / 60.0).ceil()),
    }
}

/// A share in per cent, two significant digits: `5 %`, `1.8 %`, `0.3 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, digits(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

    fn rate(profile: &str, gib: f64, half: f64) -> Rate {
        let interval = Some((gib * (1.0 - half) * GIB, gib * (1.0 + 2.0 * half) * GIB));
        Rate { profile: profile.into(), per_second: gib * GIB, interval, cpu: None, latency: None }
    }

    fn verdict(answer: Answer, rates: Vec<Rate>) -> Verdict {
        Verdict {
            subject: "Unix sockets, ends on different CPUs".into(),
            workload: Workload::Stream,
            unit: "bytes/s",
            answer,
            remarks: Vec::new(),
            rates,
            margin: 0.05,
            level: 0.95,
            imported: false,
            placement: None,
            environment: None,
            bound: Some(0.017),
            seconds: Some(61.46),
            age_ns: Some((2_500_000, 8_500_000)),
        }
    }

    fn check(verdict: &Verdict, expected: &str) {
        assert_eq!(verdict.text(), expected);
    }

    fn both() -> String {
        "read with 32 KiB and write with 256 KiB".into()
    }

    #[test]
    fn proven_in_one_profile() {
        let mut proven = verdict(Answer::Proven { choice: both(), smaller: Some(true) }, vec![rate("sum", 3.9, 0.018)]);
        proven.placement = Some(Placement {
            phrase: "ends on the same CPU".into(),
            per_second: 9.3 * GIB,
            faster: true,
            beats: Some("buffers"),
        });
        proven.environment = Some("environment B, steal 0.3 %, same cell twice within 1.1 %".into());
        check(
            &proven,
            "Unix sockets, ends on different CPUs: read with 32 KiB and write with 256 KiB. 3.9 GiB/s (3.82 to 4.05), within \
             5 % of the best confirmed (takes at most 1.7 % more time, shown at 95 %, these 61.5 s, \
             connections 2.5 to 8.5 ms after they opened). Nothing smaller was shown \
             as good. Ends on the same CPU would reach 9.3 GiB/s: placement matters more than buffers here. (environment B, \
             steal 0.3 %, same cell twice within 1.1 %)",
        );
    }

    #[test]
    fn proven_in_every_profile() {
        let rates = vec![rate("drain", 3.9, 0.018), rate("sum", 3.4, 0.02), rate("parser", 2.9, 0.0151)];
        check(
            &verdict(Answer::Proven { choice: both(), smaller: Some(false) }, rates),
            "Unix sockets, ends on different CPUs: read with 32 KiB and write with 256 KiB. 2.9 GiB/s (2.85 to 2.99) when \
             the reader parses to 3.9 GiB/s (3.82 to 4.05) when it drains, within 5 % of the best confirmed, whether the reader drains, sums or parses \
             (takes at most 1.7 % more time, shown at 95 %, these 61.5 s, \
             connections 2.5 to 8.5 ms after they opened). Nothing smaller was \
             measured.",
        );
    }

    #[test]
    fn boundaries_as_text() {
        let parts = vec![
            (vec!["drain".into(), "sum".into()], "read with 16 KiB".into()),
            (vec!["parser".into()], "read with 256 KiB".into()),
        ];
        check(
            &verdict(Answer::Boundary(parts), Vec::new()),
            "Unix sockets, ends on different CPUs: no one choice was shown for every reader: to read with 16 KiB is \
             enough until the reader parses; then read with 256 KiB. Each is within 5 % of the best confirmed there \
             (shown at 95 %, these 61.5 s, \
             connections 2.5 to 8.5 ms after they opened).",
        );
    }

    #[test]
    fn large_differences_of_controls_are_factors() {
        assert_eq!(measured_twice(0.304), "measured twice: equal to within 30.4 %");
        assert_eq!(measured_twice(4.59), "measured twice: equal to within 5.6 ×");
    }

    #[test]
    fn open_results_state_the_gain_of_more_blocks() {
        let outlook = Outlook::Left { blocks: 30, bound: Some(0.0085) };
        check(
            &verdict(Answer::NotProven { best: both(), why: None, outlook }, vec![rate("sum", 3.9, 0.06)]),
            "Unix sockets, ends on different CPUs: not proven; the best so far is to read with 32 KiB and write with 256 KiB: \
             3.9 GiB/s (3.66 to 4.37); it takes at most 1.7 % more time than whichever confirmed choice is best (shown at 95 %, these 61.5 s, \
             connections 2.5 to 8.5 ms after they opened); \
             the judgements that are left likely bring the bound to 0.9 %: go on with --resume --until conclusive.",
        );
        let answer = |outlook| Answer::NotProven { best: both(), why: Some("5 usable blocks".into()), outlook };
        for (outlook, expected) in [
            (
                Outlook::Left { blocks: 1, bound: None },
                "the judgements that are left may bring a bound that is an answer: go on with --resume --until conclusive",
            ),
            (Outlook::Nothing, "no judgement of this session is left"),
            (Outlook::Elsewhere, "nobody can go on with it here"),
            (Outlook::Hopeless, "more blocks alone would not settle it"),
        ] {
            check(
                &Verdict { bound: None, ..verdict(answer(outlook), Vec::new()) },
                &format!(
                    "Unix sockets, ends on different CPUs: not proven (5 usable blocks); the best so far is to read with \
                     32 KiB and write with 256 KiB; {expected}."
                ),
            );
        }
    }

    #[test]
    fn bounds_are_forecast_by_the_root_of_blocks() {
        assert_eq!(likely_bound(0.46, 6.0, 24.0), 0.23);
    }

    #[test]
    fn interrupted_sessions_state_their_progress() {
        for (planned, expected) in [(Some(40), "12 of 40 blocks"), (None, "12 blocks")] {
            let answer = Answer::Interrupted { choice: both(), blocks: 12, planned, goes_on: true };
            check(
                &verdict(answer, vec![rate("sum", 3.9, 0.06)]),
                &format!(
                    "Unix sockets, ends on different CPUs: not proven (interrupted after {expected}, and only the number \
                     fixed beforehand proves anything); the choice so far is to read with 32 KiB and write with 256 KiB: \
                     3.9 GiB/s (3.66 to 4.37); go on with --resume."
                ),
            );
        }
    }

    #[test]
    fn intervals_are_shown_unchanged() {
        let skewed = Rate { interval: Some((0.25 * GIB, 3.58 * GIB)), ..rate("sum", 2.84, 0.0) };
        let answer = Answer::NotProven { best: both(), why: None, outlook: Outlook::Hopeless };
        let text = Verdict { bound: Some(39.03), ..verdict(answer, vec![skewed]) }.text();
        // Half of an asymmetric interval would be ± 58.6 %, but it extends down by 91 % and up by 26 %.
        assert!(
            text.contains(": 2.84 GiB/s (0.25 to 3.58); how much more time it takes than the best is not bounded"),
            "{text}"
        );
        assert!(!text.contains('±') && !text.contains("3903"), "{text}");
    }

    #[test]
    fn bound_above_a_double_is_no_answer() {
        let answer = || Answer::NotProven { best: both(), why: None, outlook: Outlook::Hopeless };
        let text = Verdict { bound: Some(1.81), ..verdict(answer(), vec![rate("sum", 3.9, 0.06)]) }.text();
        let expected = "no answer yet; best bounded so far is to read with 32 KiB and write with 256 KiB: 3.9 GiB/s (3.66 to 4.37); \
                    it may take up to 2.9 × the time of whichever confirmed choice is best (shown at 95 %";
        assert!(text.contains(expected) && !text.contains("181"), "{text}");
        assert_eq!([1.0, 1.81, 8.95, 9.0].map(up_to_times), ["up to 2 ×", "up to 2.9 ×", "up to 10 ×", "over 10 ×"]);
        assert!(!excludes_nothing(0.99) && excludes_nothing(1.0));
        let text = Verdict { bound: Some(0.99), ..verdict(answer(), Vec::new()) }.text();
        assert!(text.contains("not proven; best bounded so far") && text.contains("at most 99 % more time"), "{text}");
    }

    #[test]
    fn distances_of_controls_are_rounded_up() {
        assert_eq!((apart(0.3041), apart(2.91)), ("at most 30.5 % apart".into(), "up to 4 × apart".into()));
    }

    #[test]
    fn distances_of_controls_are_symmetric() {
        let check = |difference: f64, expected: &str| assert_eq!(same_twice(difference), expected);
        check(-0.412, "70.1 % apart");
        check(0.701, "70.1 % apart");
        check(-0.75, "4 × apart");
    }

    #[test]
    fn ages_have_the_unit_once() {
        let check = |from_ns: u64, to_ns: u64, expected: &str| assert_eq!(aged(from_ns, to_ns), expected);
        check(50_012_345, 75_702_111, "connections 50 to 76 ms after they opened");
        check(900, 2_540_000, "connections 900 ns to 2.5 ms after they opened");
    }

    #[test]
    fn draining_is_no_result_for_others() {
        check(
            &verdict(Answer::DrainOnly { choice: both(), proven: true }, vec![rate("drain", 3.9, 0.018)]),
            "Unix sockets, ends on different CPUs: to read with 32 KiB and write with 256 KiB is enough for a reader that \
             discards the bytes. 3.9 GiB/s (3.82 to 4.05), within 5 % of the best confirmed (takes at most 1.7 % more time, shown at 95 %, these 61.5 s, \
             connections 2.5 to 8.5 ms after they opened). \
             That holds for such a reader alone: one that works shifts the answer (add --profile \
             sum,parser).",
        );
    }

    #[test]
    fn calls_are_answered_by_a_server() {
        let rate = |profile: &str, k: f64| Rate {
            profile: profile.into(),
            per_second: k * 1e3,
            interval: Some((k * 980.0, k * 1020.0)),
            cpu: None,
            latency: Some("p99 310 µs".into()),
        };
        let choice = || "serve with the engine epoll".to_owned();
        let mut of_calls = Verdict {
            subject: "TCP over loopback, 50 flows".into(),
            workload: Workload::Call,
            remarks: vec!["No call failed.".into()],
            ..verdict(
                Answer::Proven { choice: choice(), smaller: None },
                vec![rate("rpc", 210.0), rate("many-idle", 190.0)],
            )
        };
        check(
            &of_calls,
            "TCP over loopback, 50 flows: serve with the engine epoll. 190 k calls/s (186 to 194) when the server also holds 1000 idle connections to \
             210 k calls/s (205 to 215) when it handles calls, within 5 % of the best confirmed, whether the server handles calls or \
             also holds 1000 idle connections (takes at most 1.7 % more time, shown at 95 %, these 61.5 s, \
             connections 2.5 to 8.5 ms after they opened). No call failed.",
        );
        of_calls.answer = Answer::DrainOnly { choice: choice(), proven: true };
        of_calls.rates = vec![rate("echo", 230.0)];
        check(
            &of_calls,
            "TCP over loopback, 50 flows: to serve with the engine epoll is enough for a server without work per \
             request. 230 k calls/s (225 to 235), p99 310 µs, within 5 % of the best confirmed (takes at most 1.7 % more time, shown at 95 %, these 61.5 s, \
             connections 2.5 to 8.5 ms after they opened). \
             That holds for such a server alone: one that works shifts the answer (add --profile \
             rpc,many-idle). No call failed.",
        );
    }

    #[test]
    fn nothing_is_recommended_for_a_reason() {
        check(
            &verdict(Answer::Nothing("nothing was measured".into()), Vec::new()),
            "Unix sockets, ends on different CPUs: nothing is recommended: nothing was measured.",
        );
    }

    #[test]
    fn budgets_round_up_to_usual_numbers() {
        for (seconds, expected) in [(12.0, "15s"), (55.0, "55s"), (56.0, "90s"), (91.0, "2m"), (180.0, "3m")] {
            assert_eq!(budget(seconds), expected);
        }
    }
}
