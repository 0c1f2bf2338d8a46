//! The operator contract: batches and watermarks in, elements out, no async and no clock.

use std::sync::Arc;

use tidegate_api::function::{EvalContext, FunctionLibrary};
use tidegate_api::metrics::MetricGroup;
use tidegate_api::{Batch, Result, StreamElement, Watermark};
use tidegate_time::Timestamp;

pub use crate::state::OperatorStates;

use crate::window_board::WindowBoard;

/// What an operator emits. The task sends it on; an operator never waits for its output.
#[derive(Default)]
pub struct Output {
    elements: Vec<StreamElement>,
}

impl Output {
    /// Emits rows; an empty batch is not emitted.
    pub fn batch(&mut self, batch: Batch) {
        if batch.num_rows() > 0 {
            self.elements.push(StreamElement::Batch(batch));
        }
    }

    /// Emits a watermark.
    pub fn watermark(&mut self, watermark: Watermark) {
        self.elements.push(StreamElement::Watermark(watermark));
    }

    /// Takes what was emitted, in order.
    pub fn take(&mut self) -> Vec<StreamElement> {
        std::mem::take(&mut self.elements)
    }

    /// True if nothing was emitted since the last [`Output::take`].
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }
}

/// One operator of one subtask.
///
/// The task has merged the watermarks of all channels: an operator sees one rising watermark.
pub trait Operator: Send {
    /// Takes rows of input `input` (0, or 1 for the right side). The current watermark is the last
    /// one given to [`Operator::process_watermark`].
    fn process_batch(&mut self, input: usize, batch: Batch, out: &mut Output) -> Result<()>;

    /// Event time has advanced. Emits what it completes first, then forwards the watermark.
    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        out.watermark(watermark);
        Ok(())
    }

    /// Goes on with what the last call left to do because its output would not fit into memory; false if
    /// nothing is left. Nothing else is called before that.
    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let _ = out;
        Ok(false)
    }

    /// The input becomes idle: its watermark will not hold back the operators below any more. What is
    /// held back only to save work (partial results) must go out first, or it may come too late.
    fn before_idle(&mut self, out: &mut Output) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// A barrier is about to pass: what is held back only to save work goes out before it.
    fn before_barrier(&mut self, out: &mut Output) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// A barrier: notes what has changed since the last checkpoint, all of which has been written, and returns what
    /// little the operator keeps for the whole subtask; null if nothing.
    fn checkpoint(&mut self) -> Result<serde_json::Value> {
        Ok(serde_json::Value::Null)
    }

    /// Writes some of what the last checkpoint has noted into the operator's states, `most` groups or so, as it was
    /// then; true if nothing is left. The task calls it at once and then between elements until then. An
    /// operator that has to write newer things before writes everything that is noted, and begins the snapshot
    /// itself.
    fn save_some(&mut self, most: usize) -> Result<bool> {
        let _ = most;
        Ok(true)
    }

    /// Goes on from a checkpoint: reads its states, and what the subtasks returned whose key groups it
    /// took over. Called before the first element.
    fn restore(&mut self, subtasks: &[serde_json::Value]) -> Result<()> {
        let _ = subtasks;
        Ok(())
    }

    /// No rows follow; for a bounded input `Watermark::MAX` came before.
    fn end_of_input(&mut self, out: &mut Output) -> Result<()> {
        let _ = out;
        Ok(())
    }
}

/// Rows an operator dropped because they were late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRows {
    /// How many rows.
    pub count: u64,
    /// Start of their window, on the window grid, in milliseconds.
    pub window_start: Timestamp,
    /// End of their window, exclusive.
    pub window_end: Timestamp,
    /// The operator's watermark that had closed it.
    pub watermark: Timestamp,
}

/// Told about every dropped late row.
pub trait LateListener: Send + Sync {
    /// `rows` were dropped by this operator.
    fn late(&self, rows: LateRows);
}

/// What an operator may use.
#[derive(Clone)]
pub struct OperatorContext {
    /// Expressions and aggregates.
    pub functions: Arc<dyn FunctionLibrary>,
    /// Session time zone.
    pub zone: String,
    /// The operator's metrics (`numLateRecordsDropped`, ...). The task keeps `numRecordsIn`,
    /// `numRecordsOut` and the watermark gauges.
    pub metrics: Arc<MetricGroup>,
    /// Wall clock in milliseconds, for processing-time functions.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// After how many milliseconds without a row an operator without windows forgets a key
    /// (`table.exec.state.ttl`); `None` is never.
    pub state_ttl_ms: Option<i64>,
    /// Who is told about late rows.
    pub late: Arc<dyn LateListener>,
    /// Where it keeps what outlives it.
    pub states: OperatorStates,
    /// Where a window operator shows what is open.
    pub windows: Arc<WindowBoard>,
}

impl OperatorContext {
    /// The evaluation context at this watermark.
    pub fn eval_context(&self, watermark: Watermark) -> EvalContext {
        let known = watermark != Watermark::MIN;
        EvalContext { watermark: known.then_some(watermark.timestamp()), now_ms: (self.now_ms)() }
    }
}
