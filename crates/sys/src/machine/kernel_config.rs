//! What the running kernel was built with, as far as measuring depends on it.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use super::kernel_release;

/// Whether the kernel was built to measure interrupts' time apart from the interrupted thread's
/// (`CONFIG_IRQ_TIME_ACCOUNTING`). If not, `softirq` and `irq` of [`super::CpuTicks`] are tick samples and soft
/// interrupts are billed to whom they interrupt. `None` if no build configuration is to be found.
///
/// Where it is built in, it is still off when the clock is unfit (`tsc=noirqtime`, or a TSC found
/// unstable). Starts `gzip` to read `/proc/config.gz`, so ask once a session.
#[must_use]
pub fn irq_time_accounting() -> Option<bool> {
    kernel_config().as_deref().and_then(parse_irq_time_accounting)
}

fn kernel_config() -> Option<String> {
    let release = kernel_release::text()?;
    // Where distributions keep it; next to the modules since systemd's kernel-install.
    [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())
        .or_else(unpack_config)
}

fn unpack_config() -> Option<String> {
    let config = File::open("/proc/config.gz").ok()?;
    let output = Command::new("gzip").arg("-dc").stdin(config).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()
}

fn parse_irq_time_accounting(config: &str) -> Option<bool> {
    let mut lines = config.lines();
    if lines.any(|line| line == "CONFIG_IRQ_TIME_ACCOUNTING=y") {
        return Some(true);
    }
    // An option that is off, or unknown to this architecture, is absent or commented out. Only a
    // text that is a configuration at all may say so.
    config.contains("CONFIG_").then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_configuration_tells_about_interrupts() {
        let check = |config, expected| assert_eq!(parse_irq_time_accounting(config), expected);
        check("CONFIG_A=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n", Some(true));
        check("# CONFIG_IRQ_TIME_ACCOUNTING is not set\n", Some(false));
        check("CONFIG_HAVE_IRQ_TIME_ACCOUNTING=y\n", Some(false));
        check("", None);
    }
}
