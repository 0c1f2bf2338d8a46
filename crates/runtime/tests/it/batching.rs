//! The same rows come out, whatever batches they came in and wherever they were read and counted: those of
//! a model that takes one row at a time.

use std::collections::BTreeMap;

use crate::fakes::*;
use proptest::prelude::*;
use tidegate_api::WindowKind;
use tidegate_api::expr::Expr;
use tidegate_api::graph::{OperatorSpec, Partitioner};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// Rows with event times that mostly rise, some far behind.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0usize..3, 0i64..4, -12i64..4), 1..80).prop_map(|steps| {
        let mut base = 0;
        let row = |(key, step, jitter): (usize, i64, i64)| {
            base += step;
            (KEYS[key], base, Some((base + jitter) as f64))
        };
        steps.into_iter().map(row).collect()
    })
}

fn window() -> impl Strategy<Value = WindowKind> {
    prop_oneof![
        (2i64..9).prop_map(|s| WindowKind::Tumble { size: s * 1_000 }),
        (1i64..5, 1i64..4).prop_map(|(slide, k)| WindowKind::Hop { slide: slide * 1_000, size: slide * k * 1_000 }),
        (1i64..5, 1i64..4).prop_map(|(step, k)| WindowKind::Cumulate { step: step * 1_000, size: step * k * 1_000 }),
        (1i64..6).prop_map(|gap| WindowKind::Session { gap: gap * 1_000 }),
    ]
}

/// How one and the same stream is run.
#[derive(Clone, Debug)]
struct Setup {
    /// Sizes of the reader's batches, in turn.
    batch_rows: Vec<usize>,
    two_phase: bool,
    /// Subtasks of the aggregate.
    parallelism: usize,
}

/// Splits of one source subtask take turns: ten seconds of base time come from one.
fn split_of(row: &Row, splits: usize) -> usize {
    (row.1 / 10) as usize % splits
}

const SPLITS: [&str; 2] = ["p0", "p1"];

fn run(rows: &[Row], splits: usize, kind: WindowKind, delay_ms: i64, setup: &Setup) -> (Vec<String>, u64) {
    let mut steps = Vec::new();
    let (mut rest, mut sizes) = (rows, setup.batch_rows.iter().cycle());
    while let Some(first) = rest.first() {
        let split = split_of(first, splits);
        let run = rest.iter().take_while(|row| split_of(row, splits) == split).count();
        let take = (*sizes.next().unwrap()).clamp(1, run);
        steps.push(Step::Rows(split, rest[..take].to_vec()));
        rest = &rest[take..];
    }
    steps.extend((0..splits).map(Step::Finished));
    count(FakeSource::new(&SPLITS[..splits], steps, true), 1, kind, delay_ms, setup)
}

fn count(source: FakeSource, subtasks: usize, kind: WindowKind, delay_ms: i64, setup: &Setup) -> (Vec<String>, u64) {
    let mut job = Job::default();
    let taken = Taken::default();
    let from = job.source("clicks", source, delay_ms, subtasks);
    let window = match setup.two_phase && !matches!(kind, WindowKind::Session { .. }) {
        true => job.two_phase_count(from, kind),
        false => job.window_count(from, kind, true),
    };
    job.graph.nodes[window].parallelism = setup.parallelism;
    job.sink(window, "out", &taken);
    let summary = job.start_on(2).wait().unwrap();
    (taken.sorted(), summary.late.iter().map(|l| l.rows).sum())
}

/// The windows of a time, by the definition: each start on the grid, each end, tried one by one.
fn windows_of(kind: WindowKind, ts: i64) -> Vec<(i64, i64)> {
    let (grid, size) = match kind {
        WindowKind::Tumble { size } => (size, size),
        WindowKind::Hop { slide, size } => (slide, size),
        WindowKind::Cumulate { size, .. } => (size, size),
        WindowKind::Session { gap } => return vec![(ts, ts + gap)],
    };
    let last = ts - ts.rem_euclid(grid);
    let starts = (0..).map(|i| last - i * grid).take_while(|start| *start > ts - size);
    let ends = |start: i64| match kind {
        WindowKind::Cumulate { step, .. } => (1..=size / step).map(|i| start + i * step).collect(),
        _ => vec![start + size],
    };
    starts.flat_map(|start| ends(start).into_iter().map(move |end| (start, end))).filter(|w| w.1 > ts).collect()
}

