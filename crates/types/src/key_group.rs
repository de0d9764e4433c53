//! Key groups: the unit in which keyed state moves between tasks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Key groups of a job that does not say otherwise.
pub const KEY_GROUPS_DEFAULT: u32 = 256;
/// Most key groups a job can have, and so its greatest parallelism.
pub const KEY_GROUPS_MAX: u32 = 32_768;

/// Number of a key group, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroup(pub u16);

/// How many key groups a job has; fixed for the job's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroupCount(u32);

impl Default for KeyGroupCount {
    fn default() -> Self {
        KeyGroupCount(KEY_GROUPS_DEFAULT)
    }
}

impl KeyGroupCount {
    /// A count from 1 to [`KEY_GROUPS_MAX`]; `None` outside.
    #[must_use]
    pub fn new(count: u32) -> Option<KeyGroupCount> {
        (1..=KEY_GROUPS_MAX).contains(&count).then_some(KeyGroupCount(count))
    }

    /// The count.
    #[inline]
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }

    /// The group of a key by its stable hash: bits 24 to 47, scaled, so that a hash table of one task still sees all
    /// values in the low and the high bits.
    #[inline]
    #[must_use]
    pub fn group_of(self, hash: u64) -> KeyGroup {
        KeyGroup(((((hash >> 24) & 0xFF_FFFF) * u64::from(self.0)) >> 24) as u16)
    }

    /// The task, of `parallelism` tasks, that owns a group. The inverse of [`Self::range_of`].
    #[inline]
    #[must_use]
    pub fn owner_of(self, group: KeyGroup, parallelism: u32) -> u32 {
        ((u64::from(group.0) * u64::from(parallelism)) / u64::from(self.0)) as u32
    }

    /// The contiguous range of groups that task `index` of `parallelism` owns; empty when there are more tasks than groups.
    ///
    /// # Panics
    /// When `index` is not below `parallelism`.
    #[must_use]
    pub fn range_of(self, index: u32, parallelism: u32) -> KeyGroupRange {
        assert!(index < parallelism, "task index={index} is not below parallelism={parallelism}");
        let first = |i: u32| (u64::from(i) * u64::from(self.0)).div_ceil(u64::from(parallelism)) as u32;
        KeyGroupRange { start: first(index), end: first(index + 1) }
    }
}

/// The groups from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroupRange {
    /// First group.
    pub start: u32,
    /// One past the last group.
    pub end: u32,
}

impl KeyGroupRange {
    /// Whether the range holds a group.
    #[inline]
    #[must_use]
    pub fn contains(self, group: KeyGroup) -> bool {
        (self.start..self.end).contains(&u32::from(group.0))
    }

    /// Whether two ranges share a group.
    #[must_use]
    pub fn overlaps(self, other: KeyGroupRange) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// How many groups.
    #[must_use]
    pub fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there is no group.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for KeyGroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_partition_the_groups_and_agree_with_the_owner() {
        for count in [1, 2, 3, 7, 128, 256, 1000, KEY_GROUPS_MAX] {
            let groups = KeyGroupCount::new(count).expect("valid");
            for parallelism in [1, 2, 3, 5, 7, 64, 255, 256, 300] {
                let mut next = 0;
                for index in 0..parallelism {
                    let range = groups.range_of(index, parallelism);
                    assert_eq!(range.start, next);
                    next = range.end;
                    for group in range.start..range.end {
                        assert_eq!(
                            groups.owner_of(KeyGroup(group as u16), parallelism),
                            index,
                            "group {group} of {count} at {parallelism}"
                        );
                    }
                }
                assert_eq!(next, count);
            }
        }
    }

    #[test]
    fn every_group_gets_keys() {
        let groups = KeyGroupCount::default();
        let mut counts = vec![0u32; groups.get() as usize];
        for key in 0..256_000u64 {
            counts[groups.group_of(crate::stable_hash(&key)).0 as usize] += 1;
        }
        assert!(counts.iter().all(|c| (700..1300).contains(c)), "{counts:?}");
    }
}
