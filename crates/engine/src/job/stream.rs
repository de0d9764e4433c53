//! Typed streams: what a program writes down.
//!
//! Owns: the steps a stream offers and how they become segments of the plan. Does not own: what the steps do.
//!
//! A stream is consumed by each step, so a record cannot be taken twice by accident; [`Stream::share`] is for that.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use staunch_api::{Journal, ReaderContext, Rejected, Sink, Source, WriterContext};
use staunch_types::{Error, KeyGroupCount, Name, Result, Timestamp};

use super::{Assembled, Edge, Head, OperatorKind, OperatorPlan, Output, Segment, TaskBuild};
use crate::cluster::TaskCore;
use crate::exchange::{ExchangeOutput, ExchangeTask, Gate, Hashed, KeySelector, KeyedBy, KeyedByRef, RouteByKey, RouteRoundRobin};
use crate::operator::{
    Chain, EventTime, Filter, FlatMap, GuardAhead, Identity, Inspect, Link, LinkOutput, Map, SplitOutput, Then, Transform, Watermarks,
};
use crate::sink::{CARRIED, Discard, SinkNode, SinkPlan};
use crate::source::{SourcePlan, SourceTask};
use crate::state::codec::Key;

/// The plan while it is being written down.
pub(crate) struct PlanBuilder {
    pub(crate) segments: Vec<Segment>,
    pub(crate) sources: BTreeMap<Name, SourcePlan>,
    pub(crate) sinks: BTreeMap<Name, SinkPlan>,
    pub(crate) groups: KeyGroupCount,
    /// The first mistake; told when the job starts, so that programs need no `?` at each step.
    pub(crate) error: Option<Error>,
    edges: u32,
    links: u32,
    steps: u32,
}

/// The plan, shared by all streams of a program.
#[derive(Clone)]
pub(crate) struct Writing(pub(crate) Rc<RefCell<PlanBuilder>>);

impl Writing {
    pub(crate) fn new(groups: KeyGroupCount) -> Writing {
        Writing(Rc::new(RefCell::new(PlanBuilder {
            segments: Vec::new(),
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
            groups,
            error: None,
            edges: 0,
            links: 0,
            steps: 0,
        })))
    }

    fn edge(&self) -> Edge {
        let mut plan = self.0.borrow_mut();
        plan.edges += 1;
        Edge(plan.edges - 1)
    }

    pub(crate) fn link(&self) -> Link {
        let mut plan = self.0.borrow_mut();
        plan.links += 1;
        Link(plan.links - 1)
    }

    /// A name for a step that keeps nothing: `map-3`.
    fn step(&self, kind: &str) -> Name {
        let mut plan = self.0.borrow_mut();
        plan.steps += 1;
        let text = format!("{kind}-{}", plan.steps);
        drop(plan);
        self.name(&text)
    }

    /// A name given by the user; a bad one is told at the start of the job.
    pub(crate) fn name(&self, text: &str) -> Name {
        Name::new(text).unwrap_or_else(|error| {
            let mut plan = self.0.borrow_mut();
            plan.error.get_or_insert_with(|| {
                Error::new(staunch_types::ErrorKind::Invalid, "J005", error.to_string())
                    .at(format!("name={text:.80?}"))
                    .data("nothing was started")
                    .remedy("give the operator another name")
            });
            match Name::new("invalid") {
                Ok(name) => name,
                Err(_) => unreachable!("a plain word is a name"),
            }
        })
    }

    fn add(&self, segment: Segment) {
        self.0.borrow_mut().segments.push(segment);
    }

    /// A mistake in the plan; the first one is told at the start of the job.
    pub(crate) fn mistake(&self, error: Error) {
        self.0.borrow_mut().error.get_or_insert(error);
    }

    pub(crate) fn groups(&self) -> KeyGroupCount {
        self.0.borrow().groups
    }
}

/// Where a segment begins.
pub trait Start: 'static {
    /// What comes in.
    type Item: Send + 'static;

    /// The head, for the plan.
    fn head(&self) -> Head;

    /// Puts a chain behind it.
    ///
    /// # Errors
    /// As the source or the state report.
    fn assemble<C: Chain<Self::Item> + 'static>(&self, chain: C, build: &mut TaskBuild<'_>) -> Result<Assembled>;
}

/// A source begins the segment.
pub struct SourceStart<S> {
    name: Name,
    source: S,
    rejected: Option<Link>,
}

