//! The stable codes of this crate's errors; `docs/errors.md` has a row for each.
//!
//! Owns: which number means what. Numbers are never given a new meaning.

/// A setting that is needed is not there.
pub const SETTING_MISSING: &str = "K001";
/// A setting has a value that cannot work.
pub const SETTING_BAD: &str = "K002";
/// A setting that librdkafka knows and the control client cannot follow.
pub const SETTING_UNSUPPORTED: &str = "K003";
/// A certificate or key cannot be used.
pub const CERTIFICATE_BAD: &str = "K004";
/// No broker can be reached.
pub const UNREACHABLE: &str = "K010";
/// A broker did not answer, or the connection broke.
pub const NO_ANSWER: &str = "K011";
/// TLS cannot be agreed upon with a broker.
pub const TLS_REFUSED: &str = "K012";
/// A broker refuses the login.
pub const LOGIN_REFUSED: &str = "K013";
/// A broker does not know a request that is needed.
pub const BROKER_TOO_OLD: &str = "K014";
/// A broker's answer cannot be read.
pub const ANSWER_UNREADABLE: &str = "K015";
/// A broker did not prove that it knows the password.
pub const BROKER_UNPROVEN: &str = "K016";
/// The coordinator was not there, or busy, for all attempts.
pub const COORDINATOR_AWAY: &str = "K020";
/// A broker does not allow a request.
pub const NOT_ALLOWED: &str = "K021";
/// A broker refuses a request for a reason that was not expected.
pub const REFUSED: &str = "K022";
/// Waiting for a broker was interrupted, since the program ends.
pub const INTERRUPTED: &str = "K023";
/// A broker does not take the transaction timeout.
pub const TIMEOUT_REFUSED: &str = "K024";
/// A broker names a phase of a transaction that is not known here.
pub const PHASE_UNKNOWN: &str = "K025";
