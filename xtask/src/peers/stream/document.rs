//! What was found of streams, in words and tables.

use bytegauge_model::Bytes;
use bytegauge_model::unit::{byte_rate, significant};
use bytegauge_stats::interval::{Estimate, sign_interval};
use serde_json::Value;

use super::Effort;
use super::rounds::{Arm, Panel};
use crate::markdown::table;
use crate::peers::compare::interval;
use crate::peers::machine;

/// What surrounds the figures.
pub struct Facts<'a> {
    /// iperf3's version.
    pub peer: &'a str,
    /// The day, UTC.
    pub date: &'a str,
    /// Seed of the order.
    pub seed: u64,
    /// How much was run.
    pub effort: Effort,
    /// The environment as bytegauge's JSON gives it.
    pub environment: &'a Value,
}

/// One line for the terminal.
pub fn line(panel: &Panel) -> String {
    let rate = |arm| sign_interval(panel.rates(arm), 0.95).median.map(byte_rate).unwrap_or_default();
    format!(
        "{}: bytegauge {} ({}), iperf3 {} ({}): ratio {}; with iperf3's sizes {}",
        panel.setting,
        rate(Arm::Best),
        panel.best,
        rate(Arm::Peer),
        Bytes(panel.peer_length),
        interval(&panel.ratio(Arm::Best)),
        interval(&panel.ratio(Arm::SameSize))
    )
}

/// The section of the document.
pub fn text(facts: &Facts<'_>, panels: &[Panel]) -> String {
    let Facts { peer, date, seed, effort, .. } = facts;
    let mut text = format!(
        "## TCP over loopback, beside {peer}\n\nMade by `cargo xtask peers stream --rounds {} --seconds {} --seed {seed}` on \
         {date}. Above 1, bytegauge is faster.\n\n",
        effort.rounds, effort.seconds
    );
    text.push_str(&table(
        &[
            "ends",
            "iperf3, best length",
            "bytegauge, best sizes",
            "ratio (95 %)",
            "bytegauge, iperf3's length",
            "ratio (95 %)",
            "in words",
        ],
        panels.iter().map(row),
    ));
    text.push_str(&format!("\n### Machine\n\n{}", machine::text(facts.environment)));
    text.push_str(&method(facts));
    text.push_str(&chosen(panels));
    text.push_str(&raw(panels));
    text
}

fn row(panel: &Panel) -> Vec<String> {
    let rate = |arm| rate(&sign_interval(panel.rates(arm), 0.95));
    vec![
        panel.setting.to_string(),
        format!("{}: {}", Bytes(panel.peer_length), rate(Arm::Peer)),
        format!("{}: {}", panel.best, rate(Arm::Best)),
        interval(&panel.ratio(Arm::Best)),
        rate(Arm::SameSize),
        interval(&panel.ratio(Arm::SameSize)),
        verdict(&panel.ratio(Arm::Best)).to_owned(),
    ]
}

/// What the ratio of the best sizes says about the aim, which is to be at least as fast.
fn verdict(ratio: &Estimate) -> &'static str {
    match (ratio.lower, ratio.upper) {
        (Some(lower), _) if lower >= 1.0 => "at least as fast",
        (_, Some(upper)) if upper < 1.0 => "**slower**",
        (Some(_), Some(_)) => "not told apart",
        _ => "too few rounds to say",
    }
}

fn rate(estimate: &Estimate) -> String {
    let spread = estimate
        .relative_half_width()
        .map(|share| format!(" ± {} %", significant(share * 100.0, 2)))
        .unwrap_or_default();
    estimate.median.map(|median| byte_rate(median) + &spread).unwrap_or_default()
}

fn method(facts: &Facts<'_>) -> String {
    let Effort { rounds, seconds, omit_seconds, passes, lengths, search_budget, .. } = facts.effort;
    format!(
        "\n### Method\n\n\
         - Both programs send over 127.0.0.1 with the same congestion control, without zero-copy, and throw the data \
         away. A rate is what the receiver counted.\n\
         - Sizes are chosen first, in runs that are not judged: iperf3's length (`-l`, its reads and writes) by the \
         median of {passes} passes over {lengths} (it refuses more than 1M); bytegauge's read and write sizes by its \
         own search over {lengths} within {search_budget}.\n\
         - Then {rounds} rounds. Every round visits every setting; within it the three arms run one after the other \
         in random order (seed {}). iperf3 runs {seconds} s after {omit_seconds} s that do not count; bytegauge one \
         trial of {seconds} s after its calibration.\n\
         - A ratio is the median over rounds of bytegauge's rate by iperf3's in the same round, with its sign \
         interval at 95 % or more. Rates carry intervals of their own; they hold for this session only.\n\
         - `cross-core` and `same-cpu` pin both programs to the same CPUs; a coin swaps the parts of the two CPUs in \
         every run. iperf3 before 3.16 serves all flows with one thread an end, bytegauge has two threads a flow.\n\n",
        facts.seed
    )
}

fn chosen(panels: &[Panel]) -> String {
    let Some(first) = panels.first() else { return String::new() };
    let lengths: Vec<String> = first.peer_lengths.iter().map(|(length, _)| Bytes(*length).to_string()).collect();
    let headings: Vec<&str> = std::iter::once("ends").chain(lengths.iter().map(String::as_str)).collect();
    let rows = panels.iter().map(|panel| {
        let rates = panel.peer_lengths.iter().map(|(_, rate)| byte_rate(*rate));
        std::iter::once(panel.setting.to_string()).chain(rates).collect()
    });
    format!("### iperf3 by length, in the runs that chose it\n\n{}", table(&headings, rows))
}

/// Every judged rate, so that a reader can work out the ratios again.
fn raw(panels: &[Panel]) -> String {
    let mut text = "\n### Every judged run\n\nMiB/s, in the order of the rounds.\n\n```\n".to_owned();
    for panel in panels {
        for (name, arm) in [("iperf3", Arm::Peer), ("best sizes", Arm::Best), ("iperf3's length", Arm::SameSize)] {
            let rates: Vec<String> =
                panel.rates(arm).iter().map(|rate| format!("{:.0}", rate / f64::from(1 << 20))).collect();
            text.push_str(&format!("{:<18} {name:<16} {}\n", panel.setting.to_string(), rates.join(" ")));
        }
    }
    text.push_str("```\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(median: f64, ends: Option<(f64, f64)>, expected: (&str, &str)) {
        let estimate = Estimate {
            median: Some(median),
            lower: ends.map(|(lower, _)| lower),
            upper: ends.map(|(_, upper)| upper),
            n: 12,
            level: 0.95,
            attained: None,
        };
        assert_eq!((interval(&estimate).as_str(), verdict(&estimate)), expected);
    }

    #[test]
    fn verdicts() {
        check(1.05, Some((1.01, 1.08)), ("1.050 (1.010 to 1.080)", "at least as fast"));
        check(1.0, Some((0.97, 1.02)), ("1.000 (0.970 to 1.020)", "not told apart"));
        check(0.9, Some((0.85, 0.95)), ("0.900 (0.850 to 0.950)", "**slower**"));
        check(1.2, None, ("1.200 (no interval below 6 rounds)", "too few rounds to say"));
    }
}
