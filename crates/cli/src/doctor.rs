//! `doctor`: sources of noise and slow sockets on this machine, each with the command that fixes it.
//!
//! Observes the machine for a few seconds and changes nothing.
//!
//! Also the self-test (`--selftest`), which checks the statistics and the harness against known truth.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, thread};

use bytegauge_model::unit::significant;
use bytegauge_model::{Nanos, escape, kernel_faults};
use bytegauge_report::words::fit::wrap;
use bytegauge_selftest::harness_check;
use bytegauge_selftest::verify::{self, PUBLISHED, Scale, VerificationRow};
use bytegauge_sys::copy_probe::{self, SLOW_RATIO};
use bytegauge_sys::environment::MachineEnvironment;
use bytegauge_sys::proc_stat::{CpuTicks, MachineSample};
use bytegauge_sys::process_tree;
use bytegauge_sys::resource_limit::{Limit, open_files};
use bytegauge_sys::uring::{self, Missing};
use clap::ArgMatches;
use serde::Serialize;
use serde_json::json;

use crate::exit_code::{DONE, FAILED, Failure, INCONCLUSIVE, usage};
use crate::progress::Line;
use crate::{args, terminal};

/// Default of `--time`. CPU steal varies: a session measures for longer.
const LOOK: Nanos = Nanos(3_000_000_000);

/// Shorter observations see too few ticks of the kernel's counters, of 10 ms each.
const LOOK_MIN: Nanos = Nanos(100_000_000);

/// The longest observation; a session covers more.
const LOOK_MAX: Nanos = Nanos(600_000_000_000);

/// CPU steal is reported from this share of the CPUs on.
const STEAL: f64 = 0.01;

/// Other programs are reported from this CPU use on, in CPUs.
const BUSY: f64 = 0.2;

/// Programs that are named.
const BUSIEST: usize = 3;

/// And no program that used less, in CPUs.
const BUSIEST_MIN: f64 = 0.05;

/// Open files that a thousand connections with both ends in one process need, and some.
const FILES: u64 = 4096;

/// `SO_RCVBUF` that programs commonly request, bytes.
const SOCKET_BUFFER: u64 = 4 << 20;

/// Connections that come at once to a server that is loaded.
const BACKLOG: u64 = 4096;

/// Columns of the mark and the name of a finding.
const INDENT: usize = 15;

/// A finding needs this much room on any screen.
const WORDS_MIN: usize = 30;

/// How a finding concerns the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    /// The command fixes it, or the text names who can.
    Fix,
    /// Harmless or unknown.
    Info,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Symptom {
    /// The subject.
    name: &'static str,
    state: State,
    /// The fact, and why it matters.
    found: String,
    /// The command that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

/// Observed facts that the environment does not contain.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// Observation time.
    looked: Nanos,
    /// Share of the CPUs that the hypervisor took.
    steal: Option<f64>,
    /// The same since the machine was started.
    steal_since_boot: Option<f64>,
    /// CPU use of other programs, in CPUs.
    busy: Option<f64>,
    /// The busiest of them: name, process and CPU use, the busiest first.
    busiest: Vec<(String, u32, f64)>,
    files: Limit,
    /// `net.core.somaxconn`.
    backlog: Option<u64>,
    /// CPU time of reads to page + 8 and to page + 16, as a multiple of that of reads to a page.
    copies: Option<[f64; 2]>,
    /// Whether a filter refuses io_uring although the sysctl allows it.
    is_ring_filtered: bool,
}

/// `bytegauge doctor`.
pub fn doctor(matches: &ArgMatches) -> Result<u8, Failure> {
    let length = args::parsed::<Nanos>(matches, "time")?.unwrap_or(LOOK);
    if !(LOOK_MIN..=LOOK_MAX).contains(&length) {
        return usage(format!("--time: {length} is out of range: use {LOOK_MIN} to {LOOK_MAX}, such as 10s"));
    }
    let environment = MachineEnvironment::read();
    let symptoms = symptoms(&environment, &facts(length));
    match args::text(matches, "format") {
        Some("json") => terminal::print_json(&serde_json::json!(symptoms)),
        _ => terminal::print(&shown(&environment, &symptoms, terminal::width())),
    }
    let is_bad = symptoms.iter().any(|symptom| symptom.state == State::Fix);
    Ok(if is_bad && matches.get_flag("strict") { INCONCLUSIVE } else { DONE })
}

