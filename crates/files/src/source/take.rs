//! Takes one record from the front of the data, or says why that is not possible.
//!
//! Owns: the rules for one line: limits, text encoding, which faults stop the job and which reject the line.
//! Does not own: where the line is, and what is done about a fault.
//!
//! Invariant: what is taken does not depend on how the data came in chunks: no decision looks past the limit of a line.

use memchr::memchr;
use serde::de::DeserializeOwned;

use super::{CsvSettings, Format, Settings};
use crate::csv::{Cell, CellFault, Cut, Dialect, Form, Line, Lines, Plan, QuoteFault, cut_line};
use crate::shape::Shape;
use crate::{codes, csv, json};

/// What is at the front of the data.
pub(crate) enum Take<T> {
    /// A record.
    Record { value: T, line: Line, lines: u64 },
    /// An empty line.
    Blank { consumed: usize },
    /// The data ends before the record does.
    More,
    /// A line that is longer than the limit and does not end within the data.
    Endless,
    /// What cannot become a record.
    Fault { line: Line, lines: u64, fault: Fault },
}

/// Why a line is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) reason: String,
    /// For people: number, and name if known.
    pub(crate) column: Option<String>,
    pub(crate) reaction: Reaction,
}

/// What must follow a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// The line is rejected, the next one is read.
    Reject,
    /// The file cannot be read like this at all; the text says what to do.
    Stop(&'static str),
}

/// The rules for the lines of one split.
pub(crate) struct Taker {
    rules: Rules,
    shape: Shape,
    line_bytes_max: usize,
    cells: Vec<Cell>,
    scratch: String,
    /// Whether a NUL byte was seen in the split: then lines are searched for them.
    nul_seen: bool,
}

enum Rules {
    Csv { dialect: Dialect, plan: Plan, quotes_in_splits: QuotesInSplits },
    Json,
}

/// Whether a quote out of place means that the splits of a file may be cut wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuotesInSplits {
    Harmless,
    Stop,
}

impl Taker {
    pub(crate) fn new(settings: &Settings, shape: Shape, plan: Plan, whole_file: bool) -> Taker {
        let rules = match &settings.format {
            Format::JsonLines => Rules::Json,
            Format::Csv(csv) => {
                Rules::Csv { dialect: csv.dialect(whole_file), plan, quotes_in_splits: QuotesInSplits::of(csv, whole_file) }
            }
        };
        Taker { rules, shape, line_bytes_max: settings.line_bytes_max, cells: Vec::new(), scratch: String::new(), nul_seen: false }
    }

    /// Looks at bytes before they are taken from.
    pub(crate) fn look(&mut self, bytes: &[u8]) {
        self.nul_seen = self.nul_seen || memchr(0, bytes).is_some();
    }

    /// Takes what is at the front of the data, which is not empty.
    #[inline]
    pub(crate) fn take<T: DeserializeOwned>(&mut self, data: &[u8], end_of_input: bool) -> Take<T> {
        // A line of the greatest length and its CRLF.
        let limit = self.line_bytes_max + 2;
        let (data, end_of_input) = if data.len() > limit { (&data[..limit], false) } else { (data, end_of_input) };
        match &self.rules {
            Rules::Json => self.take_json(data, end_of_input),
            Rules::Csv { .. } => self.take_csv(data, end_of_input),
        }
    }

    #[inline]
    fn take_json<T: DeserializeOwned>(&mut self, data: &[u8], end_of_input: bool) -> Take<T> {
        let Some(line) = cut_line(data, end_of_input) else { return self.unfinished(data) };
        if line.bytes > self.line_bytes_max {
            return Take::Fault { line, lines: 1, fault: too_long(line.bytes as u64, self.line_bytes_max) };
        }
        let content = &data[..line.bytes];
        if content.first().is_none_or(u8::is_ascii_whitespace) && content.iter().all(u8::is_ascii_whitespace) {
            return Take::Blank { consumed: line.consumed };
        }
        let text = match std::str::from_utf8(content) {
            Ok(text) => text,
            Err(error) => {
                let at = error.valid_up_to();
                return Take::Fault { line, lines: 1, fault: not_utf8(content, at, Some(format!("{}", at + 1))) };
            }
        };
        match json::parse(text, self.shape) {
            Ok(value) => Take::Record { value, line, lines: 1 },
            Err(fault) => {
                let (code, reason) = match memchr(0, content) {
                    Some(_) => (codes::NUL_BYTE, NUL_REASON.to_string()),
                    None => (fault.code, fault.reason),
                };
                let column = (fault.column > 0).then(|| fault.column.to_string());
                Take::Fault { line, lines: 1, fault: Fault { code, reason, column, reaction: Reaction::Reject } }
            }
        }
    }

    #[inline]
    fn take_csv<T: DeserializeOwned>(&mut self, data: &[u8], end_of_input: bool) -> Take<T> {
        let Rules::Csv { dialect, plan, quotes_in_splits } = &self.rules else { return Take::More };
        let (line, lines) = match dialect.cut(data, end_of_input, &mut self.cells) {
            Cut::Record { line, lines } => (line, lines),
            Cut::More => return self.unfinished(data),
            Cut::Bad { line, fault, column, .. } => {
                let fault = quote_fault(fault, dialect.lines, *quotes_in_splits, place(plan, column));
                return Take::Fault { line, lines: 1, fault };
            }
        };
        if line.bytes == 0 {
            return Take::Blank { consumed: line.consumed };
        }
        if line.bytes > self.line_bytes_max {
            return self.unfinished(data);
        }
        let content = &data[..line.bytes];
        let text = match std::str::from_utf8(content) {
            Ok(text) => text,
            Err(error) => {
                let at = error.valid_up_to();
                let column = self.cells.iter().position(|cell| cell.end as usize >= at).map(|column| place(plan, column));
                return Take::Fault { line, lines, fault: not_utf8(content, at, column) };
            }
        };
        if self.nul_seen
            && let Some(column) = self.cells.iter().position(|cell| holds_nul(content, *cell))
        {
            let fault =
                Fault { code: codes::NUL_BYTE, reason: NUL_REASON.into(), column: Some(place(plan, column)), reaction: Reaction::Reject };
            return Take::Fault { line, lines, fault };
        }
        match csv::parse(text, &self.cells, plan, &mut self.scratch) {
            Ok(value) => Take::Record { value, line, lines },
            Err(fault) => Take::Fault { line, lines, fault: cell_fault(fault, plan) },
        }
    }

