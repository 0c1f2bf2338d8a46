//! Event time from end to end: idle splits, unions, late and odd rows.

use crate::fakes::*;
use tidegate_api::WindowKind;
use tidegate_api::expr::Expr;
use tidegate_api::graph::{NullRowtimePolicy, OperatorSpec, Partitioner};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_time::Clock;

fn at(k: &'static str, v: i64, seconds: f64) -> Row {
    (k, v, Some(seconds))
}

/// Runs `TUMBLE 10 s, COUNT(*) BY k` over one source and returns rows and summary.
fn tumble(steps: Vec<Step>, splits: &[&'static str], delay_ms: i64) -> (Vec<String>, u64) {
    let mut job = Job::default();
    let taken = Taken::default();
    let source = job.source("clicks", FakeSource::new(splits, steps, true), delay_ms, 1);
    let window = job.tumble_count(source, 10_000);
    job.sink(window, "out", &taken);
    let summary = job.start().wait().unwrap();
    (taken.sorted(), summary.late.iter().map(|l| l.rows).sum())
}

#[test]
fn a_partition_that_never_spoke_holds_time_until_it_is_idle() {
    for (timeout, expected) in [(None, 0), (Some(2_000), 1)] {
        let mut job = Job::default();
        let taken = Taken::default();
        let steps = vec![
            Step::Rows(0, vec![at("a", 1, 1.0), at("a", 2, 5.0), at("a", 3, 60.0)]),
            Step::Quiet(vec![0, 1], 1_950),
            Step::Gate,
            Step::Quiet(vec![0, 1], 100),
            Step::Gate,
            Step::Quiet(vec![0, 1], 10_000),
        ];
        let source = FakeSource::new(&["p0", "p1"], steps, false);
        let gate = source.gate.clone();
        let from = job.source("clicks", source, 5_000, 1);
        job.watermark(from, |w| w.idle_timeout_ms = timeout);
        let window = job.tumble_count(from, 10_000);
        job.sink(window, "out", &taken);
        let running = job.start();
        let rows_read = |r: &Running| r.metric("Source", 0, "numRecordsIn") == Some(3);
        running.until("the rows", rows_read);
        assert_eq!(taken.rows().len(), 0, "not before the timeout");
        gate.add_permits(1);
        if expected == 1 {
            running.until("the window", |_| taken.rows() == ["+I[a, 2, 0s, 10s, 9.999s]"]);
            assert_eq!(running.metric("Source", 0, "currentOutputWatermark"), Some(TEN + 55_000));
        } else {
            assert_eq!(running.metric("Source", 0, "currentOutputWatermark"), Some(i64::MIN));
            gate.add_permits(1);
            running.until("a diagnosis", |r| !r.notices.lock().unwrap().is_empty());
            let notices = running.notices.lock().unwrap().join("\n");
            assert!(notices.contains("split p1 holds the watermark: it never delivered a row"), "{notices}");
        }
        running.handle.cancel().unwrap();
        let _ = running.wait();
    }
}

#[test]
fn an_assigned_split_counts_before_its_first_row() {
    let steps = vec![
        Step::Rows(1, vec![at("a", 1, 1800.0)]),
        Step::Rows(0, vec![at("a", 1, 0.0)]),
        Step::Finished(0),
        Step::Finished(1),
    ];
    let (rows, late) = tumble(steps, &["A", "B"], 0);
    assert_eq!(rows, ["+I[a, 1, 0s, 10s, 9.999s]", "+I[a, 1, 1800s, 1810s, 1809.999s]"]);
    assert_eq!(late, 0);
}

#[test]
fn a_filter_does_not_stop_the_watermark() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![Step::Rows(0, vec![at("a", 1, 10.0)]), Step::Rows(0, vec![at("a", 7, 150.0)]), Step::Gate];
    let from = job.source("clicks", FakeSource::new(&["p0"], steps, false), 0, 1);
    let v = Expr::input(1, schema().fields[1].ty.clone());
    let filter = Some(Expr::call("NOT_SEVEN", vec![v], LogicalType::new(TypeKind::Boolean)));
    let calc = job.add("Calc[2]", OperatorSpec::Calc { filter, projection: inputs(&schema()) }, schema(), 1);
    job.edge(from, calc, Partitioner::Forward);
    let window = job.tumble_count(calc, 120_000);
    job.sink(window, "out", &taken);
    let running = job.start();
    running.until("the window", |_| taken.rows() == ["+I[a, 1, 0s, 120s, 119.999s]"]);
    running.handle.cancel().unwrap();
    let _ = running.wait();
}

