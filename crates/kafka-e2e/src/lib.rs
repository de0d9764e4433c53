//! Jobs from Kafka to Kafka, in processes of their own, for tests against real brokers.
//!
//! Owns: the job that tests kill, its start and its check; the kill loop. Does not own: brokers and the judge (`kafka-testbed`), steps and
//! scripts (`e2e`).
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "end-to-end tests start processes and look at clocks")]

pub mod job;
pub mod soak;

use serde::{Deserialize, Serialize};

/// What goes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// Account, the key.
    pub account: u64,
    /// Amount; each is there once.
    pub cents: i64,
}

/// What comes out: a payment with what its account has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booked {
    /// Account, the key.
    pub account: u64,
    /// Amount.
    pub cents: i64,
    /// Payments of the account up to this one.
    pub nth: u64,
    /// Their sum.
    pub total: i64,
}