/// Row by row: each row meets the watermark of the rows before it, the least of all splits.
fn model(rows: &[Row], splits: usize, kind: WindowKind, delay_ms: i64) -> (Vec<String>, u64) {
    let mut open: BTreeMap<(i64, i64, &str), i64> = BTreeMap::new();
    let mut watermarks = vec![i64::MIN; splits];
    let (mut out, mut late, mut watermark) = (Vec::new(), 0, i64::MIN);
    for row in rows.iter().map(Some).chain([None]) {
        if let Some((key, _, seconds)) = row {
            let ts = TEN + (seconds.unwrap() * 1_000.0) as i64;
            let mut own = windows_of(kind, ts);
            let mut held = 0;
            if matches!(kind, WindowKind::Session { .. }) {
                let touching = |w: &&(i64, i64, &str)| w.2 == *key && w.0 >= own[0].0 && w.1 <= own[0].1;
                let absorbed: Vec<_> = open.keys().filter(touching).copied().collect();
                let start = absorbed.iter().map(|w| w.1).min().unwrap_or(ts).min(ts);
                let end = absorbed.iter().map(|w| w.0).max().unwrap_or(ts).max(own[0].1);
                if end - 1 > watermark {
                    held = absorbed.iter().filter_map(|w| open.remove(w)).sum();
                }
                own = vec![(start, end)];
            }
            own.retain(|(_, end)| end - 1 > watermark);
            late += u64::from(own.is_empty());
            own.iter().for_each(|(start, end)| *open.entry((*end, *start, key)).or_insert(held) += 1);
            let split = split_of(row.unwrap(), splits);
            watermarks[split] = watermarks[split].max(ts - delay_ms);
        }
        watermark = row.map_or(i64::MAX, |_| watermark.max(*watermarks.iter().min().unwrap()));
        while let Some(entry) = open.first_entry().filter(|e| e.key().0 - 1 <= watermark) {
            let ((end, start, key), cnt) = entry.remove_entry();
            let [start, end, time] = [start, end, end - 1].map(|ms| (ms - TEN) as f64 / 1_000.0);
            out.push(format!("+I[{key}, {cnt}, {start}s, {end}s, {time}s]"));
        }
    }
    out.sort();
    (out, late)
}

fn setup() -> impl Strategy<Value = Setup> {
    let sizes = prop_oneof![Just(vec![1]), Just(vec![1_000]), prop::collection::vec(1usize..30, 1..5)];
    (sizes, any::<bool>(), 1usize..4).prop_map(|(batch_rows, two_phase, parallelism)| Setup {
        batch_rows,
        two_phase,
        parallelism,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Late rows and all: a row meets the same watermark in any batch, any phase, any subtask.
    #[test]
    fn batches_phases_and_parallelism_do_not_matter(
        rows in rows(), kind in window(), delay in 0i64..5, splits in 1usize..3, setup in setup(),
    ) {
        let ran = run(&rows, splits, kind, delay * 1_000, &setup);
        prop_assert_eq!(ran, model(&rows, splits, kind, delay * 1_000));
    }

    /// Over several source subtasks nobody can say which row came first, so none may be late by its own
    /// split's watermark; then every row counts, wherever its split is read.
    #[test]
    fn where_a_split_is_read_does_not_matter(
        rows in rows(), kind in window(), subtasks in 1usize..4, setup in setup(),
    ) {
        // A row is at most 15 s behind another.
        let (splits, delay_ms) = (["p0", "p1", "p2"], 16_000);
        let mut source = FakeSource::new(&[], Vec::new(), true);
        source.discoveries = vec![splits.iter().enumerate().map(|(i, id)| (*id, i as u64)).collect()];
        source.script.clear();
        for subtask in 0..subtasks {
            let own: Vec<usize> = (0..splits.len()).filter(|split| split % subtasks == subtask).collect();
            let mut steps: Vec<Step> = Vec::new();
            for (index, row) in rows.iter().enumerate() {
                if let Some(at) = own.iter().position(|split| index % splits.len() == *split) {
                    steps.push(Step::Rows(at, vec![*row]));
                }
            }
            steps.extend((0..own.len()).map(Step::Finished));
            source.script.insert(subtask, steps);
        }
        let ran = count(source, subtasks, kind, delay_ms, &setup);
        let (rows, late) = model(&rows, 1, kind, delay_ms);
        prop_assert_eq!(late, 0);
        prop_assert_eq!(ran, (rows, 0));
    }
}

#[test]
fn every_row_sees_its_own_current_watermark() {
    let mut job = Job::default();
    let taken = Taken::default();
    let rows = vec![("a", 1, Some(1.0)), ("a", 2, Some(5.0)), ("a", 3, Some(3.0)), ("a", 4, Some(9.0))];
    let steps = vec![Step::Rows(0, rows), Step::Finished(0)];
    let from = job.source("clicks", FakeSource::new(&["p0"], steps, true), 0, 1);
    let ts = schema().fields[2].ty.clone();
    let mut projection = inputs(&schema());
    projection[2] = Expr::call("CURRENT_WATERMARK", Vec::new(), ts);
    let calc = job.add("Calc[2]", OperatorSpec::Calc { filter: None, projection }, schema(), 1);
    job.edge(from, calc, Partitioner::Forward);
    job.sink(calc, "out", &taken);
    job.start().wait().unwrap();
    assert_eq!(taken.rows(), ["+I[a, 1, null]", "+I[a, 2, 1s]", "+I[a, 3, 5s]", "+I[a, 4, 5s]"]);
}
