//! Where an entry is: an index from a hash to the slots that may hold its key.
//!
//! Owns: the cells (32 bits of the hash, 32 bits of slot), eight to a cache line, and their growth.
//! Does not own: keys, values or slots; the caller compares keys.
//!
//! Invariants:
//! 1. A cell is found by walking from its home bucket through full buckets to the first that is not full; removal moves cells
//!    back into the hole, so there are no tombstones.
//! 2. The cells of a bucket are used from the front.
//! 3. One operation touches at most two parts of [`BUCKETS_MAX`] buckets: growth splits one part and never rebuilds the whole.
//! 4. Splitting needs only the cells: the 32 bits kept in a cell decide both its part and its home.
//!
//! Follows: extendible hashing (Fagin and others, 1979) over parts with buckets of one cache line. Chosen over one array with
//! a second, growing one beside it: freeing the old array of a large table would pause for milliseconds, and parts need no
//! migration. Chosen over cells probed one by one: a bucket is compared at once, so that the processor need not guess
//! where a probe ends while the cache line is still on its way.

use super::chunk::SlotId;

/// Cells of a bucket: with 8 bytes each, one cache line.
const CELLS: usize = 8;
/// Buckets of a new index.
const BUCKETS_FIRST: usize = 2;
/// Buckets of a part; a full part of this size splits. 32 KiB, so that a split stays in the order of 20 microseconds.
const BUCKETS_MAX: usize = 512;
/// The bits of a tag from here on choose the bucket, so that they are others than those that choose the part.
const HOME_SHIFT: u32 = 22;
/// Most bits of the hash that choose a part. Only keys with equal hashes can get there; their part then doubles.
const DEPTH_MAX: u32 = 20;

/// An index from hashes to slots.
pub(super) struct Index {
    /// Which part holds a hash, by the low `depth` bits of its tag.
    directory: Vec<u32>,
    parts: Vec<Part>,
}

struct Part {
    buckets: Box<[Bucket]>,
    used: usize,
    depth: u32,
}

/// Eight cells; a cell without a slot is empty.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u32; CELLS],
    slots: [Option<SlotId>; CELLS],
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Cell {
    tag: u32,
    slot: SlotId,
}

/// The 32 bits of a hash that an index keeps: 48 to 63 and 0 to 15, none of those that choose the key group, which are nearly
/// equal within a task.
#[inline]
fn tag_of(hash: u64) -> u32 {
    hash.rotate_left(16) as u32
}

impl Index {
    /// An empty index.
    pub(super) fn new() -> Index {
        Index { directory: vec![0], parts: vec![Part::new(BUCKETS_FIRST, 0)] }
    }

    #[inline]
    fn part_number(&self, tag: u32) -> usize {
        self.directory[tag as usize & (self.directory.len() - 1)] as usize
    }

