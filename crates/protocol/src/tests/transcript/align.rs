//! Transcripts of alignment: `channels 2 [restored e3]`, `barrier 0 e1`, `ended 0`, `triggered e1`, `abandoned e1`.

use staunch_types::{Epoch, Tick};

use super::{Script, check, notices, told, words};
use crate::align::{Align, ChannelIndex, Effect, Event, Facts};
use crate::mutation::Mutation;

struct Words(Align);

impl Default for Words {
    fn default() -> Self {
        Words(Align::recover(Facts { channels: 0, restored: Epoch(0) }))
    }
}

impl Script for Words {
    const FOLDER: &'static str = "align";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        let channel = |word| ChannelIndex(words::number(word));
        let event = match words {
            ["channels", count] => {
                self.0 = Align::recover(Facts { channels: words::number(count), restored: Epoch(0) });
                return Vec::new();
            }
            ["channels", count, "restored", epoch] => {
                self.0 = Align::recover(Facts { channels: words::number(count), restored: words::epoch(epoch) });
                return Vec::new();
            }
            ["barrier", from, epoch] => Event::BarrierArrived { channel: channel(from), epoch: words::epoch(epoch) },
            ["ended", from] => Event::ChannelEnded { channel: channel(from) },
            ["triggered", epoch] => Event::Triggered { epoch: words::epoch(epoch) },
            ["abandoned", epoch] => Event::EpochAbandoned { epoch: words::epoch(epoch) },
            _ => panic!("no event {words:?}"),
        };
        let (stale, mut out) = (self.0.stale_events(), Vec::new());
        self.0.step(now, event, &mut out);
        told(&out, show, [stale, self.0.stale_events()])
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::BlockChannel { channel } => format!("block {}", channel.0),
        Effect::SnapshotNow { epoch } => format!("snapshot e{epoch}"),
        Effect::Declined { epoch } => format!("decline e{epoch}"),
        Effect::UnblockAll => "unblock all".into(),
        Effect::InputEnded => "input ended".into(),
    }
}

#[test]
fn a_snapshot_waits_for_the_barrier_on_every_channel() {
    check::<Words>("a_snapshot_waits_for_the_barrier_on_every_channel");
}

#[test]
fn a_newer_barrier_abandons_an_older_partial_alignment() {
    check::<Words>("a_newer_barrier_abandons_an_older_partial_alignment");
}

#[test]
fn late_barriers_of_an_abandoned_epoch_are_ignored() {
    check::<Words>("late_barriers_of_an_abandoned_epoch_are_ignored");
}

#[test]
fn an_ended_channel_counts_as_aligned() {
    check::<Words>("an_ended_channel_counts_as_aligned");
}

#[test]
fn a_source_takes_its_snapshot_when_triggered() {
    check::<Words>("a_source_takes_its_snapshot_when_triggered");
}

#[test]
fn transcripts_of_alignment_notice_broken_rules() {
    assert!(notices::<Words>("a_snapshot_waits_for_the_barrier_on_every_channel", Mutation::AlignForgetsChannel));
    assert!(notices::<Words>("late_barriers_of_an_abandoned_epoch_are_ignored", Mutation::AlignAcceptsAbandoned));
    assert!(notices::<Words>("an_ended_channel_counts_as_aligned", Mutation::AlignWaitsForEnded));
}
