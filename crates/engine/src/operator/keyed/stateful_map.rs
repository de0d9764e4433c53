//! One value per key, changed by each record, one output per record: rolling folds and reduces.

use std::marker::PhantomData;

use staunch_types::{Name, Result, Timestamp};

use super::{Ahead, Keeper};
use crate::exchange::{Batch, Hashed, KeySelector};
use crate::job::TaskBuild;
use crate::operator::{Activity, Chain, Control, Named, OperatorCounts, TaskContext, Transform, Unsealed};
use crate::state::codec::StateValue;
use crate::state::kinds::ValueState;
use crate::state::table::SlotId;

const STATE: &str = "value";

/// The step that keeps a value per key.
pub struct StatefulMap<K, V, I, F, Out> {
    name: Name,
    selector: K,
    init: I,
    function: F,
    types: PhantomData<fn() -> (V, Out)>,
}

impl<K, V, I, F, Out> StatefulMap<K, V, I, F, Out> {
    /// `init` makes the first value of a key, `function` changes it and gives the output.
    pub fn new(name: Name, selector: K, init: I, function: F) -> Self {
        StatefulMap { name, selector, init, function, types: PhantomData }
    }
}

impl<T, K, V, I, F, Out> Transform<Hashed<T>> for StatefulMap<K, V, I, F, Out>
where
    T: Send + 'static,
    K: KeySelector<T>,
    V: StateValue,
    I: Fn() -> V + Clone + Send + 'static,
    F: Fn(&mut V, &T) -> Out + Clone + Send + 'static,
    Out: Send + 'static,
{
    type Out = Out;
    type Node<N: Chain<Out> + 'static> = StatefulMapNode<T, K, V, I, F, N>;

    fn node<N: Chain<Out> + 'static>(&self, next: N, build: &mut TaskBuild<'_>) -> Result<Self::Node<N>> {
        let state = ValueState::new(STATE, build.scope());
        let keeper = Keeper::new(&self.name, build)?;
        Ok(StatefulMapNode {
            named: Named::new(self.name.as_str()),
            name: self.name.clone(),
            selector: self.selector.clone(),
            init: self.init.clone(),
            function: self.function.clone(),
            state,
            keeper,
            counts: OperatorCounts::default(),
            unsealed: Unsealed::default(),
            next,
        })
    }
}

/// The node of [`StatefulMap`].
pub struct StatefulMapNode<T, K: KeySelector<T>, V, I, F, N> {
    named: Named,
    name: Name,
    selector: K,
    init: I,
    function: F,
    state: ValueState<K::Key, V>,
    keeper: Keeper,
    counts: OperatorCounts,
    unsealed: Unsealed,
    next: N,
}

impl<T, K, V, I, F, N> StatefulMapNode<T, K, V, I, F, N>
where
    T: Send + 'static,
    K: KeySelector<T>,
    V: StateValue,
{
    #[inline]
    fn add<Out>(&mut self, guess: Option<SlotId>, value: Hashed<T>, time: Timestamp)
    where
        I: Fn() -> V,
        F: Fn(&mut V, &T) -> Out,
        N: Chain<Out>,
    {
        self.counts.records_in += 1;
        let Hashed { hash, value } = value;
        let (table, init, function, named) = (self.state.stored_mut().table_mut(), &self.init, &self.function, &self.named);
        let out =
            self.selector.with(&value, |key| named.run(|| table.update_guessed(guess, hash, key, init, |state| function(state, &value))));
        self.next.push(out, time);
    }
}

impl<T, K, V, I, F, Out, N> Chain<Hashed<T>> for StatefulMapNode<T, K, V, I, F, N>
where
    T: Send + 'static,
    K: KeySelector<T>,
    V: StateValue,
    I: Fn() -> V + Send,
    F: Fn(&mut V, &T) -> Out + Send,
    N: Chain<Out>,
{
    #[inline]
    fn push(&mut self, value: Hashed<T>, time: Timestamp) {
        self.add(None, value, time);
    }

    fn push_batch(&mut self, batch: &mut Batch<Hashed<T>>) {
        let mut ahead = Ahead::begin(self.state.stored().table(), batch);
        while self.room() {
            let guess = ahead.next(self.state.stored().table(), batch);
            match batch.take() {
                Some(element) => self.add(guess, element.value, element.time),
                None => return,
            }
        }
    }

    #[inline]
    fn room(&self) -> bool {
        self.keeper.is_ready() && self.next.room()
    }

    fn control(&mut self, control: &Control, context: &mut TaskContext) -> Result<()> {
        match control {
            Control::Barrier(epoch) => {
                self.unsealed.cut(*epoch, &mut self.counts);
                if let Some(part) = context.part(&self.name) {
                    self.unsealed.add_to(&mut part.counts);
                }
                self.keeper.barrier(*epoch, &mut self.state, context);
            }
            Control::EpochDurable(epoch) => {
                self.unsealed.durable(*epoch);
                self.keeper.durable(*epoch, &mut self.state);
            }
            Control::EpochAbandoned(epoch) => self.keeper.abandoned(*epoch, &mut self.state),
            Control::SplitsOpened(_)
            | Control::SplitBegan(_)
            | Control::SplitEnded(_)
            | Control::Watermark(_)
            | Control::Idle
            | Control::End => {}
        }
        self.next.control(control, context)
    }

    fn work(&mut self, context: &mut TaskContext) -> Result<Activity> {
        let activity = self.next.work(context)?;
        Ok(activity.and(self.keeper.work(&mut self.state, context)?))
    }

    fn idle(&mut self) {
        self.next.idle();
    }
}
