use proptest::prelude::*;

use super::{MarkReading, Step, resolve};
use crate::transaction::{Described, Found, Identity, Producer, TransactionPhase};

const OURS: Producer = Producer { id: 7, epoch: 3 };
const START: i64 = 1_000_000;

fn ours() -> Identity {
    Identity { producer: OURS, start_ms: START }
}

fn known(phase: TransactionPhase, id: i64, epoch: i16, start_ms: Option<i64>) -> Described {
    let producer = Producer { id, epoch };
    Described::Known(Found { phase, producer, start_ms })
}

/// One letter a step: the table below is drawn with them.
fn letter(step: &Step) -> char {
    match step {
        Step::Committed { .. } => 'C',
        Step::Pending => 'P',
        Step::Lost { .. } => 'L',
        Step::AskMark => 'm',
        Step::AskAgain { .. } => 'a',
        Step::Unknowable { .. } => '?',
    }
}

/// All readings of a mark, in the order of the table's columns.
fn readings() -> [MarkReading; 4] {
    [MarkReading::NotAsked, MarkReading::There, MarkReading::Absent, MarkReading::PlaceGone { why: "gone".into() }]
}

/// What decides without the mark, by its letter in all columns.
const CERTAIN: [&str; 3] = ["PPPP", "CCCC", "aaaa"];
/// It was aborted; the mark tells whether the output was written again since.
const ABORTED: &str = "mCLL";
/// The mark decides: not asked, there, absent, its place gone.
const MARK: &str = "mCL?";
/// The same where the coordinator has gone back: nothing is called lost.
const GONE_BACK: &str = "mC??";

#[test]
fn every_description_with_every_mark_has_the_step_of_the_table() {
    use TransactionPhase as P;
    let [pending, committed, again] = CERTAIN;
    // Columns: the very transaction; its epoch raised by one, and by two; a later one of the same handle; a newer epoch with none begun;
    // another id; an older one of the same handle; an older epoch; a smaller id, which another broker may have given out later.
    let (m, b) = (MARK, GONE_BACK);
    let table = [
        (P::Empty, [m, m, m, m, m, m, b, b, m]),
        (P::Ongoing, [pending, again, m, m, m, m, b, b, m]),
        (P::PrepareCommit, [committed, committed, m, m, m, m, b, b, m]),
        (P::CompleteCommit, [committed, committed, m, m, m, m, b, b, m]),
        (P::PrepareAbort, [ABORTED, ABORTED, m, m, m, m, b, b, m]),
        (P::CompleteAbort, [ABORTED, ABORTED, m, m, m, m, b, b, m]),
        (P::Dead, [m, m, m, m, m, m, b, b, m]),
        (P::PrepareEpochFence, [again, again, m, m, m, m, b, b, m]),
    ];
    let seen = [
        (7, 3, Some(START)),
        (7, 4, Some(START)),
        (7, 5, Some(START)),
        (7, 3, Some(START + 1)),
        (7, 4, None),
        (8, 0, Some(START + 9)),
        (7, 3, Some(START - 1)),
        (7, 2, Some(START)),
        (6, 9, Some(START)),
    ];
    let steps = |described: &Described| readings().iter().map(|mark| letter(&resolve(ours(), described, mark))).collect::<String>();
    for (phase, expected) in table {
        for ((id, epoch, start_ms), expected) in seen.iter().zip(expected) {
            let described = known(phase, *id, *epoch, *start_ms);
            assert_eq!(steps(&described), expected, "{described:?}");
        }
    }
    assert_eq!(steps(&Described::Unknown), MARK);
}

#[test]
fn an_older_transaction_of_the_same_handle_never_commits_the_newer_one() {
    // Producer id and epoch are the same: only the start tells them apart.
    let newer = known(TransactionPhase::Ongoing, OURS.id, OURS.epoch, Some(START + 40));
    assert_eq!(resolve(ours(), &newer, &MarkReading::NotAsked), Step::AskMark);
    for reading in readings() {
        assert_ne!(resolve(ours(), &newer, &reading), Step::Pending, "{reading:?}");
    }
}

/// What may happen to a transactional id and the topic of marks.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Begin,
    Commit,
    FinishCommit,
    TimeOut,
    FinishAbort,
    Fence,
    ForgetId,
    LosePlace,
}

/// What became of our transaction, as the one who knows all sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Open,
    Committed,
    Aborted,
}

