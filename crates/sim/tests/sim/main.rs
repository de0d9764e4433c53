//! The simulator's own promises, the crash table step by step, and a fixed set of seeds.

mod support;
mod rows;
mod same_seed;
mod crash_table;
mod transactions;
mod every_write;
mod found;
mod reports;
mod seeds;
