//! Requests about one transactional id: describe its transaction, end it, fence its producer.

mod listing;
mod markers;

use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::{DescribeTransactionsRequest, EndTxnRequest, InitProducerIdRequest, ProducerId, TransactionalId};
use kafka_protocol::protocol::{Request, StrBytes};
use staunch_protocol::transaction::{self, Found, Identity, Producer, TransactionPhase};
use staunch_types::{Error, ErrorKind, Result};

pub use listing::Listed;
pub use markers::{OpenAt, Openness, Written};

use super::{Control, Target, connection, refused};
use crate::codes;
use crate::settings::Address;

/// What a coordinator knows about a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Described {
    /// Nothing: it was never used, or so long ago that it is forgotten.
    Unknown,
    /// Its last transaction.
    Known(Transaction),
}

/// The last transaction of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// How far it is.
    pub phase: TransactionPhase,
    /// Whose it is.
    pub producer: Producer,
    /// After how long without a decision the broker aborts it.
    pub timeout_ms: i32,
    /// When it began, by the coordinator's clock, in milliseconds since 1970-01-01 UTC; none when none has begun.
    pub start_ms: Option<i64>,
    /// Partitions that still belong to it, by topic.
    pub partitions: Vec<(String, Vec<i32>)>,
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All becomes visible.
    Commit,
    /// Nothing becomes visible.
    Abort,
}

/// The answer to the end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Decided as asked, and durably so; or it had been before. Markers may come a moment later.
    AsAsked,
    /// There is no open transaction, or it was decided otherwise: ask what became of it.
    NotOpen,
    /// A newer producer has the transactional id.
    Fenced,
    /// The coordinator does not know this producer under this transactional id.
    UnknownProducer,
}

impl Described {
    /// What the rules have to know.
    #[must_use]
    pub fn found(&self) -> transaction::Described {
        match self {
            Described::Unknown => transaction::Described::Unknown,
            Described::Known(known) => transaction::Described::Known(known.found()),
        }
    }
}

impl Transaction {
    /// What the rules have to know.
    #[must_use]
    pub fn found(&self) -> Found {
        Found { phase: self.phase, producer: self.producer, start_ms: self.start_ms }
    }
}

/// The coordinator's words.
const PHASES: [(TransactionPhase, &str); 8] = [
    (TransactionPhase::Empty, "Empty"),
    (TransactionPhase::Ongoing, "Ongoing"),
    (TransactionPhase::PrepareCommit, "PrepareCommit"),
    (TransactionPhase::PrepareAbort, "PrepareAbort"),
    (TransactionPhase::CompleteCommit, "CompleteCommit"),
    (TransactionPhase::CompleteAbort, "CompleteAbort"),
    (TransactionPhase::Dead, "Dead"),
    (TransactionPhase::PrepareEpochFence, "PrepareEpochFence"),
];

