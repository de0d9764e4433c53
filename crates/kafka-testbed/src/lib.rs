//! A real Kafka for tests: a cluster of one or three brokers on loopback, and a judge that is not our client.
//!
//! Owns: the start, killing and end of broker processes, their settings and certificates; the judge, which reads topics through another
//! client library and tells what it finds.
//! Does not own: any code of the product; it knows no other crate of ours. The jars are brought by `scripts/install.sh kafka`.
//!
//! Invariants:
//! 1. No broker outlives the process that started it, however that ends: a janitor waits for the end of a pipe, then kills what is left and
//!    removes the folder.
//! 2. Ports are free ones on loopback, outside of the range from which the system gives ports to clients.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it starts processes for tests, waits for them and looks for free ports"
)]

mod installed;
mod ports;
mod certificates;
mod settings;
mod janitor;
mod broker;
mod cluster;
mod judge;

pub use certificates::Certificates;
pub use cluster::{Cluster, OpenTransaction, shared};
pub use judge::{Bytes, GroupOffset, Judge, Once, PartitionEnd, Record};
pub use ports::free_port;
pub use settings::{Listener, Load, Options};
