//! Operators: what is done with records between source and sink.
//!
//! Owns: the contract of a fused chain and its nodes: stateless steps, event time, keyed state, windows, fan-out.
//! Does not own: how records come in (source, exchange) and leave (exchange, sink); state tables.
//!
//! A chain is a nest of nodes, each holding the next one: `Map { function, next: Filter { .., next: Exchange } }`. Everything is
//! resolved at compile time, so a record runs through the whole chain in registers. Fan-outs alone go through `dyn`, per batch.
//!
//! Invariants:
//! 1. A head calls `push` and `control` only while `room()` is true; a node that must emit more than fits says no room and
//!    goes on in `work`.
//! 2. Controls arrive in order with the records; a node passes on what it does not itself complete later.

mod chain;
mod context;
mod guard;
mod stateless;
mod guard_ahead;
mod event_time;
mod link;
mod unsealed;
mod keyed;
pub mod window;

pub use chain::{Activity, Chain, Control, OpenedSplit};
pub use context::{OperatorCounts, OperatorPart, OperatorRestore, SnapshotPart, TaskContext};
pub use event_time::{EventTime, EventTimeNode, Watermarks};
pub use guard::{Named, running_operator};
pub use guard_ahead::{GuardAhead, GuardAheadNode};
pub(crate) use keyed::{Ahead, Keeper};
pub use keyed::{Process, ProcessContext, ProcessNode, ProcessStep, StatefulMap, StatefulMapNode, Timer};
pub use link::{Link, LinkOutput, SplitOutput};
pub use stateless::{Filter, FilterNode, FlatMap, FlatMapNode, Identity, Inspect, InspectNode, Map, MapNode, Then, Transform};
pub use unsealed::Unsealed;
