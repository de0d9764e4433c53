use std::path::Path;
use std::time::Duration;

use staunch_engine::cluster::Restore;
use staunch_engine::job::Settings;
use staunch_http::Http;
use staunch_types::{Epoch, Name};

use super::given::RestoreGiven;
use super::*;

fn given(words: &[&str]) -> Result<Given> {
    let words = std::iter::once("job").chain(words.iter().copied());
    CommandLine::try_parse_from(words).expect("the words are options").job.given()
}

fn from_file(text: &str) -> Result<Given> {
    let mut given = Given::default();
    file::take(text, "my.toml", &mut given).map(|()| given)
}

fn error_of(result: Result<Given>) -> String {
    result.expect_err("it must be refused").to_string()
}

#[test]
fn words_behind_two_dashes_are_left_to_the_program() {
    assert_eq!(JobOptions::parse(["job", "plan", "--", "run", "--mine"].map(Into::into)).command(), Command::Plan);
}

#[test]
fn every_option_is_read_from_the_command_line() {
    let words = [
        "plan",
        "--parallelism=3",
        "--checkpoint-dir=file:///data/checkpoints",
        "--checkpoint-interval=250ms",
        "--restore=17",
        "--allow-lost-state=a,b",
        "--allow-lost-state=c",
        "--accept-lost=sink",
        "--take-over=sink,other",
        "--role=local",
        "--http=none",
    ];
    let given = given(&words).expect("all are good");
    let mut settings = Settings::new();
    given.apply(&mut settings, None).expect("applies");
    assert_eq!(settings.parallelism, 3);
    assert_eq!(settings.checkpoint_directory.as_deref(), Some(Path::new("/data/checkpoints")));
    assert_eq!(settings.run.interval, Duration::from_millis(250));
    assert_eq!(settings.run.restore, Restore::Epoch(Epoch(17)));
    let names = |texts: &[&str]| texts.iter().map(|t| Name::new(*t).expect("a name")).collect();
    assert_eq!(settings.run.allow_lost_state, names(&["a", "b", "c"]));
    assert_eq!(settings.run.accept_lost, names(&["sink"]));
    assert_eq!(settings.run.take_over, names(&["sink", "other"]));
}

#[test]
fn a_file_gives_every_option_and_the_command_line_wins_over_it() {
    let text = "parallelism = 5\ncheckpoint-dir = \"ck\"\ncheckpoint-interval = \"1m\"\nrestore = \"none\"\n\
                allow-lost-state = [\"one, with comma\", \"two\"]\naccept-lost = \"sink\"\ntake-over = \"sink\"\nrole = \"local\"\nhttp = \"none\"\n";
    let mut given = from_file(text).expect("a good file");
    assert_eq!(given.parallelism, Some(5));
    assert_eq!(given.restore, Some(RestoreGiven::Nothing));
    assert_eq!(given.allow_lost_state.as_ref().map(std::collections::BTreeSet::len), Some(2));
    given.set(Key::Parallelism, &["2".into()], "flag").expect("good");
    assert_eq!(given.parallelism, Some(2));
    assert_eq!(given.interval, Some(Duration::from_secs(60)));
}

#[test]
fn an_unknown_key_is_named_with_file_line_and_key() {
    let text = error_of(from_file("# mine\nparallelism = 2\nparalelism = 3\n"));
    assert!(text.starts_with("error[J105]: there is no option \"paralelism\""), "{text}");
    assert!(text.contains("where: file=my.toml line=3 key=paralelism"), "{text}");
    assert!(text.contains("known are parallelism, checkpoint-dir"), "{text}");
}

#[test]
fn a_bad_value_in_a_file_is_named_with_file_line_and_key() {
    let text = error_of(from_file("\ncheckpoint-interval = 10\n"));
    assert!(text.contains("expected a time above zero, such as 500ms, 10s, 5m or 1h, found \"10\""), "{text}");
    assert!(text.contains("file=my.toml line=2 key=checkpoint-interval"), "{text}");
    let text = error_of(from_file("parallelism = 2\n[section]\nx = 1\n"));
    assert!(text.contains("there is no option \"section\"") && text.contains("line=2"), "{text}");
    let text = error_of(from_file("restore = true\n"));
    assert!(text.contains("found a value of type boolean"), "{text}");
}

