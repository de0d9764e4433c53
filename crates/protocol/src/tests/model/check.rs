//! The promises, checked on every state and once more where a history ends.
//!
//! Owns: what E1 to E8 and E10 mean in the model. Does not own: E9, which is about records the engine rejects. E5 and the fitness of a
//! permit are checked where they matter, when writers start and when a commit is carried out.

use std::collections::{BTreeMap, BTreeSet};

use staunch_types::{Epoch, Generation};

use super::outside::{Phase, Records};
use super::scenario::Scenario;
use super::world::{End, World, Written};
use crate::commit::LostPolicy;
use crate::ledger::{Entry, Origin};
use crate::{CommittableId, Reason, SinkId};

/// A seal with what it goes on from.
struct Seal<'a> {
    parent: Option<Epoch>,
    committables: &'a [CommittableId],
    positions: &'a [u8],
}

/// What must hold in every state.
///
/// # Errors
/// The promise that does not hold.
pub(super) fn always(world: &World, scenario: &Scenario) -> Result<(), String> {
    world.facts()?;
    visible(world)?;
    recorded(world, scenario)?;
    consistent(world, scenario)
}

/// E1, E6: what is visible is named by a seal, and no record is visible twice.
fn visible(world: &World) -> Result<(), String> {
    let named = world.named();
    let mut seen: BTreeMap<SinkId, Records> = BTreeMap::new();
    for (committable, transaction) in &world.outside.transactions {
        if transaction.phase != Phase::Committed {
            continue;
        }
        if !named.contains(committable) {
            return Err(format!("E1: {committable} is visible and no durable epoch names it"));
        }
        let records = seen.entry(committable.sink).or_default();
        if *records & transaction.records != 0 && !world.rewound {
            return Err(format!("E6: a record of {committable} is visible twice"));
        }
        *records |= transaction.records;
    }
    Ok(())
}

/// E2, E3: what is recorded as committed is visible, or lost, accepted and said so.
fn recorded(world: &World, scenario: &Scenario) -> Result<(), String> {
    let seals = seals(&world.ledger);
    for written in world.ledger.iter() {
        let Entry::Committed { epoch, lost, .. } = &written.entry else { continue };
        let seal = seals.get(epoch).ok_or_else(|| format!("E2: epoch {epoch} is recorded and was never sealed"))?;
        for committable in seal.committables {
            let phase = world.outside.transactions.get(committable).map(|transaction| transaction.phase);
            let accepted = lost.contains(committable);
            if accepted && scenario.policy != LostPolicy::Accept {
                return Err(format!("E3: the loss of {committable} was accepted by nobody"));
            }
            if !accepted && phase != Some(Phase::Committed) {
                return Err(format!("E2: {committable} is recorded as committed and is {phase:?}"));
            }
        }
    }
    Ok(())
}

/// E7, E10: along every line of epochs, what the manifests name is exactly what the sources had read, once in each sink.
fn consistent(world: &World, scenario: &Scenario) -> Result<(), String> {
    let seals = seals(&world.ledger);
    for epoch in seals.keys() {
        let expected = scenario.records_before(seals[epoch].positions);
        for sink in scenario.sink_ids() {
            let (once, twice) = along(world, &seals, *epoch, sink);
            if twice != 0 {
                return Err(format!("E10: epoch {epoch} names records {twice:#b} twice in {sink:?}"));
            }
            let expected = expected & scenario.records_of(sink);
            if once != expected {
                return Err(format!("E10: epoch {epoch} names records {once:#b} in {sink:?}, the sources had read {expected:#b}"));
            }
        }
    }
    Ok(())
}

/// The records that an epoch and those before it name in a sink, and those named twice.
fn along(world: &World, seals: &BTreeMap<Epoch, Seal>, epoch: Epoch, sink: SinkId) -> (Records, Records) {
    let (mut once, mut twice) = (0, 0);
    let mut at = Some(epoch);
    while let Some(seal) = at.and_then(|epoch| seals.get(&epoch)) {
        for committable in seal.committables.iter().filter(|committable| committable.sink == sink) {
            let records = world.outside.transactions.get(committable).map_or(0, |transaction| transaction.records);
            twice |= once & records;
            once |= records;
        }
        at = seal.parent;
    }
    (once, twice)
}

fn seals(ledger: &[Written]) -> BTreeMap<Epoch, Seal<'_>> {
    let mut seals = BTreeMap::new();
    let mut parent = None;
    for written in ledger {
        match &written.entry {
            Entry::Claimed { origin, .. } => parent = if let Origin::Epoch(epoch) = origin { Some(*epoch) } else { None },
            Entry::Sealed { attempt, committables, .. } => {
                seals.insert(attempt.epoch, Seal { parent, committables, positions: &written.positions });
                parent = Some(attempt.epoch);
            }
            Entry::Committed { .. } | Entry::Stopped { .. } => {}
        }
    }
    seals
}

/// What must hold where nothing more can happen.
///
/// # Errors
/// The promise that does not hold.
pub(super) fn at_the_end(world: &World, scenario: &Scenario) -> Result<(), String> {
    match world.end {
        None => Err("the job stands still and has not ended".into()),
        Some(End::Lost(_)) => Ok(()),
        Some(End::Finished(reason)) => finished(world, scenario, reason),
    }
}

/// E2, E5, E8, E10 of a job that has finished.
fn finished(world: &World, scenario: &Scenario, reason: Reason) -> Result<(), String> {
    let seals = seals(&world.ledger);
    let (_, last) = seals.last_key_value().ok_or("E8: the job finished without an epoch")?;
    if reason == Reason::Final && *last.positions != scenario.records[..last.positions.len()] {
        return Err(format!("E8: the job finished and its sources are at {:?}", last.positions));
    }
    let accepted: BTreeSet<CommittableId> = world
        .ledger
        .iter()
        .flat_map(|written| match &written.entry {
            Entry::Committed { lost, .. } => lost.clone(),
            Entry::Claimed { .. } | Entry::Sealed { .. } | Entry::Stopped { .. } => Vec::new(),
        })
        .collect();
    for committable in world.named() {
        let phase = world.outside.transactions.get(&committable).map(|transaction| transaction.phase);
        if phase != Some(Phase::Committed) && !accepted.contains(&committable) {
            return Err(format!("E2: the job finished and {committable} is {phase:?}"));
        }
    }
    let newest: Generation = world.generation();
    let left = world.outside.transactions.iter().find(|(_, transaction)| transaction.phase == Phase::Prepared && !transaction.late);
    if let Some((committable, _)) = left {
        return Err(format!("E5: the job of generation {newest} finished and {committable} is left prepared"));
    }
    match world.outside.open.iter().find(|(_, open)| !open.late) {
        Some((key, _)) => Err(format!("E5: the job finished and a transaction of {key:?} is left open")),
        None => Ok(()),
    }
}
