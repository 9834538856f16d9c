//! Traces the system calls of a running program and then releases it unharmed (ptrace(2)).
//!
//! A program is traced for a moment at a time: its threads are seized, which stops none; each is asked to stop, continues
//! from call to call, and is released at its next stop. Interrupted waits are restarted. If the tracing thread ends, the
//! kernel lets all traced threads continue.
//!
//! A thread traces the threads that it seized; no other thread can. Every stop costs the program two context switches, so
//! callers must warn the user.
//!
//! Never changes the program's behaviour.

mod calls;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use calls::Shape;
pub use calls::Way;

use crate::io::IOV_MAX;
use crate::kernel::OWN_ARCH;
use crate::process_tree::{numbers, process_of};
use crate::{clock, errno};

/// Pieces of a message that are read. More are rare, and their sizes do not concern buffers.
const PIECES_MAX: usize = 64;

/// Messages of a call that are read (the kernel takes 1024, `UIO_MAXIOV`).
const MESSAGES_MAX: usize = 64;

/// A system call that has returned, while its thread is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The kernel's name of the call.
    pub name: &'static str,
    /// The effect of the call.
    pub did: Did,
}

/// The effect of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// Moved bytes, or tried to.
    Moved(Vec<Transfer>),
    /// Waited until descriptors could be read or written.
    Waited,
    /// Ended a descriptor.
    Ended(i32),
    /// Handed this number of operations to an io_uring, whose sizes are not visible here.
    Submitted(u64),
}

/// Bytes over one descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The descriptor.
    pub fd: i32,
    /// Which way.
    pub way: Way,
    /// Bytes asked for; `None` where the program's memory could not be read.
    pub asked: Option<u64>,
    /// Bytes moved, or the number of the error, negative.
    pub moved: i64,
    /// Pieces of memory that the call named.
    pub pieces: u64,
    /// The address of the first piece of memory; `None` for transfers within the kernel, and where the program's memory could not be
    /// read.
    pub address: Option<u64>,
    /// Messages that it moved: more than one by `recvmmsg` and `sendmmsg` alone.
    pub messages: u64,
}

impl Transfer {
    /// One message, of one piece somewhere within the kernel.
    fn new(fd: i32, way: Way, asked: Option<u64>, moved: i64) -> Transfer {
        Transfer { fd, way, asked, moved, pieces: 1, address: None, messages: u64::from(moved >= 0) }
    }
}

/// Something about the threads that are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A call returned.
    Called(Called),
    /// A thread or a process has ended; of a process with its status.
    Ended(u32, Option<i32>),
    /// A process runs another program from now on.
    Executed(u32),
    /// A process uses the calls of another architecture: a 32-bit program.
    OtherArchitecture(u32),
}

/// The cost of tracing itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCost {
    /// Times that a thread was stopped.
    pub stops: u64,
    /// Time from the report of a stop until the thread could continue, nanoseconds; the cost of waking is not included.
    pub held_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entered {
    number: u64,
    args: [u64; 6],
}

#[derive(Clone, Copy, Debug, Default)]
struct TracedThread {
    pid: i32,
    entered: Option<Entered>,
}

/// The threads that the calling thread traces.
#[derive(Debug, Default)]
pub struct Tracer {
    tasks: BTreeMap<i32, TracedThread>,
    letting_go: bool,
    cost: TraceCost,
}

impl Tracer {
    /// Traces no thread yet.
    pub fn new() -> Tracer {
        Tracer::default()
    }

