//! Whether a server should set `SO_RCVBUF` at all, as text: compared with the system's default, all else equal.
//!
//! Setting it disables the kernel's autotuning (tcp(7)), so "as large as possible" and "as the system does it" are different
//! answers. Reports only results of the comparison, and the memory of the choice per connection.

use bytegauge_model::unit::significant;
use bytegauge_model::{Bytes, OrAuto, Role, Spec};

use super::answer::Conditions;
use super::compare::Judged;
use super::document::CellView;
use crate::outward::at_least;
use crate::phrase::join;
use crate::sentence::percent;

/// With this factor fewer system calls, the pieces of a request arrived together.
const GATHERED: f64 = 0.85;

/// One size, or the system's default, in one group.
struct Size<'a> {
    level: OrAuto<u64>,
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
        match self.level {
            OrAuto::Is(bytes) => Some(bytes),
            OrAuto::Auto => None,
        }
    }

    fn is_auto(&self) -> bool {
        self.level == OrAuto::Auto
    }

    fn name(&self) -> String {
        self.bytes().map_or("the system's choice".to_owned(), |bytes| Bytes(bytes).to_string())
    }
}

/// The answer for groups of calls that compare sizes of `SO_RCVBUF`; `None` for others.
pub fn remark(groups: &[&Judged], choice: Option<usize>, conditions: &Conditions, margin: f64) -> Option<String> {
    let sweeps: Vec<Vec<Size>> = groups.iter().filter_map(|group| sweep(group, choice, conditions)).collect();
    if sweeps.is_empty() {
        return None;
    }
    // A server that loses requests is measured for resets, not for sizes.
    if groups.iter().all(|group| group.row.group.factors.read_once() == Some(true)) {
        return failures(&sweeps);
    }
    let autos: Vec<&Size> = sweeps.iter().filter_map(|sweep| sweep.iter().find(|size| size.is_auto())).collect();
    let whole = autos.len() == sweeps.len();
    let worst = autos.iter().filter_map(|auto| auto.cell.above_best_lower).reduce(f64::max);
    let advice = if whole && autos.iter().all(|auto| auto.shown_good(margin)) {
        let within = format!("left to the system it is within {} of the best", percent(margin));
        match names_a_size(groups, choice, conditions) {
            true => format!("SO_RCVBUF need not be set: {within}; to set it saves memory alone."),
            false => format!("Do not set SO_RCVBUF: {within}."),
        }
    } else if autos.iter().any(|auto| auto.shown_bad(margin)) {
        let worst = worst.map_or_else(String::new, |above| format!(" by at least {}", at_least(above)));
        let bad = autos.iter().filter(|auto| auto.shown_bad(margin)).count();
        let groups = if bad < sweeps.len() { format!(" in {bad} of {} groups", sweeps.len()) } else { String::new() };
        format!("Set SO_RCVBUF: left to the system it is worse than the best{worst}{groups}.")
    } else {
        "Whether to set SO_RCVBUF at all is not settled: leave it to the system until it is.".into()
    };
    let gathered = gathered(&sweeps, groups, choice, conditions);
    let parts =
        [Some(advice), bounds(&sweeps, margin), gathered, memory(&sweeps, margin), windows(&sweeps), failures(&sweeps)];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Whether the named choice sets a size.
fn names_a_size(groups: &[&Judged], choice: Option<usize>, conditions: &Conditions) -> bool {
    let named = groups.iter().find_map(|group| group.cell(choice));
    named.is_some_and(|at| conditions.settled[at].cell.factors.rcvbuf().is_some())
}

/// The sizes of one group that agree in every other choice with the named one, or with the leader; `None` without a
/// comparison.
fn sweep<'a>(group: &'a Judged, choice: Option<usize>, conditions: &'a Conditions) -> Option<Vec<Size<'a>>> {
    if group.verdict.present.len() < 2
        || !group.varied.iter().any(|name| name == "rcvbuf")
        || group.row.group.factors.request().is_none()
    {
        return None;
    }
    let levels = |at: usize| &conditions.settled[at].cell.factors;
    let named = group.cell(choice).or_else(|| group.cell(group.verdict.leader()))?;
    let wanted = others(levels(named));
    let alike = group.candidates.iter().copied().filter(|&at| others(levels(at)) == wanted);
    let mut sizes: Vec<Size> =
        alike.filter_map(|at| Some(Size { level: levels(at).rcvbuf?, cell: &conditions.cells[at] })).collect();
    sizes.sort_by_key(Size::bytes);
    (sizes.len() > 1).then_some(sizes)
}

fn others(levels: &Spec) -> Spec {
    let mut others = levels.of_role(Role::Choice);
    (others.rcvbuf, others.rcvbuf_on) = (None, None);
    others
}

/// Sizes that were significantly good in every group, ascending.
fn good(sweeps: &[Vec<Size>], margin: f64) -> Vec<u64> {
    let Some(first) = sweeps.first() else { return Vec::new() };
    let everywhere = |bytes: &u64| {
        sweeps.iter().all(|sweep| sweep.iter().any(|size| size.bytes() == Some(*bytes) && size.shown_good(margin)))
    };
    first.iter().filter_map(Size::bytes).filter(everywhere).collect()
}

/// The sizes that are good enough, or may be, and the cost of the next ones that are too small or too large.
fn bounds(sweeps: &[Vec<Size>], margin: f64) -> Option<String> {
    let cost = |bytes: u64| {
        let of_size = sweeps.iter().flatten().filter(|size| size.bytes() == Some(bytes) && size.shown_bad(margin));
        of_size.filter_map(|size| size.cell.above_best_lower).reduce(f64::max)
    };
    let sizes: Vec<u64> = sweeps.first()?.iter().filter_map(Size::bytes).collect();
    let enough = good(sweeps, margin);
    let fit: Vec<u64> = match enough.is_empty() {
        true => sizes.iter().copied().filter(|bytes| cost(*bytes).is_none()).collect(),
        false => enough.clone(),
    };
    let (Some(first), Some(last)) = (fit.first(), fit.last()) else {
        let least = sizes.iter().filter_map(|bytes| cost(*bytes)).reduce(f64::min)?;
        return Some(format!("Every size costs at least {}.", at_least(least)));
    };
    let below = sizes.iter().rev().find(|bytes| *bytes < first && cost(**bytes).is_some());
    let above = sizes.iter().find(|bytes| *bytes > last && cost(**bytes).is_some());
    let costs: Vec<String> = [below, above]
        .into_iter()
        .flatten()
        .filter_map(|bytes| Some(format!("{} costs at least {}", Bytes(*bytes), at_least(cost(*bytes)?))))
        .collect();
    let fit = match (enough.is_empty(), first == last) {
        (false, _) => format!("{} is the smallest size shown good enough", Bytes(*first)),
        (true, true) => format!("No size was shown good enough, {} may be", Bytes(*first)),
        (true, false) => format!("No size was shown good enough, {} to {} may be", Bytes(*first), Bytes(*last)),
    };
    Some(match costs.is_empty() {
        true => format!("{fit}."),
        false => format!("{fit}; {}.", join(&costs, "and")),
    })
}

/// Fewer system calls per call at the named size than at the system's default: the effect of the size.
fn gathered(
    sweeps: &[Vec<Size>],
    groups: &[&Judged],
    choice: Option<usize>,
    conditions: &Conditions,
) -> Option<String> {
    let pieces = |group: &&&Judged| group.row.group.factors.request_chunk.is_some();
    let group = groups.iter().find(pieces)?;
    let named = group.cell(choice).or_else(|| group.cell(group.verdict.leader()))?;
    let wanted = &conditions.cells[named];
    let sweep = sweeps.iter().find(|sweep| sweep.iter().any(|size| size.cell.id == wanted.id))?;
    let auto = sweep.iter().find(|size| size.is_auto())?;
    let bytes = sweep.iter().find(|size| size.cell.id == wanted.id)?.bytes()?;
    let calls = |cell: &CellView| cell.more.get("server_system_calls_per_call")?.median;
    let (few, many) = (calls(wanted)?, calls(auto.cell)?);
    (few < many * GATHERED).then(|| {
        format!(
            "At {} the server makes {} system calls per call, with the system's default {}: data that waits for room in a small \
             window is sent together.",
            Bytes(bytes),
            significant(few, 3),
            significant(many, 3)
        )
    })
}

/// The memory that a connection's receive buffer may use, as the kernel reports it: with the system's default, and at the
/// smallest size that is good enough.
fn memory(sweeps: &[Vec<Size>], margin: f64) -> Option<String> {
    let effective = |size: &Size| size.cell.counters.options.get("rcvbuf").and_then(|option| option.sink.as_u64());
    let all = || sweeps.iter().flatten();
    let auto = all().filter(|size| size.is_auto()).filter_map(&effective).max();
    let enough = good(sweeps, margin).first().copied();
    let set = all().filter(|size| size.bytes().is_some() && size.bytes() == enough).filter_map(&effective).max();
    let set = set.zip(enough).map(|(bytes, asked)| format!("{} when {} is asked for", Bytes(bytes), Bytes(asked)));
    let auto = auto.map(|bytes| format!("{} left to the system (more as it grows)", Bytes(bytes)));
    let parts: Vec<String> = [auto, set].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("A connection's receive buffer may hold {}.", parts.join(", or ")))
}

