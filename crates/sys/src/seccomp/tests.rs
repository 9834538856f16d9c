use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;

use super::*;
use crate::children;
use crate::option::{self, NO_DELAY, RECEIVE_BUFFER, Value};
use crate::tests::Scratch;

/// Connects to itself, and prints a receive buffer that it sets itself, and TCP_NODELAY, which it leaves alone.
const PYTHON: &str = "
import socket
server = socket.create_server(('127.0.0.1', 0))
client = socket.socket()
client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
client.connect(server.getsockname())
print(client.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
      client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
      server.accept()[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
";

/// Runs a program under a filter: sets `TCP_NODELAY` before each connect and listen. Returns what it printed, and the
/// reported calls.
fn run(mut command: Command, filter: &SocketFilter) -> (String, Vec<SocketCall>) {
    let pending = filter.install_in(&mut command).unwrap();
    let mut child: Child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let listener = pending.receive().unwrap();
    let calls = thread::spawn(move || {
        let mut calls = Vec::new();
        while let Some(call) = listener.next().unwrap() {
            if matches!(call.call, SocketCall::Connect | SocketCall::Listen) {
                let socket = listener.socket(&call).unwrap();
                // A program without HOME asks the name service over a Unix socket, which has no such option.
                if option::read(socket.as_fd(), NO_DELAY).is_ok() {
                    option::set(socket.as_fd(), &NO_DELAY.to(true)).unwrap();
                    assert_eq!(option::read(socket.as_fd(), NO_DELAY).unwrap(), Value::Switch(true));
                }
            }
            if matches!(call.call, SocketCall::SetOption(..)) {
                assert!(!listener.value(&call).unwrap().is_empty());
            }
            listener.carry_out(&call);
            assert!(!listener.waits(&call));
            calls.push(call.call);
        }
        calls
    });
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    (text.trim().to_owned(), calls.join().unwrap())
}

fn python() -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON]);
    children::in_own_session(&mut command, &[]);
    command
}

#[test]
fn options_are_set_and_calls_removed() {
    let (default, _) = run(python(), &SocketFilter::default());
    assert_eq!(default, "16384 1 1");
    let (removed, calls) = run(python(), &SocketFilter { ignored: vec![RECEIVE_BUFFER], reports_options: false });
    let buffer: u64 = removed.split(' ').next().unwrap().parse().unwrap();
    assert!(buffer > 16_384, "the program's own call was carried out: {removed}");
    assert!(removed.ends_with(" 1 1"), "{removed}");
    assert!(calls.contains(&SocketCall::Listen) && calls.contains(&SocketCall::Connect), "{calls:?}");
}

#[test]
fn own_options_are_reported() {
    let (_, calls) = run(python(), &SocketFilter { ignored: Vec::new(), reports_options: true });
    assert!(calls.contains(&SocketCall::SetOption(libc::SOL_SOCKET, libc::SO_RCVBUF)), "{calls:?}");
}

#[test]
fn a_static_program_of_many_threads_is_covered() {
    let source = r#"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <netinet/tcp.h>
#include <unistd.h>
static struct sockaddr_in to;
static int ok;
static void *one(void *unused) {
    int on = 0, s = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof on;
    if (connect(s, (void *)&to, sizeof to)) return unused;
    getsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, &size);
    close(s);
    if (on) __sync_fetch_and_add(&ok, 1);
    return unused;
}
int main(void) {
    pthread_t all[100];
    socklen_t size = sizeof to;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_family = AF_INET, to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(s, (void *)&to, sizeof to) || listen(s, 100) || getsockname(s, (void *)&to, &size)) return 1;
    for (int i = 0; i < 100; i++) if (pthread_create(&all[i], 0, one, 0)) return 2;
    for (int i = 0; i < 100; i++) pthread_join(all[i], 0);
    printf("%d\n", ok);
    return 0;
}"#;
    let scratch = Scratch::new();
    let (file, program) = (scratch.path().join("threads.c"), scratch.path().join("threads"));
    fs::write(&file, source).unwrap();
    let built = Command::new("cc").args(["-static", "-pthread", "-o"]).arg(&program).arg(&file).status().unwrap();
    assert!(built.success());
    let (text, calls) = run(Command::new(&program), &SocketFilter::default());
    assert_eq!(text, "100");
    assert_eq!(calls.iter().filter(|call| **call == SocketCall::Connect).count(), 100);
}

#[test]
fn a_second_listener_is_refused_with_a_reason() {
    let mut inner = python();
    let filter = SocketFilter::default();
    let _outer = filter.install_in(&mut inner).unwrap();
    let _second = filter.install_in(&mut inner).unwrap();
    assert_eq!(inner.spawn().unwrap_err().raw_os_error(), Some(libc::EBUSY));
}
