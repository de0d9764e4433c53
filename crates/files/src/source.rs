//! Files as a source.
//!
//! Owns: the description of a source, its settings and their checks. Does not own: formats (`csv`, `json`).
//! Follows the data: finding files, cutting them into splits, fetching bytes, taking records out of them.

mod find;
mod split;
mod enumerate;
mod open;
mod fetch;
mod window;
mod take;
mod place;
mod reading;
mod reader;

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use staunch_api::{Assignment, ReaderContext, Source, SourceContext};
use staunch_types::Result;

use crate::codes::setting;
use crate::csv::{DELIMITERS, Dialect, Lines, can_delimit};
use crate::shape::Shape;

pub(crate) use window::{Chunk, Window};

pub use enumerate::FileEnumerator;
pub use reader::FileReader;
pub use split::FileSplit;

/// Bytes of a split unless said otherwise.
const SPLIT_BYTES_DEFAULT: u64 = 64 << 20;
/// Bytes of the longest line unless said otherwise.
const LINE_BYTES_MAX_DEFAULT: usize = 16 << 20;
/// Most that can be asked for as the longest line.
const LINE_BYTES_MAX_MAX: usize = 1 << 30;
/// Bytes read at once unless said otherwise.
const CHUNK_BYTES_DEFAULT: usize = 1 << 20;

/// A source of records from a file, a directory or a pattern such as `logs/**/*.csv.gz`.
///
/// Files are read in the order of their names. Those whose names start with a dot are not read; neither are the directories inside
/// a directory (a pattern with `**` reaches them). Files may be plain, gzip or zstd, whatever their names say. They must not
/// change once found: to add records, add files, and move each into place when it is complete. A file is known by its path: one that
/// was read is not read again in the life of the job. Another length, or other bytes in the first 4 KiB, are noticed when a split is
/// opened and at the end of the file; other changes are not.
///
/// Lines end in LF or CRLF; empty lines and a byte order mark at the front are passed over.
///
/// A damaged gzip file is noticed at the checksum at its end, a damaged zstd file if it has checksums: records before that may be wrong.
///
/// Positions are byte offsets of records; in a compressed file, of its plain bytes. A restore at a position in a compressed file
/// decompresses it from the front up to there.
///
/// The ledger's digest of a split covers every line that is not empty, header excepted, without its line end: those that became
/// records and those that were rejected.
///
/// ```
/// use staunch_files::FileSource;
///
/// #[derive(serde::Deserialize)]
/// struct Payment { account: u64, cents: i64 }
///
/// let source = FileSource::csv::<Payment>("payments/*.csv").delimiter(b';');
/// # let _ = source;
/// ```
pub struct FileSource<T = ()> {
    settings: Settings,
    record: PhantomData<fn() -> T>,
}

impl<T> Clone for FileSource<T> {
    fn clone(&self) -> Self {
        FileSource { settings: self.settings.clone(), record: PhantomData }
    }
}

/// How large files are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitSize {
    /// About so many bytes a split.
    Bytes(u64),
    /// One split a file.
    WholeFile,
}

/// The settings of a source, as given.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) split: SplitSize,
    pub(crate) watch: Option<Duration>,
    pub(crate) line_bytes_max: usize,
    pub(crate) chunk_bytes: usize,
    /// A CSV option that was given to a source of JSON Lines.
    misplaced: Option<&'static str>,
}

/// The format of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv(CsvSettings),
    JsonLines,
}

/// What can be said about CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CsvSettings {
    pub(crate) delimiter: u8,
    pub(crate) headers: bool,
    pub(crate) quotes: bool,
    /// `None`: as far as a file is one split.
    pub(crate) multiline: Option<bool>,
}

impl CsvSettings {
    /// The rules for one file.
    pub(crate) fn dialect(&self, whole_file: bool) -> Dialect {
        let lines = if self.quotes && self.multiline.unwrap_or(whole_file) { Lines::Many } else { Lines::One };
        Dialect { delimiter: self.delimiter, quotes: self.quotes, lines }
    }
}

impl FileSource {
    /// Records from CSV. The columns are found by the names in the header, in any order: fields of `T` by their `serde` names; columns
    /// that `T` does not know are not looked at. An empty cell is `None` for an `Option`; a quoted empty cell is an empty text.
    /// Cells have no types of their own: what `serde` asks for without naming a type (flattened parts, untagged enums) is text.
    pub fn csv<T>(path: impl AsRef<Path>) -> FileSource<T> {
        FileSource::with(path.as_ref(), Format::Csv(CsvSettings { delimiter: b',', headers: true, quotes: true, multiline: None }))
    }

    /// Records from JSON Lines: one JSON object on each line.
    pub fn json_lines<T>(path: impl AsRef<Path>) -> FileSource<T> {
        FileSource::with(path.as_ref(), Format::JsonLines)
    }
}

impl<T> FileSource<T> {
    fn with(path: &Path, format: Format) -> FileSource<T> {
        let settings = Settings {
            path: path.to_path_buf(),
            format,
            split: SplitSize::Bytes(SPLIT_BYTES_DEFAULT),
            watch: None,
            line_bytes_max: LINE_BYTES_MAX_DEFAULT,
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            misplaced: None,
        };
        FileSource { settings, record: PhantomData }
    }

    fn csv_option(mut self, option: &'static str, set: impl FnOnce(&mut CsvSettings)) -> Self {
        match &mut self.settings.format {
            Format::Csv(csv) => set(csv),
            Format::JsonLines => self.settings.misplaced = Some(option),
        }
        self
    }

