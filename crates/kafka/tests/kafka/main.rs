//! Facts about Kafka that the sink rests on, each checked against a real broker; and the control client, by its answers.
//!
//! All tests share one broker and have topics and ids of their own; those that need another kind of cluster start it themselves.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests against real brokers, and one scripted broker that listens itself"
)]

mod writer;
mod transactions;
mod verdicts;
mod preflight;
mod security;
mod outage;
mod scripted;
mod two_phase;
