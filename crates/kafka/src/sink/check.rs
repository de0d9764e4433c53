//! Looks, before a job starts, whether its sink can work; makes the topic of marks, and others if it is asked to.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use staunch_api::SinkContext;
use staunch_types::{Error, ErrorKind, Generation, Result};

use super::Settings;
use super::handle::BATCH_BYTES_MAX;
use crate::codes::{self, setting};
use crate::control::{Control, Listed, Operation};
use crate::ids::{Ids, Of};

/// How long a broker may take for an answer.
const ANSWER: Duration = Duration::from_secs(15);
/// The broker's limit of the timeout of transactions.
const TIMEOUT_MAX: &str = "transaction.max.timeout.ms";
/// What a topic does with what is old.
const CLEANUP: &str = "cleanup.policy";

pub(super) fn check(settings: &Settings, context: &SinkContext) -> Result<()> {
    // What librdkafka refuses, it refuses here and not in a task.
    drop(
        settings
            .producer("staunch-check", BATCH_BYTES_MAX)
            .create::<rdkafka::producer::BaseProducer>()
            .map_err(|error| codes::refused_setting(&error))?,
    );
    outlasts(settings, context)?;
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
            return Err(not_allowed(settings, name, "WRITE"));
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
    match control.topic(&marks)? {
        None => {
            let topic = NewTopic::new(&marks, 1, TopicReplication::Fixed(-1)).set("cleanup.policy", "compact");
            make_topic(settings, &topic, "make it with cleanup.policy=compact and one partition")?;
        }
        Some(topic) => {
            for (operation, word) in [(Operation::Write, "WRITE"), (Operation::Read, "READ")] {
                if topic.allowed.to(operation) == Some(false) {
                    return Err(not_allowed(settings, &marks, word));
                }
            }
            keeps_marks(&mut control, settings, &marks)?;
        }
    }
    // Whoever may do this may also write under the other ids, and the brokers have taken the timeout.
    control.fence(&Ids::probe(&context.job, &context.sink), settings.timeout_ms())?;
    if context.takes_over { Ok(()) } else { rivals(&mut control, settings, context) }
}

/// A mark is kept until its commit is recorded, however long that takes: retention must not remove it before.
fn keeps_marks(control: &mut Control, settings: &Settings, marks: &str) -> Result<()> {
    let found = match control.topic_settings(marks, &[CLEANUP]) {
        Ok(found) => found,
        // Then nobody can tell.
        Err(error) if error.code() == codes::NOT_ALLOWED => return Ok(()),
        Err(error) => return Err(error),
    };
    match found.get(CLEANUP) {
        Some(policy) if policy != "compact" => {
            let what = format!("the topic of marks has {CLEANUP}={policy:?}, so that marks may be deleted while they are needed");
            Err(Error::new(ErrorKind::Invalid, codes::MARKS_NOT_KEPT, what)
                .at(format!("topic={marks} brokers={}", settings.client.brokers))
                .data("nothing was started")
                .remedy(format!("give it {CLEANUP}=compact, with kafka-configs")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Looks for another job whose sink has the same names. Brokers remember ids for a week, unless they are set otherwise.
fn rivals(control: &mut Control, settings: &Settings, context: &SinkContext) -> Result<()> {
    let ledger = context.ledger.unwrap_or_default();
    let ids = Ids::new(&context.job, &context.sink, ledger);
    let all = control.list_transactions(&Ids::of_sink(&context.job, &context.sink))?;
    let newest = all.iter().filter_map(|listed| match ids.owner(&listed.transactional_id) {
        Of::Ours(generation) => generation.filter(|_| !ledger.is_temporary()),
        Of::Other(_) | Of::Nobody => None,
    });
    if let Some(newest) = newest.max().filter(|newest| *newest > context.generation) {
        return Err(went_on_elsewhere(settings, context, newest));
    }
    // Once it has written, what others had written before is known to it.
    let is_first = !context.ledger.is_some_and(|_| all.iter().any(|listed| matches!(ids.owner(&listed.transactional_id), Of::Ours(_))));
    for Listed { transactional_id, phase, .. } in all {
        let Of::Other(other) = ids.owner(&transactional_id) else { continue };
        if !phase.is_open() && (!is_first || other.is_temporary()) {
            continue;
        }
        let what = if phase.is_open() { "has a transaction open at" } else { "has written to" };
        let of = if other.is_temporary() { "without a checkpoint directory".into() } else { format!("ledger={other}") };
        return Err(Error::new(
            ErrorKind::Invalid,
            codes::OTHER_JOB,
            format!("another job named {} with a sink named {} {what} these brokers", context.job, context.sink),
        )
        .at(format!("other job: {of} transactional id={transactional_id}; brokers={}", settings.client.brokers))
        .data("nothing was started, and nothing of the other job was touched")
        .remedy(format!(
            "if it is another job, give one of them another name; if it was this job, start it with the checkpoint directory that it had; if that \
             is gone for good and nothing of it runs, start with `--take-over {}`, all of its sinks separated by commas: what it left open is \
             aborted, and what it wrote stays, so what this job reads again it writes a second time",
            context.sink
        )));
    }
    Ok(())
}

/// The ledger was copied, or brought back from an older copy, and the job went on with another one: what followed would be written once more.
fn went_on_elsewhere(settings: &Settings, context: &SinkContext, newest: Generation) -> Error {
    let own = context.generation;
    Error::new(
        ErrorKind::Invalid,
        codes::LEDGER_OLD,
        format!("generation {newest} of this job has written to these brokers, and its ledger ends with generation {own}"),
    )
    .at(format!("job={} sink={} brokers={}", context.job, context.sink, settings.client.brokers))
    .data("nothing was started; what was written since then would be written a second time")
    .remedy(format!(
        "start the job with the checkpoint directory that it went on with; if another start of it has just begun, start again; if that directory \
         is gone for good and nothing of it runs, start with `--take-over {}`: what it wrote stays",
        context.sink
    ))
}

/// A transaction is open from the first record of its epoch to the commit, which may be made after the downtime.
fn outlasts(settings: &Settings, context: &SinkContext) -> Result<()> {
    let least = context.interval.saturating_add(settings.allowed_downtime);
    if settings.timeout >= least {
        return Ok(());
    }
    Err(setting(
        format!(
            "the transaction timeout of the sink is {} ms, which is shorter than the time between checkpoints ({} ms) and the allowed downtime \
             ({} ms) together",
            settings.timeout.as_millis(),
            context.interval.as_millis(),
            settings.allowed_downtime.as_millis()
        ),
        "lengthen it with `transaction_timeout`, or shorten the others",
    ))
}

fn not_allowed(settings: &Settings, topic: &str, operation: &str) -> Error {
    Error::new(ErrorKind::Invalid, codes::NOT_ALLOWED, format!("the sink may not {} a topic", operation.to_lowercase()))
        .at(format!("topic={topic} brokers={}", settings.client.brokers))
        .data("nothing was started")
        .remedy(format!("allow the operation {operation} on the topic to this user, with kafka-acls"))
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
