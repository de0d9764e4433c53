//! Output that cannot be written.

use std::os::unix::fs::PermissionsExt;

use super::embedded::{self, Kind};
use super::input::{as_nobody, open_to_all};
use super::{Case, NO_INTERVAL, Stage, full_disk};
use crate::harness::run;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a file in place of the output directory", 4, "F050")
            .spoil(|place| std::fs::write(place.output(), "a file").expect("written"))
            .mend(|place| std::fs::remove_file(place.output()).expect("removed")),
        Case::new("an output directory in which this user may not write", 4, "F051")
            .run(|place, _| run(&mut as_nobody(place)).into())
            .spoil(|place| {
                open_to_all(place);
                std::fs::set_permissions(place.output(), std::fs::Permissions::from_mode(0o555)).expect("set");
            })
            .mend(|place| std::fs::set_permissions(place.output(), std::fs::Permissions::from_mode(0o777)).expect("set")),
        Case::new("an output directory on a full disk", 4, "F052").run(|place, stage| match stage {
            Stage::Spoilt => full_disk::ends(place),
            Stage::Mended => embedded::ends(place, Kind::Good),
        }),
        Case::new("a record that the format cannot hold", 1, "F053").run(embedded::spoilt(Kind::NestedRecord)),
        Case::new("a header for records without names", 1, "F054").run(embedded::spoilt(Kind::NamelessHeader)),
        Case::new("output of an earlier life whose checkpoints are gone", 4, "F062")
            .spoil(|place| {
                run(place.job(&[]).args(NO_INTERVAL)).ends_with(0);
                std::fs::remove_dir_all(place.checkpoints()).expect("removed");
                // Of two sinks either could be the first to say so.
                std::fs::remove_dir_all(place.output().join("late")).expect("removed");
            })
            .mend(|place| std::fs::remove_dir_all(place.output()).expect("removed")),
    ]
}
