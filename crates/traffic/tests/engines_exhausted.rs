//! An end that runs out of descriptors neither spins nor hangs. A process of its own: it takes all there are.

mod support;

use std::fs::File;
use std::time::Duration;

use support::{echo_server, for_all, plain, plain_call};

#[test]
fn out_of_descriptors_an_engine_waits_and_then_goes_on() {
    for_all(|engine| {
        let (server, address) = echo_server(engine, 4096, &[]);
        let mut first = plain(address);
        plain_call(&mut first, 1, 100);
        let mut taken: Vec<File> = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
        // Room for the client's descriptor, none for the server's.
        drop(taken.pop());
        let mut second = plain(address);
        std::thread::sleep(Duration::from_millis(100));
        drop(taken);
        plain_call(&mut first, 2, 100);
        plain_call(&mut second, 3, 100);
        let outcome = server.tell();
        assert_eq!(outcome.report.accepted, 2);
        assert!(outcome.report.system_calls < 2000, "{} system calls", outcome.report.system_calls);
    });
}
