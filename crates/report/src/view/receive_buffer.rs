//! Whether a server should set `SO_RCVBUF` at all, in words: against leaving it to the system, all else equal.
//!
//! To set it switches the kernel's autotuning off (tcp(7)), so "as large as possible" and "as the system does it" are
//! different answers. Says only what the comparison has shown, and what the choice costs in memory a connection.

use bytegauge_model::{Bytes, Level, Levels, Role};

use super::answer::Conditions;
use super::compare::Judged;
use super::document::CellView;
use crate::phrase::join;
use crate::sentence::percent;

/// One size, or the system's choice, in one group.
struct Size<'a> {
    level: &'a Level,
    cell: &'a CellView,
}

impl Size<'_> {
    fn shown_good(&self, margin: f64) -> bool {
        self.cell.above_best_upper.is_some_and(|above| above <= margin)
    }

    fn shown_bad(&self, margin: f64) -> bool {
        self.cell.above_best_lower.is_some_and(|above| above > margin)
    }

    fn bytes(&self) -> Option<u64> {
        self.level.number()
    }
}

/// The answer for groups of calls that compare sizes of `SO_RCVBUF`; `None` where nothing does.
pub fn remark(groups: &[&Judged], choice: Option<usize>, conditions: &Conditions, margin: f64) -> Option<String> {
    let sweeps: Vec<Vec<Size>> = groups.iter().filter_map(|group| sweep(group, choice, conditions)).collect();
    if sweeps.is_empty() {
        return None;
    }
    let autos: Vec<&Size> = sweeps.iter().filter_map(|sweep| sweep.iter().find(|size| size.level.is_auto())).collect();
    let whole = autos.len() == sweeps.len();
    let worst = autos.iter().filter_map(|auto| auto.cell.above_best_lower).reduce(f64::max);
    let advice = if whole && autos.iter().all(|auto| auto.shown_good(margin)) {
        let within = format!("left to the system it is within {} of the best", percent(margin));
        match names_a_size(groups, choice, conditions) {
            true => format!("SO_RCVBUF need not be set: {within}; to set it saves memory alone."),
            false => format!("Do not set SO_RCVBUF: {within}."),
        }
    } else if autos.iter().any(|auto| auto.shown_bad(margin)) {
        let worst = worst.map_or_else(String::new, |above| format!(" by at least {}", percent(above)));
        format!("Set SO_RCVBUF: left to the system it is worse than the best{worst}.")
    } else {
        "Whether to set SO_RCVBUF at all is not settled: leave it to the system until it is.".into()
    };
    let parts = [Some(advice), smallest(&sweeps, margin), memory(&sweeps, margin), windows(&sweeps), failures(&sweeps)];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Whether the choice that the verdict names sets a size.
fn names_a_size(groups: &[&Judged], choice: Option<usize>, conditions: &Conditions) -> bool {
    let named = groups.iter().find_map(|group| group.cell(choice));
    named.is_some_and(|at| conditions.settled[at].cell.factors.get("rcvbuf").number().is_some())
}

/// The sizes of one group that agree in every other choice with the one that is named, or with the leader; `None`
/// where nothing was compared.
fn sweep<'a>(group: &'a Judged, choice: Option<usize>, conditions: &'a Conditions) -> Option<Vec<Size<'a>>> {
    if group.verdict.present.len() < 2
        || !group.varied.iter().any(|name| name == "rcvbuf")
        || *group.row.group.factors.get("request") == Level::Absent
    {
        return None;
    }
    let levels = |at: usize| &conditions.settled[at].cell.factors;
    let named = group.cell(choice).or_else(|| group.cell(group.verdict.leader()))?;
    let wanted = others(levels(named));
    let alike = group.candidates.iter().copied().filter(|&at| others(levels(at)) == wanted);
    let mut sizes: Vec<Size> =
        alike.map(|at| Size { level: levels(at).get("rcvbuf"), cell: &conditions.cells[at] }).collect();
    sizes.sort_by_key(Size::bytes);
    (sizes.len() > 1).then_some(sizes)
}

fn others(levels: &Levels) -> Levels {
    let mut levels = levels.of_role(Role::Choice);
    levels.0.retain(|name, _| !matches!(name.as_str(), "rcvbuf" | "rcvbuf_on"));
    levels
}

/// Sizes that were shown good in every group, ascending.
fn good(sweeps: &[Vec<Size>], margin: f64) -> Vec<u64> {
    let Some(first) = sweeps.first() else { return Vec::new() };
    let everywhere = |bytes: &u64| {
        sweeps.iter().all(|sweep| sweep.iter().any(|size| size.bytes() == Some(*bytes) && size.shown_good(margin)))
    };
    first.iter().filter_map(Size::bytes).filter(everywhere).collect()
}

/// The smallest size that is good enough, and up to where sizes are too small.
fn smallest(sweeps: &[Vec<Size>], margin: f64) -> Option<String> {
    let enough = good(sweeps, margin).first().copied();
    let below = |size: &&Size| enough.is_none_or(|enough| size.bytes().is_some_and(|bytes| bytes < enough));
    let bad = sweeps.iter().flatten().filter(|size| size.bytes().is_some() && size.shown_bad(margin)).filter(below);
    let bad = bad.max_by_key(|size| size.bytes());
    let too_small = bad.and_then(|size| {
        Some(format!("{} costs at least {}", Bytes(size.bytes()?), percent(size.cell.above_best_lower?)))
    });
    match (enough.map(|bytes| format!("{} is the smallest size shown good enough", Bytes(bytes))), too_small) {
        (Some(enough), Some(small)) => Some(format!("{enough}; {small}.")),
        (Some(enough), None) => Some(format!("{enough}.")),
        (None, Some(small)) => Some(format!("No size was shown good enough; {small}.")),
        (None, None) => None,
    }
}

/// What a connection's receive buffer may hold, as the kernel reports it: left to the system, and at the smallest
/// size that is good enough.
fn memory(sweeps: &[Vec<Size>], margin: f64) -> Option<String> {
    let effective = |size: &Size| size.cell.counters.options.get("rcvbuf").and_then(|option| option.sink.as_u64());
    let all = || sweeps.iter().flatten();
    let auto = all().filter(|size| size.level.is_auto()).filter_map(&effective).max();
    let enough = good(sweeps, margin).first().copied();
    let set = all().filter(|size| size.bytes().is_some() && size.bytes() == enough).filter_map(&effective).max();
    let set = set.zip(enough).map(|(bytes, asked)| format!("{} when {} is asked for", Bytes(bytes), Bytes(asked)));
    let auto = auto.map(|bytes| format!("{} left to the system (more as it grows)", Bytes(bytes)));
    let parts: Vec<String> = [auto, set].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("A connection's receive buffer may hold {}.", parts.join(", or ")))
}

