//! Event time: which time a record has, and how far it has come.
//!
//! Owns: the clock of each split, the watermark made from them.
//! Does not own: the guard against times that lie far ahead (`guard_ahead`), the combination over tasks (the gate), what late means (the
//! window).
//!
//! Invariants:
//! 1. The clocks are state: after a restore the watermark goes on from where it was, so a record that was late stays late.
//! 2. A split that is open and has not begun holds the watermark, however long it waits for its turn; only one that was begun can be
//!    idle.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use staunch_types::{Name, Result, Tick, Timestamp};

use super::window::exact;
use super::{Activity, Chain, Control, Named, TaskContext, Transform};
use crate::job::{TaskBuild, decode_inline, encode_inline};

const INLINE: &str = "event-time";
const INLINE_LEFT: &str = "left";

/// How far the watermark stays behind the greatest event time seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    pub(crate) bound: Duration,
    pub(crate) per_record: bool,
    pub(crate) idle_after: Option<Duration>,
}

impl Watermarks {
    /// Records may be at most this much older than the newest one; older ones are late. The watermark is the greatest event
    /// time seen, less `bound`, less 1 ms; it is sent on after each batch.
    #[must_use]
    pub fn bounded(bound: Duration) -> Watermarks {
        Watermarks { bound, per_record: false, idle_after: None }
    }

    /// Records are in order.
    #[must_use]
    pub fn ascending() -> Watermarks {
        Watermarks::bounded(Duration::ZERO)
    }

    /// A split that is being read and has had no records for so long does not hold the watermark until it has one again. Time in which
    /// nothing could be taken in, because what follows is busy, does not count, and neither does time in which a split waits for its turn.
    #[must_use]
    pub fn idle_after(mut self, wait: Duration) -> Watermarks {
        self.idle_after = Some(wait);
        self
    }

    /// For people.
    pub(crate) fn describe(self) -> String {
        let ms = |duration: Duration| exact(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX));
        let pace = if self.per_record { "each record" } else { "each batch" };
        let idle = self.idle_after.map(|wait| format!(", idle after {}", ms(wait))).unwrap_or_default();
        format!("event time, bounded {}, sent on after {pace}{idle}", ms(self.bound))
    }

    /// Sends the watermark on after every record that moves it, not only after each batch. Then whether a record is late depends on
    /// nothing but the order of the input. Costs about as much as the rest of a simple job.
    #[must_use]
    pub fn per_record(mut self) -> Watermarks {
        self.per_record = true;
        self
    }
}

/// The step that gives records their event time.
pub struct EventTime<F> {
    name: Name,
    assign: F,
    watermarks: Watermarks,
}

impl<F> EventTime<F> {
    /// `assign` finds the time in a record.
    pub fn new(name: Name, assign: F, watermarks: Watermarks) -> Self {
        EventTime { name, assign, watermarks }
    }
}

impl<In: Send + 'static, F: Fn(&In) -> Timestamp + Clone + Send + 'static> Transform<In> for EventTime<F> {
    type Out = In;
    type Node<N: Chain<In> + 'static> = EventTimeNode<F, N>;

    fn node<N: Chain<In> + 'static>(&self, next: N, build: &mut TaskBuild<'_>) -> Result<EventTimeNode<F, N>> {
        let (mut known, mut left) = (BTreeMap::new(), Timestamp::MIN);
        for part in &build.restore(&self.name).inline {
            if let Some(bytes) = part.get(INLINE_LEFT) {
                left = left.max(decode_inline(&self.name, INLINE_LEFT, bytes)?);
            }
            if let Some(bytes) = part.get(INLINE) {
                let clocks: Clocks = decode_inline(&self.name, INLINE, bytes)?;
                for (id, greatest) in clocks.splits {
                    known.entry(id).and_modify(|known: &mut Timestamp| *known = greatest.min(*known)).or_insert(greatest);
                }
            }
        }
        Ok(EventTimeNode {
            named: Named::new(self.name.as_str()),
            name: self.name.clone(),
            assign: self.assign.clone(),
            watermarks: self.watermarks,
            known,
            splits: Vec::new(),
            current: 0,
            sent: Timestamp::MIN,
            moved: false,
            left,
            idle_due: false,
            next,
        })
    }
}

/// What is kept: the greatest time of each open split, by id.
#[derive(Default, Serialize, Deserialize)]
struct Clocks {
    splits: BTreeMap<String, Timestamp>,
}

struct Split {
    slot: u32,
    id: String,
    greatest: Timestamp,
    /// The reader has begun it: whether it has records is known to the outside alone.
    begun: bool,
    /// A record came since the last look.
    fresh: bool,
    /// When a record was last seen to have come, or could not have.
    active_at: Option<Tick>,
    idle: bool,
}

