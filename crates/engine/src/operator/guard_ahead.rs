//! The guard against times that lie far ahead, so that one wrong clock does not make all records that follow late.
//!
//! Owns: which records go aside. Does not own: event time and watermarks (`event_time`, right behind it).
//!
//! Invariants:
//! 1. Each split is judged by its own records in their order, and what was seen of it is state: the same records go aside whatever
//!    happened in between, and whichever task reads the split.
//! 2. No record is lost: it goes on or aside.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use staunch_types::{Name, Result, Timestamp};

use super::{Activity, Chain, Control, Link, LinkOutput, Named, OperatorCounts, TaskContext, Transform, Unsealed};
use crate::job::{TaskBuild, decode_inline, encode_inline};

const INLINE: &str = "ahead";
/// After so many records in a row that lie ahead and agree with each other, the time has really come: a quiet night, not a wrong clock.
const AHEAD_IN_A_ROW_MAX: u32 = 100;

/// The step that sends records aside whose time lies too far ahead.
pub struct GuardAhead<F> {
    name: Name,
    time_of: F,
    ahead: Duration,
    aside: Link,
}

impl<F> GuardAhead<F> {
    /// Records more than `ahead` after all others of their split go to `aside`.
    pub fn new(name: Name, time_of: F, ahead: Duration, aside: Link) -> Self {
        GuardAhead { name, time_of, ahead, aside }
    }
}

impl<In: Send + 'static, F: Fn(&In) -> Timestamp + Clone + Send + 'static> Transform<In> for GuardAhead<F> {
    type Out = In;
    type Node<N: Chain<In> + 'static> = GuardAheadNode<In, F, N>;

    fn node<N: Chain<In> + 'static>(&self, next: N, build: &mut TaskBuild<'_>) -> Result<GuardAheadNode<In, F, N>> {
        let mut known: BTreeMap<String, Seen> = BTreeMap::new();
        for bytes in build.restore(&self.name).inline.iter().filter_map(|part| part.get(INLINE)) {
            for (id, seen) in decode_inline::<Splits>(&self.name, INLINE, bytes)?.splits {
                let known = known.entry(id).or_insert(seen);
                if seen.greatest > known.greatest {
                    *known = seen;
                }
            }
        }
        Ok(GuardAheadNode {
            named: Named::new(self.name.as_str()),
            name: self.name.clone(),
            time_of: self.time_of.clone(),
            ahead: self.ahead,
            known,
            splits: Vec::new(),
            current: 0,
            counts: OperatorCounts::default(),
            unsealed: Unsealed::default(),
            aside: build.single::<In>(self.aside)?,
            next,
        })
    }
}

/// What is kept: what was seen of each open split, by id.
#[derive(Default, Serialize, Deserialize)]
struct Splits {
    splits: BTreeMap<String, Seen>,
}

/// What was seen of one split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// The greatest time that was let on; [`Timestamp::MIN`] for none.
    greatest: Timestamp,
    /// The time of the last record that went aside.
    far: Timestamp,
    /// Records since one was let on that went aside and agree with each other.
    in_a_row: u32,
}

impl Seen {
    const NOTHING: Seen = Seen { greatest: Timestamp::MIN, far: Timestamp::MIN, in_a_row: 0 };

    /// Whether a record of this time is let on. The first one is: there is nothing to compare it with.
    #[inline]
    fn lets_on(&mut self, at: Timestamp, ahead: Duration) -> bool {
        if at > self.greatest.plus(ahead) && self.greatest != Timestamp::MIN && !self.is_jump(at, ahead) {
            return false;
        }
        self.in_a_row = 0;
        self.greatest = self.greatest.max(at);
        true
    }

    /// Whether so many records that lie ahead agree that time has really gone on.
    #[cold]
    fn is_jump(&mut self, at: Timestamp, ahead: Duration) -> bool {
        let agrees = at <= self.far.plus(ahead) && self.far <= at.plus(ahead);
        self.far = at;
        self.in_a_row = if agrees { self.in_a_row + 1 } else { 1 };
        self.in_a_row > AHEAD_IN_A_ROW_MAX
    }
}

struct Split {
    slot: u32,
    id: String,
    seen: Seen,
}

/// The slot of records that come from no split: the step stands behind an exchange. They are kept as those of a split without a name.
const NO_SLOT: u32 = u32::MAX;
const NO_ID: &str = "";

/// The node of [`GuardAhead`].
pub struct GuardAheadNode<In, F, N> {
    named: Named,
    name: Name,
    time_of: F,
    ahead: Duration,
    /// What was seen before of splits that have not been opened here yet.
    known: BTreeMap<String, Seen>,
    splits: Vec<Split>,
    current: usize,
    counts: OperatorCounts,
    unsealed: Unsealed,
    aside: Option<LinkOutput<In>>,
    next: N,
}

impl<In, F, N> GuardAheadNode<In, F, N> {
    fn open(&mut self, slot: u32, id: &str) {
        let seen = self.known.remove(id).unwrap_or(Seen::NOTHING);
        self.splits.push(Split { slot, id: id.to_owned(), seen });
    }

    /// What to keep. Splits that were being read are open again before the first barrier, so what other tasks read need not be carried
    /// on; records behind an exchange may not have come by then.
    fn seen(&self) -> Splits {
        let open = self.splits.iter().map(|split| (split.id.clone(), split.seen));
        Splits { splits: self.known.get(NO_ID).map(|seen| (NO_ID.to_owned(), *seen)).into_iter().chain(open).collect() }
    }

