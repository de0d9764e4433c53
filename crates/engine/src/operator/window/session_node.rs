//! Sessions: windows that grow and merge with each record.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use staunch_types::{Name, Result, Timestamp};

use super::{Aggregate, FIRE_RESULTS_MAX, Session, WindowResult};
use crate::exchange::{Hashed, KeySelector};
use crate::job::{TaskBuild, decode_inline, encode_inline};
use crate::operator::{Activity, Chain, Control, Keeper, Link, LinkOutput, Named, OperatorCounts, TaskContext, Transform, Unsealed};
use crate::state::kinds::ValueState;
use crate::state::timers::{Due, Timers};

const INLINE: &str = "window";

/// The step that aggregates the sessions of each key.
pub struct SessionWindow<K, A> {
    /// Its name.
    pub name: Name,
    /// Finds the key.
    pub selector: K,
    /// Which sessions.
    pub session: Session,
    /// What is computed.
    pub aggregate: A,
    /// How long after a session has fired a record may still change it.
    pub lateness: Duration,
    /// Where records go that come even later.
    pub late: Option<Link>,
}

/// One session of one key.
#[derive(Clone, Serialize, Deserialize)]
struct Open<A> {
    start: i64,
    end: i64,
    /// When to look at it: at its end as it was when the timer was set. It may have grown since.
    timer: i64,
    fired: bool,
    accumulator: A,
}

impl<T, K, A> Transform<Hashed<T>> for SessionWindow<K, A>
where
    T: Send + 'static,
    K: KeySelector<T>,
    A: Aggregate<T>,
{
    type Out = WindowResult<K::Key, A::Output>;
    type Node<N: Chain<Self::Out> + 'static> = SessionWindowNode<T, K, A, N>;

    fn node<N: Chain<Self::Out> + 'static>(&self, next: N, build: &mut TaskBuild<'_>) -> Result<Self::Node<N>> {
        let late = match self.late {
            Some(link) => build.single::<T>(link)?,
            None => None,
        };
        let mut watermark = Timestamp::MAX;
        let restored = build.restore(&self.name).inline;
        for bytes in restored.iter().filter_map(|p| p.get(INLINE)) {
            watermark = watermark.min(decode_inline(&self.name, INLINE, bytes)?);
        }
        Ok(SessionWindowNode {
            named: Named::new(self.name.as_str()),
            selector: self.selector.clone(),
            gap: self.session.gap,
            aggregate: self.aggregate.clone(),
            lateness: i64::try_from(self.lateness.as_millis()).unwrap_or(i64::MAX / 4),
            late,
            states: (ValueState::new("sessions", build.scope()), Timers::new("timers", build.scope())),
            keeper: Keeper::new(&self.name, build)?,
            name: self.name.clone(),
            watermark: if restored.is_empty() { Timestamp::MIN } else { watermark },
            firing: None,
            counts: OperatorCounts::default(),
            unsealed: Unsealed::default(),
            next,
        })
    }
}

type States<K, A> = (ValueState<K, Vec<Open<A>>>, Timers<K>);

/// The node of [`SessionWindow`].
pub struct SessionWindowNode<T, K: KeySelector<T>, A: Aggregate<T>, N> {
    named: Named,
    name: Name,
    selector: K,
    gap: i64,
    aggregate: A,
    lateness: i64,
    late: Option<LinkOutput<T>>,
    states: States<K::Key, A::Accumulator>,
    keeper: Keeper,
    watermark: Timestamp,
    /// The watermark whose sessions are being fired.
    firing: Option<Timestamp>,
    counts: OperatorCounts,
    unsealed: Unsealed,
    next: N,
}

