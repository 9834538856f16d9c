//! One run of iperf3 over loopback: a server for one client, and the client.
//!
//! Both run under coreutils' `timeout`, so that nothing outlives a stall. Counts what the receiver counted.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::programs;

const LOOPBACK: &str = "127.0.0.1";

/// Time that a run may take in addition to its measured seconds.
const GRACE_SECONDS: u64 = 30;

/// Between asking for a free port and the server's bind another program may take it.
const PORTS_TRIED: usize = 3;

/// iperf3 under the congestion control that both programs use.
pub struct Iperf3 {
    /// Its name.
    pub congestion: String,
}

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Bytes of a read and of a write (`-l`).
    pub length: u64,
    /// Parallel flows (`-P`).
    pub flows: u64,
    /// CPUs of the sender (the client) and the receiver (`-A`).
    pub cpus: Option<(usize, usize)>,
    /// Measured seconds.
    pub seconds: u64,
    /// Seconds before them that do not count (`-O`).
    pub omit_seconds: u64,
}

impl Job {
    /// iperf3 with a deadline.
    fn bounded(&self) -> Command {
        programs::bounded("iperf3", self.seconds + self.omit_seconds + GRACE_SECONDS)
    }
}

/// `iperf 3.12`, as the program names itself.
///
/// # Errors
/// When it is not installed.
pub fn version() -> Result<String> {
    let output = Command::new("iperf3")
        .arg("--version")
        .output()
        .context("starting iperf3: install it (`apt-get install iperf3`)")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

impl Iperf3 {
    /// Bytes per second at the receiver, all flows together.
    ///
    /// # Errors
    /// iperf3's own error output.
    pub fn rate(&self, job: &Job) -> Result<f64> {
        rate(&run(job, &["--congestion", &self.congestion])?)
    }

    /// Datagrams as fast as it goes (`-u -b 0`).
    ///
    /// # Errors
    /// iperf3's own error output.
    pub fn datagrams(job: &Job) -> Result<Iperf3Sum> {
        received(&run(job, &["--udp", "--bitrate", "0"])?)
    }
}

/// Runs the client once and returns its output.
fn run(job: &Job, further: &[&str]) -> Result<Vec<u8>> {
    let mut server = IperfServer::start(job)?;
    let output = job
        .bounded()
        .args(["--client", LOOPBACK, "--port", &server.port.to_string(), "--json", "--interval", "0"])
        .args(["--time", &job.seconds.to_string(), "--omit", &job.omit_seconds.to_string()])
        .args(["--length", &job.length.to_string(), "--parallel", &job.flows.to_string()])
        .args(further)
        .args(job.cpus.iter().flat_map(|(sender, receiver)| ["--affinity".into(), format!("{sender},{receiver}")]))
        .stdin(Stdio::null())
        .output()
        .context("starting iperf3")?;
    received(&output.stdout).with_context(|| format!("iperf3 client, {}", output.status))?;
    server.join()?;
    Ok(output.stdout)
}

/// A server that handles one client and ends.
struct IperfServer {
    child: Child,
    printed: BufReader<std::process::ChildStdout>,
    port: u16,
}

impl IperfServer {
    fn start(job: &Job) -> Result<IperfServer> {
        let mut printed = String::new();
        for _ in 0..PORTS_TRIED {
            let port = TcpListener::bind((LOOPBACK, 0)).context("looking for a free port")?.local_addr()?.port();
            let mut child = job
                .bounded()
                .args(["--server", "--one-off", "--bind", LOOPBACK, "--port", &port.to_string(), "--forceflush"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .context("starting the iperf3 server")?;
            let stdout = child.stdout.take().context("the iperf3 server has no output")?;
            let mut server = IperfServer { child, printed: BufReader::new(stdout), port };
            match server.listens() {
                Ok(()) => return Ok(server),
                Err(text) => printed = text,
            }
        }
        bail!("the iperf3 server did not listen: {}", printed.trim())
    }

    /// Waits for the line that shows that the server listens; its output if the server ended instead.
    fn listens(&mut self) -> Result<(), String> {
        let mut text = String::new();
        // `timeout` ends a silent server, and with it this loop.
        while self.printed.read_line(&mut text).is_ok_and(|bytes| bytes > 0) {
            if text.contains("listening") {
                return Ok(());
            }
        }
        Err(text)
    }

    fn join(&mut self) -> Result<()> {
        let mut rest = String::new();
        self.printed.read_to_string(&mut rest).context("reading the output of the iperf3 server")?;
        let status = self.child.wait().context("waiting for the iperf3 server")?;
        ensure!(status.success(), "the iperf3 server: {status}: {}", rest.trim());
        Ok(())
    }
}

impl Drop for IperfServer {
    fn drop(&mut self) {
        // Only while it runs and is not waited for does the number surely belong to it.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // A polite end reaches iperf3 through `timeout`; SIGKILL, as `Child::kill` sends it, would not.
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

#[derive(Deserialize)]
struct Iperf3Document {
    error: Option<String>,
    end: Option<IperfEnd>,
}

#[derive(Deserialize)]
struct IperfEnd {
    sum_received: Option<Iperf3Sum>,
}

/// The receiver's counts.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Iperf3Sum {
    bits_per_second: f64,
    /// How long it received, seconds.
    #[serde(default)]
    pub seconds: f64,
    /// Datagrams that were sent.
    #[serde(default)]
    packets: f64,
    /// Those of them that did not arrive.
    #[serde(default)]
    lost_packets: f64,
}

impl Iperf3Sum {
    /// Datagrams that arrived.
    pub fn arrived(&self) -> f64 {
        self.packets - self.lost_packets
    }
}

fn rate(json: &[u8]) -> Result<f64> {
    Ok(received(json)?.bits_per_second / 8.0)
}

fn received(json: &[u8]) -> Result<Iperf3Sum> {
    let document: Iperf3Document = serde_json::from_slice(json)
        .with_context(|| format!("its output is not JSON: {}", String::from_utf8_lossy(json).trim()))?;
    if let Some(error) = document.error {
        bail!("{error}");
    }
    let sum = document.end.and_then(|end| end.sum_received).context("its output has no end.sum_received")?;
    ensure!(sum.bits_per_second > 0.0, "it received nothing");
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<f64, &str>) {
        let got = rate(json.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{json}");
    }

    #[test]
    fn the_receiver_counts() {
        check(r#"{"end":{"sum_sent":{"bits_per_second":9},"sum_received":{"bits_per_second":80.0}}}"#, Ok(10.0));
        check(r#"{"end":{"sum_received":{"bits_per_second":0}}}"#, Err("it received nothing"));
        check(r#"{"start":{},"end":{},"error":"unable to connect"}"#, Err("unable to connect"));
        check(r#"{"end":{}}"#, Err("its output has no end.sum_received"));
        check("iperf3: oops", Err("its output is not JSON: iperf3: oops"));
    }
}
