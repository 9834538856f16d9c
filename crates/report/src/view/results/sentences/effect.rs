//! The sentences of comparisons: named options, the biggest effect, one setting for all tests.

use bytegauge_model::{CellId, Level};

use super::super::super::document::{Compares, OptionResult, Test};
use super::super::harm::is_avoided;
use super::super::{outcome, valid_for};
use super::{CONGESTION, Sentence};
use crate::interval_rounding::{NOTHING, at_most, percent};
use crate::phrase;

impl Sentence<'_> {
    /// `blocking is 31 % slower than epoll (25–40 %).`
    pub(super) fn comparison(&self) -> String {
        let (fast, slow, with) = self.compared();
        let with = with + &self.harm_of_compared();
        let scale = self.view.scale;
        // The times of both have the ratio of their rates.
        let [times, lower] = ["times", "times_lower"].map(|name| self.number(name) - 1.0);
        let upper = self.known("times_upper").map_or(f64::INFINITY, |upper| upper - 1.0);
        let range = scale.interval(lower, upper);
        match lower > 0.0 {
            true => format!("{slow} {} ({range}){with}.", self.is_slower(&scale.estimate(times), &fast)),
            false if scale.multiples => {
                format!("{fast} and {slow} are undecided: {slow} {}{with}.", self.is_slower(&range, &fast))
            }
            false => {
                let what = if self.compares() == Compares::Cpu { "CPU time" } else { "time" };
                let (less, more) = (at_most(-lower), scale.at_most(upper));
                format!("{fast} and {slow} are undecided: {slow} takes {less} less to {more} more {what}{with}.")
            }
        }
    }

    /// The harm of two compared options, which a ratio of rates does not show: `; avoid 208K (51.6 % of the datagrams lost)`.
    fn harm_of_compared(&self) -> String {
        let options = self.own_test().map(|test| &test.options);
        let ids = [&self.finding.option, &self.finding.other];
        let is_compared = |option: &&OptionResult| ids.into_iter().flatten().any(|id| *id == option.id);
        let compared = options.into_iter().flatten().filter(is_compared);
        let of = |own: &OptionResult| format!("{} ({})", own.label, outcome::harmed(own));
        let harmed: Vec<String> = compared.filter(|own| is_avoided(&own.harm)).map(of).collect();
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
        let level = |name: &str| phrase::compact(factor, &self.plain_level(name));
        let with = match &others {
            [own, other] if own == other && own.is_empty() => String::new(),
            [own, other] if own == other => format!(", both with {own}"),
            // The other one has no such setting.
            [own, other] if other.is_empty() => format!(", {} with {own}", level("level")),
            [own, other] if own.is_empty() => format!(", {} with {other}", level("other_level")),
            [own, other] => format!(", each at its best: {own} and {other}"),
        };
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
        if self.name("factor").is_empty() {
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
        let place = self.one_of_several().map_or_else(String::new, |test| format!(" ({})", test.name));
        let (fast, slow) = (self.level("level"), self.level("other_level"));
        let slower = self.known("times_lower").map(|lower| {
            let upper = self.known("times_upper").map_or(f64::INFINITY, |upper| upper - 1.0);
            self.is_slower(&self.view.scale.interval(lower - 1.0, upper), &fast)
        });
        let of_cpu = self.compares() == Compares::Cpu;
        let how = match (slower, self.known("rate").zip(self.known("other_rate"))) {
            (Some(slower), Some((rate, other))) if !of_cpu => {
                let means = if self.is_of_medians(rate / other) { "" } else { " (means; the tables have medians)" };
                format!("{slow} {slower}{means}, which reaches {}", self.rates([rate, rate])[0])
            }
            (Some(slower), _) => format!("{slow} {slower}"),
            (None, Some((rate, other))) if !of_cpu => {
                let [rate, other] = self.rates([rate, other]);
                // The best option with each level: other settings may differ, too.
                let labels = self.finding.option.as_ref().zip(self.finding.other.as_ref());
                match labels.map(|(own, slow)| (self.option(own), self.option(slow))) {
                    Some((own, best)) => {
                        format!("{fast} reaches {rate} ({own}), {slow} {other} ({best})")
                    }
                    None => format!("{fast} reaches {rate}, {slow} {other}"),
                }
            }
            (None, _) if of_cpu => format!("{slow} uses more CPU time than {fast}"),
            (None, _) => format!("{slow} is slower than {fast}"),
        };
        let loopback =
            self.name("factor") == CONGESTION && self.view.groups.iter().any(valid_for::is_group_over_loopback);
        let loopback = if loopback { " Measured over loopback; a network may differ." } else { "" };
        format!("{what}{place}: {how}.{loopback}")
    }

    /// Whether the rates of the tables have the ratio of this effect, which is one of means.
    fn is_of_medians(&self, times: f64) -> bool {
        let upper = self.known("times_upper").unwrap_or(f64::INFINITY);
        self.known("times_lower").is_none_or(|lower| (lower..=upper).contains(&times))
    }

    /// No setting has a larger effect than the options of the tests.
    fn effect_of_options(&self) -> String {
        let Some(option) = &self.finding.option else {
            let options = self.view.tests.iter().flat_map(|test| &test.options).filter(|option| option.missed_load());
            let missed = options.filter_map(|option| Some((option.carried_share?, &option.label)));
            return match missed.min_by(|a, b| a.0.total_cmp(&b.0)) {
                Some((share, label)) => format!("{label} carried {} of the load, others all of it.", percent(share)),
                None => "none confirmed that exceeds the noise.".into(),
            };
        };
        let place = self.test_name();
        // It is the one with the largest lower end: an upper end would invite comparisons with those of others.
        let (lower, compares, than) = match self.known("more_cpu_lower") {
            None => (self.number("slower_lower"), self.compares(), "the best"),
            Some(lower) => (lower, Compares::Cpu, "the option with the least"),
        };
        let at_least = format!("at least {}", self.view.scale.at_least(lower));
        let amount = outcome::is_slower(compares, self.view.scale, &at_least, than);
        format!("{place}{} {amount}.", self.option(option))
    }

    /// `read 64 KiB is at most 12 % slower than the best in each test.`
    pub(super) fn one_setting(&self) -> String {
        let factor = self.name("factor");
        let is_true = |name: &str| self.finding.names.get(name).and_then(serde_json::Value::as_bool) == Some(true);
        let varying: Vec<&Test> =
            self.view.tests.iter().filter(|test| test.varied.iter().any(|name| name == factor)).collect();
        let name = outcome::factor_name(factor);
        let tests = match is_true("all_tests") {
            true => "each test".to_owned(),
            false if varying.len() == 2 => format!("both tests of {name}"),
            false => format!("each of the {} tests of {name}", varying.len()),
        };
        if let Some(most) = self.known("slower_max") {
            let tests = if is_true("all_tests") { String::new() } else { format!(" in {tests}") };
            return format!("no {name} is surely within {} of the best{tests}.", self.view.scale.at_most(most));
        }
        let compares = varying.first().map_or(Compares::Time, |test| test.compares);
        let most = format!("at most {}", self.view.scale.at_most(self.number("slower_upper")));
        let slower = match self.number("slower_upper") <= NOTHING {
            true => "is the best".to_owned(),
            false => outcome::is_slower(compares, self.view.scale, &most, "the best"),
        };
        let with = self.finding.names.get("with").cloned().unwrap_or_default();
        let with: Vec<(String, String)> = serde_json::from_value(with).unwrap_or_default();
        let with = match &with[..] {
            [] => String::new(),
            [(settings, test)] => format!(", with {settings} in “{test}”"),
            [(settings, _), rest @ ..] if rest.iter().all(|(others, _)| others == settings) => {
                format!(", with {settings}")
            }
            _ => ", each with its best other settings".to_owned(),
        };
        format!("{} {} {slower} in {tests}{with}.", phrase::in_code(factor), self.level("level"))
    }
}
