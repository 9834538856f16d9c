//! The files of programs that are started by name.
//!
//! For a program that the product chooses, it never searches a relative folder of `PATH`: it may be a folder of another user.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders of system programs that may not be in `PATH`.
const OF_SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The file of a program, by its name or its path. A name is looked up in the absolute folders of `PATH` and in those of system
/// programs.
pub fn find_program(word: &str) -> Option<PathBuf> {
    find_in(&env::var_os("PATH").unwrap_or_default(), word)
}

/// The file that execvp(3) would run for a program of the user, who chose the folders of `PATH`.
pub fn find_to_run(word: &str) -> Option<PathBuf> {
    find_among(word, env::split_paths(&env::var_os("PATH").unwrap_or_default()))
}

fn find_in(path: &OsStr, word: &str) -> Option<PathBuf> {
    let folders = env::split_paths(path).filter(|folder| folder.is_absolute());
    find_among(word, folders.chain(OF_SYSTEM.map(PathBuf::from)))
}

fn find_among(word: &str, mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|path| is_program(path));
    }
    folders.find_map(|folder| Some(folder.join(word)).filter(|path| is_program(path)))
}

/// Whether a file can be executed by some user.
pub fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn relative_folders_are_not_searched() {
        let scratch = Scratch::new();
        let program = scratch.file("a-program", "").path().join("a-program");
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let depth = env::current_dir().unwrap().components().count() - 1;
        let relative = PathBuf::from("../".repeat(depth)).join(scratch.path().strip_prefix("/").unwrap());
        assert!(is_program(&relative.join("a-program")));
        let found = |folders: &[&Path]| find_in(&env::join_paths(folders).unwrap(), "a-program");
        assert_eq!(found(&[&relative, Path::new("")]), None);
        assert_eq!(found(&[&relative, scratch.path()]).as_ref(), Some(&program));
        assert_eq!(find_program(program.to_str().unwrap()), Some(program));
    }
}