impl<T, K, A, N> SessionWindowNode<T, K, A, N>
where
    T: Send + 'static,
    K: KeySelector<T>,
    A: Aggregate<T>,
    N: Chain<WindowResult<K::Key, A::Output>>,
{
    /// Adds a record to the session it falls into, merging those it touches; gives it back when it is too late for any.
    fn add(&mut self, hash: u64, value: T, time: Timestamp) -> Option<T> {
        let reach = Reach { start: time.0, end: time.0.saturating_add(self.gap) };
        let key = self.selector.key(&value);
        let (sessions, timers) = (&mut self.states.0, &mut self.states.1);
        let joins = sessions.get(hash, &key).is_some_and(|all| all.iter().any(|s| reach.touches(s)));
        let is_closed = last(reach.end).saturating_add(self.lateness) <= self.watermark.0;
        if !joins && is_closed {
            return Some(value);
        }
        let (aggregate, named, watermark) = (&self.aggregate, &self.named, self.watermark.0);
        let (set_timer, result) = sessions.update(hash, &key, Vec::new, |all| {
            let (at, set_timer) =
                join(all, reach, watermark, || named.run(|| aggregate.create()), |a, b| named.run(|| aggregate.merge(a, b)));
            let session = &mut all[at];
            named.run(|| aggregate.add(&mut session.accumulator, &value));
            let is_over = last(session.end) <= watermark;
            session.fired |= is_over;
            let result = is_over.then(|| (session.start, session.end, named.run(|| aggregate.result(&session.accumulator))));
            (set_timer, result)
        });
        if let Some(timer) = set_timer {
            timers.set(hash, &key, Timestamp(timer));
        }
        if let Some((start, end, value)) = result {
            self.emit(key, start, end, value);
        }
        None
    }

    fn emit(&mut self, key: K::Key, start: i64, end: i64, value: A::Output) {
        self.counts.records_out += 1;
        let result = WindowResult { key, start: Timestamp(start), end: Timestamp(end), value };
        self.next.push(result, Timestamp(last(end)));
    }

    /// Fires on, as far as there is room; whether everything has fired and the watermark was passed on.
    fn fire(&mut self, context: &mut TaskContext) -> Result<bool> {
        let Some(to) = self.firing else { return Ok(true) };
        for _ in 0..FIRE_RESULTS_MAX {
            if !self.next.room() {
                return Ok(false);
            }
            let Some(due) = self.states.1.pop_due(to) else {
                self.firing = None;
                self.watermark = to;
                self.next.control(&Control::Watermark(to), context)?;
                return Ok(true);
            };
            self.fire_one(due, to.0);
        }
        Ok(false)
    }

    /// A timer is due: its sessions are over, or have grown since it was set, or were merged into others.
    fn fire_one(&mut self, due: Due<K::Key>, to: i64) {
        let Due { key, hash, time } = due;
        let (lateness, aggregate, named) = (self.lateness, &self.aggregate, &self.named);
        let (mut set_timers, mut results) = (Vec::new(), Vec::new());
        let left = self.states.0.update(hash, &key, Vec::new, |all| {
            look_at(all, time.0, to, lateness, |looked| match looked {
                Looked::Over(session) => {
                    results.push((session.start, session.end, named.run(|| aggregate.result(&session.accumulator))));
                }
                Looked::Again(timer) => set_timers.push(timer),
            });
            all.len()
        });
        if left == 0 {
            self.states.0.clear(hash, &key);
        }
        for timer in set_timers {
            self.states.1.set(hash, &key, Timestamp(timer));
        }
        for (start, end, value) in results {
            self.emit(key.clone(), start, end, value);
        }
    }
}

/// What comes of looking at a session whose timer is due.
enum Looked<'s, A> {
    /// It is over, and its result is due.
    Over(&'s Open<A>),
    /// It is to be looked at again at this time.
    Again(i64),
}

