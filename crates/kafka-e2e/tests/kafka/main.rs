//! Whole jobs against a real broker, judged by a client that is not ours. One binary, one broker.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    reason = "end-to-end tests start processes and look at clocks"
)]

mod support;
mod jobs;
mod rows;
mod outage;
mod reports;
mod topics;
mod kills;
mod metrics;
mod command;
mod verify;
mod txn;
