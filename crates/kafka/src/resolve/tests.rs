use proptest::prelude::*;

use super::*;

const OURS: Producer = Producer { id: 7, epoch: 3 };
const START: i64 = 1_000_000;
const MARK: TokenMark = TokenMark { generation: Generation(2), epoch: Epoch(5) };

fn ours() -> PreparedTransaction {
    PreparedTransaction { producer: OURS, start_ms: START, mark: MARK }
}

fn known(phase: TransactionPhase, id: i64, epoch: i16, start_ms: Option<i64>) -> Described {
    let producer = Producer { id, epoch };
    Described::Known(Transaction { phase, producer, timeout_ms: 60_000, start_ms, partitions: Vec::new() })
}

fn mark(generation: u64, epoch: u64) -> TokenMark {
    TokenMark { generation: Generation(generation), epoch: Epoch(epoch) }
}

fn answered(answer: TokenAnswer, absence: Absence) -> TokenReading {
    TokenReading::Answered { answer, absence }
}

/// One letter a step: the table below is drawn with them.
fn letter(step: &Step) -> char {
    match step {
        Step::Committed { .. } => 'C',
        Step::Pending => 'P',
        Step::Lost { .. } => 'L',
        Step::AskToken => 't',
        Step::AskAgain { .. } => 'a',
        Step::Unknowable { .. } => '?',
    }
}

/// All readings of a token, in the order of the table's columns.
fn readings() -> [TokenReading; 12] {
    let there = |m: TokenMark| TokenAnswer::There(m.token());
    let foreign = Token { number: 5, text: "generation=2".into() };
    use Absence::{Proves, ProvesNothing};
    [
        TokenReading::NotAsked,
        answered(there(MARK), Proves),
        answered(there(MARK), ProvesNothing),
        answered(there(mark(2, 4)), Proves),
        answered(there(mark(1, 9)), ProvesNothing),
        answered(there(mark(2, 6)), Proves),
        answered(there(mark(3, 1)), Proves),
        answered(TokenAnswer::There(foreign), Proves),
        answered(TokenAnswer::Absent, Proves),
        answered(TokenAnswer::Absent, ProvesNothing),
        answered(TokenAnswer::Unstable { last: Some(MARK.token()) }, Proves),
        answered(TokenAnswer::Unstable { last: Some(mark(2, 4).token()) }, Proves),
    ]
}

/// What decides without the token, by its letter in all columns.
const CERTAIN: [&str; 4] = ["PPPPPPPPPPPP", "CCCCCCCCCCCC", "LLLLLLLLLLLL", "aaaaaaaaaaaa"];
/// The token decides: not asked; own (2); earlier (2); later (2); foreign; absent (2); unstable (2).
const TOKEN: &str = "tCCLL???L?Ca";
/// The same where the coordinator has gone back: nothing is called lost.
const GONE_BACK: &str = "tCC???????Ca";

#[test]
fn every_description_with_every_token_has_the_step_of_the_table() {
    use TransactionPhase as P;
    let [pending, committed, lost, again] = CERTAIN;
    // Columns: the very transaction; its epoch raised by one, and by two; a later one of the same handle; a newer epoch with none begun;
    // another id; an older one of the same handle; an older epoch; an older id.
    let (t, b) = (TOKEN, GONE_BACK);
    let table = [
        (P::Empty, [t, t, t, t, t, t, b, b, b]),
        (P::Ongoing, [pending, again, t, t, t, t, b, b, b]),
        (P::PrepareCommit, [committed, committed, t, t, t, t, b, b, b]),
        (P::CompleteCommit, [committed, committed, t, t, t, t, b, b, b]),
        (P::PrepareAbort, [lost, lost, t, t, t, t, b, b, b]),
        (P::CompleteAbort, [lost, lost, t, t, t, t, b, b, b]),
        (P::Dead, [t, t, t, t, t, t, b, b, b]),
        (P::PrepareEpochFence, [again, again, t, t, t, t, b, b, b]),
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
    let steps = |described: &Described| readings().iter().map(|token| letter(&resolve(&ours(), described, token))).collect::<String>();
    for (phase, expected) in table {
        for ((id, epoch, start_ms), expected) in seen.iter().zip(expected) {
            let described = known(phase, *id, *epoch, *start_ms);
            assert_eq!(steps(&described), expected, "{described:?}");
        }
    }
    assert_eq!(steps(&Described::Unknown), TOKEN);
}

#[test]
fn an_older_transaction_of_the_same_handle_never_commits_the_newer_one() {
    // Producer id and epoch are the same: only the start tells them apart.
    let newer = known(TransactionPhase::Ongoing, OURS.id, OURS.epoch, Some(START + 40));
    assert_eq!(resolve(&ours(), &newer, &TokenReading::NotAsked), Step::AskToken);
    for reading in readings() {
        assert_ne!(resolve(&ours(), &newer, &reading), Step::Pending, "{reading:?}");
    }
}

#[test]
fn absence_proves_only_while_the_group_must_remember() {
    let hour = CLOCK_MARGIN_MS;
    let meaning = |age: i64| Absence::meaning(START, START + age, 10 * hour);
    for (age, expected) in [
        (0, Absence::Proves),
        (9 * hour - 1, Absence::Proves),
        (9 * hour, Absence::ProvesNothing),
        (i64::MAX - START, Absence::ProvesNothing),
        (-hour, Absence::Proves),
        (-hour - 1, Absence::ProvesNothing),
    ] {
        assert_eq!(meaning(age), expected, "{age}");
    }
    assert_eq!(Absence::meaning(START, START, 0), Absence::ProvesNothing);
}

#[test]
fn a_token_of_somebody_else_is_not_read_as_ours() {
    for (number, text) in [
        (-1, "staunch 1 generation=2"),
        (5, ""),
        (5, "staunch 2 generation=2"),
        (5, "staunch 1 generation=2 x"),
        (5, "staunch 1 generation=x"),
    ] {
        assert_eq!(TokenMark::of(&Token { number, text: text.into() }), None, "{number} {text:?}");
    }
}

/// What may happen to a transactional id and its group.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Begin,
    WriteToken,
    Commit,
    FinishCommit,
    TimeOut,
    FinishAbort,
    Fence,
    ForgetId,
    ForgetToken,
}

