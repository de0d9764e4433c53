//! Stored forms as a whole: round trips, golden files, damage, and the chain of the ledger.

mod samples;
mod golden;
mod damage;
mod chain;
