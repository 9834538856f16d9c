//! Wrong usage: exit code 2, a reason, and the next step. Nothing is measured, nothing is written.

use std::fs;

use crate::bench::{Bench, QUICK};

/// Invalid words, and the expected text of standard error.
#[track_caller]
fn check(words: &str, expected: &[&str]) {
    let bench = Bench::new();
    let ran = bench.run(words).exits(2).complains(expected);
    assert_eq!(ran.stdout, "", "{ran}");
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    assert!(!bench.path("data").exists(), "wrong usage makes no store: {ran}");
}

#[track_caller]
fn check_plan(toml: &str, expected: &[&str]) {
    let bench = Bench::new();
    let file = bench.write("plan.toml", toml);
    let ran = bench.run(&format!("run {file}")).exits(2).complains(expected);
    assert_eq!(ran.stdout, "", "{ran}");
    assert!(!bench.path("data").exists(), "wrong usage makes no store: {ran}");
}

#[test]
fn sizes() {
    for flag in ["--read-size", "--write-size"] {
        check(&format!("stream {flag} 0"), &[flag, "0 is out of range: use 1 to 16M"]);
        check(&format!("stream {flag} -1"), &[flag, "`-1` is negative"]);
        check(&format!("stream {flag}=-1K"), &[flag, "`-1K` is negative"]);
        check(&format!("stream {flag} 17M"), &[flag, "17M is out of range: use 1 to 16M"]);
        check(&format!("stream {flag} 1Q"), &[flag, "`Q` in `1Q` is not a unit", "KiB"]);
        check(&format!("stream {flag} 64K..1K"), &[flag, "in the wrong order", "smaller end first"]);
        check(&format!("stream {flag} 4K,,8K"), &[flag, "an empty level"]);
        check(&format!("stream {flag} 4K,4096"), &[flag, "is twice in the list"]);
        check(&format!("stream {flag} 4K..8K..16K"), &[flag]);
        check(&format!("stream {flag} 4096-65536"), &[flag, "write a range as 4096..65536"]);
        check(&format!("stream {flag} 0.3"), &[flag, "not a whole number"]);
        check(&format!("stream {flag} many"), &[flag, "write for example 64K"]);
        check(&format!("stream {flag} 99999999999999999999"), &[flag]);
    }
    check("stream --working-set 2G", &["--working-set", "use 0 to 1G"]);
    check("stream --sndbuf 0", &["--sndbuf", "out of range"]);
    check("stream --fit-max 0", &["--fit-max takes a size of 1 B or more"]);
    check("stream --fit-max 1Q", &["--fit-max", "`Q` in `1Q` is not a unit"]);
}

/// Refused before anything runs, also before the first run of a program that is tuned.
#[test]
fn no_time_is_wrong_usage() {
    for command in ["run survey", "run buffer-size", "stream", "ring", "ab true false", "tune --values 1,2 --load true"]
    {
        check(&format!("{command} --time 0s"), &["--time: a session needs time: give for example 60s"]);
    }
    check("run buffer-size --until conclusive --max-time 0s", &["--max-time: a session needs time"]);
    let bench = Bench::new();
    for flags in ["--time 0s", "--blocks 0", "--until conclusive --max-time 0s", "--interval 1ms", "--analyses 0"] {
        bench
            .run(&format!("tune {flags} -- touch ran"))
            .exits(2)
            .complains(&[flags.split(' ').rfind(|word| word.starts_with("--")).unwrap()]);
    }
    assert!(!bench.path("ran").exists());
}

#[test]
fn tests_and_kinds_of_tuning_are_checked_first() {
    check("run buffer-size --group g99", &["--group g99: the plan has g1"]);
    check("run buffer-size --objective p99", &["--objective p99: the plan has no calls"]);
    check("run tcp-echo --objective gap-p99", &["--objective gap-p99", "--response-chunk"]);
    check("ring --objective cpu", &["--objective cpu: the plan has one kind of cost"]);
    check(
        "tune --option nodelay=on --values 1,2 -- true {value}",
        &["--option changes sockets", "one of them at a time"],
    );
}

