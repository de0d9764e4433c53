//! Payments from a topic: each charge counted once, running balances, alerts of fraud; all into topics.
//!
//! `payments` runs it, `payments plan` prints what it does, `payments --help` lists the options.

use staunch::prelude::*;
use staunch_examples::brokers;
use staunch_examples::payments::{Alert, Balance, Once, Payment, Refused, Spent};
use staunch_kafka::{KafkaSink, KafkaSource};

/// Partitions of the topics that the job makes.
const PARTITIONS: u32 = 3;

fn main() -> staunch::Result<()> {
    let mut env = Environment::from_args()?;
    env.checkpoints(Checkpoints::every(secs(1)).to("checkpoints"));
    let brokers = brokers();

    let (payments, malformed) = env.source_with_dead_letter("payments", KafkaSource::json::<Payment>(&brokers, "payments"));

    // Each charge once: copies and payments that are too old to be judged go aside.
    let (charges, refused) = payments
        .event_time(|payment| payment.at, Watermarks::bounded(mins(2)).idle_after(mins(1)))
        .key_by_ref(|payment| payment.charge.as_str())
        .process_with_side("once", Once);
    let charges = charges.share();

    // The balance of an account after each charge.
    let balances = KafkaSink::json(&brokers, "balances").key(|balance: &Balance| balance.account.clone()).make_topics(PARTITIONS);
    charges
        .stream()
        .key_by_ref(|payment| payment.account.as_str())
        .stateful_map("balance", Spent::default, Spent::balance)
        .sink("balances", balances);

    // Any minute, looked at each 15 seconds, in which an account spent too much or too often.
    let alerts = KafkaSink::json(&brokers, "fraud-alerts").key(|alert: &Alert| alert.account.clone()).make_topics(PARTITIONS);
    charges
        .stream()
        .key_by_ref(|payment| payment.account.as_str())
        .window(Hopping::of(mins(1), secs(15)))
        .aggregate("minute", Fold::new(Spent::default, Spent::add).merge(Spent::merge))
        .filter(|minute| minute.value.is_suspicious())
        .map(Alert::from)
        .sink("fraud-alerts", alerts);

    // What was not counted, with the reason.
    let [duplicates, late] = refused.split("why", |refused| usize::from(matches!(refused, Refused::Late(_))));
    duplicates.sink("rejected", KafkaSink::json(&brokers, "payments-rejected").make_topics(PARTITIONS));
    late.union(malformed.map(Refused::Malformed))
        .sink("dead-letters", KafkaSink::json(&brokers, "payments-dead-letters").make_topics(PARTITIONS));

    env.execute("payments")
}
