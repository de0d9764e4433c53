//! The ring of transactional ids of one writing task: one is written to, those before it are prepared and wait for their commit.
//!
//! Owns: which id the present epoch's records go to, when it may be used again, when an epoch's transaction counts as prepared.
//! Does not own: the records, the mark's text, how the broker is asked; the driver does these, one at a time, in the order of the effects.
//! Orders come from the writer, answers from the broker; what is prepared goes to the writer.
//!
//! Each effect with an id is answered by one event with the same id, or by `Failed`; except `Write`, `WriteMark` (they are acknowledged
//! together) and `Report`. Orders are given only while [`Ring::takes_orders`].
//!
//! Invariants:
//! 1. An id whose transaction is prepared is not used again before the coordinator says that this very transaction is committed, and after that no
//!    partition has it open: a coordinator may forget markers, and then the next transaction of the producer would be part of the last one.
//! 2. No transaction is begun for an epoch without records.
//! 3. Prepared means: every record of the epoch, and its mark, was acknowledged; and after that the coordinator described the transaction as
//!    open, of the producer that this task itself got when it took the id over, and with another start than the one before it.
//! 4. What is prepared is reported in the order of the epochs.
//! 5. Records of the next epoch are written only when all of the last one is acknowledged: two producers' records would otherwise land in any
//!    order. An id for them is got ready meanwhile, and the last transaction is described after they are on their way.
//! 6. After a failure nothing is done any more: what is open is for the next generation to abort.

use std::collections::VecDeque;
use std::time::Duration;

use staunch_types::{Epoch, Tick};

use super::{Described, Identity, Markers, Producer, TransactionPhase};
use crate::Count;
use crate::mutation::{Mutation, broken};

/// Number of a transactional id in its task's ring, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdNumber(pub u32);

/// Bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Ids in the ring: as many as there may be uncommitted epochs, and the one in use.
    pub ids: u32,
    /// How long acknowledgements may take.
    pub acknowledged_within: Duration,
    /// How long the coordinator is left alone before it is asked again whether a transaction is committed.
    pub look_again: Duration,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Records are there to be written.
    RecordsArrived,
    /// The present epoch ends.
    PrepareAsked {
        /// The epoch.
        epoch: Epoch,
    },
    /// An id was taken over: what was open under it is aborted, whoever had it is fenced.
    TakenOver {
        /// The id.
        id: IdNumber,
    },
    /// The coordinator has described the last transaction of an id.
    Described {
        /// The id.
        id: IdNumber,
        /// What it says.
        found: Described,
    },
    /// A transaction was begun.
    Begun {
        /// The id.
        id: IdNumber,
    },
    /// All that was written to a transaction, its mark included, is acknowledged.
    Acknowledged {
        /// The id.
        id: IdNumber,
    },
    /// The partitions of the last transaction of an id were asked for its markers.
    Confirmed {
        /// The id.
        id: IdNumber,
        /// What they say.
        markers: Markers,
    },
    /// The producer knows that its last transaction is over.
    Settled {
        /// The id.
        id: IdNumber,
    },
    /// The broker refused something that was written to a transaction.
    Refused {
        /// The id.
        id: IdNumber,
    },
    /// An effect could not be carried out.
    Failed,
    /// The deadline has come.
    TimePassed,
}

/// What must be done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Take an id over, with a producer of its own from then on.
    TakeOver {
        /// The id.
        id: IdNumber,
    },
    /// Have the last transaction of an id described.
    Describe {
        /// The id.
        id: IdNumber,
    },
    /// Begin a transaction.
    Begin {
        /// The id.
        id: IdNumber,
    },
    /// Write the records that are there.
    Write {
        /// The id of the open transaction.
        id: IdNumber,
    },
    /// Write the mark of an epoch; nothing else will be written to this transaction.
    WriteMark {
        /// The id of the transaction.
        id: IdNumber,
        /// The epoch.
        epoch: Epoch,
    },
    /// Tell when all is acknowledged.
    Drain {
        /// The id of the transaction.
        id: IdNumber,
    },
    /// Ask the partitions of the last transaction of an id, which the coordinator calls committed, whether its markers are there.
    Confirm {
        /// The id.
        id: IdNumber,
    },
    /// Let the producer know that its last transaction is committed.
    Settle {
        /// The id.
        id: IdNumber,
    },
    /// Tell the writer what an epoch's records became.
    Report {
        /// The epoch.
        epoch: Epoch,
        /// The transaction; none when there were no records.
        prepared: Option<(IdNumber, Identity)>,
    },
    /// Give up, and say why.
    Fail(Failure),
}

