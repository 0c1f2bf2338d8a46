//! The same rows come out, whatever batches they came in.

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

fn run(
    rows: &[Row],
    batch_rows: &[usize],
    kind: WindowKind,
    two_phase: bool,
    delay_ms: i64,
    two_splits: bool,
) -> (Vec<String>, u64) {
    let mut job = Job::default();
    let taken = Taken::default();
    let mut steps = Vec::new();
    let (mut rest, mut sizes) = (rows, batch_rows.iter().cycle());
    while !rest.is_empty() {
        // Values are the base time; runs of ten seconds come from one split, so that splits take turns.
        let split = |row: &Row| if two_splits { (row.1 / 10 % 2) as usize } else { 0 };
        let run = rest.iter().take_while(|row| split(row) == split(&rest[0])).count();
        let take = (*sizes.next().unwrap()).clamp(1, run);
        steps.push(Step::Rows(split(&rest[0]), rest[..take].to_vec()));
        rest = &rest[take..];
    }
    let splits = if two_splits { &["p0", "p1"][..] } else { &["p0"] };
    steps.extend((0..splits.len()).map(Step::Finished));
    let from = job.source("clicks", FakeSource::new(splits, steps, true), delay_ms, 1);
    let window = match two_phase {
        true => job.two_phase_count(from, kind),
        false => job.window_count(from, kind, true),
    };
    job.sink(window, "out", &taken);
    let summary = job.start_on(1).wait().unwrap();
    (taken.sorted(), summary.late.iter().map(|l| l.rows).sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn batches_do_not_matter(
        rows in rows(), sizes in prop::collection::vec(1usize..30, 1..5), kind in window(), delay in 0i64..5,
        two_splits in any::<bool>(),
    ) {
        let one_by_one = run(&rows, &[1], kind, false, delay * 1_000, two_splits);
        let batched = run(&rows, &sizes, kind, false, delay * 1_000, two_splits);
        prop_assert_eq!(&batched, &one_by_one);
        if !matches!(kind, WindowKind::Session { .. }) {
            let whole = run(&rows, &[rows.len()], kind, true, delay * 1_000, two_splits);
            prop_assert_eq!(&whole, &one_by_one);
        }
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
