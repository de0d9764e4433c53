//! How an operator's keyed state gets into snapshots and back.
//!
//! Owns: the choice between state in memory (`blocks`) and state with a database under it (`database`). Does not own: the states and what of
//! them a snapshot writes (state), the object that blocks go to (checkpoint).

use staunch_types::{Epoch, Name, Result};

use super::blocks::Blocks;
use super::database::Database;
use crate::job::TaskBuild;
use crate::operator::{Activity, TaskContext};
use crate::state::keyed::KeyedStates;

/// Keeps the states of one operator of one task.
pub(crate) struct Keeper(Way);

enum Way {
    Memory(Blocks),
    Paged(Box<Database>),
}

impl Keeper {
    /// Keeps the states of the operator that is being built; what is stored of them is loaded by [`Self::work`].
    ///
    /// # Errors
    /// `Invalid` when the checkpoint cannot be restored in this way.
    pub(crate) fn new(operator: &Name, build: &TaskBuild<'_>) -> Result<Keeper> {
        Ok(Keeper(match build.backend.clone() {
            None => Way::Memory(Blocks::new(operator, build)?),
            Some(backend) => Way::Paged(Box::new(Database::new(operator, backend, build))),
        }))
    }

    /// Whether a record may be taken in: the state is there, and there is memory for more of it.
    #[inline]
    #[must_use]
    pub(crate) fn is_ready(&self) -> bool {
        match &self.0 {
            Way::Memory(blocks) => blocks.is_loaded(),
            Way::Paged(database) => database.is_ready(),
        }
    }

    /// The barrier of an epoch.
    pub(crate) fn barrier<K>(&mut self, epoch: Epoch, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) {
        match &mut self.0 {
            Way::Memory(blocks) => blocks.barrier(epoch, states, context),
            Way::Paged(database) => database.barrier(epoch, states, context),
        }
    }

    /// The epoch is durable.
    pub(crate) fn durable<K>(&mut self, epoch: Epoch, states: &mut dyn KeyedStates<K>) {
        match &mut self.0 {
            Way::Memory(blocks) => blocks.durable(epoch, states),
            Way::Paged(database) => database.durable(epoch),
        }
    }

    /// The epoch was given up.
    pub(crate) fn abandoned<K>(&mut self, epoch: Epoch, states: &mut dyn KeyedStates<K>) {
        match &mut self.0 {
            Way::Memory(blocks) => blocks.abandoned(epoch, states),
            Way::Paged(database) => database.abandoned(epoch),
        }
    }

    /// Loads, writes or tidies on.
    ///
    /// # Errors
    /// `Corrupt` or `Invalid` when stored state does not fit; as the states report.
    pub(crate) fn work<K>(&mut self, states: &mut dyn KeyedStates<K>, context: &mut TaskContext) -> Result<Activity> {
        match &mut self.0 {
            Way::Memory(blocks) => blocks.work(states, context),
            Way::Paged(database) => database.work(states, context),
        }
    }
}
