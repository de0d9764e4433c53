//! What nearly every job needs: `use staunch::prelude::*;`.
//!
//! The derives of `serde` are not among them: a program names its own version of it.

pub use staunch_api::Rejected;
pub use staunch_engine::job::{Exchanged, KeyedStream, Linked, Shared, Stream, WindowedStream};
pub use staunch_engine::operator::window::{Aggregate, Days, Fold, Hopping, Session, Tumbling, WindowResult};
pub use staunch_engine::operator::{Process, ProcessContext, Timer, Watermarks};
pub use staunch_engine::state::keyed::Scope;
pub use staunch_engine::state::kinds::{ListState, MapState, ValueState};
pub use staunch_files::{Compression, FileSink, FileSource, SplitSize};
pub use staunch_types::Timestamp;

pub use crate::time::{days, hours, millis, mins, secs};
pub use crate::{Checkpoints, Environment, Result};
