//! One moment of the demo, put together from what the job shows, what it has printed and what was sent.
//! Pure; everything that is shown or said is made from this.

use tidegate_runtime::view::{EventTimeView, SourceView, SplitView, WindowOperatorView};

use super::clicks::{Truth, WINDOW_MS};
use super::results::{ByQuery, Counted};

/// A query of the script: what it is called, and how long its watermark waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// `d2`: its tables are `clicks_d2` and `counts_d2`.
    pub id: &'static str,
    /// The watermark delay in milliseconds.
    pub delay_ms: i64,
}

/// What does not change while the demo runs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Clicks per second.
    pub rate: u32,
    /// How late the latest clicks are, in milliseconds.
    pub disorder_ms: i64,
    /// Where Kafka is.
    pub bootstrap: String,
    /// Where REST is.
    pub rest: String,
    /// The queries, the shortest delay first.
    pub queries: Vec<Query>,
    /// When it ends by itself, after this long.
    pub limit_ms: Option<i64>,
}

/// Where the time stands.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Since the first click.
    pub elapsed_ms: i64,
    /// The wall clock.
    pub wall_ms: i64,
}

/// The demo at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub elapsed_ms: i64,
    /// Clicks sent.
    pub sent: u64,
    pub delays: Vec<Delay>,
    /// Oldest first.
    pub windows: Vec<Window>,
    pub partitions: Vec<Partition>,
}

/// One query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    pub delay_ms: i64,
    /// Of its window operator.
    pub watermark: Option<i64>,
    /// Clicks read, and what became of them.
    pub read: u64,
    pub counted: u64,
    pub lost: u64,
    pub open: u64,
    /// Windows closed.
    pub closed: u64,
    /// End of the window that closes next.
    pub next_end: Option<i64>,
    /// How long after a window's end its result came, the last time.
    pub result_after_ms: Option<i64>,
    /// The last loss.
    pub last_loss: Option<Loss>,
}

impl Delay {
    /// Whether every click that was read is counted, lost or in an open window.
    pub fn balances(&self) -> bool {
        self.read == self.counted + self.lost + self.open
    }
}

/// Clicks that came after their window had closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub start: i64,
    pub end: i64,
    pub clicks: u64,
    /// When the last of them came.
    pub watermark: i64,
}

/// One window under all delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: i64,
    pub end: i64,
    /// Clicks sent that happened in it.
    pub sent: u64,
    /// No click of it can come any more.
    pub settled: bool,
    /// By query.
    pub cells: Vec<Cell>,
}

/// A window under one delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Nothing came.
    Empty,
    /// Still open.
    Open { clicks: u64 },
    /// Closed with a count, and how many came too late for it.
    Closed { clicks: u64, lost: u64 },
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub clicks: u64,
    /// Its newest click.
    pub newest: Option<i64>,
    pub state: Standing,
}

/// How a partition stands to the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the slowest.
    Holds { quiet_ms: i64 },
    /// Others are slower.
    Ahead,
    /// Left out, for it has had nothing for so long.
    Idle { ms: i64 },
    /// Back from idleness, behind the watermark.
    CatchingUp,
}

/// Puts the picture together.
pub fn assemble(
    facts: &Facts,
    view: &EventTimeView,
    results: &ByQuery,
    truth: &Truth,
    now: Moment,
    stream_time: impl Fn(&Counted) -> i64,
) -> Picture {
    let found: Vec<Found<'_>> = facts.queries.iter().map(|query| Found::of(*query, view, results)).collect();
    let window = |(start, sent): (&i64, &u64)| {
        let settled = truth.is_settled(*start);
        let cells = found.iter().map(|f| f.cell(*start, *sent, settled)).collect();
        Window { start: *start, end: start + WINDOW_MS, sent: *sent, settled, cells }
    };
    Picture {
        elapsed_ms: now.elapsed_ms,
        sent: truth.sent,
        delays: found.iter().map(|f| f.delay(&stream_time)).collect(),
        windows: truth.windows.iter().map(window).collect(),
        partitions: found.first().and_then(|f| f.source).map_or(Vec::new(), |s| partitions(s, now.wall_ms)),
    }
}

/// What belongs to one query.
struct Found<'a> {
    query: Query,
    source: Option<&'a SourceView>,
    operator: Option<&'a WindowOperatorView>,
    counted: Option<&'a std::collections::BTreeMap<i64, Counted>>,
}

