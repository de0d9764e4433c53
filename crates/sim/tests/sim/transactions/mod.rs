//! The crash table for a sink with transactions: the rules of the Kafka sink, at the simulated broker.

mod support;
mod writing;
mod committing;
mod rivals;
mod changes;
mod every_request;
mod broken;
mod late;
mod forgotten;
