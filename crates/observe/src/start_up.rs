//! Files that a program reads at its start, regardless of its task: libraries, settings, an interpreter's modules and
//! its script. Pure: uses names only.

/// Programs that read their own program from a file.
const INTERPRETERS: [&str; 16] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "python", "pypy", "perl", "ruby", "node", "php", "lua", "java",
    "Rscript",
];

/// Extensions of interpreters' modules.
const MODULES: [&str; 20] = [
    "bash", "zsh", "pyc", "py", "pth", "pm", "pl", "rb", "js", "mjs", "cjs", "lua", "luac", "php", "class", "jar",
    "jsa", "sh", "zwc", "R",
];

/// Whether a program with this name and command line reads `path` only at its start.
pub(super) fn is_start_up(program: &str, command: &[String], path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let settings = ["/etc/", "/proc/", "/sys/", "/usr/lib/locale/", "/usr/share/locale/", "/usr/share/zoneinfo/"];
    if file.ends_with(".so") || file.contains(".so.") || settings.iter().any(|folder| path.starts_with(folder)) {
        return true;
    }
    if !is_interpreter(program) {
        return false;
    }
    let ending = file.rsplit_once('.').map(|(_, ending)| ending);
    let is_module = ending.is_some_and(|ending| MODULES.contains(&ending));
    let is_installed = path.contains("/lib/")
        && ["python", "ruby", "perl", "node_modules", "jvm", "php", "lua"].iter().any(|of| path.contains(of));
    // The first word that is no flag is the script; the words after it are arguments of the script.
    let script = command.iter().skip(1).find(|word| !word.starts_with('-'));
    let is_script = script.is_some_and(|script| path.ends_with(script.trim_start_matches("./")));
    is_module || is_installed || is_script || file == "pyvenv.cfg"
}

/// By its name, with or without a version (`python3.12`).
fn is_interpreter(program: &str) -> bool {
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.contains(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_up_files_differ_from_data() {
        let words = |words: &str| -> Vec<String> { words.split(' ').map(str::to_owned).collect() };
        for (program, command, path, expected) in [
            ("dd", "dd if=x", "/usr/lib/x86_64-linux-gnu/libc.so.6", true),
            ("dd", "dd if=x", "/etc/ld.so.cache", true),
            ("date", "date", "/usr/share/zoneinfo/Etc/UTC", true),
            ("dd", "dd if=x", "/data/x", false),
            ("dd", "dd if=/dev/zero", "/dev/zero", false),
            ("wc", "wc a.py", "/home/me/a.py", false),
            ("python3.12", "python3 server.py 7000", "/usr/lib/python3.12/__pycache__/socket.cpython-312.pyc", true),
            ("python3", "python3 server.py 7000", "/home/me/server.py", true),
            ("python3", "python3 sum.py data.bin", "/home/me/data.bin", false),
            ("bash", "bash ./shim --fast", "/home/me/shim", true),
            ("bash", "bash -c cat<data", "/home/me/data", false),
            ("grep", "grep x /usr/share/dict/words", "/usr/share/dict/words", false),
        ] {
            assert_eq!(is_start_up(program, &words(command), path), expected, "{program} {path}");
        }
    }
}
