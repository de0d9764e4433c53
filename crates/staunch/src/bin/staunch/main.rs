//! `staunch`: what an operator or an auditor asks about a job without running it, and the demonstration.
//!
//! Owns: the command line, the exit code. Does not own: jobs, which are programs of their own.
//!
//! Exit codes: 0 the answer is yes, or was printed; 1 it is no, or there is none (a coded error says why); 2 usage.
#![allow(clippy::disallowed_methods, reason = "a program for people reads the working directory, starts children and ends with a code")]

mod job_folder;
mod options;
mod output;
mod checkpoints;
mod ledger;
mod verify;
mod inspect;
mod txn;
mod bench;
mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Small and given back early: a command runs for moments.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Looks at the jobs of Staunch: what they stored, what they read and wrote, and whether that is still so.
#[derive(Parser)]
#[command(name = "staunch", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a real stream, kill it again and again, and prove that nothing is lost or doubled
    Demo(demo::Options),
    /// List what is stored: checkpoints, sizes, what is shared, what can be restored
    Checkpoints(checkpoints::Options),
    /// Read state without running the job
    Inspect(inspect::Options),
    /// Print the ledger: who ran, what each epoch read and wrote, what became visible
    Ledger(ledger::Options),
    /// Prove that nothing is lost, doubled or changed
    Verify(verify::Options),
    /// Outside transactions and files of a job
    #[command(subcommand)]
    Txn(txn::Command),
    /// Run a benchmark
    Bench(bench::Options),
    #[command(hide = true)]
    DemoWorker(demo::WorkerOptions),
}

fn main() -> ExitCode {
    let answer = match CommandLine::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Checkpoints(options) => checkpoints::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Ledger(options) => ledger::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::Txn(command) => txn::run(&command),
        Command::Bench(options) => bench::run(&options),
        Command::DemoWorker(options) => demo::work(&options),
    };
    answer.unwrap_or_else(|error| {
        output::complain(&error.to_string());
        ExitCode::FAILURE
    })
}
