//! The graph of a job.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use staunch_types::{Error, ErrorKind, Name, Result};

use super::{Assembled, TaskBuild};
use crate::operator::Link;
use crate::sink::SinkPlan;
use crate::source::SourcePlan;

/// An exchange in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge(pub u32);

/// Where a segment's records come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A source.
    Source(Name),
    /// Other tasks.
    Exchange(Vec<Edge>),
    /// A fan-out in the same task.
    Link(Link),
}

/// Where a segment's records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Other tasks.
    Edge(Edge),
    /// A fan-out in the same task.
    Link(Link),
    /// A sink.
    Sink(Name),
}

/// What an operator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorKind {
    /// Reads.
    Source,
    /// Keeps nothing.
    Stateless,
    /// Keeps event-time clocks.
    EventTime,
    /// Keeps keyed state.
    Keyed,
    /// Writes.
    Sink,
}

/// One operator, for the plan's description and its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorPlan {
    /// Its name; made up for stateless ones.
    pub name: Name,
    /// What it is.
    pub kind: OperatorKind,
    /// For people: `map`, `window tumbling 1h`, …
    pub description: String,
}

/// Makes one task's part of a segment.
pub type SegmentFactory = Box<dyn Fn(&mut TaskBuild<'_>) -> Result<Assembled>>;

/// A run of fused operators between a head and its outputs.
pub struct Segment {
    /// Where records come from.
    pub head: Head,
    /// The operators, in order.
    pub operators: Vec<OperatorPlan>,
    /// Where records go.
    pub outputs: Vec<Output>,
    /// The parallelism asked for; only at a source or an exchange.
    pub parallelism: Option<u32>,
    /// Makes it.
    pub factory: SegmentFactory,
}

/// A chain: a segment that begins with a source or an exchange, and all that hangs on its links. One task runs one instance of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPlan {
    /// The root segment.
    pub root: usize,
    /// All segments, the root first.
    pub segments: Vec<usize>,
    /// Number of tasks.
    pub parallelism: u32,
    /// Exchanges that come in.
    pub inputs: Vec<Edge>,
    /// Exchanges that go out.
    pub outputs: Vec<Edge>,
}

/// The whole graph, checked.
pub struct Plan {
    /// All segments, in the order in which they were written down.
    pub segments: Vec<Segment>,
    /// All chains.
    pub chains: Vec<ChainPlan>,
    /// All sources, by name.
    pub sources: BTreeMap<Name, SourcePlan>,
    /// All sinks, by name.
    pub sinks: BTreeMap<Name, SinkPlan>,
}

impl Plan {
    /// Checks the graph and puts segments together to chains.
    ///
    /// # Errors
    /// `Invalid`: no source, a stream that goes nowhere, a name used twice, a parallelism of zero or beyond the key groups.
    pub fn new(
        segments: Vec<Segment>,
        sources: BTreeMap<Name, SourcePlan>,
        sinks: BTreeMap<Name, SinkPlan>,
        parallelism: u32,
        parallelism_max: u32,
    ) -> Result<Plan> {
        let mut plan = Plan { segments, chains: Vec::new(), sources, sinks };
        plan.check_names()?;
        for root in 0..plan.segments.len() {
            if !matches!(plan.segments[root].head, Head::Link(_)) {
                let chain = plan.chain(root, parallelism, parallelism_max)?;
                plan.chains.push(chain);
            }
        }
        if plan.sources.is_empty() {
            return Err(invalid("J001", "the job has no source", "add one with `env.source(name, source)`"));
        }
        plan.check_ends()?;
        plan.check_circles()?;
        Ok(plan)
    }

    /// A job that reads what it writes would take its own output for new input.
    fn check_circles(&self) -> Result<()> {
        for sink in self.sinks.values() {
            for source in self.sources.values() {
                if let Some(address) = sink.writes.iter().find(|address| (source.reads)(address)) {
                    let what = "the job would read its own output as new input";
                    return Err(invalid("J014", what, "let the sink write to another place than the source reads").at(format!(
                        "source={} ({}) sink={} ({}) such as {address}",
                        source.name, source.description, sink.name, sink.description
                    )));
                }
            }
        }
        Ok(())
    }

    fn chain(&self, root: usize, parallelism: u32, parallelism_max: u32) -> Result<ChainPlan> {
        let mut segments = vec![root];
        let (mut outputs, mut at) = (Vec::new(), 0);
        while at < segments.len() {
            for output in &self.segments[segments[at]].outputs {
                match output {
                    Output::Edge(edge) => outputs.push(*edge),
                    Output::Link(link) => segments.extend(self.children(*link)),
                    Output::Sink(_) => {}
                }
            }
            at += 1;
        }
        let segment = &self.segments[root];
        let parallelism = segment.parallelism.unwrap_or(parallelism);
        if parallelism == 0 || parallelism > parallelism_max {
            let name = segment.operators.first().map_or("?", |o| o.name.as_str());
            let what = format!("the parallelism is {parallelism}; it must be from 1 to the number of key groups, {parallelism_max}");
            return Err(invalid("J002", &what, "correct `--parallelism` or `.parallelism(n)`").at(format!("operator={name}")));
        }
        let inputs = match &segment.head {
            Head::Exchange(edges) => edges.clone(),
            Head::Source(_) | Head::Link(_) => Vec::new(),
        };
        Ok(ChainPlan { root, segments, parallelism, inputs, outputs })
    }

