//! The tasks of one generation: sources, channels, writers; each with the machines that a real task has.
//!
//! Owns: what a task does on a record, a barrier, a message. Does not own: when; the world chooses.

use std::collections::{BTreeMap, VecDeque};

use staunch_types::{Epoch, Generation, TaskId, Tick};

use super::outside::{Outside, Records};
use super::scenario::{Ends, Scenario};
use super::shared::Shared;
use crate::align::{self, Align, ChannelIndex};
use crate::commit::Prepared;
use crate::{Attempt, CommittableId};

/// What flows in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Item {
    Record(Records),
    Barrier(Epoch),
    End,
}

/// What a task tells its coordinator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Report {
    /// The position is the snapshot: of a source, its next record; of a writer, nothing.
    Acked {
        attempt: Attempt,
        position: u8,
        committables: Vec<CommittableId>,
    },
    Declined {
        attempt: Attempt,
    },
    Finished,
}

/// What a coordinator tells a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Order {
    Trigger { epoch: Epoch, stop: bool },
    Abandon { epoch: Epoch },
    Durable { epoch: Epoch },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Task {
    align: Align,
    prepared: Prepared,
    position: u8,
    stopped: bool,
    ended: bool,
    /// Sources whose end has come, where channels stay open.
    inputs_ended: u32,
}

/// All tasks of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    generation: Generation,
    tasks: BTreeMap<TaskId, Task>,
    /// From a source to a writer.
    channels: BTreeMap<(TaskId, TaskId), VecDeque<Item>>,
}

/// What a group acts upon.
pub(super) struct Surroundings<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) outside: &'a mut Shared<Outside>,
    /// Whether a newer generation has been claimed.
    pub(super) late: bool,
    pub(super) reports: &'a mut Vec<(TaskId, Report)>,
}

impl Group {
    pub(super) fn start(scenario: &Scenario, generation: Generation, restored: Epoch, positions: &[u8]) -> Group {
        let task = |channels, position| Task {
            align: Align::recover(align::Facts { channels, restored }),
            prepared: Prepared::default(),
            position,
            stopped: false,
            ended: false,
            inputs_ended: 0,
        };
        let sources = scenario.source_tasks().into_iter().zip(positions).map(|(id, position)| (id, task(0, *position)));
        let writers = scenario.writer_tasks().into_iter().map(|id| (id, task(scenario.sources, 0)));
        let pairs = scenario.source_tasks().into_iter().flat_map(|from| scenario.writer_tasks().into_iter().map(move |to| (from, to)));
        Group { generation, tasks: sources.chain(writers).collect(), channels: pairs.map(|pair| (pair, VecDeque::new())).collect() }
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.tasks.keys().copied()
    }

    /// Sources that can emit a record or end.
    pub(super) fn sources_ready(&self) -> Vec<TaskId> {
        self.tasks.iter().filter(|(id, task)| id.chain == 0 && !task.ended && !task.stopped).map(|(id, _)| *id).collect()
    }

    /// Channels from which their writer can take.
    pub(super) fn channels_ready(&self) -> Vec<(TaskId, TaskId)> {
        let ready = |((from, to), items): &(&(TaskId, TaskId), &VecDeque<Item>)| {
            !items.is_empty() && !self.tasks[to].align.is_blocked(ChannelIndex(from.index))
        };
        self.channels.iter().filter(ready).map(|(pair, _)| *pair).collect()
    }

    /// A channel from which its writer can take a record.
    pub(super) fn record_ready(&self) -> Option<(TaskId, TaskId)> {
        self.channels_ready().into_iter().find(|pair| matches!(self.channels[pair].front(), Some(Item::Record(_))))
    }

