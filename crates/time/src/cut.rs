//! Row-exact event time over batches.
//!
//! Results must be as if rows came one by one: a row is judged by the watermark that the rows
//! before it imply. Yet operators take batches and see one watermark for each. So the source cuts
//! a batch, and sends the watermark in between, exactly where it would make a difference:
//!
//! ```text
//!   rows:       03  09  12 | 08  11        (10 s windows, no delay)
//!   watermark:  -   03  09   12  12        before each row
//! ```
//!
//! Row `08` belongs to a window that `12` has closed: the piece up to `12` goes out, then watermark
//! `12`, then the rest. No other place needs a cut, because a window operator's answer to a row
//! changes only when the watermark crosses the end of a window that holds the row. So there is at
//! most one cut per closed window, however many rows are late.
//!
//! Extra cuts are harmless: a watermark sent at a cut is one the rows before it imply.

use std::fmt;

use crate::{Timestamp, Watermark};

/// Stands for "this row's watermark expression is NULL": it keeps the watermark.
pub const NO_CANDIDATE: Timestamp = Timestamp::MIN;

/// The windows of one operator, as far as cuts go.
pub trait SliceGrid: Send {
    /// True if the answer to a row at `timestamp` differs between the watermarks `sent` and
    /// `watermark` (`sent < watermark`): a window that holds the row fires in between. `watermark`
    /// never goes back from call to call.
    fn must_cut(&mut self, timestamp: Timestamp, sent: Timestamp, watermark: Timestamp) -> bool;
}

/// When an operator's answer to a row depends on the watermark.
pub enum CutRule {
    /// Windows on a grid: when the watermark has closed a window that holds the row.
    Slices(Box<dyn SliceGrid>),
    /// Sessions: when the row does not lie ahead of the watermark, so that it could still touch a
    /// session the watermark has closed (sessions that touch are one: `ts <= watermark + 1`).
    BehindWatermark,
    /// At every advance (`CURRENT_WATERMARK`).
    Any,
}

impl fmt::Debug for CutRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CutRule::Slices(_) => "Slices",
            CutRule::BehindWatermark => "BehindWatermark",
            CutRule::Any => "Any",
        })
    }
}

/// Where a batch is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The cut is before this row of the batch.
    pub row: usize,
    /// The watermark of the batch's split there.
    pub watermark: Watermark,
}

/// What holds before a batch; moved on by [`Cutter::plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutPosition {
    /// The watermark of the batch's split: the highest candidate so far.
    pub running: Watermark,
    /// The watermark that was sent last.
    pub sent: Watermark,
    /// What the other splits allow ([`crate::WatermarkValve::ceiling_without`]).
    pub ceiling: Watermark,
}

/// Plans the cuts of one source subtask.
pub struct Cutter {
    grids: Vec<Box<dyn SliceGrid>>,
    behind: bool,
    any: bool,
}

impl Cutter {
    /// A cutter for the operators below the source.
    pub fn new(rules: Vec<CutRule>) -> Self {
        let mut cutter = Cutter { grids: Vec::new(), behind: false, any: false };
        for rule in rules {
            match rule {
                CutRule::Slices(grid) => cutter.grids.push(grid),
                CutRule::BehindWatermark => cutter.behind = true,
                CutRule::Any => cutter.any = true,
            }
        }
        cutter
    }

    /// Plans one batch of one split: `timestamps` and `candidates` (the watermark expression, or
    /// [`NO_CANDIDATE`]) have one entry per row. Appends to `cuts`, in row order, and moves
    /// `position` to the end of the batch: `running` includes the last row, `sent` is the watermark
    /// at the last cut.
    pub fn plan(
        &mut self,
        timestamps: &[Timestamp],
        candidates: &[Timestamp],
        position: &mut CutPosition,
        cuts: &mut Vec<Cut>,
    ) {
        let mut running = position.running.timestamp();
        if self.grids.is_empty() && !self.behind && !self.any {
            running = candidates.iter().fold(running, |high, c| high.max(*c));
            position.running = Watermark(running);
            return;
        }
        let ceiling = position.ceiling.timestamp();
        let mut sent = position.sent.timestamp();
        let mut combined = sent.max(running.min(ceiling));
        for (row, (timestamp, candidate)) in timestamps.iter().zip(candidates).enumerate() {
            if combined > sent && self.is_cut(*timestamp, combined, sent) {
                cuts.push(Cut { row, watermark: Watermark(running) });
                sent = combined;
            }
            if *candidate > running {
                running = *candidate;
                combined = combined.max(running.min(ceiling));
            }
        }
        position.running = Watermark(running);
        position.sent = Watermark(sent);
    }

    fn is_cut(&mut self, timestamp: Timestamp, combined: Timestamp, sent: Timestamp) -> bool {
        self.any
            || (self.behind && timestamp <= combined.saturating_add(1))
            || self.grids.iter_mut().any(|grid| grid.must_cut(timestamp, sent, combined))
    }
}

#[cfg(test)]
mod tests;
