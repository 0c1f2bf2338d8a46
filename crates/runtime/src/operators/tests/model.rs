//! One phase, two phases and a row-at-a-time model give the same windows, however rows are batched.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_api::graph::{OperatorSpec, WindowAggregateSpec};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Schema, WindowKind};
use tidegate_window::{CutGrid, TimeWindow, WindowAssigner, merge_session};

use super::windows::{one_phase, spec};
use super::*;

/// Results by rows, in the words of the definition: each row meets the watermark of the rows before it.
fn model(windows: &WindowAssigner, rows: &[Row], delay: i64) -> (Vec<String>, u64) {
    let mut open: BTreeMap<(i64, i64, String), Vec<i64>> = BTreeMap::new();
    let (mut out, mut late, mut watermark) = (Vec::new(), 0, i64::MIN);
    let fire = |open: &mut BTreeMap<(i64, i64, String), Vec<i64>>, watermark: i64, out: &mut Vec<String>| {
        while let Some(entry) = open.first_entry().filter(|e| e.key().0 - 1 <= watermark) {
            let ((end, start, key), values) = entry.remove_entry();
            let sum: i64 = values.iter().sum();
            out.push(format!("+I[{key}, {}, {sum}, {start}, {end}, {}]", values.len(), end - 1));
        }
    };
    for (key, value, ts, _) in rows {
        let (key, value) = (key.clone().unwrap(), value.unwrap());
        let mut own = Vec::new();
        if windows.is_session() {
            let mine: Vec<_> = open.keys().filter(|k| k.2 == key).map(|k| TimeWindow::new(k.1, k.0)).collect();
            let merge = merge_session(&mine, TimeWindow::new(*ts, ts + windows.slice_size()));
            if merge.window.end - 1 > watermark {
                let held: Vec<i64> = mine[merge.absorbed]
                    .iter()
                    .flat_map(|w| open.remove(&(w.end, w.start, key.clone())).unwrap())
                    .collect();
                open.insert((merge.window.end, merge.window.start, key.clone()), held);
                own.push(merge.window);
            }
        } else {
            windows.windows_of(*ts, &mut own);
            own.retain(|w| watermark == i64::MIN || w.end - 1 > watermark);
        }
        late += u64::from(own.is_empty());
        for w in own {
            open.entry((w.end, w.start, key.clone())).or_default().push(value);
        }
        watermark = watermark.max(ts - delay);
        fire(&mut open, watermark, &mut out);
    }
    fire(&mut open, i64::MAX, &mut out);
    (out, late)
}

/// Rows in batches of at most `size`, cut as a source cuts them.
fn stream(windows: &WindowAssigner, rows: &[Row], delay: i64, size: usize) -> Vec<StreamElement> {
    let mut cuts = CutGrid::new(windows.clone());
    let (mut sent, mut watermark, mut part) = (i64::MIN, i64::MIN, Vec::new());
    let mut elements = Vec::new();
    for row in rows {
        if cuts.must_cut(row.2, sent, watermark) || part.len() == size {
            if !part.is_empty() {
                elements.push(batch(&std::mem::take(&mut part)));
            }
            elements.push(StreamElement::Watermark(Watermark(watermark)));
            sent = watermark;
        }
        part.push(row.clone());
        watermark = watermark.max(row.2 - delay);
    }
    elements.extend([batch(&part), StreamElement::Watermark(Watermark::MAX), StreamElement::EndOfInput]);
    elements
}

struct TwoPhases(Rig, Rig);

fn two_phases(spec: &WindowAggregateSpec) -> TwoPhases {
    let key = input().fields[0].clone();
    let list = LogicalType::new(TypeKind::Array(Box::new(LogicalType::new(TypeKind::BigInt))));
    let states = spec.aggregates.iter().map(|a| Field::new(&a.name, list.clone()));
    let ends = [column("slice_end", TypeKind::BigInt), column("row_count", TypeKind::BigInt)];
    let partial = Schema::new([key.clone()].into_iter().chain(states).chain(ends).collect());
    let results = spec.aggregates.iter().map(|a| Field::new(&a.name, a.ty.clone()));
    let output = Schema::new([key].into_iter().chain(results).chain(window_fields()).collect());
    TwoPhases(
        Rig::new(&OperatorSpec::LocalWindowAggregate(spec.clone()), &input(), &partial),
        Rig::new(&OperatorSpec::GlobalWindowAggregate(spec.clone()), &partial, &output),
    )
}

/// Windows come in ascending end; within one end the order of keys is free.
fn sorted(mut lines: Vec<String>) -> Vec<String> {
    let end = |l: &String| -> i64 { l.rsplit(", ").nth(1).unwrap().parse().unwrap() };
    assert!(lines.is_sorted_by_key(end), "windows fire in the order of their ends");
    lines.sort_by_key(|l| (end(l), l.clone()));
    lines
}

fn check(kind: WindowKind, rows: &[Row], delay: i64, size: usize) -> Result<(), TestCaseError> {
    let spec = spec(kind, &["COUNT", "SUM"], false);
    let windows = spec.window.assigner().unwrap();
    let (expected, late) = model(&windows, rows, delay);
    let expected = sorted(expected);
    let elements = stream(&windows, rows, delay, size);

    let mut one = one_phase(&spec);
    let out: Vec<_> = elements.iter().cloned().flat_map(|e| one.feed(e)).collect();
    prop_assert_eq!(sorted(lines(&out)), expected.clone());
    prop_assert_eq!(one.late(), late);

    if !windows.is_session() {
        let TwoPhases(mut local, mut global) = two_phases(&spec);
        let partials: Vec<_> = elements.into_iter().flat_map(|e| local.feed(e)).collect();
        let out: Vec<_> = partials.into_iter().flat_map(|e| global.feed(e)).collect();
        prop_assert_eq!(sorted(lines(&out)), expected);
        prop_assert_eq!(global.late(), late);
    }
    Ok(())
}

proptest! {
    #[test]
    fn phases_and_batches_do_not_show(
        steps in prop::collection::vec((0..3u8, 1..9i64, -40..25i64), 1..80),
        kind in (0..4u8, 1..12i64, 1..5i64),
        delay in 0..30i64,
        size in 1..40usize,
    ) {
        let (shape, unit, times) = kind;
        let kind = match shape {
            0 => WindowKind::Tumble { size: unit * times },
            1 => WindowKind::Hop { slide: unit, size: unit * times },
            2 => WindowKind::Cumulate { step: unit, size: unit * times },
            _ => WindowKind::Session { gap: unit },
        };
        let mut at = -100;
        let rows: Vec<Row> = steps
            .into_iter()
            .map(|(k, v, step)| {
                // Time goes forward by fits and starts; some rows come from far behind.
                if step > 0 {
                    at += step;
                }
                (Some(k.to_string()), Some(v), at + step.min(0), RowKind::Insert)
            })
            .collect();
        check(kind, &rows, delay, size)?;
    }
}