/// The findings in lines of at most `width` characters.
fn shown(environment: &MachineEnvironment, symptoms: &[Symptom], width: usize) -> String {
    let kernel = environment.kernel_release.as_deref().unwrap_or("an unknown kernel");
    let mut out = format!("bytegauge doctor · Linux {kernel}\n\n");
    for symptom in symptoms {
        let mark = match symptom.state {
            State::Good => "✓",
            State::Fix => "✗",
            State::Info => "·",
        };
        let lines = wrap(&symptom.found, width.saturating_sub(INDENT).max(WORDS_MIN));
        for (at, line) in lines.iter().enumerate() {
            let (mark, name) = if at == 0 { (mark, symptom.name) } else { (" ", "") };
            out.push_str(&format!("{mark} {name:<12} {line}\n"));
        }
        out.extend(symptom.command.iter().map(|command| format!("    $ {command}\n")));
    }
    let count = symptoms.iter().filter(|symptom| symptom.state == State::Fix).count();
    out.push_str(&match count {
        0 => "\nnothing to fix\n".to_owned(),
        count => format!("\n{count} to fix (✗); commands with sysctl last until the next boot\n"),
    });
    out
}

fn facts(length: Nanos) -> Facts {
    let look = || {
        let used = process_tree::used_by_each().unwrap_or_default();
        let before = MachineSample::read().ok()?;
        thread::sleep(Duration::from_nanos(length.0));
        let seen = MachineSample::read().ok()?.since(&before);
        let elapsed_ns = seen.at_ns.max(1) as f64;
        let cpus = seen.per_cpu.len().max(1) as f64;
        let ticks = |of: fn(&CpuTicks) -> u64| before.per_cpu.iter().map(of).sum::<u64>() as f64;
        Some(Facts {
            steal: Some(seen.steal_ns() as f64 / elapsed_ns / cpus),
            steal_since_boot: Some(ticks(|cpu| cpu.steal) / ticks(CpuTicks::total).max(1.0)),
            busy: Some(seen.busy_ns() as f64 / elapsed_ns),
            busiest: busiest(&used, &process_tree::used_by_each().unwrap_or_default(), elapsed_ns),
            ..Facts::default()
        })
    };
    Facts {
        looked: length,
        files: open_files(),
        backlog: fs::read_to_string("/proc/sys/net/core/somaxconn").ok().and_then(|text| text.trim().parse().ok()),
        copies: copy_probe::ratio_at(8).ok().zip(copy_probe::ratio_at(16).ok()).map(<[f64; 2]>::from),
        is_ring_filtered: uring::probe(&[]) == Err(Missing::Filtered),
        ..look().unwrap_or_default()
    }
}

/// The busiest other processes between two moments, without those that began or ended in between.
fn busiest(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>, elapsed_ns: f64) -> Vec<(String, u32, f64)> {
    let others = after.iter().filter(|(pid, _)| **pid != std::process::id());
    let used = others.filter_map(|(pid, ns)| Some((*pid, ns.saturating_sub(*before.get(pid)?) as f64 / elapsed_ns)));
    let mut used: Vec<(u32, f64)> = used.filter(|(_, cpus)| *cpus >= BUSIEST_MIN).collect();
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    used.into_iter().take(BUSIEST).filter_map(|(pid, cpus)| Some((process_tree::name(pid)?, pid, cpus))).collect()
}