/// What became of our transaction, as the one who knows all sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Open,
    Committed,
    Aborted,
}

/// A coordinator and a group, as Kafka keeps them.
#[derive(Clone, Debug)]
struct World {
    last: Option<(TransactionPhase, Producer, Option<i64>)>,
    pending: Option<TokenMark>,
    token: Option<TokenMark>,
    token_forgotten: bool,
    clock: i64,
    next_epoch: u64,
    ours_is_last: bool,
    truth: Truth,
}

impl World {
    /// Our transaction is prepared, after an earlier one that was committed.
    fn new() -> World {
        World {
            last: Some((TransactionPhase::Ongoing, OURS, Some(START))),
            pending: Some(MARK),
            token: Some(mark(2, 4)),
            token_forgotten: false,
            clock: START,
            next_epoch: 6,
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
            (Happening::WriteToken, P::Ongoing) if self.pending.is_none() => {
                self.pending = Some(mark(2, self.next_epoch));
                self.next_epoch += 1;
            }
            (Happening::Commit, P::Ongoing) => {
                self.last = Some((P::PrepareCommit, producer, start));
                self.decide(Truth::Committed);
            }
            (Happening::FinishCommit, P::PrepareCommit) => {
                self.last = Some((P::CompleteCommit, producer, start));
                self.token = self.pending.take().or(self.token);
            }
            (Happening::TimeOut, P::Ongoing) => {
                self.last = Some((P::PrepareAbort, raised, start));
                self.decide(Truth::Aborted);
            }
            (Happening::FinishAbort, P::PrepareAbort) => {
                self.last = Some((P::CompleteAbort, producer, start));
                self.pending = None;
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
            (Happening::ForgetToken, _) => {
                self.token = None;
                self.token_forgotten = true;
            }
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

    fn answer(&self) -> TokenReading {
        let absence = if self.token_forgotten { Absence::ProvesNothing } else { Absence::Proves };
        let token = self.token.map(TokenMark::token);
        let answer = match (self.pending, token) {
            (Some(_), last) => TokenAnswer::Unstable { last },
            (None, Some(token)) => TokenAnswer::There(token),
            (None, None) => TokenAnswer::Absent,
        };
        answered(answer, absence)
    }
}

proptest! {
    #[test]
    fn the_verdict_agrees_with_what_happened(happenings in prop::collection::vec(happening(), 0..24)) {
        let mut world = World::new();
        for happening in happenings {
            world.happen(happening);
            let first = resolve(&ours(), &world.described(), &TokenReading::NotAsked);
            let step = if first == Step::AskToken { resolve(&ours(), &world.described(), &world.answer()) } else { first };
            match &step {
                Step::Committed { .. } => prop_assert_eq!(world.truth, Truth::Committed, "{:?}", world),
                Step::Pending => prop_assert_eq!(world.truth, Truth::Open, "{:?}", world),
                Step::Lost { .. } => prop_assert_eq!(world.truth, Truth::Aborted, "{:?}", world),
                Step::AskToken => prop_assert!(false, "the token was asked already: {world:?}"),
                Step::AskAgain { .. } => {
                    let fencing = matches!(world.last, Some((TransactionPhase::PrepareEpochFence, _, _)));
                    prop_assert!(fencing || world.pending.is_some(), "waits for nothing: {step:?} {world:?}");
                }
                Step::Unknowable { .. } => {
                    let later = world.token.is_some_and(|token| token > MARK);
                    prop_assert!(later || world.token_forgotten, "should know: {step:?} {world:?}");
                }
            }
        }
    }

    #[test]
    fn a_mark_survives_its_token(generation in any::<u64>(), epoch in 0..=i64::MAX as u64) {
        prop_assert_eq!(TokenMark::of(&mark(generation, epoch).token()), Some(mark(generation, epoch)));
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    prop::sample::select(vec![
        H::Begin,
        H::WriteToken,
        H::Commit,
        H::FinishCommit,
        H::TimeOut,
        H::FinishAbort,
        H::Fence,
        H::ForgetId,
        H::ForgetToken,
    ])
}
