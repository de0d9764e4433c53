//! What the tests of state with a database under it share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use staunch_api::testkit::{MemoryBackend, MemoryDatabase, MemoryStore};
use staunch_api::{DatabasePlace, StateBackend, StateBatch, StateDatabase, StoredDatabase, StoredFile};
use staunch_format::value::Schema;
use staunch_types::{Generation, Name, TaskId};

use super::super::keyed::{KeyedStates, Scope, Surplus};
use super::super::table::Pager;
use super::super::testing::{Subject, scope};
use super::super::writer::{Budget, Progress};

/// An operation of a test world with a database under its states, or a step of the life of that.
#[derive(Clone, Debug)]
pub(crate) enum PagedStep<O> {
    Change(O),
    Cut,
    Drain { entries: usize },
    Write,
    Evict { part: usize },
    Restore,
    Tidy,
    Check,
}

/// Steps in which changes prevail.
pub(crate) fn paged_steps<O: Clone + std::fmt::Debug + 'static>(
    operation: impl Strategy<Value = O> + 'static,
    count: usize,
) -> impl Strategy<Value = Vec<PagedStep<O>>> {
    let entries = prop_oneof![Just(1usize), 2..9usize, Just(10_000)];
    let step = prop_oneof![
        16 => operation.prop_map(PagedStep::Change),
        3 => Just(PagedStep::Cut),
        6 => entries.prop_map(|entries| PagedStep::Drain { entries }),
        6 => Just(PagedStep::Write),
        6 => prop_oneof![1..4usize, Just(10)].prop_map(|part| PagedStep::Evict { part }),
        1 => Just(PagedStep::Restore),
        1 => Just(PagedStep::Tidy),
        1 => Just(PagedStep::Check),
    ];
    prop::collection::vec(step, 1..count)
}

/// A test of a subject with a database under it, with any steps.
macro_rules! check_paged {
    ($subject:ty, $operation:expr, $cases:expr, $name:ident) => {
        proptest::proptest! {
            // More of them when PROPTEST_CASES says so.
            #![proptest_config(proptest::prelude::ProptestConfig::with_cases($cases.max(proptest::prelude::ProptestConfig::default().cases)))]

            #[test]
            fn $name(steps in $crate::state::paging::testing::paged_steps($operation, 150)) {
                $crate::state::paging::testing::PagedWorld::<$subject>::new().run(steps);
            }
        }
    };
}
pub(crate) use check_paged;

/// A checkpoint of a database, with what it must hold.
struct Kept<M> {
    files: Vec<StoredFile>,
    schemas: BTreeMap<String, (Schema, Schema)>,
    model: M,
}

/// Runs steps on a subject with a database under it.
pub(crate) struct PagedWorld<S: Subject> {
    states: S::States,
    model: S::Model,
    store: MemoryStore,
    database: Arc<dyn StateDatabase>,
    waiting: VecDeque<StateBatch>,
    /// The model at the cut that is being written, and whether it is drained.
    cut: Option<(S::Model, bool)>,
    kept: Option<Kept<S::Model>>,
    checkpoints: usize,
}

impl<S: Subject> PagedWorld<S> {
    pub(crate) fn new() -> PagedWorld<S> {
        let database: Arc<dyn StateDatabase> = Arc::new(MemoryDatabase::default());
        let mut states = S::new_states(scope());
        attach::<S>(&mut states, &database, scope(), &BTreeMap::new());
        PagedWorld {
            states,
            model: S::Model::default(),
            store: MemoryStore::new(),
            database,
            waiting: VecDeque::new(),
            cut: None,
            kept: None,
            checkpoints: 0,
        }
    }

    pub(crate) fn run(&mut self, steps: Vec<PagedStep<S::Operation>>) {
        steps.into_iter().for_each(|step| self.step(step));
        self.step(PagedStep::Check);
        self.step(PagedStep::Cut);
        while self.cut.is_some() {
            self.step(PagedStep::Drain { entries: 3 });
            self.step(PagedStep::Write);
        }
        self.step(PagedStep::Restore);
        self.step(PagedStep::Check);
    }

