use super::*;
use proptest::prelude::*;

/// Windows of `size`, one per `slide`, or growing by `slide` up to `size`.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Hop { slide: i64, size: i64 },
    Cumulate { step: i64, size: i64 },
}

impl Shape {
    fn step(self) -> i64 {
        match self {
            Shape::Hop { slide, .. } => slide,
            Shape::Cumulate { step, .. } => step,
        }
    }

    fn ends(self, ts: i64) -> Vec<i64> {
        let last = self.last_end_of(ts);
        let first = ts.div_euclid(self.step()) * self.step() + self.step();
        (0..).map(|i| first + i * self.step()).take_while(|e| *e <= last).collect()
    }
}

impl Shape {
    fn last_end_of(self, ts: i64) -> i64 {
        match self {
            Shape::Hop { slide, size } => ts.div_euclid(slide) * slide + size,
            Shape::Cumulate { size, .. } => ts.div_euclid(size) * size + size,
        }
    }
}

impl SliceGrid for Shape {
    fn must_cut(&mut self, timestamp: i64, sent: i64, watermark: i64) -> bool {
        let passed = (watermark + 1).div_euclid(self.step()) * self.step();
        timestamp < passed && passed.min(self.last_end_of(timestamp)) - 1 > sent
    }
}

/// A batch step an operator sees: rows, then possibly a watermark.
enum Seen {
    Row(i64),
    Watermark(i64),
}

fn row_by_row(rows: &[i64], delay: i64) -> Vec<Seen> {
    let mut watermark = i64::MIN;
    let mut seen = Vec::new();
    for ts in rows {
        seen.push(Seen::Row(*ts));
        watermark = watermark.max(ts - delay);
        seen.push(Seen::Watermark(watermark));
    }
    seen
}

fn in_batches(rows: &[i64], delay: i64, batch_rows: usize, rule: CutRule) -> (Vec<Seen>, usize) {
    let mut cutter = Cutter::new(vec![rule]);
    let mut position = CutPosition { running: Watermark::MIN, sent: Watermark::MIN, ceiling: Watermark::MAX };
    let (mut seen, mut cut_count) = (Vec::new(), 0);
    for batch in rows.chunks(batch_rows) {
        let candidates: Vec<i64> = batch.iter().map(|ts| ts - delay).collect();
        let mut cuts = Vec::new();
        cutter.plan(batch, &candidates, &mut position, &mut cuts);
        cut_count += cuts.len();
        let mut from = 0;
        for cut in &cuts {
            seen.extend(batch[from..cut.row].iter().map(|ts| Seen::Row(*ts)));
            seen.push(Seen::Watermark(cut.watermark.timestamp()));
            from = cut.row;
        }
        seen.extend(batch[from..].iter().map(|ts| Seen::Row(*ts)));
        seen.push(Seen::Watermark(position.running.timestamp()));
        position.sent = position.running;
    }
    (seen, cut_count)
}

/// For each row, the windows it enters: those not fired when it comes.
fn windows_entered(seen: &[Seen], shape: Shape) -> Vec<Vec<i64>> {
    let mut watermark = i64::MIN;
    let mut entered = Vec::new();
    for step in seen {
        match step {
            Seen::Row(ts) => {
                entered.push(shape.ends(*ts).into_iter().filter(|e| watermark < e - 1).collect());
            }
            Seen::Watermark(w) => watermark = *w,
        }
    }
    entered
}

/// Fired sessions (start, end, rows) and the number of late rows. Touching sessions are one.
fn sessions(seen: &[Seen], gap: i64) -> (Vec<(i64, i64, usize)>, usize) {
    let (mut open, mut fired, mut late): (Vec<(i64, i64, usize)>, Vec<_>, usize) = (vec![], vec![], 0);
    let mut watermark = i64::MIN;
    for step in seen {
        match *step {
            Seen::Row(ts) => {
                let (mut start, mut end, mut rows) = (ts, ts + gap, 1);
                let (touching, apart): (Vec<_>, Vec<_>) = open.iter().partition(|(s, e, _)| *s <= ts + gap && *e >= ts);
                for (s, e, n) in &touching {
                    (start, end, rows) = (start.min(*s), end.max(*e), rows + n);
                }
                if end - 1 <= watermark {
                    late += 1;
                } else {
                    open = apart;
                    open.push((start, end, rows));
                }
            }
            Seen::Watermark(w) => {
                watermark = w;
                fired.extend(open.iter().filter(|(_, end, _)| end - 1 <= w));
                open.retain(|(_, end, _)| end - 1 > w);
            }
        }
    }
    fired.extend(open);
    fired.sort();
    (fired, late)
}

fn jittered_rows() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec((0i64..6, -25i64..8), 1..120).prop_map(|steps| {
        let mut base = -40;
        let moved = steps.into_iter().map(|(step, jitter)| {
            base += step;
            base + jitter
        });
        moved.collect()
    })
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        (1i64..8, 1i64..5).prop_map(|(slide, k)| Shape::Hop { slide, size: slide * k }),
        (1i64..8, 1i64..5).prop_map(|(step, k)| Shape::Cumulate { step, size: step * k }),
    ]
}

proptest! {
    #[test]
    fn cutting_on_the_grid_changes_no_row(
        rows in jittered_rows(), delay in 0i64..10, batch_rows in 1usize..50, shape in shape(),
    ) {
        let (cut, _) = in_batches(&rows, delay, batch_rows, CutRule::Slices(Box::new(shape)));
        prop_assert_eq!(
            windows_entered(&cut, shape),
            windows_entered(&row_by_row(&rows, delay), shape)
        );
    }

    #[test]
    fn cutting_behind_the_watermark_changes_no_session(
        rows in jittered_rows(), delay in 0i64..10, batch_rows in 1usize..50, gap in 1i64..9,
    ) {
        let (cut, _) = in_batches(&rows, delay, batch_rows, CutRule::BehindWatermark);
        prop_assert_eq!(sessions(&cut, gap), sessions(&row_by_row(&rows, delay), gap));
    }

    #[test]
    fn any_shows_every_row_its_own_watermark(rows in jittered_rows(), batch_rows in 1usize..50) {
        let (cut, _) = in_batches(&rows, 3, batch_rows, CutRule::Any);
        let watermarks = |seen: &[Seen]| {
            let mut watermark = i64::MIN;
            let mut before_row = Vec::new();
            for step in seen {
                match step {
                    Seen::Row(_) => before_row.push(watermark),
                    Seen::Watermark(w) => watermark = *w,
                }
            }
            before_row
        };
        prop_assert_eq!(watermarks(&cut), watermarks(&row_by_row(&rows, 3)));
    }
}

#[test]
fn one_cut_per_closed_window_however_many_rows_are_late() {
    let rows = [3, 9, 12, 8, 7, 11, 6, 2, 13, 9];
    let tumble = Shape::Hop { slide: 10, size: 10 };
    let (_, cuts) = in_batches(&rows, 0, 100, CutRule::Slices(Box::new(tumble)));
    assert_eq!(cuts, 1);
}

#[test]
fn the_other_splits_hold_the_cut_back() {
    let grid = Box::new(Shape::Hop { slide: 10, size: 10 });
    let mut cutter = Cutter::new(vec![CutRule::Slices(grid)]);
    let mut position = CutPosition { running: Watermark::MIN, sent: Watermark::MIN, ceiling: Watermark(5) };
    let mut cuts = Vec::new();
    cutter.plan(&[12, 3, 4], &[12, 3, NO_CANDIDATE], &mut position, &mut cuts);
    assert_eq!(cuts, []);
    assert_eq!(position.running, Watermark(12));
}
