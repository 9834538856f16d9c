//! Compares two programs: each pair is a session of `bytegauge ab`, whose blocks, order, A/A control and interval are the
//! product's own. This module adds the programs, the aims and a table.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use bytegauge_stats::interval::{MedianEstimate, sign_interval};
use serde_json::Value;
use xtask::markdown::table;

use super::arm::{self, Arm};
use super::bench::{PeerTests, machine_line};

/// A section that compares pairs.
pub struct Rivalry {
    /// Its heading.
    pub heading: &'static str,
    /// Lists the pairs, each compared by sessions of its own.
    pub measures: &'static [Measure],
    /// Builds what is needed.
    pub pairs: fn(&PeerTests) -> Result<Rivals>,
    /// How its programs are run, by name.
    pub arms: &'static [(&'static str, Arm)],
    /// Notes on the method, as a list.
    pub method: &'static str,
}

/// A number that a run prints.
pub struct Measure {
    /// As `--metric` takes it.
    metric: &'static str,
    /// Its title, with its unit.
    title: &'static str,
    /// The printed number, from a rate of the session.
    printed: fn(f64) -> f64,
    /// That number in the unit.
    shown: fn(f64) -> String,
}

impl Measure {
    /// A rate: more is better.
    pub const fn rate(title: &'static str, shown: fn(f64) -> String) -> Measure {
        Measure { metric: "regex:rate (.*)", title, printed: |rate| rate, shown }
    }

    /// Seconds: less is better.
    pub const fn cost(title: &'static str, shown: fn(f64) -> String) -> Measure {
        Measure { metric: "time:cost (.*)", title, printed: |rate| 1.0 / rate, shown }
    }
}

/// The pairs of a section.
#[derive(Default)]
pub struct Rivals {
    /// Those that can be compared here.
    pub pairs: Vec<Rival>,
    /// Why others cannot.
    pub left_out: Vec<String>,
}

