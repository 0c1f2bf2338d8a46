//! Tasks, exchange, failure, cancellation, backpressure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::fakes::*;
use tidegate_api::connector::SplitAssignment;
use tidegate_api::expr::Expr;
use tidegate_api::graph::{OperatorSpec, Partitioner};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{ErrorKind, Value};
use tidegate_runtime::view::{ExecutionState, JobStatus};
use tokio::sync::Semaphore;

fn calc_not_seven() -> OperatorSpec {
    let boolean = LogicalType::new(TypeKind::Boolean);
    let v = Expr::input(1, schema().fields[1].ty.clone());
    OperatorSpec::Calc { filter: Some(Expr::call("NOT_SEVEN", vec![v], boolean)), projection: inputs(&schema()) }
}

#[test]
fn values_reach_the_sink() {
    let mut job = Job::default();
    let taken = Taken::default();
    let mut two = schema();
    two.fields.truncate(2);
    let rows = vec![vec![Value::String("a".into()), Value::Int(1)], vec![Value::String("b".into()), Value::Int(2)]];
    let values = job.add("Values[1]", OperatorSpec::Values { rows }, two, 1);
    job.sink(values, "out", &taken);
    let running = job.start();
    let summary = running.wait().unwrap();
    assert_eq!(taken.rows(), ["+I[a, 1]", "+I[b, 2]"]);
    assert_eq!(*taken.finished.lock().unwrap(), 1);
    assert_eq!(summary.written[0].rows, 2);
    let view = running.handle.view();
    assert_eq!(view.status, JobStatus::Finished);
    assert_eq!(view.vertices.len(), 1);
    assert_eq!(view.vertices[0].name, "Values[1] -> out[2]: Writer");
    assert_eq!(view.vertices[0].subtasks[0].state, ExecutionState::Finished);
    assert!(view.timestamps.contains_key(&JobStatus::Running));
}

#[test]
fn rows_pass_source_calc_and_sink_in_order() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![
        Step::Rows(0, vec![("a", 1, Some(1.0)), ("a", 7, Some(2.0)), ("b", 2, Some(3.0))]),
        Step::Rows(0, vec![("c", 7, Some(4.0)), ("d", 4, Some(5.0))]),
        Step::Finished(0),
    ];
    let source = job.source("clicks", FakeSource::new(&["p0"], steps, true), 0, 1);
    let calc = job.add("Calc[2]", calc_not_seven(), schema(), 1);
    job.edge(source, calc, Partitioner::Forward);
    job.sink(calc, "out", &taken);
    let running = job.start();
    let summary = running.wait().unwrap();
    assert_eq!(taken.rows(), ["+I[a, 1, 1s]", "+I[b, 2, 3s]", "+I[d, 4, 5s]"]);
    assert_eq!((summary.read[0].rows, summary.written[0].rows), (5, 3));
    assert_eq!(running.metric("Calc", 0, "numRecordsIn"), Some(5));
    assert_eq!(running.metric("Calc", 0, "numRecordsOut"), Some(3));
    assert_eq!(running.metric("Source", 0, "currentOutputWatermark"), Some(i64::MAX));
}

fn many_rows(n: usize) -> Vec<Row> {
    const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    (0..n).map(|i| (KEYS[i % 8], i as i64, Some(i as f64))).collect()
}

#[test]
fn rows_are_spread_by_key_and_none_is_lost() {
    let mut job = Job::default();
    let taken = Taken::default();
    let rows = many_rows(1_000);
    let mut source = FakeSource::new(&[], Vec::new(), true);
    source.discoveries = vec![vec![("p0", 0), ("p1", 1)]];
    source.script = HashMap::from([
        (0, rows[..500].chunks(7).map(|c| Step::Rows(0, c.to_vec())).chain([Step::Finished(0)]).collect()),
        (1, rows[500..].chunks(11).map(|c| Step::Rows(0, c.to_vec())).chain([Step::Finished(0)]).collect()),
    ]);
    let from = job.source("clicks", source, 0, 2);
    let calc = job.add("Calc[2]", calc_not_seven(), schema(), 3);
    job.edge(from, calc, Partitioner::Hash(vec![0]));
    job.sink(calc, "out", &taken);
    let running = job.start();
    running.wait().unwrap();
    assert_eq!(taken.rows().len(), 999);
    let per_subtask: Vec<i64> = (0..3).map(|i| running.metric("Calc", i, "numRecordsIn").unwrap()).collect();
    assert_eq!(per_subtask.iter().sum::<i64>(), 1_000);
    assert!(per_subtask.iter().filter(|n| **n > 0).count() > 1);
    assert!(per_subtask.iter().all(|n| n % 125 == 0), "a key is in one place only: {per_subtask:?}");
    assert_eq!(*taken.finished.lock().unwrap(), 3);
}

