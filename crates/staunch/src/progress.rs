//! What a person sees of a running job: a bar on a terminal, plain lines elsewhere, a summary at the end. All on standard error.
//!
//! Owns: the counting over epochs and restarts, the words. Does not own: the events (staunch-engine).
//!
//! Invariant: progress is at most one line a second; what went wrong, and each start, is always told.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use staunch_engine::cluster::{JobEvent, Restore};
use staunch_engine::job::{OperatorKind, Plan, Settings};
use staunch_engine::runtime::{Clock, SystemClock};
use staunch_protocol::Reason;
use staunch_types::{Epoch, Name, Result, Tick};

use crate::environment::Tell;
use crate::exit::say;
use crate::run::Watch;
use crate::time;

/// Between two lines, at least.
const LINE_PAUSE: Duration = Duration::from_secs(1);

/// What a checkpoint means for what is read after it, when event time had run to its end in it.
pub(crate) const TIME_HAS_ENDED: &str =
    "was the end of event time: all windows have fired, and windows take as late whatever is read from now on";

/// The watcher of one run.
pub(crate) struct Progress {
    job: Name,
    sources: Vec<Name>,
    sinks: Vec<Name>,
    has_event_time: bool,
    tell: Option<Tell>,
    clock: SystemClock,
    began: Tick,
    show: Show,
    total: Counted,
    /// As of the last line.
    shown: (Tick, Counted),
    restarts: u64,
    ran: bool,
}

/// How progress is shown.
enum Show {
    Bar(ProgressBar),
    Lines,
    Nothing,
}

/// What was counted so far, in durable epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    read: u64,
    written: u64,
    late: u64,
    rejected: u64,
    epochs: u64,
    newest: Epoch,
    took: Duration,
}

impl Progress {
    /// One that nobody looks at; `tell` still hears all.
    pub(crate) fn silent(job: &Name, plan: &Plan, tell: Option<Tell>) -> Progress {
        let named = |kind: OperatorKind| {
            let all = plan.segments.iter().flat_map(|s| &s.operators);
            all.filter(|o| o.kind == kind).map(|o| o.name.clone()).collect::<Vec<_>>()
        };
        let clock = SystemClock::new();
        let began = clock.now();
        Progress {
            job: job.clone(),
            sources: named(OperatorKind::Source),
            sinks: named(OperatorKind::Sink),
            has_event_time: !named(OperatorKind::EventTime).is_empty(),
            tell,
            clock,
            began,
            show: Show::Nothing,
            total: Counted::default(),
            shown: (began, Counted::default()),
            restarts: 0,
            ran: false,
        }
    }

    /// One for a person, which says at once what the job will and will not survive.
    pub(crate) fn shown(job: &Name, plan: &Plan, settings: &Settings, tell: Option<Tell>) -> Progress {
        let mut progress = Progress::silent(job, plan, tell);
        progress.show = if std::io::stderr().is_terminal() { Show::Bar(bar()) } else { Show::Lines };
        let tasks = plan.tasks();
        let interval = time::show(settings.run.interval);
        match &settings.checkpoint_directory {
            Some(directory) => {
                progress.line(&format!("{tasks} tasks; a checkpoint each {interval} in {}", directory.join(job.component()).display()))
            }
            None => progress.line(&format!(
                "{tasks} tasks; WITHOUT a checkpoint directory: the job will not survive a crash, and starts from the beginning of its \
                 input each time (--checkpoint-dir gives it one)"
            )),
        }
        match settings.run.restore {
            Restore::Latest => {}
            Restore::Nothing => {
                progress.line("begins with the input, as --restore asks: what earlier runs committed stays, and is written again")
            }
            Restore::Epoch(epoch) => progress
                .line(&format!("goes on from epoch {epoch}, as --restore asks: what later epochs committed stays, and is written again")),
        }
        progress
    }

    /// Says where figures are served.
    pub(crate) fn listens(&self, address: Option<SocketAddr>) {
        if let Some(address) = address {
            self.line(&format!("figures for Prometheus at http://{address}/metrics"));
        }
    }

    /// Whether any task ran.
    pub(crate) fn ran(&self) -> bool {
        self.ran
    }

