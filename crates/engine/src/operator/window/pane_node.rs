//! Tumbling and hopping windows over panes.

use std::time::Duration;

use staunch_types::{Name, Result, Timestamp, stable_hash};

use super::assign::StoredPanes;
use super::{Aggregate, FIRE_RESULTS_MAX, Panes, Window, WindowResult};
use crate::exchange::{Batch, Hashed, KeySelector};
use crate::job::{TaskBuild, decode_inline, encode_inline};
use crate::operator::{Activity, Ahead, Chain, Control, Keeper, Link, LinkOutput, Named, OperatorCounts, TaskContext, Transform, Unsealed};
use crate::state::panes::Panes as PaneTables;
use crate::state::table::{SlotId, StateTable};

const INLINE: &str = "window";
const INLINE_PANES: &str = "panes";

/// The step that aggregates records by key and window.
pub struct PaneWindow<K, A> {
    /// Its name.
    pub name: Name,
    /// Finds the key.
    pub selector: K,
    /// Which windows.
    pub panes: Panes,
    /// What is computed.
    pub aggregate: A,
    /// How long after a window has fired a record may still change it.
    pub lateness: Duration,
    /// Where records go that come even later.
    pub late: Option<Link>,
}

impl<T, K, A> Transform<Hashed<T>> for PaneWindow<K, A>
where
    T: Send + 'static,
    K: KeySelector<T>,
    A: Aggregate<T>,
{
    type Out = WindowResult<K::Key, A::Output>;
    type Node<N: Chain<Self::Out> + 'static> = PaneWindowNode<T, K, A, N>;

    fn node<N: Chain<Self::Out> + 'static>(&self, next: N, build: &mut TaskBuild<'_>) -> Result<Self::Node<N>> {
        let late = match self.late {
            Some(link) => build.single::<T>(link)?,
            None => None,
        };
        let tables = PaneTables::new(INLINE, build.scope(), stable_hash);
        let keeper = Keeper::new(&self.name, build)?;
        // All tasks have the same watermark at a barrier, so any of them tells it.
        let mut watermark = Timestamp::MAX;
        let restored = build.restore(&self.name).inline;
        for bytes in restored.iter().filter_map(|p| p.get(INLINE)) {
            watermark = watermark.min(decode_inline(&self.name, INLINE, bytes)?);
        }
        for bytes in restored.iter().filter_map(|p| p.get(INLINE_PANES)) {
            decode_inline::<StoredPanes>(&self.name, INLINE_PANES, bytes)?.check(&self.name, &self.panes.stored())?;
        }
        let lateness = i64::try_from(self.lateness.as_millis()).unwrap_or(i64::MAX / 4);
        Ok(PaneWindowNode {
            named: Named::new(self.name.as_str()),
            name: self.name.clone(),
            selector: self.selector.clone(),
            panes: self.panes.clone(),
            aggregate: self.aggregate.clone(),
            lateness,
            late,
            tables,
            keeper,
            watermark: if restored.is_empty() { Timestamp::MIN } else { watermark },
            open_from: i64::MAX,
            open_to: i64::MIN,
            firing: None,
            counts: OperatorCounts::default(),
            unsealed: Unsealed::default(),
            next,
        })
    }
}

/// The node of [`PaneWindow`].
pub struct PaneWindowNode<T, K: KeySelector<T>, A: Aggregate<T>, N> {
    named: Named,
    name: Name,
    selector: K,
    panes: Panes,
    aggregate: A,
    lateness: i64,
    late: Option<LinkOutput<T>>,
    tables: PaneTables<K::Key, A::Accumulator>,
    keeper: Keeper,
    watermark: Timestamp,
    /// Times known to fall into the pane of the last record, which is open and not fired.
    open_from: i64,
    open_to: i64,
    firing: Option<Firing<K::Key, A::Accumulator>>,
    counts: OperatorCounts,
    unsealed: Unsealed,
    next: N,
}

/// Windows that a new watermark fires.
struct Firing<K, V> {
    to: Timestamp,
    /// Windows still to fire, newest first.
    windows: Vec<Window>,
    /// In the window at the end of the list: the pane whose keys are gone through, by number.
    pane: i64,
    walk: Walk<K, V>,
}

