//! Transactions of Kafka: what the brokers say of those in doubt, and which others are open.

use std::collections::BTreeSet;

use staunch_kafka::{Brokers, KAFKA_SINK_KIND, Standing};
use staunch_types::{Error, ErrorKind, Name, Result};

use super::{EndOptions, InDoubt, Ledger, Listed, Options, Unnamed, sinks_of};
use crate::options::{BrokerOptions, in_one_line, now_ms};

/// Asks the brokers; when they do not answer, that is noted.
///
/// # Errors
/// `Invalid` when the settings for the brokers cannot work.
pub(super) fn ask(ledger: &Ledger, options: &Options, listed: &mut Listed) -> Result<()> {
    let sinks = sinks_of(ledger, KAFKA_SINK_KIND);
    if sinks.is_empty() {
        return Ok(());
    }
    let mut brokers = brokers(&options.brokers, listed, ledger)?;
    for one in listed.in_doubt.iter_mut().filter(|one| one.kind == KAFKA_SINK_KIND) {
        match brokers.standing(&one.body, now_ms()) {
            Ok(standing) => one.learn(standing),
            Err(error) => {
                listed.notes.push(silent(&brokers, &error));
                return Ok(());
            }
        }
    }
    match strays(&mut brokers, ledger, &sinks, &listed.in_doubt) {
        Ok(strays) => listed.unnamed = strays.into_iter().map(|(unnamed, _)| unnamed).collect(),
        Err(error) => listed.notes.push(silent(&brokers, &error)),
    }
    Ok(())
}

/// Commits what is in doubt; whether all of it is committed.
///
/// # Errors
/// `Invalid` when the settings for the brokers cannot work or they refuse us; `Retry` when they do not answer.
pub(super) fn commit(options: &EndOptions, listed: &mut Listed) -> Result<bool> {
    let (of_kafka, others): (Vec<InDoubt>, Vec<InDoubt>) = listed.in_doubt.drain(..).partition(|one| one.kind == KAFKA_SINK_KIND);
    if !others.is_empty() {
        listed.notes.push(format!("{} outputs of other kinds are committed by the job at its next start", others.len()));
    }
    listed.in_doubt = of_kafka.into_iter().filter(|one| options.is_meant(&one.output)).collect();
    let Some(first) = listed.in_doubt.first() else { return Ok(others.is_empty()) };
    let mut brokers = Brokers::of(Some(&first.body), &options.of.brokers.settings()?)?;
    for one in &mut listed.in_doubt {
        let standing = brokers.commit(&one.body, now_ms())?;
        one.learn(standing);
    }
    Ok(others.is_empty() && listed.in_doubt.iter().all(|one| one.now == Some("committed")))
}

/// Aborts what is open and named by no durable epoch; whether all that was meant is aborted.
///
/// # Errors
/// As [`commit`]; `Invalid` when an id is meant that a durable epoch names.
pub(super) fn abort(ledger: &Ledger, options: &EndOptions, listed: &mut Listed) -> Result<bool> {
    let sinks = sinks_of(ledger, KAFKA_SINK_KIND);
    let mut brokers = brokers(&options.of.brokers, listed, ledger)?;
    if let Some(named) = listed.in_doubt.iter().find(|one| !options.id.is_empty() && options.is_meant(&one.output)) {
        return Err(Error::new(ErrorKind::Invalid, "C334", format!("a transaction of the durable epoch {} is not aborted", named.epoch))
            .at(format!("sink={} output={}", named.sink, named.output))
            .data("nothing was aborted; the epoch is durable, and the job counts on its output")
            .remedy("commit it with `staunch txn commit`, or start the job"));
    }
    let strays = strays(&mut brokers, ledger, &sinks, &listed.in_doubt)?;
    let mut is_done = true;
    for (mut unnamed, stray) in strays {
        if options.id.is_empty() || options.id.contains(&unnamed.transactional_id) {
            match brokers.abort(&stray) {
                Ok(proof) => unnamed.done = Some(proof),
                Err(error) => {
                    is_done = false;
                    unnamed.done = Some(format!("not aborted: {}", in_one_line(&error)));
                }
            }
            listed.unnamed.push(unnamed);
        }
    }
    for one in &mut listed.in_doubt {
        one.seen = Some("kept: a durable epoch names it".into());
    }
    Ok(is_done)
}

impl EndOptions {
    /// Whether the transaction with this description is meant.
    fn is_meant(&self, description: &str) -> bool {
        self.id.is_empty() || self.id.iter().any(|id| description.starts_with(&format!("transaction {id} ")))
    }
}

impl InDoubt {
    fn learn(&mut self, standing: Standing) {
        (self.now, self.seen) = match standing {
            Standing::Committed { proof } => (Some("committed"), Some(proof)),
            Standing::Unmarked { open } => (Some("unmarked"), Some(format!("committed, and a broker has forgotten the markers in {open}"))),
            Standing::Open { left_ms } => {
                self.seconds_left = Some(left_ms / 1000);
                (Some("open"), None)
            }
            Standing::Lost { evidence } => (Some("lost"), Some(evidence)),
            Standing::Unknown { why } => (Some("unknown"), Some(why)),
        };
    }
}

/// The brokers that are meant, or those that the newest output was written to.
fn brokers(options: &BrokerOptions, listed: &Listed, ledger: &Ledger) -> Result<Brokers> {
    let in_doubt = listed.in_doubt.iter().rev().find(|one| one.kind == KAFKA_SINK_KIND).map(|one| one.body.as_slice());
    let newest = || {
        let all = ledger.seals().rev().flat_map(|s| &s.committables);
        all.filter(|total| total.kind == KAFKA_SINK_KIND && !total.body.0.is_empty()).map(|total| total.body.0.as_slice()).next()
    };
    Brokers::of(in_doubt.or_else(newest), &options.settings()?)
}

fn strays(
    brokers: &mut Brokers,
    ledger: &Ledger,
    sinks: &BTreeSet<Name>,
    in_doubt: &[InDoubt],
) -> Result<Vec<(Unnamed, staunch_kafka::Stray)>> {
    let Some(job) = ledger.job() else { return Ok(Vec::new()) };
    let named: Vec<&[u8]> = in_doubt.iter().filter(|one| one.kind == KAFKA_SINK_KIND).map(|one| one.body.as_slice()).collect();
    let strays = brokers.strays((job, ledger.id()), sinks, &named, now_ms())?;
    let told = |stray: staunch_kafka::Stray| {
        let unnamed = Unnamed {
            transactional_id: stray.transactional_id.clone(),
            producer_id: stray.producer.id,
            producer_epoch: stray.producer.epoch,
            seconds_left: stray.left_ms.map(|left| left / 1000),
            done: None,
        };
        (unnamed, stray)
    };
    Ok(strays.into_iter().map(told).collect())
}

fn silent(brokers: &Brokers, error: &Error) -> String {
    format!("the brokers at {} could not be asked: {}", brokers.address(), in_one_line(error))
}
