//! Transactional ids, and what an id tells about its owner.
//!
//! `staunch+JOB+SINK+LEDGER+gGENERATION-tTASK-NUMBER`: only one task of one generation of one ledger writes under such an id. So nobody who is late can
//! take an id from those who came after it, and two jobs of the same name are told apart. Under `...LEDGER+again-HASH`, lost output is written
//! again; that id all generations share, as it is what they exclude each other by.
//!
//! Owns: the form of the ids. Does not own: when one is used (`staunch_protocol::transaction::ring`), and what is swept
//! (`staunch_protocol::transaction::resolve`).

use staunch_types::{Generation, LedgerId, Name};

/// Longest part of an id that comes from names.
const NAMES_BYTES_MAX: usize = 200;
const AGAIN: &str = "again-";

/// The ids of a sink, in one ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    /// What the ids of a sink begin with, in any ledger.
    of_sink: String,
    prefix: String,
}

/// Whose an id is that begins like those of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// This ledger's; of a generation, or of lost output that is written again.
    Ours(Option<Generation>),
    /// Another ledger's.
    Other(LedgerId),
    /// None that we give out.
    Nobody,
}

impl Ids {
    pub(crate) fn new(job: &Name, sink: &Name, ledger: LedgerId) -> Ids {
        let of_sink = Ids::of_sink(job, sink);
        let prefix = format!("{of_sink}{ledger}+");
        Ids { of_sink, prefix }
    }

    /// What the ids of a sink begin with, in any ledger: unique for job and sink, of bounded length.
    pub(crate) fn of_sink(job: &Name, sink: &Name) -> String {
        let whole = format!("staunch+{}+{}+", job.component(), sink.component());
        if whole.len() <= NAMES_BYTES_MAX {
            return whole;
        }
        let hash = xxhash_rust::xxh3::xxh3_128(whole.as_bytes());
        format!("staunch+{hash:032x}+")
    }

    /// The id by which it is found out what a user may do; nothing is ever written under it.
    pub(crate) fn probe(job: &Name, sink: &Name) -> String {
        format!("{}probe", Ids::of_sink(job, sink))
    }

    /// What all ids of this ledger begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn of_task(&self, generation: Generation, task: u32, number: u32) -> String {
        format!("{}g{generation}-t{task}-{number}", self.prefix)
    }

    /// What all ids begin with that are of the same ledger as this one of a task.
    pub(crate) fn prefix_of(id: &str) -> &str {
        id.rfind('+').map_or(id, |end| &id[..=end])
    }

    /// The id under which the output with this mark is written again, if this is the id under which it was written at first.
    pub(crate) fn of_again(id: &str, mark: &str) -> String {
        let hash = xxhash_rust::xxh3::xxh3_128(mark.as_bytes());
        format!("{}{AGAIN}{hash:032x}", Ids::prefix_of(id))
    }

    pub(crate) fn owner(&self, id: &str) -> Of {
        let Some((ledger, own)) = id.strip_prefix(&self.of_sink).and_then(|rest| rest.split_once('+')) else { return Of::Nobody };
        let is_ours = id.starts_with(&self.prefix);
        let ledger = u64::from_str_radix(ledger, 16).ok().filter(|_| ledger.len() == 16).map(LedgerId);
        let generation = own.strip_prefix('g').and_then(|rest| rest.split_once('-')?.0.parse().ok()).map(Generation);
        match ledger {
            Some(_) if is_ours && (generation.is_some() || own.starts_with(AGAIN)) => Of::Ours(generation),
            Some(ledger) if !is_ours => Of::Other(ledger),
            Some(_) | None => Of::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn an_id_tells_whose_it_is() {
        let ids = Ids::new(&name("job"), &name("sink"), LedgerId(0xAB));
        let id = ids.of_task(Generation(12), 3, 4);
        assert_eq!(id, "staunch+job+sink+00000000000000ab+g12-t3-4");
        assert_eq!(ids.owner(&id), Of::Ours(Some(Generation(12))));
        let again = Ids::of_again(&id, "the key of a mark");
        assert_eq!(ids.owner(&again), Of::Ours(None));
        assert!(again.starts_with(ids.prefix()) && again != Ids::of_again(&id, "another"), "{again}");
        let other = Ids::new(&name("job"), &name("sink"), LedgerId(0xCD));
        assert_eq!(other.owner(&id), Of::Other(LedgerId(0xAB)));
        assert_eq!(other.owner(&again), Of::Other(LedgerId(0xAB)));
    }

    #[test]
    fn what_is_not_given_out_is_nobodys() {
        let ids = Ids::new(&name("job"), &name("sink"), LedgerId(0xAB));
        let probe = Ids::probe(&name("job"), &name("sink"));
        for id in [
            "staunch+job+sink+",
            "staunch+job+sink+00000000000000ab",
            "staunch+job+sink+00000000000000ab+stray",
            "staunch+job+sink+00000000000000ab+g-t0-0",
            "staunch+job+sink+ab+g1-t0-0",
            "staunch+job+sink+xyz+g1-t0-0",
            "staunch+job+sink2+00000000000000ab+g1-t0-0",
            "staunch+job+sink+3-4",
            "somebody's",
            &probe,
        ] {
            assert_eq!(ids.owner(id), Of::Nobody, "{id}");
        }
    }

    #[test]
    fn long_names_become_short_and_stay_unique() {
        let long = |last: char| Ids::new(&name(&"x".repeat(5_000)), &name(&format!("{}{last}", "y".repeat(5_000))), LedgerId(1));
        let (one, other) = (long('1').of_task(Generation(1), 0, 0), long('2').of_task(Generation(1), 0, 0));
        assert!(one.len() < 100 && one != other, "{one} {other}");
        assert_eq!(long('1').owner(&one), Of::Ours(Some(Generation(1))));
        assert_eq!(long('2').owner(&one), Of::Nobody);
    }
}
