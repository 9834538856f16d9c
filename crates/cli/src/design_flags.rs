//! Flags of the session rather than of its factors: budget, blocks, analyses, margin, seed.

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use bytegauge_plan::{ANALYSES_MAX, AUDIT_MAX, FINALISTS_MIN, Finalists, PlanSpec};
use clap::ArgMatches;

use crate::args;
use crate::exit_code::Failure;

/// More finalists than this are all of them.
const FINALISTS_MOST: usize = 64;

/// Applies them to a plan.
pub fn apply(spec: &mut PlanSpec, matches: &ArgMatches) -> Result<(), Failure> {
    spec.budget_ns = args::time_ns(matches, "time")?.or(spec.budget_ns);
    if let Some(text) = args::text(matches, "blocks") {
        spec.blocks = Some(blocks(text)?);
    }
    if let Some(text) = args::text(matches, "analyses") {
        spec.analyses = analyses(text)?;
    }
    if let Some(text) = args::text(matches, "long-trials") {
        spec.audit = audit(text)?;
    }
    if let Some(text) = args::text(matches, "margin") {
        spec.margin = margin(text)?;
    }
    if let Some(ends) = args::parsed(matches, "ends")? {
        spec.ends = ends;
    }
    if let Ok(Some(names)) = matches.try_get_one::<String>("also") {
        spec.add_lists(names)?;
    }
    if let Ok(Some(text)) = matches.try_get_one::<String>("finalists") {
        let finalists = finalists(text)?;
        spec.parts.iter_mut().for_each(|part| part.finalists = Some(finalists));
    }
    spec.verify |= matches!(matches.try_get_one::<bool>("verify"), Ok(Some(true)));
    spec.gentle |= matches!(matches.try_get_one::<bool>("half-load"), Ok(Some(true)));
    Ok(())
}

/// A number of blocks, within the limit.
fn blocks(text: &str) -> Result<u64, Failure> {
    text.parse().ok().filter(|blocks| (1..=100_000).contains(blocks)).ok_or_else(|| {
        Failure::usage(format!("--blocks: `{text}` is out of range: use 1 to 100000 (6 or more for intervals)"))
    })
}

/// The number of planned analyses.
fn analyses(text: &str) -> Result<u64, Failure> {
    text.parse().ok().filter(|analyses| (1..=ANALYSES_MAX).contains(analyses)).ok_or_else(|| {
        Failure::usage(format!("--analyses: `{text}` is out of range: use 1 to {ANALYSES_MAX} (default: 3)"))
    })
}

/// The share of the time for the long-trial check.
fn audit(text: &str) -> Result<f64, Failure> {
    let share = if text == "off" { Some(0.0) } else { share(text) };
    share.filter(|share| (0.0..=AUDIT_MAX).contains(share)).ok_or_else(|| {
        Failure::usage(format!(
            "--long-trials: `{text}` is out of range: use 0% to {}%, such as 10%, or off",
            AUDIT_MAX * 100.0
        ))
    })
}

/// How many options are confirmed.
fn finalists(text: &str) -> Result<Finalists, Failure> {
    let cap = text.parse().ok().filter(|cap| (FINALISTS_MIN..=FINALISTS_MOST).contains(cap)).map(Finalists::Cap);
    cap.or((text == "all").then_some(Finalists::All)).ok_or_else(|| {
        Failure::usage(format!(
            "--finalists: `{text}` is out of range: use {FINALISTS_MIN} to {FINALISTS_MOST}, or all to confirm every option"
        ))
    })
}

/// `5%` or `0.05`. `1` could be either 1 % or 100 %.
fn share(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0).ok(),
        None => text.parse().ok().filter(|share| *share < 0.5),
    }
}

/// The share by which a change may make a running program worse: `10%` or `0.1`.
pub fn max_harm(text: &str) -> Result<f64, Failure> {
    share_within("max-harm", text, 0.001..=10.0)
}

/// The acceptable difference from the best: `5%` or `0.05`.
pub fn margin(text: &str) -> Result<f64, Failure> {
    share_within("margin", text, 0.001..=1.0)
}

/// The share that a flag gives.
pub fn share_within(flag: &str, text: &str, range: RangeInclusive<f64>) -> Result<f64, Failure> {
    share(text).filter(|share| range.contains(share)).ok_or_else(|| {
        let [least, most] = [range.start(), range.end()].map(|share| share * 100.0);
        Failure::usage(format!("--{flag}: `{text}` is not a share: use {least}% to {most}%, such as 5%"))
    })
}

/// The seed that was given, or a new one.
pub fn seed(matches: &ArgMatches) -> u64 {
    matches.get_one::<u64>("seed").copied().unwrap_or_else(seed_from_clock)
}

fn seed_from_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Kept below 2^53, so that no reader of JSON rounds it.
    (since.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins() {
        assert_eq!(margin("5%").unwrap(), 0.05);
        assert_eq!(margin("0.1").unwrap(), 0.1);
        assert!(margin("1").unwrap_err().to_string().contains("`1` is not a share: use 0.1% to 100%"));
        assert!(margin("0").is_err() && margin("-5%").is_err() && margin("much").is_err());
    }

    #[test]
    fn audits() {
        assert_eq!((audit("off").unwrap(), audit("20%").unwrap(), audit("0").unwrap()), (0.0, 0.2, 0.0));
        assert!(audit("on").is_err() && audit("60%").is_err() && audit("-1%").is_err());
    }
}
