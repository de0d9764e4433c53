//! A table with a name: keyed state without windows.
//!
//! Owns: one table, its chain and its blocks.
//! Does not own: what operators may do with it (`kinds`).

use staunch_api::StateBatch;
use staunch_format::block::{BlockReader, Change};
use staunch_format::value::{Decoder, Schema};
use staunch_types::{Epoch, Error, ErrorKind, Result};

use super::chain::{Chain, Load};
use super::codec::{Key, SharedCodec, StateValue};
use super::keyed::{BlockSink, PagedState, Scope, Settlement, StoredState, Surplus};
use super::paging::Paging;
use super::table::{Pager, SlotId, SlotRange, StateTable};
use super::writer::{Budget, Outlet, Progress};

/// The namespace of a state without windows.
const NAMESPACE: i64 = 0;

/// A stored table.
pub struct Stored<K, V> {
    scope: Scope,
    hash_of: fn(&K) -> u64,
    table: StateTable<K, V>,
    chain: Chain<SlotId>,
    outlet: Outlet,
    paging: Option<Paging>,
    /// Bytes that whoever holds the state keeps around each entry.
    around: usize,
}

impl<K: Key, V: StateValue> Stored<K, V> {
    /// An empty table under a name; `hash_of` gives the hash with which an entry is changed, when it is restored.
    #[must_use]
    pub fn new(name: &str, scope: Scope, hash_of: fn(&K) -> u64) -> Stored<K, V> {
        let codec = SharedCodec::default();
        Stored {
            scope,
            hash_of,
            table: StateTable::with_codec(codec.clone()),
            chain: Chain::new(),
            outlet: Outlet::new(name, scope.range, codec),
            paging: None,
            around: 0,
        }
    }

    /// The same, of which whoever holds it keeps so many bytes more for each entry.
    #[must_use]
    pub(super) fn with_around(mut self, bytes: usize) -> Stored<K, V> {
        self.around = bytes;
        self
    }

    /// The entries.
    #[inline]
    #[must_use]
    pub fn table(&self) -> &StateTable<K, V> {
        &self.table
    }

    /// The entries, to be changed.
    #[inline]
    pub fn table_mut(&mut self) -> &mut StateTable<K, V> {
        &mut self.table
    }

    /// Takes entries out of memory that the database has and that were not used lately; `left` hears of each. How many.
    pub(super) fn evict(&mut self, surplus: Surplus, left: impl FnMut(SlotId, u64, &K)) -> usize {
        let Some(paging) = &self.paging else { return 0 };
        let entries_max = surplus.of_entries(self.table.len());
        self.table.evict(entries_max, paging.written(), left)
    }

    /// Brings all entries into memory, where they stay unless they are evicted.
    ///
    /// # Errors
    /// As the database reports, or when an entry does not fit the types of the state.
    pub(super) fn load_all(&mut self) -> Result<()> {
        let mut range = self.table.all_keys();
        loop {
            let next = self.table.scan_absent(&range, self.hash_of, |table, hash, key, value| {
                table.keep_scanned(hash, key, value);
            });
            match next.map_err(|error| error.at(format!("state={}", self.outlet.name())))? {
                Some(from) => range.from = from,
                None => break,
            }
        }
        self.table.is_whole_again();
        Ok(())
    }

    fn abandon(&mut self) {
        if self.table.is_draining() {
            self.table.abandon();
            self.chain.abandon();
        }
    }

    fn apply(&mut self, change: &Change<'_>, keys: &Decoder, values: &Decoder) -> Result<()> {
        match change {
            Change::Put { key, value } => {
                let key: K = keys.decode(key)?;
                self.table.restore_put((self.hash_of)(&key), key, values.decode(value)?);
            }
            Change::Delete { key } => {
                let key: K = keys.decode(key)?;
                self.table.restore_delete((self.hash_of)(&key), &key);
            }
            Change::Clear => return Err(windowed()),
        }
        Ok(())
    }
}

impl<K: Key, V: StateValue> StoredState for Stored<K, V> {
    fn name(&self) -> &str {
        self.outlet.name()
    }