/// Why a task can write no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// An effect could not be carried out; whoever tried knows the reason.
    Outside,
    /// The broker refused a record.
    Refused(IdNumber),
    /// Acknowledgements took too long.
    NotAcknowledged(IdNumber),
    /// The transaction of the present epoch is not the open one of this task any more.
    Gone(IdNumber),
    /// A transaction that was prepared is not in doubt any more, and the coordinator does not say that it was committed.
    NotCommitted(IdNumber),
    /// The coordinator calls a transaction committed, and a partition has it open.
    Unmarked(IdNumber),
}

/// The ids of one task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ring {
    config: Config,
    ids: Vec<Id>,
    /// The id whose turn is next.
    next: usize,
    /// The open transaction of the present epoch.
    open: Option<IdNumber>,
    /// Records wait for a transaction.
    waiting: bool,
    prepares: VecDeque<Prepare>,
    is_over: bool,
    stale: Count,
}

/// What was asked for and is not reported yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Prepare {
    epoch: Epoch,
    id: Option<IdNumber>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id {
    phase: Phase,
    /// What this task got when it took the id over.
    producer: Option<Producer>,
    /// Start of its last transaction.
    last_start_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// This task has no producer of it.
    Unused,
    TakingOver,
    /// Taken over; the coordinator is asked who has it now.
    Meeting,
    Free,
    Beginning,
    Open,
    /// Acknowledgements are waited for.
    Draining {
        until: Tick,
    },
    /// All is acknowledged; the coordinator is asked for the transaction.
    Describing,
    Prepared {
        identity: Identity,
        reported: bool,
    },
    /// The coordinator is asked whether it is committed.
    Asking(Identity),
    /// It is; its partitions are asked for the markers.
    Confirming,
    /// It is not yet; it will be asked again.
    Resting {
        identity: Identity,
        until: Tick,
    },
    Settling,
}

impl Ring {
    /// The ring of a task that starts: nothing of it is durable, as its ids are taken over one by one.
    #[must_use]
    pub fn recover(config: Config) -> Ring {
        assert!(config.ids > 0, "a ring has at least one id");
        let id = Id { phase: Phase::Unused, producer: None, last_start_ms: None };
        Ring {
            config,
            ids: vec![id; config.ids as usize],
            next: 0,
            open: None,
            waiting: false,
            prepares: VecDeque::new(),
            is_over: false,
            stale: Count::default(),
        }
    }

    /// Whether records or a prepare may come now.
    #[must_use]
    pub fn takes_orders(&self) -> bool {
        !self.waiting && !self.is_over && self.prepares.len() < self.ids.len()
    }

