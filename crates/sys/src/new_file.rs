//! Creates the files of the product. No other module creates or replaces a file; `clippy.toml` forbids it.
//!
//! A folder may be writable by other users, who may have put a symbolic link where a file is going to be. So nothing is
//! written through a name that exists: a new file has a name of its own, created with `O_EXCL`, which follows no link
//! (open(2)), and takes its final name by rename(2), so that readers see the old file or the whole new one.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::owner::user;

/// Creates a file that does not exist. A file or symbolic link that is there is removed first, and never written through.
///
/// # Errors
/// Those of unlink(2) and open(2).
pub fn create_fresh(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

/// Writes a file whole, in place of the one that is there: until `write` has succeeded, the old file
/// stays. A link of this user or of root is followed; a pipe or a device is written to.
///
/// # Errors
/// Those of `write` and of the file system; a link of another user is refused.
pub fn replace<T>(path: &Path, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    let target = target(path)?;
    if fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return write(&mut File::options().write(true).open(&target)?);
    }
    let mut fresh = target.clone().into_os_string();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let written = create_fresh(&fresh).and_then(|mut file| {
        let value = write(&mut file)?;
        file.flush()?;
        fs::rename(&fresh, &target)?;
        Ok(value)
    });
    // Part of a file is of no use.
    written.inspect_err(|_| drop(fs::remove_file(&fresh)))
}

/// The file that a path names: where a link of this user or of root leads to.
fn target(path: &Path) -> io::Result<PathBuf> {
    // A link into nothing, or to a pipe, has no path of its own.
    let followed = |is_link: bool| if is_link { fs::canonicalize(path).ok() } else { None };
    Ok(followed(is_own_link(path)?).unwrap_or_else(|| path.to_owned()))
}

/// Whether a path is a link of this user or of root, which may be followed.
///
/// # Errors
/// If it is a link of another user.
pub fn is_own_link(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(link) if link.is_symlink() && ![user(), 0].contains(&link.uid()) => {
            Err(io::Error::other("it is a symbolic link of another user: remove it, or choose another name"))
        }
        found => Ok(found.is_ok_and(|found| found.is_symlink())),
    }
}

/// Opens a file that processes lock, and creates it if it does not exist; follows no link.
///
/// # Errors
/// Those of open(2); `ELOOP` for a link.
pub fn open_lock(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Writes to a file that exists: a setting of the kernel.
///
/// # Errors
/// Those of open(2) and write(2).
pub fn set(path: impl AsRef<Path>, value: impl AsRef<[u8]>) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_ref())
}

/// Creates a folder that the user named, and its parents, unless it exists.
///
/// # Errors
/// Those of mkdir(2).
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

/// Creates a folder whose name the user did not choose, unless it exists and belongs to this user.
///
/// # Errors
/// Those of mkdir(2). A link, and a folder of another user, are refused.
pub fn create_own_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(path)?;
            let is_own = found.is_dir() && found.uid() == user();
            let refused =
                || io::Error::other("it is a link, or no folder of this user: remove it, or use another --store");
            is_own.then_some(()).ok_or_else(refused)
        }
        created => created,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;
    use crate::tests::Scratch;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn new_file_replaces_a_link_to_another() {
        let scratch = Scratch::new();
        let [victim, path] = ["victim", "1.html"].map(|name| scratch.path().join(name));
        scratch.file("victim", "precious");
        symlink(&victim, scratch.path().join("1.html.new")).unwrap();
        replace(&path, |file| file.write_all(b"page")).unwrap();
        assert_eq!((text(&victim), text(&path)), ("precious".into(), "page".into()));
    }

    #[test]
    fn failed_write_keeps_the_old_file() {
        let scratch = Scratch::new();
        let path = scratch.path().join("plan.toml");
        scratch.file("plan.toml", "old");
        let failed = replace(&path, |file| file.write_all(b"half").and(Err::<(), _>(io::Error::other("full"))));
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!(text(&path), "old");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn own_links_and_devices_are_written_to() {
        let scratch = Scratch::new();
        let [file, link] = ["file", "link"].map(|name| scratch.path().join(name));
        scratch.file("file", "old");
        symlink(&file, &link).unwrap();
        replace(&link, |file| file.write_all(b"new")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(text(&file), "new");
        replace(Path::new("/dev/null"), |file| file.write_all(b"new")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        if user() == 0 {
            lchown(&link, Some(65534), None).unwrap();
            let refused = replace(&link, |file| file.write_all(b"other")).unwrap_err();
            assert!(refused.to_string().contains("another user"), "{refused}");
            assert_eq!(text(&file), "new");
        }
    }

    #[test]
    fn locks_follow_no_link() {
        let scratch = Scratch::new();
        let [lock, link] = ["lock", "link"].map(|name| scratch.path().join(name));
        symlink(&lock, &link).unwrap();
        assert!(open_lock(&link).is_err() && !lock.exists());
        open_lock(&lock).unwrap();
        open_lock(&lock).unwrap();
    }

    #[test]
    fn folders_of_others_are_refused() {
        let scratch = Scratch::new();
        let [folder, link] = ["pages", "link"].map(|name| scratch.path().join(name));
        create_own_folder(&folder).unwrap();
        create_own_folder(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        assert!(create_own_folder(&link).is_err());
        if user() == 0 {
            chown(&folder, Some(65534), None).unwrap();
            assert!(create_own_folder(&folder).is_err());
        }
    }
}
