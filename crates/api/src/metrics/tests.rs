use super::*;

const COUNT: Figure = Figure { name: "things_total", help: "Things." };
const LAG: Figure = Figure { name: "lag_records", help: "Records." };
const LEFT: Figure = Figure { name: "left_seconds", help: "Time left." };
const TOOK: Figure = Figure { name: "took_seconds", help: "Time taken." };

fn value(metrics: &Metrics, figure: Figure) -> Vec<SampleValue> {
    metrics.samples(10_000).into_iter().filter(|sample| sample.figure == figure).map(|sample| sample.value).collect()
}

#[test]
fn a_counter_outlives_its_handles_and_is_shared_by_labels() {
    let metrics = Metrics::default();
    metrics.with("sink", "a").counter(COUNT).add(2);
    metrics.with("sink", "a").counter(COUNT).add(3);
    metrics.with("sink", "b").counter(COUNT).add(1);
    assert_eq!(value(&metrics, COUNT), [SampleValue::Count(5), SampleValue::Count(1)]);
}

#[test]
fn a_gauge_without_value_or_handle_is_not_shown() {
    let metrics = Metrics::default();
    let gauge = metrics.gauge(LAG);
    assert_eq!(value(&metrics, LAG), []);
    gauge.set(Some(7));
    assert_eq!(value(&metrics, LAG), [SampleValue::Value(7.0)]);
    gauge.set(None);
    assert_eq!(value(&metrics, LAG), []);
    gauge.set(Some(7));
    drop(gauge);
    assert_eq!(value(&metrics, LAG), []);
}

#[test]
fn moments_are_shown_in_seconds_from_now() {
    let metrics = Metrics::default();
    let (ahead, past) = (metrics.with("is", "ahead").seconds_until(LEFT), metrics.with("is", "past").seconds_since(LEFT));
    ahead.set(Some(12_500));
    past.set(Some(9_000));
    assert_eq!(value(&metrics, LEFT), [SampleValue::Value(2.5), SampleValue::Value(1.0)]);
}

#[test]
fn times_fall_into_the_part_whose_bound_they_reach() {
    let metrics = Metrics::default();
    let times = metrics.times(TOOK);
    for ms in [0, 1, 2, 3, 60_000, 60_001] {
        times.add(Duration::from_millis(ms));
    }
    let [SampleValue::Times { parts, sum }] = &value(&metrics, TOOK)[..] else { panic!("one distribution") };
    let mut expected = vec![0; TIME_BOUNDS_MS.len() + 1];
    (expected[0], expected[1], expected[2], expected[13], expected[14]) = (2, 1, 1, 1, 1);
    assert_eq!(*parts, expected);
    assert!((sum - 120.007).abs() < 1e-9, "{sum}");
}

#[test]
fn labels_are_sorted_and_the_last_value_holds() {
    let metrics = Metrics::default().with("z", "1").with("a", "2").with("z", "3");
    metrics.counter(COUNT).add(1);
    assert_eq!(metrics.samples(0)[0].labels, [("a", "2".to_owned()), ("z", "3".to_owned())]);
}
