//! Programs to copy from: jobs between topics of Kafka, a generator of their input, and a check of what came out.
//!
//! Owns: the records of the examples and the rules by which they are put together. Does not own: the jobs, which are in `bin`.
//! Follows the data: what is generated, payments, clicks, what a reader of the topics sees.
#![allow(clippy::disallowed_methods, reason = "programs read their environment and write files")]

pub mod generated;
pub mod payments;
pub mod clicks;
pub mod topics;

/// The brokers: what the variable `KAFKA_BROKERS` says, or one on this machine.
#[must_use]
pub fn brokers() -> String {
    std::env::var("KAFKA_BROKERS").unwrap_or_else(|_| "localhost:9092".into())
}