#[test]
fn a_union_goes_by_its_slowest_side() {
    let mut job = Job::default();
    let taken = Taken::default();
    let a = FakeSource::new(&["a0"], vec![Step::Rows(0, vec![at("k", 1, 5.0), at("k", 1, 20.0)])], false);
    let b_steps = vec![Step::Rows(0, vec![at("k", 1, 3.0)]), Step::Gate, Step::Rows(0, vec![at("k", 1, 12.0)])];
    let b = FakeSource::new(&["b0"], b_steps, false);
    let gate = b.gate.clone();
    let a = job.source("a", a, 0, 1);
    let b = job.source("b", b, 0, 1);
    let union = job.add("Union[3]", OperatorSpec::Union, schema(), 1);
    job.edge(a, union, Partitioner::Forward);
    job.edge(b, union, Partitioner::Forward);
    let window = job.tumble_count(union, 10_000);
    job.sink(window, "out", &taken);
    let running = job.start();
    let input = |r: &Running| r.metric("WindowAggregate", 0, "currentInputWatermark");
    running.until("b's first watermark", |r| input(r) == Some(TEN + 3_000));
    assert_eq!(taken.rows().len(), 0);
    gate.add_permits(1);
    running.until("the window", |_| taken.rows() == ["+I[k, 2, 0s, 10s, 9.999s]"]);
    running.handle.cancel().unwrap();
    let _ = running.wait();
}

#[test]
fn silence_closes_no_window_but_the_end_does() {
    for timeout in [None, Some(2_000)] {
        let mut job = Job::default();
        let taken = Taken::default();
        let steps = vec![
            Step::Rows(0, vec![at("a", 1, 1.0), at("a", 1, 5.0)]),
            Step::Quiet(vec![0], 600_000),
            Step::Gate,
            Step::Finished(0),
        ];
        let source = FakeSource::new(&["p0"], steps, true);
        let (clock, gate) = (source.clock.clone(), source.gate.clone());
        let from = job.source("clicks", source, 0, 1);
        job.watermark(from, |w| w.idle_timeout_ms = timeout);
        let window = job.tumble_count(from, 10_000);
        job.sink(window, "out", &taken);
        let running = job.start();
        running.until("ten minutes of silence", |_| clock.now_ms() >= TEN + 600_000);
        assert_eq!(running.metric("WindowAggregate", 0, "currentInputWatermark"), Some(TEN + 5_000));
        assert_eq!(taken.rows().len(), 0, "time moves with rows only");
        gate.add_permits(1);
        running.wait().unwrap();
        assert_eq!(taken.rows(), ["+I[a, 2, 0s, 10s, 9.999s]"]);
    }
}

#[test]
fn a_subtask_without_a_split_neither_holds_nor_flushes() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![Step::Rows(0, vec![at("k", 1, 1.0)]), Step::Gate, Step::Rows(0, vec![at("k", 1, 12.0)])];
    let source = FakeSource::new(&["p0"], steps, false);
    let gate = source.gate.clone();
    let from = job.source("clicks", source, 0, 3);
    let window = job.tumble_count(from, 10_000);
    job.sink(window, "out", &taken);
    let running = job.start();
    let input = |r: &Running| r.metric("WindowAggregate", 0, "currentInputWatermark");
    running.until("the first watermark", |r| input(r) == Some(TEN + 1_000));
    assert_eq!(taken.rows().len(), 0);
    gate.add_permits(1);
    running.until("the window", |_| taken.rows() == ["+I[k, 1, 0s, 10s, 9.999s]"]);
    running.handle.cancel().unwrap();
    let _ = running.wait();
}

