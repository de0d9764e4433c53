//! Processes: started, heard, halted, killed; never left running.
//!
//! Owns: one child process, what it says. Does not own: what is to be made of it.
//!
//! A child's lines come over a channel, so a test waits for what it wants to see, with a limit, and never for a time to pass.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Lines that may wait to be heard; a child that says more waits.
const LINES_MAX: usize = 100_000;

enum Said {
    Line(String),
    /// It has ended, and all it said on standard error.
    Ended(ExitStatus, String),
}

/// A child that runs.
pub struct Running {
    pid: Pid,
    said: Receiver<Said>,
    lines: Vec<String>,
    ended: Option<Finished>,
}

/// A child that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How.
    pub status: ExitStatus,
    /// Lines of its standard output.
    pub lines: Vec<String>,
    /// All of its standard error.
    pub errors: String,
}

impl Finished {
    /// The exit code; `None` when a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Whether it was killed.
    #[must_use]
    pub fn was_killed(&self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        self.status.signal() == Some(Signal::KILL.as_raw())
    }

    /// # Errors
    /// When it was not killed, with what the process said; `what` should have done it.
    pub fn expect_killed(self, what: &str) -> Result<Finished> {
        if self.was_killed() {
            return Ok(self);
        }
        bail!("{what} did not kill the process: {}; it said:\n{}\n{}", self.status, self.lines.join("\n"), self.errors)
    }

    /// # Errors
    /// When the exit code is another, with what the process said.
    pub fn expect(self, code: i32) -> Result<Finished> {
        if self.code() == Some(code) {
            return Ok(self);
        }
        bail!("expected exit code {code}, found {}; it said:\n{}\n{}", self.status, self.lines.join("\n"), self.errors)
    }
}

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Result<Running> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().with_context(|| format!("start {:?}", command.get_program()))?;
        let pid = Pid::from_child(&child);
        let (tell, said) = sync_channel(LINES_MAX);
        thread::spawn(move || attend(child, &tell));
        Ok(Running { pid, said, lines: Vec::new(), ended: None })
    }

    /// Waits until it says a line that `is` accepts; `None` when it ended before.
    ///
    /// # Errors
    /// When it neither says so nor ends within the limit; then it is killed.
    pub fn until(&mut self, limit: Duration, what: &str, is: impl Fn(&str) -> bool) -> Result<Option<String>> {
        let deadline = Instant::now() + limit;
        loop {
            match self.said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Said::Line(line)) => {
                    self.lines.push(line.clone());
                    if is(&line) {
                        return Ok(Some(line));
                    }
                }
                Ok(Said::Ended(status, errors)) => {
                    self.ended = Some(Finished { status, lines: std::mem::take(&mut self.lines), errors });
                    return Ok(None);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    let said = self.kill().map(|f| format!("{}\n{}", f.lines.join("\n"), f.errors)).unwrap_or_default();
                    bail!("no {what} within {limit:?}; the process said:\n{said}");
                }
            }
        }
    }

    /// Takes in what it says within a while; it may have nothing to say.
    pub fn listen(&mut self, limit: Duration) {
        match self.said.recv_timeout(limit) {
            Ok(Said::Line(line)) => self.lines.push(line),
            Ok(Said::Ended(status, errors)) => {
                self.ended = Some(Finished { status, lines: std::mem::take(&mut self.lines), errors });
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Whether it was heard to end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not come within the limit; then the process is killed.
    pub fn wait(mut self, limit: Duration) -> Result<Finished> {
        if self.ended.is_none() {
            self.until(limit, "end", |_| false)?;
        }
        self.ended.take().context("the process was lost")
    }

    /// Lets it run for a while, and kills it; it may have ended before.
    ///
    /// # Errors
    /// When it was lost.
    pub fn kill_after(mut self, delay: Duration) -> Result<Finished> {
        let deadline = Instant::now() + delay;
        while self.ended.is_none() {
            match self.said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Said::Line(line)) => self.lines.push(line),
                Ok(Said::Ended(status, errors)) => {
                    self.ended = Some(Finished { status, lines: std::mem::take(&mut self.lines), errors });
                }
                Err(_) => return self.kill(),
            }
        }
        self.ended.take().context("the process was lost")
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Errors
    /// When it was lost.
    pub fn kill(&mut self) -> Result<Finished> {
        if let Some(finished) = self.ended.take() {
            return Ok(finished);
        }
        // It may have ended by itself at this moment; then that is found below.
        let _ = kill_process(self.pid, Signal::KILL);
        for said in &self.said {
            match said {
                Said::Line(line) => self.lines.push(line),
                Said::Ended(status, errors) => return Ok(Finished { status, lines: std::mem::take(&mut self.lines), errors }),
            }
        }
        bail!("the process was lost")
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal).context("send a signal")
    }

    /// Whether the process is halted.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn is_halted(&self) -> Result<bool> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero()))?;
        Ok(status.lines().any(|line| line.starts_with("State:") && line.contains('T')))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

/// Hears a child to its end.
fn attend(mut child: Child, tell: &SyncSender<Said>) {
    let mut errors = child.stderr.take();
    let hearing = thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was heard before a failure is told.
        let _ = errors.as_mut().map(|e| e.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
            if tell.send(Said::Line(line)).is_err() {
                break;
            }
        }
    }
    let errors = hearing.join().unwrap_or_default();
    if let Ok(status) = child.wait() {
        let _ = tell.send(Said::Ended(status, errors));
    }
}
