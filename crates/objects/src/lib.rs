//! Checkpoints in a bucket of S3, or of a server that speaks its protocol.
//!
//! Owns: what a [`CheckpointStore`](staunch_api::CheckpointStore) needs of S3: objects that are created if there is none, large ones in parts,
//! reading of stretches, listing, removal, the clearing of uploads that were left behind; repeating what failed, within bounds.
//! Does not own: the paths of objects and what they mean, the reading of environment variables (the facade hands them in).
//! Signatures, credentials and the HTTP client are those of `object_store`; its requests are not used, as they hide from the caller whether
//! an answer was lost, and can neither complete an upload conditionally nor list those that are unfinished.
//!
//! Invariants:
//! 1. An object is created by `If-None-Match: *` alone, also one of many parts; so at most one of several creators succeeds.
//! 2. Each creation carries a mark of its own in the metadata of the object. When an answer was lost, the mark tells whose the object is;
//!    bytes that are equal by chance are not enough.
//! 3. A creation whose end cannot be found out is `Unknown`, never an error that says that nothing happened.
//! 4. No upload of a newer generation is aborted, as long as the server's clock does not go back.
//! 5. Memory for one writer is bounded by [`PART_BYTES`] times parts under way.

mod options;
mod address;
mod xml;
mod client;
mod retry;
mod store;
mod upload;

pub use options::Options;
pub use store::S3Store;
pub use upload::PART_BYTES;
