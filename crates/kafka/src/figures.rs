//! Names of the figures of Kafka. `docs/metrics.md` has a row for each.
//!
//! Labels: `job`, and `source` or `sink`; `task`, where a task tells it; `topic` and `partition`.

use staunch_api::Figure;

/// How far behind a partition's end its reader is.
pub(crate) const LAG: Figure = Figure {
    name: "staunch_kafka_lag_records",
    help: "Offsets between the position of the job in a partition and the end that it can read to; while brokers are away, by what they said last",
};
/// What a reader reads.
pub(crate) const PARTITIONS: Figure =
    Figure { name: "staunch_kafka_partitions", help: "Partitions that a task reads, and has not read to the end that it was given" };
/// Positions that lag tools see.
pub(crate) const GROUP_TOLD: Figure = Figure {
    name: "staunch_kafka_group_offsets_told",
    help: "Times that the positions of a committed epoch were told to the consumer group",
};
/// Positions that they do not see.
pub(crate) const GROUP_NOT_TOLD: Figure = Figure {
    name: "staunch_kafka_group_offsets_failed",
    help: "Times that the consumer group did not take the positions of a committed epoch; the job does not need them",
};
/// How long a transaction is being written.
pub(crate) const TRANSACTION_OPEN: Figure = Figure {
    name: "staunch_kafka_transaction_open_seconds",
    help: "Seconds since a task began the transaction that it writes and has not prepared",
};