/// The window scale that the server announced at each size, and the most unread bytes. The scale is fixed in the handshake for the
/// connection's life (RFC 7323, 2.2), whatever is set later.
fn windows(sweeps: &[Vec<Size>]) -> Option<String> {
    let widest = sweeps.iter().max_by_key(|sweep| sweep.len())?;
    // A size that is set after accept comes too late for the handshake.
    let early = widest.iter().filter(|size| size.cell.factors.get("rcvbuf_on").is_none_or(|on| on == "listener"));
    let runs = runs(early, |size| size.cell.counters.snd_wscale);
    let scales: Vec<String> = runs.iter().map(|run| format!("{} {}", run.key, run.span())).collect();
    let fullest = sweeps.iter().flatten().max_by_key(|size| size.cell.counters.sink_queued_bytes)?;
    let queued = fullest.cell.counters.sink_queued_bytes.filter(|bytes| *bytes > 0);
    let queued =
        queued.map(|bytes| format!(" Most that lay unread in one connection: {} ({}).", Bytes(bytes), fullest.name()));
    (!scales.is_empty()).then(|| {
        format!("The window scale that the server announces is {}.{}", join(&scales, "and"), queued.unwrap_or_default())
    })
}

/// Adjacent sizes with a common property.
struct Run<'a, K> {
    key: K,
    first: &'a Size<'a>,
    last: &'a Size<'a>,
}

