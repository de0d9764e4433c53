//! Asks the brokers what became of a prepared transaction, in the order that the resolver's rules demand.
//!
//! Owns: which question comes next. Does not own: the verdict, which is the resolver's; asking again, which is the caller's; the clock.

use staunch_types::{Result, Timestamp};

use crate::control::{Control, TokenAnswer, TokenPlace};
use crate::resolve::{Absence, PreparedTransaction, Step, TokenReading, resolve};

/// The broker's setting for how long a group remembers.
const RETENTION: &str = "offsets.retention.minutes";
const MINUTE_MS: i64 = 60_000;

/// A prepared transaction and where it left its traces.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// Its transactional id.
    pub transactional_id: &'a str,
    /// Where its token is.
    pub place: &'a TokenPlace,
    /// What it is told apart by.
    pub prepared: &'a PreparedTransaction,
}

impl Inquiry<'_> {
    /// One round of questions. Never answers [`Step::AskToken`]; changes nothing. `now` is the time by our clock.
    ///
    /// # Errors
    /// As the control client's: `Retry` when the brokers do not answer, `Invalid` when this user may not ask.
    pub fn ask(&self, control: &mut Control, now: Timestamp) -> Result<Step> {
        let described = control.describe_transaction(self.transactional_id)?;
        let step = resolve(self.prepared, &described, &TokenReading::NotAsked);
        if step != Step::AskToken {
            return Ok(step);
        }
        // Only now: what the token says is final once the coordinator's answer is about something else.
        let answer = control.token(self.place)?;
        let absence = match answer {
            TokenAnswer::Absent => self.absence(control, now)?,
            // Not looked at: a token is there, or is about to be.
            TokenAnswer::There(_) | TokenAnswer::Unstable { .. } => Absence::ProvesNothing,
        };
        Ok(resolve(self.prepared, &described, &TokenReading::Answered { answer, absence }))
    }

    /// Groups remember as long as the most forgetful broker would: any of them may have had the group in the meantime.
    fn absence(&self, control: &mut Control, now: Timestamp) -> Result<Absence> {
        let mut kept_ms = i64::MAX;
        for broker in control.cluster()?.brokers {
            let settings = control.broker_settings(&broker, &[RETENTION])?;
            let minutes: Option<i64> = settings.get(RETENTION).and_then(|value| value.parse().ok());
            kept_ms = kept_ms.min(minutes.unwrap_or(0).saturating_mul(MINUTE_MS));
        }
        Ok(Absence::meaning(self.prepared.start_ms, now.0, kept_ms))
    }
}
