//! The plan of a job, for people: its graph, the state it keeps, and what is guaranteed between each source and each sink.

use std::collections::BTreeSet;
use std::fmt::Write;

use staunch_engine::cluster::Restore;
use staunch_engine::job::{Head, OperatorKind, Output, Plan, Settings};
use staunch_types::Name;

use crate::time;

/// All that `plan` prints.
pub(crate) fn describe(job: &Name, plan: &Plan, settings: &Settings) -> String {
    let mut out = format!("job {job}\n\n{}\n", plan.describe());
    let place = settings
        .checkpoint_directory
        .as_deref()
        .map_or_else(|| "a temporary directory".into(), |d| d.join(job.component()).display().to_string());
    let _ = writeln!(
        out,
        "checkpoints each {} in {place}, {} kept; {} key groups; {} workers\n",
        time::show(settings.run.interval),
        settings.run.retained,
        settings.run.groups.get(),
        settings.workers
    );
    for (source, sink) in ways(plan) {
        let (guarantee, weakest) = guarantee(plan, &sink, settings);
        let _ = writeln!(out, "{source} -> {sink}: {guarantee}\n  weakest link: {weakest}");
    }
    out
}

/// Each source with each sink that its records can reach.
fn ways(plan: &Plan) -> Vec<(Name, Name)> {
    let mut ways = Vec::new();
    for source in plan.sources.keys() {
        let mut waiting: Vec<usize> = (0..plan.segments.len()).filter(|s| plan.segments[*s].head == Head::Source(source.clone())).collect();
        let (mut seen, mut sinks) = (BTreeSet::new(), BTreeSet::new());
        while let Some(at) = waiting.pop() {
            if !seen.insert(at) {
                continue;
            }
            for output in &plan.segments[at].outputs {
                match output {
                    Output::Sink(sink) => drop(sinks.insert(sink.clone())),
                    Output::Link(link) => waiting.extend(plan.children(*link)),
                    Output::Edge(edge) => waiting.extend(plan.ends(*edge).map(|(_, to)| plan.chains[to].root)),
                }
            }
        }
        ways.extend(sinks.into_iter().map(|sink| (source.clone(), sink)));
    }
    ways
}

/// What holds between a source and a sink, and what it hangs on most.
fn guarantee(plan: &Plan, sink: &Name, settings: &Settings) -> (&'static str, String) {
    let operators = plan.segments.iter().flat_map(|s| &s.operators);
    let written = plan.sinks.contains_key(sink);
    if !written && operators.into_iter().any(|o| o.name == *sink && o.kind == OperatorKind::Sink) {
        return ("counted, not written", "the records are dropped at the end".into());
    }
    if settings.checkpoint_directory.is_none() {
        let why = "there is no checkpoint directory: started again, the job reads its input from the beginning; a file sink refuses a \
                   directory that holds its earlier output, another sink writes it again (--checkpoint-dir gives the job one)";
        return ("exactly once while this process lives", why.into());
    }
    if settings.run.restore == Restore::Nothing {
        let why = "--restore none: what earlier runs committed stays, and is written again";
        return ("exactly once from this start on", why.into());
    }
    if settings.run.accept_lost.contains(sink) {
        return (
            "exactly once, but for output that is provably lost",
            format!("--accept-lost {sink}: lost output is recorded and passed over"),
        );
    }
    let kind = plan.sinks.get(sink).map_or("", |s| s.kind);
    let why = if kind == staunch_files::FILE_SINK_KIND {
        "prepared files (hidden, in the output directory) must stay there until they are committed; if one is taken away, the job stops and says so"
    } else {
        "the outside must keep prepared output until it is committed; if it does not, the job stops and says so"
    };
    ("exactly once", why.into())
}
