//! Verification finds every kind of change, and names the place.

use std::path::Path;

use serde_json::json;

use crate::harness::{Answer, Place, Running, flip, name, run, staunch};

fn verify(place: &Place) -> Answer {
    staunch(&["verify", &place.job_folder()])
}

/// The file with the most windows.
fn largest(place: &Place) -> std::path::PathBuf {
    place.files("on-time").into_iter().max_by_key(|path| std::fs::metadata(path).expect("there").len()).expect("there are windows")
}

#[track_caller]
fn is_found(place: &Place, code: &str, file: &Path, words: &str) {
    let answer = verify(place).ends_with(1).says("NOT verified");
    answer.complains(&format!("error[{code}]")).complains(&name(file)).complains(words);
    let json = staunch(&["verify", &place.job_folder(), "--format", "json"]).ends_with(1).json();
    assert_eq!(json["verified"], json!(false));
    let named = |finding: &serde_json::Value| finding["place"].as_str().is_some_and(|text| text.contains(&name(file)));
    assert!(json["findings"].as_array().expect("a list").iter().any(named), "{json}");
}

fn edit(path: &Path, change: impl Fn(&mut Vec<String>)) {
    let text = std::fs::read_to_string(path).expect("there");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    std::fs::write(path, lines.join("\n") + "\n").expect("written");
}

#[test]
fn a_finished_job_is_verified_in_both_forms() {
    let place = Place::with_finished_job();
    let answer = verify(&place).ends_with(0).says("verified: nothing lost, nothing doubled, nothing changed");
    answer.says("source     flights: 600 records").says("sink       on-time (files): 30 records").says("0 in doubt");
    let json = staunch(&["verify", &place.job_folder(), "--format", "json"]).ends_with(0).json();
    assert_eq!((&json["verified"], &json["complete"]), (&json!(true), &json!(true)));
    assert_eq!(json["sources"]["flights"]["records"], json!(600));
    assert_eq!(json["sinks"]["on-time"]["records_read"], json!(30));
    assert_eq!(json["operators"]["totals"]["records_in"], json!(600));
    assert_eq!(json["epochs"]["count"], json!(place.objects("manifests").len()));
}

#[test]
fn a_deleted_line_is_found() {
    let place = Place::with_finished_job();
    let file = largest(&place);
    edit(&file, |lines| drop(lines.remove(1)));
    is_found(&place, "C307", &file, "records are lost");
}

#[test]
fn a_doubled_line_is_found() {
    let place = Place::with_finished_job();
    let file = largest(&place);
    edit(&file, |lines| lines.push(lines[1].clone()));
    is_found(&place, "C307", &file, "records are doubled or added");
}

#[test]
fn a_changed_line_is_found() {
    let place = Place::with_finished_job();
    let file = largest(&place);
    edit(&file, |lines| {
        let changed = lines[1].replacen(',', ",1", 1);
        lines[1] = changed;
    });
    is_found(&place, "C307", &file, "records are changed");
}

#[test]
fn a_removed_file_is_found() {
    let place = Place::with_finished_job();
    let file = largest(&place);
    std::fs::remove_file(&file).expect("removed");
    is_found(&place, "C307", &file, "a committed file is gone");
}

#[test]
fn a_copied_file_is_found() {
    let place = Place::with_finished_job();
    let file = largest(&place);
    let copy = file.with_file_name(name(&file).replace(".csv", "7.csv"));
    std::fs::copy(&file, &copy).expect("copied");
    is_found(&place, "C307", &copy, "named by no epoch");
}

#[test]
fn only_the_chosen_epochs_are_looked_at() {
    let place = Place::with_finished_job();
    let file = largest(&place);
    std::fs::remove_file(&file).expect("removed");
    // part-<tag>-<epoch>-…
    let epoch: u64 = name(&file).split('-').nth(2).expect("an epoch").parse().expect("a number");
    let verify = |epochs: String| staunch(&["verify", &place.job_folder(), "--epochs", &epochs]);
    verify(format!("{epoch}")).ends_with(1);
    verify(format!("..{}", epoch - 1)).ends_with(0);
    verify(format!("{}..", epoch + 1)).ends_with(0);
}

