//! A counter for watching a machine, which is no part of its state.

use std::hash::{Hash, Hasher};

/// How often something was seen, such as a stale event.
///
/// Two machines that differ only in counts behave the same, so all counts are equal to each other and hash alike: a model checker
/// must not take them for different states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count(u64);

impl Count {
    /// The number so far.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn add_one(&mut self) {
        self.0 = self.0.saturating_add(1);
    }
}

impl PartialEq for Count {
    fn eq(&self, _: &Count) -> bool {
        true
    }
}

impl Eq for Count {}

impl Hash for Count {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
