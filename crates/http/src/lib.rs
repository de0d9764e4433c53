//! The HTTP interface of a job: its figures, for Prometheus.
//!
//! Owns: where it listens, who may read, the pages. Does not own: the figures (staunch-api, and whoever tells them), any clock.
//!
//! Figures come from [`Metrics`](staunch_api::Metrics) when somebody asks, and go out as text.
//!
//! Invariants:
//! 1. It only reads, and no task waits for it: it has one thread of its own.
//! 2. Other machines are answered only if they know a token.
//! 3. At most [`CONNECTIONS_MAX`](server::CONNECTIONS_MAX) connections are open, each for a bounded time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is a client of the outside: it has a socket, and a thread of its own"
)]

mod address;
mod exposition;
mod pages;
mod server;

pub use address::Http;
pub use server::Server;
