//! What can go wrong with a value.

use std::fmt;

use staunch_types::ErrorKind;

use crate::bytes::ReadError;

/// What went wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueErrorKind {
    /// The type's own `Serialize` failed.
    Refused,
    /// The value is nested too deeply, or values of this type have too many shapes.
    Limit,
    /// The bytes are not what an encoder wrote.
    Malformed,
    /// The bytes are sound, but the type that is to be read does not accept what was written.
    Mismatch,
}

/// Why a value could not be encoded or decoded, where in the value, and where in the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    kind: ValueErrorKind,
    what: String,
    path: String,
    offset: Option<usize>,
}

impl ValueError {
    #[cold]
    pub(super) fn new(kind: ValueErrorKind, what: impl Into<String>) -> ValueError {
        ValueError(Box::new(Parts { kind, what: what.into(), path: String::new(), offset: None }))
    }

    /// Adds the step that led to the place, while the error travels outwards.
    #[cold]
    pub(super) fn within(mut self, step: &str) -> ValueError {
        let separator = if self.0.path.is_empty() || self.0.path.starts_with(['[', '{']) { "" } else { "." };
        self.0.path = format!("{step}{separator}{}", self.0.path);
        self
    }

    /// Notes where in the bytes, unless an inner place did already.
    #[cold]
    pub(super) fn at(mut self, offset: usize) -> ValueError {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ValueErrorKind {
        self.0.kind
    }

    /// The place in the value, such as `accounts[].balance`, `{}` for the value of a map, a number for a tuple's item; empty at the outermost place.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The place in the bytes, when decoding.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)?;
        if !self.0.path.is_empty() {
            write!(f, " place={}", self.0.path)?;
        }
        if let Some(offset) = self.0.offset {
            write!(f, " offset={offset}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ValueError {}

impl From<ReadError> for ValueError {
    #[cold]
    fn from(error: ReadError) -> ValueError {
        ValueError::new(ValueErrorKind::Malformed, error.what).at(error.offset)
    }
}

impl serde::de::Error for ValueError {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> ValueError {
        ValueError::new(ValueErrorKind::Mismatch, message.to_string())
    }
}

impl From<ValueError> for staunch_types::Error {
    fn from(error: ValueError) -> staunch_types::Error {
        let text = error.to_string();
        match error.kind() {
            ValueErrorKind::Refused => staunch_types::Error::new(ErrorKind::Invalid, "S101", format!("a value cannot be written: {text}"))
                .remedy("correct the type's Serialize, or keep the value in a type that serialises"),
            ValueErrorKind::Limit => staunch_types::Error::new(ErrorKind::Invalid, "S102", format!("a value cannot be written: {text}"))
                .remedy("keep the value in a flatter type, or in one whose enums are tagged by name"),
            ValueErrorKind::Malformed => {
                staunch_types::Error::new(ErrorKind::Corrupt, "S103", format!("a stored value is damaged: {text}"))
                    .data("the value was not read")
                    .remedy("keep the files, and restore an older checkpoint")
            }
            ValueErrorKind::Mismatch => {
                staunch_types::Error::new(ErrorKind::Invalid, "S104", format!("a stored value does not fit its type: {text}"))
                    .data("nothing was changed")
                    .remedy("give new fields #[serde(default)], keep old names with #[serde(alias)], or keep the type as it was")
            }
        }
    }
}