fn symptoms(environment: &MachineEnvironment, facts: &Facts) -> Vec<Symptom> {
    let found = [
        ("governor", Some(governor(environment))),
        ("steal", steal(facts)),
        ("others", busy(facts)),
        ("control group", quota(environment)),
        ("open files", Some(files(facts.files))),
        ("sockets", socket_buffers(environment)),
        ("backlog", facts.backlog.map(backlog)),
        ("io_uring", io_uring(environment, facts)),
        ("buffers", facts.copies.map(buffers)),
        ("clock", clock(environment)),
        ("kernel", kernel_fault(environment)),
    ];
    let named = found.into_iter().filter_map(|(name, finding)| Some((name, finding?)));
    named.map(|(name, (state, found, command))| Symptom { name, state, found, command }).collect()
}

/// How a finding concerns the user, the fact, and the command that fixes it.
type Finding = (State, String, Option<String>);

fn good(found: impl Into<String>) -> Finding {
    (State::Good, found.into(), None)
}

fn info(found: impl Into<String>) -> Finding {
    (State::Info, found.into(), None)
}

fn fix(found: impl Into<String>, command: impl Into<String>) -> Finding {
    (State::Fix, found.into(), Some(command.into()))
}

fn governor(environment: &MachineEnvironment) -> Finding {
    let command = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    match environment.cpu.governor.as_deref() {
        Some("performance") => good("performance"),
        Some(other) => fix(format!("{other}: the clock changes while a trial runs"), command),
        None => info("not visible here, as in most virtual machines"),
    }
}

fn steal(facts: &Facts) -> Option<Finding> {
    let share = facts.steal?;
    // A few seconds can be without steal although a session had some.
    let since_boot = facts.steal_since_boot.map_or_else(String::new, |share| format!(", {} since boot", tenths(share)));
    let found = format!("the host took {} of the CPUs in these {}{since_boot}", tenths(share), facts.looked);
    if share < STEAL {
        return Some(good(found));
    }
    let advice = "only the owner of the host can give you dedicated CPUs; or measure at another hour";
    Some((State::Fix, format!("{found}; {advice}"), None))
}

/// `0.3 %`; a small share is not shown as 0.
fn tenths(share: f64) -> String {
    match share {
        share if share > 0.0 && share < 0.0005 => "< 0.1 %".into(),
        share => format!("{:.1} %", share * 100.0),
    }
}

fn busy(facts: &Facts) -> Option<Finding> {
    let cpus = facts.busy?;
    let found = format!("other programs used {cpus:.1} CPUs in these {}", facts.looked);
    if cpus < BUSY {
        return Some(good(found));
    }
    let each = facts.busiest.iter().map(|(name, pid, cpus)| format!("{name} (process {pid}) {cpus:.1}"));
    let which = match each.collect::<Vec<_>>().join(", ") {
        few if few.is_empty() => "see which".to_owned(),
        named => format!("most of it {named}"),
    };
    Some(fix(format!("{found}: {which}; end those that are yours"), "top -b -n 1 -o %CPU | head -n 15"))
}

/// A known fault of this kernel.
fn kernel_fault(environment: &MachineEnvironment) -> Option<Finding> {
    let fault = kernel_faults::of(environment.kernel_release.as_deref()?)?;
    Some(info(format!("{}: results show these drops where they occur", fault.sentence)))
}

fn quota(environment: &MachineEnvironment) -> Option<Finding> {
    let limit = environment.cgroup_cpu.as_ref()?.limit_cpus?;
    Some(info(format!(
        "at most {limit:.2} CPUs: a program that uses more is stopped for milliseconds; give the container more"
    )))
}

fn files(Limit { soft, hard }: Limit) -> Finding {
    if hard < FILES {
        let command = format!("sudo prlimit --pid $$ --nofile={FILES}:{FILES}  # of a service: LimitNOFILE=");
        fix(format!("{hard} at most: too few for a thousand connections"), command)
    } else if soft < FILES {
        info(format!("{soft}, raised to {hard} for measurements; your program has to raise it too"))
    } else {
        good(soft.to_string())
    }
}

