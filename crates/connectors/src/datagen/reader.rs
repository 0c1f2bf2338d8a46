//! The pace of `datagen`: rows become due with time, and nobody spins while waiting for them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tidegate_api::connector::{SourceBatch, SourceEvent, SourceReader, Split};
use tidegate_api::{Error, Field, Result};
use tokio::time::Instant;

use super::field::{Generator, push};
use crate::column::Column;
use crate::format::to_batch;

/// Rows are handed on at least this often while there are any.
const HANDOVER: Duration = Duration::from_millis(10);
/// A reader without rows says so at least this often.
const QUIET: Duration = Duration::from_millis(40);

/// Rows of a column between two seeds of its random numbers: what must be made anew at most to go on in the
/// middle.
const SEED_ROWS: u64 = 4096;

/// Makes the rows of this subtask's splits.
pub(super) struct DatagenReader {
    columns: Vec<(u64, Field, Generator)>,
    schema: SchemaRef,
    batch_rows: usize,
    rows_per_second: f64,
    /// Rows of the whole table.
    rows: Option<u64>,
    seed: Option<u64>,
    splits: Vec<SplitProgress>,
    turn: usize,
}

struct SplitProgress {
    index: u64,
    of: u64,
    started: Instant,
    /// Rows that were made before, when this split went on from a checkpoint.
    made_before: u64,
    /// Rows made so far.
    made: u64,
    /// Rows to make in all.
    total: u64,
    finished: bool,
    /// One for each column: what a column holds does not depend on which others are read.
    rngs: Vec<StdRng>,
}

impl SplitProgress {
    /// Rows that may be made now, and when the next handover is due.
    fn due(&self, now: Instant, rows_per_second: f64) -> (u64, Instant) {
        let elapsed = now.duration_since(self.started).as_secs_f64();
        // The first row is due at once.
        let due = self.made_before + (elapsed * rows_per_second) as u64 + 1;
        let made_now = self.made - self.made_before;
        let next_row = self.started + Duration::from_secs_f64(made_now as f64 / rows_per_second);
        let left = self.total - self.made;
        (due.saturating_sub(self.made).min(left), next_row.max(now + HANDOVER))
    }
}

impl DatagenReader {
    pub(super) fn new(
        columns: Vec<(u64, Field, Generator)>,
        schema: SchemaRef,
        batch_rows: usize,
        rows_per_second: f64,
        rows: Option<u64>,
        seed: Option<u64>,
    ) -> Self {
        DatagenReader { columns, schema, batch_rows, rows_per_second, rows, seed, splits: Vec::new(), turn: 0 }
    }

    fn make(&mut self, split: usize, rows: u64) -> Result<SourceEvent> {
        let now_ms = now_ms();
        let progress = &mut self.splits[split];
        let numbers = progress.made..progress.made + rows;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (i, (_, field, _)) in self.columns.iter().enumerate() {
            let mut column = Column::new(&field.ty);
            values(&self.columns[i], self.seed, progress, i, numbers.clone(), now_ms, &mut column)?;
            arrays.push(column.finish()?);
        }
        progress.made += rows;
        let columns = to_batch(self.schema.clone(), arrays, rows as usize)?;
        let positions = numbers.map(|i| i as i64).collect();
        Ok(SourceEvent::Rows(SourceBatch { split, columns, kinds: None, positions }))
    }
}

/// Adds the values of rows `numbers` to one column. Seeded random numbers begin anew every few rows, so that
/// a split can go on anywhere.
fn values(
    (number, _, generator): &(u64, Field, Generator),
    seed: Option<u64>,
    progress: &mut SplitProgress,
    column: usize,
    numbers: std::ops::Range<u64>,
    now_ms: i64,
    into: &mut Column,
) -> Result<()> {
    let (of, index) = (progress.of, progress.index);
    for i in numbers {
        if let Some(seed) = seed.filter(|_| i.is_multiple_of(SEED_ROWS)) {
            progress.rngs[column] = seeded(seed, index, *number, i / SEED_ROWS);
        }
        push(generator, into, &mut progress.rngs[column], i * of + index, now_ms)?;
    }
    Ok(())
}

fn seeded(seed: u64, split: u64, column: u64, stretch: u64) -> StdRng {
    StdRng::seed_from_u64(seed ^ (split << 48) ^ (column << 36) ^ stretch)
}

#[allow(clippy::disallowed_methods, reason = "the generated columns hold the time of day by definition")]
fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

#[async_trait]
impl SourceReader for DatagenReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let number = |key: &str| split.state.get(key).and_then(serde_json::Value::as_u64);
        let (Some(index), Some(of), Some(made)) = (number("index"), number("of"), number("made")) else {
            return Err(Error::job(format!("The datagen split '{}' cannot be read.", split.id)));
        };
        let share = |rows: u64| rows / of.max(1) + u64::from(index < rows % of.max(1));
        let mut progress = SplitProgress {
            index,
            of,
            started: Instant::now(),
            made_before: made,
            made,
            total: self.rows.map_or(u64::MAX, share),
            finished: false,
            rngs: self.columns.iter().map(|_| StdRng::from_os_rng()).collect(),
        };
        if self.seed.is_some() {
            let stretch = made - made % SEED_ROWS..made;
            for (i, column) in self.columns.iter().enumerate() {
                let mut thrown_away = Column::new(&column.1.ty);
                values(column, self.seed, &mut progress, i, stretch.clone(), 0, &mut thrown_away)?;
            }
        }
        self.splits.push(progress);
        Ok(())
    }

    async fn next(&mut self) -> Result<SourceEvent> {
        let quiet_at = Instant::now() + QUIET;
        loop {
            let now = Instant::now();
            let mut wake = quiet_at;
            let mut active = Vec::new();
            for turn in 0..self.splits.len() {
                let split = (self.turn + turn) % self.splits.len();
                let progress = &mut self.splits[split];
                if progress.finished {
                    continue;
                }
                if progress.made >= progress.total {
                    progress.finished = true;
                    return Ok(SourceEvent::SplitFinished(split));
                }
                active.push(split);
                let (due, next) = progress.due(now, self.rows_per_second);
                if due > 0 {
                    self.turn = split + 1;
                    return self.make(split, due.min(self.batch_rows as u64));
                }
                wake = wake.min(next);
            }
            if active.is_empty() {
                return std::future::pending().await;
            }
            if now >= quiet_at {
                return Ok(SourceEvent::Quiet(active));
            }
            tokio::time::sleep_until(wake).await;
        }
    }

    fn snapshot(&self) -> Result<Vec<(usize, Split)>> {
        let open = self.splits.iter().enumerate().filter(|(_, split)| !split.finished);
        let state = |split: &SplitProgress| json!({ "index": split.index, "of": split.of, "made": split.made });
        Ok(open
            .map(|(number, split)| {
                let id = format!("datagen-{}", split.index);
                (number, Split { id, owner: split.index, state: state(split) })
            })
            .collect())
    }

    fn locate(&self, split: usize, position: i64) -> String {
        let index = self.splits.get(split).map_or(0, |s| s.index);
        format!("datagen split {index}, row {}", position + 1)
    }
}
