//! Where a writer has its bytes: in its memory, or in a file that it reads or hands to the kernel.

use std::fmt;
use std::str::FromStr;

use crate::catalog::{NameError, Row, lookup, name_of, named};

/// Where a writer of a stream has its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SendFrom {
    /// In its memory.
    #[default]
    Memory,
    /// In a file in the page cache, which it reads before each send.
    File,
    /// In such a file, which the kernel sends by sendfile(2).
    Sendfile,
}

/// The places.
pub const SEND_FROM: &[Row<SendFrom>] = &[
    Row { value: SendFrom::Memory, name: "memory", summary: "bytes are in the writer's memory" },
    Row { value: SendFrom::File, name: "file", summary: "pread(2) of a file in the page cache before each send" },
    Row { value: SendFrom::Sendfile, name: "sendfile", summary: "sendfile(2) of a file in the page cache" },
];
named!(SendFrom, "place of a writer's bytes", SEND_FROM);

/// The length of the file of all writers of a process, bytes; each begins again at its end.
pub const FILE_LEN: u64 = 16 << 20;