/// Looks at all sessions of a key whose timer was set for `time`: one that waits for late records may share it with one that is open.
fn look_at<A>(all: &mut Vec<Open<A>>, time: i64, to: i64, lateness: i64, mut tell: impl FnMut(Looked<'_, A>)) {
    all.retain_mut(|session| {
        if session.timer != time {
            return true;
        }
        let over = last(session.end);
        if over <= to && !session.fired {
            session.fired = true;
            tell(Looked::Over(session));
        }
        let again = if over <= to { over.saturating_add(lateness) } else { over };
        if again > to {
            session.timer = again;
            tell(Looked::Again(again));
        }
        again > to
    });
}

/// The stretch that one record makes a session of by itself.
#[derive(Clone, Copy)]
struct Reach {
    start: i64,
    end: i64,
}

impl Reach {
    fn touches<A>(self, session: &Open<A>) -> bool {
        session.start <= self.end && self.start <= session.end
    }
}

fn last(end: i64) -> i64 {
    end.saturating_sub(1)
}

/// Makes one session of all that a record touches, or a new one. Its place, and the timer that must be set for it.
fn join<A>(
    all: &mut Vec<Open<A>>,
    reach: Reach,
    watermark: i64,
    create: impl FnOnce() -> A,
    merge: impl Fn(&mut A, &A),
) -> (usize, Option<i64>) {
    let Some(at) = all.iter().position(|s| reach.touches(s)) else {
        let timer = last(reach.end);
        all.push(Open { start: reach.start, end: reach.end, timer, fired: false, accumulator: create() });
        return (all.len() - 1, Some(timer));
    };
    all[at].start = all[at].start.min(reach.start);
    all[at].end = all[at].end.max(reach.end);
    // A session that grew by merging may touch one that it did not touch before.
    let mut merged = true;
    let mut set_timer = None;
    while std::mem::take(&mut merged) {
        let reach = Reach { start: all[at].start, end: all[at].end };
        if let Some(other) = (at + 1..all.len()).find(|n| reach.touches(&all[*n])) {
            let other = all.swap_remove(other);
            let session = &mut all[at];
            merge(&mut session.accumulator, &other.accumulator);
            session.start = session.start.min(other.start);
            session.end = session.end.max(other.end);
            session.timer = session.timer.min(other.timer);
            session.fired |= other.fired;
            merged = true;
        }
    }
    let session = &mut all[at];
    if session.fired && last(session.end) > watermark {
        // It had fired and has grown beyond the watermark: it fires again, as a whole, at its new end.
        session.fired = false;
        session.timer = last(session.end);
        set_timer = Some(session.timer);
    }
    (at, set_timer)
}

impl<T, K, A, N> Chain<Hashed<T>> for SessionWindowNode<T, K, A, N>
where
    T: Send + 'static,
    K: KeySelector<T>,
    A: Aggregate<T>,
    N: Chain<WindowResult<K::Key, A::Output>>,
{
    fn push(&mut self, value: Hashed<T>, time: Timestamp) {
        self.counts.records_in += 1;
        if let Some(value) = self.add(value.hash, value.value, time) {
            self.counts.late += 1;
            if let Some(late) = &mut self.late {
                late.push(value, time);
            }
        }
    }

    #[inline]
    fn room(&self) -> bool {
        self.firing.is_none() && self.keeper.is_ready() && self.next.room() && self.late.as_ref().is_none_or(LinkOutput::room)
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        if let Some(late) = &mut self.late {
            late.control(control, context)?;
        }
        match control {
            Control::Watermark(to) => {
                if *to > self.watermark {
                    self.firing = Some(*to);
                    self.fire(context)?;
                }
                return Ok(());
            }
            Control::Barrier(epoch) => {
                self.unsealed.cut(*epoch, &mut self.counts);
                if let Some(part) = context.part(&self.name) {
                    part.inline.insert(INLINE.into(), encode_inline(&self.watermark));
                    self.unsealed.add_to(&mut part.counts);
                }
                self.keeper.barrier(*epoch, &mut self.states, context);
            }
            Control::EpochDurable(epoch) => {
                self.unsealed.durable(*epoch);
                self.keeper.durable(*epoch, &mut self.states);
            }
            Control::EpochAbandoned(epoch) => self.keeper.abandoned(*epoch, &mut self.states),
            Control::SplitsOpened(_) | Control::SplitBegan(_) | Control::SplitEnded(_) | Control::Idle | Control::End => {}
        }
        self.next.control(control, context)
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        let mut activity = self.next.work(context)?;
        if let Some(late) = &mut self.late {
            activity = activity.and(late.work(context)?);
        }
        activity = activity.and(self.keeper.work(&mut self.states, context)?);
        if self.firing.is_some() {
            let finished = self.fire(context)?;
            activity.more |= finished || self.next.room();
        }
        Ok(activity)
    }

    fn idle(&mut self) {
        self.next.idle();
        self.late.iter_mut().for_each(LinkOutput::idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENESS: i64 = 20;

    /// The sessions of one key, driven as the node drives them: each time is a record with the watermark right behind it.
    #[derive(Default)]
    struct OneKey {
        all: Vec<Open<u64>>,
        timers: std::collections::BTreeSet<i64>,
        watermark: i64,
        fired: Vec<(i64, i64, u64)>,
    }

    impl OneKey {
        fn record(&mut self, at: i64) {
            let (place, timer) = join(&mut self.all, Reach { start: at, end: at + 10 }, self.watermark, || 0, |a, b| *a += b);
            self.all[place].accumulator += 1;
            self.timers.extend(timer);
            self.watermark(at - 1);
        }

        fn watermark(&mut self, to: i64) {
            while let Some(time) = self.timers.first().copied().filter(|time| *time <= to) {
                self.timers.remove(&time);
                let (timers, fired) = (&mut self.timers, &mut self.fired);
                look_at(&mut self.all, time, to, LATENESS, |looked| match looked {
                    Looked::Over(session) => fired.push((session.start, session.end, session.accumulator)),
                    Looked::Again(timer) => timers.extend([timer]),
                });
            }
            self.watermark = to;
        }
    }

    #[test]
    fn a_session_fires_though_its_timer_is_also_that_of_one_that_waits_for_late_records() {
        let mut key = OneKey::default();
        key.record(0);
        // The first session is over, and is kept until 29: the last millisecond of the second.
        key.record(20);
        key.watermark(28);
        assert_eq!(key.timers, [29].into());
        key.watermark(29);
        assert_eq!(key.fired, [(0, 10, 1), (20, 30, 1)]);
        key.watermark(i64::MAX);
        assert_eq!((key.all.len(), key.timers.len(), key.fired.len()), (0, 0, 2));
    }

    #[test]
    fn whatever_the_gaps_each_record_is_in_one_session_that_fires_and_nothing_is_left() {
        for first in 1..60 {
            for second in 1..60 {
                let mut key = OneKey::default();
                [0, first, first + second].into_iter().for_each(|at| key.record(at));
                key.watermark(i64::MAX);
                let records: u64 = key.fired.iter().map(|(_, _, records)| records).sum();
                assert_eq!((records, key.all.len(), key.timers.len()), (3, 0, 0), "gaps {first} and {second}: {:?}", key.fired);
            }
        }
    }
}
