//! Rules that a test can break on purpose, to show that the model or a transcript notices.
//!
//! Owns: the list of breakable rules and the switch. Does not own: the rules; each asks [`broken`] at the line it is kept.
//! Outside of this crate's own tests [`broken`] is a constant.

/// One rule to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Alignment does not wait for the last channel.
    AlignForgetsChannel,
    /// Alignment starts again for a barrier of an abandoned epoch.
    AlignAcceptsAbandoned,
    /// Alignment waits for channels that have ended.
    AlignWaitsForEnded,
    /// The combined watermark is the greatest instead of the least.
    WatermarkTakesMax,
    /// The combined watermark may go back.
    WatermarkGoesBack,
    /// A split goes to two tasks.
    SplitTwice,
    /// The ledger's slot is overwritten instead of created: broken in the store of the tests.
    #[cfg(test)]
    AppendUnconditionally,
    /// Another's content in the slot is taken for one's own.
    IgnoreConflict,
    /// An append whose answer was lost is taken as done.
    TrustLostAnswer,
    /// An append whose answer was lost and which is not there yet is given up as not written.
    GiveUpDoubtful,
    /// A claim repeats the last generation's number.
    ReclaimGeneration,
    /// The permit is given when all have acknowledged, before the manifest is durable.
    PermitBeforeDurable,
    /// The number of an abandoned epoch is used again.
    ReuseEpoch,
    /// An acknowledgement of an abandoned attempt counts for the running one.
    AcceptLateAck,
    /// An acknowledgement of another generation counts.
    AcceptStaleGeneration,
    /// An epoch is sealed without its last acknowledgement.
    SealWithoutLastAck,
    /// The final epoch starts and ends with the first task that reached its end.
    FinalByOneTask,
    /// A manifest names only what was prepared in its own epoch, not what abandoned ones left.
    ForgetCarried,
    /// After recovery nothing is resolved: what is in doubt is taken for committed.
    SkipResolve,
    /// Older generations' transactions are not aborted before writers start.
    SkipSweep,
    /// Lost is taken for committed.
    LostAsCommitted,
    /// A commit whose answer was lost is taken as done.
    TrustLostCommit,
    /// The record of commit is written when the first committable of an epoch is proven.
    RecordBeforeProven,
    /// A restart does not wait for its backoff.
    RestartAtOnce,
    /// A transactional id is used again as soon as its transaction is prepared.
    RingReusesUnproven,
    /// A transaction counts as prepared before everything in it is acknowledged.
    RingPreparesUnacknowledged,
    /// A record that the broker refused is overlooked.
    RingIgnoresRefused,
    /// A transaction is begun for an epoch without records.
    RingBeginsEmpty,
    /// Whatever transaction is open under the id is taken for the task's own.
    RingTrustsAnyProducer,
    /// A transaction that cannot be told from the one before it counts as prepared.
    RingTakesEqualStart,
    /// Records of the next epoch are written before those of the last one are acknowledged.
    RingWritesAhead,
    /// An epoch without records is reported before those that still wait for acknowledgements.
    RingReportsOutOfTurn,
    /// An id is used again though a partition has its last transaction open still.
    RingReusesUnmarked,
    /// A transaction of the same producer id and epoch is taken for the prepared one, whenever it began.
    ResolveForgetsStart,
    /// What the coordinator does not know any more is called lost without a look for the mark.
    ResolveLostUnproven,
    /// What the coordinator aborted is called lost without a look for the mark: it may have been written again.
    ResolveTrustsAbort,
    /// What the coordinator calls committed is taken to be visible, whatever its partitions say.
    ConfirmTrustsCoordinator,
    /// Forgotten markers are written without shutting the partition to their producer.
    RepairsUnfenced,
    /// A sweep also aborts what retained checkpoints name.
    SweepTakesAll,
    /// A sweep also takes the ids of its own generation and of newer ones.
    SweepTakesNewer,
}

#[cfg(test)]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Whether a rule is broken on this thread.
#[cfg(test)]
pub(crate) fn broken(rule: Mutation) -> bool {
    BROKEN.with(|cell| cell.get() == Some(rule))
}

/// Whether a rule is broken: never.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn broken(_: Mutation) -> bool {
    false
}

/// Runs something on this thread with a rule broken.
#[cfg(test)]
pub(crate) fn with<T>(rule: Option<Mutation>, run: impl FnOnce() -> T) -> T {
    struct Restore(Option<Mutation>);
    impl Drop for Restore {
        fn drop(&mut self) {
            BROKEN.with(|cell| cell.set(self.0));
        }
    }
    let _restore = Restore(BROKEN.with(|cell| cell.replace(rule)));
    run()
}