    /// The run is over.
    pub(crate) fn end(&mut self, result: &Result<Reason>) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
        let how = match result {
            Ok(Reason::Stop) => "stopped as asked; started again, it goes on from here",
            Ok(Reason::Drain) => "stopped as asked, with event time run to its end",
            Ok(Reason::Final | Reason::Interval | Reason::Savepoint) => "finished: all input is read, all output committed",
            Err(_) => "failed",
        };
        let Counted { read, written, late, rejected, epochs, newest, .. } = self.total;
        let mut text = format!("{how}; {} records read, {} written", HumanCount(read), HumanCount(written));
        for (count, what) in [(late, "late"), (rejected, "rejected")] {
            if count > 0 {
                text += &format!(", {} {what}", HumanCount(count));
            }
        }
        let elapsed = self.clock.now().since(self.began);
        text += &format!("; {epochs} epochs, the last is {newest}; {} restarts; {}", self.restarts, time::show(elapsed));
        self.line(&text);
    }

    fn line(&self, text: &str) {
        let text = format!("{}: {text}", self.job);
        match &self.show {
            Show::Bar(bar) => bar.suspend(|| say(&text)),
            Show::Lines => say(&text),
            Show::Nothing => {}
        }
    }

    fn count(&mut self, event: &JobEvent) {
        if let JobEvent::EpochDurable { epoch, took, counts, committables: _ } = event {
            let of = |names: &[Name]| names.iter().filter_map(|n| counts.get(n)).map(|c| c.records_in).sum::<u64>();
            self.total.read += of(&self.sources);
            self.total.written += of(&self.sinks);
            self.total.late += counts.values().map(|c| c.late).sum::<u64>();
            self.total.rejected += counts.values().map(|c| c.rejected).sum::<u64>();
            self.total.epochs += 1;
            self.total.newest = *epoch;
            self.total.took = *took;
        }
    }

    fn describe(&mut self, now: Tick) -> String {
        let (at, before) = std::mem::replace(&mut self.shown, (now, self.total));
        let seconds = now.since(at).as_secs_f64().max(0.001);
        let rate = self.total.read.saturating_sub(before.read) as f64 / seconds;
        format!(
            "epoch {} durable in {}; {} records/s; {} read, {} written",
            self.total.newest,
            time::show(self.total.took),
            HumanCount(rate as u64),
            HumanCount(self.total.read),
            HumanCount(self.total.written)
        )
    }
}

impl Watch for Progress {
    fn hear(&mut self, event: &JobEvent) {
        if let Some(tell) = &mut self.tell {
            tell(event);
        }
        self.count(event);
        match event {
            JobEvent::Claimed { generation, restored: Some(epoch), reason } => {
                self.line(&format!("generation {generation} goes on from epoch {epoch}"));
                if self.has_event_time && reason.is_some_and(Reason::ends_time) {
                    self.line(&format!("epoch {epoch} {TIME_HAS_ENDED}"));
                }
            }
            JobEvent::Claimed { generation, restored: None, reason: _ } => {
                self.line(&format!("generation {generation} begins with the input"))
            }
            JobEvent::Swept { removed } => self.line(&format!("removed unfinished output of older generations: {}", removed.len())),
            JobEvent::Running { tasks: _ } => self.ran = true,
            JobEvent::EpochFailed { epoch, error } => self.line(&format!("epoch {epoch} was given up: {error}")),
            JobEvent::Restarting { error, wait } => {
                self.restarts += 1;
                self.line(&format!("starts again in {}: {error}", time::show(*wait)));
            }
            JobEvent::EpochDurable { .. } | JobEvent::EpochCommitted { .. } | JobEvent::Finished { .. } => {}
        }
        self.look();
    }

    fn look(&mut self) {
        if let Show::Bar(bar) = &self.show {
            bar.tick();
        }
        let now = self.clock.now();
        if now.since(self.shown.0) < LINE_PAUSE || self.total == self.shown.1 {
            return;
        }
        let text = self.describe(now);
        match &self.show {
            Show::Bar(bar) => bar.set_message(format!("{}: {text}", self.job)),
            Show::Lines => self.line(&text),
            Show::Nothing => {}
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}