    /// The segments behind a link.
    #[must_use]
    pub fn children(&self, link: Link) -> Vec<usize> {
        (0..self.segments.len()).filter(|s| self.segments[*s].head == Head::Link(link)).collect()
    }

    /// The chain that an exchange leads to, and the one it comes from.
    #[must_use]
    pub fn ends(&self, edge: Edge) -> Option<(usize, usize)> {
        let from = self.chains.iter().position(|c| c.outputs.contains(&edge))?;
        let to = self.chains.iter().position(|c| c.inputs.contains(&edge))?;
        Some((from, to))
    }

    /// Whether an exchange comes from a chain that reads a source.
    #[must_use]
    pub fn comes_from_source(&self, edge: Edge) -> bool {
        self.ends(edge).is_some_and(|(from, _)| matches!(self.segments[self.chains[from].root].head, Head::Source(_)))
    }

    fn check_names(&self) -> Result<()> {
        let mut seen = BTreeSet::new();
        for operator in self.segments.iter().flat_map(|s| &s.operators) {
            if !seen.insert(&operator.name) {
                return Err(invalid(
                    "J003",
                    &format!("the name \"{}\" is used for two operators", operator.name),
                    "give each source, stateful operator and sink a name of its own: names are the identity of state across versions",
                )
                .at(format!("operator={} kind={:?}", operator.name, operator.kind)));
            }
        }
        Ok(())
    }

    fn check_ends(&self) -> Result<()> {
        for segment in &self.segments {
            let name = segment.operators.last().map_or("?", |o| o.name.as_str());
            let missing = segment.outputs.iter().any(|output| match output {
                Output::Edge(edge) => self.ends(*edge).is_none(),
                Output::Link(link) => self.children(*link).is_empty(),
                Output::Sink(_) => false,
            });
            if missing || segment.outputs.is_empty() {
                let what = format!("the stream after \"{name}\" goes nowhere");
                return Err(
                    invalid("J004", &what, "end it in a sink, or in `.discard(name)` if nobody needs it").at(format!("operator={name}"))
                );
            }
        }
        Ok(())
    }

    /// Tasks of all chains.
    #[must_use]
    pub fn tasks(&self) -> u32 {
        self.chains.iter().map(|c| c.parallelism).sum()
    }

    /// The operators of a chain, in order.
    pub fn operators(&self, chain: usize) -> impl Iterator<Item = &OperatorPlan> {
        self.chains[chain].segments.iter().flat_map(|s| &self.segments[*s].operators)
    }

    /// What must be equal on every node and between versions that share state: operators and their kinds, not parallelism.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let parts: Vec<(String, String)> =
            self.segments.iter().flat_map(|s| &s.operators).map(|o| (o.name.to_string(), format!("{:?}", o.kind))).collect();
        staunch_types::stable_hash(&parts)
    }

    /// What each operator is, for the manifest.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<Name, String> {
        self.segments.iter().flat_map(|s| &s.operators).map(|o| (o.name.clone(), o.description.clone())).collect()
    }

    /// The chains, for the manifest.
    #[must_use]
    pub fn stored_chains(&self) -> Vec<staunch_format::manifest::ChainPlan> {
        let chain = |number: usize| staunch_format::manifest::ChainPlan {
            operators: self.operators(number).map(|o| o.name.clone()).collect(),
            parallelism: self.chains[number].parallelism,
        };
        (0..self.chains.len()).map(chain).collect()
    }

    /// The graph, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut out = String::new();
        for (number, chain) in self.chains.iter().enumerate() {
            let _ = writeln!(out, "chain {number}, parallelism {}", chain.parallelism);
            for segment in &chain.segments {
                for operator in &self.segments[*segment].operators {
                    let kept = match operator.kind {
                        OperatorKind::Stateless => "",
                        OperatorKind::Source => " [positions]",
                        OperatorKind::EventTime => " [clocks]",
                        OperatorKind::Keyed => " [keyed state]",
                        OperatorKind::Sink => " [prepared output]",
                    };
                    let _ = writeln!(out, "  {}: {}{kept}", operator.name, operator.description);
                }
                for output in &self.segments[*segment].outputs {
                    if let Output::Edge(edge) = output
                        && let Some((_, to)) = self.ends(*edge)
                    {
                        let _ = writeln!(out, "    -> chain {to}");
                    }
                }
            }
        }
        out
    }
}

fn invalid(code: &str, what: &str, remedy: &str) -> Error {
    Error::new(ErrorKind::Invalid, code, what).data("nothing was started").remedy(remedy)
}