/// The slot of records that come from no split: the step stands behind an exchange. They are kept as those of a split without a name.
const NO_SLOT: u32 = u32::MAX;
const NO_ID: &str = "";

/// The node of [`EventTime`].
pub struct EventTimeNode<F, N> {
    named: Named,
    name: Name,
    assign: F,
    watermarks: Watermarks,
    /// Clocks from before, of splits that have not been opened here yet.
    known: BTreeMap<String, Timestamp>,
    splits: Vec<Split>,
    current: usize,
    sent: Timestamp,
    moved: bool,
    /// The watermark that the last split left behind when it ended. It is due when the reader turns out to have no other: a split that
    /// follows may begin with earlier times.
    left: Timestamp,
    /// The reader is idle, and that has not been passed on.
    idle_due: bool,
    next: N,
}

impl<F, N> EventTimeNode<F, N> {
    fn open(&mut self, slot: u32, id: &str) {
        (self.left, self.idle_due) = (Timestamp::MIN, false);
        let greatest = self.known.remove(id).unwrap_or(Timestamp::MIN);
        self.splits.push(Split { slot, id: id.to_owned(), greatest, begun: slot == NO_SLOT, fresh: false, active_at: None, idle: false });
        self.moved = true;
    }

    /// The least of the active splits; when all are idle, the greatest, so that it does not depend on which became idle last.
    fn watermark(&self) -> Option<Timestamp> {
        let active = self.splits.iter().filter(|s| !s.idle).map(|s| s.greatest).min();
        let least = active.or_else(|| self.splits.iter().map(|s| s.greatest).max())?;
        (least != Timestamp::MIN).then(|| Timestamp(least.minus(self.watermarks.bound).0.saturating_sub(1)))
    }

    /// Whether nothing here holds the watermark.
    fn is_idle(&self) -> bool {
        !self.splits.is_empty() && self.splits.iter().all(|s| s.idle)
    }

    /// Looks which splits are idle; when to look again.
    fn look_for_idle(&mut self, now: Tick, could_take: bool) -> Option<Tick> {
        let wait = self.watermarks.idle_after?;
        let mut next = None;
        for split in self.splits.iter_mut().filter(|split| split.begun) {
            if std::mem::take(&mut split.fresh) || !could_take || split.active_at.is_none() {
                split.active_at = Some(now);
                self.moved |= std::mem::take(&mut split.idle);
            }
            let due = split.active_at.map_or(now, |at| at + wait);
            if due <= now && !split.idle {
                split.idle = true;
                self.moved = true;
            } else if !split.idle {
                next = Some(next.map_or(due, |n: Tick| n.min(due)));
            }
        }
        next
    }

    /// The clocks to keep. Splits that were being read are open again before the first barrier; records behind an exchange may not have
    /// come by then.
    fn clocks(&self) -> Clocks {
        let open = self.splits.iter().filter(|s| s.greatest != Timestamp::MIN).map(|s| (s.id.clone(), s.greatest));
        Clocks { splits: self.known.get(NO_ID).map(|at| (NO_ID.to_owned(), *at)).into_iter().chain(open).collect() }
    }
}

impl<In, F: Fn(&In) -> Timestamp + Send, N: Chain<In>> Chain<In> for EventTimeNode<F, N> {
    #[inline]
    fn push(&mut self, value: In, _time: Timestamp) {
        let time = self.named.run(|| (self.assign)(&value));
        if self.splits.is_empty() {
            self.open(NO_SLOT, NO_ID);
            self.current = 0;
        }
        let split = &mut self.splits[self.current];
        split.fresh = true;
        if time > split.greatest {
            split.greatest = time;
            self.moved = true;
        }
        self.next.push(value, time);
    }