/// Two programs that do the same.
pub struct Rival {
    /// The conditions.
    pub what: String,
    /// The reference program.
    pub theirs: Player,
    /// Ours.
    pub ours: Player,
    /// The aims, by measure.
    pub aims: &'static [Option<Aim>],
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Player {
    name: String,
    words: Vec<String>,
}

impl Player {
    /// A program, the arm that runs it, and the arm's arguments, none of which contains a space.
    pub fn new(name: &str, arm: &str, words: &[String]) -> Player {
        Player { name: name.to_owned(), words: [arm.to_owned()].into_iter().chain(words.iter().cloned()).collect() }
    }
}

/// Compares, and makes the document's part.
///
/// # Errors
/// When a program does not build, or a session does not begin.
pub fn compared(rivalry: &Rivalry, section: &str, bench: &PeerTests) -> Result<String> {
    let Rivals { pairs, mut left_out } = (rivalry.pairs)(bench)?;
    let mut text = format!(
        "## {}\n\nMade by `cargo lab peers {section} {}` on {}, each row by a session of `bytegauge ab`. Above 1, ours is \
         better.\n",
        rivalry.heading,
        bench.flags(),
        bench.date
    );
    for (at, measure) in rivalry.measures.iter().enumerate() {
        let (mut rows, mut aims) = (Vec::new(), String::new());
        for pair in &pairs {
            let named = format!("{}: {} compared with {}", pair.what, pair.ours.name, pair.theirs.name);
            let versus = session(section, measure, pair, bench).with_context(|| named.clone())?;
            let rate = |side: &str| versus[side]["rate"].as_f64().map(measure.printed).map(measure.shown);
            let (Some(theirs), Some(ours)) = (rate("a"), rate("b")) else {
                left_out.push(format!("{named}: {}", why_not(&versus)));
                continue;
            };
            let ratio = ratio(&versus);
            let row = [&pair.what, &pair.theirs.name, &theirs, &pair.ours.name, &ours, &interval(&ratio)];
            eprintln!("{}", row.map(String::as_str).join("  "));
            rows.push(row.map(String::clone).to_vec());
            let aim = pair.aims.get(at).copied().flatten();
            aims.extend(aim.map(|aim| format!("- {}\n", aim.verdict(&ratio, &named))));
        }
        let headings = ["what", "program", measure.title, "ours", measure.title, "ours over it (95 %)"];
        text.push_str(&format!("\n{}{}{aims}", table(&headings, rows), if aims.is_empty() { "" } else { "\n" }));
    }
    if pairs.is_empty() {
        bail!("nothing can be compared here: {}", left_out.join("; "));
    }
    left_out.dedup();
    left_out.iter().for_each(|reason| text.push_str(&format!("\nLeft out: {reason}.\n")));
    println!("{text}");
    let line = machine_line(&bench.ours.environment()?, &bench.topology);
    Ok(format!("{text}\n{line}\n\n{}{}", rivalry.method, method(bench)))
}

/// The comparison of one pair by one session.
fn session(section: &str, measure: &Measure, pair: &Rival, bench: &PeerTests) -> Result<Value> {
    let task = std::env::current_exe().context("finding the path of this program")?;
    let words = |side: &Player| {
        format!(
            "cmd:{} {} {} {section} {}",
            task.display(),
            arm::NAME,
            bench.ours.program().display(),
            side.words.join(" ")
        )
    };
    let (a, b, blocks, seed) =
        (words(&pair.theirs), words(&pair.ours), bench.effort.blocks.to_string(), bench.seed.to_string());
    bench.ours.versus(&[
        "--a",
        &a,
        "--b",
        &b,
        "--metric",
        measure.metric,
        "--blocks",
        &blocks,
        "--analyses",
        "1",
        "--seed",
        &seed,
    ])
}

fn why_not(versus: &Value) -> String {
    let reasons = ["a", "b"].into_iter().filter_map(|side| versus[side]["reason"].as_str());
    reasons.collect::<Vec<_>>().join("; ")
}

/// Our rate over theirs. The document contains how much longer `b` takes for the same work; below 0, how much longer `a` does.
fn ratio(versus: &Value) -> MedianEstimate {
    let end =
        |name: &str| versus[name].as_f64().map(|longer| if longer < 0.0 { 1.0 - longer } else { 1.0 / (1.0 + longer) });
    MedianEstimate {
        median: end("longer"),
        lower: end("upper"),
        upper: end("lower"),
        n: versus["blocks"].as_u64().and_then(|blocks| usize::try_from(blocks).ok()).unwrap_or(0),
        level: versus["level"].as_f64().unwrap_or_default(),
        attained: None,
    }
}

fn method(bench: &PeerTests) -> String {
    format!(
        "- {} blocks a session: both programs in random order, one of them twice, each run {} s long after a warm-up that does \
         not count. The ratio is the median over blocks, with the interval that the session gives.\n",
        bench.effort.blocks, bench.effort.seconds
    )
}

/// The level of an interval that is printed.
const LEVEL: f64 = 0.95;

/// A ratio that one program is to reach over another.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// The aim as text.
    pub text: &'static str,
    /// The least ratio that reaches it.
    pub at_least: f64,
}

impl Aim {
    /// Whether a ratio reaches the aim, as text, with the name of the pair. A missed aim is printed in bold.
    pub fn verdict(&self, ratio: &MedianEstimate, whose: &str) -> String {
        let reached = match (ratio.median, ratio.lower, ratio.upper) {
            (_, Some(lower), _) if lower >= self.at_least => "reached",
            (_, _, Some(upper)) if upper < self.at_least => "**missed**",
            (Some(median), ..) if median >= self.at_least => "reached by the median, not proven",
            (Some(_), ..) => "**missed** by the median, not proven",
            (None, ..) => "not measured",
        };
        format!("Aim: {}: {reached}, {} ({whose}).", self.text, interval(ratio))
    }
}