#[test]
fn other_levels() {
    check("stream --flows 0", &["--flows", "0 is out of range: use 1 to 65536"]);
    check("stream --flows -3", &["--flows", "negative"]);
    check("stream --flows 1.5", &["--flows", "write for example 50"]);
    check("stream --connection-age fresh --transport tcp --nodelay maybe", &["--nodelay", "use on, off or auto"]);
    check("stream --trial-time 10us", &["--trial-time", "out of range: use 1ms"]);
    check("stream --trial-time 20", &["--trial-time", "use ns, us, ms, s, m"]);
    check("stream --think-time 2s", &["--think-time", "out of range"]);
    check("stream --rate 0", &["--rate", "out of range"]);
    check("stream --rate many", &["--rate", "write for example"]);
    check("stream --rcvbuf system", &["--rcvbuf", "auto"]);
    check("stream --engine io_uring", &["--engine", "did you mean `uring:plain`?"]);
    check("stream --transport udp --engine sendmmsg", &["--engine", "did you mean `mmsg`?"]);
    check("stream --work busy", &["--work", "use none, sum, copy, or nanoseconds per byte"]);
    check("stream --writer-work busy", &["--writer-work", "use none, touch, or nanoseconds per byte"]);
}

#[test]
fn unknown_names_are_guessed_at() {
    check("strem", &["stream"]);
    check("stream --red-size 4K", &["--read-size"]);
    check("stream --transport tpc", &["--transport", "did you mean `tcp`?", "a path such as /dev/zero"]);
    check("stream --transport carrier-pigeon", &["known are unix, tcp, tcp6, mptcp, unix-seqpacket"]);
    check("stream --engine blokcing", &["--engine", "did you mean `blocking`?"]);
    check("stream --placement same_cpu", &["--placement", "did you mean `same-cpu`?"]);
    check("stream --profile summ", &["did you mean `sum`?"]);
    check("stream --ends thread", &["--ends", "threads"]);
    check("stream --format jason", &["--format", "json"]);
    check("run buffersize", &["did you mean `buffer-size`?", ".toml"]);
    check(
        "run speed",
        &[
            "known are buffer-size, buffer-alignment, buffer-grid, read-sweep, pipe-sizes, socket-buffers, tcp-echo, udp-echo",
        ],
    );
    check("completions bsh", &["bash"]);
    check("report import x --from jsn", &["--from", "jsonl"]);
}

#[test]
fn a_factor_that_fits_no_transport() {
    check(
        "stream --connection-age fresh --transport pipe --sndbuf 64K",
        &["--sndbuf fits none", "(pipe)", "applies to unix, tcp, tcp6, mptcp"],
    );
    check(
        "stream --connection-age fresh --transport unix --pipe-size 64K",
        &["--pipe-size fits none", "applies to pipe"],
    );
    check(
        "stream --transport /dev/zero --write-size 4K",
        &["--write-size fits none", "applies to unix, tcp, tcp6, mptcp, unix-seqpacket"],
    );
    check("stream --connection-age fresh --transport unix --congestion cubic", &["--congestion fits none"]);
    // Applies to some only: reported, and collapsed there.
    let ran = Bench::new()
        .run("stream --connection-age fresh --transport unix,pipe --pipe-size 64K,1M --read-size 4K --dry-run")
        .exits(0);
    ran.prints(&["note: pipe-size does not apply to unix: collapsed there"]);
}

#[test]
fn calls() {
    check("call --server-engine blokcing", &["--server-engine", "did you mean `blocking`?"]);
    check("call --client-engine carrier-pigeon", &["--client-engine", "known are blocking, null, epoll"]);
    check("call --engine null", &["`null` does not carry the workload call", "use one of blocking, epoll"]);
    check("call --flows 0", &["--flows", "0 is out of range: use 1 to 65536"]);
    check("call --flows 70000", &["--flows", "out of range"]);
    check("call --request 0", &["--request", "0 is out of range: use 1 to 16M"]);
    check("call --response different", &["--response", "write for example 64K"]);
    check("call --depth 0", &["--depth", "use 1 to 4096"]);
    check("call --connect localhost:0", &["--connect: localhost:0 is no server's address", "1 to 65535"]);
    check("call --connect-per-call maybe", &["--connect-per-call", "use on or off"]);
    for nonsense in ["fast", "1e9", "nan", "inf", "20q", "0.5"] {
        check(&format!("call --rate {nonsense}"), &["--rate", "is not a rate of calls", "20k"]);
    }
    check("call --rate 0", &["--rate", "0 is out of range"]);
    check("call --rate -5", &["--rate", "negative"]);
    check("call --arrivals often --rate 1k", &["--arrivals", "constant, poisson"]);
    check("call --rcvbuf-on server --rcvbuf 4K", &["--rcvbuf-on", "listener, accepted, client"]);
    check("call --linger -1", &["--linger", "negative"]);
    check("call --timeout 0s", &["--timeout", "out of range"]);
    check("call --server-threads 0", &["--server-threads", "use 1 to 1024"]);
    check("call --profile drain", &["no profile is called `drain`", "echo, rpc, tls-rpc, many-idle"]);
}