    #[inline]
    fn room(&self) -> bool {
        !(self.watermarks.per_record && self.moved) && self.next.room()
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        match control {
            Control::SplitsOpened(splits) => splits.iter().for_each(|split| self.open(split.slot, &split.id)),
            Control::SplitBegan(slot) => {
                if let Some(at) = self.splits.iter().position(|s| s.slot == *slot) {
                    self.current = at;
                    self.splits[at].begun = true;
                }
                return Ok(());
            }
            Control::SplitEnded(slot) => {
                if self.splits.iter().all(|s| s.slot == *slot) {
                    self.left = self.watermark().unwrap_or(Timestamp::MIN);
                }
                self.splits.retain(|s| s.slot != *slot);
                self.current = 0;
                self.moved = true;
                return Ok(());
            }
            // Watermarks from before this step are about other times; only the end of all input is true of these too.
            Control::Watermark(Timestamp::MAX) => self.sent = Timestamp::MAX,
            Control::Watermark(_) => return Ok(()),
            Control::Barrier(_) => {
                let bytes = encode_inline(&self.clocks());
                if let Some(part) = context.part(&self.name) {
                    part.inline.insert(INLINE.into(), bytes);
                    if self.left > self.sent {
                        part.inline.insert(INLINE_LEFT.into(), encode_inline(&self.left));
                    }
                }
            }
            Control::Idle if self.left > self.sent => {
                self.idle_due = true;
                return Ok(());
            }
            Control::Idle | Control::EpochAbandoned(_) | Control::EpochDurable(_) | Control::End => {}
        }
        self.next.control(control, context)
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        let mut activity = self.next.work(context)?;
        let look_at = self.look_for_idle(context.now, self.next.room());
        activity = activity.and(Activity { more: false, wake_at: look_at });
        if self.idle_due && self.next.room() {
            let left = std::mem::replace(&mut self.left, Timestamp::MIN);
            // First the watermark, which may make work, then that nothing follows.
            if left > self.sent {
                self.sent = left;
                self.next.control(&Control::Watermark(left), context)?;
                activity.more = true;
                return Ok(activity.and(self.next.work(context)?));
            }
            self.idle_due = false;
            self.next.control(&Control::Idle, context)?;
        }
        if self.moved && self.next.room() {
            self.moved = false;
            if let Some(watermark) = self.watermark()
                && watermark > self.sent
            {
                self.sent = watermark;
                self.next.control(&Control::Watermark(watermark), context)?;
                // The control may have made work: windows that fire. What else there is to say is said when there is room again.
                self.moved = self.is_idle();
                activity.more |= self.moved;
                return Ok(activity.and(self.next.work(context)?));
            }
            if self.is_idle() {
                self.next.control(&Control::Idle, context)?;
            }
        }
        Ok(activity)
    }

