//! The transactions of a job that is not running, for a person: what the brokers say of them now, and how they are ended.
//!
//! Owns: the questions about prepared transactions and about those that nothing names. Does not own: which are durable (the ledger), and
//! whether the job runs (the person).
//!
//! Invariants:
//! 1. A transaction is committed only if it is described first and found to be the one that was prepared.
//! 2. One that the ledger names is never aborted.

use std::collections::{BTreeMap, BTreeSet};

use staunch_protocol::transaction::resolve::Step;
use staunch_types::{Error, ErrorKind, LedgerId, Name, Result};

use super::committer::confirm::{Committed, Outcome, in_words};
use super::committer::{step, visible};
use super::stored::StoredTransaction;
use crate::audit::{AuditScope, AuditedOutput, TopicAudit, audit_topics};
use crate::codes;
use crate::control::{Control, Decision, Described, Ended, Producer};
use crate::ids::Ids;
use crate::settings::Client;

/// The setting that names brokers.
const BROKERS: &str = "bootstrap.servers";

/// Brokers, and what is asked of them.
pub struct Brokers {
    control: Control,
    client: Client,
}

/// What the brokers say of an output in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is committed.
    Committed {
        /// What was seen.
        proof: String,
    },
    /// It is committed, and partitions have it open still: a broker has forgotten to tell them.
    Unmarked {
        /// Which.
        open: String,
    },
    /// It is open, and can be committed.
    Open {
        /// In how many milliseconds the broker aborts it.
        left_ms: i64,
    },
    /// It was not committed and cannot be.
    Lost {
        /// What was seen.
        evidence: String,
    },
    /// It is not known, or not yet.
    Unknown {
        /// What was seen.
        why: String,
    },
}

/// An open transaction under the prefix of a job that the ledger does not name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stray {
    /// Its transactional id.
    pub transactional_id: String,
    /// Its producer.
    pub producer: Producer,
    /// When it began.
    pub started_ms: Option<i64>,
    /// In how many milliseconds the broker aborts it.
    pub left_ms: Option<i64>,
}

impl Brokers {
    /// The brokers that `given` names by settings of librdkafka, else those that an output was written to. Nothing is connected.
    ///
    /// # Errors
    /// `Invalid` when neither names brokers, or the settings cannot work; `Corrupt` when the output cannot be read.
    pub fn of(body: Option<&[u8]>, given: &BTreeMap<String, String>) -> Result<Brokers> {
        let address = match (given.get(BROKERS), body) {
            (Some(given), _) => given.clone(),
            (None, Some(body)) => StoredTransaction::decode(body)?.brokers,
            (None, None) => String::new(),
        };
        let mut client = Client::new(&address);
        given.iter().filter(|(name, _)| *name != BROKERS).for_each(|(name, value)| client.set(name, value));
        Ok(Brokers { control: client.control()?, client })
    }