#[test]
fn null_event_times_are_dropped_and_counted_if_wanted() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![
        Step::Rows(0, vec![at("a", 1, 1.0), ("a", 2, None), at("a", 3, 20.0)]),
        Step::Rows(0, vec![("a", 4, None)]),
        Step::Finished(0),
    ];
    let from = job.source("clicks", FakeSource::new(&["p0"], steps, true), 0, 1);
    job.watermark(from, |w| w.null_policy = NullRowtimePolicy::Drop);
    let window = job.tumble_count(from, 10_000);
    job.sink(window, "out", &taken);
    let summary = job.start().wait().unwrap();
    assert_eq!(taken.sorted(), ["+I[a, 1, 0s, 10s, 9.999s]", "+I[a, 1, 20s, 30s, 29.999s]"]);
    assert_eq!(summary.null_rowtime[0].rows, 2);
    assert_eq!(summary.read[0].rows, 4);
}

#[test]
fn late_rows_are_counted_and_told() {
    let mut job = Job::default();
    let taken = Taken::default();
    let rows = vec![at("a", 1, 3.0), at("a", 1, 12.0), at("a", 1, 8.0), at("a", 1, 9.0), at("a", 1, 13.0)];
    let steps = vec![Step::Rows(0, rows), Step::Finished(0)];
    let from = job.source("clicks", FakeSource::new(&["p0"], steps, true), 0, 1);
    let window = job.tumble_count(from, 10_000);
    job.sink(window, "out", &taken);
    let running = job.start();
    let summary = running.wait().unwrap();
    assert_eq!(taken.sorted(), ["+I[a, 1, 0s, 10s, 9.999s]", "+I[a, 2, 10s, 20s, 19.999s]"]);
    assert_eq!(summary.late[0].rows, 2);
    let notices = running.notices.lock().unwrap().join("\n");
    assert!(notices.contains("dropped as late, the last for window [2026-01-10 10:00:00.000, "), "{notices}");
    assert!(notices.contains("the watermark is 2026-01-10 10:00:12.000, 2 s past its end"), "{notices}");
    assert_eq!(running.metric("WindowAggregate", 0, "numLateRecordsDropped"), Some(2));
}

#[test]
fn a_timestamp_of_tomorrow_is_blamed_on_its_row() {
    let mut job = Job::default();
    let taken = Taken::default();
    let tomorrow = 86_400.0 + 20.0;
    let rows = vec![at("a", 1, 10.0), at("a", 2, tomorrow), at("a", 3, 30.0), at("a", 4, 70.0), at("a", 5, 130.0)];
    let steps = vec![Step::Rows(0, rows), Step::Finished(0)];
    let from = job.source("clicks", FakeSource::new(&["0"], steps, true), 5_000, 1);
    let window = job.tumble_count(from, 60_000);
    job.sink(window, "out", &taken);
    let running = job.start();
    let summary = running.wait().unwrap();
    assert_eq!(summary.late[0].rows, 3);
    let notices = running.notices.lock().unwrap().join("\n");
    let told = "watermark is 24 h ahead of wall clock, set by topic clicks, partition 0, offset 1";
    assert!(notices.contains(told), "{notices}");
}

