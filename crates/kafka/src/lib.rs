//! Kafka, exactly once: topics as sources and sinks of a job, through any crash and any downtime.
//!
//! Owns: the source, the sink, and the requests to brokers. Does not own: checkpoints, the ledger, when something is committed; the rules by
//! which transactional ids are used, and a prepared transaction is committed, pending or lost (`staunch_protocol::transaction`).
//! Follows the data: settings, messages, the source, the sink; beside them the control client.
//!
//! Invariants:
//! 1. A transaction is told apart by producer id, epoch *and* start time: one handle gives two transactions the same id and epoch.
//! 2. *Lost* is said only with proof. What is not known is asked again, or is an error.
//! 3. Nothing here commits a transaction that was not described first and found to be the one meant.

pub mod codes;
pub mod settings;
mod ids;
mod native;
mod figures;
mod message;
mod source;
mod sink;
pub mod control;
mod audit;

pub use audit::{AuditScope, AuditedOutput, Deviation, Fate, TopicAudit, TopicFinding};
pub use control::Control;
pub use message::{Csv, Decode, Encode, Header, Headers, Json, Message, MessageDraft, Raw, Text};
pub use settings::{ClientSettings, parse_properties};
pub use sink::{Brokers, KAFKA_SINK_KIND, KafkaCommitter, KafkaSink, KafkaWriter, Keyed, Standing, Stray};
pub use source::{KafkaEnumerator, KafkaReader, KafkaSource, PartitionSplit, StartAt, StopAt};
