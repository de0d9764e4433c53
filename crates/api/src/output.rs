//! Where a reader pushes its records: the fused chain of the task behind it.

use serde::{Deserialize, Serialize};
use staunch_types::{Error, Timestamp};

/// Takes records, by value, one after the other. Implemented by every chain; calls are resolved at compile time.
pub trait Output<T> {
    /// Takes one record with its event time; [`Timestamp::MIN`] when the source knows none.
    fn push(&mut self, value: T, time: Timestamp);

    /// Whether more records should be pushed now. A reader looks between records and returns when there is no room; one
    /// record too many is kept, not lost.
    fn room(&self) -> bool;

    /// Says that the records that follow are of the reader's split number `slot` (see [`crate::SourceReader::add_split`]).
    ///
    /// A split that was added and not begun holds the watermark; one that was begun can become idle. So a reader that waits for several
    /// splits at once begins each of them when it starts to wait for it, be there records or not.
    fn begin_split(&mut self, slot: u32);

    /// Says that split number `slot` has no more records, ever.
    fn end_split(&mut self, slot: u32);

    /// Takes input that could not become a record. It is counted and goes to the dead letter of the source.
    ///
    /// # Errors
    /// The same as an [`Error`], when the source has no dead letter: the reader returns it.
    fn reject(&mut self, rejected: Rejected) -> Result<(), Error>;
}

/// Input that could not become a record, with all that is needed to find and repair it. Dead letters are streams of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The stable code of what is wrong.
    pub code: String,
    /// What was expected and what was found.
    pub reason: String,
    /// File, line and column; or topic, partition and offset.
    pub place: String,
    /// The input as it came; bytes that are not UTF-8 are replaced; cut after [`Rejected::RAW_BYTES_MAX`].
    pub raw: String,
}

impl Rejected {
    /// Bytes of the input that are kept.
    pub const RAW_BYTES_MAX: usize = 64 * 1024;

    /// The same as an error that stops the job.
    #[must_use]
    pub fn into_error(self) -> Error {
        Error::new(staunch_types::ErrorKind::Invalid, &self.code, self.reason)
            .at(self.place)
            .data("nothing from this place on was read; what was committed before stays valid")
            .remedy(
                "give the source a dead letter (`source_with_dead_letter`) and start again: the job goes on where it was, and sends such \
                 input there; or repair the input, if no checkpoint speaks of it yet",
            )
    }
}