    /// The slot for which `is_match` holds, among those whose hash may be equal.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut is_match: impl FnMut(SlotId) -> bool) -> Option<SlotId> {
        let tag = tag_of(hash);
        let part = &self.parts[self.part_number(tag)];
        let mut at = part.home_of(tag);
        loop {
            let bucket = &part.buckets[at];
            let mut equal = bucket.equal_tags(tag);
            while equal != 0 {
                if let Some(slot) = bucket.slots[equal.trailing_zeros() as usize & (CELLS - 1)]
                    && is_match(slot)
                {
                    return Some(slot);
                }
                equal &= equal - 1;
            }
            if !bucket.is_full() {
                return None;
            }
            at = part.after(at);
        }
    }

    /// The first slot whose hash may be equal, without looking at its key.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> Option<SlotId> {
        self.find(hash, |_| true)
    }

    /// The address of the first bucket to be read for a hash.
    #[inline]
    pub(super) fn address(&self, hash: u64) -> *const u8 {
        let tag = tag_of(hash);
        let part = &self.parts[self.part_number(tag)];
        (&raw const part.buckets[part.home_of(tag)]).cast()
    }

    /// Adds a slot that is not in the index.
    pub(super) fn insert(&mut self, hash: u64, slot: SlotId) {
        let tag = tag_of(hash);
        loop {
            let number = self.part_number(tag);
            let part = &mut self.parts[number];
            if part.has_room() {
                part.insert(Cell { tag, slot });
                return;
            }
            if part.buckets.len() < BUCKETS_MAX || part.depth == DEPTH_MAX {
                part.double();
            } else {
                self.split(number);
            }
        }
    }

    /// Removes a slot that is in the index.
    pub(super) fn remove(&mut self, hash: u64, slot: SlotId) {
        let tag = tag_of(hash);
        let number = self.part_number(tag);
        self.parts[number].remove(Cell { tag, slot });
    }

    /// Divides a full part by the next bit of the tag.
    fn split(&mut self, number: usize) {
        let depth = self.parts[number].depth;
        if 1 << depth == self.directory.len() {
            self.directory.extend_from_within(..);
        }
        let old = std::mem::replace(&mut self.parts[number], Part::new(BUCKETS_MAX, depth + 1));
        let mut upper = Part::new(BUCKETS_MAX, depth + 1);
        for cell in old.cells() {
            let is_upper = cell.tag >> depth & 1 == 1;
            let part = if is_upper { &mut upper } else { &mut self.parts[number] };
            part.insert(cell);
        }
        let upper_number = u32::try_from(self.parts.len()).expect("parts are fewer than slots, which are 32 bits");
        self.parts.push(upper);
        for (low_bits, part) in self.directory.iter_mut().enumerate() {
            if *part as usize == number && low_bits >> depth & 1 == 1 {
                *part = upper_number;
            }
        }
    }

    /// Frees one part of an index that is no longer used; whether any is left.
    pub(super) fn dismantle_part(&mut self) -> bool {
        self.parts.pop();
        !self.parts.is_empty()
    }
}

impl Part {
    fn new(buckets: usize, depth: u32) -> Part {
        Part { buckets: vec![Bucket::EMPTY; buckets].into_boxed_slice(), used: 0, depth }
    }

    fn has_room(&self) -> bool {
        self.used < self.buckets.len() * CELLS / 4 * 3
    }

    #[inline]
    fn home_of(&self, tag: u32) -> usize {
        (tag >> HOME_SHIFT) as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }

    fn cells(&self) -> impl Iterator<Item = Cell> {
        self.buckets.iter().flat_map(|bucket| (0..CELLS).map_while(|at| bucket.cell(at)))
    }

    #[inline]
    fn insert(&mut self, cell: Cell) {
        let mut at = self.home_of(cell.tag);
        while self.buckets[at].is_full() {
            at = self.after(at);
        }
        self.buckets[at].push(cell);
        self.used += 1;
    }

    fn double(&mut self) {
        let mut larger = Part::new(self.buckets.len() * 2, self.depth);
        self.cells().for_each(|cell| larger.insert(cell));
        *self = larger;
    }

    fn remove(&mut self, cell: Cell) {
        let mut at = self.home_of(cell.tag);
        let position = loop {
            match (0..CELLS).find(|&position| self.buckets[at].cell(position) == Some(cell)) {
                Some(position) => break position,
                None => assert!(self.buckets[at].is_full(), "invariant 1: the slot to remove is in the index"),
            }
            at = self.after(at);
        };
        self.used -= 1;
        let (mut hole, mut was_full) = (at, self.buckets[at].is_full());
        self.buckets[at].swap_remove(position);
        let mut next = at;
        // A cell that passed the bucket because it was full moves into the hole, which leaves a hole where it was.
        while was_full {
            next = self.after(next);
            was_full = self.buckets[next].is_full();
            if let Some(position) = self.passing(next, hole) {
                let moved = self.buckets[next].swap_remove(position);
                self.buckets[hole].push(moved);
                hole = next;
            }
        }
    }

    /// A cell in bucket `at` whose walk from its home goes through bucket `through`.
    fn passing(&self, at: usize, through: usize) -> Option<usize> {
        let mask = self.buckets.len() - 1;
        let distance = at.wrapping_sub(through) & mask;
        (0..CELLS).find(|&position| {
            self.buckets[at].cell(position).is_some_and(|cell| at.wrapping_sub(self.home_of(cell.tag)) & mask >= distance)
        })
    }
}

