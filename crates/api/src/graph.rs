//! The job graph: all that passes from the planner to the runtime, as plain data.

use serde::{Deserialize, Serialize};
use tidegate_window::WindowSpec;

use crate::config::Configuration;
use crate::connector::{ReadColumn, TableDescriptor};
use crate::expr::{AggregateCall, Expr};
use crate::types::Schema;
use crate::value::Value;

/// A job: operators and the edges between them. Node indices are positions in `nodes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobGraph {
    /// Job name, Flink's `insert-into_<catalog>.<db>.<table>` unless `pipeline.name` is set.
    pub name: String,
    /// Operators, inputs before users.
    pub nodes: Vec<OperatorNode>,
    /// Edges.
    pub edges: Vec<Edge>,
    /// The session's settings when the job was planned.
    pub config: Configuration,
}

/// An operator of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorNode {
    /// Flink's operator name with its number: `GlobalWindowAggregate[5]`, `Source: clicks[1]`,
    /// `out[7]: Writer`.
    pub name: String,
    /// The longer text of plans: `GlobalWindowAggregate(groupBy=[user_id], ...)`.
    pub description: String,
    /// What it does.
    pub spec: OperatorSpec,
    /// Columns of its output.
    pub output: Schema,
    /// Number of subtasks.
    pub parallelism: usize,
}

/// A connection from one operator's output to another's input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// Node that sends.
    pub from: usize,
    /// Node that receives.
    pub to: usize,
    /// Which input of the receiver: 0, or 1 for the right side of a two-input operator. Several
    /// edges into one input are a union.
    pub input: usize,
    /// How rows are spread over the receiver's subtasks.
    pub partitioner: Partitioner,
}

/// How rows are spread over subtasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Partitioner {
    /// Subtask i to subtask i; both sides have one parallelism. Such operators are chained.
    Forward,
    /// By key group of these columns.
    Hash(Vec<usize>),
    /// Round robin.
    Rebalance,
    /// Everything to everyone.
    Broadcast,
    /// Everything to subtask 0.
    Global,
}

/// What an operator does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorSpec {
    /// Reads a table.
    Source(SourceSpec),
    /// Emits constant rows and ends.
    Values {
        /// Rows of the output schema.
        rows: Vec<Vec<Value>>,
    },
    /// Keeps rows where `filter` is TRUE, then computes one output column per projection.
    Calc {
        /// BOOLEAN condition over the input.
        filter: Option<Expr>,
        /// Output columns over the input.
        projection: Vec<Expr>,
    },
    /// Passes its inputs on; the watermark is the minimum.
    Union,
    /// A window TVF without aggregation: each row once per window it belongs to (in ascending
    /// window end), input columns followed by `window_start`, `window_end`, `window_time`.
    WindowTableFunction {
        /// The window; `Session` is assigned when it closes, keyed by `keys`.
        window: WindowSpec,
        /// Event-time column.
        time_column: usize,
        /// `PARTITION BY` of a session.
        keys: Vec<usize>,
    },
    /// First phase of a window aggregate: partial states per slice and key before the shuffle.
    /// Output: key columns, state columns of each aggregate in order, then `slice_end BIGINT`
    /// (milliseconds on the window grid) and `row_count BIGINT` (input rows in this partial).
    LocalWindowAggregate(WindowAggregateSpec),
    /// Second phase, over the output of the first. Output: key columns, results, then
    /// `window_start`, `window_end` and `window_time`.
    GlobalWindowAggregate(WindowAggregateSpec),
    /// Window aggregate in one phase (sessions, aggregates that cannot merge, updating input).
    /// Output as of the global one.
    WindowAggregate(WindowAggregateSpec),
    /// `GROUP BY` without a window: a changelog. Output: key columns, results.
    GroupAggregate(GroupAggregateSpec),
    /// Emits each input row once per projection (grouping sets).
    Expand {
        /// One list of output columns per copy.
        projections: Vec<Vec<Expr>>,
    },
    /// One output row per element of an array, map or multiset: input columns followed by the
    /// element's columns.
    Unnest(UnnestSpec),
    /// Joins rows of two inputs whose event times lie within bounds of each other. Output: the columns of
    /// the left input, then those of the right one. The watermark is held back by the larger bound.
    IntervalJoin(IntervalJoinSpec),
    /// Joins rows of two inputs that carry the same window. Output as of the interval join.
    WindowJoin(WindowJoinSpec),
    /// Writes a table.
    Sink(SinkSpec),
}

/// Reads a table: connector, computed columns and watermark in one operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// The table.
    pub table: TableDescriptor,
    /// The columns the reader delivers, in order; only those the query needs.
    pub read: Vec<ReadColumn>,
    /// The schema of those columns.
    pub read_schema: Schema,
    /// Output columns over what was read: physical, metadata (cast) and computed columns.
    pub projection: Vec<Expr>,
    /// Event time, if the table declares a watermark.
    pub watermark: Option<WatermarkSpec>,
}

