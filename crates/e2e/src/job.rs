//! A job on flights as a process: its folders, its command line, the check of what it leaves behind.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::flights::Case;
use crate::lines::{self, Multiset};
use crate::process::{Finished, Running};

/// How long a job may take for what takes seconds; a busy machine is no failure, a hang is.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Where programs and data are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The job program.
    pub flights: PathBuf,
    /// The command `staunch`.
    pub staunch: PathBuf,
    /// The folder `testdata/flights`.
    pub data: PathBuf,
}

impl Programs {
    /// The programs beside this one, for binaries.
    ///
    /// # Errors
    /// When they are not there.
    pub fn beside() -> Result<Programs> {
        let own = std::env::current_exe()?;
        let folder = own.parent().context("a program lies in a folder")?;
        let programs = Programs { flights: folder.join("flights"), staunch: folder.join("staunch-under-test"), data: data() };
        for program in [&programs.flights, &programs.staunch] {
            ensure!(program.exists(), "{} does not exist; build all of staunch-e2e", program.display());
        }
        Ok(programs)
    }
}

/// The folder `testdata/flights`.
#[must_use]
pub fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/flights")
}

/// A job and its folders.
#[derive(Clone, Debug)]
pub struct Job {
    programs: Programs,
    /// Which job.
    pub case: Case,
    /// What it reads.
    pub input: PathBuf,
    /// Folder with `checkpoints` and `output`.
    pub root: PathBuf,
    /// What each output must be in the end.
    pub expected: BTreeMap<String, Multiset>,
}

/// How it is started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Tasks of each chain.
    pub parallelism: u32,
    /// Time from one checkpoint to the next.
    pub interval: Duration,
    /// Bytes of a split.
    pub split_bytes: u64,
    /// Bytes read at once.
    pub chunk_bytes: usize,
    /// What goes wrong.
    pub script: String,
    /// Bytes of input a second; 0 for as fast as it goes.
    pub throttle: u64,
    /// Further options.
    pub more: Vec<String>,
}

impl Start {
    /// So many tasks, nothing goes wrong.
    #[must_use]
    pub fn with(parallelism: u32) -> Start {
        Start {
            parallelism,
            interval: Duration::from_millis(100),
            split_bytes: 1 << 20,
            chunk_bytes: 1 << 20,
            script: String::new(),
            throttle: 0,
            more: Vec::new(),
        }
    }

    /// With a script.
    #[must_use]
    pub fn script(mut self, script: &str) -> Start {
        self.script = script.into();
        self
    }

    /// With a throttle, in small reads.
    #[must_use]
    pub fn slow(mut self, bytes_per_second: u64) -> Start {
        self.throttle = bytes_per_second;
        self.chunk_bytes = 4 << 10;
        self
    }

    /// With another interval.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Start {
        self.interval = interval;
        self
    }

    /// With further options.
    #[must_use]
    pub fn more(mut self, words: &[&str]) -> Start {
        self.more.extend(words.iter().map(|w| (*w).to_owned()));
        self
    }
}

impl Job {
    /// A job over all flights with empty folders below `root`; what is expected is what another engine made.
    ///
    /// # Errors
    /// When the expectation cannot be read.
    pub fn over_all_flights(programs: &Programs, case: Case, input: &Path, root: &Path) -> Result<Job> {
        let mut expected = BTreeMap::new();
        for (name, file) in case.outputs() {
            lines::read_file(&programs.data.join(file), expected.entry((*name).to_owned()).or_default())?;
        }
        Ok(Job::new(programs, case, input, root, expected))
    }

    /// A job with empty folders below `root`.
    #[must_use]
    pub fn new(programs: &Programs, case: Case, input: &Path, root: &Path, expected: BTreeMap<String, Multiset>) -> Job {
        Job { programs: programs.clone(), case, input: input.to_owned(), root: root.to_owned(), expected }
    }

    /// The checkpoint directory.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The job's folder in it.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.checkpoints().join(format!("flights-{}", self.case.word()))
    }

    /// The directory of an output.
    #[must_use]
    pub fn output(&self, name: &str) -> PathBuf {
        self.root.join("output").join(name)
    }

    /// The words of its command line.
    #[must_use]
    pub fn words(&self, start: &Start) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.programs.flights.clone().into()];
        let mut add = |option: &str, value: OsString| words.extend([option.into(), value]);
        add("--case", self.case.word().into());
        add("--input", self.input.clone().into());
        add("--output", self.root.join("output").into());
        add("--checkpoint-dir", self.checkpoints().into());
        add("--parallelism", start.parallelism.to_string().into());
        add("--checkpoint-interval", format!("{}ms", start.interval.as_millis()).into());
        add("--split-bytes", start.split_bytes.to_string().into());
        add("--chunk-bytes", start.chunk_bytes.to_string().into());
        add("--faults", start.script.clone().into());
        add("--throttle", start.throttle.to_string().into());
        words.extend(start.more.iter().map(Into::into));
        words
    }

    /// Starts it.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(&self, start: &Start) -> Result<Running> {
        let words = self.words(start);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        Running::start(command)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it does not end.
    pub fn run(&self, start: &Start) -> Result<Finished> {
        self.start(start)?.wait(PATIENCE)
    }

    /// What `staunch verify` says.
    ///
    /// # Errors
    /// When it does not end.
    pub fn verify(&self) -> Result<Finished> {
        let mut command = Command::new(&self.programs.staunch);
        command.arg("verify").arg(self.folder());
        Running::start(command)?.wait(PATIENCE)
    }

    /// Runs the command `staunch` on the job's folder.
    ///
    /// # Errors
    /// When it does not end.
    pub fn staunch(&self, words: &[&str]) -> Result<Finished> {
        let mut command = Command::new(&self.programs.staunch);
        command.args(words);
        Running::start(command)?.wait(PATIENCE)
    }

    /// Compares output with expectation, looks for hidden files, verifies the ledger.
    ///
    /// # Errors
    /// With whatever is not as it should be.
    pub fn check(&self) -> Result<()> {
        for (name, wanted) in &self.expected {
            self.check_output(name, wanted)?;
        }
        self.verify()?.expect(0).context("staunch verify")?;
        Ok(())
    }

    /// Compares one output with an expectation, and looks for hidden files.
    ///
    /// # Errors
    /// With whatever is not as it should be.
    pub fn check_output(&self, name: &str, wanted: &Multiset) -> Result<()> {
        let directory = self.output(name);
        let what = format!("case {} output {name}", self.case.word());
        lines::compare(&lines::read_directory(&directory)?, wanted, &what)?;
        lines::expect_nothing_hidden(&directory).context(what)
    }

    /// All visible files.
    ///
    /// # Errors
    /// When a directory cannot be listed.
    pub fn visible_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for name in self.expected.keys() {
            let Ok(entries) = fs::read_dir(self.output(name)) else { continue };
            for entry in entries {
                let path = entry?.path();
                if path.file_name().is_some_and(|n| !n.to_string_lossy().starts_with('.')) {
                    files.push(path);
                }
            }
        }
        files.sort();
        Ok(files)
    }
}
