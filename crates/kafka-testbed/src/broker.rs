//! One broker process: its storage, its start, what it says, its end. It does not know of other brokers.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::installed::Installed;
use crate::settings::{Load, Options};

/// How long a start may take on a busy machine.
const START_TIME_MAX: Duration = Duration::from_secs(120);
const HEAP_MIB_MAX: u32 = 256;
/// The same for a broker that is measured.
const HEAVY_HEAP_MIB_MAX: u32 = 1024;
/// What a broker says when it takes requests and the controller knows it.
const STARTED: &str = "Kafka Server started";
/// Lines of the log in an error.
const LOG_LINES: usize = 12;

/// A broker, running or not; its storage outlives its process.
#[derive(Debug)]
pub(crate) struct Broker {
    folder: PathBuf,
    load: Load,
    process: Option<Child>,
}

impl Broker {
    /// Storage for a node, in a folder of its own that also has the settings.
    pub(crate) fn prepare(installed: &Installed, folder: &Path, options: &Options, node: u32, properties: &str) -> Result<Broker> {
        let (formatted, data) = (installed.formatted(options.brokers), folder.join("data"));
        copy(&formatted, &data)?;
        let meta = data.join("meta.properties");
        let lines = fs::read_to_string(&meta).context("the formatted storage has no meta.properties")?;
        let own = |line: &str| match line.split_once('=') {
            Some(("node.id", _)) => format!("node.id={node}\n"),
            // 16 bytes in the letters of URLs, as Kafka writes them.
            Some(("directory.id", _)) => format!("directory.id=staunchtestbednode00{node}A\n"),
            _ => format!("{line}\n"),
        };
        fs::write(&meta, lines.lines().map(own).collect::<String>())?;
        fs::write(folder.join("server.properties"), properties)?;
        Ok(Broker { folder: folder.into(), load: options.load, process: None })
    }

    /// Starts the process. What it returns is for [`Broker::wait`], which tells when it answers.
    pub(crate) fn start(&mut self, installed: &Installed) -> Result<Receiver<()>> {
        let mut command = Command::new("sh");
        // The id is written before the broker begins, so that the janitor knows every broker.
        command.args(["-c", "set -e; echo $$ >pid; exec java \"$@\"", "broker"]);
        match self.load {
            Load::Light => command.args(installed.java_arguments(HEAP_MIB_MAX)),
            // The last of two equal options counts.
            Load::Heavy => command.args(installed.java_arguments(HEAVY_HEAP_MIB_MAX)).arg("-XX:TieredStopAtLevel=4"),
        };
        command.args(["kafka.Kafka", "server.properties"]);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(self.folder.join("errors.log"))?);
        let mut process = command.spawn().context("start sh")?;
        let said = process.stdout.take().expect("standard output is a pipe");
        let log = File::options().create(true).append(true).open(self.folder.join("broker.log"))?;
        let (tell, started) = sync_channel(1);
        thread::spawn(move || attend(said, log, &tell));
        self.process = Some(process);
        Ok(started)
    }

    /// Waits until it has started.
    ///
    /// # Errors
    /// When it ends instead, or takes too long, with the end of its log.
    pub(crate) fn wait(&mut self, started: &Receiver<()>) -> Result<()> {
        if started.recv_timeout(START_TIME_MAX).is_ok() {
            return Ok(());
        }
        let last = |name: &str| {
            let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
        };
        let said = format!("{}\n{}", last("broker.log"), last("errors.log"));
        self.kill();
        bail!("the broker did not start; it said:\n{said}")
    }

    /// Kills it with SIGKILL; what it had not written is lost.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ended_already = process.kill();
            let _gone = process.wait();
            let _absent = fs::remove_file(self.folder.join("pid"));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes what the broker says to its log, and tells when it has started.
fn attend(said: ChildStdout, mut log: File, tell: &SyncSender<()>) {
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        let _disk_full = writeln!(log, "{line}");
        if line.contains(STARTED) {
            let _nobody_waits = tell.send(());
        }
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