/// A coordinator and our place in the topic of marks, as Kafka keeps them.
#[derive(Clone, Debug)]
struct World {
    last: Option<(TransactionPhase, Producer, Option<i64>)>,
    place_gone: bool,
    clock: i64,
    ours_is_last: bool,
    truth: Truth,
}

impl World {
    /// Our transaction is prepared, after an earlier one that was committed.
    fn new() -> World {
        World {
            last: Some((TransactionPhase::Ongoing, OURS, Some(START))),
            place_gone: false,
            clock: START,
            ours_is_last: true,
            truth: Truth::Open,
        }
    }

    fn happen(&mut self, happening: Happening) {
        use TransactionPhase as P;
        self.clock += 1;
        let Some((phase, producer, start)) = self.last else {
            if let Happening::Fence = happening {
                self.last = Some((P::Empty, Producer { id: 100, epoch: 0 }, None));
            }
            return;
        };
        let raised = Producer { epoch: producer.epoch + 1, ..producer };
        match (happening, phase) {
            (Happening::Begin, P::Empty | P::CompleteCommit | P::CompleteAbort) => {
                self.last = Some((P::Ongoing, producer, Some(self.clock)));
                self.ours_is_last = false;
            }
            (Happening::Commit, P::Ongoing) => {
                self.last = Some((P::PrepareCommit, producer, start));
                self.decide(Truth::Committed);
            }
            (Happening::FinishCommit, P::PrepareCommit) => {
                self.last = Some((P::CompleteCommit, producer, start));
            }
            (Happening::TimeOut, P::Ongoing) => {
                self.last = Some((P::PrepareAbort, raised, start));
                self.decide(Truth::Aborted);
            }
            (Happening::FinishAbort, P::PrepareAbort) => {
                self.last = Some((P::CompleteAbort, producer, start));
            }
            (Happening::Fence, P::Empty | P::CompleteCommit | P::CompleteAbort) => self.last = Some((P::Empty, raised, None)),
            (Happening::Fence, P::Ongoing) => {
                self.last = Some((P::PrepareEpochFence, raised, start));
            }
            (Happening::FinishAbort, P::PrepareEpochFence) => {
                self.last = Some((P::PrepareAbort, producer, start));
                self.decide(Truth::Aborted);
            }
            (Happening::ForgetId, P::Empty | P::CompleteCommit | P::CompleteAbort) => {
                self.last = None;
                self.ours_is_last = false;
            }
            (Happening::LosePlace, _) => self.place_gone = true,
            _ => {}
        }
    }

    fn decide(&mut self, truth: Truth) {
        if self.ours_is_last && self.truth == Truth::Open {
            self.truth = truth;
        }
    }

    fn described(&self) -> Described {
        self.last.map_or(Described::Unknown, |(phase, producer, start)| known(phase, producer.id, producer.epoch, start))
    }

    /// What a reader of the topic of marks finds, who waits until every transaction there has ended.
    fn mark(&self) -> MarkReading {
        match self.truth {
            _ if self.place_gone => MarkReading::PlaceGone { why: "gone".into() },
            Truth::Committed => MarkReading::There,
            Truth::Open | Truth::Aborted => MarkReading::Absent,
        }
    }
}

proptest! {
    #[test]
    fn the_verdict_agrees_with_what_happened(happenings in prop::collection::vec(happening(), 0..24)) {
        let mut world = World::new();
        for happening in happenings {
            world.happen(happening);
            let first = resolve(ours(), &world.described(), &MarkReading::NotAsked);
            let step = if first == Step::AskMark { resolve(ours(), &world.described(), &world.mark()) } else { first };
            match &step {
                Step::Committed { .. } => prop_assert_eq!(world.truth, Truth::Committed, "{:?}", world),
                Step::Pending => prop_assert_eq!(world.truth, Truth::Open, "{:?}", world),
                Step::Lost { .. } => prop_assert_eq!(world.truth, Truth::Aborted, "{:?}", world),
                Step::AskMark => prop_assert!(false, "the mark was looked for already: {world:?}"),
                Step::AskAgain { .. } => {
                    let fencing = matches!(world.last, Some((TransactionPhase::PrepareEpochFence, _, _)));
                    prop_assert!(fencing, "waits for nothing: {step:?} {world:?}");
                }
                Step::Unknowable { .. } => prop_assert!(world.place_gone, "should know: {step:?} {world:?}"),
            }
        }
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    prop::sample::select(vec![H::Begin, H::Commit, H::FinishCommit, H::TimeOut, H::FinishAbort, H::Fence, H::ForgetId, H::LosePlace])
}