    fn idle(&mut self) {
        self.next.idle();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use staunch_types::{KeyGroupCount, TaskId};

    use super::super::OpenedSplit;
    use super::*;

    /// What came through.
    #[derive(Default)]
    struct Heard(Vec<Control>);

    impl Chain<i64> for Heard {
        fn push(&mut self, _value: i64, _time: Timestamp) {}
        fn room(&self) -> bool {
            true
        }
        fn control(&mut self, control: &Control, _context: &mut TaskContext) -> Result<()> {
            self.0.push(control.clone());
            Ok(())
        }
        fn work(&mut self, _context: &mut TaskContext) -> Result<Activity> {
            Ok(Activity::NOTHING)
        }
        fn idle(&mut self) {}
    }

    type Node = EventTimeNode<fn(&i64) -> Timestamp, Heard>;

    const IDLE_MS: u64 = 1000;

    /// A node with so many open splits.
    fn node(splits: u32) -> Node {
        let mut node = EventTimeNode {
            named: Named::new("times"),
            name: Name::new("times").expect("a name"),
            assign: (|at: &i64| Timestamp(*at)) as fn(&i64) -> Timestamp,
            watermarks: Watermarks::ascending().idle_after(Duration::from_millis(IDLE_MS)),
            known: BTreeMap::new(),
            splits: Vec::new(),
            current: 0,
            sent: Timestamp::MIN,
            moved: false,
            left: Timestamp::MIN,
            idle_due: false,
            next: Heard::default(),
        };
        control(&mut node, &opened(0..splits));
        node
    }

    fn opened(slots: Range<u32>) -> Control {
        Control::SplitsOpened(slots.map(|slot| OpenedSplit { slot, id: format!("split-{slot}") }).collect())
    }

    fn context(at_ms: u64) -> TaskContext {
        let groups = KeyGroupCount::new(8).expect("a count");
        let now = Tick::default() + Duration::from_millis(at_ms);
        TaskContext { task: TaskId { chain: 0, index: 0 }, now, wall_ms: 0, groups, range: groups.range_of(0, 1), snapshot: None }
    }

    fn control(node: &mut Node, control: &Control) {
        node.control(control, &mut context(0)).expect("works");
    }

    /// What was heard of watermarks, and of idleness as `None`, up to this time.
    fn heard(node: &mut Node, at_ms: u64) -> Vec<Option<i64>> {
        node.work(&mut context(at_ms)).expect("works");
        let heard = std::mem::take(&mut node.next.0);
        heard
            .into_iter()
            .filter_map(|control| match control {
                Control::Watermark(to) => Some(Some(to.0)),
                Control::Idle => Some(None),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_split_that_waits_for_its_turn_holds_the_watermark_however_long_it_waits() {
        let mut node = node(2);
        control(&mut node, &Control::SplitBegan(0));
        for step in 0..10 {
            node.push(5000 + step, Timestamp::MIN);
            assert_eq!(heard(&mut node, step as u64 * IDLE_MS), [], "the second split has not been looked at");
        }
        assert_eq!(heard(&mut node, 20 * IDLE_MS), [], "nor is the task idle while a split waits in it");
        control(&mut node, &Control::SplitEnded(0));
        control(&mut node, &Control::SplitBegan(1));
        node.push(100, Timestamp::MIN);
        assert_eq!(heard(&mut node, 20 * IDLE_MS), [Some(99)], "its records are not late");
    }

    #[test]
    fn behind_an_exchange_the_clock_is_kept_before_the_first_record_comes() {
        let mut node = node(0);
        node.known = BTreeMap::from([(NO_ID.to_owned(), Timestamp(500)), ("split-of-another-task".to_owned(), Timestamp(700))]);
        assert_eq!(node.clocks().splits, BTreeMap::from([(NO_ID.to_owned(), Timestamp(500))]));
        node.push(100, Timestamp::MIN);
        assert_eq!(heard(&mut node, 0), [Some(499)], "and the watermark goes on from it");
        node.push(600, Timestamp::MIN);
        assert_eq!(node.clocks().splits, BTreeMap::from([(NO_ID.to_owned(), Timestamp(600))]));
    }

    #[test]
    fn report_16_a_split_that_is_waited_for_and_never_has_a_row_holds_nothing_for_long() {
        let mut node = node(3);
        (0..3).for_each(|slot| control(&mut node, &Control::SplitBegan(slot)));
        control(&mut node, &Control::SplitBegan(1));
        node.push(500, Timestamp::MIN);
        assert_eq!(heard(&mut node, 0), [], "the others may still come");
        node.push(600, Timestamp::MIN);
        assert_eq!(heard(&mut node, IDLE_MS), [Some(599)]);
        assert_eq!(heard(&mut node, 2 * IDLE_MS), [None], "now all are idle");
        assert_eq!(heard(&mut node, 3 * IDLE_MS), [], "which is said once");
        control(&mut node, &Control::SplitBegan(0));
        node.push(700, Timestamp::MIN);
        assert_eq!(heard(&mut node, 3 * IDLE_MS), [Some(699)], "one that starts late counts from then on");
    }

    #[test]
    fn splits_that_become_idle_at_once_hold_nothing_either() {
        let mut node = node(2);
        for (slot, at) in [(0, 500), (1, 2000)] {
            control(&mut node, &Control::SplitBegan(slot));
            node.push(at, Timestamp::MIN);
        }
        assert_eq!(heard(&mut node, 0), [Some(499)]);
        assert_eq!(heard(&mut node, IDLE_MS), [Some(1999)]);
        assert_eq!(heard(&mut node, IDLE_MS), [None]);
    }

    #[test]
    fn what_the_last_split_left_behind_is_said_when_there_is_no_other() {
        let mut node = node(1);
        control(&mut node, &Control::SplitBegan(0));
        node.push(500, Timestamp::MIN);
        control(&mut node, &Control::SplitEnded(0));
        assert_eq!(heard(&mut node, 0), [], "another split may follow and begin earlier");
        control(&mut node, &opened(1..2));
        control(&mut node, &Control::SplitBegan(1));
        node.push(100, Timestamp::MIN);
        assert_eq!(heard(&mut node, 0), [Some(99)], "its records are not late");
        node.push(600, Timestamp::MIN);
        control(&mut node, &Control::SplitEnded(1));
        control(&mut node, &Control::Idle);
        assert_eq!(heard(&mut node, 0), [Some(599)], "first the watermark");
        assert_eq!(heard(&mut node, 0), [None], "then that nothing follows");
        assert_eq!(heard(&mut node, 0), []);
        control(&mut node, &Control::Idle);
        assert_eq!(heard(&mut node, 0), [None], "without anything left, at once");
    }

    #[test]
    fn a_split_that_comes_after_all_takes_back_what_was_left() {
        let mut node = node(1);
        control(&mut node, &Control::SplitBegan(0));
        node.push(500, Timestamp::MIN);
        control(&mut node, &Control::SplitEnded(0));
        control(&mut node, &Control::Idle);
        control(&mut node, &opened(1..2));
        assert_eq!(heard(&mut node, 0), []);
    }
}
