//! A client for the requests about transactions that librdkafka does not know.
//!
//! Owns: which broker is asked, how often, and what its errors mean. Does not own: records; the meaning of an answer for a committable,
//! which is the resolver's.
//!
//! All calls block, each for a bounded time: at most `attempts_max` attempts of one request's time each. They are for threads that
//! may block. Nothing of librdkafka is in here: it cannot describe, list or resume a transaction.
//!
//! Invariants:
//! 1. An answer is typed, or the call is an error with a code; no error of a broker is dropped.
//! 2. A request is repeated only if doing it twice is as good as doing it once.

mod scram;
mod tls;
mod connection;
mod reaction;
mod interrupt;
mod cluster;
mod transactions;
mod fetch;
pub(crate) mod batch;
pub(crate) mod reader;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::FindCoordinatorRequest;
use kafka_protocol::protocol::{Request, StrBytes};
use rustls::ClientConfig;
use staunch_types::{Error, ErrorKind, Result};

pub use cluster::{Allowed, Broker, Cluster, Operation, Partition, Topic};
pub use fetch::{Extent, Fetched, Isolation};
pub use interrupt::Interrupt;
pub use staunch_protocol::transaction::{Identity, Producer, TransactionPhase};
pub use transactions::{Decision, Described, Ended, Listed, OpenAt, Openness, Transaction, Written};

use crate::codes;
use crate::settings::{Address, ClientSettings};
use connection::Connection;
use interrupt::Waited;
use reaction::{Reaction, pause, reaction};

/// A request that was sent and not answered, or not in words of the protocol, costs this many more attempts than one that was answered.
const NO_ANSWER_ATTEMPTS: u32 = 4;
/// What FindCoordinator calls a transactional id.
const TRANSACTION: i8 = 1;

/// A client that asks one thing at a time.
pub struct Control {
    settings: ClientSettings,
    tls: Option<Arc<ClientConfig>>,
    interrupt: Interrupt,
    connections: BTreeMap<Address, Connection>,
    /// Who coordinates a transactional id, as far as it was asked.
    coordinators: BTreeMap<String, Address>,
    /// By topic and partition.
    leaders: BTreeMap<(String, i32), Address>,
    /// Brokers that the cluster named; asked when none of the settings' brokers answers.
    brokers: Vec<Address>,
    /// Which broker is asked next when any will do.
    turn: usize,
}

