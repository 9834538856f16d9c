//! The running kernel: options of its build that affect measurements, and its architecture.

use std::fs;

/// The release of the running kernel, as `uname -r` prints it.
fn release() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_owned())
}

/// Major and minor of a release, such as `6.18.1-cloud`.
#[cfg(test)]
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Major and minor of the running kernel.
#[cfg(test)]
pub(crate) fn running_version() -> Option<(u32, u32)> {
    version(&release()?)
}

/// `AUDIT_ARCH_*` of this build's own programs: the ELF machine, 64 bits, little-endian (linux/audit.h). `None` where nothing here
/// knows the calls of programs.
pub(crate) const OWN_ARCH: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xC000_00F3)
} else {
    None
};

/// Whether the kernel accounts time in interrupts separately from the interrupted thread
/// (`CONFIG_IRQ_TIME_ACCOUNTING`). If not, `softirq` and `irq` of [`CpuTicks`](crate::proc_stat::CpuTicks) are tick samples, and soft
/// interrupts are billed to the interrupted thread. `None` if no build configuration is found.
///
/// Even if built in, it is off when the clock is unsuitable (`tsc=noirqtime`, or an unstable TSC).
pub fn irq_time_accounting() -> Option<bool> {
    kernel_config().as_deref().and_then(parse_irq_time_accounting)
}

fn kernel_config() -> Option<String> {
    let release = release()?;
    // The usual path of distributions, and the path next to the modules of systemd's kernel-install.
    [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())
}

fn parse_irq_time_accounting(config: &str) -> Option<bool> {
    let mut lines = config.lines();
    if lines.any(|line| line == "CONFIG_IRQ_TIME_ACCOUNTING=y") {
        return Some(true);
    }
    // An option that is off, or unknown on this architecture, is absent or commented out. This holds only for a text
    // that is a configuration.
    config.contains("CONFIG_").then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_begins_with_two_numbers() {
        assert_eq!(
            [version("6.18.1-cloud"), version("5.4"), version("6"), version("")],
            [Some((6, 18)), Some((5, 4)), None, None]
        );
        assert!(running_version().is_some());
    }

    #[test]
    fn the_configuration_shows_interrupt_accounting() {
        let check = |config, expected| assert_eq!(parse_irq_time_accounting(config), expected);
        check("CONFIG_A=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n", Some(true));
        check("# CONFIG_IRQ_TIME_ACCOUNTING is not set\n", Some(false));
        check("CONFIG_HAVE_IRQ_TIME_ACCOUNTING=y\n", Some(false));
        check("", None);
    }
}
