//! Cuts bytes into lines and cells.

use memchr::{memchr, memchr_iter, memchr3};

use super::QUOTE;

/// How the cells of a file are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// Between cells; ASCII, neither a quote nor a line end.
    pub(crate) delimiter: u8,
    /// Whether `"` has a meaning.
    pub(crate) quotes: bool,
    /// Whether a record may go over several lines.
    pub(crate) lines: Lines,
}

/// Over how many lines a record may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Each line end outside quotes ends a record.
    Many,
    /// Each line end ends a record; a quote must be closed before.
    One,
}

/// Where a cell lies within its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) form: Form,
}

/// What surrounds a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing.
    Plain,
    /// Quotes, which `start` and `end` leave out.
    Quoted,
    /// Quotes, and there are doubled ones inside.
    Escaped,
}

/// One line: its bytes without the line end, and with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) bytes: usize,
    pub(crate) consumed: usize,
}

/// What the front of the data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A record of one or more lines.
    Record { line: Line, lines: u64 },
    /// The data ends before the record does.
    More,
    /// A line with quotes that make no sense; `at` is the offset of the quote, `column` the cell's number from 0.
    Bad { line: Line, fault: QuoteFault, at: usize, column: usize },
}

/// What is wrong with a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuoteFault {
    /// It is never closed.
    Open,
    /// It is inside a cell that is not quoted.
    Inside,
    /// Other text follows it.
    TextAfter,
}

/// The line at the front of the data; `None` when it does not end within and more data may come.
#[inline]
pub(crate) fn cut_line(data: &[u8], end_of_input: bool) -> Option<Line> {
    match memchr(b'\n', data) {
        Some(at) => Some(Line { bytes: without_return(data, at), consumed: at + 1 }),
        None if end_of_input => Some(Line { bytes: without_return(data, data.len()), consumed: data.len() }),
        None => None,
    }
}

#[inline]
fn without_return(data: &[u8], end: usize) -> usize {
    if end > 0 && data[end - 1] == b'\r' { end - 1 } else { end }
}

impl Dialect {
    /// Cuts the record at the front of the data into cells.
    #[inline]
    pub(crate) fn cut(&self, data: &[u8], end_of_input: bool, cells: &mut Vec<Cell>) -> Cut {
        let Some(line) = cut_line(data, end_of_input) else { return Cut::More };
        cells.clear();
        let content = &data[..line.bytes];
        if self.quotes && memchr(QUOTE, content).is_some() {
            return self.cut_quoted(data, end_of_input, line, cells);
        }
        let mut start = 0;
        for at in memchr_iter(self.delimiter, content) {
            cells.push(Cell { start, end: at as u32, form: Form::Plain });
            start = at as u32 + 1;
        }
        cells.push(Cell { start, end: line.bytes as u32, form: Form::Plain });
        Cut::Record { line, lines: 1 }
    }

    /// The same for a record with a quote in its first line.
    fn cut_quoted(&self, data: &[u8], end_of_input: bool, first: Line, cells: &mut Vec<Cell>) -> Cut {
        let (data, end_of_input) = match self.lines {
            Lines::Many => (data, end_of_input),
            Lines::One => (&data[..first.bytes], true),
        };
        let mut at = 0;
        loop {
            let bad = |fault, at| Cut::Bad { line: first, fault, at, column: cells.len() };
            let (cell, next) = if data.get(at) == Some(&QUOTE) {
                match quoted_cell(data, at, end_of_input) {
                    Ok(Some(found)) => found,
                    Ok(None) => return Cut::More,
                    Err(fault) => return bad(fault, at),
                }
            } else {
                let stop = memchr3(self.delimiter, b'\n', QUOTE, &data[at..]).map(|offset| at + offset);
                match stop.map(|stop| data[stop]) {
                    Some(QUOTE) => return bad(QuoteFault::Inside, stop.unwrap_or(at)),
                    None if !end_of_input => return Cut::More,
                    _ => {}
                }
                let stop = stop.unwrap_or(data.len());
                let end = if data.get(stop) == Some(&self.delimiter) { stop } else { without_return(data, stop).max(at) };
                (Cell { start: at as u32, end: end as u32, form: Form::Plain }, stop)
            };
            // `next` is at the byte after the cell: a delimiter, a line end, or the end of the data.
            match data[next..] {
                [byte, ..] if byte == self.delimiter => at = next + 1,
                [] | [b'\n', ..] | [b'\r', b'\n', ..] => {
                    cells.push(cell);
                    return self.whole(data, next, first);
                }
                [b'\r'] if end_of_input => {
                    cells.push(cell);
                    return self.whole(data, next, first);
                }
                [b'\r'] => return Cut::More,
                _ => return bad(QuoteFault::TextAfter, next),
            }
            cells.push(cell);
        }
    }