#[test]
fn splits_are_handed_out_one_by_one() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps =
        (0..3).flat_map(|i| [Step::Rows(i, vec![("a", i as i64, Some(i as f64))]), Step::Finished(i)]).collect();
    let mut source = FakeSource::new(&["f0", "f1", "f2"], steps, true);
    source.assignment = SplitAssignment::OnDemand;
    let from = job.source("files", source, 0, 1);
    job.sink(from, "out", &taken);
    job.start().wait().unwrap();
    assert_eq!(taken.rows(), ["+I[a, 0, 0s]", "+I[a, 1, 1s]", "+I[a, 2, 2s]"]);
}

#[test]
fn a_new_split_is_found_while_the_job_runs() {
    let mut job = Job::default();
    let taken = Taken::default();
    let mut source = FakeSource::new(
        &[],
        vec![Step::Rows(0, vec![("a", 1, Some(1.0))]), Step::Rows(1, vec![("b", 2, Some(0.5))])],
        false,
    );
    source.discoveries = vec![vec![("p0", 0)], vec![], vec![("p1", 0)]];
    source.interval = Some(Duration::from_millis(5));
    let from = job.source("clicks", source, 0, 1);
    job.sink(from, "out", &taken);
    let running = job.start();
    running.until("the row of the new split", |_| taken.rows().len() == 2);
    assert_eq!(running.metric("Source", 0, "split.p1.watermark.currentWatermark"), Some(TEN + 500));
    running.handle.cancel().unwrap();
    assert_eq!(running.wait().unwrap_err().kind, ErrorKind::Cancelled);
}

#[test]
fn a_failure_ends_the_job_and_says_where() {
    for (step, kind, text) in [
        (Step::Fail("the broker is gone"), ErrorKind::Job, "the broker is gone"),
        (Step::Panic, ErrorKind::Internal, "the reader broke"),
    ] {
        let mut job = Job::default();
        let taken = Taken::default();
        let source = FakeSource::new(&["p0"], vec![Step::Rows(0, vec![("a", 1, Some(1.0))]), step], false);
        let from = job.source("clicks", source, 0, 1);
        let other = job.source("other", FakeSource::new(&["q0"], Vec::new(), false), 0, 2);
        let union = job.add("Union[3]", OperatorSpec::Union, schema(), 1);
        job.edge(from, union, Partitioner::Forward);
        job.edge(other, union, Partitioner::Rebalance);
        let calc = job.add("Calc[4]", calc_not_seven(), schema(), 1);
        job.edge(union, calc, Partitioner::Forward);
        job.sink(calc, "out", &taken);
        let running = job.start();
        let error = running.wait().unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.to_string().contains("Source: clicks[1] (1/1)"), "{error}");
        assert!(error.to_string().contains(text), "{error}");
        let view = running.handle.view();
        assert_eq!(view.status, JobStatus::Failed);
        assert_eq!(view.failure.unwrap().task.as_deref(), Some("Source: clicks[1] (1/1)"));
        let states: Vec<ExecutionState> =
            view.vertices.iter().flat_map(|v| v.subtasks.iter().map(|s| s.state)).collect();
        assert_eq!(states.iter().filter(|s| **s == ExecutionState::Failed).count(), 1);
        assert!(states.iter().all(|s| matches!(s, ExecutionState::Failed | ExecutionState::Canceled)));
        assert_eq!(*taken.finished.lock().unwrap(), 0);
    }
}

#[test]
fn a_bad_row_is_named() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![Step::Rows(0, vec![("a", 1, Some(1.0)), ("a", 2, None)]), Step::Finished(0)];
    let from = job.source("clicks", FakeSource::new(&["0"], steps, true), 0, 1);
    job.sink(from, "out", &taken);
    let error = job.start().wait().unwrap_err().to_string();
    for part in ["RowTime field should not be null", "'ts'", "'clicks'", "topic clicks, partition 0, offset 1"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
}