    fn freeze(&mut self, epoch: Epoch) {
        self.abandon();
        let confirmed = self.chain.confirmed();
        let mut rewrite = SlotRange::default();
        let load = Load { changed: self.table.changed(), live: self.table.len(), entry_bytes: self.outlet.entry_bytes() };
        self.chain.freeze(epoch, load, |place, slots| {
            let stretch = self.table.stretch_from(place, slots);
            rewrite = stretch.range;
            stretch.next
        });
        self.table.freeze(epoch, confirmed, rewrite);
        self.outlet.begin();
    }

    fn drain(&mut self, budget: &mut Budget, sink: &mut dyn BlockSink) -> Result<Progress> {
        if !self.table.is_draining() {
            return Ok(Progress::Done);
        }
        let mut writer = self.outlet.writer(self.scope.groups, budget);
        let progress = self.table.drain(NAMESPACE, &mut writer).map_err(|error| error.at(format!("state={}", self.outlet.name())))?;
        self.outlet.hand_over(progress, sink);
        if progress == Progress::Done {
            self.chain.written(!self.outlet.has_written());
        }
        Ok(progress)
    }

    fn segments(&self) -> &[Epoch] {
        self.chain.segments()
    }

    fn retains(&self, epoch: Epoch) -> bool {
        self.chain.retains(epoch)
    }

    fn settle(&mut self, settlement: Settlement) {
        match settlement {
            Settlement::Durable(epoch) => self.chain.confirm(epoch),
            Settlement::GivenUp => {
                self.abandon();
                self.paging.iter_mut().for_each(Paging::give_up);
            }
        }
    }

    fn restore(&mut self, epoch: Epoch, block: &BlockReader<'_>) -> Result<()> {
        let (keys, values) = (Decoder::new(block.key_schema()), Decoder::new(block.value_schema()));
        for entry in block.entries(self.scope.range) {
            let entry = entry?;
            if entry.namespace != NAMESPACE {
                return Err(windowed().at(format!("state={}", self.name())));
            }
            let applied = self.apply(&entry.change, &keys, &values);
            applied.map_err(|error| error.at(format!("state={} epoch={epoch}", self.name())))?;
        }
        if self.paging.is_none() {
            self.chain.restored(epoch);
        }
        Ok(())
    }
}

impl<K: Key, V: StateValue> PagedState for Stored<K, V> {
    fn attach(&mut self, pager: Pager, stored: Option<&(Schema, Schema)>) -> Result<()> {
        if let Some((keys, values)) = stored {
            self.outlet.codec().lock().resume(keys, values);
        }
        self.table.attach(pager.clone(), NAMESPACE, stored.is_some());
        self.paging = Some(Paging::new(pager));
        Ok(())
    }

    fn cut(&mut self) {
        if let Some(paging) = &mut self.paging {
            let (cut, written) = paging.begin();
            self.table.freeze(cut, written, SlotRange::default());
        }
    }

    fn drain_into(&mut self, budget: &mut Budget, take: &mut dyn FnMut(StateBatch)) -> Result<Progress> {
        let Some(paging) = &mut self.paging else { return Ok(Progress::Done) };
        if !self.table.is_draining() {
            return Ok(Progress::Done);
        }
        let table = &mut self.table;
        let drained = paging.fill(self.scope.groups, budget, take, |writer| table.drain(NAMESPACE, writer));
        drained.map_err(|error| error.at(format!("state={}", self.outlet.name())))
    }

    fn written(&mut self) {
        if let Some(cut) = self.paging.as_mut().and_then(Paging::settle) {
            self.table.written(cut);
        }
    }

    fn object_bytes(&self) -> usize {
        let heap = self.paging.as_ref().map_or(0, Paging::heap);
        self.table.len() * (StateTable::<K, V>::entry_cost(heap) + self.around)
    }

    fn schemas(&self) -> (Schema, Schema) {
        self.outlet.codec().lock().schemas()
    }
}

fn windowed() -> Error {
    Error::new(ErrorKind::Invalid, "S201", "a state was stored by windows and is now one without windows")
        .data("nothing was changed")
        .remedy("give the state without windows another name, and drop the old one with --allow-lost-state")
}