    fn position(&self, slot: u32) -> Option<usize> {
        self.splits.iter().position(|split| split.slot == slot)
    }
}

impl<In: Send, F: Fn(&In) -> Timestamp + Send, N: Chain<In>> Chain<In> for GuardAheadNode<In, F, N> {
    #[inline]
    fn push(&mut self, value: In, time: Timestamp) {
        let at = self.named.run(|| (self.time_of)(&value));
        if self.splits.is_empty() {
            self.open(NO_SLOT, NO_ID);
            self.current = 0;
        }
        self.counts.records_in += 1;
        if self.splits[self.current].seen.lets_on(at, self.ahead) {
            self.counts.records_out += 1;
            self.next.push(value, time);
        } else if let Some(aside) = &mut self.aside {
            aside.push(value, at);
        }
    }

    #[inline]
    fn room(&self) -> bool {
        self.next.room() && self.aside.as_ref().is_none_or(LinkOutput::room)
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        match control {
            Control::SplitsOpened(splits) => splits.iter().for_each(|split| self.open(split.slot, &split.id)),
            Control::SplitBegan(slot) => self.current = self.position(*slot).unwrap_or(self.current),
            Control::SplitEnded(slot) => {
                self.splits.retain(|split| split.slot != *slot);
                self.current = 0;
            }
            Control::Barrier(epoch) => {
                self.unsealed.cut(*epoch, &mut self.counts);
                if let Some(part) = context.part(&self.name) {
                    part.inline.insert(INLINE.into(), encode_inline(&self.seen()));
                    self.unsealed.add_to(&mut part.counts);
                }
            }
            Control::EpochDurable(epoch) => self.unsealed.durable(*epoch),
            Control::Watermark(_) | Control::Idle | Control::EpochAbandoned(_) | Control::End => {}
        }
        if let Some(aside) = &mut self.aside {
            aside.control(control, context)?;
        }
        self.next.control(control, context)
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        let activity = self.next.work(context)?;
        match &mut self.aside {
            Some(aside) => Ok(activity.and(aside.work(context)?)),
            None => Ok(activity),
        }
    }

    fn idle(&mut self) {
        self.aside.iter_mut().for_each(LinkOutput::idle);
        self.next.idle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1000;
    const DAY: i64 = 86_400_000;
    const AHEAD: Duration = Duration::from_secs(3600);

    /// Which of the times are let on.
    fn let_on(seen: &mut Seen, times: impl IntoIterator<Item = i64>) -> Vec<bool> {
        times.into_iter().map(|at| seen.lets_on(Timestamp(at), AHEAD)).collect()
    }

    /// The same for a split of which nothing was seen before.
    fn let_on_from_the_start(times: impl IntoIterator<Item = i64>) -> Vec<bool> {
        let mut seen = Seen::NOTHING;
        let_on(&mut seen, times)
    }

    #[test]
    fn report_22_one_record_a_day_ahead_goes_aside_and_those_after_it_do_not() {
        let times = [0, DAY].into_iter().chain((1..=10).map(|n| n * SECOND));
        let let_on = let_on_from_the_start(times);
        assert_eq!(let_on.iter().filter(|on| !**on).count(), 1);
        assert!(!let_on[1]);
    }

    #[test]
    fn a_record_exactly_as_far_ahead_as_allowed_is_let_on() {
        let limit = AHEAD.as_millis() as i64;
        assert_eq!(let_on_from_the_start([-5, limit - 5]), [true, true]);
        assert_eq!(let_on_from_the_start([-5, limit - 4]), [true, false]);
        assert_eq!(let_on_from_the_start([i64::MAX - 1, i64::MAX]), [true, true], "nothing lies beyond the end of time");
    }

    #[test]
    fn many_in_a_row_that_agree_are_a_jump_of_time() {
        let times = (0..i64::from(AHEAD_IN_A_ROW_MAX) + 2).map(|n| DAY + n * SECOND);
        let mut seen = Seen::NOTHING;
        assert_eq!(let_on(&mut seen, [0]), [true]);
        let let_on = let_on(&mut seen, times);
        assert_eq!(let_on.iter().filter(|on| !**on).count(), AHEAD_IN_A_ROW_MAX as usize);
        assert_eq!(let_on[AHEAD_IN_A_ROW_MAX as usize..], [true, true]);
        assert_eq!(seen.in_a_row, 0);
    }

    #[test]
    fn many_in_a_row_that_do_not_agree_are_no_jump() {
        let mut seen = Seen::NOTHING;
        let_on(&mut seen, [0]);
        let all = let_on(&mut seen, (0..i64::from(AHEAD_IN_A_ROW_MAX) * 3).map(|n| DAY * (1 + n % 7)));
        assert!(all.iter().all(|on| !on));
        assert_eq!(seen.greatest, Timestamp(0));
    }

    #[test]
    fn a_record_that_is_let_on_ends_the_row() {
        let mut seen = Seen::NOTHING;
        let_on(&mut seen, [0]);
        for _ in 0..2 {
            let row = let_on(&mut seen, (0..AHEAD_IN_A_ROW_MAX).map(|_| DAY));
            assert!(row.iter().all(|on| !on));
            assert_eq!(let_on(&mut seen, [SECOND]), [true]);
        }
    }
}