fn socket_buffers(environment: &MachineEnvironment) -> Option<Finding> {
    let network = &environment.network;
    let (read, write) = (network.rmem_max_bytes?, network.wmem_max_bytes?);
    let [read_kib, write_kib] = [read, write].map(|bytes| bytes / 1024);
    Some(match read.min(write) < SOCKET_BUFFER {
        true => fix(
            format!("SO_RCVBUF is limited to {read_kib} KiB, SO_SNDBUF to {write_kib} KiB"),
            format!("sudo sysctl -w net.core.rmem_max={SOCKET_BUFFER} net.core.wmem_max={SOCKET_BUFFER}"),
        ),
        false => good(format!("SO_RCVBUF up to {read_kib} KiB, SO_SNDBUF up to {write_kib} KiB")),
    })
}

fn backlog(most: u64) -> Finding {
    let command = format!("sudo sysctl -w net.core.somaxconn={BACKLOG}");
    match most < BACKLOG {
        true => fix(format!("listen(2) allows {most} waiting connections at most"), command),
        false => good(format!("up to {most} connections may wait")),
    }
}

fn io_uring(environment: &MachineEnvironment, facts: &Facts) -> Option<Finding> {
    const COMMAND: &str = "sudo sysctl -w kernel.io_uring_disabled=0";
    Some(match environment.io_uring_disabled? {
        0 if facts.is_ring_filtered => info(
            "refused by a filter of this container or sandbox: allow io_uring_setup, io_uring_enter and io_uring_register \
             there (podman, docker: --security-opt seccomp=unconfined)",
        ),
        0 => good("allowed"),
        1 => fix("allowed for one group only", COMMAND),
        _ => fix("switched off", COMMAND),
    })
}

/// Whether programs lose CPU time by the addresses that malloc gives.
fn buffers(ratios: [f64; 2]) -> Finding {
    let [after_8, after_16] = ratios;
    let found = format!(
        "a read to page + 8 takes {after_8:.1}×, to page + 16 (malloc from 128 KiB on) {after_16:.1}× the CPU time of one to a page"
    );
    match ratios.into_iter().any(|ratio| ratio >= SLOW_RATIO) {
        true => info(format!("{found}: align read buffers to 64 bytes (docs/buffer-sizes.md)")),
        false => good(format!("{found} ({SLOW_RATIO}× or more where addresses matter)")),
    }
}

fn clock(environment: &MachineEnvironment) -> Option<Finding> {
    let source = environment.cpu.clock_source.as_deref()?;
    // Those that the vDSO reads without a system call (vdso(7)); acpi_pm and hpet take one.
    Some(match source {
        "hpet" | "acpi_pm" | "jiffies" => info(format!(
            "{source}: every reading is a system call; boot with clocksource=tsc if the CPU has a stable one"
        )),
        source => good(source),
    })
}

// `bytegauge doctor --selftest`: checks the statistics on data with known truth, and the harness against itself.

/// The default seed, fixed so that two users see the same table.
const SEED: u64 = 1;

/// The scales; a glance is for tests of the command.
pub const SCALES: [(&str, Scale); 2] = [("test", Scale::Glance), ("minute", Scale::Minute)];

/// Runs both halves and prints a summary; the document has every row.
pub fn selftest(matches: &ArgMatches) -> Result<u8, Failure> {
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(SEED);
    let scale = SCALES.iter().find(|(name, _)| args::text(matches, "scale") == Some(name));
    let scale = scale.map_or(Scale::Minute, |(_, scale)| *scale);
    let mut line = Line::on_terminal();
    let mut show = |done: u64, total: u64, what: &str| {
        let step = format!("{done} of {total} steps done: {}", escape::line(what));
        line.iter_mut().for_each(|line| line.put(&step));
    };
    let harness = harness_check::run(scale, seed, &mut show);
    let harness = harness.map_err(Failure::failed)?;
    let simulated = verify::run(scale, seed, |done, total, what| show(done as u64, total as u64, what));
    line.iter_mut().for_each(Line::remove);
    let measured = harness.len();
    let rows: Vec<VerificationRow> = harness.into_iter().chain(simulated).collect();
    let failed = rows.iter().filter(|row| !row.passed).count();
    match args::text(matches, "format") {
        Some("json") => terminal::print_json(&json!({"seed": seed, "failed": failed, "rows": rows})),
        _ => {
            let text = summary(&rows[..measured], &rows[measured..], seed);
            terminal::print(&terminal::fitted(text.lines(), terminal::COLUMNS));
        }
    }
    Ok(if failed == 0 { DONE } else { FAILED })
}

