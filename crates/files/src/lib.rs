//! Files as source and sink: CSV and JSON Lines, plain or compressed, into and out of plain `serde` structs.
//!
//! Owns: which files are input and how they are cut into splits; how bytes become records and records bytes; how output files stay
//! hidden until their epoch is committed, and the audit that proves them whole.
//! Does not own: threads, clocks, checkpoints, or the operating system's calls, which come in through `staunch_api`.
//! Follows the data: source, the formats, sink, audit.
//!
//! Invariants:
//! 1. Every record of the input belongs to exactly one split: the one in whose byte range it starts.
//! 2. Input that cannot become a record is handed to the output as rejected, with file, line and column; never skipped in silence.
//! 3. No output file has its visible name before the commit of the epoch that closes it (E1).
//! 4. A file named by a checkpoint is never written to by another generation: what it holds is copied.

pub mod codes;
mod source;
mod compression;
mod csv;
mod json;
mod shape;
mod sink;
mod audit;

pub use audit::{Audit, AuditScope, Finding, audit};
pub use compression::Compression;
pub use sink::{FILE_SINK_KIND, FileCommitter, FileSink, FileWriter};
pub use source::{FileEnumerator, FileReader, FileSource, FileSplit, SplitSize};
