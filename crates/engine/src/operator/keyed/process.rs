//! User code with keyed state and timers.
//!
//! Owns: the contract of a process function and its node. Does not own: the kinds of state (state), event times (event_time).
//!
//! Invariants:
//! 1. Records of one key are processed in the order of arrival, by one task at a time.
//! 2. An event-time timer fires once, when the watermark reaches it; a processing-time timer once, when the wall clock does. Timers are
//!    state: they survive a restart.

use staunch_types::{Name, Result, Tick, Timestamp};

use super::Keeper;
use crate::exchange::{Hashed, KeySelector};
use crate::job::{TaskBuild, decode_inline, encode_inline};
use crate::operator::{Activity, Chain, Control, Link, LinkOutput, Named, OperatorCounts, TaskContext, Transform, Unsealed};
use crate::state::codec::Key;
use crate::state::keyed::{KeyedStates, Scope, Surplus};
use crate::state::timers::{Due, Timers};

const INLINE: &str = "process";
/// Timers that fire before the task looks at other things again.
const FIRE_TIMERS_MAX: usize = 1024;

/// A process function: what to do with each record of a key, and with its timers.
pub trait Process<K: Key, In>: Clone + Send + 'static {
    /// What comes out.
    type Out: Send + 'static;
    /// What comes out at the side; `()` for nothing.
    type Side: Send + 'static;
    /// What is kept by key: one kind of state, or a tuple of up to seven.
    type States: KeyedStates<K> + Send + 'static;

    /// Declares the states.
    fn states(&self, scope: Scope) -> Self::States;

    /// Takes one record.
    fn process(&self, record: In, states: &mut Self::States, context: &mut ProcessContext<'_, K, Self::Out, Self::Side>);

    /// A timer of a key has come.
    fn on_timer(&self, timer: Timer, states: &mut Self::States, context: &mut ProcessContext<'_, K, Self::Out, Self::Side>) {
        let _ = (timer, states, context);
    }
}

/// Which timer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Set with [`ProcessContext::set_event_timer`].
    Event(Timestamp),
    /// Set with [`ProcessContext::set_processing_timer`].
    Processing(Timestamp),
}

/// What a process function may look at and do.
pub struct ProcessContext<'a, K, Out, Side> {
    /// Hash of the key, for the states.
    pub hash: u64,
    /// The key.
    pub key: &'a K,
    /// Event time of the record, or of the timer.
    pub time: Timestamp,
    /// The watermark: no record before it is expected.
    pub watermark: Timestamp,
    /// Wall-clock time at the start of the task's slice.
    pub now: Timestamp,
    /// The last watermark fires timers.
    at_end: bool,
    timers: &'a mut TimerPair<K>,
    out: &'a mut Vec<(Out, Timestamp)>,
    side: &'a mut Vec<(Side, Timestamp)>,
}

impl<K: Key, Out, Side> ProcessContext<'_, K, Out, Side> {
    /// Gives out a record, with the event time of the present one.
    pub fn emit(&mut self, value: Out) {
        self.out.push((value, self.time));
    }

    /// Gives out a record at the side.
    pub fn emit_side(&mut self, value: Side) {
        self.side.push((value, self.time));
    }

    /// Sets a timer of this key in event time; setting it twice is setting it once. At the end of all input event time ends too: every
    /// timer that is set fires then, once, and no further one is set, so that a timer that sets itself again comes to an end.
    pub fn set_event_timer(&mut self, at: Timestamp) {
        if !self.at_end {
            self.timers.event.set(self.hash, self.key, at);
        }
    }

    /// Deletes a timer of this key in event time.
    pub fn delete_event_timer(&mut self, at: Timestamp) {
        self.timers.event.delete(self.hash, self.key, at);
    }

    /// Sets a timer of this key on the wall clock.
    pub fn set_processing_timer(&mut self, at: Timestamp) {
        self.timers.processing.set(self.hash, self.key, at);
    }

    /// Deletes a timer of this key on the wall clock.
    pub fn delete_processing_timer(&mut self, at: Timestamp) {
        self.timers.processing.delete(self.hash, self.key, at);
    }
}