/// The window scale that the server announced at each size, and what lay unread at most. The scale is settled in the
/// handshake and stays for the connection's life (RFC 7323, 2.2), whatever is set afterwards.
fn windows(sweeps: &[Vec<Size>]) -> Option<String> {
    let name = |size: &Size| size.bytes().map_or("left to the system".to_owned(), |bytes| Bytes(bytes).to_string());
    let widest = sweeps.iter().max_by_key(|sweep| sweep.len())?;
    // Runs of neighbouring sizes with one scale: (scale, first, last).
    let mut runs: Vec<(u8, &Size, &Size)> = Vec::new();
    // Set after accept, a size comes too late for the handshake.
    let early = |size: &&Size| size.cell.factors.get("rcvbuf_on").is_none_or(|on| on == "listener");
    for size in widest.iter().filter(early) {
        let Some(scale) = size.cell.counters.snd_wscale else { continue };
        match runs.last_mut() {
            Some((last_scale, first, last))
                if *last_scale == scale && first.level.is_auto() == size.level.is_auto() =>
            {
                *last = size;
            }
            _ => runs.push((scale, size, size)),
        }
    }
    let scales: Vec<String> = runs
        .iter()
        .map(|(scale, first, last)| match first.bytes() == last.bytes() {
            true if first.level.is_auto() => format!("{scale} {}", name(first)),
            true => format!("{scale} at {}", name(first)),
            false => format!("{scale} from {} to {}", name(first), name(last)),
        })
        .collect();
    let fullest = sweeps.iter().flatten().max_by_key(|size| size.cell.counters.sink_queued_bytes)?;
    let queued = fullest.cell.counters.sink_queued_bytes.filter(|bytes| *bytes > 0);
    let queued =
        queued.map(|bytes| format!(" Most that lay unread in one connection: {} ({}).", Bytes(bytes), name(fullest)));
    (!scales.is_empty()).then(|| {
        format!("The window scale that the server announces is {}.{}", join(&scales, "and"), queued.unwrap_or_default())
    })
}

/// Sizes at which calls failed, with the share of the worst.
fn failures(sweeps: &[Vec<Size>]) -> Option<String> {
    let failed: Vec<(&Size, f64)> = sweeps
        .iter()
        .flatten()
        .filter_map(|size| Some((size, size.cell.call.as_ref()?.failed_share.filter(|share| *share > 0.0)?)))
        .collect();
    let measured: usize = sweeps.iter().map(Vec::len).sum();
    let (worst, share) = failed.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let name = |size: &Size| size.bytes().map_or("the system's choice".to_owned(), |bytes| Bytes(bytes).to_string());
    let mut sizes: Vec<String> = Vec::new();
    for (size, _) in &failed {
        if !sizes.contains(&name(size)) {
            sizes.push(name(size));
        }
    }
    let at = if failed.len() == measured { "every size".into() } else { join(&sizes, "and") };
    let most = if sizes.len() > 1 { format!(", most at {}", name(worst)) } else { String::new() };
    let error = worst.cell.call.as_ref()?.errors.first()?;
    Some(format!("Calls failed at {at}{most} ({}, {} in the phase {}).", percent(*share), error.class, error.phase))
}
