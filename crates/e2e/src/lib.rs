//! Real processes on real files: jobs that are killed, damaged and started again, and the comparison of what they leave behind.
//!
//! Owns: the job programs of the end-to-end tests, the fail points in their world, the starting and killing of processes, the oracle.
//! Does not own: anything that users run.
//!
//! The oracle is always the same: the committed output, as a multiset of lines, equals that of a run without faults; nothing hidden is
//! left in the output directory; the ledger is verified.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "end-to-end tests start processes, look at clocks and touch files themselves"
)]

pub mod flights;
pub mod events;
pub mod world;
pub mod process;
pub mod lines;
pub mod straight;
pub mod job;
pub mod kills;