impl Control {
    /// What the coordinator knows about a transactional id. Changes nothing.
    ///
    /// # Errors
    /// `Retry` when it does not answer, `Invalid` when this user may not ask.
    pub fn describe_transaction(&mut self, transactional_id: &str) -> Result<Described> {
        let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![wire_id(transactional_id)]);
        let about = format!("transactional_id={transactional_id}");
        let target = Target::Coordinator(transactional_id);
        let answer =
            self.ask(&target, 0..=0, &request, &about, |answer| answer.transaction_states.first().map_or(-1, |found| found.error_code))?;
        let asked = self.asked(transactional_id);
        let Some(found) = answer.transaction_states.into_iter().next() else {
            return Err(refused(DescribeTransactionsRequest::KEY, &about, ResponseError::UnknownServerError, &asked));
        };
        match found.error_code.err() {
            None => {}
            Some(ResponseError::TransactionalIdNotFound) => return Ok(Described::Unknown),
            Some(code) => return Err(refused(DescribeTransactionsRequest::KEY, &about, code, &asked)),
        }
        Ok(Described::Known(transaction(found, &about, &asked)?))
    }

    /// Ends the open transaction of a producer. When there is no answer it asks again, blindly: whoever calls knows that the producer begins
    /// no other one; else [`Control::end_described`] is for them.
    ///
    /// # Errors
    /// `Retry` when it is not known whether it happened, `Invalid` when this user may not do it.
    pub fn end_transaction(&mut self, transactional_id: &str, producer: Producer, decision: Decision) -> Result<Ended> {
        self.end(transactional_id, producer, None, decision)
    }

    /// Ends a transaction that was described before, and no other. Its producer may go on as soon as it is decided; so before it asks again, as
    /// there was no answer, it looks whether this is still the last transaction of the id.
    ///
    /// # Errors
    /// As [`Control::end_transaction`].
    pub fn end_described(&mut self, transactional_id: &str, identity: Identity, decision: Decision) -> Result<Ended> {
        self.end(transactional_id, identity.producer, Some(identity), decision)
    }

    fn end(&mut self, transactional_id: &str, producer: Producer, identity: Option<Identity>, decision: Decision) -> Result<Ended> {
        let request = EndTxnRequest::default().with_transactional_id(wire_id(transactional_id)).with_producer_id(ProducerId(producer.id));
        let request = request.with_producer_epoch(producer.epoch).with_committed(decision == Decision::Commit);
        let about = format!("transactional_id={transactional_id} {producer}");
        let target = Target::Coordinator(transactional_id);
        let mut was_asked = false;
        let answer = self.persist(EndTxnRequest::KEY, &about, |control| {
            let address = control.locate(&target)?;
            if let Some(identity) = identity.filter(|_| was_asked) {
                match control.ended_meanwhile(&address, transactional_id, identity, decision)? {
                    Err(code) => return Ok((code, address, Err(code))),
                    Ok(Some(ended)) => return Ok((0, address, Ok(ended))),
                    Ok(None) => {}
                }
            }
            was_asked = true;
            // From version 5 on the broker raises the producer's epoch, which librdkafka does not expect; below 2 two errors look alike.
            let code = control.on(&address, |connection| connection.call(2..=4, &request))?.error_code;
            Ok((code, address, Err(code)))
        })?;
        match answer.map_err(|code| code.err()) {
            Ok(ended) => Ok(ended),
            Err(None) => Ok(Ended::AsAsked),
            Err(Some(ResponseError::InvalidTxnState)) => Ok(Ended::NotOpen),
            Err(Some(ResponseError::ProducerFenced | ResponseError::InvalidProducerEpoch)) => Ok(Ended::Fenced),
            Err(Some(ResponseError::InvalidProducerIdMapping)) => Ok(Ended::UnknownProducer),
            Err(Some(code)) => Err(refused(EndTxnRequest::KEY, &about, code, &self.asked(transactional_id))),
        }
    }

    /// How a transaction ended, if it is not open any more; or the error code of the broker.
    fn ended_meanwhile(
        &mut self,
        address: &Address,
        transactional_id: &str,
        identity: Identity,
        decision: Decision,
    ) -> Result<std::result::Result<Option<Ended>, i16>> {
        let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![wire_id(transactional_id)]);
        let answer = self.on(address, |connection| connection.call(0..=0, &request))?;
        let Some(found) = answer.transaction_states.into_iter().next() else { return Ok(Err(-1)) };
        match found.error_code.err() {
            None => {}
            Some(ResponseError::TransactionalIdNotFound) => return Ok(Ok(Some(Ended::UnknownProducer))),
            Some(_) => return Ok(Err(found.error_code)),
        }
        let found = transaction(found, &format!("transactional_id={transactional_id}"), address)?.found();
        Ok(Ok(ended(identity, &found, decision)))
    }

    /// Takes a transactional id over from whoever has it: aborts what is open under it and fences its producer. Gives the producer that has it
    /// now.
    ///
    /// # Errors
    /// `Retry` when the coordinator does not answer, `Invalid` when this user may not do it or the timeout is above the broker's maximum.
    pub fn fence(&mut self, transactional_id: &str, timeout_ms: i32) -> Result<Producer> {
        let nobody = Producer { id: -1, epoch: -1 };
        match self.take_over(transactional_id, nobody, timeout_ms)? {
            Ok(producer) => Ok(producer),
            Err(code) => Err(refused(
                InitProducerIdRequest::KEY,
                &format!("transactional_id={transactional_id}"),
                code,
                &self.asked(transactional_id),
            )),
        }
    }

    /// As [`Self::fence`], if `producer` has the id still: `None` when somebody else has taken it over, or the coordinator has forgotten it.
    ///
    /// # Errors
    /// As [`Self::fence`].
    pub fn fence_producer(&mut self, transactional_id: &str, producer: Producer, timeout_ms: i32) -> Result<Option<Producer>> {
        match self.take_over(transactional_id, producer, timeout_ms)? {
            Ok(producer) => Ok(Some(producer)),
            Err(ResponseError::ProducerFenced | ResponseError::InvalidProducerEpoch | ResponseError::InvalidProducerIdMapping) => Ok(None),
            Err(code) => Err(refused(
                InitProducerIdRequest::KEY,
                &format!("transactional_id={transactional_id}"),
                code,
                &self.asked(transactional_id),
            )),
        }
    }

    fn take_over(
        &mut self,
        transactional_id: &str,
        from: Producer,
        timeout_ms: i32,
    ) -> Result<std::result::Result<Producer, ResponseError>> {
        let request = InitProducerIdRequest::default().with_transactional_id(Some(wire_id(transactional_id)));
        let request = request.with_transaction_timeout_ms(timeout_ms).with_producer_id(ProducerId(from.id)).with_producer_epoch(from.epoch);
        let about = format!("transactional_id={transactional_id}");
        let target = Target::Coordinator(transactional_id);
        let answer = self.ask(&target, 3..=4, &request, &about, |answer| answer.error_code)?;
        let asked = self.asked(transactional_id);
        match answer.error_code.err() {
            None => Ok(Ok(Producer { id: answer.producer_id.0, epoch: answer.producer_epoch })),
            Some(ResponseError::InvalidTransactionTimeout) => {
                let what = format!("the broker does not take a transaction timeout of {timeout_ms} ms");
                let error = Error::new(ErrorKind::Invalid, codes::TIMEOUT_REFUSED, what).at(format!("{about} broker={asked}"));
                Err(error.remedy("lower transaction.timeout.ms, or raise the broker's transaction.max.timeout.ms"))
            }
            Some(code) => Ok(Err(code)),
        }
    }
}