#[test]
fn a_file_that_is_not_toml_is_named_with_its_line() {
    let text = error_of(from_file("parallelism = 2\nrestore latest\n"));
    assert!(text.starts_with("error[J104]") && text.contains("file=my.toml line=2"), "{text}");
}

#[test]
fn what_this_build_cannot_do_is_refused_as_such() {
    let cases = [
        ("--checkpoint-dir=s3://bucket/x", "checkpoints in \"s3\" are not in this build"),
        ("--checkpoint-dir=hdfs://host/x", "checkpoints in \"hdfs\" are not in this build"),
        ("--role=coordinator", "the role \"coordinator\" is not in this build"),
        ("--role=worker", "the role \"worker\" is not in this build"),
    ];
    for (word, expected) in cases {
        let text = error_of(given(&[word]));
        assert!(text.starts_with("error[J102]") && text.contains(expected), "{word}: {text}");
    }
}

#[test]
fn bad_values_say_what_was_expected_and_where() {
    let cases = [
        ("--parallelism=0", "expected a number of tasks, at least 1, found \"0\""),
        ("--parallelism=many", "found \"many\""),
        ("--checkpoint-dir=file://relative", "expected file:/// and an absolute path"),
        ("--checkpoint-dir=ftp://x", "expected a path or file:///…"),
        ("--checkpoint-interval=0s", "expected a time above zero"),
        ("--restore=yesterday", "expected latest, none, the number of an epoch"),
        ("--role=boss", "expected local"),
        ("--http=everywhere", "expected HOST:PORT, a port, or none, found \"everywhere\""),
    ];
    for (word, expected) in cases {
        let text = error_of(given(&[word]));
        assert!(text.starts_with("error[J101]") && text.contains(expected), "{word}: {text}");
        let option = word.split('=').next().expect("a flag");
        assert!(text.contains(&format!("where: option {option}, or variable STAUNCH_")), "{word}: {text}");
    }
}

#[test]
fn the_http_interface_is_where_the_program_says_unless_it_is_given() {
    let own = || Some(Http::at("1"));
    assert_eq!(given(&[]).expect("good").http(own()), own());
    assert_eq!(given(&["--http=none"]).expect("good").http(own()), None);
    assert_eq!(given(&["--http=localhost:2"]).expect("good").http(own()), Some(Http::at("localhost:2")));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    let option = format!("--http-token-file={}", file.display());
    std::fs::write(&file, "a-token\n").expect("written");
    assert_eq!(given(&[&option]).expect("good").http(own()), Some(Http::at("1").token("a-token")));
    assert_eq!(given(&[&option, "--http=none"]).expect("good").http(own()), None);
    for text in ["", " \n", "two words", "über"] {
        std::fs::write(&file, text).expect("written");
        let error = error_of(given(&[&option]));
        assert!(error.starts_with("error[J108]") && error.contains(&format!("file={}", file.display())), "{text:?}: {error}");
    }
    let error = error_of(given(&["--http-token-file=no-such-file"]));
    assert!(error.starts_with("error[J108]: the file with the token cannot be read"), "{error}");
}

#[test]
fn a_manifest_of_another_job_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("mine/manifests");
    let other = folder.path().join("other/manifests");
    for manifests in [&own, &other] {
        std::fs::create_dir_all(manifests).expect("made");
        std::fs::write(manifests.join("e0000000012-g3"), b"x").expect("written");
    }
    let mine = Name::new("mine").expect("a name");
    for (manifests, good) in [(&own, true), (&other, false)] {
        let path = manifests.join("e0000000012-g3");
        let given = given(&["--restore", path.to_str().expect("UTF-8")]).expect("a manifest");
        let mut settings = Settings::new();
        settings.checkpoint_directory = Some(folder.path().to_owned());
        let applied = given.apply(&mut settings, Some(&mine));
        assert_eq!(applied.is_ok(), good, "{applied:?}");
        if good {
            assert_eq!(settings.run.restore, Restore::Epoch(Epoch(12)));
        }
    }
}