impl<S: Source> Start for SourceStart<S> {
    type Item = S::Record;

    fn head(&self) -> Head {
        Head::Source(self.name.clone())
    }

    fn assemble<C: Chain<S::Record> + 'static>(&self, chain: C, build: &mut TaskBuild<'_>) -> Result<Assembled> {
        let rejected = match self.rejected {
            Some(link) => build.single::<Rejected>(link)?,
            None => None,
        };
        let reader = self.source.reader(ReaderContext {
            name: self.name.clone(),
            task_index: build.task.index,
            parallelism: build.parallelism,
            file_system: Arc::clone(&build.file_system),
            metrics: build.metrics.with("source", self.name.to_string()),
            io: build.io.clone(),
        })?;
        let core = TaskCore::new(build);
        Ok(Assembled::Task(Box::new(SourceTask::<S, C>::new(self.name.clone(), reader, chain, rejected, core))))
    }
}

/// Other tasks feed the segment.
pub struct ExchangeStart<T> {
    edges: Vec<Edge>,
    item: PhantomData<fn() -> T>,
}

impl<T: Send + 'static> Start for ExchangeStart<T> {
    type Item = T;

    fn head(&self) -> Head {
        Head::Exchange(self.edges.clone())
    }

    fn assemble<C: Chain<T> + 'static>(&self, chain: C, build: &mut TaskBuild<'_>) -> Result<Assembled> {
        let mut receivers = Vec::new();
        for edge in &self.edges {
            receivers.extend(build.edges.receivers::<T>(build.plan, *edge, build.task.index));
        }
        let gate = Gate::new(receivers, build.restored_epoch, self.edges.iter().all(|edge| build.plan.comes_from_source(*edge)));
        let name = build.plan.operators(build.task.chain as usize).next().map_or("exchange", |o| o.name.as_str());
        Ok(Assembled::Task(Box::new(ExchangeTask::new(name, gate, chain, TaskCore::new(build)))))
    }
}

/// A fan-out in the same task feeds the segment.
pub struct LinkStart<T> {
    link: Link,
    item: PhantomData<fn() -> T>,
}

impl<T: Send + 'static> Start for LinkStart<T> {
    type Item = T;

    fn head(&self) -> Head {
        Head::Link(self.link)
    }

    fn assemble<C: Chain<T> + 'static>(&self, chain: C, _build: &mut TaskBuild<'_>) -> Result<Assembled> {
        let boxed: Box<dyn Chain<T>> = Box::new(chain);
        Ok(Assembled::Linked(Box::new(boxed)))
    }
}

/// A stream of records: a start and the steps so far.
#[must_use = "a stream that ends nowhere is refused when the job starts"]
pub struct Stream<S: Start, X: Transform<S::Item> = Identity> {
    pub(crate) plan: Writing,
    pub(crate) start: S,
    pub(crate) transform: X,
    pub(crate) operators: Vec<OperatorPlan>,
    /// Links that steps of this stream feed besides.
    pub(crate) side_outputs: Vec<Output>,
    pub(crate) parallelism: Option<u32>,
    /// The named operator that the stream comes from, for names that are made up.
    pub(crate) label: String,
}

/// A stream with event time behind a guard, and the records that the guard sent aside.
type Guarded<S, X, T, F> = (Stream<S, Then<Then<X, GuardAhead<F>>, EventTime<F>>>, Linked<T>);

/// The stream that begins behind a fan-out.
pub type Linked<T> = Stream<LinkStart<T>, Identity>;
/// The stream that begins behind an exchange.
pub type Exchanged<T> = Stream<ExchangeStart<T>, Identity>;

impl<S: Source + Sync> Stream<SourceStart<S>, Identity> {
    pub(crate) fn from_source(plan: &Writing, name: &str, source: S, rejected: Option<Link>) -> Self {
        let name = plan.name(name);
        plan.0.borrow_mut().sources.insert(name.clone(), SourcePlan::new(name.clone(), &source));
        let operator = OperatorPlan { name: name.clone(), kind: OperatorKind::Source, description: source.describe() };
        Stream {
            plan: plan.clone(),
            label: name.to_string(),
            start: SourceStart { name, source, rejected },
            transform: Identity,
            operators: vec![operator],
            side_outputs: rejected.map(Output::Link).into_iter().collect(),
            parallelism: None,
        }
    }
}

