//! The check that entries form one chain.
//!
//! Owns: the order, the hashes, the generations. Does not own: what follows from the entries' facts (`staunch-protocol`).

use std::fmt;

use staunch_types::{Error, ErrorKind, Generation, LedgerSeq, Name};

use super::{Body, LedgerEntry};
use crate::facts::Sha256;

/// Follows a ledger entry by entry, from its first or from a known one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    head: LedgerSeq,
    hash: Sha256,
    /// None until an entry was seen.
    last: Option<(Name, Generation)>,
    broken: bool,
}

/// The first place where a ledger is not a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The entry that does not follow.
    pub seq: LedgerSeq,
    /// Why not.
    pub reason: String,
    /// Whether it is whole, and of a version that this program does not read.
    pub is_newer: bool,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the ledger is broken at entry {}: {}", self.seq, self.reason)
    }
}

impl std::error::Error for Break {}

impl From<Break> for Error {
    fn from(broken: Break) -> Error {
        if broken.is_newer {
            return Error::new(ErrorKind::Invalid, "C103", format!("entry {}: {}", broken.seq, broken.reason))
                .data("nothing was changed")
                .remedy("run the program that wrote it, or a newer one");
        }
        Error::new(ErrorKind::Corrupt, "C105", broken.to_string())
            .data("the entries before it are intact; nothing was changed")
            .remedy("keep the whole ledger as evidence, and compare it with a copy")
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

impl Chain {
    /// A chain before its first entry.
    #[must_use]
    pub fn new() -> Chain {
        Chain::after(LedgerSeq(0), Sha256::default())
    }

    /// A chain after an entry whose hash is known.
    #[must_use]
    pub fn after(seq: LedgerSeq, hash: Sha256) -> Chain {
        Chain { head: seq, hash, last: None, broken: false }
    }

    /// The last entry that was accepted.
    #[must_use]
    pub fn head(&self) -> LedgerSeq {
        self.head
    }

    /// The hash that the next entry must carry.
    #[must_use]
    pub fn hash(&self) -> Sha256 {
        self.hash
    }

    /// Takes the bytes of the next entry.
    ///
    /// # Errors
    /// Where and why it does not follow; no entry follows after that.
    pub fn push(&mut self, bytes: &[u8]) -> Result<LedgerEntry, Break> {
        let seq = self.head.next();
        let checked = if self.broken {
            Err(("an entry before it is broken".into(), false))
        } else {
            let unread = |error: Error| (error.what().to_owned(), error.kind() == ErrorKind::Invalid);
            LedgerEntry::decode(bytes).map_err(unread).and_then(|entry| match self.obstacle(seq, &entry) {
                Some(reason) => Err((reason, false)),
                None => Ok(entry),
            })
        };
        match checked {
            Ok(entry) => {
                self.head = seq;
                self.hash = LedgerEntry::hash(bytes);
                self.last = Some((entry.job.clone(), entry.generation));
                Ok(entry)
            }
            Err((reason, is_newer)) => {
                self.broken = true;
                Err(Break { seq, reason, is_newer })
            }
        }
    }

    /// Why an entry does not follow.
    fn obstacle(&self, seq: LedgerSeq, entry: &LedgerEntry) -> Option<String> {
        if entry.seq != seq {
            return Some(format!("it calls itself entry {}", entry.seq));
        }
        if entry.previous != self.hash {
            return Some(format!("it follows an entry with hash {}, but the one before it has {}", entry.previous, self.hash));
        }
        if let Body::Sealed(sealed) = &entry.body
            && sealed.attempt.generation != entry.generation
        {
            return Some(format!("it seals for generation {}, but is of generation {}", sealed.attempt.generation, entry.generation));
        }
        let claims = matches!(entry.body, Body::Claimed(_));
        match &self.last {
            None if seq == LedgerSeq(1) && !claims => Some("a ledger begins with a claim".into()),
            None => None,
            Some((job, _)) if *job != entry.job => Some(format!("it belongs to the job \"{}\", not to \"{job}\"", entry.job)),
            Some((_, last)) if claims && entry.generation <= *last => {
                Some(format!("it claims generation {}, but the last was {last}", entry.generation))
            }
            Some((_, last)) if !claims && entry.generation != *last => {
                Some(format!("it is of generation {}, but the last claim was of {last}", entry.generation))
            }
            Some(_) => None,
        }
    }
}
