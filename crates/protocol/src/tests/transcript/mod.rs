//! Golden transcripts: what a machine does, event by event, as text that a person can read and a test compares exactly.
//!
//! Owns: the files' form and their comparison. Does not own: the words of each machine; they are in the module of its name.
//!
//! A line that begins in the first column is an event (or a setting), what follows it indented are the effects. `#` begins a comment.
//! An event may begin with `@12`, the time in milliseconds from then on. With the variable `STAUNCH_REWRITE` set, the effects in the files
//! are replaced by what the machines do (run it with one test thread); read the difference before you keep it.

#![allow(clippy::disallowed_methods, reason = "tests read and rewrite their transcripts")]

mod align;
mod assign;
mod checkpoint;
mod commit;
mod coordinator;
mod failover;
mod ledger;
mod resolve;
mod ring;
mod watermark;
mod words;

use std::path::PathBuf;

use staunch_types::Tick;

/// A machine behind words.
trait Script: Default {
    /// The folder of its transcripts.
    const FOLDER: &'static str;
    /// Takes the words of one line; returns the effects, one line each.
    fn line(&mut self, now: Tick, words: &[&str]) -> Vec<String>;
}

fn path(folder: &str, name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "transcripts", folder, &format!("{name}.transcript")].iter().collect()
}

/// Runs the events of a transcript; returns the file's text and what it should be.
fn run<S: Script>(name: &str) -> (String, String) {
    let path = path(S::FOLDER, name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut script = S::default();
    let mut now = Tick::default();
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        out.push_str(line);
        out.push('\n');
        // `#` also numbers committables: only a free-standing one begins a comment.
        let mut words: Vec<&str> = line.split_whitespace().take_while(|word| *word != "#").collect();
        if words.is_empty() {
            continue;
        }
        if let Some(ms) = words[0].strip_prefix('@') {
            now = words::ms(ms);
            words.remove(0);
        }
        for effect in script.line(now, &words) {
            out.push_str("    ");
            out.push_str(&effect);
            out.push('\n');
        }
    }
    (text, out)
}

/// Effects as lines; behind them whether the machine ignored the event, which it counts: `stale` is the count before and after.
fn told<E>(effects: &[E], show: impl Fn(&E) -> String, stale: [u64; 2]) -> Vec<String> {
    let ignored = (stale[1] > stale[0]).then(|| "(ignored)".into());
    effects.iter().map(show).chain(ignored).collect()
}

/// The line that tells a machine's deadline, if it is another than before.
fn until(before: Option<Tick>, deadline: Option<Tick>) -> Option<String> {
    let deadline = deadline.filter(|deadline| Some(*deadline) != before)?;
    Some(format!("(until {} ms)", deadline.since(Tick::default()).as_millis()))
}

/// Compares a transcript with what its machine does.
fn check<S: Script>(name: &str) {
    let (text, actual) = run::<S>(name);
    if std::env::var_os("STAUNCH_REWRITE").is_some() {
        std::fs::write(path(S::FOLDER, name), &actual).unwrap_or_else(|error| panic!("{name}: {error}"));
        return;
    }
    for (number, (expected, found)) in text.lines().zip(actual.lines()).enumerate() {
        assert_eq!(expected, found, "{}/{name}.transcript, line {}\n--- what the machine does ---\n{actual}", S::FOLDER, number + 1);
    }
    assert_eq!(text, actual, "{}/{name}.transcript", S::FOLDER);
}

/// Whether a transcript notices that a rule is broken: the machine does something else, or an assertion fails.
fn notices<S: Script>(name: &str, rule: crate::mutation::Mutation) -> bool {
    let run = std::panic::AssertUnwindSafe(|| crate::mutation::with(Some(rule), || run::<S>(name)));
    match std::panic::catch_unwind(run) {
        Ok((text, actual)) => text != actual,
        Err(_) => true,
    }
}

#[test]
fn every_transcript_has_a_test_of_its_name() {
    let sources = [
        include_str!("align.rs"),
        include_str!("assign.rs"),
        include_str!("checkpoint.rs"),
        include_str!("commit.rs"),
        include_str!("coordinator.rs"),
        include_str!("failover.rs"),
        include_str!("ledger.rs"),
        include_str!("resolve.rs"),
        include_str!("ring.rs"),
        include_str!("watermark.rs"),
    ];
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "transcripts"].iter().collect();
    let mut count = 0;
    for folder in std::fs::read_dir(&root).expect("the folder exists") {
        for file in std::fs::read_dir(folder.expect("readable").path()).expect("readable") {
            let path = file.expect("readable").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            assert!(sources.iter().any(|source| source.contains(&format!("fn {name}()"))), "no test for {}", path.display());
            count += 1;
        }
    }
    assert!(count > 30, "found only {count} transcripts");
}
