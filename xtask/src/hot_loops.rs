//! `cargo xtask hot-loops`: no measured loop has a locked instruction or takes a lock.
//!
//! Disassembles the release build with objdump, which is in the package that has the linker. From each loop of [`LOOPS`]
//! it follows the calls to functions of this workspace, except those of [`SELDOM`], which are not called for every message. A
//! lock in a loop would distort comparisons of engines, and no test without a clock would detect it. Tokio's tasks are not
//! read, since their code is Tokio's. Allocations are not looked for: error texts allocate, and a disassembly does not show
//! when that code runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command as Process, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgMatches, Command};

use xtask::cargo;

/// Loops: a part of the function's path, and its last segment. The compiler may make several functions of a generic one,
/// and all of them are read. A loop that is not in the program fails the check: it was renamed, or is inlined.
const LOOPS: &[(&str, &str)] = &[
    // Streams with a thread per flow, servers of datagrams, and the floor.
    ("engine::blocking::", "run_on"),
    // Other workloads with a thread per flow.
    ("engine::blocking::thread_per_flow::Worker", "run"),
    // epoll, io_uring and clients of datagrams.
    ("engine::event_loop::Driver", "run"),
    ("relay::thread_per_direction::", "copy_loop"),
];

/// Parts of the names of functions that loops call, but not for every message, and when they are called. A function that is
/// not in the program is no breach: builds differ in which of them are inlined.
const SELDOM: &[(&str, &str)] = &[
    ("Meter::lap", "a lap ends"),
    ("Tally::sums", "a stream with a pace waits"),
    ("Recorder::with", "a call fails, or a flow ends"),
    ("recorder::enter", "a flow has kept as many calls as it may"),
    ("FlowLog::next_attempt_ns", "a connection attempt failed"),
    ("FlowLog::failed", "a call fails"),
    ("DatagramFlow::failed", "the kernel refuses a datagram"),
    ("Connector::", "a connection is opened"),
    ("tls::session::Session::new", "an encrypted connection is opened"),
    ("Share::note", "the window opens or closes"),
    ("::add_accepted", "a connection is accepted"),
    ("Port>::listen", "an end listens again after descriptors ran out"),
    ("::leave", "a flow ends"),
    ("::give_up", "a flow ends"),
    ("Worker<P>::connect", "a connection is opened"),
    ("FlowState<F,C>::close", "a connection ends"),
    ("Unadmitted::", "a connection from another host shows its ticket"),
    ("ServerFlow::finish_admission", "a connection from another host has shown its ticket"),
    ("ServerWorker::opens", "a connection from another host is admitted"),
    ("transport::options::report", "a connection ends, and its options are read"),
    ("AdmittedSenders::looked_up", "a datagram from another host comes from a new address"),
    ("::planted", "a fault is planted"),
    ("::check", "bytes are verified"),
    ("drop_in_place", "the state of a flow is dropped"),
];

/// Parts of the names of functions that take a lock.
const LOCKS: &[&str] = &["Mutex", "RwLock", "Condvar", "futex", "pthread_mutex"];

/// Functions of this workspace with one name, as they are in the program.
#[derive(Debug, Default)]
struct FoundFunctions {
    /// Instructions that lock the bus or a cache line.
    locked: Vec<String>,
    /// Functions that they call by name.
    calls: BTreeSet<String>,
    /// Addresses in the program that hold pointers to functions that they call.
    slots: BTreeSet<u64>,
}

/// The functions of a program, by name.
type FunctionsByName = BTreeMap<String, FoundFunctions>;

/// `cargo xtask hot-loops`.
pub fn command() -> Command {
    Command::new("hot-loops")
        .about("Look for locked instructions and locks in the measured loops")
        .arg(Arg::new("program").value_name("PROGRAM").help("A release build to read [default: builds one]"))
}

/// Reads the loops of the program.
///
/// # Errors
/// With every loop that has a lock or a locked instruction, or is not in the program.
pub fn run(matches: &ArgMatches) -> Result<()> {
    check(&match matches.get_one::<String>("program") {
        Some(program) => PathBuf::from(program),
        None => cargo::release_build()?,
    })
}

/// Reads the loops of a release build.
///
/// # Errors
/// As [`run`].
pub fn check(program: &Path) -> Result<()> {
    let relocations = objdump(program, &["--dynamic-reloc"], |text| {
        Ok(text
            .split(b'\n')
            .map_while(Result::ok)
            .filter_map(|line| relocation(&String::from_utf8_lossy(&line)))
            .collect())
    })?;
    let functions =
        objdump(program, &["--disassemble", "--demangle", "--no-show-raw-insn"], |text| read(text, &relocations))?;
    let (reached, breaches) = inspect(&functions);
    ensure!(breaches.is_empty(), "{}", breaches.join("\n"));
    println!("{} loops in {reached} functions: no locked instruction, no lock", LOOPS.len());
    Ok(())
}