#[test]
fn seconds_read_as_milliseconds_are_noticed() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![Step::Rows(0, vec![at("a", 1, (1_704_067_205 - TEN) as f64 / 1000.0)]), Step::Finished(0)];
    let from = job.source("clicks", FakeSource::new(&["0"], steps, true), 0, 1);
    job.sink(from, "out", &taken);
    let running = job.start();
    running.wait().unwrap();
    let notices = running.notices.lock().unwrap().join("\n");
    assert!(notices.contains("100 % of event times lie in 1970 - seconds read as milliseconds?"), "{notices}");
}

#[test]
fn a_blocked_split_is_not_idle() {
    let mut job = Job::default();
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let taken = Taken { gate: Some(gate.clone()), ..Taken::default() };
    let steps = vec![
        Step::Rows(0, vec![at("a", 1, 1.0)]),
        Step::Quiet(vec![0], 900),
        Step::Rows(1, vec![at("b", 1, 50.0)]),
        Step::Quiet(vec![0], 50),
        Step::Rows(1, vec![at("b", 1, 51.0)]),
        Step::Gate,
        Step::Quiet(vec![0], 50),
        Step::Gate,
    ];
    let source = FakeSource::new(&["A", "B"], steps, false);
    let (clock, reader_gate) = (source.clock.clone(), source.gate.clone());
    gate.add_permits(1);
    let from = job.source("clicks", source, 0, 1);
    job.watermark(from, |w| w.idle_timeout_ms = Some(1_000));
    job.sink(from, "out", &taken);
    let running = job.start();
    // The sink holds B's row, and with it the whole subtask, for five seconds.
    running.until("the held row", |r| r.metric("Source", 0, "numRecordsIn") == Some(2));
    clock.advance_ms(5_000);
    gate.add_permits(2);
    let output = |r: &Running| r.metric("Source", 0, "currentOutputWatermark");
    running.until("the next row", |_| taken.rows().len() == 3);
    assert_eq!(output(&running), Some(TEN + 1_000), "950 ms asked in vain is not a second");
    reader_gate.add_permits(1);
    running.until("idleness of A", |r| output(r) == Some(TEN + 51_000));
    running.handle.cancel().unwrap();
    let _ = running.wait();
}

#[test]
fn partial_results_go_out_before_a_channel_turns_idle() {
    let mut job = Job::default();
    let taken = Taken::default();
    let mut source = FakeSource::new(&[], Vec::new(), false);
    source.discoveries = vec![vec![("p0", 0), ("p1", 1)]];
    source.script.insert(0, vec![Step::Rows(0, vec![at("a", 1, 1.0), at("a", 1, 2.0)]), Step::Quiet(vec![0], 2_000)]);
    source.script.insert(1, vec![Step::Rows(0, vec![at("b", 1, 60.0)])]);
    let from = job.source("clicks", source, 0, 2);
    job.watermark(from, |w| w.idle_timeout_ms = Some(1_000));
    let window = job.two_phase_count(from, WindowKind::Tumble { size: 10_000 });
    job.sink(window, "out", &taken);
    let running = job.start();
    running.until("the window", |_| !taken.rows().is_empty());
    assert_eq!(taken.rows(), ["+I[a, 2, 0s, 10s, 9.999s]"]);
    assert_eq!(running.handle.summary().late, []);
    running.handle.cancel().unwrap();
    let _ = running.wait();
}

#[test]
fn a_table_united_with_itself_is_counted_twice() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![Step::Rows(0, vec![at("k", 1, 1.0), at("k", 1, 12.0)]), Step::Gate];
    let from = job.source("t", FakeSource::new(&["p0"], steps, false), 0, 1);
    let union = job.add("Union[2]", OperatorSpec::Union, schema(), 1);
    job.edge(from, union, Partitioner::Forward);
    job.edge(from, union, Partitioner::Forward);
    let window = job.tumble_count(union, 10_000);
    job.sink(window, "out", &taken);
    let running = job.start();
    running.until("the window", |_| taken.rows() == ["+I[k, 2, 0s, 10s, 9.999s]"]);
    running.handle.cancel().unwrap();
    let _ = running.wait();
}
