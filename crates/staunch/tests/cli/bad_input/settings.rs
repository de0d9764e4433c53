//! Options and settings that cannot work.

use super::embedded::{self, Kind};
use super::input::stopped_in_the_middle;
use super::{Case, NO_INTERVAL, Stage};
use crate::harness::{Place, run};

pub(super) fn cases() -> Vec<Case> {
    let options = |words: &'static [&'static str]| move |_: &Place| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let file = |text: &'static str| {
        move |place: &Place| {
            let path = place.path("job.toml");
            std::fs::write(&path, text).expect("written");
            vec!["--config".to_owned(), path.display().to_string()]
        }
    };
    vec![
        Case::new("a parallelism of zero", 2, "J101").options(options(&["--parallelism", "0"])),
        Case::new("a checkpoint interval without a unit", 2, "J101").run(|place, stage| {
            let interval = if stage == Stage::Spoilt { ["--checkpoint-interval", "10"] } else { NO_INTERVAL };
            run(place.job(&[]).args(interval)).into()
        }),
        Case::new("checkpoints at a place that this build does not know", 2, "J102").run(|place, stage| match stage {
            Stage::Spoilt => run(place.job_without_checkpoints(&[]).args(["--checkpoint-dir", "s3://bucket/checkpoints"])).into(),
            Stage::Mended => run(place.job(&[]).args(NO_INTERVAL)).into(),
        }),
        Case::new("a file of options that is not there", 2, "J103")
            .options(|place| vec!["--config".to_owned(), place.path("no-such.toml").display().to_string()]),
        Case::new("a file of options that is not TOML", 2, "J104").options(file("parallelism: 4\n")),
        Case::new("a file of options with an unknown key", 2, "J105").options(file("paralelism = 4\n")),
        Case::new("a restore from a checkpoint that does not exist", 4, "C014")
            .spoil(stopped_in_the_middle)
            .options(options(&["--restore", "9999"])),
        Case::new("a restore from a manifest of another job", 4, "J106")
            .spoil(|place| {
                assert_eq!(embedded::ends(place, Kind::OtherJob).code, 0);
                std::fs::remove_dir_all(place.output()).expect("removed");
            })
            .options(|place| {
                vec!["--restore".to_owned(), place.checkpoints().join("other/manifests/e0000000001-g1").display().to_string()]
            }),
        Case::new("a delimiter that cannot be one", 4, "F008").run(embedded::spoilt(Kind::BadDelimiter)),
    ]
}
