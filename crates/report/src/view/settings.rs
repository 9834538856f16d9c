//! How a session is analysed.

/// How a session is analysed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Confidence of every interval and of every family of comparisons, as a share.
    pub level: f64,
    /// "Within x of the best", as a share; `None` takes the session's own.
    pub margin: Option<f64>,
    /// The largest size that the fits of the cost use, bytes.
    pub fit_max: Option<u64>,
    /// A process measures the session just now. A session that is stored as running without such a process
    /// was interrupted.
    pub is_running: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { level: 0.95, margin: None, fit_max: None, is_running: false }
    }
}

impl Settings {
    /// The confidence of all looks together, as a share.
    pub fn confidence(&self) -> f64 {
        if self.level > 0.5 && self.level < 1.0 { self.level } else { 0.95 }
    }
}
