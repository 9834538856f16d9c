//! The programs, their settings, and the test whose result applies to them.
//!
//! Only a list. In all texts `bytegauge check` replaces `{value}`; `{port}`, `{back}` (free ports), `{dir}`, `{ends}`,
//! `{sinks}`, `{go}` (files) are replaced here.

/// Sizes that every program is tried with.
pub const VALUES: &str = "4K,16K,64K,256K,1M";

/// The size that the peer of a program uses if the program only reads or only writes: a common choice.
const PEER: &str = "64K";

/// A program with one setting, and the test for it.
pub struct ProgramCase {
    /// Its name on the command line.
    pub name: &'static str,
    /// The program's file, looked for where programs are.
    pub program: &'static str,
    /// The Debian package that brings it; it is not installed where there is none.
    pub package: Option<&'static str>,
    /// The setting as text.
    pub setting: &'static str,
    /// Its default, or a common choice.
    pub default: &'static str,
    /// The test, as `bytegauge stream` takes it.
    pub question: &'static [&'static str],
    /// Where the ends run, in the test and in the program; absent where there is one end.
    pub placement: Option<&'static str>,
    /// How a run is rated.
    pub metric: &'static str,
    /// The server that is started first, and the address at which it is ready.
    pub start: Option<(&'static str, &'static str)>,
    /// The measured command.
    pub load: &'static str,
}

/// A program that only reads, from a peer that writes 64 KiB at a time.
const READER: &[&str] = &["--transport", "tcp", "--role", "reader", "--write-size", PEER, "--read-size", VALUES];
const UNIX_READER: &[&str] = &["--transport", "unix", "--role", "reader", "--write-size", PEER, "--read-size", VALUES];

const PRINTED: &str = "regex:([0-9]+) bytes/s";
const SOURCE: &str = "exec '{ends}' source {port} 134217728 65536";
const UNIX_SOURCE: &str = "exec '{ends}' source '{dir}/socket' 134217728 65536";
const AT_PORT: &str = "tcp:{port}";
const AT_PATH: &str = "unix:{dir}/socket";

/// Properties that all sinks share.
const SINK: ProgramCase = ProgramCase {
    name: "",
    program: "cc",
    package: Some("gcc"),
    setting: "size of a read",
    default: "64K",
    question: READER,
    placement: Some("cross-core"),
    metric: PRINTED,
    start: Some((SOURCE, AT_PORT)),
    load: "",
};

