//! Reads a procfs file repeatedly, without opening it or allocating again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A procfs file whose text the kernel generates at each read from its start.
#[derive(Debug)]
pub(super) struct OpenText {
    file: File,
    buffer: Vec<u8>,
}

impl OpenText {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, buffer: vec![0; 16 << 10] })
    }

    pub(super) fn read(&mut self) -> io::Result<&str> {
        let mut len = 0;
        loop {
            if len == self.buffer.len() {
                self.buffer.resize(2 * len, 0);
            }
            // The kernel keeps the remaining text for the read that continues, so the parts belong together
            // (fs/seq_file.c).
            match self.file.read_at(&mut self.buffer[len..], len as u64) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        std::str::from_utf8(&self.buffer[..len]).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn open_small(path: &Path) -> OpenText {
        let mut text = OpenText::open(path).unwrap();
        text.buffer.truncate(16);
        text
    }

    #[test]
    fn a_text_larger_than_the_buffer_is_read() {
        let scratch = Scratch::new();
        let long = "0123456789".repeat(100);
        scratch.file("long", &long);
        let mut text = open_small(&scratch.path().join("long"));
        assert_eq!(text.read().unwrap(), long);
        assert_eq!(text.read().unwrap(), long);
    }

    #[test]
    fn procfs_continues_a_text_that_did_not_fit() {
        let mut text = open_small(Path::new("/proc/softirqs"));
        let lines = text.read().unwrap().lines().count();
        let whole = std::fs::read_to_string("/proc/softirqs").unwrap();
        assert_eq!(lines, whole.lines().count());
    }

    #[test]
    fn a_shorter_text_replaces_a_longer_one() {
        let scratch = Scratch::new();
        scratch.file("text", "long text");
        let path = scratch.path().join("text");
        let mut text = OpenText::open(&path).unwrap();
        assert_eq!(text.read().unwrap(), "long text");
        scratch.file("text", "short");
        assert_eq!(text.read().unwrap(), "short");
    }
}
