//! What is decided about transactions at the broker: nothing visible before it is durable (E1), nothing durable aborted by a process of ours,
//! nothing left open (E5); and that readers of committed records come to see what was decided.

use std::collections::BTreeMap;

use staunch_format::CommittableId;
use staunch_format::ledger::{Body, LedgerEntry, Outcome};

use super::visible::Visible;
use super::{Ledger, Violation};
use crate::job::{Lines, Output};
use crate::kernel::{Broker, By, Decided, Decision};
use crate::sink::{AGAIN, StoredTransaction};

/// See the module.
pub struct Topics {
    /// What the ids of the job begin with.
    prefix: String,
    /// Transactions that were committed.
    commits: usize,
    aborted: BTreeMap<String, Decided>,
    /// Durable transactions that were aborted, and by whom.
    lost: Vec<Decided>,
}

/// The topic of a job's sink.
#[must_use]
pub fn topic(job: &str, sink: &str) -> String {
    format!("{job}.{sink}")
}

impl Topics {
    pub(super) fn new(job: &str) -> Topics {
        let prefix = format!("{job}/");
        Topics { prefix, commits: 0, aborted: BTreeMap::new(), lost: Vec::new() }
    }

    /// Transactions that were committed.
    #[must_use]
    pub fn commits(&self) -> usize {
        self.commits
    }

    /// Durable transactions that were aborted, and by whom.
    #[must_use]
    pub fn lost(&self) -> &[Decided] {
        &self.lost
    }

    /// The transactions that a new entry names; aborted ones can never be committed.
    pub(super) fn appended(&mut self, entry: &LedgerEntry) -> Result<(), Violation> {
        let Body::Sealed(sealed) = &entry.body else { return Ok(()) };
        for total in &sealed.committables {
            let aborted = self.aborted.iter().find(|(words, _)| total.description.starts_with(*words));
            if let Some((words, decided)) = aborted.map(|(words, decided)| (words.clone(), decided.clone())) {
                self.robbed(&words, decided)?;
            }
        }
        Ok(())
    }

    pub(super) fn decided(&mut self, ledger: &Ledger, visible: &mut Visible, decided: &Decided) -> Result<(), Violation> {
        let Some(sink) = decided.id.strip_prefix(&self.prefix).and_then(|rest| rest.split('/').next()) else { return Ok(()) };
        let words = StoredTransaction::words(&decided.id, decided.identity);
        let named = ledger.names_like(&words);
        match decided.decision {
            Decision::Commit => {
                if named.is_none() && !is_again(ledger, &decided.id) {
                    return Err(Violation::new("E1", format!("committed, and no durable epoch names it: {words}")));
                }
                self.commits += 1;
                decided.lines.iter().try_for_each(|(_, line)| visible.see(sink, line, &words))
            }
            Decision::Abort if named.is_some() => self.robbed(&words, decided.clone()),
            Decision::Abort => {
                self.aborted.insert(words, decided.clone());
                Ok(())
            }
        }
    }

    fn robbed(&mut self, words: &str, decided: Decided) -> Result<(), Violation> {
        let by = decided.by;
        self.lost.push(decided);
        match by {
            By::Timeout => Ok(()),
            By::End(_) | By::TakeOver(_) | By::Fence(_) => {
                Err(Violation::new("E5", format!("a durable epoch names it, and it was aborted by {by:?}: {words}")))
            }
        }
    }

    /// What may be missing: lost, and accepted as lost by a person.
    pub(super) fn accepted(&self, ledger: &Ledger) -> Output {
        let mut output = Output::new();
        for decided in &self.lost {
            let words = StoredTransaction::words(&decided.id, decided.identity);
            let accepted = ledger.names_like(&words).is_some_and(|id| is_accepted(ledger, id));
            for (topic, line) in decided.lines.iter().filter(|_| accepted) {
                let sink = topic.rsplit('.').next().unwrap_or_default();
                *output.entry(sink.to_owned()).or_default().entry(line.clone()).or_default() += 1;
            }
        }
        output
    }

    /// Nothing runs, and all markers are there: nothing is open, and readers see what was decided.
    pub(super) fn clean(&self, broker: &Broker, seen: &Output, sinks: &[&str]) -> Result<(), Violation> {
        let open: Vec<String> = broker.open(&self.prefix);
        if !open.is_empty() {
            return Err(Violation::new("E5", format!("transactions are left open: {open:?}")));
        }
        for sink in sinks {
            let mut read = Lines::new();
            for line in broker.committed(&topic(self.prefix.trim_end_matches('/'), sink)) {
                *read.entry(line).or_default() += 1;
            }
            if read != seen.get(*sink).cloned().unwrap_or_default() {
                let (read, decided) = (read.values().sum::<u64>(), seen.get(*sink).map_or(0, |lines| lines.values().sum()));
                return Err(Violation::new("E2", format!("readers of {sink} see {read} records, decided were {decided}")));
            }
        }
        Ok(())
    }
}

/// Whether it is the id under which output of a durable epoch is written again.
fn is_again(ledger: &Ledger, id: &str) -> bool {
    id.split_once(AGAIN).is_some_and(|(_, mark)| ledger.names_mark(mark))
}

fn is_accepted(ledger: &Ledger, id: &CommittableId) -> bool {
    let outcomes = ledger.sealed().values().flat_map(|sealed| sealed.committables.iter().zip(&sealed.outcomes));
    outcomes.into_iter().any(|(named, outcome)| named == id && matches!(outcome, Outcome::AcceptedLost { .. }))
}
