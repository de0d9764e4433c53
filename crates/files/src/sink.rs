//! Files as a sink.
//!
//! Owns: the description of a sink, its settings and their checks. Does not own: formats (`csv`).
//! Follows the data: names of files, one file being written, the writer of a task, what a checkpoint keeps of it, the committer.
//!
//! A file has one of three phases, told by its name. *Open* (hidden): no checkpoint knows it. *Prepared* (hidden): synced, and named
//! by a checkpoint, either to become visible or to be continued. *Visible*: its epoch is committed. A name changes by one atomic rename.

mod names;
mod stored;
mod file;
mod writer;
mod committer;
mod probe;

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use staunch_api::{Kept, Sink, SinkContext, WriterContext};
use staunch_types::Result;

use crate::Compression;
use crate::codes::setting;
use crate::csv::{DELIMITERS, can_delimit};

use names::Names;
pub(crate) use names::visible_owner;
pub(crate) use stored::{OutputFormat, StoredFile};

pub use committer::FileCommitter;
pub use writer::FileWriter;

/// The kind under which file sinks are known.
pub const FILE_SINK_KIND: &str = "files";

/// A sink that writes records into the files of a directory. A file appears there, whole, when the epoch that closes it is committed; until
/// then its name starts with a dot.
///
/// Files are called `<prefix>-<tag>-<epoch>-<generation>-<task>-<number><suffix>`: `tag` is made from the names of job and sink, so that
/// several may share a directory. No name is used twice.
///
/// Leave the directory to the job: files may be read and copied at any time, but one taken away before the job has noted its commit is
/// a lost file to it.
///
/// ```
/// use staunch_files::{Compression, FileSink};
///
/// #[derive(serde::Serialize)]
/// struct Total { account: u64, cents: i64 }
///
/// let sink = FileSink::csv::<Total>("totals").compression(Compression::Zstd);
/// # let _ = sink;
/// ```
pub struct FileSink<T = ()> {
    settings: Settings,
    record: PhantomData<fn(T)>,
}

impl<T> Clone for FileSink<T> {
    fn clone(&self) -> Self {
        FileSink { settings: self.settings.clone(), record: PhantomData }
    }
}

/// The settings of a sink, as given.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    directory: PathBuf,
    format: OutputFormat,
    prefix: String,
    suffix: Option<String>,
    compression: Compression,
    roll_bytes: Option<u64>,
    roll_every: Option<Duration>,
    journal: bool,
    /// A CSV option that was given to a sink of JSON Lines.
    misplaced: Option<&'static str>,
}

impl FileSink {
    /// Records as CSV, with a header in each file. Fields are cells; `None` is an empty cell.
    pub fn csv<T>(directory: impl AsRef<Path>) -> FileSink<T> {
        FileSink::with(directory.as_ref(), OutputFormat::Csv { delimiter: b',', header: true })
    }

    /// Records as JSON Lines. JSON has no NaN and no infinity: these become `null`.
    pub fn json_lines<T>(directory: impl AsRef<Path>) -> FileSink<T> {
        FileSink::with(directory.as_ref(), OutputFormat::JsonLines)
    }
}

impl<T> FileSink<T> {
    fn with(directory: &Path, format: OutputFormat) -> FileSink<T> {
        let settings = Settings {
            directory: directory.to_path_buf(),
            format,
            prefix: "part".into(),
            suffix: None,
            compression: Compression::None,
            roll_bytes: None,
            roll_every: None,
            journal: false,
            misplaced: None,
        };
        FileSink { settings, record: PhantomData }
    }

    /// What the names of visible files start with: `part` unless said otherwise.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// What the names of visible files end with: `.csv` or `.jsonl` unless said otherwise, and then `.gz` or `.zst` if compressed.
    #[must_use]
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.settings.suffix = Some(suffix.into());
        self
    }

    /// How files are compressed: not at all unless said otherwise.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.settings.compression = compression;
        self
    }

    /// Whether each CSV file starts with the names of the columns: yes unless said otherwise.
    #[must_use]
    pub fn header(mut self, wanted: bool) -> Self {
        match &mut self.settings.format {
            OutputFormat::Csv { header, .. } => *header = wanted,
            OutputFormat::JsonLines => self.settings.misplaced = Some("header"),
        }
        self
    }

    /// What stands between two cells: `,` unless said otherwise.
    #[must_use]
    pub fn delimiter(mut self, wanted: u8) -> Self {
        match &mut self.settings.format {
            OutputFormat::Csv { delimiter, .. } => *delimiter = wanted,
            OutputFormat::JsonLines => self.settings.misplaced = Some("delimiter"),
        }
        self
    }

    /// Closes a file when it has so many bytes, counted before compression.
    #[must_use]
    pub fn roll_bytes(mut self, bytes: u64) -> Self {
        self.settings.roll_bytes = Some(bytes);
        self
    }

    /// Writes a file on over several epochs until it is so old: fewer, larger files that become visible later. Unless said,
    /// each epoch closes its files.
    #[must_use]
    pub fn roll_every(mut self, age: Duration) -> Self {
        self.settings.roll_every = Some(age);
        self
    }

    /// Keeps a copy of each prepared file with the checkpoints until its commit is recorded. A file that somebody takes away before is then
    /// written again from the copy, where the job would otherwise stop. Each file is written twice.
    #[must_use]
    pub fn journal(mut self) -> Self {
        self.settings.journal = true;
        self
    }
}

