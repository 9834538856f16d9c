//! Traces programs with known calls while they run: the calls are seen, and the programs do not notice.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::interrupt::{self, ThreadHandle};

/// Traces a process until `enough` returns true or the process ends, and releases it. Returns all events.
fn trace(pid: u32, mut enough: impl FnMut(&[TraceEvent]) -> bool) -> Vec<TraceEvent> {
    let mut tracer = Tracer::new();
    tracer.seize(pid).unwrap();
    let mut seen = Vec::new();
    while !tracer.has_no_threads() && !enough(&seen) {
        tracer.next(&mut |one| seen.push(one.clone())).unwrap();
    }
    tracer.let_go();
    tracer.insist();
    while !tracer.has_no_threads() {
        tracer.next(&mut |one| seen.push(one.clone())).unwrap();
    }
    assert!(tracer.cost().stops > 0);
    seen
}

/// A shell that waits for a line before it runs a script, its input and output pipes.
fn waiting(script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("read go; {script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// (bytes asked for, bytes moved) of calls with that name.
fn moves(seen: &[TraceEvent], wanted: &str) -> Vec<(Option<u64>, i64)> {
    let called = seen.iter().filter_map(|one| match one {
        TraceEvent::Called(Called { name, did: Did::Moved(transfers), .. }) if *name == wanted => Some(transfers),
        _ => None,
    });
    called.flatten().map(|transfer| (transfer.asked, transfer.moved)).collect()
}

#[test]
fn sizes_in_a_child_process_are_seen() {
    let mut child = waiting("dd if=/dev/zero of=/dev/null bs=12345 count=7 2>/dev/null");
    let mut input = child.stdin.take().unwrap();
    // The line is sent once the threads are seized: the program starts its child under our eyes.
    let (send, seized) = mpsc::channel::<()>();
    let feeder = thread::spawn(move || {
        let _ = seized.recv();
        io::Write::write_all(&mut input, b"\n").unwrap();
    });
    let mut sent = Some(send);
    let seen = trace(child.id(), |_| {
        drop(sent.take());
        false
    });
    feeder.join().unwrap();
    assert_eq!(moves(&seen, "read").iter().filter(|pair| **pair == (Some(12_345), 12_345)).count(), 7, "{seen:?}");
    // The message at its end is shorter.
    assert_eq!(moves(&seen, "write").iter().filter(|pair| **pair == (Some(12_345), 12_345)).count(), 7, "{seen:?}");
    assert!(seen.iter().any(|one| matches!(one, TraceEvent::Executed(_))));
    assert!(seen.contains(&TraceEvent::Ended(child.id(), Some(0))));
    assert!(child.wait().is_err(), "the tracer received its end");
}

#[test]
fn a_released_program_runs_to_its_end() {
    // It begins when it is traced: a busy machine might let it end before.
    let mut child = waiting("exec dd if=/dev/zero of=/dev/null bs=1 count=300000 2>/dev/null");
    let mut input = child.stdin.take();
    let seen = trace(child.id(), |seen| {
        if let Some(mut input) = input.take() {
            io::Write::write_all(&mut input, b"\n").unwrap();
        }
        seen.len() >= 200
    });
    // It was let go, and not looked at to its end.
    assert!(moves(&seen, "write").len() < 1000);
    // Wherever it was then, every call it makes returns what it should: dd counts them.
    assert!(moves(&seen, "write").iter().all(|pair| *pair == (Some(1), 1)));
    assert!(child.wait().unwrap().success());
}

#[test]
fn effects_follow_from_arguments_and_results() {
    // A process cannot trace itself: the parts of a message are read from our own memory.
    let pid = std::process::id();
    let parts = [
        libc::iovec { iov_base: std::ptr::without_provenance_mut(0x10), iov_len: 100 },
        libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 23 },
    ];
    let address = parts.as_ptr() as u64;
    assert_eq!(pieces(pid as i32, address, 2), Some(Pieces { bytes: 123, address: Some(0x10) }));
    assert_eq!(pieces(pid as i32, address, 0), Some(Pieces { bytes: 0, address: None }));
    assert_eq!(pieces(pid as i32, 0, 2), None, "unreadable memory has no size");
    assert_eq!(pieces(pid as i32, parts.as_ptr() as u64, 1 << 20), None);
    let args = [7, 0x2010, 4096, 0, 0, 0];
    let read =
        Transfer { fd: 7, way: Way::In, asked: Some(4096), address: Some(0x2010), moved: 10, pieces: 1, messages: 1 };
    assert_eq!(did(1, Shape::Bytes(Way::In), &args, 10), Some(Did::Moved(vec![read])));
    assert_eq!(did(1, Shape::End(0), &args, 0), Some(Did::Ended(7)));
    assert_eq!(did(1, Shape::Ring, &args, -4), None);
}

/// A C program that reads a byte, waits for more or the end, and reports by its exit code whether that wait was cut short.
const PATIENT: &str = r#"
#include <sys/epoll.h>
#include <stdio.h>
#include <errno.h>
#include <unistd.h>
int main(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event = { .events = EPOLLIN };
  epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
  puts("ready"); fflush(stdout);
  char byte;
  if (read(0, &byte, 1) != 1) return 9;
  int got = epoll_wait(epoll, &event, 1, -1);
  return got == 1 ? 0 : errno == EINTR ? 7 : 8;
}
"#;

/// The program that waits, and its input.
fn patient() -> (Child, std::process::ChildStdin) {
    let scratch = crate::tests::Scratch::new();
    let (source, program) = (scratch.path().join("patient.c"), scratch.path().join("patient"));
    fs::write(&source, PATIENT).unwrap();
    let built = Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let mut line = String::new();
    let mut output = io::BufReader::new(child.stdout.take().unwrap());
    io::BufRead::read_line(&mut output, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, input)
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_call_that_begins_at_the_end_continues() {
    let (mut child, mut input) = patient();
    let mut tracer = Tracer::new();
    tracer.seize(child.id()).unwrap();
    // Calls are seen from the first stop on.
    tracer.next(&mut |_| {}).unwrap();
    io::Write::write_all(&mut input, b"x").unwrap();
    let mut has_read = false;
    while !has_read {
        let is_read = |one: &TraceEvent| matches!(one, TraceEvent::Called(Called { name: "read", .. }));
        tracer.next(&mut |one| has_read |= is_read(one)).unwrap();
    }
    // The next call is the one that waits.
    crate::tests::eventually("a stop", || crate::process_tree::is_stopped(child.id()) == Some(true));
    tracer.let_go();
    tracer.insist();
    while !tracer.has_no_threads() {
        tracer.next(&mut |_| {}).unwrap();
    }
    drop(input);
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(0), None), "7: its wait was cut short");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_wait_continues_after_a_stop() {
    let (mut child, mut input) = patient();
    io::Write::write_all(&mut input, b"x").unwrap();
    interrupt::install().unwrap();
    let handle = ThreadHandle::current().unwrap();
    for _ in 0..5 {
        let (done, over) = mpsc::channel::<()>();
        let ticker = thread::spawn(move || {
            while over.recv_timeout(Duration::from_millis(20)) == Err(mpsc::RecvTimeoutError::Timeout) {
                interrupt::interrupt(&handle).unwrap();
            }
        });
        let mut turns = 0;
        trace(child.id(), |_| {
            turns += 1;
            turns > 3
        });
        drop(done);
        ticker.join().unwrap();
    }
    assert_eq!(child.try_wait().unwrap(), None, "it waits on");
    drop(input);
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(0), None), "7: its wait was cut short");
}