/// Runs objdump on a program and parses its output.
fn objdump<T>(program: &Path, args: &[&str], read: impl FnOnce(BufReader<ChildStdout>) -> Result<T>) -> Result<T> {
    let started = Process::new("objdump").args(args).arg(program).stdout(Stdio::piped()).spawn();
    let mut objdump = started.context("starting objdump (Debian: binutils)")?;
    let found = read(BufReader::new(objdump.stdout.take().context("objdump's output")?))?;
    ensure!(objdump.wait()?.success(), "objdump cannot read {}", program.display());
    Ok(found)
}

/// A relocated address: its location and its value, relative to the program.
fn relocation(line: &str) -> Option<(u64, u64)> {
    let (place, rest) = line.split_once(' ')?;
    let (_, address) = rest.split_once("_RELATIVE")?.1.split_once("*ABS*+0x")?;
    Some((u64::from_str_radix(place, 16).ok()?, u64::from_str_radix(address.trim(), 16).ok()?))
}

/// The functions of this workspace in a disassembly. Calls to other crates use the addresses in `relocations`.
fn read(text: impl BufRead, relocations: &BTreeMap<u64, u64>) -> Result<FunctionsByName> {
    let (mut program, mut names) = (FunctionsByName::new(), BTreeMap::new());
    let mut present = None;
    for line in text.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some((address, name)) = name_of(&line) {
            names.insert(address, name.to_owned());
            present = is_ours(name).then(|| name.to_owned());
            if let Some(name) = &present {
                program.entry(name.clone()).or_default();
            }
        } else if let (Some(found), Some((_, instruction))) =
            (present.as_ref().and_then(|name| program.get_mut(name)), line.split_once(":\t"))
        {
            let instruction = instruction.trim();
            if is_locked(instruction) {
                found.locked.push(instruction.to_owned());
            }
            found.calls.extend(called(instruction).map(str::to_owned));
            found.slots.extend(place_of(instruction).filter(|place| relocations.contains_key(place)));
        }
    }
    for found in program.values_mut() {
        let targets = found.slots.iter().filter_map(|place| names.get(relocations.get(place)?));
        found.calls.extend(targets.cloned());
    }
    Ok(program)
}

/// The address that an instruction reads: `# 10c1028 <…>`.
fn place_of(instruction: &str) -> Option<u64> {
    let (_, comment) = instruction.split_once("# ")?;
    u64::from_str_radix(comment.split(' ').next()?, 16).ok()
}

/// The number of functions that the loops reach, and a line for each breach.
fn inspect(program: &FunctionsByName) -> (usize, Vec<String>) {
    let (mut breaches, mut reached) = (BTreeSet::new(), BTreeSet::new());
    let mut due: Vec<&str> = Vec::new();
    for (path, function) in LOOPS {
        let loops: Vec<&str> =
            program.keys().map(String::as_str).filter(|name| is_loop(name, path, function)).collect();
        if loops.is_empty() {
            breaches.insert(format!("{path}…{function} is not in the program: was it renamed, or is it inlined now?"));
        }
        due.extend(loops);
    }
    while let Some(name) = due.pop() {
        let Some(found) = program.get(name).filter(|_| reached.insert(name)) else { continue };
        if !found.locked.is_empty() {
            breaches.insert(format!("{name} has locked instructions: {}", found.locked.join("; ")));
        }
        for called in found.calls.iter().filter(|called| *called != name) {
            if SELDOM.iter().any(|(part, _)| called.contains(part)) {
                continue;
            } else if is_ours(called) {
                due.push(called);
            } else if LOCKS.iter().any(|part| called.contains(part)) {
                breaches.insert(format!("{name} calls {called}"));
            }
        }
    }
    (reached.len(), breaches.into_iter().collect())
}

fn is_loop(name: &str, path: &str, function: &str) -> bool {
    let last = name.rsplit_once("::").map_or("", |(_, last)| last);
    name.contains("bytegauge_traffic") && name.contains(path) && last.split('<').next() == Some(function)
}

fn is_ours(name: &str) -> bool {
    name.contains("bytegauge_")
}

