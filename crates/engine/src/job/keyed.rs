//! Keyed streams: rolling values and windows.

use std::collections::BTreeSet;
use std::time::Duration;

use staunch_types::{Error, ErrorKind};

use super::stream::{ExchangeStart, KeyedStream, Linked, Stream};
use super::{OperatorKind, OperatorPlan, Output};
use crate::exchange::{Hashed, KeySelector};
use crate::operator::window::{Aggregate, Days, Fold, Hopping, PaneWindow, Panes, Session, SessionWindow, Tumbling};
use crate::operator::{Identity, Link, Process, ProcessStep, StatefulMap, Then, Transform};
use crate::state::codec::StateValue;
use crate::state::keyed::{KeyedStates, Scope};

/// How the names of states begin that the engine adds: timers.
const OURS: char = '#';

/// A stream behind one stateful step of a keyed stream.
type Behind<T, X> = Stream<ExchangeStart<Hashed<T>>, Then<Identity, X>>;
/// The same with a second stream, of records of type `S`.
type BehindAnd<T, X, S> = (Behind<T, X>, Linked<S>);

impl<T: Send + 'static, K: KeySelector<T>> KeyedStream<T, K> {
    fn operator(&self, name: &str, description: &str) -> OperatorPlan {
        OperatorPlan { name: self.stream.plan.name(name), kind: OperatorKind::Keyed, description: description.to_owned() }
    }

    /// Keeps a value per key: each record changes it, and gives an output.
    pub fn stateful_map<V, Out, I, F>(self, name: &str, init: I, function: F) -> Behind<T, StatefulMap<K, V, I, F, Out>>
    where
        V: StateValue,
        Out: Send + 'static,
        I: Fn() -> V + Clone + Send + 'static,
        F: Fn(&mut V, &T) -> Out + Clone + Send + 'static,
    {
        let operator = self.operator(name, "stateful map");
        let step = StatefulMap::new(operator.name.clone(), self.selector, init, function);
        self.stream.then(operator, step)
    }

    /// Looks whether each state of a process function has a name of its own.
    fn check_states<P: Process<K::Key, T>>(&self, operator: &str, function: &P) {
        let (plan, mut seen) = (&self.stream.plan, BTreeSet::new());
        let scope = Scope { groups: plan.groups(), range: plan.groups().range_of(0, 1) };
        function.states(scope).each(&mut |state| {
            let name = state.name();
            let is_ours = name.starts_with(OURS);
            if is_ours || !seen.insert(name.to_owned()) {
                let what = if is_ours {
                    format!("the name of the state \"{name}\" begins with {OURS}, as those of the engine's own states do")
                } else {
                    format!("the operator has two states with the name \"{name}\"")
                };
                plan.mistake(
                    Error::new(ErrorKind::Invalid, "J012", what)
                        .at(format!("operator={operator} state={name}"))
                        .data("nothing was started; two states under one name would be stored as one")
                        .remedy("give each state of the operator a name of its own"),
                );
            }
        });
    }

    /// Runs a process function: user code with keyed state and timers.
    pub fn process<P: Process<K::Key, T, Side = ()>>(self, name: &str, function: P) -> Behind<T, ProcessStep<K, P>> {
        self.check_states(name, &function);
        let operator = self.operator(name, "process");
        let step = ProcessStep { name: operator.name.clone(), selector: self.selector, function, side: None };
        self.stream.then(operator, step)
    }

    /// Runs a process function; what it gives out at the side is the second stream.
    pub fn process_with_side<P: Process<K::Key, T>>(self, name: &str, function: P) -> BehindAnd<T, ProcessStep<K, P>, P::Side> {
        self.check_states(name, &function);
        let (plan, operator) = (self.stream.plan.clone(), self.operator(name, "process"));
        let link = plan.link();
        let step = ProcessStep { name: operator.name.clone(), selector: self.selector, function, side: Some(link) };
        let mut stream = self.stream.then(operator, step);
        stream.side_outputs.push(Output::Link(link));
        (stream, Stream::behind(&plan, link, &format!("{name}#side")))
    }

    /// Keeps one record per key, put together from all of its records so far by `reduce`, and gives it out each time.
    pub fn reduce<F>(self, name: &str, reduce: F) -> Behind<T, impl Transform<Hashed<T>, Out = T>>
    where
        T: StateValue + Clone,
        F: Fn(&mut T, &T) + Clone + Send + 'static,
    {
        self.stateful_map(
            name,
            || None::<T>,
            move |kept: &mut Option<T>, record: &T| {
                match kept {
                    Some(kept) => reduce(kept, record),
                    None => *kept = Some(record.clone()),
                }
                kept.clone().unwrap_or_else(|| record.clone())
            },
        )
    }

    /// Folds the records of each key, and gives the value out after each record.
    pub fn rolling_fold<A, I, F>(self, name: &str, init: I, add: F) -> Behind<T, impl Transform<Hashed<T>, Out = A>>
    where
        A: StateValue + Clone,
        I: Fn() -> A + Clone + Send + 'static,
        F: Fn(&mut A, &T) + Clone + Send + 'static,
    {
        self.stateful_map(name, init, move |value: &mut A, record: &T| {
            add(value, record);
            value.clone()
        })
    }

    /// Puts the records of a key into windows of event time.
    pub fn window<W: Windowed>(self, window: W) -> WindowedStream<T, K, W> {
        WindowedStream { keyed: self, window, lateness: Duration::ZERO }
    }
}

