//! Transcripts of watermarks: `channels 2 [restored 500]`, `advanced 0 10`, `idle 0`, `active 0`, `ended 0`, `added`.

use staunch_types::{Tick, Timestamp};

use super::{Script, check, notices, told, words};
use crate::align::ChannelIndex;
use crate::mutation::Mutation;
use crate::watermark::{Effect, Event, Facts, Watermark};

struct Words(Watermark);

impl Default for Words {
    fn default() -> Self {
        Words(Watermark::recover(Facts { channels: 1, combined: Timestamp::MIN }))
    }
}

impl Script for Words {
    const FOLDER: &'static str = "watermark";

    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String> {
        let channel = |word| ChannelIndex(words::number(word));
        let event = match words {
            ["channels", count] => {
                self.0 = Watermark::recover(Facts { channels: words::number(count), combined: Timestamp::MIN });
                return Vec::new();
            }
            ["channels", count, "restored", at] => {
                self.0 = Watermark::recover(Facts { channels: words::number(count), combined: Timestamp(words::number(at)) });
                return Vec::new();
            }
            ["advanced", from, to] => Event::Advanced { channel: channel(from), to: Timestamp(words::number(to)) },
            ["idle", from] => Event::BecameIdle { channel: channel(from) },
            ["active", from] => Event::BecameActive { channel: channel(from) },
            ["ended", from] => Event::Ended { channel: channel(from) },
            ["added"] => Event::Added,
            _ => panic!("no event {words:?}"),
        };
        let (stale, mut out) = (self.0.stale_events(), Vec::new());
        self.0.step(now, event, &mut out);
        told(&out, show, [stale, self.0.stale_events()])
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Advance { to } => format!("advance to {to}"),
        Effect::TurnIdle => "turn idle".into(),
        Effect::TurnActive => "turn active".into(),
    }
}

#[test]
fn the_watermark_is_the_least_of_the_active_channels() {
    check::<Words>("the_watermark_is_the_least_of_the_active_channels");
}

#[test]
fn idle_channels_do_not_hold_the_watermark() {
    check::<Words>("idle_channels_do_not_hold_the_watermark");
}

#[test]
fn when_all_are_idle_it_does_not_matter_which_was_last() {
    check::<Words>("when_all_are_idle_it_does_not_matter_which_was_last");
}

#[test]
fn the_watermark_never_goes_back() {
    check::<Words>("the_watermark_never_goes_back");
}

#[test]
fn the_end_of_all_channels_is_the_end_of_time() {
    check::<Words>("the_end_of_all_channels_is_the_end_of_time");
}

#[test]
fn transcripts_of_watermarks_notice_broken_rules() {
    assert!(notices::<Words>("the_watermark_is_the_least_of_the_active_channels", Mutation::WatermarkTakesMax));
    assert!(notices::<Words>("the_watermark_never_goes_back", Mutation::WatermarkGoesBack));
}
