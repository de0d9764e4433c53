//! Staunch: a stream processor whose every epoch becomes visible to the outside world exactly once, provably.
//!
//! Owns: what a user's program sees: the environment with its command line, settings from flags, environment variables and files,
//! progress, signals, exit codes; and the words gathered in [`prelude`].
//! Does not own: streams and how they run (staunch-engine), connectors (staunch-files), the HTTP interface (staunch-http), the command `staunch` (beside this library).
//!
//! A job is a plain program:
//!
//! ```no_run
//! use serde::Deserialize;
//! use staunch::prelude::*;
//!
//! #[derive(Deserialize)]
//! struct Payment { account: u64, cents: i64, at: Timestamp }
//!
//! fn main() -> staunch::Result<()> {
//!     let mut env = Environment::from_args()?;
//!     env.checkpoints(Checkpoints::every(secs(10)).to("checkpoints"));
//!     env.source("payments", FileSource::csv("payments/*.csv.gz"))
//!         .event_time(|p: &Payment| p.at, Watermarks::bounded(mins(5)))
//!         .key_by(|p| p.account)
//!         .window(Tumbling::of(hours(1)))
//!         .fold("cents", || 0i64, |sum, p| *sum += p.cents)
//!         .map(|w| (w.key, w.start, w.value))
//!         .sink("per-hour", FileSink::csv("per-hour").header(false));
//!     env.execute("cents-per-hour")
//! }
//! ```
//!
//! Where clocks may be wrong, `.event_time_guarded(|p: &Payment| p.at, Watermarks::bounded(mins(5)), hours(1))` gives two streams: the
//! payments, and those aside that lie more than an hour ahead of all others and would make what follows late.
//!
//! Started as `cents-per-hour`, it runs; `cents-per-hour plan` prints the graph and its guarantees, `cents-per-hour check` looks
//! whether it can run; `--help` lists all options.
#![allow(
    clippy::disallowed_methods,
    reason = "settings are read, signals heard and exit codes given here, at the edge between a program and the world"
)]

pub mod prelude;
mod time;
mod options;
mod environment;
mod plan;
mod check;
mod run;
mod progress;
mod signals;
mod exit;

pub use environment::{Checkpoints, Environment};
pub use exit::{ExitStage, exit_code};
pub use options::{Command, JobOptions};
pub use run::Stopper;
pub use staunch_http::Http;
pub use time::{days, hours, millis, mins, secs};

pub use staunch_engine as engine;
pub use staunch_files as files;
/// Topics of Kafka as sources and sinks: feature `kafka`.
#[cfg(feature = "kafka")]
pub use staunch_kafka as kafka;
/// RocksDB under keyed state: feature `rocksdb`.
#[cfg(feature = "rocksdb")]
pub use staunch_rocksdb as rocksdb;
pub use staunch_types::{Error, ErrorKind, Result};
