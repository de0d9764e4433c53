//! The committers of a job, and the operations under way at each.
//!
//! Owns: one committer per sink, used by one operation at a time, behind the door. Does not own: when to do what.

use std::collections::{BTreeMap, VecDeque};

use staunch_api::{Committable, Io, Pending, Proof, Resolution, SweepScope};
use staunch_protocol::commit::{Answer, Verdict};
use staunch_protocol::{CommitPermit, CommittableId, OpId, SinkId};
use staunch_types::{Error, ErrorKind, Name, Result};

use crate::observe::Deed;
use crate::sink::CommitterDyn;

/// All committers.
#[derive(Default)]
pub(super) struct Committers {
    sinks: BTreeMap<SinkId, Queue>,
}

struct Queue {
    name: Name,
    committer: Option<CommitterDyn>,
    waiting: VecDeque<(OpId, Work)>,
    running: Option<Pending<(CommitterDyn, OpId, Outcome)>>,
    /// Committables whose copies may go; done when there is nothing else to do.
    proven: VecDeque<Committable>,
    forgetting: Option<Pending<CommitterDyn>>,
}

/// One operation.
pub(super) enum Work {
    Commit(CommittableId, Committable, CommitPermit),
    Resolve(CommittableId, Committable),
    Resend(CommittableId, Committable, CommitPermit),
    Sweep(SweepScope),
}

/// What came of one.
pub(super) struct Outcome {
    /// For the machine.
    pub(super) answer: Answer,
    /// What was done with which committable.
    pub(super) deed: Option<(CommittableId, Deed)>,
    /// The proof, of a commit that was done or found done.
    pub(super) proof: Option<Proof>,
    /// The reason, when something did not work or is lost.
    pub(super) error: Option<Error>,
    /// What a sweep removed.
    pub(super) swept: Vec<String>,
}

impl Committers {
    /// Adds a sink's committer.
    pub(super) fn add(&mut self, sink: SinkId, name: Name, committer: CommitterDyn) {
        self.sinks.insert(
            sink,
            Queue { name, committer: Some(committer), waiting: VecDeque::new(), running: None, proven: VecDeque::new(), forgetting: None },
        );
    }

    /// Queues an operation.
    pub(super) fn submit(&mut self, sink: SinkId, op: OpId, work: Work) {
        if let Some(queue) = self.sinks.get_mut(&sink) {
            queue.waiting.push_back((op, work));
        }
    }

    /// The copies of committables of a sink may go.
    pub(super) fn forget(&mut self, sink: SinkId, proven: impl Iterator<Item = Committable>) {
        if let Some(queue) = self.sinks.get_mut(&sink) {
            queue.proven.extend(proven);
        }
    }

    /// Moves on; the outcomes that are there.
    pub(super) fn poll(&mut self, io: &Io) -> Vec<(OpId, Outcome)> {
        let mut done = Vec::new();
        for queue in self.sinks.values_mut() {
            if let Some(pending) = &mut queue.running
                && let Some((committer, op, outcome)) = pending.poll()
            {
                queue.running = None;
                queue.committer = Some(committer);
                done.push((op, outcome));
            }
            if let Some(committer) = queue.forgetting.as_mut().and_then(Pending::poll) {
                queue.forgetting = None;
                queue.committer = Some(committer);
            }
            if queue.running.is_none()
                && !queue.waiting.is_empty()
                && let Some(mut committer) = queue.committer.take()
                && let Some((op, work)) = queue.waiting.pop_front()
            {
                let name = queue.name.clone();
                queue.running = Some(io.run(move || {
                    let outcome = perform(committer.as_mut(), work, &name);
                    (committer, op, outcome)
                }));
            }
            if !queue.proven.is_empty()
                && let Some(mut committer) = queue.committer.take()
            {
                let proven = std::mem::take(&mut queue.proven);
                queue.forgetting = Some(io.run(move || {
                    // A copy that cannot be removed now is removed by the next sweep.
                    proven.iter().for_each(|committable| drop(committer.forget(committable)));
                    committer
                }));
            }
        }
        done
    }
}

fn perform(committer: &mut dyn staunch_api::Committer, work: Work, sink: &Name) -> Outcome {
    match work {
        Work::Commit(id, committable, permit) => outcome(committer.commit(&committable, &permit), id, Deed::Committed, sink),
        Work::Resolve(id, committable) => {
            let (verdict, deed, proof, error) = match committer.resolve(&committable) {
                Ok(Resolution::Committed(proof)) => (Verdict::Committed, Some((id, Deed::Committed)), Some(proof), None),
                Ok(Resolution::Pending) => (Verdict::Pending, None, None, None),
                Ok(Resolution::Lost { evidence }) => {
                    (Verdict::Lost, Some((id, Deed::Lost)), None, Some(lost(sink, &committable, &evidence)))
                }
                Err(error) => return failed(error, Some(id), sink),
            };
            Outcome { answer: Answer::Resolved(verdict), deed, proof, error, swept: Vec::new() }
        }
        Work::Resend(id, committable, permit) => outcome(committer.resend(&committable, &permit), id, Deed::Resent, sink),
        Work::Sweep(scope) => match committer.sweep(&scope) {
            Ok(swept) => Outcome { answer: Answer::Done, deed: None, proof: None, error: None, swept: swept.removed },
            Err(error) => failed(error, None, sink),
        },
    }
}

fn outcome(result: Result<Proof>, id: CommittableId, deed: Deed, sink: &Name) -> Outcome {
    match result {
        Ok(proof) => Outcome { answer: Answer::Done, deed: Some((id, deed)), proof: Some(proof), error: None, swept: Vec::new() },
        Err(error) => failed(error, Some(id), sink),
    }
}

fn failed(error: Error, id: Option<CommittableId>, sink: &Name) -> Outcome {
    let answer = Answer::Failed { kind: error.kind() };
    let deed = id.map(|id| (id, Deed::Failed));
    Outcome { answer, deed, proof: None, error: Some(error.at(format!("sink={sink}"))), swept: Vec::new() }
}

fn lost(sink: &Name, committable: &Committable, evidence: &str) -> Error {
    Error::new(ErrorKind::Lost, "C007", format!("prepared output of epoch {} is lost: {evidence}", committable.epoch))
        .at(format!(
            "sink={sink} epoch={} generation={} task={} output={} records={}",
            committable.epoch, committable.generation, committable.task_index, committable.description, committable.digest.records
        ))
        .data("the checkpoint counts these records as written, but they are not and cannot become visible; everything else is intact")
        .remedy("find out who removed the prepared output and put it back, then start again; or, to go on without these records and have that recorded, start with `--accept-lost SINK`")
}