impl Bucket {
    const EMPTY: Bucket = Bucket { tags: [0; CELLS], slots: [None; CELLS] };

    /// One bit for each cell whose tag is equal; also for empty cells when the tag is 0.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn equal_tags(&self, tag: u32) -> u32 {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi32, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32,
        };
        let tags = self.tags.as_ptr().cast::<__m128i>();
        // SAFETY: every x86-64 processor has SSE2; the eight tags are two aligned runs of 16 bytes, as the bucket is aligned.
        unsafe {
            let wanted = _mm_set1_epi32(tag.cast_signed());
            let low = _mm_cmpeq_epi32(_mm_load_si128(tags), wanted);
            let high = _mm_cmpeq_epi32(_mm_load_si128(tags.add(1)), wanted);
            let words = _mm_packs_epi32(low, high);
            _mm_movemask_epi8(_mm_packs_epi16(words, words)).cast_unsigned() & 0xFF
        }
    }

    /// One bit for each cell whose tag is equal; also for empty cells when the tag is 0.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn equal_tags(&self, tag: u32) -> u32 {
        let mut bits = 0;
        for (position, &found) in self.tags.iter().enumerate() {
            bits |= u32::from(found == tag) << position;
        }
        bits
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.slots[CELLS - 1].is_some()
    }

    #[inline]
    fn cell(&self, position: usize) -> Option<Cell> {
        self.slots[position].map(|slot| Cell { tag: self.tags[position], slot })
    }

    #[inline]
    fn push(&mut self, cell: Cell) {
        let position = self.slots.iter().position(Option::is_none).expect("the bucket is not full");
        self.tags[position] = cell.tag;
        self.slots[position] = Some(cell.slot);
    }

    /// Removes a cell and puts the last one in its place.
    fn swap_remove(&mut self, position: usize) -> Cell {
        let removed = self.cell(position).expect("the cell is used");
        let used = self.slots.iter().position(Option::is_none).unwrap_or(CELLS);
        self.tags.swap(position, used - 1);
        self.slots.swap(position, used - 1);
        self.tags[used - 1] = 0;
        self.slots[used - 1] = None;
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn slot(number: u32) -> SlotId {
        SlotId::from_raw(number + 1).expect("not zero")
    }

    #[test]
    fn every_slot_is_found_after_growth_and_removal() {
        let mut index = Index::new();
        let hash_of = |n: u32| staunch_types::stable_hash(&n);
        for n in 0..100_000 {
            index.insert(hash_of(n), slot(n));
        }
        for n in (0..100_000).filter(|n| n % 3 != 0) {
            index.remove(hash_of(n), slot(n));
        }
        for n in 0..100_000 {
            let found = index.find(hash_of(n), |found| found == slot(n));
            assert_eq!(found.is_some(), n % 3 == 0, "{n}");
        }
    }

    #[test]
    fn equal_and_crowded_hashes_keep_their_slots_apart() {
        let mut index = Index::new();
        let mut model = BTreeMap::new();
        for n in 0..40_000u32 {
            let hash = u64::from(n % 7) | u64::from(n % 5) << 60;
            index.insert(hash, slot(n));
            model.insert(n, hash);
            if n % 2 == 1 {
                let hash = model.remove(&(n / 2)).expect("inserted earlier");
                index.remove(hash, slot(n / 2));
            }
            if n == 7_000 {
                break;
            }
        }
        for (&n, &hash) in &model {
            assert_eq!(index.find(hash, |found| found == slot(n)), Some(slot(n)));
        }
        assert_eq!(index.parts.iter().map(|part| part.used).sum::<usize>(), model.len());
    }

    #[test]
    fn more_equal_hashes_than_a_part_holds_do_not_split_for_ever() {
        let mut index = Index::new();
        for n in 0..7_000 {
            index.insert(42, slot(n));
        }
        assert_eq!(index.directory.len(), 1 << DEPTH_MAX);
        assert_eq!(index.find(42, |found| found == slot(6_999)), Some(slot(6_999)));
    }
}
