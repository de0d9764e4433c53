//! Errors: one kind per reaction, and for people a code, what, where, what it means for the data, what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A result with the project's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the engine does about an error. The failover machine takes this, never a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The same attempt may succeed if repeated.
    Retry,
    /// Go back to the last checkpoint.
    Restart,
    /// A newer generation exists: stop, touch nothing.
    Fenced,
    /// The user's job, settings or input: refuse, do not restart.
    Invalid,
    /// Stored bytes are not what was written: stop, keep the evidence.
    Corrupt,
    /// In-doubt output is provably lost and the policy is to stop.
    Lost,
    /// An assumption of ours does not hold.
    Bug,
}

/// An error that a person may meet.
///
/// Messages are lowercase and without a full stop; variables come last as `key=value`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Parts {
    kind: ErrorKind,
    code: String,
    what: String,
    place: Option<String>,
    data: Option<String>,
    remedy: Option<String>,
    cause: Option<String>,
}

impl Error {
    /// An error of a kind, with its stable code (such as `F003`, listed in `docs/errors.md`) and what happened: what was
    /// expected and what was found.
    #[must_use]
    pub fn new(kind: ErrorKind, code: &str, what: impl Into<String>) -> Error {
        Error(Box::new(Parts { kind, code: code.into(), what: what.into(), place: None, data: None, remedy: None, cause: None }))
    }

    /// Where: file, line, column, offset, option, operator.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Error {
        let place = place.into();
        self.0.place = Some(match self.0.place.take() {
            Some(inner) => format!("{place}, {inner}"),
            None => place,
        });
        self
    }

    /// What it means for the user's data.
    #[must_use]
    pub fn data(mut self, data: impl Into<String>) -> Error {
        self.0.data = Some(data.into());
        self
    }

    /// What to do next.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Error {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// The error underneath, as the system or library worded it.
    #[must_use]
    pub fn cause(mut self, cause: impl fmt::Display) -> Error {
        self.0.cause = Some(cause.to_string());
        self
    }

    /// The reaction it asks for.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// What happened, without place and advice.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// Where it happened, if known.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &*self.0;
        write!(f, "error[{}]: {}", parts.code, parts.what)?;
        for (label, text) in [("cause", &parts.cause), ("where", &parts.place), ("data", &parts.data), ("do", &parts.remedy)] {
            if let Some(text) = text {
                write!(f, "\n  {label}: {text}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_place_from_the_outside_in_and_what_to_do() {
        let error = Error::new(ErrorKind::Invalid, "F003", "expected a number, found \"x\"")
            .at("line=3 column=2")
            .at("file=a.csv")
            .data("nothing after this line was read")
            .remedy("correct the line, or send bad lines to a dead letter");
        let text = error.to_string();
        assert!(text.starts_with("error[F003]: expected a number"), "{text}");
        assert!(text.contains("where: file=a.csv, line=3 column=2"), "{text}");
        assert!(text.contains("do: correct the line"), "{text}");
    }
}
