//! `cargo lab mesh cluster`: a whole cluster on this machine, with a planted fault that the result must name.
//!
//! `lab/mesh/cluster.sh` makes the hosts, with Slurm, sshd and links of a fixed rate. The mesh is started by the script that
//! `bytegauge mesh print` prints, as a user would. Each run has its own seed; the fault and the sound hosts stay the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, bail, ensure};
use bytegauge_mesh::files::{self, MeshData};
use bytegauge_mesh::summary::MeshSummary;
use bytegauge_mesh::{MeshResult, Rank};
use clap::{Arg, ArgMatches, Command, value_parser};
use xtask::{cargo, product};

/// The planted slow host, or the one that is killed.
const SLOW_HOST: &str = "n5";

/// The hosts of the planted slow link.
const SLOW_LINK: [&str; 2] = ["n3", "n8"];

/// The links of all hosts together, Mbit/s: two CPUs can move it.
const TOTAL_MBIT: u32 = 1_600;

/// A planted fault and the variable of `cluster.sh` that makes it.
struct ClusterFault {
    name: &'static str,
    variable: Option<(&'static str, &'static str)>,
}

const FAULTS: [ClusterFault; 4] = [
    ClusterFault { name: "none", variable: None },
    ClusterFault { name: "host", variable: Some(("SLOW_HOST", SLOW_HOST)) },
    ClusterFault { name: "link", variable: Some(("SLOW_LINK", "n3,n8")) },
    ClusterFault { name: KILLED, variable: Some(("KILLED_HOST", SLOW_HOST)) },
];

/// A host whose process is killed in the middle.
const KILLED: &str = "killed";

/// Kills the process of a host when the ranks have written 100 lines, and not before a mesh begins.
const KILL: &str = r#"
kill_one() {
  until test "$(cat mesh*/rank-*.jsonl.part 2> /dev/null | wc -l)" -ge 100; do sleep 0.2; done
  for id in $(ip netns pids "$KILLED_HOST"); do
    if test "$(cat /proc/$id/comm 2> /dev/null)" = bytegauge; then kill -9 "$id"; fi
  done
}
"#;

/// Launchers, and the command that runs the printed script.
const LAUNCHERS: [(&str, &str); 3] = [("slurm", "sbatch --wait"), ("mpirun", "bash"), ("pdsh", "bash")];

/// `cargo lab mesh cluster`.
pub fn command() -> Command {
    let number = |name, default, help| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(value_parser!(u32).range(1..))
            .default_value(default)
            .help(help)
    };
    let choice = |name, names: Vec<&'static str>, help| Arg::new(name).long(name).value_parser(names).help(help);
    Command::new("cluster")
        .about("Find planted faults in a cluster of network namespaces (root; Debian: slurm, munge, openssh-server, openmpi, pdsh)")
        .arg(number("hosts", "16", "Number of hosts, from 10"))
        .arg(number("runs", "20", "Runs of each fault"))
        .arg(number("seed", "1", "Seed of the first run"))
        .arg(choice("fault", FAULTS.map(|fault| fault.name).to_vec(), "Only this fault"))
        .arg(choice("launcher", LAUNCHERS.map(|(name, _)| name).to_vec(), "Launcher").default_value("slurm"))
        .arg(Arg::new("keep").long("keep").value_name("DIR").help("Keep the files of all runs in this directory"))
        .arg(Arg::new("flags").value_name("FLAG").num_args(0..).last(true).help("Flags of the mesh"))
}

/// A study of one fault.
struct ClusterStudy<'a> {
    program: PathBuf,
    hosts: u32,
    runs: u32,
    seed: u32,
    launcher: (&'static str, &'static str),
    flags: Vec<&'a str>,
    folder: PathBuf,
}

/// Runs all faults, or one.
///
/// # Errors
/// When a cluster does not start, or a run names something else than its fault.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(1);
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let kept = tempfile::tempdir().context("making a folder")?;
    let launcher = LAUNCHERS.into_iter().find(|(name, _)| Some(*name) == text("launcher")).context("no launcher")?;
    let flags = matches.get_many::<String>("flags").into_iter().flatten().map(String::as_str).collect();
    ensure!(number("hosts") >= 10, "--hosts {}: give 10 or more", number("hosts"));
    let study = ClusterStudy {
        program: product::built()?,
        hosts: number("hosts"),
        runs: number("runs"),
        seed: number("seed"),
        launcher,
        flags,
        folder: text("keep").map_or_else(|| kept.path().to_owned(), PathBuf::from),
    };
    let wanted = FAULTS.iter().filter(|fault| text("fault").is_none_or(|name| fault.name == name));
    let mut wrong = 0;
    for fault in wanted {
        wrong += study.fault(fault)?;
    }
    ensure!(wrong == 0, "{wrong} runs named something else than the planted fault");
    Ok(())
}