pub(super) fn wire_id(transactional_id: &str) -> TransactionalId {
    TransactionalId(StrBytes::from_string(transactional_id.into()))
}

/// How the transaction of an identity ended, by what the coordinator describes; `None` when it is open still.
fn ended(identity: Identity, found: &Found, decision: Decision) -> Option<Ended> {
    use TransactionPhase as P;
    match (found.phase, decision) {
        _ if !found.is(identity) => Some(Ended::NotOpen),
        (P::Ongoing, _) => None,
        (P::PrepareCommit | P::CompleteCommit, Decision::Commit) | (P::PrepareAbort | P::CompleteAbort, Decision::Abort) => {
            Some(Ended::AsAsked)
        }
        (P::Empty | P::PrepareCommit | P::PrepareAbort | P::CompleteCommit | P::CompleteAbort | P::Dead | P::PrepareEpochFence, _) => {
            Some(Ended::NotOpen)
        }
    }
}

fn transaction(found: TransactionState, about: &str, broker: &Address) -> Result<Transaction> {
    Ok(Transaction {
        phase: phase(&found.transaction_state, about, broker)?,
        producer: Producer { id: found.producer_id.0, epoch: found.producer_epoch },
        timeout_ms: found.transaction_timeout_ms,
        start_ms: (found.transaction_start_time_ms >= 0).then_some(found.transaction_start_time_ms),
        partitions: found.topics.into_iter().map(|topic| (topic.topic.to_string(), topic.partitions)).collect(),
    })
}

fn phase(text: &str, about: &str, broker: &Address) -> Result<TransactionPhase> {
    PHASES.iter().find(|(_, name)| *name == text).map(|(phase, _)| *phase).ok_or_else(|| {
        let what = format!("the broker names a phase of a transaction that this program does not know: {text:?}");
        let error = Error::new(ErrorKind::Invalid, codes::PHASE_UNKNOWN, what).at(format!("{about} broker={broker}"));
        error
            .remedy("use a newer version of this program; this one does not guess")
            .cause(connection::name(DescribeTransactionsRequest::KEY))
    })
}