#[test]
fn factors_that_calls_do_not_have() {
    check("call --write-size 4K", &["--write-size"]);
    check("stream --request 4K", &["--request"]);
    check("run tcp-echo --write-size 4K", &["--write-size has no meaning in the workload call", "workload stream"]);
    check("run buffer-size --request 4K", &["--request has no meaning in the workload stream", "workload call"]);
    check("call --transport pipe", &["pipe does not carry the workload call: use unix, tcp or tcp6"]);
    check("call --transport /dev/zero", &["/dev/zero does not carry the workload call"]);
    check("call --transport unix --linger 0", &["--linger fits none", "applies to tcp, tcp6"]);
    check("call --arrivals poisson", &["--arrivals has no effect without --rate"]);
    check("call --read-once on", &["--read-once has no effect without --connect-per-call on"]);
    check("call --rcvbuf-on client", &["--rcvbuf-on has no effect without a size in --rcvbuf"]);
    check(
        "call --server-engine blocking --server-threads 2",
        &["--server-threads has no effect without another --server-engine"],
    );
    check("call --profile rpc --idle-flows 5", &["leave out --profile or --idle-flows"]);
}

#[test]
fn contradictions() {
    check(
        "stream --profile sum --work copy",
        &["--work is set by the profiles already: leave out --profile or --work"],
    );
    check("stream --profile parser --working-set 1K", &["leave out --profile or --working-set"]);
    check("stream --json-stream --format json", &["--json-stream", "--format"]);
    check("stream --read-size 4K --read-size 8K", &["--read-size", "multiple times"]);
    check("stream --read-size 1..16M --write-size 1..16M --time 1s", &["too short", "--time"]);
    check(
        "stream --read-size 1..16M --write-size 1..16M --sndbuf 1..1G --rcvbuf 1..1G",
        &["cells are too many", "shorter lists"],
    );
    check(
        "call --request 1..16M --response 1..16M --flows 1..1024 --depth 1..1024 --think-time 1ns..1s --dry-run",
        &["cells are too many (100000 at most)", "above all of --think-time, which has 31 levels"],
    );
}

#[test]
fn sources_that_cannot_be_read() {
    let bench = Bench::new();
    let empty = bench.write("empty", "");
    bench.shell("mkfifo fifo").exits(0);
    let fifo = bench.path("fifo").display().to_string();
    check("stream --transport /no/such/file", &["/no/such/file cannot be read", "No such file", "check --transport"]);
    check("stream --transport /proc", &["/proc cannot be read", "directory", "check --transport"]);
    check(&format!("stream --transport {empty}"), &["cannot be read", "empty"]);
    check(&format!("stream --transport {fifo}"), &["named pipe", "--transport pipe"]);
}

/// A full disk may cut a file off: all options of all transports would be measured.
#[test]
fn empty_plan_is_refused() {
    let bench = Bench::new();
    let empty = bench.write("empty.toml", "# nothing\n");
    for plan in [&empty, "/dev/null"] {
        check(&format!("run {plan}"), &["is empty", "workload = "]);
    }
}

#[test]
fn mesh_is_refused_before_it_measures() {
    check("mesh gather /no/such/folder", &["/no/such/folder", "directory"]);
    check("mesh --rank 0 --size 2 --key-file key --out out --margin 2", &["--margin", "is not a share"]);
}