/// All of them.
pub const CASES: &[ProgramCase] = &[
    ProgramCase {
        name: "dd",
        program: "dd",
        package: Some("coreutils"),
        setting: "`bs`, /dev/zero",
        default: "512",
        question: &["--transport", "/dev/zero", "--read-size", VALUES],
        placement: None,
        metric: "bytes:1G",
        start: None,
        load: "exec dd if=/dev/zero of=/dev/null bs={value} count={count:1G} status=none",
    },
    ProgramCase {
        name: "dd-pipe",
        program: "dd",
        package: Some("coreutils"),
        setting: "`bs` of both, over a pipe",
        default: "4K",
        question: &["--transport", "pipe", "--read-size", VALUES, "--write-size", VALUES],
        placement: Some("unpinned"),
        metric: "bytes:128M",
        start: None,
        load: "dd if=/dev/zero bs={value} count={count:128M} status=none | dd of=/dev/null bs={value} status=none",
    },
    ProgramCase {
        name: "pv",
        program: "pv",
        package: Some("pv"),
        setting: "`-B`, reads a pipe, without splice",
        default: "128K",
        question: &["--transport", "pipe", "--role", "reader", "--write-size", PEER, "--read-size", VALUES],
        placement: Some("unpinned"),
        metric: "bytes:128M",
        start: None,
        load: "dd if=/dev/zero bs=64K count=2048 status=none | pv -q -C -B {value} > /dev/null",
    },
    ProgramCase {
        name: "socat-tcp",
        program: "socat",
        package: Some("socat"),
        setting: "`-b` of both ends, TCP",
        default: "8K",
        question: &["--transport", "tcp", "--read-size", VALUES, "--write-size", VALUES],
        placement: Some("cross-core"),
        metric: "bytes:128M",
        start: Some((
            "exec socat -u -b {value} TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork OPEN:/dev/null",
            AT_PORT,
        )),
        load: "exec socat -u -b {value} OPEN:/dev/zero,readbytes=134217728 TCP:127.0.0.1:{port}",
    },
    ProgramCase {
        name: "socat-unix",
        program: "socat",
        package: Some("socat"),
        setting: "`-b` of both ends, Unix",
        default: "8K",
        question: &["--transport", "unix", "--read-size", VALUES, "--write-size", VALUES],
        placement: Some("cross-core"),
        metric: "bytes:128M",
        start: Some(("exec socat -u -b {value} UNIX-LISTEN:'{dir}/socket',unlink-early,fork OPEN:/dev/null", AT_PATH)),
        load: "exec socat -u -b {value} OPEN:/dev/zero,readbytes=134217728 UNIX-CONNECT:'{dir}/socket'",
    },
    ProgramCase {
        name: "iperf3",
        program: "iperf3",
        package: Some("iperf3"),
        setting: "`-l`",
        default: "128K",
        question: &["--transport", "tcp", "--read-size", VALUES, "--write-size", VALUES],
        placement: Some("cross-core"),
        metric: "regex:([0-9.]+) Gbits/sec +receiver",
        start: Some(("exec iperf3 -s -B 127.0.0.1 -p {port}", AT_PORT)),
        load: "exec iperf3 -c 127.0.0.1 -p {port} -l {value} -n 256M -f g",
    },
    ProgramCase {
        name: "haproxy",
        program: "haproxy",
        package: Some("haproxy"),
        setting: "`tune.bufsize`",
        default: "16K",
        question: &[
            "--transport",
            "tcp",
            "--relay",
            "epoll",
            "--relay-buffer",
            VALUES,
            "--read-size",
            PEER,
            "--write-size",
            PEER,
        ],
        placement: Some("unpinned"),
        metric: PRINTED,
        start: Some((
            "sed s/@SIZE@/{value}/ '{dir}/haproxy.cfg' > '{dir}/haproxy.run.cfg' && exec '{ends}' source {back} 67108864 \
             65536 '{program}' -db -f '{dir}/haproxy.run.cfg'",
            AT_PORT,
        )),
        load: "exec '{ends}' sink {port} 65536",
    },
    ProgramCase {
        name: "nginx",
        program: "nginx",
        package: Some("nginx"),
        setting: "`output_buffers`, without sendfile",
        default: "32K",
        question: &["--transport", "tcp", "--role", "writer", "--read-size", PEER, "--write-size", VALUES],
        placement: Some("cross-core"),
        metric: PRINTED,
        start: Some((
            "sed s/@SIZE@/{value}/ '{dir}/nginx.conf' > '{dir}/nginx.run.conf' && exec '{program}' -p '{dir}' -c \
             nginx.run.conf",
            AT_PORT,
        )),
        load: "exec '{ends}' sink {port} 65536 /zeros",
    },
    ProgramCase { name: "c-tcp", load: "exec '{ends}' sink {port} {value}", ..SINK },
    ProgramCase {
        name: "c-unix",
        question: UNIX_READER,
        start: Some((UNIX_SOURCE, AT_PATH)),
        load: "exec '{ends}' sink '{dir}/socket' {value}",
        ..SINK
    },
    ProgramCase {
        name: "python-tcp",
        program: "python3",
        package: Some("python3"),
        load: "exec '{program}' '{sinks}/sink.py' {port} {value}",
        ..SINK
    },
    ProgramCase {
        name: "python-unix",
        program: "python3",
        package: Some("python3"),
        question: UNIX_READER,
        start: Some((UNIX_SOURCE, AT_PATH)),
        load: "exec '{program}' '{sinks}/sink.py' '{dir}/socket' {value}",
        ..SINK
    },
    ProgramCase { name: "go-tcp", program: "go", package: None, load: "exec '{go}' {port} {value}", ..SINK },
    ProgramCase {
        name: "node-tcp",
        program: "node",
        package: None,
        setting: "buffer of `onread`",
        load: "exec '{program}' '{sinks}/sink.mjs' {port} {value}",
        ..SINK
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_place_for_its_value() {
        let names: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
        for case in CASES {
            let texts = [Some(case.load), case.start.map(|(start, _)| start)];
            assert!(texts.iter().flatten().any(|text| text.contains("{value}")), "{}", case.name);
            assert!(case.question.contains(&VALUES), "{}: has no size", case.name);
            assert!(!case.setting.is_empty() && !case.program.is_empty(), "{}", case.name);
        }
    }
}