    /// The data ends before a record does, or the record is longer than the limit.
    #[cold]
    fn unfinished<T>(&self, data: &[u8]) -> Take<T> {
        // With the CR of a CRLF still in it, a line is one byte longer.
        if data.len() <= self.line_bytes_max + 1 {
            return Take::More;
        }
        match (cut_line(data, false), &self.rules) {
            (None, _) => Take::Endless,
            (Some(line), _) if line.bytes > self.line_bytes_max => {
                Take::Fault { line, lines: 1, fault: too_long(line.bytes as u64, self.line_bytes_max) }
            }
            // A record of several lines: its first line is rejected, and reading goes on with the second.
            (Some(line), Rules::Csv { .. } | Rules::Json) => {
                let reason = format!("expected the end of the record within line_bytes_max={}, found an open quote", self.line_bytes_max);
                let fault = Fault { code: codes::QUOTE_OPEN, reason, column: None, reaction: Reaction::Reject };
                Take::Fault { line, lines: 1, fault }
            }
        }
    }
}

impl QuotesInSplits {
    fn of(csv: &CsvSettings, whole_file: bool) -> QuotesInSplits {
        match csv.multiline {
            None if csv.quotes && !whole_file => QuotesInSplits::Stop,
            None | Some(_) => QuotesInSplits::Harmless,
        }
    }
}

const NUL_REASON: &str = "expected text, found a NUL byte; files are left with these when a machine stops while they are written";

/// Whether a cell holds a NUL byte and is not quoted; inside quotes somebody meant it.
fn holds_nul(content: &[u8], cell: Cell) -> bool {
    cell.form == Form::Plain && memchr(0, &content[cell.start as usize..cell.end as usize]).is_some()
}

/// For people: number and name of a column.
fn place(plan: &Plan, column: usize) -> String {
    match plan.header().get(column) {
        Some(name) => format!("{} ({name})", column + 1),
        None => format!("{}", column + 1),
    }
}

/// A line longer than the limit.
#[cold]
pub(crate) fn too_long(bytes: u64, limit: usize) -> Fault {
    Fault {
        code: codes::LINE_TOO_LONG,
        reason: format!("expected a line of at most line_bytes_max={limit} bytes, found one of bytes={bytes}"),
        column: None,
        reaction: Reaction::Reject,
    }
}

#[cold]
fn not_utf8(content: &[u8], at: usize, column: Option<String>) -> Fault {
    let byte = content.get(at).copied().unwrap_or_default();
    let reason = format!("expected UTF-8, found byte 0x{byte:02x}");
    Fault { code: codes::UTF8_BAD, reason, column, reaction: Reaction::Reject }
}

#[cold]
fn quote_fault(fault: QuoteFault, lines: Lines, in_splits: QuotesInSplits, column: String) -> Fault {
    let (code, reason) = match (fault, lines) {
        (QuoteFault::Open, Lines::Many) => (codes::QUOTE_OPEN, "expected a closing quote, found the end of the file"),
        (QuoteFault::Open, Lines::One) => (codes::QUOTE_OPEN, "expected a closing quote, found the end of the line"),
        (QuoteFault::Inside, _) => {
            (codes::QUOTE_STRAY, "expected quotes around a whole cell only, found one inside a cell; inside quotes it is written twice")
        }
        (QuoteFault::TextAfter, _) => (codes::QUOTE_STRAY, "expected a delimiter or a line end after a closing quote, found other text"),
    };
    match in_splits {
        QuotesInSplits::Harmless => Fault { code, reason: reason.into(), column: Some(column), reaction: Reaction::Reject },
        QuotesInSplits::Stop => Fault {
            code: codes::QUOTES_IN_SPLITS,
            reason: format!("{reason}; the file is read in several splits, which is right only if no record goes over several lines"),
            column: Some(column),
            reaction: Reaction::Stop(
                "say `multiline(true)` if quoted cells may hold line ends (then each file is one split), `multiline(false)` if they never do \
                 (then such a line is a reject), or `quotes(false)` if quotes are plain text",
            ),
        },
    }
}

#[cold]
fn cell_fault(fault: CellFault, plan: &Plan) -> Fault {
    match fault {
        CellFault::Count { expected, found } => Fault {
            code: codes::COLUMN_COUNT,
            reason: format!("expected {expected}, found columns={found}"),
            column: None,
            reaction: Reaction::Reject,
        },
        CellFault::Missing { field } => Fault {
            code: codes::COLUMN_MISSING,
            reason: format!("expected a column {field:?}, which each record needs; found the columns {}", plan.header().join(", ")),
            column: None,
            reaction: Reaction::Stop(
                "correct the header or the name of the field (`#[serde(rename)]`), or make the field an Option or `#[serde(default)]`",
            ),
        },
        CellFault::Bad { column, reason } => {
            Fault { code: codes::CELL_BAD, reason, column: column.map(|column| place(plan, column)), reaction: Reaction::Reject }
        }
    }
}