impl<'a> Found<'a> {
    fn of(query: Query, view: &'a EventTimeView, results: &'a ByQuery) -> Found<'a> {
        let table = format!("clicks_{}[", query.id);
        Found {
            query,
            source: view.sources.iter().find(|s| s.name.contains(&table)),
            operator: view.windows.iter().find(|w| w.sources.iter().any(|s| s.contains(&table))),
            counted: results.get(query.id),
        }
    }

    fn delay(&self, stream_time: impl Fn(&Counted) -> i64) -> Delay {
        let open = self.operator.map_or(&[][..], |o| &o.nearest);
        let last = self.counted.and_then(|c| c.values().next_back());
        let late = self.operator.and_then(|o| o.late.last());
        Delay {
            delay_ms: self.query.delay_ms,
            watermark: self.operator.and_then(|o| o.watermark),
            read: self.source.map_or(0, |s| s.splits.iter().map(|split| split.rows).sum()),
            counted: self.counted.map_or(0, |c| c.values().map(|w| w.rows).sum()),
            lost: self.operator.map_or(0, |o| o.late_rows),
            open: open.iter().map(|w| w.rows.unsigned_abs()).sum(),
            closed: self.counted.map_or(0, |c| c.len() as u64),
            next_end: open.first().map(|w| w.end),
            result_after_ms: last.map(|w| (stream_time(w) - w.end).max(0)),
            last_loss: late.map(|w| Loss { start: w.start, end: w.end, clicks: w.rows, watermark: w.watermark }),
        }
    }

    fn cell(&self, start: i64, sent: u64, settled: bool) -> Cell {
        if let Some(counted) = self.counted.and_then(|c| c.get(&start)) {
            let late = self.operator.and_then(|o| o.late.iter().rfind(|w| w.start == start)).map_or(0, |w| w.rows);
            // Late rows are remembered for some windows only; what was sent is known of all.
            let lost = if settled { sent.saturating_sub(counted.rows) } else { late };
            return Cell::Closed { clicks: counted.rows, lost };
        }
        match self.operator.and_then(|o| o.nearest.iter().find(|w| w.start == start)) {
            Some(open) => Cell::Open { clicks: open.rows.unsigned_abs() },
            None => Cell::Empty,
        }
    }
}

