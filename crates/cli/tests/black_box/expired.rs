//! Notes about stored results of another state of this machine.

use std::process::Command;

use crate::bench::{Bench, QUICK, possible};

#[test]
fn changed_machine_is_noted() {
    if !possible("it edits the store", "python3", &["-c", "import sqlite3"]) {
        return;
    }
    let bench = Bench::new();
    let run = || bench.run(&format!("{QUICK} --no-page"));
    run().exits(0);
    let unchanged = bench.run("report").exits(0);
    assert!(!unchanged.stderr.contains("run it again"), "{unchanged}");
    // Another kernel measured it.
    let script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); \
                  c.execute(\"update sessions set machine=json_set(machine,'$.kernel_release','4.19.0-1-amd64')\"); c.commit()";
    let mut edit = Command::new("python3");
    edit.args(["-c", script]).arg(bench.store());
    bench.spawn(edit, "an edit".into()).wait().exits(0);
    let stale = bench.run("report").exits(0);
    stale.complains(&["session 1 may not be valid any more: kernel: 4.19.0-1-amd64 then", "run it again"]);
    run().exits(0);
    let compared = bench.run("report compare 1 2");
    compared.complains(&["between sessions 1 and 2 this machine has changed: kernel: 4.19.0-1-amd64 then"]);
}
