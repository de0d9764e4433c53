//! What a checkpoint keeps of a transaction.

use staunch_protocol::transaction::{Identity, Producer};
use staunch_types::{Error, ErrorKind, Result};

use crate::kernel::Place;

/// What stands between the prefix of a sink and the key of a mark in the id under which lost output is written again.
pub const AGAIN: &str = "again-";

/// A prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTransaction {
    /// The transactional id.
    pub id: String,
    /// Which of its transactions.
    pub identity: Identity,
    /// The key of its mark.
    pub mark: String,
    /// Where the mark lies.
    pub mark_offset: u64,
    /// The partitions that it wrote to, each with the last offset; also that of the mark.
    pub places: Vec<(Place, u64)>,
    /// The copy in the journal.
    pub copy: Option<String>,
}

impl StoredTransaction {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Identity { producer, start_ms } = self.identity;
        let copy = self.copy.as_deref().unwrap_or_default();
        let places = self.places.iter().map(|(place, last)| format!("{}:{}:{last}", place.topic, place.partition));
        let places = places.collect::<Vec<String>>().join(",");
        let (id, mark, mark_offset) = (&self.id, &self.mark, self.mark_offset);
        format!("{id}\n{}\n{}\n{start_ms}\n{mark}\n{mark_offset}\n{places}\n{copy}", producer.id, producer.epoch).into_bytes()
    }

    /// From bytes.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<StoredTransaction> {
        let text = String::from_utf8_lossy(bytes);
        let parts: Vec<&str> = text.split('\n').collect();
        StoredTransaction::of(&parts)
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, "sim-stored", format!("no stored transaction: {text:?}")))
    }

    fn of(parts: &[&str]) -> Option<StoredTransaction> {
        let [id, producer, epoch, start_ms, mark, mark_offset, places, copy] = parts else { return None };
        let place = |text: &str| {
            let [topic, partition, last] = text.split(':').collect::<Vec<&str>>()[..] else { return None };
            Some((Place { topic: topic.to_owned(), partition: partition.parse().ok()? }, last.parse().ok()?))
        };
        let producer = Producer { id: producer.parse().ok()?, epoch: epoch.parse().ok()? };
        Some(StoredTransaction {
            id: (*id).to_owned(),
            identity: Identity { producer, start_ms: start_ms.parse().ok()? },
            mark: (*mark).to_owned(),
            mark_offset: mark_offset.parse().ok()?,
            places: places.split(',').map(place).collect::<Option<_>>()?,
            copy: (!copy.is_empty()).then(|| (*copy).to_owned()),
        })
    }

    /// For people and for the checks: begins as [`StoredTransaction::words`] say, ends with the key of the mark.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}mark={}", StoredTransaction::words(&self.id, self.identity), self.mark)
    }

    /// The words for a transaction.
    #[must_use]
    pub fn words(id: &str, identity: Identity) -> String {
        format!("transaction {id} {} start_ms={} ", identity.producer, identity.start_ms)
    }
}
