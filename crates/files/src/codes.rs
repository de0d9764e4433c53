//! The stable codes of this crate's errors and rejects; `docs/errors.md` has a section for each.
//!
//! Owns: which number means what. Numbers are never given a new meaning.

use staunch_types::{Error, ErrorKind};

/// Nothing is at the path of a source.
pub const PATH_MISSING: &str = "F001";
/// The directory of a source has no files.
pub const DIRECTORY_EMPTY: &str = "F002";
/// The pattern of a source matches no file.
pub const PATTERN_MATCHES_NOTHING: &str = "F003";
/// The pattern of a source is not a pattern.
pub const PATTERN_BAD: &str = "F004";
/// The operating system does not let us read or write there.
pub const PERMISSION_DENIED: &str = "F005";
/// What is at the path is neither a file nor a directory.
pub const NOT_A_FILE: &str = "F006";
/// The file is in a form that is not read: another compression, UTF-16.
pub const FORM_UNKNOWN: &str = "F007";
/// A setting cannot work.
pub const SETTING_BAD: &str = "F008";
/// More files than a source can keep in mind.
pub const FILES_TOO_MANY: &str = "F009";
/// A file is not what it was when it was found.
pub const FILE_CHANGED: &str = "F010";
/// A file is gone that was there when it was found.
pub const FILE_GONE: &str = "F011";
/// The operating system could not read.
pub const READ_FAILED: &str = "F012";
/// The stored state of a file source cannot be read.
pub const STATE_UNREADABLE: &str = "F013";
/// The name of a file is not UTF-8.
pub const NAME_BAD: &str = "F014";
/// Directories lie too deep, or a link leads back to one above it.
pub const DIRECTORIES_TOO_DEEP: &str = "F015";
/// The header lacks a column that a record needs.
pub const COLUMN_MISSING: &str = "F020";
/// The header names a column twice.
pub const COLUMN_DOUBLED: &str = "F021";
/// The header line cannot be read.
pub const HEADER_UNREADABLE: &str = "F022";
/// A file read in several splits has quotes that are not closed within their line.
pub const QUOTES_IN_SPLITS: &str = "F023";
/// A line has more or fewer columns than expected.
pub const COLUMN_COUNT: &str = "F030";
/// A cell does not hold what the record wants.
pub const CELL_BAD: &str = "F031";
/// Bytes that are not UTF-8.
pub const UTF8_BAD: &str = "F032";
/// A quote is opened and never closed.
pub const QUOTE_OPEN: &str = "F033";
/// A quote where none may be.
pub const QUOTE_STRAY: &str = "F034";
/// A NUL byte outside quotes.
pub const NUL_BYTE: &str = "F035";
/// A line longer than the limit.
pub const LINE_TOO_LONG: &str = "F036";
/// A line that is not JSON.
pub const JSON_SYNTAX: &str = "F037";
/// JSON of another shape than the record.
pub const JSON_SHAPE: &str = "F038";
/// A compressed file ends too early.
pub const COMPRESSED_CUT: &str = "F039";
/// A compressed file is damaged.
pub const COMPRESSED_DAMAGED: &str = "F040";
/// The output path is not a directory.
pub const OUTPUT_NOT_DIRECTORY: &str = "F050";
/// The output directory cannot be written.
pub const OUTPUT_NOT_WRITABLE: &str = "F051";
/// The disk of the output directory is full.
pub const OUTPUT_FULL: &str = "F052";
/// A record cannot be written in the format of the sink.
pub const RECORD_UNWRITABLE: &str = "F053";
/// A header is wanted, but the record has no names.
pub const HEADER_NAMELESS: &str = "F054";
/// The operating system could not write.
pub const WRITE_FAILED: &str = "F055";
/// What a checkpoint holds for a file sink cannot be read.
pub const BODY_UNREADABLE: &str = "F056";
/// A prepared file is gone.
pub const FILE_LOST: &str = "F057";
/// A file is at the visible path, or the prepared one, that is not what was written.
pub const OUTPUT_CHANGED: &str = "F058";
/// A commit, or a look at the output, failed and can be repeated.
pub const COMMIT_FAILED: &str = "F059";
/// The unfinished file that a checkpoint carries is gone or changed.
pub const CARRIED_CHANGED: &str = "F060";
/// An assumption of ours about output files does not hold.
pub const OUTPUT_BUG: &str = "F061";
/// The output directory holds files that this life of the job cannot have written.
pub const OUTPUT_OF_ANOTHER_LIFE: &str = "F062";
/// The copy of a lost file is not as it was written.
pub const COPY_CHANGED: &str = "F063";

/// A setting that cannot work.
pub(crate) fn setting(what: impl Into<String>, remedy: &str) -> Error {
    Error::new(ErrorKind::Invalid, SETTING_BAD, what).data("nothing was started").remedy(remedy)
}
