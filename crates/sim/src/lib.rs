//! The world in one thread: the real engine with simulated time, threads and disk; faults, checkers, scenarios.
//!
//! Owns: the simulated machine, the order in which everything runs, what goes wrong, and what must hold all the same.
//! Does not own: any rule of the engine or of its connectors: their code runs here as it is.
//!
//! A seed decides everything: the job, its input, who runs next, how long all takes, and every fault.

pub mod kernel;
pub mod sink;
pub mod job;
pub mod check;
pub mod world;
pub mod explore;