/// The function that begins with this line, and its address: `0000000000401000 <name>:`.
fn name_of(line: &str) -> Option<(u64, &str)> {
    let (address, name) = line.split_once(" <")?;
    Some((u64::from_str_radix(address, 16).ok()?, name.strip_suffix(">:")?))
}

/// Whether an instruction keeps other CPUs from memory: `lock`, and `xchg` with memory, which locks by itself (Intel SDM,
/// volume 2, XCHG); on aarch64 the exclusive and the atomic ones, and the functions that replace them. An addition of 0 to the stack is
/// only a fence, which a ring needs whose kernel thread may be asleep.
fn is_locked(instruction: &str) -> bool {
    let mut words = instruction.split_whitespace();
    let (mnemonic, operands) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let atomic = ["ldxr", "ldaxr", "stxr", "stlxr", "ldadd", "ldset", "ldclr", "ldeor", "swp", "cas"];
    mnemonic == "lock" && !instruction.starts_with("lock orl $0x0,-0x40(%rsp)")
        || mnemonic.starts_with("xchg") && operands.contains('(')
        || cfg!(target_arch = "aarch64") && atomic.iter().any(|start| mnemonic.starts_with(start))
        || instruction.contains("__aarch64_")
}

/// The function that an instruction calls or ends in, if it is another one by name.
fn called(instruction: &str) -> impl Iterator<Item = &str> {
    // The linker turns a call through the global offset table into `addr32 call`.
    let instruction = instruction.strip_prefix("addr32 ").unwrap_or(instruction);
    let is_call = ["call", "jmp", "bl ", "b "].iter().any(|start| instruction.starts_with(start));
    let name = instruction.split_once('<').and_then(|(_, rest)| rest.rsplit_once('>')).map(|(name, _)| name);
    // A target within the function is not a call.
    name.filter(|name| is_call && !name.contains("+0x")).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The breaches of a program of one loop with these instructions and of functions that it may call, without those of
    /// missing functions.
    fn breaches(instructions: &[&str]) -> Vec<String> {
        let lines: String = instructions.iter().map(|text| format!("    10a4:\t{text}\n")).collect();
        let text = format!(
            "0000000000001000 <bytegauge_traffic::relay::thread_per_direction::copy_loop>:\n{lines}\n\
             0000000000002000 <bytegauge_traffic::locks>:\n    2000:\tlock incq (%rax)\n"
        );
        let relocations =
            BTreeMap::from([relocation("00000000010c1028 R_X86_64_RELATIVE  *ABS*+0x0000000000002000").unwrap()]);
        let (_, breaches) = inspect(&read(text.as_bytes(), &relocations).unwrap());
        breaches.into_iter().filter(|breach| !breach.contains("not in the program")).collect()
    }

    #[test]
    fn locked_instructions_are_seen() {
        for bad in ["lock xadd %rax,0x10(%rdi)", "lock cmpxchg %ecx,(%rbx)", "xchg   %al,0x30(%rcx)"] {
            assert_eq!(breaches(&[bad]).len(), 1, "{bad}");
        }
        assert!(breaches(&["xchg   %ax,%ax", "mov    %rax,(%rbx)", "nopw   0x0(%rax,%rax,1)"]).is_empty());
    }

    #[test]
    fn calls_are_followed() {
        for call in [
            "call   2000 <bytegauge_traffic::locks>",
            "addr32 call 2000 <bytegauge_traffic::locks>",
            "jmp    2000 <bytegauge_traffic::locks>",
            "call   *0x37b6ff(%rip)        # 10c1028 <_DYNAMIC+0x9eb0>",
            "mov    0x37b6ff(%rip),%r15        # 10c1028 <_DYNAMIC+0x9eb0>",
        ] {
            let locks = breaches(&[call]);
            assert_eq!(locks, ["bytegauge_traffic::locks has locked instructions: lock incq (%rax)"]);
        }
        assert!(
            breaches(&["jne    10a4 <bytegauge_traffic::locks+0x30>", "call *0x1(%rip) # 4f0 <recv@GLIBC>"]).is_empty()
        );
    }

    #[test]
    fn locks_are_seen() {
        let lock = "call   2f0 <std::sys::sync::mutex::futex::Mutex::lock_contended>";
        assert_eq!(breaches(&[lock, "call   3f0 <recv@GLIBC_2.2.5>"]).len(), 1);
    }

    #[test]
    fn a_missing_loop_is_a_breach() {
        let (reached, breaches) = inspect(&FunctionsByName::new());
        assert_eq!((reached, breaches.len()), (0, LOOPS.len()), "{breaches:?}");
    }
}
