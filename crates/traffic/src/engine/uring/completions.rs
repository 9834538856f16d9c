//! A ring with the memory that its operations use: what the parts of the loop share.

use bytegauge_model::UringKind;
use bytegauge_sys::uring::{BufferId, OpId, PoolId, Ring};

use crate::engine::driver::Driver;
use crate::fault::Fault;

/// Bytes of the pool that receives take from; each buffer is as long as one receive may be.
const POOL_SIZE: usize = 16 << 20;

/// A ring, and memory for what it moves.
pub(super) struct Completions {
    pub(super) kind: UringKind,
    pub(super) ring: Ring,
    /// What receives take from; absent in `plain`.
    pub(super) pool: Option<PoolId>,
    /// Most bytes of one receive, as the flow is given them.
    pub(super) receive_size: usize,
    /// Buffers that an operation of a closed connection still used.
    pub(super) spare_buffers: Vec<BufferId>,
    pub(super) spare_outboxes: Vec<PoolId>,
    /// The accept in flight.
    pub(super) accept: Option<OpId>,
    /// Connections accepted since the last wait.
    pub(super) accepted_now: u64,
}

pub(super) type Loop<'a, P> = Driver<'a, P, Completions>;

impl Completions {
    pub(super) fn new(kind: UringKind, mut ring: Ring, receive_size: usize) -> Result<Completions, Fault> {
        let mut pool = None;
        if kind != UringKind::Plain {
            let buffers = (POOL_SIZE / receive_size).clamp(16, 4096) as u16;
            let made = ring.new_pool(buffers, receive_size)?;
            ring.offer_all(made);
            pool = Some(made);
        }
        Ok(Completions {
            kind,
            ring,
            pool,
            receive_size,
            spare_buffers: Vec::new(),
            spare_outboxes: Vec::new(),
            accept: None,
            accepted_now: 0,
        })
    }
}
