//! Which brokers of Kafka are asked, and as whom: options, and the file that they name.
//!
//! Owns: the options. Does not own: the form of the file and what a setting means (staunch-kafka).

use std::path::PathBuf;

use clap::Args;

/// Options of commands that ask brokers.
#[derive(Args, Default)]
pub(crate) struct BrokerOptions {
    /// Brokers of Kafka to ask first, instead of those that the checkpoints name
    #[arg(long, value_name = "HOST:PORT,…")]
    kafka_brokers: Option<String>,
    /// File with settings of a Kafka client, as for TLS and a login: lines name=value
    #[arg(long, value_name = "FILE")]
    kafka_config: Option<PathBuf>,
    /// A topic in which other programs may write messages with key and value of ours; may be given several times
    #[arg(long, value_name = "TOPIC")]
    shared: Vec<String>,
}

#[cfg(feature = "kafka")]
mod asked {
    use std::collections::{BTreeMap, BTreeSet};

    use staunch_types::{Error, ErrorKind, Result};

    use super::BrokerOptions;

    impl BrokerOptions {
        /// Settings by librdkafka's names, as far as they were given.
        ///
        /// # Errors
        /// `Invalid` when the file cannot be read or used.
        pub(crate) fn settings(&self) -> Result<BTreeMap<String, String>> {
            let mut settings = match &self.kafka_config {
                Some(path) => {
                    let file = path.display().to_string();
                    let text = std::fs::read_to_string(path).map_err(|error| {
                        Error::new(ErrorKind::Invalid, "C331", "the file with settings of Kafka cannot be read")
                            .cause(error)
                            .at(format!("file={file}"))
                            .data("nothing was asked or changed")
                            .remedy("correct --kafka-config, or give this user the right to read the file")
                    })?;
                    staunch_kafka::parse_properties(&file, &text)?
                }
                None => BTreeMap::new(),
            };
            if let Some(brokers) = &self.kafka_brokers {
                settings.insert("bootstrap.servers".to_owned(), brokers.clone());
            }
            Ok(settings)
        }

        /// Topics in which others may write what is equal to ours.
        pub(crate) fn shared(&self) -> BTreeSet<String> {
            self.shared.iter().cloned().collect()
        }
    }

    /// What an error says, without line breaks.
    pub(crate) fn in_one_line(error: &Error) -> String {
        let place = error.place().map(|place| format!(" ({place})")).unwrap_or_default();
        format!("{} {}{place}", error.code(), error.what())
    }

    /// The time by our clock, in milliseconds since 1970.
    pub(crate) fn now_ms() -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(feature = "kafka")]
pub(crate) use asked::{in_one_line, now_ms};
