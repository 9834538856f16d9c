//! Resources shared by all sections: the program, the machine with its CPUs, and the size of the runs. A machine is named by its CPU and
//! kernel, never by its host name.

use std::path::PathBuf;

use anyhow::Result;
use bytegauge_sys::environment::MachineEnvironment;
use bytegauge_sys::topology::Topology;
use serde_json::Value;
use xtask::cargo;
use xtask::markdown::code;

use super::ours::Ours;
use crate::section::today;

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct BenchEffort {
    /// Blocks of a session.
    pub blocks: u64,
    /// Length of a run, seconds.
    pub seconds: u64,
    /// One pair or few settings: only checks that it still works.
    pub quick: bool,
}

impl BenchEffort {
    /// The smoke test.
    pub const QUICK: BenchEffort = BenchEffort { blocks: 1, seconds: 1, quick: true };
}

/// The place of all comparisons.
pub struct PeerTests {
    /// The product, built for release.
    pub ours: Ours,
    /// An earlier build of the product.
    pub earlier: Option<PathBuf>,
    /// Words in the names of the engines' rows that are measured.
    pub rows: Option<String>,
    /// Rounds of such a row.
    pub rounds: u64,
    /// Length of a trial of such a row, milliseconds.
    pub window_ms: u64,
    /// The CPUs to pin to.
    pub topology: Topology,
    /// How much to run.
    pub effort: BenchEffort,
    /// Seed of the order.
    pub seed: u64,
    /// The day, UTC.
    pub date: String,
}

impl PeerTests {
    /// Takes the product, or builds it, and reads the machine.
    ///
    /// # Errors
    /// When it does not build.
    pub fn new(program: Option<PathBuf>, effort: BenchEffort, seed: u64) -> Result<PeerTests> {
        let program = program.map_or_else(cargo::release_build, Ok)?;
        Ok(PeerTests {
            ours: Ours::new(program)?,
            earlier: None,
            rows: None,
            rounds: 1,
            window_ms: 1,
            topology: Topology::read()?,
            effort,
            seed,
            date: today()?,
        })
    }

    /// The flags that repeat it.
    pub fn flags(&self) -> String {
        let BenchEffort { blocks, seconds, quick } = self.effort;
        if quick { "--quick".into() } else { format!("--blocks {blocks} --seconds {seconds} --seed {}", self.seed) }
    }
}

/// One line about the machine, from the environment in bytegauge's JSON: facts that matter for a stream or a call over
/// loopback. The end of bytegauge may be pinned, so its view of the CPUs is not the machine's, and the other end counts as another program.
pub fn machine_line(environment: &Value, topology: &Topology) -> String {
    let cpus: Vec<String> = topology.cpus.iter().map(|place| place.cpu.to_string()).collect();
    let at = |pointer: &str| shown(environment, pointer);
    format!(
        "Machine: {}, CPUs {}, {}, {}, default congestion control {}; environment at the end, in \
         which the other end counts as another program: grade {}: {}.",
        cpu(environment),
        cpus.join(", "),
        kernel(environment),
        at("/os_pretty_name"),
        code(at("/network/congestion_control")),
        at("/grade"),
        at("/reasons")
    )
}

/// The CPU and the kernel of this machine.
pub fn host_line() -> String {
    let environment = serde_json::to_value(MachineEnvironment::read()).unwrap_or(Value::Null);
    format!("{}, {}", cpu(&environment), kernel(&environment))
}

fn cpu(environment: &Value) -> String {
    let virtual_machine =
        if environment.pointer("/hypervisor") == Some(&Value::Bool(true)) { " (virtual machine)" } else { "" };
    format!("{}{virtual_machine}", shown(environment, "/cpu/model"))
}

/// The part behind the version is the builder's own and may contain a customer's name.
fn kernel(environment: &Value) -> String {
    let release = shown(environment, "/kernel_release");
    format!("Linux {}", release.split(['-', '+']).next().unwrap_or_default())
}

fn shown(environment: &Value, pointer: &str) -> String {
    match environment.pointer(pointer) {
        None | Some(Value::Null) => "unknown".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(", "),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_named_without_its_builder() {
        let environment = serde_json::json!({
            "kernel_release": "6.1.0-builder", "hypervisor": true, "grade": "B", "reasons": ["turbo unknown"],
            "os_pretty_name": "System Y", "cpu": {"model": "CPU X", "allowed": [0, 1]},
            "network": {"congestion_control": "cubic"},
        });
        assert_eq!(
            machine_line(&environment, &Topology { cpus: Vec::new() }),
            "Machine: CPU X (virtual machine), CPUs , Linux 6.1.0, System Y, default congestion control `cubic`; environment at \
             the end, in which the other end counts as another program: grade B: turbo unknown."
        );
    }
}
