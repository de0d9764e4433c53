//! Names and numbers that identify things, each its own type.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a checkpoint. The first checkpoint of a job is 1; 0 means "before any checkpoint".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// An incarnation of a job: the fence. Grows with every claim of the job, by a start or a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u64);

/// Position in the job's ledger: a gapless sequence in which each entry is created by a conditional write. The first is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LedgerSeq(pub u64);

impl LedgerSeq {
    /// The position after this one.
    #[must_use]
    pub fn next(self) -> LedgerSeq {
        LedgerSeq(self.0 + 1)
    }
}

/// Tells one ledger from every other: of two jobs of the same name, each has its own.
///
/// 0 is that of jobs whose checkpoints go with their process: they have no ledger to tell them apart, and each start takes over from the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LedgerId(pub u64);

impl LedgerId {
    /// Of a ledger, by the hash of its first entry.
    #[must_use]
    pub fn of_first_entry(hash: &[u8; 32]) -> LedgerId {
        let [a, b, c, d, e, f, g, h, ..] = *hash;
        LedgerId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Whether checkpoints go with their process.
    #[must_use]
    pub fn is_temporary(self) -> bool {
        self == LedgerId::default()
    }
}

impl fmt::Display for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One parallel instance of a chain: the chain's position in the plan and the instance's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// Position of the chain in the job's plan, from 0.
    pub chain: u32,
    /// Number of the instance within the chain, from 0 to parallelism - 1.
    pub index: u32,
}

macro_rules! display_number {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
display_number!(Epoch, Generation, LedgerSeq);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.chain, self.index)
    }
}

/// A user-given name: of a job, a source, a stateful operator, a state, a sink. It is the identity of what it
/// names across versions of the program.
///
/// Any non-empty text without control characters is accepted; at most 40,000 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Why a text is not a valid [`Name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError(String);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NameError {}

impl Name {
    /// Characters a name may have at most.
    pub const CHARS_MAX: usize = 40_000;
    /// Bytes of the longest file-system component made from a name.
    pub const COMPONENT_BYTES_MAX: usize = 100;

    /// Checks and wraps a text.
    ///
    /// # Errors
    /// When the text is empty, too long, or holds a control character.
    pub fn new(text: impl Into<String>) -> std::result::Result<Name, NameError> {
        let text = text.into();
        if text.is_empty() {
            return Err(NameError("a name must have at least one character".into()));
        }
        let chars = text.chars().count();
        if chars > Self::CHARS_MAX {
            return Err(NameError(format!("a name has at most {} characters; this one has {chars}", Self::CHARS_MAX)));
        }
        if let Some(at) = text.chars().position(char::is_control) {
            return Err(NameError(format!("a name has no control characters; this one has one at position {at}")));
        }
        Ok(Name(text))
    }

    /// The text as the user gave it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as one component of a path or of an outside identifier: only `[A-Za-z0-9._-]`, at most
    /// [`Self::COMPONENT_BYTES_MAX`] bytes. Names that had to be changed or shortened end in a hash of the whole, so
    /// that two different names never share a component.
    #[must_use]
    pub fn component(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if self.0.len() <= Self::COMPONENT_BYTES_MAX && self.0.chars().all(plain) && !self.0.starts_with('.') && !self.0.contains('~') {
            return self.0.clone();
        }
        let mut out: String = self.0.chars().take(Self::COMPONENT_BYTES_MAX - 18).map(|c| if plain(c) { c } else { '_' }).collect();
        if out.starts_with('.') {
            out.replace_range(0..1, "_");
        }
        format!("{out}~{:016x}", xxhash_rust::xxh3::xxh3_64(self.0.as_bytes()))
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;
    fn try_from(text: String) -> std::result::Result<Name, NameError> {
        Name::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_40_000_unicode_characters_becomes_a_short_unique_component() {
        let long = Name::new("ü".repeat(40_000)).expect("allowed");
        let other = Name::new("ü".repeat(39_999)).expect("allowed");
        assert!(long.component().len() <= Name::COMPONENT_BYTES_MAX);
        assert!(long.component().is_ascii());
        assert_ne!(long.component(), other.component());
    }

    #[test]
    fn a_plain_name_is_its_own_component() {
        assert_eq!(Name::new("payments-2.total").expect("allowed").component(), "payments-2.total");
    }

    #[test]
    fn names_that_could_escape_or_hide_are_changed() {
        for text in [".hidden", "..", "a/b", "a\\b"] {
            let component = Name::new(text).expect("allowed").component();
            assert!(!component.starts_with('.') && !component.contains(['/', '\\']), "{component}");
        }
    }

    #[test]
    fn bad_names_say_what_is_wrong() {
        assert!(Name::new("").is_err());
        assert!(Name::new("a\nb").expect_err("control").to_string().contains("position 1"));
        assert!(Name::new("x".repeat(40_001)).is_err());
    }
}
