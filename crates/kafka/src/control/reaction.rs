//! What to do about an error that a broker answers: rules without I/O.
//!
//! Owns: which errors are passing, which say that the coordinator is elsewhere, how long is waited between attempts.
//! Does not own: the waiting, the number of attempts.

use std::time::Duration;

use kafka_protocol::ResponseError;

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What an error asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Look for the coordinator again, and ask that one.
    FindAgain,
    /// Ask the same broker again, after a while.
    AskAgain,
    /// It does not allow this.
    Denied,
    /// It is an answer: what it means depends on the request.
    Answer,
}

/// What an error asks for.
pub(super) fn reaction(error: ResponseError) -> Reaction {
    use ResponseError as E;
    match error {
        E::NotCoordinator | E::CoordinatorNotAvailable | E::BrokerNotAvailable => Reaction::FindAgain,
        // Of a leader that was just elected, too.
        E::NotLeaderOrFollower | E::LeaderNotAvailable | E::ReplicaNotAvailable | E::OffsetNotAvailable => Reaction::FindAgain,
        E::CoordinatorLoadInProgress | E::ConcurrentTransactions | E::RequestTimedOut | E::NetworkException | E::NotEnoughReplicas => {
            Reaction::AskAgain
        }
        E::NotEnoughReplicasAfterAppend | E::KafkaStorageError | E::ThrottlingQuotaExceeded => Reaction::AskAgain,
        E::ClusterAuthorizationFailed
        | E::TopicAuthorizationFailed
        | E::GroupAuthorizationFailed
        | E::TransactionalIdAuthorizationFailed => Reaction::Denied,
        _ => Reaction::Answer,
    }
}

/// How long to wait after an attempt, the first being 1: twice as long each time, within limits.
pub(super) fn pause(attempt: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ATTEMPTS_MAX_DEFAULT;

    #[test]
    fn passing_errors_are_asked_again_and_moved_coordinators_looked_for() {
        use ResponseError as E;
        for (error, expected) in [
            (E::NotCoordinator, Reaction::FindAgain),
            (E::CoordinatorNotAvailable, Reaction::FindAgain),
            (E::LeaderNotAvailable, Reaction::FindAgain),
            (E::ReplicaNotAvailable, Reaction::FindAgain),
            (E::OffsetNotAvailable, Reaction::FindAgain),
            (E::CoordinatorLoadInProgress, Reaction::AskAgain),
            (E::ConcurrentTransactions, Reaction::AskAgain),
            (E::UnstableOffsetCommit, Reaction::Answer),
            (E::TransactionalIdAuthorizationFailed, Reaction::Denied),
            (E::GroupAuthorizationFailed, Reaction::Denied),
            (E::InvalidTxnState, Reaction::Answer),
            (E::TransactionalIdNotFound, Reaction::Answer),
            (E::ProducerFenced, Reaction::Answer),
            (E::InvalidProducerEpoch, Reaction::Answer),
            (E::InvalidProducerIdMapping, Reaction::Answer),
            (E::Unknown(9999), Reaction::Answer),
        ] {
            assert_eq!(reaction(error), expected, "{error:?}");
        }
    }

    #[test]
    fn all_attempts_together_outlast_the_election_of_a_coordinator_and_end() {
        let pauses: Vec<Duration> = (1..ATTEMPTS_MAX_DEFAULT).map(pause).collect();
        assert!(pauses.is_sorted());
        let all: Duration = pauses.iter().sum();
        assert!((Duration::from_secs(5)..Duration::from_secs(15)).contains(&all), "{all:?}");
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
