//! The soak: runs seed after seed, and shows the first that is not well.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use staunch_sim::explore::{Report, explore};

/// Runs the real engine in simulated worlds, one for each seed.
#[derive(Parser)]
struct Options {
    /// Run this seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// The first of several seeds.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// For how long, instead of how many seeds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Print the whole history, not only the last lines.
    #[arg(long)]
    history: bool,
    /// Lines of history to print.
    #[arg(long, default_value_t = 60)]
    lines: usize,
    /// Go on after a seed that is not well.
    #[arg(long)]
    keep_going: bool,
}

#[allow(clippy::disallowed_methods, reason = "the program itself runs in real time")]
fn main() -> ExitCode {
    let options = Options::parse();
    let lines = if options.history { usize::MAX } else { options.lines };
    if let Some(seed) = options.seed {
        let report = explore(seed);
        say(&report.text(lines));
        return exit(report.violation.is_none());
    }
    let begun = Instant::now();
    let (mut seeds, mut steps, mut bad) = (0, 0, Vec::new());
    let goes_on = |seeds| match options.seconds {
        Some(seconds) => begun.elapsed() < Duration::from_secs(seconds),
        None => seeds < options.seeds,
    };
    while goes_on(seeds) {
        let report = explore(options.first + seeds);
        seeds += 1;
        steps += report.steps;
        if report.violation.is_some() {
            bad.push(report.seed);
            show(&report, &options, lines);
            if !options.keep_going {
                break;
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    say(&format!("{seeds} seeds, {steps} steps, {seconds:.1} s, {:.0} steps/s; not well: {bad:?}\n", steps as f64 / seconds));
    exit(bad.is_empty())
}

fn show(report: &Report, options: &Options, lines: usize) {
    match (&report.violation, options.keep_going) {
        (Some(violation), true) => say(&format!("seed {}: steps {}, {violation}\n", report.seed, report.steps)),
        _ => say(&report.text(lines)),
    }
}

fn exit(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(text: &str) {
    // Whoever reads may stop reading.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
