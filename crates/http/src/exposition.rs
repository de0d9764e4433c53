//! Figures in the text format of Prometheus, version 0.0.4.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use staunch_api::{Sample, SampleValue, TIME_BOUNDS_MS};

/// The type of the text.
pub(crate) use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// The text of samples that are sorted by figure.
///
/// # Errors
/// None that can be met: it is written to memory.
pub(crate) fn text(samples: Vec<Sample>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(samples)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Page(Vec<Sample>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.0.chunk_by(|one, other| one.figure == other.figure) {
            let (figure, kind) = (family[0].figure, kind(&family[0].value));
            let mut metric = encoder.encode_descriptor(figure.name, figure.help, None, kind)?;
            for sample in family {
                let mut labelled = metric.encode_family(&sample.labels)?;
                match &sample.value {
                    SampleValue::Count(count) => labelled.encode_counter::<NoLabelSet, _, f64>(count, None)?,
                    SampleValue::Value(value) => labelled.encode_gauge(value)?,
                    SampleValue::Times { parts, sum } => {
                        let bounds = TIME_BOUNDS_MS.iter().map(|bound| *bound as f64 / 1000.0).chain([f64::INFINITY]);
                        let parts: Vec<(f64, u64)> = bounds.zip(parts.iter().copied()).collect();
                        let count = parts.iter().map(|(_, count)| count).sum();
                        labelled.encode_histogram::<NoLabelSet>(*sum, count, &parts, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn kind(value: &SampleValue) -> MetricType {
    match value {
        SampleValue::Count(_) => MetricType::Counter,
        SampleValue::Value(_) => MetricType::Gauge,
        SampleValue::Times { .. } => MetricType::Histogram,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use staunch_api::{Figure, Metrics};

    use super::*;

    #[test]
    fn each_kind_of_figure_has_its_form() {
        let metrics = Metrics::default();
        let figure = |name, help| Figure { name, help };
        let job = metrics.with("job", "a \"b\"\\\nc");
        job.with("sink", "x").counter(figure("staunch_writes", "Writes.")).add(3);
        job.with("sink", "y").counter(figure("staunch_writes", "Writes.")).add(1);
        let lag = metrics.gauge(figure("staunch_lag", "Lag."));
        lag.set(Some(-7));
        let silent = metrics.gauge(figure("staunch_silent", "Nothing yet."));
        let left = metrics.seconds_until(figure("staunch_left_seconds", "Left."));
        left.set(Some(12_500));
        let took = metrics.times(figure("staunch_took_seconds", "Took."));
        [1, 3, 70_000].iter().for_each(|ms| took.add(Duration::from_millis(*ms)));
        let text = text(metrics.samples(10_000)).expect("written to memory");
        let expected = r#"# HELP staunch_lag Lag.
# TYPE staunch_lag gauge
staunch_lag -7.0
# HELP staunch_left_seconds Left.
# TYPE staunch_left_seconds gauge
staunch_left_seconds 2.5
# HELP staunch_took_seconds Took.
# TYPE staunch_took_seconds histogram
staunch_took_seconds_bucket{le="0.001"} 1
staunch_took_seconds_bucket{le="0.002"} 1
staunch_took_seconds_bucket{le="0.005"} 2
staunch_took_seconds_bucket{le="0.01"} 2
staunch_took_seconds_bucket{le="0.02"} 2
staunch_took_seconds_bucket{le="0.05"} 2
staunch_took_seconds_bucket{le="0.1"} 2
staunch_took_seconds_bucket{le="0.2"} 2
staunch_took_seconds_bucket{le="0.5"} 2
staunch_took_seconds_bucket{le="1"} 2
staunch_took_seconds_bucket{le="2"} 2
staunch_took_seconds_bucket{le="5"} 2
staunch_took_seconds_bucket{le="10"} 2
staunch_took_seconds_bucket{le="60"} 2
staunch_took_seconds_bucket{le="+Inf"} 3
staunch_took_seconds_sum 70.004
staunch_took_seconds_count 3
# HELP staunch_writes_total Writes.
# TYPE staunch_writes_total counter
staunch_writes_total{job="a \"b\"\\\nc",sink="x"} 3
staunch_writes_total{job="a \"b\"\\\nc",sink="y"} 1
"#;
        assert_eq!(text, expected);
        drop((lag, silent, left));
    }
}
