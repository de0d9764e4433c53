//! Reading a block: checked as a whole once, then group by group.

use staunch_types::{Error, KeyGroup, KeyGroupRange, Result};

use super::{BLOCK_FRAME, CLEAR, DELETE, NAMESPACE, PUT};
use crate::bytes::{ReadError, Reader};
use crate::value::Schema;

/// A block whose checksum is right.
#[derive(Clone, Debug)]
pub struct BlockReader<'a> {
    state: &'a str,
    key: Schema,
    value: Schema,
    groups: Vec<Section<'a>>,
}

#[derive(Clone, Debug)]
struct Section<'a> {
    group: KeyGroup,
    entries: u64,
    bytes: &'a [u8],
}

/// One change of a key, in the order they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key's group.
    pub group: KeyGroup,
    /// The start of the window or pane; 0 for a state without windows.
    pub namespace: i64,
    /// What changed.
    pub change: Change<'a>,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key has this value.
    Put {
        /// The key's bytes.
        key: &'a [u8],
        /// The value's bytes.
        value: &'a [u8],
    },
    /// The key has no value.
    Delete {
        /// The key's bytes.
        key: &'a [u8],
    },
    /// No key of the group has a value in the namespace.
    Clear,
}

impl<'a> BlockReader<'a> {
    /// Checks that `bytes` are exactly one block.
    ///
    /// # Errors
    /// `Corrupt` when they are damaged, `Invalid` when a newer version wrote them.
    pub fn open(bytes: &'a [u8]) -> Result<BlockReader<'a>> {
        Self::parse(BLOCK_FRAME.open(bytes)?.body)
    }

    /// Checks the block at the start of `bytes`, and returns what follows.
    ///
    /// # Errors
    /// As [`BlockReader::open`].
    pub fn open_prefix(bytes: &'a [u8]) -> Result<(BlockReader<'a>, &'a [u8])> {
        let (frame, rest) = BLOCK_FRAME.open_prefix(bytes)?;
        Ok((Self::parse(frame.body)?, rest))
    }

    fn parse(body: &'a [u8]) -> Result<BlockReader<'a>> {
        let mut reader = Reader::new(body);
        let (state, key, value, groups) = header(&mut reader).map_err(unreadable)?;
        if reader.remaining() > 0 {
            return Err(BLOCK_FRAME.unreadable(format!("{} bytes follow the last section", reader.remaining())));
        }
        Ok(BlockReader { state, key: Schema::from_bytes(key)?, value: Schema::from_bytes(value)?, groups })
    }

    /// The state's name.
    #[must_use]
    pub fn state(&self) -> &'a str {
        self.state
    }

    /// The schema of the keys.
    #[must_use]
    pub fn key_schema(&self) -> &Schema {
        &self.key
    }

    /// The schema of the values.
    #[must_use]
    pub fn value_schema(&self) -> &Schema {
        &self.value
    }

    /// The groups that have entries, ascending, and how many.
    pub fn groups(&self) -> impl Iterator<Item = (KeyGroup, u64)> {
        self.groups.iter().map(|section| (section.group, section.entries))
    }

    /// The entries of the groups in a range. The other groups are not looked at.
    #[must_use]
    pub fn entries(&self, range: KeyGroupRange) -> Entries<'_, 'a> {
        let first = self.groups.partition_point(|section| u32::from(section.group.0) < range.start);
        let end = self.groups.partition_point(|section| u32::from(section.group.0) < range.end);
        Entries { sections: self.groups[first..end.max(first)].iter(), group: KeyGroup(0), namespace: 0, left: 0, reader: Reader::new(&[]) }
    }
}

type Header<'a> = (&'a str, &'a [u8], &'a [u8], Vec<Section<'a>>);

fn header<'a>(reader: &mut Reader<'a>) -> std::result::Result<Header<'a>, ReadError> {
    let (state, key, value) = (reader.text()?, reader.sized()?, reader.sized()?);
    let count = reader.count()?;
    let mut sizes: Vec<(u16, u64, usize)> = Vec::new();
    for _ in 0..count {
        let group = reader.length()?;
        let group = u16::try_from(group).map_err(|_| reader.error("a key group is out of bounds"))?;
        if sizes.last().is_some_and(|(last, ..)| *last >= group) {
            return Err(reader.error("the key groups are not in order"));
        }
        sizes.push((group, reader.length()?, reader.count()?));
    }
    let mut groups = Vec::with_capacity(sizes.len());
    for (group, entries, bytes) in sizes {
        groups.push(Section { group: KeyGroup(group), entries, bytes: reader.take(bytes)? });
    }
    Ok((state, key, value, groups))
}

fn unreadable(error: ReadError) -> Error {
    BLOCK_FRAME.unreadable(format!("{} offset={}", error.what, error.offset))
}

/// The entries of some groups of a block.
#[derive(Clone, Debug)]
pub struct Entries<'b, 'a> {
    sections: std::slice::Iter<'b, Section<'a>>,
    group: KeyGroup,
    namespace: i64,
    /// Entries left of the section that is being read.
    left: u64,
    reader: Reader<'a>,
}

impl<'a> Entries<'_, 'a> {
    fn change(&mut self) -> std::result::Result<Change<'a>, ReadError> {
        loop {
            match self.reader.byte()? {
                PUT => return Ok(Change::Put { key: self.reader.sized()?, value: self.reader.sized()? }),
                DELETE => return Ok(Change::Delete { key: self.reader.sized()? }),
                CLEAR => return Ok(Change::Clear),
                NAMESPACE => self.namespace = i64::from_le_bytes(self.reader.array()?),
                _ => return Err(self.reader.error("there is no such entry")),
            }
        }
    }

    /// Ends the iteration with an error.
    fn fail(&mut self, error: Error) -> Option<Result<Entry<'a>>> {
        self.left = 0;
        self.reader = Reader::new(&[]);
        self.sections = [].iter();
        Some(Err(error.at(format!("group={}", self.group.0))))
    }
}

impl<'a> Iterator for Entries<'_, 'a> {
    type Item = Result<Entry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Result<Entry<'a>>> {
        while self.left == 0 {
            if self.reader.remaining() > 0 {
                return self.fail(BLOCK_FRAME.unreadable("a section is longer than its entries"));
            }
            let section = self.sections.next()?;
            self.group = section.group;
            self.namespace = 0;
            self.left = section.entries;
            self.reader = Reader::new(section.bytes);
        }
        self.left -= 1;
        match self.change() {
            Ok(change) => Some(Ok(Entry { group: self.group, namespace: self.namespace, change })),
            Err(error) => self.fail(unreadable(error)),
        }
    }
}
