//! One committable from its permit to its proof.

use staunch_types::{ErrorKind, Tick};

use super::{Answer, Config, LostPolicy, Verdict};
use crate::checkpoint::PermitOrigin;
use crate::mutation::{Mutation, broken};

/// What can be done with a committable outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Verb {
    Resolve,
    Commit,
    Resend,
}

/// Why nothing more needs to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Proof {
    Committed,
    Resent,
    Lost,
}

/// The phase of a committable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    phase: Phase,
    failures: u32,
    resend_tried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// To be done as soon as it is this item's turn.
    Due { verb: Verb, not_before: Tick },
    /// Lost, to be resolved again and resent after the sink's sweep: until then an older generation's resend could still succeed.
    AwaitingSweep,
    /// The answer is awaited.
    Asked,
    /// Settled.
    Proven(Proof),
}

impl Item {
    pub(super) fn new(origin: PermitOrigin) -> Item {
        let verb = match origin {
            PermitOrigin::Sealed => Verb::Commit,
            PermitOrigin::Recovered => Verb::Resolve,
        };
        let phase = if origin == PermitOrigin::Recovered && broken(Mutation::SkipResolve) {
            Phase::Proven(Proof::Committed)
        } else {
            Phase::Due { verb, not_before: Tick::default() }
        };
        Item { phase, failures: 0, resend_tried: false }
    }

    /// What to do now, if anything; the answer is awaited from then on.
    pub(super) fn due(&mut self, now: Tick, swept: bool) -> Option<Verb> {
        let verb = match self.phase {
            Phase::Due { verb, not_before } if not_before <= now => verb,
            Phase::AwaitingSweep if swept => Verb::Resolve,
            Phase::Due { .. } | Phase::AwaitingSweep | Phase::Asked | Phase::Proven(_) => return None,
        };
        self.phase = Phase::Asked;
        Some(verb)
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// The kind for which the job must stop: `Lost` by policy, `Retry` when retries are used up, others as the sink answered.
    pub(super) fn answered(
        &mut self,
        now: Tick,
        verb: Verb,
        answer: Answer,
        policy: LostPolicy,
        unswept: bool,
        config: &Config,
    ) -> Result<(), ErrorKind> {
        match (verb, answer) {
            (Verb::Commit | Verb::Resend, Answer::Done) => self.prove(verb),
            (Verb::Commit, Answer::Unanswered) if broken(Mutation::TrustLostCommit) => self.prove(verb),
            (Verb::Resolve, Answer::Resolved(verdict)) => return self.resolved(verdict, policy, unswept),
            (_, Answer::Unanswered) => return self.again(now, Verb::Resolve, config),
            (_, Answer::Failed { kind: ErrorKind::Retry }) => return self.again(now, verb, config),
            (_, Answer::Failed { kind: ErrorKind::Restart | ErrorKind::Lost }) => return self.again(now, Verb::Resolve, config),
            (_, Answer::Failed { kind: kind @ (ErrorKind::Fenced | ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Bug) }) => {
                return Err(kind);
            }
            (Verb::Resolve, Answer::Done) | (Verb::Commit | Verb::Resend, Answer::Resolved(_)) => {
                panic!("answer={answer:?} does not fit verb={verb:?}")
            }
        }
        Ok(())
    }

    fn prove(&mut self, verb: Verb) {
        self.resend_tried |= verb == Verb::Resend;
        self.phase = Phase::Proven(if self.resend_tried { Proof::Resent } else { Proof::Committed });
    }

    fn resolved(&mut self, verdict: Verdict, policy: LostPolicy, unswept: bool) -> Result<(), ErrorKind> {
        let now = Tick::default();
        match (verdict, policy) {
            (Verdict::Committed, _) => self.prove(Verb::Resolve),
            (Verdict::Pending, _) => self.phase = Phase::Due { verb: Verb::Commit, not_before: now },
            (Verdict::Lost, _) if broken(Mutation::LostAsCommitted) => self.prove(Verb::Resolve),
            (Verdict::Lost, LostPolicy::Fail) => return Err(ErrorKind::Lost),
            (Verdict::Lost, LostPolicy::Accept) => self.phase = Phase::Proven(Proof::Lost),
            (Verdict::Lost, LostPolicy::Resend) if unswept => self.phase = Phase::AwaitingSweep,
            (Verdict::Lost, LostPolicy::Resend) => {
                self.resend_tried = true;
                self.phase = Phase::Due { verb: Verb::Resend, not_before: now };
            }
        }
        Ok(())
    }

    fn again(&mut self, now: Tick, verb: Verb, config: &Config) -> Result<(), ErrorKind> {
        self.failures += 1;
        if self.failures > config.retries_max {
            return Err(ErrorKind::Retry);
        }
        let wait = crate::ids::backoff(config.backoff_first, config.backoff_max, self.failures);
        self.phase = Phase::Due { verb, not_before: now + wait };
        Ok(())
    }

    pub(super) fn retry_at(&self) -> Option<Tick> {
        match self.phase {
            Phase::Due { not_before, .. } => (self.failures > 0).then_some(not_before),
            Phase::AwaitingSweep | Phase::Asked | Phase::Proven(_) => None,
        }
    }

    pub(super) fn is_proven(&self) -> bool {
        self.proof().is_some()
    }

    pub(super) fn awaits_sweep(&self) -> bool {
        self.phase == Phase::AwaitingSweep
    }

    pub(super) fn proof(&self) -> Option<Proof> {
        match self.phase {
            Phase::Proven(proof) => Some(proof),
            Phase::Due { .. } | Phase::AwaitingSweep | Phase::Asked => None,
        }
    }
}