/// Whom to ask.
enum Target<'a> {
    Any,
    Broker(&'a Address),
    /// The one of a transactional id.
    Coordinator(&'a str),
}

impl Control {
    /// A client; nothing is connected before the first call. Reads the certificate files.
    ///
    /// # Errors
    /// `Invalid` when a certificate or key cannot be used.
    pub fn new(settings: ClientSettings, interrupt: Interrupt) -> Result<Control> {
        let tls = settings.tls.as_ref().map(tls::configure).transpose()?;
        let (connections, coordinators, leaders, brokers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), Vec::new());
        Ok(Control { settings, tls, interrupt, connections, coordinators, leaders, brokers, turn: 0 })
    }

    /// Asks until there is an answer that is neither passing nor about another coordinator. `code` finds the error code in an answer;
    /// `about` names the thing, for people.
    fn ask<R: Request>(
        &mut self,
        target: &Target<'_>,
        versions: RangeInclusive<i16>,
        request: &R,
        about: &str,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response> {
        self.persist(R::KEY, about, |control| {
            let address = control.locate(target)?;
            let answer = control.on(&address, |connection| connection.call(versions.clone(), request))?;
            Ok((code(&answer), address, answer))
        })
    }

    /// Repeats an attempt while its errors are passing. An attempt gives the error code, who answered, and the answer.
    fn persist<T>(&mut self, key: i16, about: &str, mut attempt: impl FnMut(&mut Control) -> Result<(i16, Address, T)>) -> Result<T> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match attempt(self) {
                Err(error) if error.kind() == ErrorKind::Retry => {
                    if [codes::NO_ANSWER, codes::ANSWER_UNREADABLE].contains(&error.code()) {
                        attempts += NO_ANSWER_ATTEMPTS;
                    }
                    self.coordinators.clear();
                    self.leaders.clear();
                    self.turn = self.turn.wrapping_add(1);
                    error
                }
                Err(error) => return Err(error),
                Ok((code, address, answer)) => {
                    let Some(code) = code.err() else { return Ok(answer) };
                    match reaction(code) {
                        Reaction::Answer => return Ok(answer),
                        Reaction::Denied => return Err(denied(key, about, code, &address)),
                        Reaction::FindAgain => {
                            self.coordinators.clear();
                            self.leaders.clear();
                        }
                        Reaction::AskAgain => {}
                    }
                    away(key, about, code, &address)
                }
            };
            if attempts >= self.settings.attempts_max {
                return Err(error);
            }
            if self.interrupt.wait(pause(attempts)) == Waited::Interrupted {
                return Err(interrupted(format!("waiting for an answer to {}", connection::name(key))).cause(error));
            }
        }
    }

    /// Waits.
    ///
    /// # Errors
    /// `Retry` when the program ends.
    pub(crate) fn pause(&self, time: std::time::Duration) -> Result<()> {
        match self.interrupt.wait(time) {
            Waited::Through => Ok(()),
            Waited::Interrupted => Err(interrupted("a wait".into())),
        }
    }

    fn locate(&mut self, target: &Target<'_>) -> Result<Address> {
        match target {
            Target::Broker(address) => Ok((*address).clone()),
            Target::Any => {
                let known: Vec<&Address> = self.settings.bootstrap.iter().chain(&self.brokers).collect();
                Ok(known[self.turn % known.len()].clone())
            }
            Target::Coordinator(id) => self.coordinator(id),
        }
    }

    fn coordinator(&mut self, id: &str) -> Result<Address> {
        if let Some(known) = self.coordinators.get(id) {
            return Ok(known.clone());
        }
        let request = FindCoordinatorRequest::default().with_key(StrBytes::from_string(id.into())).with_key_type(TRANSACTION);
        let asked = self.locate(&Target::Any)?;
        let answer = self.on(&asked, |connection| connection.call(3..=3, &request))?;
        let about = format!("transactional_id={id}");
        if let Some(code) = answer.error_code.err() {
            return Err(match reaction(code) {
                Reaction::Denied => denied(FindCoordinatorRequest::KEY, &about, code, &asked),
                Reaction::FindAgain | Reaction::AskAgain => away(FindCoordinatorRequest::KEY, &about, code, &asked),
                Reaction::Answer => refused(FindCoordinatorRequest::KEY, &about, code, &asked),
            });
        }
        let found = Address { host: answer.host.to_string(), port: u16::try_from(answer.port).unwrap_or_default() };
        self.coordinators.insert(id.to_owned(), found.clone());
        Ok(found)
    }

    /// Does something with the connection to a broker, opening it if need be and dropping it after an error.
    fn on<T>(&mut self, address: &Address, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let mut connection = match self.connections.remove(address) {
            Some(open) => open,
            None => Connection::open(address, &self.settings, self.tls.as_ref())?,
        };
        let answer = work(&mut connection)?;
        self.connections.insert(address.clone(), connection);
        Ok(answer)
    }

    /// Who answers for a coordinator's errors.
    fn asked(&self, id: &str) -> Address {
        let known = self.coordinators.get(id).cloned();
        known.unwrap_or_else(|| self.settings.bootstrap[0].clone())
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn interrupted(what: String) -> Error {
    Error::new(ErrorKind::Retry, codes::INTERRUPTED, format!("{what} was interrupted")).remedy("nothing: the program ends")
}

fn denied(key: i16, about: &str, code: ResponseError, broker: &Address) -> Error {
    let what = format!("the broker does not allow the request {} {about}", connection::name(key));
    let (resource, operation) = match code {
        ResponseError::GroupAuthorizationFailed => ("group", "READ"),
        ResponseError::TopicAuthorizationFailed => ("topic", "READ, WRITE and DESCRIBE"),
        ResponseError::TransactionalIdAuthorizationFailed => ("transactional id, or all with the job's prefix,", "WRITE and DESCRIBE"),
        _ => ("cluster", "DESCRIBE"),
    };
    let error = Error::new(ErrorKind::Invalid, codes::NOT_ALLOWED, what).cause(code).at(format!("broker={broker}"));
    error.remedy(format!("allow the operations {operation} on the {resource} to this user, with kafka-acls"))
}

fn away(key: i16, about: &str, code: ResponseError, broker: &Address) -> Error {
    let what = format!("no broker answers the request {} {about}, in all attempts", connection::name(key));
    let error = Error::new(ErrorKind::Retry, codes::COORDINATOR_AWAY, what).cause(code).at(format!("broker={broker}"));
    error
        .remedy("nothing: it is asked again; if it goes on, see that enough brokers run to lead all partitions of the cluster's own topics")
}

fn refused(key: i16, about: &str, code: ResponseError, broker: &Address) -> Error {
    let what = format!("the broker refuses the request {} {about}", connection::name(key));
    let error = Error::new(ErrorKind::Restart, codes::REFUSED, what).cause(code).at(format!("broker={broker}"));
    error.remedy("see the broker's log for the reason")
}