impl ClusterStudy<'_> {
    /// Runs one fault: the number of runs with a wrong result.
    fn fault(&self, fault: &ClusterFault) -> Result<u32> {
        let dir = self.folder.join(fault.name);
        fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        self.start(fault, &dir)?;
        let mut wrong = 0;
        for run in 0..self.runs {
            let data = files::read(&dir.join(format!("run-{run}")))?;
            let summary = MeshSummary::of(&data);
            let result = summary.results.first().context("a mesh without options")?;
            let is_right = named(&data, result) == expected(fault)
                && (fault.name != KILLED || names_the_killed(&data, &summary.missing));
            wrong += u32::from(!is_right);
            println!(
                "{} hosts, {}, fault {}, run {run}: {}: {} of {} tests in {:.0} s: {}",
                self.hosts,
                self.launcher.0,
                fault.name,
                if is_right { "right" } else { "WRONG" },
                summary.measured,
                summary.parts,
                summary.span_ns as f64 / 1e9,
                named(&data, result).join(", ")
            );
        }
        println!("{} hosts, fault {}: {} of {} runs right", self.hosts, fault.name, self.runs - wrong, self.runs);
        Ok(wrong)
    }

    /// Makes the cluster, and runs the printed script in it again and again.
    fn start(&self, fault: &ClusterFault, dir: &Path) -> Result<()> {
        let size = self.hosts.to_string();
        let mbit = (TOTAL_MBIT / self.hosts).clamp(10, 100).to_string();
        let hosts: Vec<String> = (1..=self.hosts).map(|number| format!("n{number}\n")).collect();
        fs::write(dir.join("hosts"), hosts.concat())?;
        let script = format!(
            "set -e\n{KILL}\n\
             bytegauge agent --init --key-file bytegauge.key\n\
             for run in $(seq 0 {last}); do\n\
               bytegauge mesh print {launcher} --size {size} -- --seed $(({seed} + run)) {flags} > mesh.sh\n\
               if test -n \"$KILLED_HOST\"; then kill_one & fi\n\
               onhost ctl {start} mesh.sh > run.log 2>&1 || true\n\
               wait\n\
               for made in mesh mesh-[0-9]*; do if test -d $made; then mv $made run-$run; fi; done\n\
               test -d run-$run || {{ cat run.log; exit 1; }}\n\
             done",
            last = self.runs - 1,
            launcher = self.launcher.0,
            start = self.launcher.1,
            seed = self.seed,
            flags = self.flags.join(" "),
        );
        let mut command = Process::new(cargo::root().join("lab/mesh/cluster.sh"));
        command.args([&size, "bash", "-c", &script]).current_dir(dir).stdin(Stdio::null());
        command.env("BYTEGAUGE", &self.program).env("LINK_MBIT", mbit);
        command.envs(fault.variable);
        let status = command.status().context("starting lab/mesh/cluster.sh")?;
        if !status.success() {
            bail!("lab/mesh/cluster.sh: {status}: it needs root and the packages that it names");
        }
        Ok(())
    }
}

/// Whether tests are missing because a host was killed, and at most the one that was running for another reason.
fn names_the_killed(data: &MeshData, missing: &[(String, usize)]) -> bool {
    let Some(rank) = data.hosts.iter().find(|(_, hello)| hello.host == SLOW_HOST).map(|(rank, _)| rank) else {
        return false;
    };
    let reason = format!("rank {rank} disconnected");
    let others: usize = missing.iter().filter(|(other, _)| *other != reason).map(|(_, count)| count).sum();
    others <= 1 && missing.len() > usize::from(others > 0)
}

/// The names that a run must give.
fn expected(fault: &ClusterFault) -> Vec<String> {
    match fault.name {
        "host" => vec![format!("host {SLOW_HOST}")],
        "link" => {
            let [one, other] = SLOW_LINK;
            vec![format!("link {one} to {other}"), format!("link {other} to {one}")]
        }
        _ => Vec::new(),
    }
}

/// The names that a run gives, in alphabetical order.
fn named(data: &MeshData, result: &MeshResult) -> Vec<String> {
    let names: BTreeMap<Rank, &str> = data.hosts.iter().map(|(rank, hello)| (*rank, hello.host.as_str())).collect();
    let name = |rank: Rank| names.get(&rank).copied().unwrap_or("?");
    let hosts = result.slow_hosts.iter().map(|host| format!("host {}", name(host.rank)));
    let links = result.slow_links.iter().map(|link| format!("link {} to {}", name(link.sender), name(link.receiver)));
    let racks = result.slow_racks.iter().map(|racks| format!("racks {} to {}", racks.sender, racks.receiver));
    let mut all: Vec<String> = hosts.chain(links).chain(racks).collect();
    all.sort();
    all
}
