//! A source as the coordinator sees it: splits are bytes.

use std::sync::Arc;
use std::time::Duration;

use staunch_api::{Assignment, Discovery, Reached, Source, SourceContext, Split, SplitEnumerator};
use staunch_types::{Name, Result};

use crate::cluster::SplitBytes;
use crate::job::{decode_inline, encode_inline};

/// Makes an enumerator, from the restored state. May block.
pub type EnumeratorMaker = Arc<dyn Fn(&SourceContext, Option<&[u8]>) -> Result<Box<dyn EnumeratorDyn>> + Send + Sync>;

/// A source in the plan.
pub struct SourcePlan {
    /// Its name.
    pub name: Name,
    /// How its splits go to readers.
    pub assignment: Assignment,
    /// One line for people.
    pub description: String,
    /// Whether it would read what is written to an address.
    pub reads: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// Makes its enumerator, from the restored state. May block.
    pub enumerator: EnumeratorMaker,
}

impl SourcePlan {
    /// Describes a source.
    pub fn new<S: Source + Sync>(name: Name, source: &S) -> SourcePlan {
        let (assignment, description, for_reads, source) = (source.assignment(), source.describe(), source.clone(), source.clone());
        let enumerator = move |context: &SourceContext, restored: Option<&[u8]>| {
            let enumerator = source.enumerator(context, restored)?;
            Ok(Box::new(Erased { source: context.name.clone(), enumerator }) as Box<dyn EnumeratorDyn>)
        };
        SourcePlan {
            name,
            assignment,
            description,
            reads: Box::new(move |address| for_reads.reads(address)),
            enumerator: Arc::new(enumerator),
        }
    }
}

/// An enumerator whose splits are bytes.
pub trait EnumeratorDyn: Send {
    /// See [`SplitEnumerator::discover`].
    ///
    /// # Errors
    /// As the enumerator.
    fn discover(&mut self) -> Result<Found>;

    /// See [`SplitEnumerator::hears_commits`].
    fn hears_commits(&self) -> bool;

    /// See [`SplitEnumerator::committed`].
    ///
    /// # Errors
    /// As an inline value of a checkpoint.
    fn committed(&mut self, reached: Reached<SplitBytes>) -> Result<()>;
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// New splits.
    pub splits: Vec<SplitBytes>,
    /// The enumerator's state.
    pub state: Vec<u8>,
    /// When to look again; `None`: never.
    pub again_after: Option<Duration>,
}

struct Erased<E> {
    source: Name,
    enumerator: E,
}

impl<E: SplitEnumerator> EnumeratorDyn for Erased<E> {
    fn discover(&mut self) -> Result<Found> {
        let Discovery { splits, state, again_after } = self.enumerator.discover()?;
        Ok(Found { splits: splits.iter().map(encode_split).collect(), state, again_after })
    }

    fn hears_commits(&self) -> bool {
        self.enumerator.hears_commits()
    }

    fn committed(&mut self, reached: Reached<SplitBytes>) -> Result<()> {
        let unfinished = reached.unfinished.iter().map(|split| decode_split(&self.source, split)).collect::<Result<_>>()?;
        self.enumerator.committed(Reached { unfinished, read_to: reached.read_to });
        Ok(())
    }
}

/// A split as bytes.
pub(crate) fn encode_split<S: Split>(split: &S) -> SplitBytes {
    SplitBytes { id: split.id(), bytes: encode_inline(split) }
}

/// A split from bytes.
///
/// # Errors
/// As an inline value of a checkpoint.
pub(crate) fn decode_split<S: Split>(source: &Name, split: &SplitBytes) -> Result<S> {
    decode_inline(source, "split", &split.bytes)
}
