//! The programs, their settings, and the test whose result applies to them.
//!
//! Only a list. In all texts `bytegauge tune` replaces `{value}`; `{port}`, `{back}` (free ports), `{dir}`, `{ends}`,
//! `{sinks}`, `{sources}`, `{go}` (files) are replaced here.

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

/// Programs at both ends with one size.
const BOTH_ENDS: &[&str] = &["--transport", "tcp", "--read-size", VALUES, "--write-size", VALUES];

/// A program that only writes, to a peer that reads 64 KiB at a time.
const WRITER: &[&str] = &["--transport", "tcp", "--role", "writer", "--read-size", PEER, "--write-size", VALUES];
const PIPE_READER: &[&str] = &["--transport", "pipe", "--role", "reader", "--write-size", PEER, "--read-size", VALUES];
const PIPE_WRITER: &[&str] = &["--transport", "pipe", "--role", "writer", "--read-size", PEER, "--write-size", VALUES];
const RELAY: &[&str] =
    &["--transport", "tcp", "--relay", "epoll", "--relay-buffer", VALUES, "--read-size", PEER, "--write-size", PEER];

/// Properties that all programs share that read a pipe.
const FROM_PIPE: ProgramCase = ProgramCase {
    name: "",
    program: "",
    package: None,
    setting: "",
    default: "64K",
    question: PIPE_READER,
    placement: Some("unpinned"),
    metric: "bytes:128M",
    start: None,
    load: "",
};

/// Properties that all programs share that write to a pipe.
const TO_PIPE: ProgramCase = ProgramCase { default: "10K", question: PIPE_WRITER, metric: "bytes:64M", ..FROM_PIPE };

/// Properties that all relays share: the program is between a source and a sink in C.
const RELAY_PROGRAM: ProgramCase = ProgramCase {
    default: "16K",
    question: RELAY,
    metric: PRINTED,
    load: "exec '{ends}' sink {port} 65536",
    ..FROM_PIPE
};

