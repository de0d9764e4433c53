//! The errors of this crate.

use std::fmt;
use std::path::Path;

use staunch_api::StoredFile;
use staunch_types::{Error, ErrorKind};

/// The database did not do as asked.
pub(crate) fn failed(what: &str, place: &Path, cause: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Restart, "S401", format!("the database of keyed state could not be {what}"))
        .cause(cause)
        .at(format!("directory={}", place.display()))
        .data("nothing of this epoch became visible; the job goes on from its last checkpoint")
        .remedy("see that the disk has room and can be read and written; `RocksDb::directory` chooses another place")
}

/// The directory for databases cannot be used.
pub(crate) fn unusable(place: &Path, cause: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, "S402", "the directory for databases of keyed state cannot be used")
        .cause(cause)
        .at(format!("directory={}", place.display()))
        .data("nothing was started")
        .remedy("make it a directory that the job may write, on a local disk with room for all keyed state, or choose another with `RocksDb::directory`")
}

/// A checkpoint of the database could not be made.
pub(crate) fn no_checkpoint(place: &Path, cause: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Retry, "S403", "the database of keyed state could not be checkpointed")
        .cause(cause)
        .at(format!("directory={}", place.display()))
        .data("the checkpoint is abandoned; the job goes on, nothing of this epoch is visible")
        .remedy("see that the disk has room; the next checkpoint tries again")
}

/// A file of the database could not be stored.
pub(crate) fn not_stored(file: &str, store: &str, cause: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Retry, "S404", "a file of the database of keyed state could not be stored")
        .cause(cause)
        .at(format!("object={file} store={store}"))
        .data("the checkpoint is abandoned; the job goes on, nothing of this epoch is visible")
        .remedy("make the checkpoint store writable and see that it has room; the next checkpoint tries again")
}

/// A stored file could not be read.
pub(crate) fn unreadable(file: &StoredFile, store: &str, cause: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Restart, "S405", "a file of the database of keyed state could not be read back")
        .cause(cause)
        .at(format!("object={} store={store}", file.path))
        .data("nothing was changed; the restore is tried again")
        .remedy("see that the checkpoint store can be reached and read")
}

/// A stored file is not what was stored.
pub(crate) fn damaged(file: &StoredFile, store: &str, what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, "S406", format!("a stored file of the database of keyed state is damaged: {what}"))
        .at(format!("object={} bytes={} store={store}", file.path, file.bytes))
        .data("the checkpoint cannot be restored; nothing was changed")
        .remedy("restore an older checkpoint (`staunch checkpoints` lists them, `--restore N` takes one), and keep the damaged file as evidence")
}
