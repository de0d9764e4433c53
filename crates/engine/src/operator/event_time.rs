//! Event time: which time a record has, and how far it has come.
//!
//! Owns: the clock of each split, the watermark made from them.
//! Does not own: the guard against times that lie far ahead (`guard_ahead`), the combination over tasks (the gate), what late means (the
//! window).
//!
//! The clocks are state: after a restore the watermark goes on from where it was, so a record that was late stays late.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use staunch_types::{Name, Result, Tick, Timestamp};

use super::{Activity, Chain, Control, Named, TaskContext, Transform};
use crate::job::{TaskBuild, decode_inline, encode_inline};

const INLINE: &str = "event-time";

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

    /// A split without records for so long does not hold the watermark until it has one again. Time in which nothing could be
    /// taken in, because what follows is busy, does not count.
    #[must_use]
    pub fn idle_after(mut self, wait: Duration) -> Watermarks {
        self.idle_after = Some(wait);
        self
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
        let mut known = BTreeMap::new();
        for part in &build.restore(&self.name).inline {
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
    /// A record came since the last look.
    fresh: bool,
    /// When a record was last seen to have come, or could not have.
    active_at: Option<Tick>,
    idle: bool,
}

/// The slot of records that come from no split: the step stands behind an exchange.
const NO_SLOT: u32 = u32::MAX;

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
    next: N,
}

impl<F, N> EventTimeNode<F, N> {
    fn open(&mut self, slot: u32, id: &str) {
        let greatest = self.known.remove(id).unwrap_or(Timestamp::MIN);
        self.splits.push(Split { slot, id: id.to_owned(), greatest, fresh: false, active_at: None, idle: false });
        self.moved = true;
    }

    fn watermark(&self) -> Option<Timestamp> {
        let least = self.splits.iter().filter(|s| !s.idle).map(|s| s.greatest).min()?;
        (least != Timestamp::MIN).then(|| Timestamp(least.minus(self.watermarks.bound).0.saturating_sub(1)))
    }

    /// Looks which splits are idle; when to look again.
    fn look_for_idle(&mut self, now: Tick, could_take: bool) -> Option<Tick> {
        let wait = self.watermarks.idle_after?;
        let mut next = None;
        for split in &mut self.splits {
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

    fn clocks(&self) -> Clocks {
        Clocks { splits: self.splits.iter().filter(|s| s.greatest != Timestamp::MIN).map(|s| (s.id.clone(), s.greatest)).collect() }
    }
}

impl<In, F: Fn(&In) -> Timestamp + Send, N: Chain<In>> Chain<In> for EventTimeNode<F, N> {
    #[inline]
    fn push(&mut self, value: In, _time: Timestamp) {
        let time = self.named.run(|| (self.assign)(&value));
        if self.splits.is_empty() {
            self.open(NO_SLOT, "");
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
            Control::SplitOpened { slot, id } => {
                self.open(*slot, id);
            }
            Control::SplitBegan(slot) => {
                if let Some(at) = self.splits.iter().position(|s| s.slot == *slot) {
                    self.current = at;
                }
                return Ok(());
            }
            Control::SplitEnded(slot) => {
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
                }
            }
            Control::Idle | Control::EpochAbandoned(_) | Control::EpochDurable(_) | Control::End => {}
        }
        self.next.control(control, context)
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        let mut activity = self.next.work(context)?;
        let look_at = self.look_for_idle(context.now, self.next.room());
        activity = activity.and(Activity { more: false, wake_at: look_at });
        if self.moved && self.next.room() {
            self.moved = false;
            if !self.splits.is_empty() && self.splits.iter().all(|s| s.idle) {
                self.next.control(&Control::Idle, context)?;
                return Ok(activity);
            }
            if let Some(watermark) = self.watermark()
                && watermark > self.sent
            {
                self.sent = watermark;
                self.next.control(&Control::Watermark(watermark), context)?;
                // The control may have made work: windows that fire.
                return Ok(activity.and(self.next.work(context)?));
            }
        }
        Ok(activity)
    }

    fn idle(&mut self) {
        self.next.idle();
    }
}
