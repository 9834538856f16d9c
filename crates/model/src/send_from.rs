//! Where a writer has its bytes: in its memory, or in a file that it reads or hands to the kernel.

use crate::catalog::names;

names! {
    /// Where a writer of a stream has its bytes.
    #[derive(Default)]
    SendFrom, "place of a writer's bytes", SEND_FROM {
        #[default]
        Memory = "memory": "bytes are in the writer's memory",
        File = "file": "pread(2) of a file in the page cache before each send",
        Sendfile = "sendfile": "sendfile(2) of a file in the page cache",
    }
}

/// The length of the file of all writers of a process, bytes; each begins again at its end.
pub const FILE_LEN: u64 = 16 << 20;
