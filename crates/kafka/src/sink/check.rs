//! Looks, before a job starts, whether its sink can work; makes the topic of marks, and others if it is asked to.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use staunch_api::SinkContext;
use staunch_types::{Error, ErrorKind, Result};

use super::Settings;
use crate::codes::{self, setting};
use crate::control::Operation;

/// How long a broker may take for an answer.
const ANSWER: Duration = Duration::from_secs(15);
/// The broker's limit of the timeout of transactions.
const TIMEOUT_MAX: &str = "transaction.max.timeout.ms";

pub(super) fn check(settings: &Settings, context: &SinkContext) -> Result<()> {
    // What librdkafka refuses, it refuses here and not in a task.
    drop(settings.producer("staunch-check").create::<rdkafka::producer::BaseProducer>().map_err(|error| codes::refused_setting(&error))?);
    let mut control = settings.client.control()?;
    for name in &settings.topics {
        let topic = match (control.topic(name)?, settings.make_topics) {
            (Some(topic), _) => topic,
            (None, Some(partitions)) => {
                // What is made by us can be written to by us.
                let topic = NewTopic::new(name, partitions as i32, TopicReplication::Fixed(-1));
                make_topic(settings, &topic, "make it with the partitions and the replication it should have")?;
                continue;
            }
            (None, None) => {
                return Err(Error::new(ErrorKind::Invalid, codes::TOPIC_MISSING, "a topic of the sink does not exist")
                    .at(format!("topic={name} brokers={}", settings.client.brokers))
                    .data("nothing was started")
                    .remedy(
                        "correct its name; or make it with the partitions and the replication it should have, or let `make_topics` do so",
                    ));
            }
        };
        if topic.allowed.to(Operation::Write) == Some(false) {
            return Err(Error::new(ErrorKind::Invalid, codes::NOT_ALLOWED, "the sink may not write to a topic")
                .at(format!("topic={name} brokers={}", settings.client.brokers))
                .data("nothing was started")
                .remedy("allow the operation WRITE on the topic to this user, with kafka-acls"));
        }
    }
    for broker in control.cluster()?.brokers {
        let found = control.broker_settings(&broker, &[TIMEOUT_MAX])?;
        let most = found.get(TIMEOUT_MAX).and_then(|value| value.parse::<u128>().ok());
        if let Some(most) = most.filter(|most| settings.timeout.as_millis() > *most) {
            return Err(setting(
                format!("the transaction timeout of the sink is {} ms, and the broker allows {most} ms", settings.timeout.as_millis()),
                "shorten it with `transaction_timeout`, or raise transaction.max.timeout.ms of the brokers",
            )
            .at(format!("broker={}", broker.address)));
        }
    }
    let marks = settings.mark_topic(&context.job);
    if control.topic(&marks)?.is_none() {
        let topic = NewTopic::new(&marks, 1, TopicReplication::Fixed(-1)).set("cleanup.policy", "compact");
        make_topic(settings, &topic, "make it with cleanup.policy=compact and one partition")?;
    }
    Ok(())
}

fn make_topic(settings: &Settings, topic: &NewTopic<'_>, by_hand: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = settings.client.config(&[]).create().map_err(|error| codes::refused_setting(&error))?;
    let options = AdminOptions::new().operation_timeout(Some(ANSWER)).request_timeout(Some(ANSWER));
    let failed = |cause: String| {
        Error::new(ErrorKind::Invalid, codes::TOPIC_MISSING, "a topic that the sink needs does not exist and cannot be made")
            .cause(cause)
            .at(format!("topic={} brokers={}", topic.name, settings.client.brokers))
            .data("nothing was started")
            .remedy(format!("{by_hand}, or allow the operation CREATE on it to this user"))
    };
    let answers = futures_executor::block_on(admin.create_topics([topic], &options)).map_err(|error| failed(error.to_string()))?;
    for answer in answers {
        match answer {
            Ok(_) | Err((_, rdkafka::types::RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(failed(code.to_string())),
        }
    }
    Ok(())
}
