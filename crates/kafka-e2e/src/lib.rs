//! Jobs from Kafka to Kafka, in processes of their own, for tests against real brokers.
//!
//! Owns: the job that tests kill. Does not own: brokers and the judge (`kafka-testbed`).

use serde::{Deserialize, Serialize};

/// The record of the tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// Account, the key.
    pub account: u64,
    /// Amount; each is there once.
    pub cents: i64,
}

/// Exit code of the job when it failed.
pub const EXIT_FAILED: i32 = 1;
/// Exit code of the job when output is provably lost.
pub const EXIT_LOST: i32 = 5;
