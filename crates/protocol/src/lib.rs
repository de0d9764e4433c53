//! The protocols as pure machines.

/// Permission to commit an epoch (the checkpoint machine replaces this; keep it exported at the crate root: staunch-api uses `staunch_protocol::CommitPermit`).
#[derive(Debug)]
pub struct CommitPermit(());