/// `WATERMARK FOR rowtime AS expr`, and what goes with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatermarkSpec {
    /// Output column of the source that holds the event time.
    pub rowtime: usize,
    /// Name of that column, for messages.
    pub rowtime_name: String,
    /// The watermark expression over the source's output columns.
    pub expr: Expr,
    /// A split without rows for this long, though asked, is idle; `None` or 0 is never.
    pub idle_timeout_ms: Option<i64>,
    /// What to do with a row whose event time is NULL (`tidegate.rowtime.null`).
    pub null_policy: NullRowtimePolicy,
}

/// `tidegate.rowtime.null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NullRowtimePolicy {
    /// The job fails and names the row (Flink's behaviour, with a message).
    Fail,
    /// The row is dropped and counted.
    Drop,
}

/// A window aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowAggregateSpec {
    /// The window.
    pub window: WindowSpec,
    /// Where a row's window comes from. Ignored by the global phase, whose input names its slice.
    pub input: WindowInput,
    /// Key columns of the input (for the global phase: its first columns).
    pub keys: Vec<usize>,
    /// Aggregates. Their `args` are columns of the aggregate's own input, before any local phase.
    pub aggregates: Vec<AggregateCall>,
    /// True if the input has rows other than `+I`.
    pub updating_input: bool,
}

/// Where a row's window comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowInput {
    /// From its event time.
    TimeColumn(usize),
    /// The row already carries its window's bounds (the output of a window TVF or aggregate).
    Attached {
        /// `window_start` column.
        start: usize,
        /// `window_end` column.
        end: usize,
    },
}

/// `GROUP BY` without a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupAggregateSpec {
    /// Key columns; empty for a global aggregate.
    pub keys: Vec<usize>,
    /// Aggregates over the input; none for `SELECT DISTINCT`.
    pub aggregates: Vec<AggregateCall>,
    /// True if the input has rows other than `+I`.
    pub updating_input: bool,
    /// Whether to emit `-U` before `+U`.
    pub emit_update_before: bool,
}

/// `CROSS JOIN UNNEST(...)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnnestSpec {
    /// The collection, over the input.
    pub collection: Expr,
    /// Adds the element's position, from 1, as the last column.
    pub with_ordinality: bool,
    /// Keeps rows with no element, padded with NULL (`LEFT JOIN ... ON TRUE`).
    pub outer: bool,
}

/// Which rows a join gives that have no partner, padded with NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinKind {
    /// None.
    Inner,
    /// Those of the left side.
    Left,
    /// Those of the right side.
    Right,
    /// Those of both sides.
    Full,
}

impl JoinKind {
    /// Whether rows of the left side without a partner are kept.
    pub fn keeps_left(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full)
    }

    /// Whether rows of the right side without a partner are kept.
    pub fn keeps_right(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }

    /// The name in plans: `InnerJoin`, `LeftOuterJoin`, ...
    pub fn name(self) -> &'static str {
        match self {
            JoinKind::Inner => "InnerJoin",
            JoinKind::Left => "LeftOuterJoin",
            JoinKind::Right => "RightOuterJoin",
            JoinKind::Full => "FullOuterJoin",
        }
    }
}

/// When two rows belong together, time aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinSpec {
    /// Which rows without a partner are kept.
    pub kind: JoinKind,
    /// Key columns of the left input. Rows of one key are partners; both inputs are spread by their keys.
    pub left_keys: Vec<usize>,
    /// Key columns of the right input, in the same order and of the same types.
    pub right_keys: Vec<usize>,
    /// For each key column whether NULL equals NULL (`IS NOT DISTINCT FROM`); else a row with NULL has no partner.
    pub null_safe: Vec<bool>,
    /// What else must be TRUE: over the left columns followed by the right ones.
    pub condition: Option<Expr>,
}

/// A join of rows whose times are close: `lower_ms <= left time - right time <= upper_ms`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalJoinSpec {
    /// Keys, kind and further condition.
    pub join: JoinSpec,
    /// Event-time column of the left input.
    pub left_time: usize,
    /// Event-time column of the right input.
    pub right_time: usize,
    /// The least that the left time minus the right time may be, in milliseconds.
    pub lower_ms: i64,
    /// The most that it may be. If it is less than `lower_ms`, no row has a partner.
    pub upper_ms: i64,
    /// What it joins, in words that stay the same while its state means the same. State of another meaning is
    /// never taken for its own.
    pub meaning: String,
}

/// A join of rows in the same window: each waits until its window closes, and is late after that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowJoinSpec {
    /// Kind, further condition, and keys: the window's bounds are among them.
    pub join: JoinSpec,
    /// The windows of both inputs.
    pub window: WindowSpec,
    /// `window_time` of the left input.
    pub left_time: usize,
    /// `window_time` of the right input.
    pub right_time: usize,
    /// Which of the keys is `window_start`.
    pub start_key: usize,
    /// Which of the keys is `window_end`.
    pub end_key: usize,
    /// As of an interval join.
    pub meaning: String,
}

/// Writes a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SinkSpec {
    /// The table; its physical and persisted metadata columns are the input, in order.
    pub table: TableDescriptor,
    /// `table.exec.sink.not-null-enforcer` = `DROP`: rows with NULL in a NOT NULL column are dropped
    /// and counted; else they fail the job.
    pub drop_nulls: bool,
    /// Input column that is the rowtime, if the query has one (Kafka record timestamps).
    pub rowtime: Option<usize>,
}