    /// Events after a failure, and answers that nobody waits for any more.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.stale.get()
    }

    /// Takes one event.
    ///
    /// # Panics
    /// On an order while it takes none, on an epoch that does not rise, and on an answer to what was not asked.
    pub fn step(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        if self.is_over {
            self.stale.add_one();
            return;
        }
        match event {
            Event::RecordsArrived => self.records(out),
            Event::PrepareAsked { epoch } => self.prepare(now, epoch, out),
            Event::TakenOver { id } => {
                self.moves(id, Phase::TakingOver, Phase::Meeting);
                out.push(Effect::Describe { id });
            }
            Event::Described { id, found } => self.described(now, id, found, out),
            Event::Begun { id } => self.begun(id, out),
            Event::Acknowledged { id } => self.acknowledged(id, out),
            Event::Confirmed { id, markers } => self.confirmed(id, markers, out),
            Event::Settled { id } => {
                self.moves(id, Phase::Settling, Phase::Free);
                self.acquire(out);
            }
            Event::Refused { id } => {
                if !broken(Mutation::RingIgnoresRefused) {
                    self.fail(Failure::Refused(id), out);
                }
            }
            Event::Failed => self.fail(Failure::Outside, out),
            Event::TimePassed => self.time_passed(now, out),
        }
    }

    /// When to call `step` with `TimePassed` if nothing else happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        if self.is_over {
            return None;
        }
        self.ids.iter().filter_map(|id| id.phase.until()).min()
    }

    fn records(&mut self, out: &mut Vec<Effect>) {
        assert!(self.takes_orders(), "records came while none are taken");
        match self.open {
            Some(id) => out.push(Effect::Write { id }),
            None => {
                self.waiting = true;
                self.acquire(out);
            }
        }
    }

    fn prepare(&mut self, now: Tick, epoch: Epoch, out: &mut Vec<Effect>) {
        assert!(self.takes_orders(), "a prepare of epoch={epoch} came while none are taken");
        assert!(self.prepares.back().is_none_or(|last| last.epoch < epoch), "epoch={epoch} does not rise");
        let id = self.open.take();
        self.prepares.push_back(Prepare { epoch, id });
        match id {
            Some(id) => {
                out.push(Effect::WriteMark { id, epoch });
                if broken(Mutation::RingPreparesUnacknowledged) {
                    self.id(id).phase = Phase::Describing;
                    return out.push(Effect::Describe { id });
                }
                self.id(id).phase = Phase::Draining { until: now + self.config.acknowledged_within };
                out.push(Effect::Drain { id });
            }
            None if broken(Mutation::RingBeginsEmpty) => {
                self.waiting = true;
                self.acquire(out);
                self.report(out);
            }
            None => self.report(out),
        }
    }

    /// Gets the next id ready for a transaction, if records wait for one; each answer to what this asks for leads here again.
    fn acquire(&mut self, out: &mut Vec<Effect>) {
        if !self.waiting {
            return;
        }
        let id = IdNumber(self.next as u32);
        let slot = self.id(id);
        match slot.phase {
            Phase::Unused => {
                slot.phase = Phase::TakingOver;
                out.push(Effect::TakeOver { id });
            }
            Phase::Prepared { reported: true, .. } if broken(Mutation::RingReusesUnproven) => {
                slot.phase = Phase::Beginning;
                out.push(Effect::Begin { id });
            }
            Phase::Free => {
                slot.phase = Phase::Beginning;
                out.push(Effect::Begin { id });
            }
            Phase::Prepared { identity, reported: true } => {
                slot.phase = Phase::Asking(identity);
                out.push(Effect::Describe { id });
            }
            // An answer or the time leads here again.
            Phase::Draining { .. }
            | Phase::Describing
            | Phase::Prepared { reported: false, .. }
            | Phase::TakingOver
            | Phase::Meeting
            | Phase::Beginning
            | Phase::Asking(_)
            | Phase::Confirming
            | Phase::Resting { .. }
            | Phase::Settling => {}
            Phase::Open => panic!("a transaction is open under id={} and the next one is asked for", id.0),
        }
    }

    fn begun(&mut self, id: IdNumber, out: &mut Vec<Effect>) {
        self.moves(id, Phase::Beginning, Phase::Open);
        self.next = (self.next + 1) % self.ids.len();
        self.open = Some(id);
        self.write(out);
    }

    /// Writes the records that wait, if they may be written now.
    fn write(&mut self, out: &mut Vec<Effect>) {
        let is_draining = self.ids.iter().any(|id| matches!(id.phase, Phase::Draining { .. }));
        if let Some(id) = self.open
            && self.waiting
            && (!is_draining || broken(Mutation::RingWritesAhead))
        {
            self.waiting = false;
            out.push(Effect::Write { id });
        }
    }

    fn acknowledged(&mut self, id: IdNumber, out: &mut Vec<Effect>) {
        let slot = self.id(id);
        assert!(matches!(slot.phase, Phase::Draining { .. }), "nobody waits for acknowledgements of id={}", id.0);
        slot.phase = Phase::Describing;
        self.write(out);
        out.push(Effect::Describe { id });
    }

    fn described(&mut self, now: Tick, id: IdNumber, found: Described, out: &mut Vec<Effect>) {
        let again = now + self.config.look_again;
        let slot = self.id(id);
        match slot.phase {
            Phase::Meeting => {
                let Described::Known(found) = found else { return self.fail(Failure::Gone(id), out) };
                if found.phase.is_open() {
                    return self.fail(Failure::Gone(id), out);
                }
                slot.producer = Some(found.producer);
                slot.phase = Phase::Free;
                self.acquire(out);
            }
            Phase::Describing => {
                let Some(identity) = slot.prepared(&found) else { return self.fail(Failure::Gone(id), out) };
                slot.phase = Phase::Prepared { identity, reported: false };
                slot.last_start_ms = Some(identity.start_ms);
                self.report(out);
                self.acquire(out);
            }
            Phase::Asking(identity) => match committed(identity, &found) {
                Some(true) => {
                    slot.phase = Phase::Confirming;
                    out.push(Effect::Confirm { id });
                }
                Some(false) => slot.phase = Phase::Resting { identity, until: again },
                None => self.fail(Failure::NotCommitted(id), out),
            },
            phase => panic!("nobody asked for a description of id={}, which is {phase:?}", id.0),
        }
    }

    fn confirmed(&mut self, id: IdNumber, markers: Markers, out: &mut Vec<Effect>) {
        self.moves(id, Phase::Confirming, Phase::Settling);
        match markers {
            Markers::Missing if !broken(Mutation::RingReusesUnmarked) => self.fail(Failure::Unmarked(id), out),
            Markers::Missing | Markers::Arrived | Markers::NotTold => out.push(Effect::Settle { id }),
        }
    }

    /// Reports what is prepared, as far as everything before it is.
    fn report(&mut self, out: &mut Vec<Effect>) {
        while let Some(Prepare { epoch, id }) = self.reportable().and_then(|at| self.prepares.remove(at)) {
            let prepared = id.map(|id| match &mut self.id(id).phase {
                Phase::Prepared { identity, reported } => {
                    *reported = true;
                    (id, *identity)
                }
                phase => panic!("id={} is reported as prepared and is {phase:?}", id.0),
            });
            out.push(Effect::Report { epoch, prepared });
        }
    }

    /// Which of the prepares that were asked for is reported next, if one can be.
    fn reportable(&self) -> Option<usize> {
        let is_complete = |id: IdNumber| matches!(self.ids[id.0 as usize].phase, Phase::Prepared { .. });
        let in_turn = if broken(Mutation::RingReportsOutOfTurn) { self.prepares.len() } else { 1 };
        self.prepares.iter().take(in_turn).position(|prepare| prepare.id.is_none_or(is_complete))
    }

    fn time_passed(&mut self, now: Tick, out: &mut Vec<Effect>) {
        for number in 0..self.config.ids {
            let id = IdNumber(number);
            let slot = self.id(id);
            if slot.phase.until().is_none_or(|until| until > now) {
                continue;
            }
            match slot.phase {
                Phase::Draining { .. } => return self.fail(Failure::NotAcknowledged(id), out),
                Phase::Resting { identity, .. } => {
                    slot.phase = Phase::Asking(identity);
                    out.push(Effect::Describe { id });
                }
                _ => {}
            }
        }
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<Effect>) {
        self.is_over = true;
        out.push(Effect::Fail(failure));
    }

    fn moves(&mut self, id: IdNumber, from: Phase, to: Phase) {
        let slot = self.id(id);
        assert!(slot.phase == from, "an answer for id={} came while it is {:?} and not {from:?}", id.0, slot.phase);
        slot.phase = to;
    }

    fn id(&mut self, id: IdNumber) -> &mut Id {
        let count = self.ids.len();
        self.ids.get_mut(id.0 as usize).unwrap_or_else(|| panic!("unknown id={} of {count}", id.0))
    }
}

