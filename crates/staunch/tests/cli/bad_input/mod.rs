//! Bad input of each kind, to a whole job: a clear error with code, place and remedy; nothing is lost; and after what was wrong has
//! been mended the job goes on to the output that it has without any fault.
//!
//! `docs/bad-input.md` lists the kinds with the very messages; a test compares the two.

mod input;
mod output;
mod stored;
mod settings;
mod plan;
mod embedded;
mod full_disk;
mod page;

use std::sync::OnceLock;

use crate::harness::{Answer, JOB, Place, command, run};

/// Rows of good input.
const FLIGHTS: u64 = 600;
/// Without a checkpoint between, so that no run is cut by chance.
const NO_INTERVAL: [&str; 2] = ["--checkpoint-interval", "1h"];

/// How far a case has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Something is wrong.
    Spoilt,
    /// It is not any more.
    Mended,
}

/// A job that ended, in a process of its own or in this one.
struct Told {
    code: i32,
    text: String,
}

impl From<Answer> for Told {
    fn from(answer: Answer) -> Told {
        Told { code: answer.code.expect("no signal ended it"), text: answer.err }
    }
}

/// Runs a job in a place.
type Run = Box<dyn Fn(&Place, Stage) -> Told>;

/// One kind of bad input.
struct Case {
    /// What is wrong, in words.
    kind: &'static str,
    /// The exit code and the code of the error.
    expected: (i32, &'static str),
    spoil: Box<dyn Fn(&Place)>,
    run: Run,
    mend: Box<dyn Fn(&Place)>,
}

impl Case {
    /// The demonstration's job, whose input, output or checkpoints are bad.
    fn new(kind: &'static str, code: i32, error: &'static str) -> Case {
        let run = |place: &Place, _| Told::from(run(place.job(&[]).args(NO_INTERVAL)));
        Case { kind, expected: (code, error), spoil: Box::new(|_| {}), run: Box::new(run), mend: Box::new(|_| {}) }
    }

    /// What makes it bad.
    fn spoil(mut self, spoil: impl Fn(&Place) + 'static) -> Case {
        self.spoil = Box::new(spoil);
        self
    }

    /// What makes it good again.
    fn mend(mut self, mend: impl Fn(&Place) + 'static) -> Case {
        self.mend = Box::new(mend);
        self
    }

    /// Another way to run it.
    fn run(mut self, run: impl Fn(&Place, Stage) -> Told + 'static) -> Case {
        self.run = Box::new(run);
        self
    }

    /// The demonstration's job with another path of input, in the folder of the place.
    fn reads(self, input: &'static str) -> Case {
        self.reads_then(input, input)
    }

    /// The same, with another path once it is mended.
    fn reads_then(self, spoilt: &'static str, mended: &'static str) -> Case {
        self.run(move |place, stage| {
            let input = place.path(if stage == Stage::Spoilt { spoilt } else { mended });
            let mut job = command(&["demo-worker", "--input"]);
            job.arg(input).arg("--output").arg(place.output()).arg("--checkpoint-dir").arg(place.checkpoints());
            run(job.args(NO_INTERVAL)).into()
        })
    }

    /// The demonstration's job with options that are bad at first.
    fn options(self, options: impl Fn(&Place) -> Vec<String> + 'static) -> Case {
        self.run(move |place, stage| {
            let mut job = place.job(&[]);
            if stage == Stage::Spoilt {
                job.args(options(place));
            }
            run(job.args(NO_INTERVAL)).into()
        })
    }

    /// Replaces the input while it is bad.
    fn input(self, bad: impl Fn(&str) -> Vec<u8> + 'static) -> Case {
        let spoil = move |place: &Place| {
            let good = std::fs::read_to_string(place.input()).expect("there");
            std::fs::write(place.input(), bad(&good)).expect("written");
        };
        self.spoil(spoil).mend(restore)
    }
}

/// Puts the good input back.
fn restore(place: &Place) {
    let good = Place::with_flights(FLIGHTS);
    std::fs::copy(good.input(), place.input()).expect("copied");
}

/// What the output is without any fault.
fn complete() -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| {
        let place = Place::with_flights(FLIGHTS);
        run(&mut place.job(&[])).ends_with(0);
        place.lines("on-time")
    })
}

/// An error as it was told.
struct Complaint {
    code: String,
    what: String,
    place: String,
    data: String,
    remedy: String,
}

