//! What a session's claims hold for.

/// What every sentence of a session says of its claims.
pub(crate) struct Scope {
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Confidence level, as a share.
    pub level: f64,
    /// Seed of the statistics.
    pub seed: u64,
    /// The trials are somebody else's.
    pub imported: bool,
    /// From the first trial to the last, seconds.
    pub seconds: Option<f64>,
    /// The environment's grade.
    pub grade: Option<char>,
    /// Share of CPU time that the hypervisor gave to others.
    pub steal_share: Option<f64>,
}