/// How far the keys of a pane are gone through: those in memory first, then those that only the database has.
enum Walk<K, V> {
    /// The last slot done.
    Memory(Option<SlotId>),
    Absent {
        /// Read, and not done.
        found: Vec<(u64, K, V)>,
        /// Where to read on.
        next: Option<Vec<u8>>,
    },
}

impl<K, V> Walk<K, V> {
    const BEGIN: Self = Walk::Memory(None);
}

impl<T, K, A, N> PaneWindowNode<T, K, A, N>
where
    T: Send + 'static,
    K: KeySelector<T>,
    A: Aggregate<T>,
    N: Chain<WindowResult<K::Key, A::Output>>,
{
    /// Whether no window of a pane can take records any more.
    fn is_expired(&self, pane: i64) -> bool {
        self.panes.newest_window_of(pane).is_none_or(|w| self.is_closed(w))
    }

    fn is_closed(&self, window: Window) -> bool {
        window.last().0.saturating_add(self.lateness) <= self.watermark.0
    }

    #[inline]
    fn add(&mut self, guess: Option<SlotId>, hash: u64, value: &T, pane: i64) {
        let (table, aggregate, named) = (self.tables.table(pane), &self.aggregate, &self.named);
        self.selector.with(value, |key| {
            named.run(|| table.update_guessed(guess, hash, key, || aggregate.create(), |accumulator| aggregate.add(accumulator, value)));
        });
    }

    #[inline]
    fn take(&mut self, guess: Option<SlotId>, value: Hashed<T>, time: Timestamp) {
        self.counts.records_in += 1;
        let Hashed { hash, value } = value;
        if self.open_from <= time.0 && time.0 < self.open_to {
            self.add(guess, hash, &value, self.open_from);
        } else {
            self.push_slowly(hash, value, time);
        }
    }

    /// A record whose pane is not known to be open: it may be late, or change windows that have fired.
    #[cold]
    fn push_slowly(&mut self, hash: u64, value: T, time: Timestamp) {
        let pane = self.panes.pane_of(time);
        if self.is_expired(pane) {
            self.counts.late += 1;
            if let Some(late) = &mut self.late {
                late.push(value, time);
            }
            return;
        }
        self.add(None, hash, &value, pane);
        let fired: Vec<Window> =
            self.panes.windows_of(pane).into_iter().filter(|w| w.last() <= self.watermark && !self.is_closed(*w)).collect();
        if fired.is_empty() {
            (self.open_from, self.open_to) = (pane, self.panes.end_of(pane));
        }
        for window in fired {
            let key = self.selector.key(&value);
            self.fetch_others(window, i64::MIN, hash, &key);
            let result = self.result_of(window, hash, &key);
            if let Some(value) = result {
                self.emit(window, key, value);
            }
        }
    }

    fn result_of(&self, window: Window, hash: u64, key: &K::Key) -> Option<A::Output> {
        let mut total: Option<A::Accumulator> = None;
        for pane in self.panes.panes_of(window) {
            let Some(part) = self.value(pane, hash, key) else { continue };
            match &mut total {
                Some(total) => self.named.run(|| self.aggregate.merge(total, part)),
                None => total = Some(part.clone()),
            }
        }
        total.map(|t| self.named.run(|| self.aggregate.result(&t)))
    }

    fn emit(&mut self, window: Window, key: K::Key, value: A::Output) {
        self.counts.records_out += 1;
        let result = WindowResult { key, start: Timestamp(window.start), end: Timestamp(window.end), value };
        self.next.push(result, window.last());
    }

    fn begin_firing(&mut self, to: Timestamp) {
        (self.open_from, self.open_to) = (i64::MAX, i64::MIN);
        let mut windows: Vec<Window> = self
            .tables
            .namespaces()
            .flat_map(|pane| self.panes.windows_of(pane))
            .filter(|w| w.last() > self.watermark && w.last() <= to)
            .collect();
        windows.sort_by_key(|w| std::cmp::Reverse((w.end, w.start)));
        windows.dedup();
        self.firing = Some(Firing { to, windows, pane: 0, walk: Walk::BEGIN });
    }

    /// Fires on, as far as there is room; whether everything has fired and the watermark was passed on.
    fn fire(&mut self, context: &mut TaskContext) -> Result<bool> {
        let mut budget = FIRE_RESULTS_MAX;
        while let Some(mut firing) = self.firing.take() {
            if !self.next.room() || budget == 0 {
                self.firing = Some(firing);
                return Ok(false);
            }
            let Some(window) = firing.windows.last().copied() else {
                self.watermark = firing.to;
                self.drop_expired();
                self.next.control(&Control::Watermark(firing.to), context)?;
                return Ok(true);
            };
            if firing.pane >= self.panes.panes() {
                firing.windows.pop();
                (firing.pane, firing.walk) = (0, Walk::BEGIN);
            } else {
                self.fire_pane(window, &mut firing, &mut budget);
            }
            self.firing = Some(firing);
        }
        Ok(true)
    }

    /// Emits the keys of one pane of a window that no earlier pane of it has.
    fn fire_pane(&mut self, window: Window, firing: &mut Firing<K::Key, A::Accumulator>, budget: &mut usize) {
        let Some(start) = self.panes.panes_of(window).nth(firing.pane as usize) else { return };
        let earlier: Vec<i64> = self.panes.panes_of(window).take_while(|p| *p < start).filter(|p| self.tables.get(*p).is_some()).collect();
        let is_partial = |pane: i64| self.tables.get(pane).is_some_and(StateTable::is_partial);
        let any_is_partial = self.panes.panes_of(window).any(is_partial);
        let own_is_partial = is_partial(start);
        // Whoever walks through a pane meets each entry once only if none of them leaves memory meanwhile.
        self.tables.hold(Some(start));
        let is_done = match &mut firing.walk {
            Walk::Memory(after) => self.fire_memory(window, start, &earlier, any_is_partial, after, budget),
            Walk::Absent { found, next } => self.fire_absent(window, start, &earlier, found, next, budget),
        };
        if is_done {
            match firing.walk {
                Walk::Memory(_) if own_is_partial => firing.walk = Walk::Absent { found: Vec::new(), next: Some(Vec::new()) },
                Walk::Memory(_) | Walk::Absent { .. } => {
                    self.tables.hold(None);
                    (firing.pane, firing.walk) = (firing.pane + 1, Walk::BEGIN);
                }
            }
        }
    }

    /// Emits the keys of a pane that are in memory; whether that was all.
    fn fire_memory(
        &mut self,
        window: Window,
        start: i64,
        earlier: &[i64],
        any_is_partial: bool,
        after: &mut Option<SlotId>,
        budget: &mut usize,
    ) -> bool {
        while self.next.room() && *budget > 0 {
            let Some(table) = self.tables.get(start) else { break };
            let Some((slot, key, _)) = table.iter_after(*after).next() else { break };
            let hash = table.hash_of(slot).unwrap_or_default();
            *after = Some(slot);
            *budget -= 1;
            if any_is_partial {
                let key = key.clone();
                self.fetch_others(window, start, hash, &key);
            }
            let Some((key, first)) = self.tables.get(start).and_then(|table| table.entry(slot)) else { break };
            if let Some(value) = self.result_from(window, start, earlier, (hash, key, first)) {
                let key = key.clone();
                self.emit(window, key, value);
            }
        }
        self.tables.get(start).is_none_or(|table| table.iter_after(*after).next().is_none())
    }

    /// Emits the keys of a pane that only the database has; whether that was all.
    fn fire_absent(
        &mut self,
        window: Window,
        start: i64,
        earlier: &[i64],
        found: &mut Vec<(u64, K::Key, A::Accumulator)>,
        next: &mut Option<Vec<u8>>,
        budget: &mut usize,
    ) -> bool {
        while self.next.room() && *budget > 0 {
            let Some((hash, key, first)) = found.pop() else {
                let Some(from) = next.take() else { return true };
                let from = (!from.is_empty()).then_some(from);
                *next = self.tables.scan_absent(start, from, found);
                found.reverse();
                continue;
            };
            *budget -= 1;
            self.fetch_others(window, start, hash, &key);
            if let Some(value) = self.result_from(window, start, earlier, (hash, &key, &first)) {
                self.emit(window, key, value);
            }
        }
        found.is_empty() && next.is_none()
    }

    /// Brings a key's entries in the other panes of a window into memory.
    #[cold]
    fn fetch_others(&mut self, window: Window, start: i64, hash: u64, key: &K::Key) {
        for pane in self.panes.panes_of(window).filter(|pane| *pane != start) {
            if let Some(table) = self.tables.get_mut(pane).filter(|table| table.is_partial()) {
                table.fetch::<K::Key>(hash, key);
            }
        }
    }

    /// The result of a key of a window, of which the pane at `start` has the first part; `None` when an earlier pane has one.
    #[inline]
    fn result_from(
        &self,
        window: Window,
        start: i64,
        earlier: &[i64],
        (hash, key, first): (u64, &K::Key, &A::Accumulator),
    ) -> Option<A::Output> {
        if earlier.iter().any(|pane| self.value(*pane, hash, key).is_some()) {
            return None;
        }
        if self.panes.panes() == 1 {
            return Some(self.named.run(|| self.aggregate.result(first)));
        }
        let mut total = first.clone();
        for pane in self.panes.panes_of(window).filter(|p| *p > start) {
            if let Some(part) = self.value(pane, hash, key) {
                self.named.run(|| self.aggregate.merge(&mut total, part));
            }
        }
        Some(self.named.run(|| self.aggregate.result(&total)))
    }

    /// Drops the panes that no window needs any more.
    fn drop_expired(&mut self) {
        let expired: Vec<i64> = self.tables.namespaces().take_while(|pane| self.is_expired(*pane)).collect();
        for pane in expired {
            self.tables.drop_table(pane);
        }
    }

    /// What a pane has of a key in memory.
    fn value(&self, pane: i64, hash: u64, key: &K::Key) -> Option<&A::Accumulator> {
        self.tables.get(pane)?.peek::<K::Key>(hash, key)
    }
}

