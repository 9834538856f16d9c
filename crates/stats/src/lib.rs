//! From trials to judgements: estimates, intervals, best sets, recommendations, cost models.
//!
//! Pure: plain numbers and indices in, settled numbers out. What a cell *is* stays outside; here it
//! is an index. Randomness comes from a seed given by the caller, so the same trials and the same
//! seed give the same bits.
//!
//! Never reads a clock, never does I/O, never starts a thread, never drops an outlier, never words a
//! sentence.
//!
//! The road of the data: [`warmup`] (when to start counting) → [`finalists`] (whom to confirm) →
//! [`group`] (the verdict on one group; calls [`serial`], [`twin`], [`best_set`]) → [`recommend`]
//! (the cheapest choice that is good enough everywhere; calls [`budget`]). [`looks`] says when the
//! trials may be judged, [`audit`] whether long ones contradict. Beside it stand [`interval`] and [`modes`] (one cell), [`avoid`] (levels, by
//! the screening), [`stolen`] (whether steal goes with the cell), [`trend`] (whether a rate rose or fell), [`cost`] (time against size),
//! [`compare`] (two subjects), [`across`] (one question over several sessions), [`grade`] (the environment) and [`knee`] (the search for a rate).
//! [`sim`] makes worlds whose truth is known; [`verify`] checks every claim in them.

#![forbid(unsafe_code)]

pub mod across;
pub mod audit;
pub mod avoid;
pub mod best_set;
pub mod budget;
pub mod compare;
pub mod cost;
pub mod dip;
pub mod finalists;
pub mod grade;
pub mod group;
pub mod interval;
pub mod knee;
pub mod lifetimes;
pub mod looks;
pub mod modes;
pub mod outlier;
pub mod pairs;
pub mod quantile;
pub mod recommend;
pub mod rng;
pub mod serial;
pub mod sim;
pub mod stolen;
pub mod trend;
pub mod twin;
pub mod verify;
pub mod warmup;

mod flips;