#[test]
fn null_in_a_not_null_column_fails_or_is_dropped() {
    for drop in [false, true] {
        let mut job = Job::default();
        let taken = Taken::default();
        let steps = vec![Step::Rows(0, vec![("a", 1, Some(1.0)), ("a", 2, None)]), Step::Finished(0)];
        let from = job.source("clicks", FakeSource::new(&["0"], steps, true), 0, 1);
        if let OperatorSpec::Source(source) = &mut job.graph.nodes[from].spec {
            source.watermark = None;
        }
        let sink = job.sink(from, "out", &taken);
        if let OperatorSpec::Sink(spec) = &mut job.graph.nodes[sink].spec {
            spec.table.physical.fields[2].ty.nullable = false;
            spec.drop_nulls = drop;
        }
        let result = job.start().wait();
        if drop {
            assert_eq!(result.unwrap().null_constraint[0].rows, 1);
            assert_eq!(taken.rows(), ["+I[a, 1, 1s]"]);
        } else {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("Column 'ts' is NOT NULL, however, a null value is being written"), "{error}");
        }
    }
}

#[test]
fn a_slow_sink_stops_the_source() {
    let mut job = Job::default();
    let gate = Arc::new(Semaphore::new(0));
    let taken = Taken { gate: Some(gate.clone()), ..Taken::default() };
    let batches = 500;
    let rows = many_rows(batches);
    let steps = rows.chunks(1).map(|c| Step::Rows(0, c.to_vec())).chain([Step::Finished(0)]).collect();
    let from = job.source("clicks", FakeSource::new(&["p0"], steps, true), 0, 1);
    let calc = job.add("Calc[2]", OperatorSpec::Calc { filter: None, projection: inputs(&schema()) }, schema(), 1);
    job.edge(from, calc, Partitioner::Rebalance);
    job.sink(calc, "out", &taken);
    let running = job.start();
    let read = |r: &Running| r.metric("Source", 0, "numRecordsIn").unwrap();
    let backpressured = |r: &Running| {
        let view = r.handle.view();
        view.vertices[0].subtasks[0].task_metrics.contains(&("isBackPressured".into(), 1))
    };
    running.until("backpressure", backpressured);
    let held = read(&running);
    assert!(held < 40, "{held} rows were read while the sink took none");
    gate.add_permits(batches);
    running.wait().unwrap();
    assert_eq!(taken.rows().len(), batches);
}

#[test]
fn cancelling_is_prompt_and_leaves_nothing_running() {
    let mut job = Job::default();
    let gate = Arc::new(Semaphore::new(0));
    let taken = Taken { gate: Some(gate), ..Taken::default() };
    let rows = many_rows(100);
    let steps = rows.chunks(1).map(|c| Step::Rows(0, c.to_vec())).collect();
    let from = job.source("clicks", FakeSource::new(&["p0"], steps, false), 0, 1);
    job.sink(from, "out", &taken);
    let running = job.start();
    running.until("a row", |r| r.metric("Source", 0, "numRecordsIn").unwrap() > 0);
    running.handle.cancel().unwrap();
    assert_eq!(running.wait().unwrap_err().kind, ErrorKind::Cancelled);
    let view = running.handle.view();
    assert_eq!(view.status, JobStatus::Canceled);
    assert_eq!(view.vertices[0].subtasks[0].state, ExecutionState::Canceled);
    assert!(view.timestamps.contains_key(&JobStatus::Cancelling));
    assert!(running.handle.cancel().is_err());
    assert_eq!(*taken.finished.lock().unwrap(), 0);
}

#[test]
fn sinks_are_flushed_when_there_is_nothing_more_to_read() {
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![Step::Rows(0, vec![("a", 1, Some(1.0))]), Step::Gate];
    let from = job.source("clicks", FakeSource::new(&["p0"], steps, false), 0, 1);
    job.sink(from, "out", &taken);
    let running = job.start();
    running.until("a flush", |_| *taken.flushes.lock().unwrap() == 1);
    running.handle.cancel().unwrap();
    let _ = running.wait();
}