#[test]
fn a_flipped_byte_in_any_ledger_entry_is_named() {
    let place = Place::with_finished_job();
    for entry in place.objects("ledger") {
        let before = std::fs::read(&entry).expect("there");
        flip(&entry);
        let answer = verify(&place).ends_with(1).complains("error[C105]").complains(&name(&entry));
        assert!(answer.out.contains("NOT verified"), "{}", answer.out);
        staunch(&["ledger", &place.job_folder()]).ends_with(1).complains("error[C105]").complains(&name(&entry));
        std::fs::write(&entry, before).expect("written");
    }
    verify(&place).ends_with(0);
}

#[test]
fn a_missing_ledger_entry_is_named() {
    let place = Place::with_finished_job();
    let entries = place.objects("ledger");
    std::fs::remove_file(&entries[3]).expect("removed");
    verify(&place).ends_with(1).complains("error[C105]: the ledger is broken at entry 4");
}

#[test]
fn a_flipped_byte_in_any_manifest_is_named() {
    let place = Place::with_finished_job();
    for manifest in place.objects("manifests") {
        let before = std::fs::read(&manifest).expect("there");
        flip(&manifest);
        verify(&place).ends_with(1).complains("error[C305]").complains(&name(&manifest));
        std::fs::write(&manifest, before).expect("written");
    }
    verify(&place).ends_with(0);
}

#[test]
fn a_flipped_byte_in_any_state_object_is_named() {
    let place = Place::with_finished_job();
    let objects = place.objects("state");
    assert!(!objects.is_empty(), "windows were open at some checkpoint");
    for object in objects {
        let before = std::fs::read(&object).expect("there");
        flip(&object);
        let answer = verify(&place).ends_with(1).complains("error[C306]").complains(&name(&object));
        answer.complains("operator=totals state=window");
        std::fs::write(&object, &before).expect("written");
        std::fs::write(&object, &before[..before.len() - 1]).expect("written");
        verify(&place).ends_with(1).complains("error[C306]").complains(&name(&object));
        std::fs::write(&object, before).expect("written");
    }
    verify(&place).ends_with(0);
}

#[test]
fn a_running_job_is_verified_without_false_findings() {
    for retain in ["1000000", "1"] {
        let place = Place::with_flights(100_000);
        let mut job = Running::start(place.job(&[]).args(["--rate", "3000", "--checkpoint-interval", "20ms", "--retain", retain]));
        job.wait_for("durable in");
        for _ in 0..5 {
            verify(&place).ends_with(0);
        }
        job.signal("TERM");
        job.end().ends_with(0);
        verify(&place).ends_with(0);
    }
}

#[test]
fn output_of_long_ago_is_proven_though_its_manifest_is_retired() {
    let place = Place::with_flights(600);
    run(place.job(&[]).args(["--rate", "1000", "--checkpoint-interval", "50ms", "--retain", "2"])).ends_with(0);
    assert!(place.objects("manifests").len() < 5, "older ones are retired");
    let json = staunch(&["verify", &place.job_folder(), "--format", "json"]).ends_with(0).json();
    assert_eq!((&json["verified"], &json["complete"]), (&json!(true), &json!(true)));
}

#[test]
fn the_newest_manifest_must_be_there_and_older_ones_may_be_retired() {
    let place = Place::with_finished_job();
    let manifests = place.objects("manifests");
    std::fs::remove_file(&manifests[0]).expect("removed");
    verify(&place).ends_with(0).says("1 retired");
    let newest = manifests.last().expect("there are some");
    std::fs::remove_file(newest).expect("removed");
    verify(&place).ends_with(1).complains("error[C304]").complains(&name(newest));
}
