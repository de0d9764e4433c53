//! What a reader of committed messages sees in topics, as lists: for checks, which are no jobs.
//!
//! Owns: the reading of a topic from its beginning to its present end. Does not own: what is made of it.

use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use staunch::engine::job::Settings;
use staunch::prelude::*;
use staunch_kafka::{KafkaSource, Message, StopAt};

/// The values of a topic, null as empty.
///
/// # Errors
/// As the brokers report; and when reading was interrupted, since a part would then be in the list twice.
pub fn values(brokers: &str, topic: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut settings = Settings::new();
    settings.parallelism = 1;
    settings.run.restarts.failures_tolerated = 0;
    let env = Environment::new(settings);
    let value = |message: &Message<'_>| Ok(message.value.unwrap_or_default().to_vec());
    let list = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&list);
    env.source("topic", KafkaSource::with(brokers, topic, value).stop(StopAt::Latest))
        .inspect(move |value: &Vec<u8>| seen.lock().unwrap_or_else(PoisonError::into_inner).push(value.clone()))
        .discard("list");
    env.execute("read").map_err(|error| error.to_string())?;
    Ok(std::mem::take(&mut list.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The records of a topic of JSON.
///
/// # Errors
/// As [`values`]; and when a value is not such a record.
pub fn records<T: DeserializeOwned>(brokers: &str, topic: &str) -> Result<Vec<T>, String> {
    let record = |value: &Vec<u8>| {
        serde_json::from_slice(value).map_err(|error| format!("{topic}: {} is no record: {error}", String::from_utf8_lossy(value)))
    };
    values(brokers, topic)?.iter().map(record).collect()
}
