//! Options that several commands have.

mod epochs;
mod brokers;

pub(crate) use brokers::BrokerOptions;
#[cfg(feature = "kafka")]
pub(crate) use brokers::{in_one_line, now_ms};
pub(crate) use epochs::Epochs;
