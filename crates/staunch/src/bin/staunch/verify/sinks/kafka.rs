//! Topics of Kafka: read again with everything that brokers store of a batch.

use std::collections::BTreeMap;

use staunch_format::CommittableId;
use staunch_format::ledger::Outcome;
use staunch_kafka::{AuditScope, AuditedOutput, Brokers, Deviation, TopicAudit, TopicFinding};
use staunch_types::{Error, ErrorKind, Result};

use super::{Fate, Look, Report, outcomes};
use crate::job_folder::Ledger;
use crate::options::{in_one_line, now_ms};

/// Looks at the topics of one sink. Brokers that do not answer make nothing false: the outputs are not proven then.
///
/// # Errors
/// `Invalid` when the settings for the brokers cannot work.
pub(super) fn audit(look: &Look<'_>, report: &mut Report) -> Result<()> {
    let all = &look.expected.outputs;
    if all.is_empty() {
        return Ok(());
    }
    let settings = look.brokers.settings()?;
    let mut brokers = Brokers::of(all.last().map(|o| o.body), &settings)?;
    let outputs: Vec<AuditedOutput<'_>> = all
        .iter()
        .map(|o| AuditedOutput { epoch: o.epoch, body: o.body, digest: o.digest, place: o.place, fate: fate(o.fate), chosen: o.chosen })
        .collect();
    let scope = AuditScope { whole: look.whole, shared: look.brokers.shared(), now_ms: now_ms() };
    let by_now = || Ok(named(&look.folder.ledger()?, look.sink));
    match brokers.audit(&outputs, &scope, by_now) {
        Ok(audit) => tell(look, audit, report),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Bug) => report.find(error.at(format!("sink={}", look.sink))),
        Err(error) => {
            let why = format!(
                "the brokers at {} could not be asked: {}; give --kafka-brokers, and --kafka-config for TLS or a login",
                brokers.address(),
                in_one_line(&error)
            );
            look.unproven(report, &why);
        }
    }
    Ok(())
}

fn tell(look: &Look<'_>, audit: TopicAudit, report: &mut Report) {
    let part = report.sinks.entry(look.sink.to_owned()).or_default();
    part.read(audit.outputs, &audit.messages);
    part.outputs_unproven += audit.unproven.values().sum::<u64>();
    for (why, outputs) in audit.unproven {
        report.unproven(format!("sink {}: {outputs} outputs could not be proven: {why}", look.sink));
    }
    for note in audit.notes {
        report.note(format!("sink {}: {note}", look.sink));
    }
    for TopicFinding { deviation, epoch, what, place } in audit.findings {
        let epoch = epoch.map(|epoch| format!(" epoch={epoch}")).unwrap_or_default();
        let data = match deviation {
            Deviation::Missing | Deviation::Deleted => "records are lost",
            Deviation::Added | Deviation::Doubled => "records are doubled or added",
            Deviation::Changed => "records are changed",
            Deviation::Aborted => "records are not visible, and never will be",
            Deviation::Hidden => "records are not visible",
            Deviation::Unnamed => "records are there twice, or without a commit",
            Deviation::Unreadable => "whether the records are there is not known",
        };
        let remedy = match deviation {
            Deviation::Doubled => "find out who wrote them; if other programs may write what is equal, say so with `--shared TOPIC`",
            _ => "find out who changed the topic; the ledger and the journal of the broker are the evidence",
        };
        report
            .find(Error::new(ErrorKind::Corrupt, "C330", what).at(format!("sink={}{epoch} {place}", look.sink)).data(data).remedy(remedy));
    }
}

fn fate(fate: Fate) -> staunch_kafka::Fate {
    match fate {
        Fate::Committed => staunch_kafka::Fate::Committed,
        Fate::InDoubt => staunch_kafka::Fate::InDoubt,
        Fate::AcceptedLost => staunch_kafka::Fate::AcceptedLost,
    }
}

/// Body and place of all outputs of a sink that a ledger names.
fn named(ledger: &Ledger, sink: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let outcomes: BTreeMap<&CommittableId, &Outcome> = outcomes(ledger);
    let totals = ledger.seals().flat_map(|s| &s.committables).filter(|total| total.id.sink.as_str() == sink && !total.body.0.is_empty());
    let place = |id: &CommittableId| match outcomes.get(id) {
        Some(Outcome::Committed { place, .. } | Outcome::Resent { place, .. }) => place.0.clone(),
        Some(Outcome::AcceptedLost { .. }) | None => Vec::new(),
    };
    totals.map(|total| (total.body.0.clone(), place(&total.id))).collect()
}
