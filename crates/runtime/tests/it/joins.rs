//! Interval joins from end to end: what waits, and what lets it go.

use crate::fakes::*;
use tidegate_api::Schema;
use tidegate_api::graph::{Edge, IntervalJoinSpec, JoinKind, JoinSpec, OperatorSpec, Partitioner};

/// 33 minutes and 43.520 seconds later.
const LATER: f64 = 2_023.52;

/// A join on `k` and equal times of these inputs, at parallelism 2.
fn equal_times(job: &mut Job, left: usize, right: usize) -> usize {
    within(job, left, right, 0, 2)
}

/// A join on `k` of rows of which the right one comes up to so many milliseconds after the left one.
fn within(job: &mut Job, left: usize, right: usize, after_ms: i64, parallelism: usize) -> usize {
    let join = JoinSpec {
        kind: JoinKind::Inner,
        left_keys: vec![0],
        right_keys: vec![0],
        null_safe: vec![false],
        condition: None,
    };
    let spec = IntervalJoinSpec {
        join,
        left_time: 2,
        right_time: 2,
        lower_ms: -after_ms,
        upper_ms: 0,
        meaning: "near".into(),
    };
    let joined = Schema::new([schema().fields, schema().fields].concat());
    let to = job.add("IntervalJoin[5]", OperatorSpec::IntervalJoin(spec), joined, parallelism);
    for (input, from) in [left, right].into_iter().enumerate() {
        job.graph.edges.push(Edge { from, to, input, partitioner: Partitioner::Hash(vec![0]) });
    }
    to
}

/// Rows that wait, over both subtasks: left, right.
fn waiting(running: &Running) -> [i64; 2] {
    ["leftRowsInState", "rightRowsInState"]
        .map(|name| (0..2).filter_map(|subtask| running.metric("IntervalJoin", subtask, name)).sum())
}

/// A source of one split, whose other two subtasks have nothing to read.
fn source(job: &mut Job, name: &str, steps: Vec<Step>) -> usize {
    job.source(name, FakeSource::new(&["p0"], steps, false), 5_000, 3)
}

fn row(seconds: f64) -> Step {
    Step::Rows(0, vec![("k", 1, Some(seconds))])
}

#[test]
fn state_is_freed_by_time_alone_also_beside_idle_instances() {
    // risingwavelabs/risingwave#16045, #9072: nothing may wait for a new row of the old key.
    let mut job = Job::default();
    let taken = Taken::default();
    let a = source(&mut job, "a", vec![row(0.0), Step::Gate, row(LATER), Step::Gate]);
    let b = source(&mut job, "b", vec![row(0.0), row(LATER), Step::Gate]);
    let join = equal_times(&mut job, a, b);
    job.sink(join, "out", &taken);
    let gate = job.gate("a");
    let running = job.start();
    running.until("the first pair", |r| taken.rows().len() == 1 && waiting(r) == [1, 2]);
    gate.add_permits(1);
    running.until("the second pair, and the first gone", |r| taken.rows().len() == 2 && waiting(r) == [1, 1]);
    assert_eq!(taken.sorted(), ["+I[k, 1, 0s, k, 1, 0s]", "+I[k, 1, 2023.52s, k, 1, 2023.52s]"]);
    assert_eq!(running.metric("IntervalJoin", 0, "currentOutputWatermark"), Some(TEN + 2_018_520));
    running.handle.cancel().unwrap();
    let _ = running.wait();
}

#[test]
fn an_idle_input_holds_nothing_up() {
    let mut job = Job::default();
    let taken = Taken::default();
    let a = source(&mut job, "a", vec![row(0.0), Step::Gate, row(LATER), Step::Gate]);
    let b = source(&mut job, "b", vec![row(0.0), Step::Gate, Step::Quiet(vec![0], 2_000), Step::Gate]);
    job.watermark(b, |w| w.idle_timeout_ms = Some(1_000));
    let join = equal_times(&mut job, a, b);
    job.sink(join, "out", &taken);
    let (gate_a, gate_b) = (job.gate("a"), job.gate("b"));
    let running = job.start();
    running.until("the pair", |r| taken.rows().len() == 1 && waiting(r) == [1, 1]);
    gate_a.add_permits(1);
    running.until("the later row", |r| waiting(r) == [2, 1]);
    gate_b.add_permits(1);
    running.until("idleness lets time go on", |r| waiting(r) == [1, 0]);
    running.handle.cancel().unwrap();
    let _ = running.wait();
}

#[test]
fn a_late_row_meets_the_watermark_of_the_rows_before_it() {
    // All in one batch, which the source cuts where it matters.
    let rows = vec![("k", 1, Some(0.0)), ("k", 2, Some(100.0)), ("k", 3, Some(10.0)), ("k", 4, Some(98.0))];
    let mut job = Job::default();
    let taken = Taken::default();
    let steps = vec![Step::Rows(0, rows), Step::Finished(0)];
    let from = job.source("a", FakeSource::new(&["p0"], steps, true), 0, 1);
    let join = within(&mut job, from, from, 5_000, 1);
    job.sink(join, "out", &taken);
    let running = job.start();
    let summary = running.wait().unwrap();
    let pairs = ["+I[k, 1, 0s, k, 1, 0s]", "+I[k, 2, 100s, k, 2, 100s]", "+I[k, 4, 98s, k, 2, 100s]"];
    assert_eq!(taken.sorted(), [&pairs[..], &["+I[k, 4, 98s, k, 4, 98s]"]].concat());
    assert_eq!(summary.late.iter().map(|l| l.rows).sum::<u64>(), 2, "k, 3 on both sides");
    let notices = running.notices.lock().unwrap().join("\n");
    assert!(notices.contains("IntervalJoin[5]: 1 row dropped as late"), "{notices}");
}