#[test]
fn design() {
    check("stream --time 0s", &["--time"]);
    check("stream --time=-5s", &["--time", "negative"]);
    check("stream --time soon", &["--time", "write for example"]);
    check("stream --time 10", &["--time", "use ns, us, ms, s, m"]);
    check("stream --margin 0", &["--margin", "5%"]);
    check("stream --margin 200%", &["--margin", "5%"]);
    check("stream --margin much", &["--margin", "5%"]);
    check("stream --margin=-5%", &["--margin", "5%"]);
    check("stream --blocks 0", &["--blocks", "use 1 to 100000"]);
    check("stream --blocks -1", &["--blocks", "use 1 to 100000"]);
    check("stream --blocks many", &["--blocks", "use 1 to 100000"]);
    check("stream --blocks 1000000", &["--blocks", "use 1 to 100000"]);
    check("stream --seed x", &["--seed"]);
    check("stream --seed -1", &["--seed"]);
    check("stream --plant rot:1", &["--plant", "corrupt:OFFSET"]);
    check("stream --plant die:-1", &["--plant", "corrupt:OFFSET"]);
    check("stream --grace x", &["--grace", "write for example"]);
}

#[test]
fn plans_in_toml() {
    check_plan("reed-size = 4096", &["plan.toml", "`reed-size`", "did you mean `read-size`?"]);
    check_plan("colour = 1", &["plan.toml", "`colour`", "known are"]);
    check_plan("read-size = 0", &["read-size", "0 is out of range"]);
    check_plan("read-size = \"64K..1K\"", &["in the wrong order"]);
    check_plan("read-size = 4.5", &["plan.toml", "read_size", "\"1K..2M\""]);
    check_plan("read-size = []", &["read-size"]);
    check_plan("transport = [\"unix\", \"tpc\"]", &["did you mean `tcp`?"]);
    check_plan("time = 60", &["plan.toml", "time", "has no unit"]);
    check_plan("time = \"soon\"", &["plan.toml", "time", "write for example"]);
    check_plan("margin = 5", &["plan.toml", "margin", "0.05"]);
    check_plan("blocks = 0", &["plan.toml", "blocks", "1 to 100000"]);
    check_plan("ends = \"thread\"", &["plan.toml", "ends", "did you mean `threads`?"]);
    check_plan("verify = 1", &["plan.toml", "verify", "true or false"]);
    check_plan("workload = \"calls\"", &["plan.toml", "`workload` is \"stream\", \"call\" or \"ring\""]);
    check_plan("workload = \"call\"\nwrite-size = 4096", &["--write-size has no meaning in the workload call"]);
    check_plan("workload = \"call\"\nreqest = 4096", &["plan.toml", "did you mean `request`?"]);
    check_plan("part = 1", &["plan.toml", "[[part]]"]);
    check_plan("[profiles.x]\nread-size = 4096", &["plan.toml", "read-size", "conditions only"]);
    check_plan("[profiles.x]\nwork = [\"sum\", \"copy\"]", &["plan.toml", "work", "one level"]);
    check_plan("profile = \"x\"\n[profiles.y]\nwork = \"sum\"", &["no profile is called `x`"]);
    check_plan("[[part]]\nfinalists = 1", &["plan.toml", "finalists", "2 to 64"]);
    check_plan("read-size = ", &["plan.toml is not a plan", "line 1"]);
    check_plan("read-size = 4096\nread-size = 8192", &["plan.toml is not a plan", "duplicate key"]);
    check("run missing.toml", &["missing.toml cannot be read", "check its path"]);
    check("run /proc", &["/proc cannot be read", "check its path"]);
    check("run", &["PLAN"]);
}

#[test]
fn a_plan_that_is_no_text() {
    let bench = Bench::new();
    fs::write(bench.path("plan.toml"), [0xff, 0xfe, 0x00]).expect("a file on the bench");
    bench.run("run ./plan.toml").exits(2).complains(&["plan.toml cannot be read", "UTF-8"]);
}

#[test]
fn no_store_yet() {
    for words in ["report list", "report", "report 1", "report export", "report export 1 --format csv"] {
        check(words, &["no results yet", "bytegauge run buffer-size", "--store"]);
    }
    check("stream --store", &["--store"]);
}