impl<T, K, A, N> Chain<Hashed<T>> for PaneWindowNode<T, K, A, N>
where
    T: Send + 'static,
    K: KeySelector<T>,
    A: Aggregate<T>,
    N: Chain<WindowResult<K::Key, A::Output>>,
{
    #[inline]
    fn push(&mut self, value: Hashed<T>, time: Timestamp) {
        self.take(None, value, time);
    }

    fn push_batch(&mut self, batch: &mut Batch<Hashed<T>>) {
        // The next records probably go to the pane of the last one.
        let mut ahead = (self.open_from < self.open_to).then(|| Ahead::begin(self.tables.table(self.open_from), batch));
        while self.room() {
            let guess = match &mut ahead {
                Some(ahead) if self.open_from < self.open_to => ahead.next(self.tables.table(self.open_from), batch),
                Some(_) | None => None,
            };
            match batch.take() {
                Some(element) => self.take(guess, element.value, element.time),
                None => return,
            }
        }
    }

    #[inline]
    fn room(&self) -> bool {
        self.firing.is_none() && self.keeper.is_ready() && self.next.room() && self.late.as_ref().is_none_or(LinkOutput::room)
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        match control {
            Control::Watermark(to) => {
                if *to > self.watermark {
                    self.begin_firing(*to);
                    self.fire(context)?;
                }
                if let Some(late) = &mut self.late {
                    late.control(control, context)?;
                }
                return Ok(());
            }
            Control::Barrier(epoch) => {
                self.unsealed.cut(*epoch, &mut self.counts);
                if let Some(part) = context.part(&self.name) {
                    part.inline.insert(INLINE.into(), encode_inline(&self.watermark));
                    part.inline.insert(INLINE_PANES.into(), encode_inline(&self.panes.stored()));
                    self.unsealed.add_to(&mut part.counts);
                }
                self.keeper.barrier(*epoch, &mut self.tables, context);
            }
            Control::EpochDurable(epoch) => {
                self.unsealed.durable(*epoch);
                self.keeper.durable(*epoch, &mut self.tables);
            }
            Control::EpochAbandoned(epoch) => self.keeper.abandoned(*epoch, &mut self.tables),
            Control::SplitsOpened(_) | Control::SplitBegan(_) | Control::SplitEnded(_) | Control::Idle | Control::End => {}
        }
        if let Some(late) = &mut self.late {
            late.control(control, context)?;
        }
        self.next.control(control, context)
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        let mut activity = self.next.work(context)?;
        if let Some(late) = &mut self.late {
            activity = activity.and(late.work(context)?);
        }
        activity = activity.and(self.keeper.work(&mut self.tables, context)?);
        if self.firing.is_some() {
            let finished = self.fire(context)?;
            // Waiting for room is the next node's business; everything else goes on at once.
            activity.more |= finished || self.next.room();
        }
        Ok(activity)
    }

    fn idle(&mut self) {
        self.next.idle();
        self.late.iter_mut().for_each(LinkOutput::idle);
    }
}