impl<T: Send + 'static> Linked<T> {
    pub(crate) fn behind(plan: &Writing, link: Link, label: &str) -> Self {
        Stream {
            plan: plan.clone(),
            start: LinkStart { link, item: PhantomData },
            transform: Identity,
            operators: Vec::new(),
            side_outputs: Vec::new(),
            parallelism: None,
            label: label.to_owned(),
        }
    }
}

impl<S: Start, X: Transform<S::Item>> Stream<S, X> {
    /// Puts a step behind.
    pub(crate) fn then<B: Transform<X::Out>>(mut self, operator: OperatorPlan, step: B) -> Stream<S, Then<X, B>> {
        if operator.kind != OperatorKind::Stateless {
            self.label = operator.name.to_string();
        }
        self.operators.push(operator);
        Stream {
            plan: self.plan,
            start: self.start,
            transform: Then(self.transform, step),
            operators: self.operators,
            side_outputs: self.side_outputs,
            parallelism: self.parallelism,
            label: self.label,
        }
    }

    /// Ends the segment in what `end` makes.
    pub(crate) fn finish<C: Chain<X::Out> + 'static>(
        self,
        outputs: Vec<Output>,
        last: Option<OperatorPlan>,
        end: impl Fn(&mut TaskBuild<'_>) -> Result<C> + 'static,
    ) {
        let Stream { plan, start, transform, mut operators, side_outputs, parallelism, .. } = self;
        operators.extend(last);
        let outputs = outputs.into_iter().chain(side_outputs).collect();
        let head = start.head();
        let factory = move |build: &mut TaskBuild<'_>| {
            let end = end(build)?;
            let chain = transform.node(end, build)?;
            start.assemble(chain, build)
        };
        plan.add(Segment { head, operators, outputs, parallelism, factory: Box::new(factory) });
    }

    fn stateless(&self, kind: &str) -> OperatorPlan {
        OperatorPlan { name: self.plan.step(kind), kind: OperatorKind::Stateless, description: kind.to_owned() }
    }

    /// How many tasks run the chain that this stream began in; it must begin with a source or an exchange. The job's parallelism
    /// otherwise.
    pub fn parallelism(mut self, tasks: u32) -> Self {
        self.parallelism = Some(tasks);
        self
    }

    /// Each record becomes another.
    pub fn map<Out: Send + 'static, F: Fn(X::Out) -> Out + Clone + Send + 'static>(self, function: F) -> Stream<S, Then<X, Map<F, Out>>> {
        let operator = self.stateless("map");
        let step = Map::new(operator.name.as_str(), function);
        self.then(operator, step)
    }

    /// Only records that satisfy the closure go on.
    pub fn filter<F: Fn(&X::Out) -> bool + Clone + Send + 'static>(self, function: F) -> Stream<S, Then<X, Filter<F, X::Out>>> {
        let operator = self.stateless("filter");
        let step = Filter::new(operator.name.as_str(), function);
        self.then(operator, step)
    }

    /// Each record becomes any number of records.
    pub fn flat_map<I, F>(self, function: F) -> Stream<S, Then<X, FlatMap<F, I>>>
    where
        I: IntoIterator + 'static,
        I::Item: Send + 'static,
        F: Fn(X::Out) -> I + Clone + Send + 'static,
    {
        let operator = self.stateless("flat_map");
        let step = FlatMap::new(operator.name.as_str(), function);
        self.then(operator, step)
    }

    /// Looks at each record.
    pub fn inspect<F: Fn(&X::Out) + Clone + Send + 'static>(self, function: F) -> Stream<S, Then<X, Inspect<F, X::Out>>> {
        let operator = self.stateless("inspect");
        let step = Inspect::new(operator.name.as_str(), function);
        self.then(operator, step)
    }

    /// Gives records their event time.
    pub fn event_time<F: Fn(&X::Out) -> Timestamp + Clone + Send + 'static>(
        self,
        time: F,
        watermarks: Watermarks,
    ) -> Stream<S, Then<X, EventTime<F>>> {
        let name = self.plan.name(&format!("{}#event-time", self.label));
        let description = watermarks.describe();
        let operator = OperatorPlan { name: name.clone(), kind: OperatorKind::EventTime, description };
        self.then(operator, EventTime::new(name, time, watermarks))
    }

    /// Gives records their event time, and sends those aside whose time lies more than `ahead` after all others: the second stream. Without
    /// this, one record with a wrong clock moves the watermark, and all that follow are late.
    ///
    /// Each split is judged by itself, in its order, so the same records go aside in every run. Its first record is let on, as there is
    /// nothing to compare it with. After 100 in a row that lie ahead and within `ahead` of each other time has really gone on: those
    /// behind them are let on, the 100 stay aside. The second stream has no watermarks.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use staunch_engine::job::{Environment, Settings};
    /// # use staunch_api::Source;
    /// use staunch_engine::operator::Watermarks;
    /// use staunch_types::Timestamp;
    ///
    /// # fn job(env: &Environment, source: impl Source<Record = (i64, String)> + Sync) {
    /// let watermarks = Watermarks::bounded(Duration::from_secs(60));
    /// let (readings, ahead) = env
    ///     .source("readings", source)
    ///     .event_time_guarded(|(at, _)| Timestamp(*at), watermarks, Duration::from_secs(3600));
    /// readings.discard("good");
    /// ahead.discard("ahead");
    /// # }
    /// ```
    pub fn event_time_guarded<F: Fn(&X::Out) -> Timestamp + Clone + Send + 'static>(
        self,
        time: F,
        watermarks: Watermarks,
        ahead: Duration,
    ) -> Guarded<S, X, X::Out, F> {
        let (plan, label, link) = (self.plan.clone(), self.label.clone(), self.plan.link());
        let name = plan.name(&format!("{label}#guard-ahead"));
        let description = format!("aside if more than {} ms ahead", ahead.as_millis());
        let operator = OperatorPlan { name: name.clone(), kind: OperatorKind::EventTime, description };
        let mut guarded = self.then(operator, GuardAhead::new(name, time.clone(), ahead, link));
        guarded.side_outputs.push(Output::Link(link));
        // The clocks keep the name that they have without a guard, so that one can be put in or taken out.
        guarded.label.clone_from(&label);
        (guarded.event_time(time, watermarks), Stream::behind(&plan, link, &format!("{label}#ahead")))
    }

    /// All records with equal keys go to one task. The key is made by the closure: for numbers and other small keys.
    pub fn key_by<K: Key, F: Fn(&X::Out) -> K + Clone + Send + 'static>(self, key: F) -> KeyedStream<X::Out, KeyedBy<F, K>> {
        self.keyed(KeyedBy::new(key))
    }

    /// All records with equal keys go to one task. The key is borrowed from the record: for texts.
    pub fn key_by_ref<V, F>(self, key: F) -> KeyedStream<X::Out, KeyedByRef<F, V>>
    where
        V: ?Sized + Eq + serde::Serialize + ToOwned + 'static,
        V::Owned: Key,
        F: for<'a> Fn(&'a X::Out) -> &'a V + Clone + Send + 'static,
    {
        self.keyed(KeyedByRef::new(key))
    }

    fn keyed<K: KeySelector<X::Out>>(self, selector: K) -> KeyedStream<X::Out, K> {
        let (plan, edge, label) = (self.plan.clone(), self.plan.edge(), self.label.clone());
        let (for_route, groups) = (selector.clone(), plan.groups());
        self.finish(vec![Output::Edge(edge)], None, move |build| {
            let channels = build.edges.senders::<Hashed<X::Out>>(build.plan, edge, build.task.index);
            Ok(ExchangeOutput::new(RouteByKey::new(for_route.clone(), groups), channels))
        });
        let stream = Stream {
            plan,
            start: ExchangeStart { edges: vec![edge], item: PhantomData },
            transform: Identity,
            operators: Vec::new(),
            side_outputs: Vec::new(),
            parallelism: None,
            label,
        };
        KeyedStream { stream, selector }
    }

    fn end_in_edge(self, edge: Edge) {
        self.finish(vec![Output::Edge(edge)], None, move |build| {
            let channels = build.edges.senders::<X::Out>(build.plan, edge, build.task.index);
            Ok(ExchangeOutput::new(RouteRoundRobin::new(build.task.index), channels))
        });
    }

    /// Spreads the records evenly over the tasks of the next chain; `.parallelism(n)` behind it says how many.
    pub fn rebalance(self) -> Exchanged<X::Out> {
        let (plan, edge, label) = (self.plan.clone(), self.plan.edge(), self.label.clone());
        self.end_in_edge(edge);
        exchanged(plan, vec![edge], label)
    }

    /// The records of both streams, in any order between the two.
    pub fn union<S2: Start, X2: Transform<S2::Item, Out = X::Out>>(self, other: Stream<S2, X2>) -> Exchanged<X::Out> {
        let (plan, label) = (self.plan.clone(), format!("{}+{}", self.label, other.label));
        let edges = vec![plan.edge(), plan.edge()];
        self.end_in_edge(edges[0]);
        other.end_in_edge(edges[1]);
        exchanged(plan, edges, label)
    }

    /// Splits the stream: each record goes to the output whose number the closure gives; a number beyond the last means the last.
    pub fn split<const N: usize>(self, name: &str, choose: impl Fn(&X::Out) -> usize + Clone + Send + 'static) -> [Linked<X::Out>; N] {
        let (plan, label) = (self.plan.clone(), self.label.clone());
        let links: [Link; N] = std::array::from_fn(|_| plan.link());
        let operator = OperatorPlan { name: plan.name(name), kind: OperatorKind::Stateless, description: format!("split into {N}") };
        let text = name.to_owned();
        self.finish(links.iter().map(|l| Output::Link(*l)).collect(), Some(operator), move |build| {
            let mut outputs = Vec::new();
            for link in links {
                outputs.extend(build.single::<X::Out>(link)?);
            }
            Ok(SplitOutput::new(&text, choose.clone(), outputs))
        });
        links.map(|link| Stream::behind(&plan, link, &label))
    }

    /// A stream that can be taken several times; each taker gets a copy of every record.
    pub fn share(self) -> Shared<X::Out>
    where
        X::Out: Clone,
    {
        let (plan, label, link) = (self.plan.clone(), self.label.clone(), self.plan.link());
        self.finish(vec![Output::Link(link)], None, move |build| Ok(LinkOutput::several(build.chains::<X::Out>(link)?)));
        Shared { plan, link, label, item: PhantomData }
    }

    /// Writes the records to a sink.
    pub fn sink<K: Sink<Record = X::Out> + Sync>(self, name: &str, sink: K) {
        let name = self.plan.name(name);
        self.plan.0.borrow_mut().sinks.insert(name.clone(), SinkPlan::new(name.clone(), &sink));
        let operator = OperatorPlan { name: name.clone(), kind: OperatorKind::Sink, description: sink.describe() };
        self.finish(vec![Output::Sink(name.clone())], Some(operator), move |build| {
            let context = WriterContext {
                job: build.job.clone(),
                sink: name.clone(),
                generation: build.generation,
                task_index: build.task.index,
                parallelism: build.parallelism,
                file_system: Arc::clone(&build.file_system),
                journal: Journal::new(Arc::clone(&build.store), &name),
                lead: build.lead.clone(),
                ledger: build.ledger,
                metrics: build.metrics.with("sink", name.to_string()),
                io: build.io.clone(),
            };
            let writer = sink.writer(context, build.share(&name, CARRIED))?;
            Ok(SinkNode::new(name.clone(), writer))
        });
    }

    /// Counts the records and drops them.
    pub fn discard(self, name: &str) {
        let name = self.plan.name(name);
        let operator = OperatorPlan { name: name.clone(), kind: OperatorKind::Sink, description: "discard".into() };
        self.finish(vec![Output::Sink(name.clone())], Some(operator), move |_| Ok(Discard::new(name.clone())));
    }
}