    /// What stands between two cells: `,` unless said otherwise. For instance `b'\t'`.
    #[must_use]
    pub fn delimiter(self, delimiter: u8) -> Self {
        self.csv_option("delimiter", |csv| csv.delimiter = delimiter)
    }

    /// Whether the first line names the columns: yes unless said otherwise. Without, cells go to fields by position, and their number
    /// must be that of the fields.
    #[must_use]
    pub fn headers(self, headers: bool) -> Self {
        self.csv_option("headers", |csv| csv.headers = headers)
    }

    /// Whether `"` encloses cells: yes unless said otherwise. Without, it is text like any other.
    #[must_use]
    pub fn quotes(self, quotes: bool) -> Self {
        self.csv_option("quotes", |csv| csv.quotes = quotes)
    }

    /// Whether quoted cells may hold line ends. With `true`, each file is one split, as line ends alone no longer tell where a record
    /// begins. With `false`, each line is one record, and a quote not closed within its line makes that line a reject.
    ///
    /// Unless said, they may in files that are one split; in larger files a quote out of place stops the job with an error that asks.
    #[must_use]
    pub fn multiline(self, multiline: bool) -> Self {
        self.csv_option("multiline", |csv| csv.multiline = Some(multiline))
    }

    /// How large plain files are cut, so that several tasks read one: splits of 64 MiB unless said otherwise. Compressed files are one
    /// split each.
    #[must_use]
    pub fn splits(mut self, size: SplitSize) -> Self {
        self.settings.split = size;
        self
    }

    /// One split a file: its records come in their order, through one task.
    #[must_use]
    pub fn one_split(self) -> Self {
        self.splits(SplitSize::WholeFile)
    }

    /// Looks for new files again and again, so that the source never ends. Empty files are left until they have bytes.
    #[must_use]
    pub fn watch(mut self, every: Duration) -> Self {
        self.settings.watch = Some(every);
        self
    }

    /// Bytes of the longest line (or of a record of several lines): 16 MiB unless said otherwise, 1 GiB at most. Longer ones are rejects.
    #[must_use]
    pub fn line_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.line_bytes_max = bytes;
        self
    }

    /// Bytes read at once: 1 MiB unless said otherwise.
    #[must_use]
    pub fn chunk_bytes(mut self, bytes: usize) -> Self {
        self.settings.chunk_bytes = bytes;
        self
    }
}

impl Settings {
    /// Whether the settings can work for records of a shape.
    fn check(&self, shape: Shape) -> Result<()> {
        if self.path.to_str().is_none_or(str::is_empty) {
            return Err(setting(
                format!("expected a path in UTF-8, found {:?}", self.path),
                "give the path of a file, directory or pattern",
            ));
        }
        if let Some(option) = self.misplaced {
            return Err(setting(format!("`{option}` is an option of CSV, the source reads JSON Lines"), "leave the option out"));
        }
        if self.split == SplitSize::Bytes(0) {
            return Err(setting("expected splits of at least one byte, found 0", "leave `splits` out, or use `one_split()`"));
        }
        if self.line_bytes_max == 0 || self.line_bytes_max > LINE_BYTES_MAX_MAX {
            let what = format!("expected line_bytes_max from 1 to {LINE_BYTES_MAX_MAX}, found {}", self.line_bytes_max);
            return Err(setting(what, "give a limit in this range"));
        }
        if self.chunk_bytes == 0 {
            return Err(setting("expected chunk_bytes of at least 1, found 0", "leave `chunk_bytes` out"));
        }
        if self.watch == Some(Duration::ZERO) {
            return Err(setting("expected a time between two looks at the files, found zero", "give `watch` a second or more"));
        }
        match &self.format {
            Format::Csv(csv) => csv.check(shape),
            Format::JsonLines => Ok(()),
        }
    }
}

impl CsvSettings {
    fn check(&self, shape: Shape) -> Result<()> {
        if !can_delimit(self.delimiter) {
            let what = format!("expected {DELIMITERS}, found {:?}", char::from(self.delimiter));
            return Err(setting(what, "use a comma, a semicolon, a tab or the like"));
        }
        if self.multiline == Some(true) && !self.quotes {
            return Err(setting("`multiline(true)` needs quotes, and `quotes(false)` was said", "leave one of the two out"));
        }
        if !self.headers && shape == Shape::Map {
            let what = "without headers a record is filled by position, and the record type is a map or has a flattened part";
            return Err(setting(what, "use a plain struct or a tuple as record type, or a file with a header"));
        }
        Ok(())
    }
}

impl<T: DeserializeOwned + Send + 'static> Source for FileSource<T> {
    type Record = T;
    type Split = FileSplit;
    type Reader = FileReader<T>;
    type Enumerator = FileEnumerator;

    fn describe(&self) -> String {
        let format = match self.settings.format {
            Format::Csv(_) => "CSV",
            Format::JsonLines => "JSON Lines",
        };
        format!("{format} files {}", self.settings.path.display())
    }

    fn reads(&self, address: &str) -> bool {
        find::would_find(&self.settings.path, Path::new(address))
    }

    fn assignment(&self) -> Assignment {
        Assignment::OnRequest
    }

    fn enumerator(&self, context: &SourceContext, restored: Option<&[u8]>) -> Result<FileEnumerator> {
        self.settings.check(Shape::of::<T>())?;
        FileEnumerator::new(self.settings.clone(), context, restored)
    }

    fn reader(&self, context: ReaderContext) -> Result<FileReader<T>> {
        self.settings.check(Shape::of::<T>())?;
        Ok(FileReader::new(self.settings.clone(), context))
    }
}