    /// A source emits its next record, or its end.
    pub(super) fn emit(&mut self, source: TaskId, around: &mut Surroundings) {
        let Some(task) = self.tasks.get_mut(&source) else { return };
        if task.position == around.scenario.records[source.index as usize] {
            task.ended = true;
            around.reports.push((source, Report::Finished));
            self.send(source, Item::End, around);
            return;
        }
        let record = around.scenario.record(source, task.position);
        task.position += 1;
        if around.scenario.writers == 0 {
            self.write(source, record, around);
        } else {
            self.send(source, Item::Record(record), around);
        }
    }

    /// A writer takes the next item of a channel.
    pub(super) fn take(&mut self, from: TaskId, to: TaskId, around: &mut Surroundings) {
        let Some(item) = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return };
        let channel = ChannelIndex(from.index);
        match item {
            Item::Record(record) => self.write(to, record, around),
            Item::Barrier(epoch) => self.align(to, align::Event::BarrierArrived { channel, epoch }, around),
            Item::End => match around.scenario.ends {
                Ends::CloseChannels => self.align(to, align::Event::ChannelEnded { channel }, around),
                Ends::KeepChannels => self.input_ended(to, around),
            },
        }
    }

    fn input_ended(&mut self, id: TaskId, around: &mut Surroundings) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.inputs_ended += 1;
        if task.inputs_ended == around.scenario.sources {
            around.reports.push((id, Report::Finished));
        }
    }

    /// A task hears from its coordinator.
    pub(super) fn hear(&mut self, id: TaskId, order: Order, around: &mut Surroundings) {
        let attempt = |epoch| Attempt { epoch, generation: self.generation };
        match order {
            Order::Trigger { epoch, stop } => {
                if let Some(task) = self.tasks.get_mut(&id) {
                    task.stopped |= stop;
                }
                self.align(id, align::Event::Triggered { epoch }, around);
            }
            Order::Abandon { epoch } => self.align(id, align::Event::EpochAbandoned { epoch }, around),
            Order::Durable { epoch } => {
                let attempt = attempt(epoch);
                if let Some(task) = self.tasks.get_mut(&id) {
                    task.prepared.durable(attempt);
                }
            }
        }
    }

    fn align(&mut self, id: TaskId, event: align::Event, around: &mut Surroundings) {
        let mut effects = Vec::new();
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.align.step(Tick::default(), event, &mut effects);
        for effect in effects {
            match effect {
                align::Effect::SnapshotNow { epoch } => self.snapshot(id, epoch, around),
                align::Effect::Declined { epoch } => {
                    around.reports.push((id, Report::Declined { attempt: Attempt { epoch, generation: self.generation } }));
                }
                align::Effect::InputEnded => around.reports.push((id, Report::Finished)),
                // Which channels are blocked is read from the machine itself.
                align::Effect::BlockChannel { .. } | align::Effect::UnblockAll => {}
            }
        }
    }

    fn snapshot(&mut self, id: TaskId, epoch: Epoch, around: &mut Surroundings) {
        let attempt = Attempt { epoch, generation: self.generation };
        self.send(id, Item::Barrier(epoch), around);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        for sink in around.scenario.sinks_of(id) {
            let committable = CommittableId { attempt, sink, task: id, number: 0 };
            if around.outside.is_open(committable) {
                around.outside.change().prepare(committable);
                task.prepared.add(committable);
            }
        }
        let committables = task.prepared.named_by(attempt);
        around.reports.push((id, Report::Acked { attempt, position: task.position, committables }));
    }

    fn write(&mut self, id: TaskId, record: Records, around: &mut Surroundings) {
        for sink in around.scenario.sinks_of(id) {
            around.outside.change().write(self.generation, id, sink, record, around.late);
        }
    }

    fn send(&mut self, from: TaskId, item: Item, around: &Surroundings) {
        // Behind the end of its channels a source has no barrier to forward.
        let ended = self.tasks[&from].ended && item != Item::End && around.scenario.ends == Ends::CloseChannels;
        for ((sender, _), items) in &mut self.channels {
            if *sender == from && !ended {
                items.push_back(item);
            }
        }
    }
}
