//! CSV: bytes into cells, cells into records, records into bytes.
//!
//! Owns: the rules of quoting (RFC 4180, strictly: a quote opens a cell only at its front, and a cell with a quote inside is
//! quoted and doubles it) and of missing values (an empty cell without quotes is a missing value; a quoted empty cell is an empty text).
//! Does not own: files, positions, what happens to a record that cannot be read.

mod cut;
mod plan;
mod de;
mod ser;
mod names;

pub(crate) use cut::{Cell, Cut, Dialect, Form, Line, Lines, QuoteFault, cut_line};
pub(crate) use de::{CellFault, parse, text_of};
pub(crate) use names::header;
pub(crate) use plan::{HeaderFault, Plan};
pub(crate) use ser::write;

/// Whether a byte can stand between cells: ASCII that is in no number, word, quote or line end.
pub(crate) fn can_delimit(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric() && !matches!(byte, QUOTE | b'\n' | b'\r' | 0 | b'+' | b'-' | b'.')
}

/// What [`can_delimit`] asks for.
pub(crate) const DELIMITERS: &str = "an ASCII delimiter that is no letter, digit, sign, dot, quote, line end or NUL";

/// The mark around cells.
pub(crate) const QUOTE: u8 = b'"';