/// One's values over another's, from the differences of logarithms within blocks.
fn ratio_at(ours: &[f64], theirs: &[f64], level: f64) -> MedianEstimate {
    let differences: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| (ours / theirs).ln()).collect();
    let estimate = sign_interval(&differences, level);
    MedianEstimate {
        median: estimate.median.map(f64::exp),
        lower: estimate.lower.map(f64::exp),
        upper: estimate.upper.map(f64::exp),
        ..estimate
    }
}

/// Rates by the block of a session in which they were measured.
pub type Rates = BTreeMap<u64, f64>;

/// The ratio of two in the blocks in which both were measured.
pub fn over(ours: &Rates, theirs: &Rates) -> MedianEstimate {
    over_at(ours, theirs, LEVEL)
}

/// As [`over`], for one of several ratios: each interval is wide enough that all of them hold together at 95 % (Bonferroni).
pub fn over_among(ours: &Rates, theirs: &Rates, count: usize) -> MedianEstimate {
    over_at(ours, theirs, 1.0 - (1.0 - LEVEL) / count.max(1) as f64)
}

fn over_at(ours: &Rates, theirs: &Rates, level: f64) -> MedianEstimate {
    let pairs = ours.iter().filter_map(|(block, ours)| Some((*ours, *theirs.get(block)?)));
    let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.unzip();
    ratio_at(&ours, &theirs, level)
}

/// Rates without their blocks.
pub fn values(rates: &Rates) -> Vec<f64> {
    rates.values().copied().collect()
}

/// A ratio as `1.050 (1.010 to 1.080)`.
pub fn interval(estimate: &MedianEstimate) -> String {
    let shown = |value: f64| format!("{value:.3}");
    match (estimate.median, estimate.lower, estimate.upper) {
        (Some(median), Some(lower), Some(upper)) => {
            format!("{} ({} to {})", shown(median), shown(lower), shown(upper))
        }
        (Some(median), ..) => format!("{} (no interval below 6 blocks)", shown(median)),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_from_the_document() {
        let versus = serde_json::json!({"longer": 0.25, "lower": -0.5, "upper": 1.0, "blocks": 8, "level": 0.95});
        let found = ratio(&versus);
        assert_eq!((found.median, found.lower, found.upper, found.n), (Some(0.8), Some(0.5), Some(1.5), 8));
        assert_eq!(ratio(&serde_json::json!({"longer": null})).median, None);
    }

    #[test]
    fn ratios_pair_within_blocks() {
        // The machine halves its speed midway; the ratio does not change.
        let peer = [8.0, 8.0, 8.0, 4.0, 4.0, 4.0];
        let ours: Vec<f64> = peer.iter().map(|rate| rate * 1.25).collect();
        let got = ratio_at(&ours, &peer, LEVEL);
        for end in [got.median, got.lower, got.upper] {
            assert!((end.unwrap() - 1.25).abs() < 1e-12, "{got:?}");
        }
        assert_eq!(ratio_at(&ours[..5], &peer[..5], LEVEL).lower, None);
    }

    fn check(median: Option<f64>, ends: Option<(f64, f64)>, expected: &str) {
        let (lower, upper) = (ends.map(|ends| ends.0), ends.map(|ends| ends.1));
        let ratio = MedianEstimate { median, lower, upper, n: 8, level: 0.95, attained: None };
        assert_eq!(
            Aim { text: "quick", at_least: 0.97 }.verdict(&ratio, "a, b"),
            format!("Aim: quick: {expected} (a, b).")
        );
    }

    #[test]
    fn missed_aims_are_printed() {
        check(Some(1.0), Some((0.98, 1.02)), "reached, 1.000 (0.980 to 1.020)");
        check(Some(1.0), Some((0.9, 1.1)), "reached by the median, not proven, 1.000 (0.900 to 1.100)");
        check(Some(0.96), Some((0.9, 1.1)), "**missed** by the median, not proven, 0.960 (0.900 to 1.100)");
        check(Some(0.9), Some((0.85, 0.95)), "**missed**, 0.900 (0.850 to 0.950)");
        check(Some(1.0), None, "reached by the median, not proven, 1.000 (no interval below 6 blocks)");
        check(None, None, "not measured, –");
    }
}