    /// Where they are.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.client.brokers
    }

    /// Reads what the outputs of a sink wrote, and compares. When something is there that no output names, `by_now` is asked for body
    /// and place of the outputs that the ledger names by now: the job may be running.
    ///
    /// # Errors
    /// `Corrupt` when an output cannot be read; `Retry` when the brokers do not answer, `Invalid` when they refuse us.
    pub fn audit(
        &mut self,
        outputs: &[AuditedOutput<'_>],
        scope: &AuditScope,
        by_now: impl FnOnce() -> Result<Vec<(Vec<u8>, Vec<u8>)>>,
    ) -> Result<TopicAudit> {
        audit_topics(&mut self.control, outputs, scope, by_now)
    }

    /// What is so now about an output in doubt, by what the sink keeps of it. Changes nothing.
    ///
    /// # Errors
    /// `Retry` when the brokers do not answer, `Invalid` when they refuse us.
    pub fn standing(&mut self, body: &[u8], now_ms: i64) -> Result<Standing> {
        let stored = StoredTransaction::decode(body)?;
        let (step, held) = step(&mut self.control, &stored)?;
        Ok(match step {
            Step::Committed { proof } => match visible(&stored, &held)?.confirm(&mut self.control) {
                Ok(Outcome::Through(note)) => Standing::Committed { proof: format!("{proof}{note}") },
                Ok(Outcome::Forgotten(_, open)) => Standing::Unmarked { open: in_words(&open) },
                Err(error) if error.code() == codes::NOT_KNOWN_YET => Standing::Unknown { why: error.to_string() },
                Err(error) => return Err(error),
            },
            Step::Pending => {
                Standing::Open { left_ms: stored.started_ms.saturating_add(i64::from(stored.timeout_ms)).saturating_sub(now_ms) }
            }
            Step::Lost { evidence } => Standing::Lost { evidence },
            Step::AskMark => Standing::Unknown { why: "its mark was not looked for".into() },
            Step::AskAgain { why } | Step::Unknowable { why } => Standing::Unknown { why },
        })
    }

    /// Commits an output in doubt, if it is open. The caller has seen that its epoch is durable, and that the job does not run: a job that
    /// runs may begin another transaction of the same producer between the question and the deed.
    ///
    /// # Errors
    /// `Retry` when it is not known whether it happened; as [`Brokers::standing`] else.
    pub fn commit(&mut self, body: &[u8], now_ms: i64) -> Result<Standing> {
        let standing = self.standing(body, now_ms)?;
        let stored = StoredTransaction::decode(body)?;
        match standing {
            Standing::Open { .. } => {}
            Standing::Unmarked { .. } => return self.mark(&stored, body, now_ms),
            standing @ (Standing::Committed { .. } | Standing::Lost { .. } | Standing::Unknown { .. }) => return Ok(standing),
        }
        match self.control.end_described(&stored.id, stored.identity(), Decision::Commit)? {
            Ended::AsAsked => {
                let proof = format!("EndTxn committed transactional id={} {}", stored.id, stored.producer());
                match Committed::of(&stored).confirm(&mut self.control)? {
                    Outcome::Through(note) => Ok(Standing::Committed { proof: format!("{proof}{note}") }),
                    Outcome::Forgotten(..) => self.mark(&stored, body, now_ms),
                }
            }
            Ended::NotOpen | Ended::Fenced | Ended::UnknownProducer => self.standing(body, now_ms),
        }
    }

    /// Writes the markers that a broker has forgotten.
    fn mark(&mut self, stored: &StoredTransaction, body: &[u8], now_ms: i64) -> Result<Standing> {
        let (_, held) = step(&mut self.control, stored)?;
        let committed = visible(stored, &held)?;
        if let Outcome::Forgotten(next, open) = committed.confirm(&mut self.control)? {
            committed.repair(&mut self.control, next, &open)?;
        }
        self.standing(body, now_ms)
    }

    /// Open transactions of sinks of a job, under the ids of its ledger, that none of the outputs in doubt is.
    ///
    /// # Errors
    /// `Retry` when the brokers do not answer, `Invalid` when they refuse us or an output cannot be read.
    pub fn strays(
        &mut self,
        (job, ledger): (&Name, LedgerId),
        sinks: &BTreeSet<Name>,
        in_doubt: &[&[u8]],
        now_ms: i64,
    ) -> Result<Vec<Stray>> {
        let mut named = BTreeSet::new();
        for body in in_doubt {
            let stored = StoredTransaction::decode(body)?;
            named.insert((stored.id.clone(), stored.producer(), Some(stored.started_ms)));
        }
        let mut found = BTreeSet::new();
        for ids in sinks.iter().map(|sink| Ids::new(job, sink, ledger)) {
            for listed in self.control.list_transactions(ids.prefix())?.into_iter().filter(|listed| listed.phase.is_open()) {
                let id = listed.transactional_id;
                let Described::Known(open) = self.control.describe_transaction(&id)? else { continue };
                if open.phase.is_open() && !named.contains(&(id.clone(), open.producer, open.start_ms)) {
                    let left_ms = open.start_ms.map(|start| start.saturating_add(i64::from(open.timeout_ms)).saturating_sub(now_ms));
                    found.insert(Stray { transactional_id: id, producer: open.producer, started_ms: open.start_ms, left_ms });
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Aborts an open transaction that nothing names; tells what was done.
    ///
    /// # Errors
    /// `Retry` when it is not known whether it happened; `Restart` when it is another one by now.
    pub fn abort(&mut self, stray: &Stray) -> Result<String> {
        let id = &stray.transactional_id;
        let described = self.control.describe_transaction(id)?;
        let is_same =
            matches!(&described, Described::Known(found) if found.producer == stray.producer && found.start_ms == stray.started_ms);
        if is_same && self.control.end_transaction(id, stray.producer, Decision::Abort)? == Ended::AsAsked {
            return Ok(format!("EndTxn aborted transactional id={id} {}", stray.producer));
        }
        Err(Error::new(
            ErrorKind::Restart,
            codes::TRANSACTION_GONE,
            "an open transaction ended, or another one began, while it was to be aborted",
        )
        .at(format!("transactional id={id} {}", stray.producer))
        .data("nothing was aborted")
        .remedy("see that no process of the job runs, and list its transactions again"))
    }
}