/// The facts that a user needs: the numbers of this machine, the failed rows, and what to do about them.
fn summary(harness: &[VerificationRow], simulated: &[VerificationRow], seed: u64) -> String {
    let mut text = format!("bytegauge doctor --selftest · seed {seed}\n\nMeasured on this machine\n");
    for row in harness {
        text += &format!("{:>10}  {}\n", format!("{} {}", significant(row.got, 2), row.unit).trim_end(), row.name);
    }
    let judged = |rows: &[VerificationRow], control| {
        let judged = rows.iter().filter(|row| row.target != PUBLISHED && row.negative_control == control);
        let (passed, failed): (Vec<_>, Vec<_>) = judged.partition(|row| row.passed);
        (passed.len(), passed.len() + failed.len())
    };
    let ((held, of), (seen, controls)) = (judged(simulated, false), judged(simulated, true));
    text += &format!(
        "\nSimulated, where the truth is known\n  {held} of {of} properties of the statistics hold; {seen} of {controls} methods with a deliberate mistake are detected.\n"
    );
    let failed: Vec<&VerificationRow> = harness.iter().chain(simulated).filter(|row| !row.passed).collect();
    if !failed.is_empty() {
        text += "\nFailed\n";
    }
    for row in &failed {
        text += &format!("  {}: {} {}, target {}\n", row.name, significant(row.got, 4), row.unit, row.target);
    }
    text += "\nResult\n";
    text += &match failed.len() {
        0 => "  Passed: the statistics and the measurement work here as documented.\n".to_owned(),
        failed => format!(
            "  Failed: {failed} of {}. A check can fail by chance, in about one run of eight; those of this machine also fail if it is busy (`bytegauge doctor`). Repeat with another seed: bytegauge doctor --selftest --seed {}\n  If the same check fails again, report it as a bug, with the output of --format json.\n",
            of + controls + judged(harness, false).1,
            seed.wrapping_add(1)
        ),
    };
    // A check of the harness without a target has a note with the reason.
    let open = harness.iter().filter(|row| row.target == PUBLISHED && !row.note.is_empty()).count();
    if open > 0 {
        text += &format!(
            "  Not judged: {open} checks of small slowdowns, since the rates of this machine vary too much now: bytegauge doctor\n"
        );
    }
    text + "  All checks with their targets: bytegauge doctor --selftest --format json\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_to_fix_have_a_command() {
        let mut environment = MachineEnvironment::default();
        environment.cpu.governor = Some("powersave".into());
        environment.network.rmem_max_bytes = Some(212_992);
        environment.network.wmem_max_bytes = Some(212_992);
        environment.io_uring_disabled = Some(2);
        let facts = Facts {
            looked: Nanos(3_000_000_000),
            steal: Some(0.2),
            steal_since_boot: Some(0.1),
            busy: Some(1.5),
            busiest: vec![("cc1".into(), 77, 0.94), ("rustc".into(), 78, 0.4)],
            files: Limit { soft: 1024, hard: 2048 },
            backlog: Some(128),
            copies: Some([2.4, 6.0]),
            is_ring_filtered: false,
        };
        let found = symptoms(&environment, &facts);
        let to_fix: Vec<&str> = found.iter().filter(|one| one.state == State::Fix).map(|one| one.name).collect();
        assert_eq!(to_fix, ["governor", "steal", "others", "open files", "sockets", "backlog", "io_uring"]);
        let has_advice = |one: &Symptom| one.command.is_some() || one.found.contains("the owner of the host");
        assert!(found.iter().all(|one| (one.state == State::Fix) == has_advice(one)), "{found:?}");
        let text = shown(&environment, &found, usize::MAX);
        assert!(text.contains("✗ governor     powersave") && text.contains("7 to fix"), "{text}");
        assert!(text.lines().count() <= 35, "{text}");
        assert!(
            text.contains("CPUs in these 3 s: most of it cc1 (process 77) 0.9, rustc (process 78) 0.4; end"),
            "{text}"
        );
        let narrow = shown(&environment, &found, 80);
        let wide: Vec<&str> =
            narrow.lines().filter(|line| !line.contains("    $ ") && line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(&text));
    }

    #[test]
    fn busy_processes_are_named() {
        // The calling process and new ones are omitted; the parent of this test is alive.
        let parent = std::os::unix::process::parent_id();
        let before = BTreeMap::from([(parent, 5_000_000), (std::process::id(), 0)]);
        let after = BTreeMap::from([(parent, 505_000_000), (std::process::id(), 900_000_000), (u32::MAX, 900_000_000)]);
        let found = busiest(&before, &after, 1e9);
        assert!(matches!(found.as_slice(), [(name, pid, cpus)] if !name.is_empty() && *pid == parent && *cpus == 0.5));
        assert!(busiest(&before, &before, 1e9).is_empty());
    }

    #[test]
    fn quiet_machine_has_nothing_to_fix() {
        let mut environment = MachineEnvironment::default();
        environment.cpu.governor = Some("performance".into());
        environment.network.rmem_max_bytes = Some(8 << 20);
        environment.network.wmem_max_bytes = Some(8 << 20);
        environment.io_uring_disabled = Some(0);
        let facts = Facts {
            looked: Nanos(3_000_000_000),
            steal: Some(0.0),
            steal_since_boot: Some(0.0004),
            busy: Some(0.0),
            busiest: Vec::new(),
            files: Limit { soft: 8192, hard: 8192 },
            backlog: Some(4096),
            copies: Some([1.0, 1.1]),
            is_ring_filtered: false,
        };
        let found = symptoms(&environment, &facts);
        assert!(found.iter().all(|one| one.state == State::Good), "{found:?}");
        let text = shown(&environment, &found, usize::MAX);
        assert!(text.ends_with("nothing to fix\n"), "{text}");
        // A moment without steal does not contradict a session that met some.
        assert!(text.contains("the host took 0.0 % of the CPUs in these 3 s, < 0.1 % since boot"), "{text}");
        // As in a container, whose sysctl is the host's.
        let filtered = io_uring(&environment, &Facts { is_ring_filtered: true, ..facts });
        assert_eq!(filtered.expect("a finding").0, State::Info);
    }

    #[test]
    fn unknown_facts_have_no_finding() {
        let files = Limit { soft: 8192, hard: 8192 };
        let found = symptoms(&MachineEnvironment::default(), &Facts { files, ..Facts::default() });
        assert_eq!(found.iter().map(|one| one.name).collect::<Vec<_>>(), ["governor", "open files"]);
        assert_eq!(found[0].state, State::Info);
    }
}

