//! Real stores for tests: two servers of S3 that share no code, and a proxy that loses answers.
//!
//! Owns: the start and end of the servers, the faults between them and their clients.
//! Does not own: any code of the product; it knows no other crate of ours. The servers are brought by `scripts/install.sh stores`.
//!
//! Invariants:
//! 1. No server outlives the process that started it, however that ends: a janitor waits for the end of a pipe, then kills what is left and
//!    removes the folder.
//! 2. Servers listen on loopback only, at ports outside of the range from which the system gives ports to clients.
//! 3. A proxy's faults depend on the number of requests alone.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it starts processes for tests, waits for them and stands between sockets"
)]

mod installed;
mod ports;
mod janitor;
mod server;
mod s3;
mod faults;
mod http;

pub use faults::{Faults, Tally};
pub use http::HttpProxy;
pub use s3::{Kind, S3};
