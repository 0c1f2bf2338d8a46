//! The function library: expressions and aggregates, evaluated over columns.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};

use crate::error::{Error, Result};
use crate::expr::{AggregateCall, Expr};
use crate::types::{LogicalType, Schema};
use tidegate_time::Timestamp;

/// What an expression may depend on besides its input columns; constant for one batch.
#[derive(Clone, Copy, Debug)]
pub struct EvalContext {
    /// The operator's watermark before this batch; `None` before any. Sources cut batches so that
    /// it is right for every row (`CURRENT_WATERMARK`).
    pub watermark: Option<Timestamp>,
    /// Wall clock in milliseconds (`PROCTIME()`, `CURRENT_TIMESTAMP`), from the runtime's clock.
    pub now_ms: Timestamp,
}

/// An evaluation that failed on one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// Row of the batch, from 0.
    pub row: usize,
    /// What is wrong with it.
    pub message: String,
}

impl RowError {
    /// A failure of `row`.
    pub fn new(row: usize, message: impl Into<String>) -> Self {
        RowError { row, message: message.into() }
    }
}

impl From<RowError> for Error {
    fn from(e: RowError) -> Self {
        Error::job(e.message)
    }
}

/// A compiled expression.
pub trait Evaluator: Send {
    /// The value of the expression for each row of `batch`; the array has the Arrow type of the
    /// expression's type and as many rows as the batch.
    fn evaluate(&mut self, batch: &RecordBatch, ctx: &EvalContext) -> Result<ArrayRef, RowError>;
}

/// One aggregate over many groups at once. Groups are dense numbers from 0.
pub trait GroupedAccumulator: Send {
    /// Adds rows: row `i` belongs to `groups[i]`. Rows where `selected` is not TRUE are left out.
    /// Groups `0 .. group_count` exist afterwards, untouched ones in their initial state.
    fn update(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        group_count: usize,
    ) -> Result<(), RowError>;

    /// Takes back rows added before (`-U`, `-D`).
    fn retract(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        group_count: usize,
    ) -> Result<(), RowError>;

    /// Adds partial states made by [`GroupedAccumulator::state`] elsewhere; one state row per entry
    /// of `groups`.
    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], group_count: usize) -> Result<()>;

    /// The partial states of these groups, one array per state column. Does not consume.
    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>>;

    /// Everything these groups hold, for a checkpoint: with what taking rows back needs, unlike
    /// [`GroupedAccumulator::state`]. Its columns have the types of [`FunctionLibrary::saved_types`]. Does
    /// not consume.
    fn save(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        self.state(groups)
    }

    /// Gives groups that hold nothing yet what [`GroupedAccumulator::save`] saved elsewhere, one row per
    /// entry of `groups`.
    fn load(&mut self, saved: &[ArrayRef], groups: &[u32], group_count: usize) -> Result<()> {
        self.merge(saved, groups, group_count)
    }

    /// The results of these groups. Does not consume.
    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef>;

    /// Forgets all groups but keeps allocations.
    fn clear(&mut self);
}

/// Turns plan data into code. Implemented by `sql`; tests register closures.
pub trait FunctionLibrary: Send + Sync {
    /// Compiles `expr` over batches of `input`. `zone` is the session time zone (IANA or offset).
    fn compile(&self, expr: &Expr, input: &Schema, zone: &str) -> Result<Box<dyn Evaluator>>;

    /// A fresh accumulator for `call`; `retracts` says whether rows will be taken back.
    fn accumulator(&self, call: &AggregateCall, retracts: bool) -> Result<Box<dyn GroupedAccumulator>>;

    /// The types of the columns [`GroupedAccumulator::state`] gives for `call`.
    fn state_types(&self, call: &AggregateCall) -> Result<Vec<LogicalType>>;

    /// The types of the columns that [`GroupedAccumulator::save`] gives for `call`.
    fn saved_types(&self, call: &AggregateCall, retracts: bool) -> Result<Vec<LogicalType>> {
        let _ = retracts;
        self.state_types(call)
    }
}
