//! The limit of a ring: rules over recorded numbers, as those of streams.
//!
//! A thread that never waits is limited by its own activity: entering the kernel, the kernel's work, or its own; or, if a kernel
//! thread submits, by that.

use bytegauge_model::unit::significant;

use super::{BUSY, CellLimit, Evidence, QUEUED, Rule, evidence, percent};

/// The input of the rules, from the trials of a cell's estimate. Shares are between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RingSigns {
    /// There is no ring, so that the harness itself is measured.
    pub moves_nothing: bool,
    /// Time of an operation, ns.
    pub nop_ns: Option<f64>,
    /// The same in the cheapest cell of the same ring, in which more operations share a system call.
    pub cheapest_nop_ns: Option<f64>,
    /// Operations for each io_uring_enter(2).
    pub nops_per_enter: Option<f64>,
    /// CPU time of the thread over its window.
    pub busy: Option<f64>,
    /// Share of that in the kernel.
    pub system_share: Option<f64>,
    /// CPU time of the kernel's submission thread, over the window.
    pub kernel_thread_cpus: Option<f64>,
    /// Share of the window in which the thread could have run but waited for a CPU.
    pub queued_share: Option<f64>,
    /// The harness's floor over an operation's time.
    pub floor_share: Option<f64>,
}

/// An operation that costs this much more than one that shares its system call with many pays mostly for the call.
const CALL_SHARE: f64 = 0.5;

/// The rules in their order.
pub const RULES: &[Rule<RingSigns>] = &[
    Rule { name: "the harness", test: harness },
    Rule { name: "other programs", test: other_programs },
    Rule { name: "the kernel's thread", test: kernels_thread },
    Rule { name: "the system call", test: system_call },
    Rule { name: "the kernel's work", test: kernels_work },
    Rule { name: "the loop itself", test: loop_itself },
];

/// The first rule that applies, with its evidence.
pub fn find(signs: &RingSigns) -> CellLimit {
    super::find(RULES, signs, unknown)
}

fn unknown(signs: &RingSigns) -> Evidence {
    let sentence = match signs.busy {
        Some(busy) => format!("the thread runs {}: no recorded number explains the rest", percent(busy)),
        None => "CPU time was not recorded".to_owned(),
    };
    evidence(sentence, signs.busy.map(|busy| ("busy", busy)))
}

fn harness(signs: &RingSigns) -> Option<Evidence> {
    if signs.moves_nothing {
        return Some(evidence("there is no ring: this is the harness's own loop", [("moves_nothing", 1.0)]));
    }
    super::harness(signs.floor_share, |share| {
        format!("the harness takes {share} of an operation: the number is ours, not the ring's")
    })
}

fn other_programs(signs: &RingSigns) -> Option<Evidence> {
    let share = signs.queued_share.filter(|share| *share >= QUEUED)?;
    let sentence = format!("the thread could run but waits {} of the time for a CPU that others have", percent(share));
    Some(evidence(sentence, [("queued_share", share)]))
}

fn kernels_thread(signs: &RingSigns) -> Option<Evidence> {
    let cpus = signs.kernel_thread_cpus?;
    let busy = signs.busy?;
    let sentence = format!(
        "a thread of the kernel submits and runs {} of the time on a CPU of its own, next to ours with {}: both are in \
         the CPU time",
        percent(cpus),
        percent(busy)
    );
    Some(evidence(sentence, [("kernel_thread_cpus", cpus), ("busy", busy)]))
}

fn system_call(signs: &RingSigns) -> Option<Evidence> {
    let (own, least, nops) = (signs.nop_ns?, signs.cheapest_nop_ns?, signs.nops_per_enter?);
    let share = 1.0 - least / own;
    let others = if nops < 1.5 { "no other operations".into() } else { format!("{} operations", significant(nops, 3)) };
    let sentence = format!(
        "{} of the {} ns are io_uring_enter(2) itself, which {others} share: in larger batches an operation takes {} ns",
        percent(share),
        significant(own, 3),
        significant(least, 3)
    );
    (share >= CALL_SHARE)
        .then(|| evidence(sentence, [("nop_ns", own), ("cheapest_nop_ns", least), ("nops_per_enter", nops)]))
}

fn kernels_work(signs: &RingSigns) -> Option<Evidence> {
    let busy = signs.busy.filter(|busy| *busy >= BUSY)?;
    let system = signs.system_share.filter(|share| *share > 0.5)?;
    let ns = signs.nop_ns?;
    let sentence = format!(
        "{} of the thread's time is the kernel's: some {} of the {} ns that an operation takes",
        percent(system),
        significant(system * ns, 3),
        significant(ns, 3)
    );
    Some(evidence(sentence, [("busy", busy), ("system_share", system), ("nop_ns", ns)]))
}

fn loop_itself(signs: &RingSigns) -> Option<Evidence> {
    let busy = signs.busy.filter(|busy| *busy >= BUSY)?;
    let system = signs.system_share?;
    let sentence = format!("{} of the thread's time is spent outside the kernel", percent(1.0 - system));
    Some(evidence(sentence, [("busy", busy), ("system_share", system)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNKNOWN;

    fn check(signs: RingSigns, name: &str, sentence: &str) {
        let found = find(&signs);
        assert_eq!((found.name, found.sentence.as_str()), (name, sentence), "{signs:?}");
    }

    #[test]
    fn each_rule_fires_on_planted_numbers() {
        let busy = RingSigns { busy: Some(0.99), system_share: Some(0.9), nop_ns: Some(40.0), ..RingSigns::default() };
        check(
            RingSigns { moves_nothing: true, ..busy },
            "the harness",
            "there is no ring: this is the harness's own loop",
        );
        check(
            RingSigns { floor_share: Some(0.6), ..busy },
            "the harness",
            "the harness takes 60 % of an operation: the number is ours, not the ring's",
        );
        check(
            RingSigns { queued_share: Some(0.4), ..busy },
            "other programs",
            "the thread could run but waits 40 % of the time for a CPU that others have",
        );
        check(
            RingSigns { kernel_thread_cpus: Some(0.97), ..busy },
            "the kernel's thread",
            "a thread of the kernel submits and runs 97 % of the time on a CPU of its own, next to ours with 99 %: both are in \
             the CPU time",
        );
        check(
            RingSigns { nop_ns: Some(150.0), cheapest_nop_ns: Some(30.0), nops_per_enter: Some(1.0), ..busy },
            "the system call",
            "80 % of the 150 ns are io_uring_enter(2) itself, which no other operations share: in larger batches an \
             operation takes 30 ns",
        );
        check(
            RingSigns { cheapest_nop_ns: Some(38.0), nops_per_enter: Some(64.0), ..busy },
            "the kernel's work",
            "90 % of the thread's time is the kernel's: some 36 of the 40 ns that an operation takes",
        );
        check(
            RingSigns { system_share: Some(0.3), ..busy },
            "the loop itself",
            "70 % of the thread's time is spent outside the kernel",
        );
        check(RingSigns::default(), UNKNOWN, "CPU time was not recorded");
    }
}