impl Settings {
    fn check(&self) -> Result<()> {
        if self.directory.to_str().is_none_or(str::is_empty) {
            let what = format!("expected the path of a directory in UTF-8, found {:?}", self.directory);
            return Err(setting(what, "name a directory; it is made if it does not exist"));
        }
        if let Some(option) = self.misplaced {
            return Err(setting(format!("`{option}` is an option of CSV, the sink writes JSON Lines"), "leave the option out"));
        }
        if let OutputFormat::Csv { delimiter, .. } = self.format
            && !can_delimit(delimiter)
        {
            let what = format!("expected {DELIMITERS}, found {:?}", char::from(delimiter));
            return Err(setting(what, "use a comma, a semicolon, a tab or the like"));
        }
        for (name, part) in [("prefix", self.prefix.as_str()), ("suffix", self.suffix.as_deref().unwrap_or_default())] {
            if part.len() > NAME_PART_BYTES_MAX || part.contains('/') || part.contains(char::is_control) {
                let what = format!("expected a {name} of at most {NAME_PART_BYTES_MAX} bytes without slashes, found {part:?}");
                return Err(setting(what, "name a directory by the path of the sink, and only files by prefix and suffix"));
            }
        }
        if self.prefix.is_empty() || self.prefix.starts_with('.') {
            return Err(setting(
                format!("expected a prefix that does not hide the files, found {:?}", self.prefix),
                "start it with a letter",
            ));
        }
        if self.roll_bytes == Some(0) {
            return Err(setting("expected roll_bytes of at least 1, found 0", "leave `roll_bytes` out"));
        }
        Ok(())
    }

    /// What the names of new files end with.
    fn name_end(&self) -> String {
        let suffix = self.suffix.as_deref().unwrap_or(match self.format {
            OutputFormat::Csv { .. } => ".csv",
            OutputFormat::JsonLines => ".jsonl",
        });
        format!("{suffix}{}", self.compression.extension())
    }
}

/// Bytes of the longest prefix or suffix.
const NAME_PART_BYTES_MAX: usize = 100;

impl<T: Serialize + Send + 'static> Sink for FileSink<T> {
    type Record = T;
    type Writer = FileWriter<T>;
    type Committer = FileCommitter;

    fn kind(&self) -> &'static str {
        FILE_SINK_KIND
    }

    fn writes(&self) -> Vec<String> {
        let name = format!("{}-00000000-00000001-1-0-0{}", self.settings.prefix, self.settings.name_end());
        vec![self.settings.directory.join(name).display().to_string()]
    }

    fn keeps(&self) -> Kept {
        if self.settings.journal { Kept::Copy } else { Kept::Nothing }
    }

    fn describe(&self) -> String {
        let format = match self.settings.format {
            OutputFormat::Csv { .. } => "CSV",
            OutputFormat::JsonLines => "JSON Lines",
        };
        format!("{format} files in {}", self.settings.directory.display())
    }

    fn check(&self, context: &SinkContext) -> Result<()> {
        self.settings.check()?;
        probe::probe(&*context.file_system, &Names::new(&self.settings.directory, &context.job, &context.sink)?)
    }

    fn writer(&self, context: WriterContext, restored: Vec<Vec<u8>>) -> Result<FileWriter<T>> {
        self.settings.check()?;
        FileWriter::new(self.settings.clone(), context, &restored)
    }

    fn committer(&self, context: SinkContext) -> Result<FileCommitter> {
        self.settings.check()?;
        let names = Names::new(&self.settings.directory, &context.job, &context.sink)?;
        Ok(FileCommitter::new(names, context))
    }
}
