//! Counts of epochs that are not durable yet.

use staunch_types::Epoch;

use super::OperatorCounts;

/// Records of each epoch since the last durable one: a snapshot that succeeds speaks for those that were given up before it.
#[derive(Clone, Debug, Default)]
pub struct Unsealed(Vec<(Epoch, OperatorCounts)>);

impl Unsealed {
    /// The barrier of an epoch: the counts so far belong to it.
    pub fn cut(&mut self, epoch: Epoch, counts: &mut OperatorCounts) {
        self.0.push((epoch, std::mem::take(counts)));
    }

    /// Adds everything that is not durable yet.
    pub fn add_to(&self, total: &mut OperatorCounts) {
        self.0.iter().for_each(|(_, counts)| total.add(*counts));
    }

    /// The epoch is durable.
    pub fn durable(&mut self, epoch: Epoch) {
        self.0.retain(|(e, _)| *e > epoch);
    }
}