    /// Begins to trace all threads of a process.
    ///
    /// # Errors
    ///
    /// `ESRCH` if it has ended, `EPERM` if it may not be traced or another process traces it, `ENOSYS` on an architecture
    /// whose calls are not in the table.
    pub fn seize(&mut self, pid: u32) -> io::Result<()> {
        // The registers of a call are not known for riscv64.
        if OWN_ARCH.is_none() || cfg!(target_arch = "riscv64") {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        let folder = format!("/proc/{pid}/task");
        // Threads may start others before they are seized: until a look finds none that is new.
        loop {
            let mut found = 0;
            for tid in numbers(&folder)?.map(|tid| tid as i32) {
                if self.tasks.contains_key(&tid) {
                    continue;
                }
                match seize(tid) {
                    Ok(()) => {
                        found += 1;
                        self.tasks.insert(tid, TracedThread { pid: pid as i32, entered: None });
                        // One that has ended meanwhile is heard of.
                        let _ = interrupt(tid);
                    }
                    Err(error) if tid as u32 == pid => return Err(error),
                    // A thread that was starting or ending: traced by its parent's event, or gone.
                    Err(_) => {}
                }
            }
            if found == 0 {
                return Ok(());
            }
        }
    }

    /// Whether no thread is traced.
    pub fn has_no_threads(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The cost of tracing up to now.
    pub fn cost(&self) -> TraceCost {
        self.cost
    }

    /// From now on [`Tracer::next`] lets every thread go that stops, wherever it is.
    pub fn let_go(&mut self) {
        self.letting_go = true;
    }

    /// Asks the threads that are still traced to stop, since blocked ones do not stop by themselves. A write that has moved
    /// a part of its bytes and is blocked returns that part, as it does for any stop (signal(7)), so wait a moment first if
    /// there is time.
    pub fn insist(&self) {
        for tid in self.tasks.keys() {
            // One that has ended is heard of.
            let _ = interrupt(*tid);
        }
    }

    /// Waits for the next event, passes it to `look` while the thread is stopped, and lets the thread
    /// continue. Also returns when a signal interrupts the waiting ([`crate::interrupt`]).
    ///
    /// # Errors
    ///
    /// Whatever waitpid(2) returns; none is expected.
    pub fn next(&mut self, look: &mut dyn FnMut(&TraceEvent)) -> io::Result<()> {
        let (tid, status) = match wait() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                self.tasks.clear();
                return Ok(());
            }
            found => found?,
        };
        let heard_ns = clock::monotonic_ns();
        if !libc::WIFSTOPPED(status) {
            let task = self.tasks.remove(&tid);
            let is_process = task.is_none_or(|task| task.pid == tid);
            look(&TraceEvent::Ended(tid as u32, is_process.then_some(status)));
            return Ok(());
        }
        self.stopped(tid, status, look);
        self.cost.stops += 1;
        self.cost.held_ns += clock::monotonic_ns().saturating_sub(heard_ns);
        Ok(())
    }

    /// Handles the stop of one thread. A request that fails means that the thread was killed meanwhile, which is reported.
    fn stopped(&mut self, tid: i32, status: libc::c_int, look: &mut dyn FnMut(&TraceEvent)) {
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16;
        self.tasks.entry(tid).or_insert_with(|| TracedThread {
            pid: process_of(tid as u32).map_or(tid, |pid| pid as i32),
            entered: None,
        });
        let at_call = signal == libc::SIGTRAP | 0x80;
        let begins = at_call && self.at_call(tid, look);
        if event == libc::PTRACE_EVENT_EXEC {
            // All threads but the one that goes on are gone, and it has the process's number (execve(2)).
            self.tasks.retain(|other, task| task.pid != tid || *other == tid);
            look(&TraceEvent::Executed(tid as u32));
        }
        // Any other is on its way to the program, which gets it.
        let kept = if at_call || event != 0 { 0 } else { signal };
        if self.letting_go && begins {
            // A stop that was asked for would end a call that waits, and only its exit can restart it.
            let _ = go_on(tid, kept);
            let _ = interrupt(tid);
        } else if self.letting_go {
            // Any stop cancels an earlier interrupt request (kernel/signal.c, `ptrace_stop`), so it does not affect later
            // calls. A call that the stop cut short is restarted.
            let _ = restart(tid);
            let _ = detach(tid, kept);
            self.tasks.remove(&tid);
        } else if event == libc::PTRACE_EVENT_STOP && signal != libc::SIGTRAP {
            let _ = listen(tid);
        } else {
            if event == libc::PTRACE_EVENT_STOP {
                let _ = restart(tid);
            }
            let _ = go_on(tid, kept);
        }
    }

    /// Handles a stop at a system call; returns whether the call begins.
    fn at_call(&mut self, tid: i32, look: &mut dyn FnMut(&TraceEvent)) -> bool {
        let Ok(info) = call_info(tid) else { return false };
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        let pid = task.pid;
        let begins = info.op == ENTRY;
        if Some(info.arch) != OWN_ARCH {
            look(&TraceEvent::OtherArchitecture(pid as u32));
        } else if begins {
            let [number, a, b, c, d, e, f, _] = info.words;
            task.entered = Some(Entered { number, args: [a, b, c, d, e, f] });
        } else if info.op == EXIT {
            let called = task.entered.take().and_then(|entered| called(pid, tid, &entered, info.words[0] as i64));
            called.into_iter().for_each(|called| look(&TraceEvent::Called(called)));
        }
        begins
    }
}

