//! The methods of a relay that are not an engine's, a file each.

pub(super) mod bufio;
pub(super) mod copy_buffer;
pub(super) mod faulty;
pub(super) mod hybrid;
pub(super) mod pipe;
pub(super) mod read_write;
pub(super) mod readv_writev;
pub(super) mod sockmap;
pub(super) mod splice;
pub(super) mod std_copy;
pub(super) mod tokio;