    /// The record that ends before `end`, where a line end or nothing is.
    fn whole(&self, data: &[u8], end: usize, first: Line) -> Cut {
        match self.lines {
            Lines::One => Cut::Record { line: first, lines: 1 },
            Lines::Many => {
                let consumed = memchr(b'\n', &data[end..]).map_or(data.len(), |offset| end + offset + 1);
                let lines = memchr_iter(b'\n', &data[..consumed]).count() as u64;
                Cut::Record { line: Line { bytes: without_return(data, end), consumed }, lines: lines.max(1) }
            }
        }
    }
}

/// The quoted cell that opens at `open`, and the offset after it; `None` when more data is needed.
fn quoted_cell(data: &[u8], open: usize, end_of_input: bool) -> Result<Option<(Cell, usize)>, QuoteFault> {
    let mut form = Form::Quoted;
    let mut from = open + 1;
    loop {
        let Some(offset) = memchr(QUOTE, &data[from..]) else {
            return if end_of_input { Err(QuoteFault::Open) } else { Ok(None) };
        };
        let close = from + offset;
        match data.get(close + 1) {
            Some(&QUOTE) => {
                form = Form::Escaped;
                from = close + 2;
            }
            None if !end_of_input => return Ok(None),
            _ => return Ok(Some((Cell { start: open as u32 + 1, end: close as u32, form }, close + 1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(lines: Lines) -> Dialect {
        Dialect { delimiter: b',', quotes: true, lines }
    }

    fn texts(data: &str, lines: Lines) -> (Cut, Vec<String>) {
        let mut cells = Vec::new();
        let cut = dialect(lines).cut(data.as_bytes(), true, &mut cells);
        (cut, cells.iter().map(|cell| data[cell.start as usize..cell.end as usize].to_string()).collect())
    }

    #[test]
    fn cells_are_cut_with_and_without_quotes() {
        for (data, cells, bytes, consumed, lines) in [
            ("a,b\n", vec!["a", "b"], 3, 4, 1),
            ("a,b\r\nx", vec!["a", "b"], 3, 5, 1),
            ("a,b\r", vec!["a", "b"], 3, 4, 1),
            (",\n", vec!["", ""], 1, 2, 1),
            ("a,\"b,c\"\r\nx", vec!["a", "b,c"], 7, 9, 1),
            ("\"a\nb\",c\nx", vec!["a\nb", "c"], 7, 8, 2),
            ("\"a\r\nb\"", vec!["a\r\nb"], 6, 6, 1),
            ("\"\",\"\"\"\"\n", vec!["", "\"\""], 7, 8, 1),
            ("\"a\",b\r", vec!["a", "b"], 5, 6, 1),
            ("\"a\"\r", vec!["a"], 3, 4, 1),
            ("b,\"a\",\n", vec!["b", "a", ""], 6, 7, 1),
        ] {
            let (cut, found) = texts(data, Lines::Many);
            assert_eq!(cut, Cut::Record { line: Line { bytes, consumed }, lines }, "{data:?}");
            assert_eq!(found, cells, "{data:?}");
        }
    }

    #[test]
    fn quotes_that_make_no_sense_are_found_with_their_place() {
        for (data, lines, fault, at, column) in [
            ("a,\"b\nc\n", Lines::One, QuoteFault::Open, 2, 1),
            ("a,\"b\nc\n", Lines::Many, QuoteFault::Open, 2, 1),
            ("a,b\"c\nd\n", Lines::Many, QuoteFault::Inside, 3, 1),
            ("\"a\"b,c\nd\n", Lines::Many, QuoteFault::TextAfter, 3, 0),
            ("\"a\" ,c\nd\n", Lines::One, QuoteFault::TextAfter, 3, 0),
        ] {
            let (cut, _) = texts(data, lines);
            let first = cut_line(data.as_bytes(), true).expect("a line");
            assert_eq!(cut, Cut::Bad { line: first, fault, at, column }, "{data:?}");
        }
    }

    #[test]
    fn every_cut_short_of_the_end_asks_for_more_and_never_decides_early() {
        let data = "\"a\"\"b\r\n\",\"\",c\r\nnext";
        let whole = texts(data, Lines::Many).0;
        let Cut::Record { line, .. } = whole else { panic!("{whole:?}") };
        for end in 0..line.consumed {
            let mut cells = Vec::new();
            assert_eq!(dialect(Lines::Many).cut(&data.as_bytes()[..end], false, &mut cells), Cut::More, "{end}");
        }
    }
}
