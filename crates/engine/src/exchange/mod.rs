//! How records go from task to task: batches by value over bounded channels, with barriers and watermarks in line.
//!
//! Owns: batches, channels between two tasks, the routing of records to channels, the alignment of several inputs.
//! Does not own: what is done with a record; where tasks run.
//!
//! Invariants:
//! 1. A channel delivers everything, in order, once.
//! 2. A sender never blocks and never loses: what does not fit waits with the sender, who then reports no room. What waits is at most
//!    what one record emitted, plus one control message for each kind.
//! 3. Between `Barrier(n)` of one channel and `Barrier(n)` of the last one, nothing that follows a barrier is taken in.

mod batch;
mod channel;
mod route;
mod output;
mod gate;
mod task;

pub use batch::{Batch, Element};
pub use channel::{Message, QUEUE_MESSAGES_MAX, Receiver, Sender, channel};
pub use gate::{Arrival, Gate};
pub use output::ExchangeOutput;
pub use route::{Hashed, KeySelector, KeyedBy, KeyedByRef, Route, RouteByKey, RouteRoundRobin};
pub use task::ExchangeTask;
