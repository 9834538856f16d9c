//! Sessions planted in memory, and what is said about them.
#![forbid(unsafe_code)]

mod across;
mod agree;
mod audit;
mod between;
mod both_ways;
mod calls;
mod checks;
mod datagrams;
mod formats;
mod hostile;
mod newcomer;
mod open;
mod page;
mod relays;
mod render;
mod robust;
mod schema;
mod screen;
mod several;
mod support;
mod two;
mod view;
