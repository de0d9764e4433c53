//! One process that serves: its start, its log, its end.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::http;
use crate::janitor::Janitor;

/// How long a start may take on a busy machine.
const START_TIME_MAX: Duration = Duration::from_secs(120);
/// From one look whether it listens to the next.
const LOOK: Duration = Duration::from_millis(20);

/// A process in a folder of its own. It ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    // Dropped after the process was killed.
    janitor: Janitor,
}

impl Server {
    /// Starts `program` with what `prepare` makes of its command, in a folder of its own; it has started when it listens at `port`.
    ///
    /// # Errors
    /// When it ends instead, or takes too long, with the end of its log.
    pub(crate) fn start(program: &PathBuf, prepare: impl FnOnce(&mut Command, &PathBuf), port: u16) -> Result<Server> {
        let janitor = Janitor::start()?;
        let folder = janitor.folder().join("server");
        fs::create_dir(&folder)?;
        let mut command = Command::new("sh");
        // The id is written before the server begins, so that the janitor knows it.
        command.args(["-c", "echo $$ >pid; exec \"$@\"", "server"]).arg(program);
        prepare(&mut command, &folder);
        // A pipe that closes when we end tells servers that hear it.
        command
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(File::create(folder.join("server.log"))?)
            .stderr(File::create(folder.join("errors.log"))?);
        let process = command.spawn().context("start sh")?;
        let mut server = Server { process, janitor };
        let deadline = Instant::now() + START_TIME_MAX;
        loop {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            http::wait(LOOK);
            if server.process.try_wait()?.is_some() || Instant::now() > deadline {
                let said = ["server.log", "errors.log"].map(|name| fs::read_to_string(folder.join(name)).unwrap_or_default());
                bail!("the server did not start; it said:\n{}", said.join("\n"));
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _gone = self.process.wait();
        let _absent = fs::remove_file(self.janitor.folder().join("server/pid"));
    }
}
