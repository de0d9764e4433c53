//! Checkpoints: how state leaves a task, how it comes back, where it is kept and how it is listed, sealed and retired.
//!
//! Owns: the upload of a task's state, its loading, the local store, the ledger's files, manifests, retention.
//! Does not own: the decision when an epoch is durable (staunch-protocol), the bytes' form (staunch-format), what the state is.

mod segment;
mod upload;
mod loader;
mod record;
mod names;
mod wire;
mod catalog;
mod local;

pub use catalog::{Catalog, Draft, EntryPayload, Loaded};
pub use loader::Loader;
pub use local::LocalStore;
pub use names::SinkNames;
pub use record::{CheckpointRecord, NamedCommittable, SourceRecord};
pub use segment::{DatabasePart, DatabaseState, Segment};
pub use upload::Upload;
pub use wire::ReadEntry;
