//! RESULT lines, with the keys that the Flink programs and the plain loops print.
//!
//! Owns: how windows become one median. Does not own: what was measured.

use std::path::Path;

use crate::options::Options;
use crate::source::Measured;

/// The line of a throughput workload.
pub(crate) fn throughput(options: &Options, measured: &Measured, extra: &str) -> Result<String, String> {
    let windows = measured.windows.iter().map(Vec::len).min().unwrap_or(0);
    let mut rates = Vec::new();
    let mut cores = 0.0;
    for number in 0..windows {
        rates.push(measured.windows.iter().map(|w| w[number].records as f64 / w[number].seconds).sum::<f64>());
        let first = &measured.windows[0][number];
        cores += first.processor_seconds / first.seconds / windows as f64;
    }
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    rates.sort_by(f64::total_cmp);
    let (least, most) = (rates.first().copied().unwrap_or(0.0), rates.last().copied().unwrap_or(0.0));
    let median = if rates.is_empty() { 0.0 } else { (rates[(rates.len() - 1) / 2] + rates[rates.len() / 2]) / 2.0 };
    Ok(format!(
        "{} keys={} events_per_s={median:.0} mean={mean:.0} min={least:.0} max={most:.0} cores={cores:.2} records={} ns_per_event={:.1}{extra}",
        head(options)?,
        options.number("keys", 100_000u64)?,
        measured.records,
        1e9 / median.max(1.0),
    ))
}

/// How a RESULT line begins.
pub(crate) fn head(options: &Options) -> Result<String, String> {
    let checkpoint = options.checkpoint()?.map_or("off".to_owned(), |d| format!("{}ms", d.as_millis()));
    let backend = options.text("backend").unwrap_or("memory");
    Ok(format!(
        "RESULT name={} engine=staunch parallelism={} backend={backend} checkpoint={checkpoint}",
        options.text("name").unwrap_or(&options.workload),
        options.number("parallelism", 1u32)?,
    ))
}

/// Files and bytes under a directory.
pub(crate) fn measure_directory(path: &Path) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                let (f, b) = measure_directory(&entry.path());
                files += f;
                bytes += b;
            }
            Ok(metadata) => {
                files += 1;
                bytes += metadata.len();
            }
            Err(_) => {}
        }
    }
    (files, bytes)
}
