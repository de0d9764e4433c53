//! The stable codes of this crate's errors; `docs/errors.md` has a row for each.
//!
//! Owns: which number means what. Numbers are never given a new meaning.

use rdkafka::error::KafkaError;
use staunch_types::{Error, ErrorKind};

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
/// It cannot be known what became of a transaction.
pub const UNKNOWABLE: &str = "K030";
/// A partition cannot be read.
pub const READ_FAILED: &str = "K040";
/// Messages that come next are not there any more.
pub const OFFSET_GONE: &str = "K041";
/// A message cannot become a record.
pub const MESSAGE_BAD: &str = "K042";
/// A topic or partition that was read is gone, or is another one now.
pub const TOPIC_CHANGED: &str = "K043";
/// Topics cannot be looked for.
pub const DISCOVERY_FAILED: &str = "K044";
/// Messages are damaged as they are stored.
pub const BATCH_DAMAGED: &str = "K045";
/// The brokers did not do what the sink needs.
pub const WRITE_FAILED: &str = "K050";
/// A message was refused.
pub const MESSAGE_REFUSED: &str = "K051";
/// A record cannot become a message.
pub const RECORD_UNWRITABLE: &str = "K052";
/// A transaction that should be open is not.
pub const TRANSACTION_GONE: &str = "K053";
/// What a checkpoint holds of a transaction cannot be read.
pub const STORED_BAD: &str = "K054";
/// A prepared transaction was not committed and cannot be.
pub const TRANSACTION_LOST: &str = "K055";
/// The copy of a lost transaction is not as it was written.
pub const COPY_CHANGED: &str = "K056";
/// The mark of a transaction cannot be looked for.
pub const TOKEN_UNREADABLE: &str = "K057";
/// What became of a transaction is not known yet.
pub const NOT_KNOWN_YET: &str = "K058";
/// A topic does not exist.
pub const TOPIC_MISSING: &str = "K059";
/// A message is larger than the topic or the client allows.
pub const MESSAGE_TOO_LARGE: &str = "K066";
/// The job has gone on with another ledger than this one.
pub const LEDGER_OLD: &str = "K067";
/// A broker has forgotten markers of a transaction that is committed.
pub const MARKERS_FORGOTTEN: &str = "K069";
/// This user may not write the markers that a broker has forgotten.
pub const MARKERS_REFUSED: &str = "K070";
/// The topic of marks may delete marks.
pub const MARKS_NOT_KEPT: &str = "K068";
/// A newer generation has taken a transactional id over.
pub const FENCED: &str = "K060";
/// A line of a file with settings cannot be used.
pub const SETTINGS_FILE_BAD: &str = "K061";
/// Another job of the same name writes to the same brokers.
pub const OTHER_JOB: &str = "K065";
/// An assumption of ours does not hold.
pub const KAFKA_BUG: &str = "K099";

/// A setting that cannot work.
pub(crate) fn setting(what: impl Into<String>, remedy: &str) -> Error {
    Error::new(ErrorKind::Invalid, SETTING_BAD, what).data("nothing was started").remedy(remedy)
}

pub(crate) fn refused_setting(error: &KafkaError) -> Error {
    setting("the Kafka client refuses the settings", "correct the setting that is named; names and values are those of librdkafka")
        .cause(error)
}

pub(crate) fn no_thread(error: &std::io::Error) -> Error {
    setting("the system refuses to start a thread for Kafka", "raise the limit on threads").cause(error)
}