/// A call that has ended; `None` if it is not known.
fn called(pid: i32, tid: i32, entered: &Entered, result: i64) -> Option<Called> {
    let (name, shape) = calls::known(entered.number)?;
    Some(Called { pid: pid as u32, tid: tid as u32, name, did: did(pid, shape, &entered.args, result)? })
}

/// The effect of a call, from its arguments and its result.
fn did(pid: i32, shape: Shape, args: &[u64; 6], result: i64) -> Option<Did> {
    let fd = args[0] as i32;
    let one = |way, memory: Option<Pieces>, pieces| {
        let (asked, address) = (memory.map(|memory| memory.bytes), memory.and_then(|memory| memory.address));
        Did::Moved(vec![Transfer { pieces, address, ..Transfer::new(fd, way, asked, result) }])
    };
    Some(match shape {
        Shape::Bytes(way) => one(way, Some(Pieces { bytes: args[2], address: Some(args[1]) }), 1),
        Shape::Pieces(way) => one(way, pieces(pid, args[1], args[2]), args[2]),
        Shape::Message(way) => {
            let (memory, count) = message(pid, args[1]).unzip();
            one(way, memory.flatten(), count.unwrap_or(1))
        }
        Shape::Messages(way) => Did::Moved(vec![messages(pid, fd, way, args[1], result)]),
        Shape::Pass { from, to, bytes } => {
            let side = |fd: u64, way| Transfer::new(fd as i32, way, Some(args[bytes]), result);
            Did::Moved(vec![side(args[from], Way::In), side(args[to], Way::Out)])
        }
        Shape::Wait => Did::Waited,
        // close(2) has closed the descriptor even if it returns an error.
        Shape::End(at) => Did::Ended(args[at] as i32),
        Shape::Ring => Did::Submitted(u64::try_from(result).ok()?),
    })
}

/// Words of 64 bits of another process.
fn words(pid: i32, address: u64, count: usize) -> Option<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    let read = memory(pid, address, &mut bytes).ok()?;
    (read == bytes.len()).then(|| bytes.chunks_exact(8).map(word).collect())
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The memory that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pieces {
    /// The sum of the lengths.
    bytes: u64,
    /// Where the first piece begins; `None` without a piece.
    address: Option<u64>,
}

/// Pieces of memory (struct iovec: an address, a length). The traced program may write any numbers there while they are read,
/// so a sum stops at the largest number.
fn pieces(pid: i32, address: u64, count: u64) -> Option<Pieces> {
    let count = usize::try_from(count).ok().filter(|count| *count <= PIECES_MAX)?;
    let words = words(pid, address, count * 2)?;
    let bytes = words.chunks_exact(2).map(|piece| piece[1]).fold(0, u64::saturating_add);
    Some(Pieces { bytes, address: words.first().copied() })
}

/// The memory of a message, and its number of pieces (struct msghdr: name, its length, pieces, their number).
fn message(pid: i32, address: u64) -> Option<(Option<Pieces>, u64)> {
    let header = words(pid, address, 4)?;
    Some((pieces(pid, header[2], header[3]), header[3].min(IOV_MAX as u64)))
}

/// The transfers of a call with many messages (struct mmsghdr: a msghdr of seven words, and the bytes that it moved).
fn messages(pid: i32, fd: i32, way: Way, address: u64, result: i64) -> Transfer {
    const WORDS: usize = 8;
    let mut transfer = Transfer::new(fd, way, None, result.min(0));
    transfer.messages = result.max(0) as u64;
    let count = usize::try_from(result).unwrap_or(0).min(MESSAGES_MAX);
    let Some(headers) = words(pid, address, count * WORDS) else { return transfer };
    let each: Vec<(Option<Pieces>, u64)> = headers
        .chunks_exact(WORDS)
        .map(|header| (pieces(pid, header[2], header[3]), header[7] & u64::from(u32::MAX)))
        .collect();
    transfer.moved = result.min(0) + each.iter().map(|(_, moved)| *moved as i64).sum::<i64>();
    transfer.asked =
        each.iter().map(|(asked, _)| *asked).try_fold(0, |sum: u64, asked| Some(sum.saturating_add(asked?.bytes)));
    transfer
}

/// Whether a process's program is a 32-bit one, whose calls have other numbers (elf(5), `EI_CLASS`); `None` where its
/// file cannot be read.
pub fn is_32_bit(pid: u32) -> Option<bool> {
    use std::io::Read;
    let mut ident = [0; 5];
    fs::File::open(format!("/proc/{pid}/exe")).ok()?.read_exact(&mut ident).ok()?;
    (ident.starts_with(b"\x7fELF")).then(|| ident[4] == 1)
}

