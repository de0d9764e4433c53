//! Options of a job's program: what is refused, and which of two wins.

use crate::harness::{Place, run, staunch};

#[test]
fn help_lists_every_option_with_its_variable_and_default() {
    let help = staunch(&["demo-worker", "--help"]).ends_with(0);
    for option in [
        "parallelism",
        "checkpoint-dir",
        "checkpoint-interval",
        "restore",
        "allow-lost-state",
        "accept-lost",
        "role",
        "http",
        "http-token-file",
        "config",
    ] {
        let variable = format!("STAUNCH_{}", option.to_uppercase().replace('-', "_"));
        assert!(help.out.contains(&format!("--{option}")) && help.out.contains(&variable), "{option} in\n{}", help.out);
    }
    for default in ["[default: the number of cores]", "[default: what the program says, or 10s]", "[default: latest]", "[default: run]"] {
        assert!(help.out.contains(default), "{default} in\n{}", help.out);
    }
}

#[test]
fn an_unknown_option_or_command_is_a_usage_error() {
    staunch(&["demo-worker", "--paralelism", "3"]).ends_with(2).complains("--paralelism");
    staunch(&["cancel", "job"]).ends_with(2).complains("unrecognized subcommand 'cancel'");
    staunch(&[]).ends_with(2).complains("Usage: staunch");
    staunch(&["verify", "x", "--epochs", "9..3"]).ends_with(2).complains("expected epochs such as 7, 3..9, 3.. or ..9");
}

#[test]
fn a_value_that_is_not_understood_is_a_usage_error_with_its_place() {
    let place = Place::with_flights(1);
    let refused = |option: &str, value: &str, text: &str| {
        let answer = run(place.job_without_checkpoints(&["plan"]).args([option, value])).ends_with(2);
        answer.complains(text).complains(&format!("where: option {option}, or variable STAUNCH_")).complains("data: nothing was started");
    };
    refused("--parallelism", "0", "error[J101]: expected a number of tasks, at least 1, found \"0\"");
    refused("--checkpoint-interval", "10", "error[J101]: expected a time above zero");
    refused("--checkpoint-dir", "s3://bucket/x", "error[J102]: checkpoints in \"s3\" are not in this build");
    refused("--checkpoint-dir", "hdfs://host/x", "error[J102]: checkpoints in \"hdfs\" are not in this build");
    refused("--role", "worker", "error[J102]: the role \"worker\" is not in this build");
    refused("--http", "everywhere", "error[J101]: expected HOST:PORT, a port, or none, found \"everywhere\"");
    refused("--restore", "yesterday", "error[J101]: expected latest, none");
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let place = Place::with_flights(1);
    let file = place.path("job.toml");
    std::fs::write(&file, "parallelism = 3\ncheckpoint-interval = \"7s\"\n").expect("written");
    let plan = |add: &[&str], variable: Option<&str>, expected: &str| {
        let mut job = place.job_without_checkpoints(&["plan"]);
        job.arg("--config").arg(&file).args(add);
        variable.map(|value| job.env("STAUNCH_PARALLELISM", value));
        run(&mut job).ends_with(0).says(expected).says("checkpoints each 7.0 s");
    };
    plan(&[], None, "chain 0, parallelism 3");
    plan(&[], Some("4"), "chain 0, parallelism 4");
    plan(&["--parallelism", "5"], Some("4"), "chain 0, parallelism 5");
    // The file can be named by a variable too, and what the program says itself is the default.
    let mut by_variable = place.job_without_checkpoints(&["plan"]);
    run(by_variable.env("STAUNCH_CONFIG", &file)).ends_with(0).says("chain 0, parallelism 3");
    run(&mut place.job_without_checkpoints(&["plan"])).ends_with(0).says("checkpoints each 100 ms");
}

#[test]
fn an_unknown_key_in_the_file_is_an_error_with_file_line_and_key() {
    let place = Place::with_flights(1);
    let file = place.path("job.toml");
    std::fs::write(&file, "parallelism = 3\n\ncheckpoint_dir = \"x\"\n").expect("written");
    let answer = run(place.job_without_checkpoints(&["plan"]).arg("--config").arg(&file)).ends_with(2);
    let where_ = format!("where: file={} line=3 key=checkpoint_dir", file.display());
    answer
        .complains("error[J105]: there is no option \"checkpoint_dir\"")
        .complains(&where_)
        .complains("known are parallelism, checkpoint-dir");
    let missing = run(place.job_without_checkpoints(&["plan"]).args(["--config", "no-such-file.toml"])).ends_with(2);
    missing.complains("error[J103]").complains("file=no-such-file.toml");
}