struct TimerPair<K> {
    event: Timers<K>,
    processing: Timers<K>,
}

/// The states of the user and the timers, as one: neither can be forgotten in a snapshot.
struct All<S, K> {
    user: S,
    timers: TimerPair<K>,
}

impl<K: Key, S: KeyedStates<K>> KeyedStates<K> for All<S, K> {
    fn each(&mut self, visit: &mut dyn FnMut(&mut dyn crate::state::keyed::StoredState)) {
        self.user.each(visit);
        self.timers.event.each(visit);
        self.timers.processing.each(visit);
    }

    fn restored(&mut self) -> Result<()> {
        self.user.restored()?;
        self.timers.event.restored()?;
        self.timers.processing.restored()
    }

    fn tidy(&mut self, entries: usize) -> bool {
        let left = [self.user.tidy(entries), self.timers.event.tidy(entries), self.timers.processing.tidy(entries)];
        left.contains(&true)
    }

    fn evict(&mut self, surplus: Surplus) -> usize {
        self.user.evict(surplus)
    }
}

/// The step that runs a process function.
pub struct ProcessStep<K, P> {
    /// Its name.
    pub name: Name,
    /// Finds the key.
    pub selector: K,
    /// The function.
    pub function: P,
    /// Where its side output goes.
    pub side: Option<Link>,
}

impl<T, K, P> Transform<Hashed<T>> for ProcessStep<K, P>
where
    T: Send + 'static,
    K: KeySelector<T>,
    P: Process<K::Key, T>,
{
    type Out = P::Out;
    type Node<N: Chain<P::Out> + 'static> = ProcessNode<T, K, P, N>;

    fn node<N: Chain<P::Out> + 'static>(&self, next: N, build: &mut TaskBuild<'_>) -> Result<Self::Node<N>> {
        let side = match self.side {
            Some(link) => build.single::<P::Side>(link)?,
            None => None,
        };
        let mut watermark = Timestamp::MAX;
        let restored = build.restore(&self.name).inline;
        for bytes in restored.iter().filter_map(|p| p.get(INLINE)) {
            watermark = watermark.min(decode_inline(&self.name, INLINE, bytes)?);
        }
        let timers =
            TimerPair { event: Timers::new("#event-timers", build.scope()), processing: Timers::new("#processing-timers", build.scope()) };
        Ok(ProcessNode {
            named: Named::new(self.name.as_str()),
            name: self.name.clone(),
            selector: self.selector.clone(),
            states: All { user: self.function.states(build.scope()), timers },
            function: self.function.clone(),
            keeper: Keeper::new(&self.name, build)?,
            side,
            watermark: if restored.is_empty() { Timestamp::MIN } else { watermark },
            firing: None,
            wall: Timestamp::MIN,
            out: Vec::new(),
            side_out: Vec::new(),
            counts: OperatorCounts::default(),
            unsealed: Unsealed::default(),
            next,
        })
    }
}

/// The node of [`ProcessStep`].
pub struct ProcessNode<T, K: KeySelector<T>, P: Process<K::Key, T>, N> {
    named: Named,
    name: Name,
    selector: K,
    function: P,
    states: All<P::States, K::Key>,
    keeper: Keeper,
    side: Option<LinkOutput<P::Side>>,
    watermark: Timestamp,
    /// The watermark whose timers are being fired.
    firing: Option<Timestamp>,
    wall: Timestamp,
    out: Vec<(P::Out, Timestamp)>,
    side_out: Vec<(P::Side, Timestamp)>,
    counts: OperatorCounts,
    unsealed: Unsealed,
    next: N,
}

