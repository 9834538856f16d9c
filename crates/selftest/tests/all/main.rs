//! Tests of the statistics on simulated trials.

mod budget;
mod group;
mod recommend;