fn exchanged<T: Send + 'static>(plan: Writing, edges: Vec<Edge>, label: String) -> Exchanged<T> {
    let start = ExchangeStart { edges, item: PhantomData };
    Stream { plan, start, transform: Identity, operators: Vec::new(), side_outputs: Vec::new(), parallelism: None, label }
}

/// A stream that can be taken several times.
pub struct Shared<T> {
    plan: Writing,
    link: Link,
    label: String,
    item: PhantomData<fn() -> T>,
}

impl<T: Send + 'static> Shared<T> {
    /// One more taker.
    pub fn stream(&self) -> Linked<T> {
        Stream::behind(&self.plan, self.link, &self.label)
    }
}

/// A stream whose records with equal keys are in one task.
#[must_use = "a stream that ends nowhere is refused when the job starts"]
pub struct KeyedStream<T: Send + 'static, K: KeySelector<T>> {
    pub(crate) stream: Exchanged<Hashed<T>>,
    pub(crate) selector: K,
}

impl<T: Send + 'static, K: KeySelector<T>> KeyedStream<T, K> {
    /// How many tasks keep the keyed state. The job's parallelism otherwise.
    pub fn parallelism(mut self, tasks: u32) -> Self {
        self.stream = self.stream.parallelism(tasks);
        self
    }
}
