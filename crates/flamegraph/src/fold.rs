//! Converts perf's output to folded stacks, a line for each with the CPU time of its samples, and those to a
//! picture.

use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph::{self, Options};

/// Folds what `perf script` printed.
///
/// # Errors
/// When it holds no sample, or is not perf's.
pub fn folded(script: &[u8]) -> Result<Vec<u8>, String> {
    let mut folded = Vec::new();
    let done = Folder::default().collapse(script, &mut folded);
    done.map_err(|error| format!("perf's output cannot be read: {error}"))?;
    match folded.is_empty() {
        true => Err("it has no samples: it hardly ran".into()),
        false => Ok(folded),
    }
}

/// Draws folded stacks: an SVG that can be searched and zoomed in a browser, and needs no network.
///
/// # Errors
/// When there is nothing to draw.
pub fn drawn(folded: &[u8], title: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.title = title.to_owned();
    // A sample of the CPU clock represents its period, which is a time.
    options.count_name = "ns".to_owned();
    let mut picture = Vec::new();
    let done = flamegraph::from_reader(&mut options, folded, &mut picture);
    done.map(|()| picture).map_err(|error| format!("drawing failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As perf 6.1 prints them, of a relay that splices: two samples of one stack, one of another, another thread.
    const SCRIPT: &[u8] = include_bytes!("splice.script");

    #[test]
    fn times_are_summed_by_stack() {
        let folded = String::from_utf8(folded(SCRIPT).unwrap()).unwrap();
        let mut lines: Vec<&str> = folded.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "relay-2;[unknown] 1003009",
                "relay;splice;entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_splice;do_splice;tcp_splice_read 2006018",
                "relay;splice;entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_splice;splice_from_pipe 1003009",
            ]
        );
    }

    #[test]
    fn a_picture_names_what_it_shows() {
        let picture = String::from_utf8(drawn(&folded(SCRIPT).unwrap(), "relay splice").unwrap()).unwrap();
        for part in ["<svg", "relay splice", "tcp_splice_read (2,006,018 ns, 50.00%)"] {
            assert!(picture.contains(part), "{part}");
        }
    }

    #[test]
    fn a_script_without_samples_is_an_error() {
        assert!(folded(b"").unwrap_err().contains("it has no samples"));
        assert!(drawn(b"", "x").is_err());
    }
}
