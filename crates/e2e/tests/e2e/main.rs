//! End to end: real processes, real files, kill -9. One binary.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    reason = "end-to-end tests start processes, look at clocks and touch files themselves"
)]

mod support;
mod expected;
mod tampered;
mod crash_table;
mod fenced;
mod lost;
mod rewound;
mod store;
mod reports;
mod killed;
mod rocksdb;