fn partitions(source: &SourceView, wall_ms: i64) -> Vec<Partition> {
    let holding = source.holding().map(|split| &split.name);
    let mut partitions: Vec<&SplitView> = source.splits.iter().collect();
    partitions.sort_by_key(|split| (split.name.len(), &split.name));
    let partition = |split: &&SplitView| Partition {
        name: split.name.clone(),
        clicks: split.rows,
        newest: split.max_event_time,
        state: match split.idle_since_ms {
            Some(_) => Standing::Idle { ms: split.last_row_ms.map_or(0, |at| wall_ms - at) },
            None if holding == Some(&split.name) => {
                Standing::Holds { quiet_ms: split.last_row_ms.map_or(0, |at| wall_ms - at) }
            }
            None if split.counts => Standing::Ahead,
            None => Standing::CatchingUp,
        },
    };
    partitions.iter().map(partition).collect()
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use tidegate_runtime::view::{LateWindowView, OpenWindowView};
    use tokio::time::Instant;

    use super::*;

    /// 2026-10-01 10:00:00 UTC.
    pub const TEN: i64 = 1_790_848_800_000;
    pub const QUERIES: [Query; 3] =
        [Query { id: "d0", delay_ms: 0 }, Query { id: "d2", delay_ms: 2_000 }, Query { id: "d5", delay_ms: 5_000 }];

    pub fn facts() -> Facts {
        Facts {
            rate: 50,
            disorder_ms: 4_000,
            bootstrap: "127.0.0.1:39092".into(),
            rest: "http://127.0.0.1:38081".into(),
            queries: QUERIES.to_vec(),
            limit_ms: Some(60_000),
        }
    }

    fn split(name: &str, rows: u64, newest: i64, counts: bool, idle: bool) -> SplitView {
        SplitView {
            name: name.into(),
            subtask: 0,
            rows,
            max_event_time: Some(TEN + newest),
            watermark: Some(TEN + newest),
            counts,
            last_row_ms: Some(if idle { 9_000 } else { 12_400 }),
            idle_since_ms: idle.then_some(11_000),
            finished: false,
        }
    }

    fn operator(id: &str, watermark: i64, open: &[(i64, i64)], late: &[(i64, u64)]) -> WindowOperatorView {
        let open = open.iter().map(|(start, rows)| OpenWindowView {
            start: TEN + start,
            end: TEN + start + WINDOW_MS,
            closes_at: TEN + start + WINDOW_MS - 1,
            rows: *rows,
        });
        let view = late.iter().map(|(start, rows)| LateWindowView {
            start: TEN + start,
            end: TEN + start + WINDOW_MS,
            rows: *rows,
            watermark: TEN + watermark,
        });
        WindowOperatorView {
            operator: format!("GlobalWindowAggregate[{id}]"),
            sources: vec![format!("Source: clicks_{id}[1]")],
            watermark: Some(TEN + watermark),
            closed: 0,
            open: open.len(),
            nearest: open.collect(),
            late_rows: late.iter().map(|l| l.1).sum(),
            late: view.collect(),
        }
    }

    /// 12 s in: three partitions, one of them idle; delay 0 has closed two windows, delay 5 one.
    pub fn sample() -> Picture {
        let splits = [
            split("clicks-0", 200, 11_900, true, false),
            split("clicks-1", 200, 11_700, true, false),
            split("clicks-2", 200, 9_000, false, true),
        ];
        let source = |id: &str| SourceView { name: format!("Source: clicks_{id}[1]"), splits: splits.to_vec() };
        let view = EventTimeView {
            sources: vec![source("d0"), source("d2"), source("d5")],
            windows: vec![
                operator("d0", 11_700, &[(10_000, 90)], &[(0, 39), (5_000, 41)]),
                operator("d2", 9_700, &[(5_000, 240), (10_000, 100)], &[(0, 6)]),
                operator("d5", 6_700, &[(5_000, 248), (10_000, 102)], &[]),
            ],
        };
        let at = Instant::now();
        let counted = |windows: &[(i64, u64)]| -> BTreeMap<i64, Counted> {
            let window =
                |(start, rows): &(i64, u64)| (TEN + start, Counted { end: TEN + start + WINDOW_MS, rows: *rows, at });
            windows.iter().map(window).collect()
        };
        let results = BTreeMap::from([
            ("d0".to_owned(), counted(&[(0, 211), (5_000, 219)])),
            ("d2".to_owned(), counted(&[(0, 244)])),
            ("d5".to_owned(), counted(&[(0, 250)])),
        ]);
        let windows = BTreeMap::from([(TEN, 250), (TEN + 5_000, 260), (TEN + 10_000, 102)]);
        let truth = Truth { windows, sent: 612, settled_ms: TEN + 8_000 };
        let now = Moment { elapsed_ms: 12_000, wall_ms: 12_500 };
        assemble(&facts(), &view, &results, &truth, now, |counted| counted.end + 100)
    }

    #[test]
    fn the_picture_tells_what_was_counted_lost_and_is_open() {
        let picture = sample();
        let first = &picture.windows[0];
        assert!(first.settled && !picture.windows[1].settled);
        let closed = |clicks, lost| Cell::Closed { clicks, lost };
        assert_eq!(first.cells, [closed(211, 39), closed(244, 6), closed(250, 0)]);
        assert_eq!(picture.windows[1].cells[..2], [closed(219, 41), Cell::Open { clicks: 240 }]);
        let zero = &picture.delays[0];
        assert_eq!((zero.read, zero.counted, zero.lost, zero.open, zero.closed), (600, 430, 80, 90, 2));
        assert!(zero.balances());
        assert_eq!((zero.next_end, zero.result_after_ms), (Some(TEN + 15_000), Some(100)));
        let states: Vec<Standing> = picture.partitions.iter().map(|p| p.state).collect();
        assert_eq!(states, [Standing::Ahead, Standing::Holds { quiet_ms: 100 }, Standing::Idle { ms: 3_500 }]);
    }

    #[test]
    fn before_the_first_click_there_is_nothing() {
        let now = Moment { elapsed_ms: 0, wall_ms: 0 };
        let (view, results, truth) = (EventTimeView::default(), ByQuery::new(), Truth::default());
        let picture = assemble(&facts(), &view, &results, &truth, now, |c| c.end);
        assert_eq!((picture.windows.len(), picture.partitions.len(), picture.delays.len()), (0, 0, 3));
        assert!(picture.delays.iter().all(|d| d.watermark.is_none() && d.balances()));
    }
}
