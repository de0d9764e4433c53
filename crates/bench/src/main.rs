//! `staunch-bench`: the workloads of the Flink programs and of the plain loops, on this engine, with the same RESULT lines.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures the real clock")]

mod generate;
mod source;
mod sinks;
mod first_row;
mod moment;
mod workloads;
mod options;
mod report;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let began = std::time::Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match options::Options::parse(&arguments).and_then(|options| workloads::run(&options, began)) {
        Ok(()) => {}
        Err(message) => {
            eprintln!("{message}");
            std::process::exit(2);
        }
    }
}