impl Id {
    /// The identity of the transaction that this task has just completed, if that is what the coordinator describes.
    fn prepared(&self, described: &Described) -> Option<Identity> {
        let Described::Known(found) = described else { return None };
        let is_ours = self.producer == Some(found.producer) || broken(Mutation::RingTrustsAnyProducer);
        // Two transactions of one producer that began in the same millisecond could not be told apart.
        let is_new = found.start_ms != self.last_start_ms || broken(Mutation::RingTakesEqualStart);
        let start_ms = found.start_ms.filter(|_| is_ours && is_new && found.phase == TransactionPhase::Ongoing)?;
        Some(Identity { producer: found.producer, start_ms })
    }
}

impl Phase {
    fn until(&self) -> Option<Tick> {
        match self {
            Phase::Draining { until } | Phase::Resting { until, .. } => Some(*until),
            Phase::Unused
            | Phase::TakingOver
            | Phase::Meeting
            | Phase::Free
            | Phase::Beginning
            | Phase::Open
            | Phase::Describing
            | Phase::Prepared { .. }
            | Phase::Asking(_)
            | Phase::Confirming
            | Phase::Settling => None,
        }
    }
}

/// Whether a prepared transaction is committed; `None` when it is something else than in doubt or committed.
fn committed(identity: Identity, described: &Described) -> Option<bool> {
    use TransactionPhase as P;
    let Described::Known(found) = described else { return None };
    match found.phase {
        _ if !found.is(identity) => None,
        P::CompleteCommit => Some(true),
        P::Ongoing | P::PrepareCommit => Some(false),
        P::Empty | P::PrepareAbort | P::CompleteAbort | P::Dead | P::PrepareEpochFence => None,
    }
}