/// A kind of window that a stream can be put into.
pub trait Windowed: Clone + 'static {
    /// One line for people.
    fn describe(&self) -> String;
}

impl Windowed for Tumbling {
    fn describe(&self) -> String {
        format!("tumbling windows of {}", Panes::from(*self))
    }
}

impl Windowed for Hopping {
    fn describe(&self) -> String {
        format!("hopping windows of {}", Panes::from(*self))
    }
}

impl Windowed for Days {
    fn describe(&self) -> String {
        format!("windows of {}", Panes::from(self.clone()))
    }
}

/// Windows of which each time belongs to one: what is folded need never be merged.
pub trait Consecutive: Windowed + Into<Panes> {}

impl Consecutive for Tumbling {}

impl Consecutive for Days {}

impl Windowed for Session {
    fn describe(&self) -> String {
        Session::describe(*self)
    }
}

/// A keyed stream in windows.
#[must_use = "a stream that ends nowhere is refused when the job starts"]
pub struct WindowedStream<T: Send + 'static, K: KeySelector<T>, W> {
    keyed: KeyedStream<T, K>,
    window: W,
    lateness: Duration,
}

impl<T: Send + 'static, K: KeySelector<T>, W: Windowed> WindowedStream<T, K, W> {
    /// After a window has fired, records may come for so long that still change it; each such record gives a new result.
    pub fn allowed_lateness(mut self, lateness: Duration) -> Self {
        self.lateness = lateness;
        self
    }
}

impl<T: Send + 'static, K: KeySelector<T>, W: Windowed + Into<Panes>> WindowedStream<T, K, W> {
    fn panes<A: Aggregate<T>>(self, name: &str, aggregate: A, late: Option<Link>) -> Behind<T, PaneWindow<K, A>> {
        let operator = self.keyed.operator(name, &self.window.describe());
        let step = PaneWindow {
            name: operator.name.clone(),
            selector: self.keyed.selector,
            panes: self.window.into(),
            aggregate,
            lateness: self.lateness,
            late,
        };
        self.keyed.stream.then(operator, step)
    }

    /// Aggregates each window. Records that come too late are counted.
    pub fn aggregate<A: Aggregate<T>>(self, name: &str, aggregate: A) -> Behind<T, PaneWindow<K, A>> {
        self.panes(name, aggregate, None)
    }

    /// Aggregates each window. Records that come too late go to the second stream.
    pub fn aggregate_with_late<A: Aggregate<T>>(self, name: &str, aggregate: A) -> (Behind<T, PaneWindow<K, A>>, Linked<T>) {
        let plan = self.keyed.stream.plan.clone();
        let link = plan.link();
        let mut stream = self.panes(name, aggregate, Some(link));
        stream.side_outputs.push(Output::Link(link));
        (stream, Stream::behind(&plan, link, &format!("{name}#late")))
    }
}

impl<T: Send + 'static, K: KeySelector<T>> WindowedStream<T, K, Session> {
    fn sessions<A: Aggregate<T>>(self, name: &str, aggregate: A, late: Option<Link>) -> Behind<T, SessionWindow<K, A>> {
        let operator = self.keyed.operator(name, &self.window.describe());
        let step = SessionWindow {
            name: operator.name.clone(),
            selector: self.keyed.selector,
            session: self.window,
            aggregate,
            lateness: self.lateness,
            late,
        };
        self.keyed.stream.then(operator, step)
    }

    /// Aggregates each session. Records that come too late are counted.
    pub fn aggregate_sessions<A: Aggregate<T>>(self, name: &str, aggregate: A) -> Behind<T, SessionWindow<K, A>> {
        self.sessions(name, aggregate, None)
    }

    /// Aggregates each session. Records that come too late go to the second stream.
    pub fn aggregate_sessions_with_late<A: Aggregate<T>>(self, name: &str, aggregate: A) -> (Behind<T, SessionWindow<K, A>>, Linked<T>) {
        let plan = self.keyed.stream.plan.clone();
        let link = plan.link();
        let mut stream = self.sessions(name, aggregate, Some(link));
        stream.side_outputs.push(Output::Link(link));
        (stream, Stream::behind(&plan, link, &format!("{name}#late")))
    }
}

impl<T: Send + 'static, K: KeySelector<T>, W: Consecutive> WindowedStream<T, K, W> {
    /// Folds the records of each window.
    pub fn fold<A, I, F>(self, name: &str, init: I, add: F) -> Behind<T, PaneWindow<K, Fold<A, I, F>>>
    where
        A: StateValue + Clone,
        I: Fn() -> A + Clone + Send + 'static,
        F: Fn(&mut A, &T) + Clone + Send + 'static,
    {
        self.panes(name, Fold::new(init, add), None)
    }

    /// Folds the records of each window. Records that come too late go to the second stream.
    pub fn fold_with_late<A, I, F>(self, name: &str, init: I, add: F) -> BehindAnd<T, PaneWindow<K, Fold<A, I, F>>, T>
    where
        A: StateValue + Clone,
        I: Fn() -> A + Clone + Send + 'static,
        F: Fn(&mut A, &T) + Clone + Send + 'static,
    {
        self.aggregate_with_late(name, Fold::new(init, add))
    }
}
