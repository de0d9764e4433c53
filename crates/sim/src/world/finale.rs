//! How a job is brought to its end, however often it has to be started.

use std::time::Duration;

use staunch_protocol::Reason;

use super::World;
use crate::check::Violation;
use crate::job::Start;
use crate::kernel::ProcessId;

/// A job without faults must finish within this time.
pub const PATIENCE: Duration = Duration::from_secs(180);

impl World {
    /// Starts the program; it must come to the end of its input, with everything committed. Then once more.
    ///
    /// # Errors
    /// What is not well.
    pub fn finish(&mut self, start: &Start) -> Result<(), Violation> {
        let id = self.start(start);
        self.finish_in(id)?;
        self.checks.finished(&self.job)?;
        self.once_more(start)
    }

    /// A process must come to the end of the input.
    ///
    /// # Errors
    /// What is not well.
    pub fn finish_in(&mut self, id: ProcessId) -> Result<(), Violation> {
        match self.run_out(id, PATIENCE)? {
            Some(Ok(Reason::Final)) => Ok(()),
            other => Err(Violation::new("progress", format!("{id} should have finished, and came to {other:?}"))),
        }
    }

    /// One more start of the finished job: it adds nothing, and leaves nothing hidden.
    ///
    /// # Errors
    /// What is not well.
    pub fn once_more(&mut self, start: &Start) -> Result<(), Violation> {
        let carried = self.checks.carried(&self.machine().disk, &self.job);
        let before = (self.checks.visible.files() + self.checks.topics.commits(), self.checks.visible.lines());
        let id = self.start(start);
        self.finish_in(id)?;
        self.checks.finished(&self.job)?;
        let after = (self.checks.visible.files() + self.checks.topics.commits(), self.checks.visible.lines());
        if before != after {
            let what = format!(
                "one more start of the finished job changed the output: files or transactions, and lines {before:?}, then {after:?}"
            );
            return Err(Violation::new("E8", what));
        }
        self.markers_arrive();
        let machine = self.machine();
        self.checks.clean(&machine.disk, &machine.broker, &self.job, &carried)
    }
}