    fn step(&mut self, step: PagedStep<S::Operation>) {
        match step {
            PagedStep::Change(operation) => S::apply(&mut self.states, &mut self.model, operation),
            PagedStep::Cut => {
                self.states.each(&mut |state| state.cut());
                self.cut = Some((self.model.clone(), false));
            }
            PagedStep::Drain { entries } => self.drain(Budget::new(entries, usize::MAX)),
            PagedStep::Write => self.write(),
            PagedStep::Evict { part } => {
                let before = objects(&mut self.states);
                let evicted = self.states.evict(Surplus { part, of: 10 });
                assert!(evicted == 0 || objects(&mut self.states) < before);
            }
            PagedStep::Restore => self.restore(),
            PagedStep::Tidy => {
                let _ = self.states.tidy(5);
            }
            PagedStep::Check => assert_eq!(S::read(&mut self.states), self.model),
        }
    }

    fn drain(&mut self, mut budget: Budget) {
        let Some((_, is_drained)) = &mut self.cut else { return };
        let (waiting, mut progress) = (&mut self.waiting, Progress::Done);
        self.states.each(&mut |state| {
            if progress == Progress::Done {
                progress = state.drain_into(&mut budget, &mut |batch| waiting.push_back(batch)).expect("written");
            }
        });
        *is_drained = progress == Progress::Done;
    }

    fn write(&mut self) {
        if let Some(batch) = self.waiting.pop_front() {
            self.database.write(batch).expect("written");
        }
        if self.waiting.is_empty()
            && let Some((model, _)) = self.cut.take_if(|(_, is_drained)| *is_drained)
        {
            self.states.each(&mut |state| state.written());
            let mut schemas = BTreeMap::new();
            self.states.each(&mut |state| drop(schemas.insert(state.name().to_owned(), state.schemas())));
            self.checkpoints += 1;
            let known = self.kept.take().map(|kept| kept.files).unwrap_or_default();
            let checkpoint = self.database.checkpoint().expect("a checkpoint");
            let files = checkpoint.upload(&self.store, &format!("state/{}/", self.checkpoints), &known).expect("stored");
            let kept = Kept { files, schemas, model };
            let whole = scope();
            let parts = (0..3).map(|index| Scope { range: whole.groups.range_of(index, 3), ..whole });
            for scope in std::iter::once(whole).chain(parts) {
                let (mut states, _) = self.open(&kept, scope);
                assert_eq!(S::read(&mut states), S::part(&kept.model, scope), "groups {}", scope.range);
            }
            self.kept = Some(kept);
        }
    }

    fn open(&self, kept: &Kept<S::Model>, scope: Scope) -> (S::States, Arc<dyn StateDatabase>) {
        let name = || Name::new("test").expect("a name");
        let mut states = S::new_states(scope);
        let mut names = Vec::new();
        states.each(&mut |state| names.push(state.name().to_owned()));
        let place = DatabasePlace {
            job: name(),
            operator: name(),
            task: TaskId { chain: 0, index: 0 },
            generation: Generation(1),
            range: scope.range,
            states: names,
        };
        let from = StoredDatabase { groups: super::super::testing::scope().range, files: kept.files.clone() };
        let database = MemoryBackend { object_bytes_max: 0 }.open(&place, &[from], &self.store).expect("opened");
        attach::<S>(&mut states, &database, scope, &kept.schemas);
        (states, database)
    }

    fn restore(&mut self) {
        (self.cut, self.waiting) = (None, VecDeque::new());
        match self.kept.take() {
            Some(kept) => {
                (self.states, self.database) = self.open(&kept, scope());
                self.model = kept.model.clone();
                self.kept = Some(kept);
            }
            None => *self = PagedWorld::new(),
        }
    }
}

fn attach<S: Subject>(
    states: &mut S::States,
    database: &Arc<dyn StateDatabase>,
    scope: Scope,
    schemas: &BTreeMap<String, (Schema, Schema)>,
) {
    let mut number = 0;
    states.each(&mut |state| {
        let pager = Pager::new(Arc::clone(database), number, scope.groups, 40);
        number += 1;
        state.attach(pager, schemas.get(state.name())).expect("attached");
    });
    states.restored().expect("of its types");
}

fn objects<K>(states: &mut impl KeyedStates<K>) -> usize {
    let mut bytes = 0;
    states.each(&mut |state| bytes += state.object_bytes());
    bytes
}
