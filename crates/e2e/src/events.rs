//! What happens to a job, as lines that its program says and a test waits for.

use staunch_engine::cluster::JobEvent;

/// One line for each event.
#[must_use]
pub fn line(event: &JobEvent) -> String {
    match event {
        JobEvent::Claimed { generation, restored: Some(epoch), reason: _ } => format!("claimed {generation} from {epoch}"),
        JobEvent::Claimed { generation, restored: None, reason: _ } => format!("claimed {generation}"),
        JobEvent::Swept { removed } => format!("swept {}", removed.len()),
        JobEvent::Running { tasks } => format!("running {tasks}"),
        JobEvent::EpochDurable { epoch, committables, .. } => format!("durable {epoch} with {committables}"),
        JobEvent::EpochCommitted { epoch } => format!("committed {epoch}"),
        JobEvent::EpochFailed { epoch, error } => format!("failed {epoch} {}", error.code()),
        JobEvent::Restarting { error, .. } => format!("restarting {}", error.code()),
        JobEvent::Finished { reason } => format!("finished {reason:?}"),
    }
}