#[test]
fn sessions_that_do_not_exist() {
    let bench = Bench::new();
    bench.run(&format!("{QUICK} --engine null --trial-time 1ms --quiet")).exits(2);
    bench.run("stream --engine null --connection-age fresh --transport unix --read-size 4K --write-size 4K --trial-time 1ms --blocks 1 --analyses 1 --time 1s -q").exits(0);
    bench.run("report 99").exits(2).complains(&["no session 99", "bytegauge report list"]);
    bench.run("report export 99").exits(2).complains(&["no session 99", "bytegauge report list"]);
    bench.run("report x").exits(2).complains(&["x", "ID"]);
    bench.run("report -1").exits(2);
    bench.run("stream --resume 99").exits(2).complains(&["no session 99", "bytegauge report list"]);
    bench.run("stream --resume soon").exits(2).complains(&["--resume", "`soon`", "bytegauge report list"]);
    bench.run("stream --resume").exits(2).complains(&["no session of plan stream can be resumed", "without --resume"]);
    bench.run("stream --resume 1").exits(2).complains(&["session 1 is over", "analyses: 1 of 1"]);
}

#[test]
fn where_results_go_must_be_known() {
    let bench = Bench::new();
    let ran = bench.shell("unset HOME XDG_DATA_HOME; exec \"$BYTEGAUGE\" report list");
    ran.exits(2).complains(&["XDG_DATA_HOME", "--store"]);
}

#[test]
fn imports() {
    let bench = Bench::new();
    let table = bench.write("t.csv", "connection_type,size,secs,calls\nunix,4096,1,100\n");
    let refused = |words: &str, expected: &[&str]| {
        bench.run(words).exits(2).complains(expected);
    };
    refused("report import /no/such/file", &["/no/such/file", "check the path"]);
    refused(&format!("report import {table}"), &["--map"]);
    refused(&format!("report import {table} --map read_size"), &["--map read_size", "OURS=THEIRS"]);
    refused(&format!("report import {table} --map reed_size=size"), &["did you mean `read_size`?"]);
    refused(
        &format!("report import {table} --map read_size=bytes"),
        &["no such column", "connection_type, size, secs, calls"],
    );
    refused(&format!("report import {table} --map read_size=size,read_size=secs"), &["twice"]);
    let prose = bench.write("prose.txt", "Nothing to see here\n");
    refused(&format!("report import {prose}"), &["convert them to CSV"]);
    let bad = bench.write(
        "bad.csv",
        "connection_type,read_buffer_bytes,write_buffer_bytes,duration_sec,throughput (MiB/s)\nunix,4096,4096,1,fast\n",
    );
    refused(&format!("report import {bad}"), &["line 2", "nothing was imported"]);
    let empty = bench.write("empty.csv", "");
    refused(&format!("report import {empty}"), &["no trial"]);
    bench.run("report list").exits(0).prints(&["no sessions yet"]);
}

#[test]
fn endless_files_are_refused_at_once() {
    let bench = Bench::new();
    // Reading all of it would need more memory than this.
    let limited = |words: &str| bench.shell(&format!("ulimit -v 1000000; exec \"$BYTEGAUGE\" {words}"));
    limited("run /dev/zero").exits(2).complains(&["the plan /dev/zero", "more than 1024 KiB", "check its path"]);
    let relay = "run relay-copy --relay 'cmd:cat {config:/dev/zero}' --dry-run";
    limited(relay).complains(&["relay's configuration /dev/zero", "more than 1024 KiB", "check its path"]);
}

#[test]
fn named_pipe_is_no_key_file() {
    let bench = Bench::new();
    let ran = bench.shell("mkfifo key && exec \"$BYTEGAUGE\" agent --listen 127.0.0.1:0 --key-file key").exits(2);
    ran.complains(&["key is not a key file", "agent --init"]);
}

#[test]
fn plan_is_read_from_a_pipe() {
    let bench = Bench::new();
    let script = "\"$BYTEGAUGE\" run buffer-size --dry-run >expected; \
                  printf 'workload = \"stream\"\\n[factors]\\ntransport = \"unix\"\\n' | \"$BYTEGAUGE\" run /dev/stdin --dry-run";
    let ran = bench.shell(script);
    assert!(!ran.stderr.contains("cannot be read"), "{ran}");
}