/// Properties that all sources share: a server of the program that writes to a sink in C.
const SOURCE_PROGRAM: ProgramCase = ProgramCase {
    setting: "size of a write",
    question: WRITER,
    placement: Some("cross-core"),
    metric: PRINTED,
    load: "exec '{ends}' sink {port} 65536",
    ..FROM_PIPE
};

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
        load: "exec dd if=/dev/zero of=/dev/null bs={value} count={1G/value} status=none",
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
        load: "dd if=/dev/zero bs={value} count={128M/value} status=none | dd of=/dev/null bs={value} status=none",
    },
    ProgramCase {
        name: "pv",
        program: "pv",
        package: Some("pv"),
        setting: "`-B`, reads a pipe, without splice",
        default: "128K",
        load: "dd if=/dev/zero bs=64K count=2048 status=none | pv -q -C -B {value} > /dev/null",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "socat-tcp",
        program: "socat",
        package: Some("socat"),
        setting: "`-b` of both ends, TCP",
        default: "8K",
        question: BOTH_ENDS,
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
        question: BOTH_ENDS,
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
        start: Some((
            "sed s/@SIZE@/{value}/ '{dir}/haproxy.cfg' > '{dir}/haproxy.run.cfg' && exec '{ends}' source {back} 67108864 \
             65536 '{program}' -db -f '{dir}/haproxy.run.cfg'",
            AT_PORT,
        )),
        ..RELAY_PROGRAM
    },
    ProgramCase {
        name: "nginx",
        program: "nginx",
        package: Some("nginx"),
        setting: "`output_buffers`, without sendfile",
        default: "32K",
        question: WRITER,
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
    ProgramCase {
        name: "mbuffer",
        program: "mbuffer",
        package: Some("mbuffer"),
        setting: "`-s`, reads a pipe",
        default: "10K",
        load: "dd if=/dev/zero bs=64K count=2048 status=none | mbuffer -q -s {value} -m 32M > /dev/null",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "buffer",
        program: "buffer",
        package: Some("buffer"),
        setting: "`-s`, reads a pipe",
        default: "10K",
        load: "dd if=/dev/zero bs=64K count=2048 status=none | buffer -s {value} -m 16m > /dev/null",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "openssl",
        program: "openssl",
        package: Some("openssl"),
        setting: "`enc -bufsize`, reads a pipe",
        default: "8K",
        load: "dd if=/dev/zero bs=64K count=2048 status=none | openssl enc -aes-128-ctr -K 0123456789abcdef0123456789abcdef \
               -iv 00000000000000000000000000000000 -nosalt -bufsize {value} > /dev/null",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "tar",
        program: "tar",
        package: Some("tar"),
        setting: "`--record-size`, writes to a pipe",
        load: "tar -cf - --record-size={value} -C '{dir}/files' zeros | dd of=/dev/null bs=64K status=none",
        ..TO_PIPE
    },
    ProgramCase {
        name: "bsdtar",
        program: "bsdtar",
        package: Some("libarchive-tools"),
        setting: "`-b`, writes to a pipe",
        load: "size={value}; bsdtar -cf - -b $((size / 512)) -C '{dir}/files' zeros | dd of=/dev/null bs=64K status=none",
        ..TO_PIPE
    },
    ProgramCase {
        name: "cpio",
        program: "cpio",
        package: Some("cpio"),
        setting: "`--io-size`, writes to a pipe",
        default: "512",
        load: "cd '{dir}/files' && echo zeros | cpio -o --quiet -H newc --io-size={value} | dd of=/dev/null bs=64K status=none",
        ..TO_PIPE
    },
    ProgramCase {
        name: "iperf2",
        program: "iperf",
        package: Some("iperf"),
        setting: "`-l`",
        default: "128K",
        question: BOTH_ENDS,
        placement: Some("cross-core"),
        metric: "regex:([0-9.]+) Mbits/sec",
        start: Some(("exec iperf -s -B 127.0.0.1 -p {port} -l {value}", AT_PORT)),
        load: "exec iperf -c 127.0.0.1 -p {port} -l {value} -n 256M -f m",
    },
    ProgramCase {
        name: "nuttcp",
        program: "nuttcp",
        package: Some("nuttcp"),
        setting: "`-l`",
        question: BOTH_ENDS,
        placement: Some("cross-core"),
        metric: "regex:= +([0-9.]+) Mbps",
        start: Some(("exec nuttcp -S --nofork -P{port}", AT_PORT)),
        load: "exec nuttcp -t -l{value} -n256m -P{port} -p{back} 127.0.0.1",
        ..SINK
    },
    ProgramCase {
        name: "socat-relay",
        program: "socat",
        package: Some("socat"),
        setting: "`-b`, as a relay",
        default: "8K",
        start: Some((
            "exec '{ends}' source {back} 67108864 65536 socat -b {value} TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork \
             TCP:127.0.0.1:{back}",
            AT_PORT,
        )),
        ..RELAY_PROGRAM
    },
    ProgramCase {
        name: "nginx-stream",
        program: "nginx",
        package: Some("libnginx-mod-stream"),
        setting: "`proxy_buffer_size` of a TCP relay",
        start: Some((
            "sed s/@SIZE@/{value}/ '{dir}/nginx-stream.conf' > '{dir}/nginx-stream.run.conf' && exec '{ends}' source \
             {back} 67108864 65536 '{program}' -p '{dir}' -c nginx-stream.run.conf",
            AT_PORT,
        )),
        ..RELAY_PROGRAM
    },
    ProgramCase {
        name: "perl-tcp",
        program: "perl",
        package: Some("perl"),
        load: "exec '{program}' '{sinks}/sink.pl' {port} {value}",
        ..SINK
    },
    ProgramCase {
        name: "perl-unix",
        program: "perl",
        package: Some("perl"),
        question: UNIX_READER,
        start: Some((UNIX_SOURCE, AT_PATH)),
        load: "exec '{program}' '{sinks}/sink.pl' '{dir}/socket' {value}",
        ..SINK
    },
    ProgramCase {
        name: "ruby-tcp",
        program: "ruby",
        package: Some("ruby"),
        load: "exec '{program}' '{sinks}/sink.rb' {port} {value}",
        ..SINK
    },
    ProgramCase {
        name: "php-tcp",
        program: "php",
        package: Some("php-cli"),
        load: "exec '{program}' '{sinks}/sink.php' {port} {value}",
        ..SINK
    },
    ProgramCase {
        name: "tcl-tcp",
        program: "tclsh",
        package: Some("tcl"),
        load: "exec '{program}' '{sinks}/sink.tcl' {port} {value}",
        ..SINK
    },
    ProgramCase {
        name: "asyncio-tcp",
        program: "python3",
        package: Some("python3"),
        load: "exec '{program}' '{sinks}/asyncio_sink.py' {port} {value}",
        ..SINK
    },
    ProgramCase {
        name: "python-source",
        program: "python3",
        package: Some("python3"),
        start: Some(("exec '{program}' '{sources}/source.py' {port} 134217728 {value}", AT_PORT)),
        ..SOURCE_PROGRAM
    },
    ProgramCase {
        name: "perl-source",
        program: "perl",
        package: Some("perl"),
        start: Some(("exec '{program}' '{sources}/source.pl' {port} 134217728 {value}", AT_PORT)),
        ..SOURCE_PROGRAM
    },
    ProgramCase {
        name: "node-source",
        program: "node",
        start: Some(("exec '{program}' '{sources}/source.mjs' {port} 134217728 {value}", AT_PORT)),
        ..SOURCE_PROGRAM
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