#[cfg(test)]
mod selftest_tests {
    use super::*;

    #[test]
    fn summary_shows_failures_and_next_steps() {
        let row = |name: &str, target: &str, passed, negative_control| VerificationRow {
            name: name.into(),
            target: target.into(),
            got: 12.34,
            unit: "%".into(),
            passed,
            negative_control,
            note: String::new(),
        };
        let harness = [row("equal options differ", "0 to 13 %", true, false), row("spread", PUBLISHED, true, false)];
        let sound = [row("coverage", "94 to 97 %", true, false), row("no blocks", "must miss: 95 %", true, true)];
        let passed = summary(&harness, &sound, 1);
        for line in ["      12 %  spread\n", "  1 of 1 properties of the statistics hold; 1 of 1 methods", "  Passed: "]
        {
            assert!(passed.contains(line), "{line}: {passed}");
        }
        assert!(!passed.contains("Failed") && !passed.contains("coverage"), "{passed}");
        let failed = summary(&harness, &[row("bias", "at most 1 %", false, false)], 7);
        for line in
            ["  bias: 12.34 %, target at most 1 %\n", "  Failed: 1 of 2.", "bytegauge doctor --selftest --seed 8\n"]
        {
            assert!(failed.contains(line), "{line}: {failed}");
        }
    }
}