impl<K> Run<'_, K> {
    fn span(&self) -> String {
        match self.first.bytes() == self.last.bytes() {
            true if self.first.is_auto() => "left to the system".into(),
            true => format!("at {}", self.first.name()),
            false => format!("from {} to {}", self.first.name(), self.last.name()),
        }
    }
}

/// Runs of adjacent sizes with the same key; sizes without one do not interrupt a run. The system's default is adjacent to
/// none.
fn runs<'a, K: PartialEq>(sizes: impl Iterator<Item = &'a Size<'a>>, key: fn(&Size) -> Option<K>) -> Vec<Run<'a, K>> {
    let mut runs: Vec<Run<K>> = Vec::new();
    for size in sizes {
        let Some(key) = key(size) else { continue };
        match runs.last_mut() {
            Some(run) if run.key == key && run.first.is_auto() == size.is_auto() => run.last = size,
            _ => runs.push(Run { key, first: size, last: size }),
        }
    }
    runs
}

/// Whether calls failed, at which sizes, how, and most at which.
fn failures(sweeps: &[Vec<Size>]) -> Option<String> {
    let share = |size: &Size| size.cell.call.as_ref()?.failed_share.filter(|share| *share > 0.0);
    let failed: Vec<(&Size, f64)> = sweeps.iter().flatten().filter_map(|size| Some((size, share(size)?))).collect();
    let Some((worst, most)) = failed.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        let begun = sweeps.iter().flatten().filter_map(|size| Some(size.cell.call.as_ref()?.begun));
        // An imported table may not state the failures.
        let begun = Some(begun.sum::<u64>()).filter(|begun| *begun > 0)?;
        return Some(format!("None of {begun} calls failed: no connection was reset at any size."));
    };
    let mut sizes: Vec<String> = Vec::new();
    for (size, _) in &failed {
        if !sizes.contains(&size.name()) {
            sizes.push(size.name());
        }
    }
    let measured: usize = sweeps.iter().map(Vec::len).sum();
    let at = if failed.len() == measured { "every size".into() } else { join(&sizes, "and") };
    let most_at = if sizes.len() > 1 { format!(", most at {}", worst.name()) } else { String::new() };
    let widest = sweeps.iter().max_by_key(|sweep| sweep.len())?;
    let kinds = runs(widest.iter(), |size| {
        let error = size.cell.call.as_ref()?.errors.first()?;
        Some(format!("{} in the phase {}", error.class, error.phase))
    });
    // One kind for all is named once.
    let kinds: Vec<String> = match kinds.windows(2).all(|pair| pair[0].key == pair[1].key) {
        true => kinds.first().map(|run| run.key.clone()).into_iter().collect(),
        false => kinds.iter().map(|run| format!("{} {}", run.key, run.span())).collect(),
    };
    Some(format!("Calls failed at {at}{most_at} ({}): {}.", percent(*most), join(&kinds, "and")))
}