impl<T, K, P, N> ProcessNode<T, K, P, N>
where
    T: Send + 'static,
    K: KeySelector<T>,
    P: Process<K::Key, T>,
    N: Chain<P::Out>,
{
    fn call(
        &mut self,
        hash: u64,
        key: &K::Key,
        time: Timestamp,
        code: impl FnOnce(&P, &mut P::States, &mut ProcessContext<'_, K::Key, P::Out, P::Side>),
    ) {
        let mut context = ProcessContext {
            hash,
            key,
            time,
            watermark: self.watermark,
            now: self.wall,
            at_end: self.firing == Some(Timestamp::MAX),
            timers: &mut self.states.timers,
            out: &mut self.out,
            side: &mut self.side_out,
        };
        let (function, states) = (&self.function, &mut self.states.user);
        self.named.run(|| code(function, states, &mut context));
        self.counts.records_out += self.out.len() as u64;
        for (value, time) in self.out.drain(..) {
            self.next.push(value, time);
        }
        match &mut self.side {
            Some(side) => self.side_out.drain(..).for_each(|(value, time)| side.push(value, time)),
            None => self.side_out.clear(),
        }
    }

    fn has_room(&self) -> bool {
        self.next.room() && self.side.as_ref().is_none_or(LinkOutput::room)
    }

    /// Fires event-time timers on, as far as there is room; whether all have fired and the watermark was passed on.
    fn fire(&mut self, context: &mut TaskContext) -> Result<bool> {
        let Some(to) = self.firing else { return Ok(true) };
        for _ in 0..FIRE_TIMERS_MAX {
            if !self.has_room() {
                return Ok(false);
            }
            let Some(Due { key, hash, time }) = self.states.timers.event.pop_due(to) else {
                self.firing = None;
                self.watermark = to;
                self.next.control(&Control::Watermark(to), context)?;
                return Ok(true);
            };
            self.call(hash, &key, time, |p, states, context| p.on_timer(Timer::Event(time), states, context));
        }
        Ok(false)
    }

    /// Fires processing-time timers on; whether more are due.
    fn fire_processing(&mut self) -> bool {
        for _ in 0..FIRE_TIMERS_MAX {
            if !self.has_room() {
                return false;
            }
            let Some(Due { key, hash, time }) = self.states.timers.processing.pop_due(self.wall) else { return false };
            self.call(hash, &key, time, |p, states, context| p.on_timer(Timer::Processing(time), states, context));
        }
        true
    }

    fn wake_at(&self, now: Tick) -> Option<Tick> {
        let next = self.states.timers.processing.next_time()?;
        let wait = next.0.saturating_sub(self.wall.0).max(0);
        Some(now + std::time::Duration::from_millis(wait as u64))
    }
}

impl<T, K, P, N> Chain<Hashed<T>> for ProcessNode<T, K, P, N>
where
    T: Send + 'static,
    K: KeySelector<T>,
    P: Process<K::Key, T>,
    N: Chain<P::Out>,
{
    #[inline]
    fn push(&mut self, value: Hashed<T>, time: Timestamp) {
        self.counts.records_in += 1;
        let key = self.selector.key(&value.value);
        self.call(value.hash, &key, time, |p, states, context| p.process(value.value, states, context));
    }

    #[inline]
    fn room(&self) -> bool {
        self.firing.is_none() && self.keeper.is_ready() && self.has_room()
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        if let Some(side) = &mut self.side {
            side.control(control, context)?;
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
        self.wall = Timestamp(context.wall_ms);
        let mut activity = self.next.work(context)?;
        if let Some(side) = &mut self.side {
            activity = activity.and(side.work(context)?);
        }
        activity = activity.and(self.keeper.work(&mut self.states, context)?);
        if self.keeper.is_ready() {
            if self.firing.is_some() {
                let finished = self.fire(context)?;
                activity.more |= finished || self.has_room();
            }
            activity.more |= self.fire_processing();
            activity = activity.and(Activity { more: false, wake_at: self.wake_at(context.now) });
        }
        Ok(activity)
    }

    fn idle(&mut self) {
        self.next.idle();
        self.side.iter_mut().for_each(LinkOutput::idle);
    }
}
