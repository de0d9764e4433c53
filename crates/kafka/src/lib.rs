//! Kafka: what became of a transaction, and how it is decided, through any crash.
//!
//! Owns: the settings of a client, read by librdkafka's names; a small client for the requests that librdkafka does not know; the rules
//! by which a prepared transaction is committed, pending or lost.
//! Does not own: threads, clocks, checkpoints; the records themselves, which go through librdkafka.
//! Follows the data: settings, the control client, the resolver, the inquiry that asks for it.
//!
//! Invariants:
//! 1. A transaction is told apart by producer id, epoch *and* start time: one handle gives two transactions the same id and epoch.
//! 2. *Lost* is said only with proof. What is not known is asked again, or is an error.
//! 3. Nothing here commits a transaction that was not described first and found to be the one meant.

pub mod codes;
pub mod settings;
pub mod control;
pub mod resolve;
pub mod inquiry;

pub use control::Control;
pub use settings::ClientSettings;