impl Complaint {
    /// The last error in a text, with the folder of the test under another name.
    fn last(kind: &str, text: &str, place: &Place) -> Complaint {
        let folder = place.path("").display().to_string();
        let text = text.replace(&folder, "/data/").replace(folder.trim_end_matches('/'), "/data");
        let start = text.rfind("error[").unwrap_or_else(|| panic!("{kind}: no error in\n{text}"));
        let mut lines = text[start..].lines();
        let (code, what) = lines.next().and_then(|line| line.strip_prefix("error[")?.split_once("]: ")).expect("a code");
        let part = |label: &str| text[start..].lines().find_map(|line| line.strip_prefix(&format!("  {label}: ")).map(str::to_owned));
        let part = |label: &str| part(label).unwrap_or_else(|| panic!("{kind}: the error does not say \"{label}\":\n{}", &text[start..]));
        Complaint { code: code.into(), what: what.into(), place: part("where"), data: part("data"), remedy: part("do") }
    }
}

/// Goes through a case, and gives the error for the page.
fn goes_through(case: &Case) -> Complaint {
    let Case { kind, expected: (code, error), .. } = case;
    let place = Place::with_flights(FLIGHTS);
    (case.spoil)(&place);
    let told = (case.run)(&place, Stage::Spoilt);
    let complaint = Complaint::last(kind, &told.text, &place);
    assert_eq!((told.code, complaint.code.as_str()), (*code, *error), "{kind}:\n{}", told.text);
    assert!(!told.text.contains("starts again"), "{kind}: tried again in vain:\n{}", told.text);

    (case.mend)(&place);
    let told = (case.run)(&place, Stage::Mended);
    assert_eq!(told.code, 0, "{kind}, mended:\n{}", told.text);
    assert_eq!(place.lines("on-time"), complete(), "{kind}, mended:\n{}", told.text);
    complaint
}

/// All kinds, in the order of the data.
fn all() -> Vec<Case> {
    [input::cases(), output::cases(), stored::cases(), settings::cases(), plan::cases()].into_iter().flatten().collect()
}

#[test]
fn bad_input_of_each_kind_gives_a_clear_error_and_loses_nothing() {
    let cases = all();
    assert!(cases.len() >= 28, "there are only {} kinds", cases.len());
    let rows: Vec<String> = cases.iter().map(|case| page::row(case, &goes_through(case))).collect();
    page::is(&rows);
}

#[test]
fn input_without_records_is_no_error() {
    for input in ["", "\n\n", "id,sched_ms,origin,distance", "id,sched_ms,origin,distance\n", "\u{feff}id,sched_ms,origin,distance\r\n"] {
        let place = Place::with_flights(FLIGHTS);
        std::fs::write(place.input(), input).expect("written");
        run(&mut place.job(&[])).ends_with(0).complains("finished").complains("0 records read, 0 written");
        assert_eq!(place.lines("on-time").len(), 0, "{input:?}");
        crate::harness::staunch(&["verify", &place.job_folder()]).ends_with(0);
    }
}

#[test]
fn a_bad_line_in_a_file_that_a_checkpoint_speaks_of_goes_to_a_dead_letter_and_the_job_goes_on() {
    let place = Place::with_flights(FLIGHTS);
    let bad = std::fs::read_to_string(place.input()).expect("there") + "600,36000000,EWR,far\n";
    std::fs::write(place.input(), bad).expect("written");
    input::stopped_in_the_middle(&place);
    run(&mut place.job(&[])).ends_with(1).complains("error[F031]").complains("line=602");
    let told = embedded::ends(&place, embedded::Kind::DeadLetter);
    assert_eq!(told.code, 0, "{}", told.text);
    assert_eq!(place.lines("on-time"), complete());
    let [rejected] = &place.lines("rejected")[..] else { panic!("expected one line, found {:?}", place.lines("rejected")) };
    assert!(rejected.starts_with("F031,") && rejected.contains("line=602") && rejected.contains("600,36000000,EWR,far"), "{rejected}");
    crate::harness::staunch(&["verify", &place.job_folder()]).ends_with(0);
}

#[test]
fn a_job_whose_dead_letter_stays_empty_comes_to_its_end() {
    let place = Place::with_flights(FLIGHTS);
    let told = embedded::ends(&place, embedded::Kind::DeadLetter);
    assert_eq!(told.code, 0, "{}", told.text);
    assert_eq!((place.lines("on-time"), place.lines("rejected").len()), (complete().to_vec(), 0));
}

/// The folder of the job's checkpoints.
fn job_folder(place: &Place) -> std::path::PathBuf {
    place.checkpoints().join(JOB)
}
