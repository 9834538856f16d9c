//! The scope of a session's claims.

/// The common parts of every sentence about a session's claims.
pub(crate) struct Scope {
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Confidence level, as a share.
    pub level: f64,
    /// Seed of the statistics.
    pub seed: u64,
    /// The trials are imported.
    pub imported: bool,
    /// From the first trial to the last, seconds.
    pub seconds: Option<f64>,
    /// The environment's grade.
    pub grade: Option<char>,
    /// CPU steal, as a share.
    pub steal_share: Option<f64>,
}
