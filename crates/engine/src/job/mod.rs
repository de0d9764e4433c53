//! Jobs: the typed streams that a program writes down, and the plan made of them.
//!
//! Owns: the user's way of saying what is to be done, the graph, its checks and fingerprint, the making of one task's chain.
//! Does not own: running it.

mod plan;
mod build;
mod inline;
mod stream;
mod keyed;
mod environment;

pub use build::{Assembled, EdgeTable, Restored, TaskBuild};
pub use environment::{Environment, Settings, Stopper};
pub(crate) use inline::{decode_inline, encode_inline};
pub use keyed::{Windowed, WindowedStream};
pub use plan::{ChainPlan, Edge, Head, OperatorKind, OperatorPlan, Output, Plan, Segment, SegmentFactory};
pub use stream::{ExchangeStart, Exchanged, KeyedStream, LinkStart, Linked, Shared, SourceStart, Start, Stream};
