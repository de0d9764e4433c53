//! Preflight as a command: looks at everything that a run needs, changes nothing that lasts, and says what it found.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use staunch_api::{CheckpointStore, SinkContext, SourceContext};
use staunch_engine::checkpoint::{LocalStore, SinkNames};
use staunch_engine::cluster::RunConfig;
use staunch_engine::job::{Head, OperatorKind, Plan, Settings};
use staunch_engine::runtime::World;
use staunch_engine::sink::sink_context;
use staunch_types::{Error, Generation, LedgerId, Name, Result};

use crate::progress::TIME_HAS_ENDED;
use crate::run;

/// Looks at everything, and prints a line for each thing.
///
/// # Errors
/// The first of what was found, after everything was looked at.
pub(crate) fn check(
    job: &Name,
    plan: &Plan,
    settings: &Settings,
    world: &World,
    listens: Option<Result<SocketAddr>>,
    out: &mut dyn Write,
) -> Result<()> {
    let mut report = Report { out, first: None };
    report.line("ok", &format!("plan: {} chains, {} tasks", plan.chains.len(), plan.tasks()));
    let (ledger, generation) = store(job, plan, settings, world, &mut report);
    let root = settings.checkpoint_directory.clone().unwrap_or_default();
    let own: Arc<dyn CheckpointStore> = Arc::new(LocalStore::new(Arc::clone(&world.file_system), &root, "check"));
    let config = RunConfig { job: job.clone(), ..settings.run.clone() };
    if let Some(listens) = listens {
        report.answer("http", listens.map(|address| format!("it can listen at {address}")));
    }
    for sink in plan.sinks.values() {
        let context = SinkContext { ledger, generation, ..sink_context(&config, world, &own, &sink.name) };
        let what = format!("sink {}: {}", sink.name, sink.description);
        report.answer(&what, (sink.check)(&context).map(|()| String::new()).map_err(|e| e.at(format!("sink={}", sink.name))));
    }
    for chain in &plan.chains {
        let Head::Source(name) = &plan.segments[chain.root].head else { continue };
        let source = &plan.sources[name];
        let (file_system, metrics) = (Arc::clone(&world.file_system), world.metrics.clone());
        let context = SourceContext { name: name.clone(), parallelism: chain.parallelism, file_system, metrics };
        let found = (source.enumerator)(&context, None).and_then(|mut enumerator| enumerator.discover());
        let answer = found.map(|found| {
            let bounded = if found.again_after.is_some() { ", and looks for more" } else { "" };
            format!("{} splits{bounded}", found.splits.len())
        });
        report.answer(&format!("source {name}: {}", source.description), answer.map_err(|e| e.at(format!("source={name}"))));
    }
    report.first.map_or(Ok(()), Err)
}

/// Looks at the checkpoints; what tells their ledger from others, if it is begun, and its newest generation.
fn store(job: &Name, plan: &Plan, settings: &Settings, world: &World, report: &mut Report<'_>) -> (Option<LedgerId>, Generation) {
    if settings.checkpoint_directory.is_none() {
        report.line("warn", "checkpoints: there is no directory, so the job does not survive a crash; --checkpoint-dir gives it one");
        return (Some(LedgerId::default()), Generation::default());
    }
    let opened = match run::open(settings, job, world) {
        Ok(opened) => opened,
        Err(error) => {
            report.answer("checkpoint store", Err(error));
            return (None, Generation::default());
        }
    };
    let address = opened.catalog.store().describe();
    let probed = opened
        .catalog
        .probe(staunch_engine::runtime::random_number())
        .map(|()| "create, create conditionally, read, list, remove".to_owned());
    report.answer(&format!("checkpoint store {address}"), probed);
    let names: Vec<(Name, &'static str)> = plan.sinks.values().map(|s| (s.name.clone(), s.kind)).collect();
    let loaded = opened.catalog.load(settings.run.restore, &SinkNames::new(names));
    let known = loaded.as_ref().map_or((None, Generation::default()), |loaded| (loaded.ledger, loaded.facts.generation));
    let told = loaded.map(|loaded| match &loaded.restored {
        Some(record) => {
            let ended = if record.reason.ends_time() && has_event_time(plan) { format!(", which {TIME_HAS_ENDED}") } else { String::new() };
            format!("the job goes on from epoch {}{ended}; {} epochs have output to commit", record.epoch(), loaded.uncommitted.len())
        }
        None => "the job begins with its input".into(),
    });
    report.answer("checkpoint", told);
    known
}

fn has_event_time(plan: &Plan) -> bool {
    plan.segments.iter().flat_map(|s| &s.operators).any(|o| o.kind == OperatorKind::EventTime)
}

struct Report<'a> {
    out: &'a mut dyn Write,
    first: Option<Error>,
}

impl Report<'_> {
    fn line(&mut self, mark: &str, text: &str) {
        // Whoever reads may have gone; the exit code tells all the same.
        let _ = writeln!(self.out, "{mark:5} {text}");
    }

    fn answer(&mut self, what: &str, answer: Result<String>) {
        match answer {
            Ok(detail) if detail.is_empty() => self.line("ok", what),
            Ok(detail) => self.line("ok", &format!("{what}: {detail}")),
            Err(error) => {
                self.line("FAIL", &format!("{what}: error[{}]: {}", error.code(), error.what()));
                self.first.get_or_insert(error);
            }
        }
    }
}
