//! A table with a name: keyed state without windows.
//!
//! Owns: one table, its chain and its blocks.
//! Does not own: what operators may do with it (`kinds`).

use staunch_format::block::{BlockReader, Change};
use staunch_format::value::Decoder;
use staunch_types::{Epoch, Error, ErrorKind, Result};

use super::chain::{Chain, Load};
use super::codec::{Key, SharedCodec, StateValue};
use super::keyed::{BlockSink, Scope, Settlement, StoredState};
use super::table::{SlotId, SlotRange, StateTable};
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
        }
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
            Settlement::GivenUp => self.abandon(),
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
        self.chain.restored(epoch);
        Ok(())
    }
}

fn windowed() -> Error {
    Error::new(ErrorKind::Invalid, "S201", "a state was stored by windows and is now one without windows")
        .data("nothing was changed")
        .remedy("give the state without windows another name, and drop the old one with --allow-lost-state")
}
