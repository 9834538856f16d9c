//! The workload `stream`: bulk, one way. A source that always sends, a sink that always receives.

mod file;
mod party;
mod sink;
mod source;
mod work;

pub use file::SourceFile;
pub use file::memory as file_memory;
pub(crate) use file::pattern;
pub use party::{Carried, Streams};

pub use sink::SinkFlow;
pub(crate) use sink::receive_buffer;
pub use source::SourceFlow;
pub use work::{CopyOut, Discard, ReaderWork, SpinPerByte, SpinPerRead, Sum, Walk};
