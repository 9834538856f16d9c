//! The sentences of comparisons: named options, the biggest effect, one setting for all tests.

use bytegauge_model::unit::{significant, significant_down, significant_up};
use bytegauge_model::{CellId, Level};

use super::super::super::document::{Compares, OptionResult};
use super::super::harm::is_avoided;
use super::super::{outcome, valid_for};
use super::{CONGESTION, Sentence};
use crate::interval_rounding::at_most;
use crate::phrase;

impl Sentence<'_> {
    /// `epoll is 1.31× as fast as blocking (1.25–1.4×).`
    pub(super) fn comparison(&self) -> String {
        let (fast, slow, with) = self.compared();
        let with = with + &self.harm_of_compared();
        let of_cpu = self.finding.test.as_ref().and_then(|id| self.test(id));
        let of_cpu = of_cpu.is_some_and(|test| test.compares == Compares::Cpu);
        let (times, lower) = (self.number("times"), self.number("times_lower"));
        let upper = self.known("times_upper").map(|upper| format!("–{}", significant_up(upper, 3)));
        let range = match upper {
            Some(upper) => format!("{}{upper}×", significant_down(lower, 3)),
            None => format!("at least {}×", significant_down(lower, 3)),
        };
        match (lower > 1.0, of_cpu) {
            (true, false) => format!("{fast} is {}× as fast as {slow} ({range}){with}.", significant(times, 3)),
            (true, true) => format!("{slow} uses {}× the CPU time of {fast} ({range}){with}.", significant(times, 3)),
            (false, false) => format!("{fast} and {slow} are tied: {fast} is {range} as fast{with}."),
            (false, true) => format!("{fast} and {slow} are tied: {slow} uses {range} the CPU time{with}."),
        }
    }

    /// The harm of two compared options, which a ratio of rates does not show: `; avoid 208K (51.6 % of the datagrams lost)`.
    fn harm_of_compared(&self) -> String {
        let options = self.finding.test.as_ref().and_then(|id| self.test(id)).map(|test| &test.options);
        let ids = [&self.finding.option, &self.finding.other];
        let is_compared = |option: &&OptionResult| ids.into_iter().flatten().any(|id| *id == option.id);
        let compared = options.into_iter().flatten().filter(is_compared);
        let harmed: Vec<String> = compared.filter(|own| is_avoided(&own.harm)).map(outcome::harmed).collect();
        if harmed.is_empty() { String::new() } else { format!("; avoid {}", harmed.join(", ")) }
    }

    /// The two that are compared, and their other settings: two options, or two levels at the best option with each.
    fn compared(&self) -> (String, String, String) {
        let factor = self.name("factor");
        let fast = self.finding.option.as_ref().map(|id| self.option(id)).unwrap_or_default();
        if factor.is_empty() {
            return (fast, self.other(), String::new());
        }
        let others = [&self.finding.option, &self.finding.other].map(|id| self.other_settings(id.as_ref(), factor));
        let with = match &others {
            [own, other] if own == other => format!(", both with {own}"),
            [own, other] => format!(", each at its best: {own} and {other}"),
        };
        let level = |name: &str| phrase::compact(factor, &self.plain_level(name));
        (format!("{} {}", phrase::in_code(factor), level("level")), level("other_level"), with)
    }

    /// The settings of an option without one factor: `read 64K`.
    fn other_settings(&self, id: Option<&CellId>, factor: &str) -> String {
        let mut options = self.view.tests.iter().flat_map(|test| &test.options);
        let Some(option) = options.find(|option| Some(&option.id) == id) else { return String::new() };
        let shown = option.settings.iter().filter(|(name, _)| *name != factor).map(|(name, value)| {
            let level: Level = serde_json::from_value(value.clone()).unwrap_or(Level::Absent);
            format!("{} {}", phrase::in_code(name), phrase::compact(name, &level))
        });
        shown.collect::<Vec<_>>().join(" + ")
    }

    fn plain_level(&self, name: &str) -> Level {
        self.finding
            .names
            .get(name)
            .cloned()
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or(Level::Absent)
    }

    pub(super) fn effect(&self) -> String {
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
        let of_cpu = test.is_some_and(|test| test.compares == Compares::Cpu);
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
            self.name("factor") == CONGESTION && self.view.groups.iter().any(valid_for::is_group_over_loopback);
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
        let by =
            test.map_or_else(String::new, |test| outcome::more(test, &outcome::scale(test).interval(lower, upper)));
        format!("{place}{} is {}.", self.option(option), outcome::than_the_best(&by))
    }

    pub(super) fn one_setting(&self) -> String {
        let factor = self.name("factor");
        let is_true = |name: &str| self.finding.names.get(name).and_then(serde_json::Value::as_bool) == Some(true);
        let tests = match self.number("tests") as usize {
            2 => "in both tests".to_owned(),
            many => format!("in all {many} tests"),
        };
        let tests = if is_true("all_tests") { tests } else { format!("{tests} that compare it") };
        let upper = self.number("slower_upper");
        let mut varying = self.view.tests.iter().filter(|test| test.varied.iter().any(|name| name == factor));
        let of_cpu = varying.any(|test| test.compares == Compares::Cpu);
        let more = if of_cpu { "more CPU time" } else { "slower" };
        let how = match upper <= 0.0005 {
            true => format!("not {more}"),
            false => format!("at most {} {more}", at_most(upper)),
        };
        let with = if is_true("alone") { "" } else { " with the best other settings" };
        format!("{} {} {tests}, {how}{with}.", phrase::in_code(factor), self.level("level"))
    }
}