#[test]
fn ended_or_traced_processes_are_refused() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    assert!(Tracer::new().seize(child.id()).is_err());
    let mut sleeper = Command::new("sleep").arg("3600").spawn().unwrap();
    let mut first = Tracer::new();
    first.seize(sleeper.id()).unwrap();
    let error = thread::spawn({
        let pid = sleeper.id();
        move || Tracer::new().seize(pid).unwrap_err()
    });
    assert_eq!(error.join().unwrap().raw_os_error(), Some(libc::EPERM));
    first.let_go();
    first.insist();
    while !first.has_no_threads() {
        first.next(&mut |_| {}).unwrap();
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(is_32_bit(std::process::id()), Some(false));
}

#[test]
fn lengths_of_pieces_sum_without_overflow() {
    let own = std::process::id() as i32;
    let vectors: [u64; 6] = [0, u64::MAX, 0, 2, 0, 3];
    assert_eq!(pieces(own, vectors.as_ptr() as u64, 3).unwrap().bytes, u64::MAX);
    assert_eq!(pieces(own, vectors[2..].as_ptr() as u64, 2).unwrap().bytes, 5);
    let message: [u64; 4] = [0, 0, vectors.as_ptr() as u64, u64::MAX];
    assert_eq!(super::message(own, message.as_ptr() as u64), Some((None, IOV_MAX as u64)));
}