/// The longest time that [`Tracer::let_go`] may take for a thread that sleeps where no signal reaches it.
pub const LETTING_GO: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;

// The bare requests of ptrace(2), and what they return.

/// The state of a stopped thread in a system call (`PTRACE_GET_SYSCALL_INFO`, Linux 5.3; struct ptrace_syscall_info of
/// linux/ptrace.h). One layout for all architectures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct CallInfo {
    op: u8,
    pad: [u8; 3],
    /// The architecture of the caller (linux/audit.h): another one for a 32-bit program.
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// At the entry: the number and six arguments; at the exit: the result, and whether it is an error.
    words: [u64; 8],
}

/// `PTRACE_GET_SYSCALL_INFO` of linux/ptrace.h, which not every libc has.
const GET_SYSCALL_INFO: libc::c_long = 0x420e;

/// `op` of a thread that is about to enter a call.
const ENTRY: u8 = 1;
/// `op` of a thread that has come out of one.
const EXIT: u8 = 2;

fn request(request: libc::c_long, tid: i32, address: usize, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: the requests of this file read or write another process, or the one place that `data` points to, which
    // each caller keeps valid, of the size that it states, through the call.
    let returned = unsafe { libc::syscall(libc::SYS_ptrace, request, libc::c_long::from(tid), address, data) };
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Begins to trace a running thread, which keeps running. Threads and processes that it starts are traced as well.
fn seize(tid: i32) -> io::Result<()> {
    // No PTRACE_O_EXITKILL: if the tracer dies, the kernel lets the program continue (ptrace(2)).
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SEIZE as libc::c_long, tid, 0, options as usize).map(drop)
}

/// Asks a traced thread to stop.
fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT as libc::c_long, tid, 0, 0).map(drop)
}

/// Lets a stopped thread go on to the next entry or exit of a system call, with a signal or none (0).
fn go_on(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL as libc::c_long, tid, 0, signal as usize).map(drop)
}

/// Leaves a thread of a program that was stopped by SIGSTOP or the like stopped, and hears of its going on.
fn listen(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN as libc::c_long, tid, 0, 0).map(drop)
}

/// Lets a stopped thread go for good, with a signal or none (0).
fn detach(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH as libc::c_long, tid, 0, signal as usize).map(drop)
}

/// The state of a stopped thread.
fn call_info(tid: i32) -> io::Result<CallInfo> {
    let mut info = CallInfo::default();
    let place = &raw mut info;
    request(GET_SYSCALL_INFO, tid, size_of::<CallInfo>(), place as usize)?;
    Ok(info)
}

/// Makes the kernel restart a call that ended with `EINTR` only because of our stop. The kernel restarts some calls itself: a
/// thread that is stopped before its signals are handled and returns `ERESTARTNOHAND` runs its call again, unless a handler
/// is to run, which then receives `EINTR` (arch/x86/kernel/signal.c, `arch_do_signal_or_restart`).
#[cfg(target_arch = "x86_64")]
fn restart(tid: i32) -> io::Result<()> {
    const ERESTARTNOHAND: i64 = 514;
    // SAFETY: registers are numbers, for which zeros are valid.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let place = &raw mut registers;
    request(libc::PTRACE_GETREGS as libc::c_long, tid, 0, place as usize)?;
    let ended_by_us = registers.rax as i64 == -i64::from(libc::EINTR) && calls::is_restartable(registers.orig_rax);
    if ended_by_us {
        registers.rax = (-ERESTARTNOHAND) as u64;
        let place = &raw mut registers;
        request(libc::PTRACE_SETREGS as libc::c_long, tid, 0, place as usize)?;
    }
    Ok(())
}

/// Elsewhere the registers are past that point when the thread can be looked at: such a call returns `EINTR`, as it does
/// for every program that is stopped and goes on (signal(7)).
#[cfg(not(target_arch = "x86_64"))]
fn restart(_tid: i32) -> io::Result<()> {
    Ok(())
}

/// Waits until a thread that the calling thread traces, or one of its children, stops or ends: its number, and the status of
/// waitpid(2). Fails with `EINTR` by a signal, and with `ECHILD` if the calling thread traces no thread.
fn wait() -> io::Result<(i32, libc::c_int)> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for an int and lives through the call.
    let tid = errno::of(unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) })?;
    Ok((tid, status))
}

/// Reads another process's memory (process_vm_readv(2)): how many bytes could be had.
fn memory(pid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the kernel writes at most `into.len()` bytes at `into`, which is borrowed exclusively; the other address is
    // looked up in the other process alone.
    errno::of_count(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) })
}
