//! The logical plan: what a query means, before it becomes operators.
//!
//! A [`Rel`] is a tree of relational operators over numbered columns. Every column knows whether it
//! is still a time attribute, since that is what decides which windows and sinks may use it. The
//! tree is bound (names are gone, types are Flink's) and carries no physical choice: phases,
//! exchanges and parallelism are made when it is lowered.

use std::rc::Rc;

use tidegate_api::expr::{AggregateCall, Expr, ExprNode};
use tidegate_api::graph::{JoinKind, UnnestSpec, WindowInput};
use tidegate_api::types::{Field, LogicalType, Schema, TypeKind};
use tidegate_api::value::Value;
use tidegate_window::WindowSpec;

use super::scope::uniquify;
use super::table::ResolvedTable;
use crate::ast::Span;

/// What time a column tells, if the engine tracks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimeAttribute {
    /// Plain data.
    #[default]
    None,
    /// Event time: watermarks speak about this column.
    Rowtime,
    /// Processing time.
    Proctime,
    /// Was the rowtime of the rows under a window table function, whose `window_time` has taken its
    /// place. Only `CURRENT_WATERMARK` still accepts it, as in Flink.
    Former,
}

/// A column of a [`Rel`].
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name, for results and messages.
    pub name: String,
    /// Type.
    pub ty: LogicalType,
    /// Whether it is a time attribute.
    pub time: TimeAttribute,
}

impl Column {
    /// A column that is no time attribute.
    pub fn new(name: impl Into<String>, ty: LogicalType) -> Self {
        Column { name: name.into(), ty, time: TimeAttribute::None }
    }

    /// A column with a time attribute.
    pub fn timed(name: impl Into<String>, ty: LogicalType, time: TimeAttribute) -> Self {
        Column { name: name.into(), ty, time }
    }
}

/// A relational expression and its columns.
#[derive(Clone, Debug)]
pub struct Rel {
    /// The columns it gives.
    pub columns: Vec<Column>,
    /// What it does.
    pub kind: RelKind,
}

/// The operators of the logical plan.
#[derive(Clone, Debug)]
pub enum RelKind {
    /// All columns of a table, in declared order.
    Scan(Rc<ResolvedTable>),
    /// Constant rows.
    Values(Vec<Vec<Value>>),
    /// Filter, then projection.
    Calc {
        /// Input.
        input: Box<Rel>,
        /// Condition.
        filter: Option<Expr>,
        /// One expression per output column.
        projection: Vec<Expr>,
    },
    /// All rows of all inputs.
    Union(Vec<Rel>),
    /// Rows with their windows; adds `window_start`, `window_end`, `window_time`.
    WindowTvf {
        /// Input.
        input: Box<Rel>,
        /// The window.
        window: WindowSpec,
        /// Event-time column.
        time_column: usize,
        /// `PARTITION BY` of a session.
        keys: Vec<usize>,
    },
    /// Aggregates per window and key. Columns: keys, results, start, end, time.
    WindowAggregate(WindowAggregate),
    /// Aggregates per key, updated for ever. Columns: keys, results.
    GroupAggregate {
        /// Input.
        input: Box<Rel>,
        /// Key columns.
        keys: Vec<usize>,
        /// Aggregates.
        aggregates: Vec<AggregateCall>,
    },
    /// Each row once per list of projections.
    Expand {
        /// Input.
        input: Box<Rel>,
        /// Lists of output columns.
        projections: Vec<Vec<Expr>>,
    },
    /// Each row once per element; adds the element's columns.
    Unnest {
        /// Input.
        input: Box<Rel>,
        /// The collection and the join's kind.
        spec: UnnestSpec,
    },
    /// Two inputs side by side, before it is decided which join that is.
    Join(Join),
    /// Rows of two inputs whose times are close. Columns: left, right.
    IntervalJoin(IntervalJoin),
}

/// A join as it was written.
#[derive(Clone, Debug)]
pub struct Join {
    /// Left input.
    pub left: Box<Rel>,
    /// Right input.
    pub right: Box<Rel>,
    /// Which rows without a partner are kept.
    pub kind: JoinKind,
    /// `ON`, over the left columns followed by the right ones.
    pub condition: Option<Expr>,
    /// Where the right side is written.
    pub span: Span,
}

/// Columns of both inputs that must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Of the left input.
    pub left: usize,
    /// Of the right input.
    pub right: usize,
    /// Whether NULL equals NULL.
    pub null_safe: bool,
}

/// A join of rows whose times are close, or of rows in the same window, whose times are equal.
#[derive(Clone, Debug)]
pub struct IntervalJoin {
    /// Left input.
    pub left: Box<Rel>,
    /// Right input.
    pub right: Box<Rel>,
    /// Which rows without a partner are kept.
    pub kind: JoinKind,
    /// Columns that must be equal.
    pub keys: Vec<Key>,
    /// Row time of the left input.
    pub left_time: usize,
    /// Row time of the right input.
    pub right_time: usize,
    /// The least that left time minus right time may be, in milliseconds.
    pub lower_ms: i64,
    /// The most that it may be.
    pub upper_ms: i64,
    /// The conditions that say so, over the left columns followed by the right ones.
    pub within: Vec<Expr>,
    /// What else must hold.
    pub residual: Option<Expr>,
    /// If rows of the same window are joined, the window. The row times are then those of windows.
    pub window: Option<JoinedWindow>,
}

/// The window of a join of windows.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedWindow {
    /// That of both inputs.
    pub window: WindowSpec,
    /// Which of the keys is `window_start`.
    pub start_key: usize,
    /// Which of the keys is `window_end`.
    pub end_key: usize,
}

impl IntervalJoin {
    /// The join with the columns it gives.
    pub fn into_rel(self) -> Rel {
        Rel {
            columns: join_columns(&self.left.columns, &self.right.columns, self.kind),
            kind: RelKind::IntervalJoin(self),
        }
    }
}

/// The columns of a join: those that may be padded may be NULL, and each has a name of its own.
pub fn join_columns(left: &[Column], right: &[Column], kind: JoinKind) -> Vec<Column> {
    let padded = |column: &Column, padded: bool| Column {
        ty: column.ty.with_nullable(column.ty.nullable || padded),
        ..column.clone()
    };
    let left = left.iter().map(|column| padded(column, kind.keeps_right()));
    let right = right.iter().map(|column| padded(column, kind.keeps_left()));
    let mut columns: Vec<Column> = left.chain(right).collect();
    uniquify(&mut columns);
    columns
}

/// An aggregate over windows.
#[derive(Clone, Debug)]
pub struct WindowAggregate {
    /// Input.
    pub input: Box<Rel>,
    /// The window.
    pub window: WindowSpec,
    /// Where a row's window comes from.
    pub source: WindowInput,
    /// Key columns.
    pub keys: Vec<usize>,
    /// Aggregates.
    pub aggregates: Vec<AggregateCall>,
    /// True for `GROUP BY TUMBLE(...)` and its kin.
    pub legacy: bool,
}

impl Rel {
    /// The schema of its rows.
    pub fn schema(&self) -> Schema {
        schema_of(&self.columns)
    }

    /// Column `i` as an expression.
    pub fn input_expr(&self, i: usize) -> Expr {
        Expr::input(i, self.columns[i].ty.clone())
    }

    /// All columns, as expressions.
    pub fn identity(&self) -> Vec<Expr> {
        (0..self.columns.len()).map(|i| self.input_expr(i)).collect()
    }

    /// The operators below this one.
    pub fn inputs(&self) -> Vec<&Rel> {
        match &self.kind {
            RelKind::Scan(_) | RelKind::Values(_) => Vec::new(),
            RelKind::Calc { input, .. }
            | RelKind::WindowTvf { input, .. }
            | RelKind::GroupAggregate { input, .. }
            | RelKind::Expand { input, .. }
            | RelKind::Unnest { input, .. } => vec![input],
            RelKind::WindowAggregate(agg) => vec![&agg.input],
            RelKind::Join(Join { left, right, .. }) | RelKind::IntervalJoin(IntervalJoin { left, right, .. }) => {
                vec![left, right]
            }
            RelKind::Union(inputs) => inputs.iter().collect(),
        }
    }

    /// The same tree with each direct input passed through `f`.
    pub fn map_inputs(mut self, f: &mut dyn FnMut(Rel) -> Rel) -> Rel {
        let take = |slot: &mut Box<Rel>, f: &mut dyn FnMut(Rel) -> Rel| {
            let rel = std::mem::replace(slot.as_mut(), Rel::empty());
            **slot = f(rel);
        };
        match &mut self.kind {
            RelKind::Scan(_) | RelKind::Values(_) => {}
            RelKind::Calc { input, .. }
            | RelKind::WindowTvf { input, .. }
            | RelKind::GroupAggregate { input, .. }
            | RelKind::Expand { input, .. }
            | RelKind::Unnest { input, .. } => take(input, f),
            RelKind::WindowAggregate(agg) => take(&mut agg.input, f),
            RelKind::Join(Join { left, right, .. }) | RelKind::IntervalJoin(IntervalJoin { left, right, .. }) => {
                take(left, f);
                take(right, f);
            }
            RelKind::Union(inputs) => *inputs = std::mem::take(inputs).into_iter().map(f).collect(),
        }
        self
    }

    /// No rows, no columns.
    pub fn empty() -> Rel {
        Rel { columns: Vec::new(), kind: RelKind::Values(Vec::new()) }
    }

    /// One row with one column nobody reads: the input of a `SELECT` without `FROM`.
    pub fn one_row() -> Rel {
        let ty = LogicalType::not_null(TypeKind::Int);
        Rel { columns: vec![Column::new("ZERO", ty)], kind: RelKind::Values(vec![vec![Value::Int(0)]]) }
    }

    /// Filter and projection over this; columns named and timed as given.
    pub fn calc(self, filter: Option<Expr>, projection: Vec<(Expr, Column)>) -> Rel {
        let (projection, columns) = projection.into_iter().unzip();
        Rel { columns, kind: RelKind::Calc { input: Box::new(self), filter, projection } }
    }

    /// Rows of this where `filter` is TRUE.
    pub fn filtered(self, filter: Expr) -> Rel {
        let projection = self.identity();
        let columns = self.columns.clone();
        Rel { columns, kind: RelKind::Calc { input: Box::new(self), filter: Some(filter), projection } }
    }

    /// These columns of this, in this order.
    pub fn select(self, indices: &[usize]) -> Rel {
        let projection = indices.iter().map(|&i| (self.input_expr(i), self.columns[i].clone())).collect();
        self.calc(None, projection)
    }

    /// True if rows may be other than `+I`.
    pub fn is_updating(&self) -> bool {
        match &self.kind {
            RelKind::Scan(table) => table.updating.get(),
            RelKind::Values(_) => false,
            RelKind::GroupAggregate { input, aggregates, .. } => !aggregates.is_empty() || input.is_updating(),
            // A window fires once, with whatever is left after all changes.
            RelKind::WindowAggregate(_) => false,
            // It takes none.
            RelKind::IntervalJoin(_) => false,
            _ => self.inputs().iter().any(|r| r.is_updating()),
        }
    }
}

/// The schema of some columns.
pub fn schema_of(columns: &[Column]) -> Schema {
    Schema::new(columns.iter().map(|c| Field::new(&c.name, c.ty.clone())).collect())
}

/// Calls `f` with every input column that `expr` reads.
pub fn visit_inputs(expr: &Expr, f: &mut dyn FnMut(usize)) {
    expr.visit(&mut |e| {
        if let ExprNode::Input(i) = e.node {
            f(i);
        }
    });
}

/// The column, if the expression is nothing but an input column.
pub fn bare_input(expr: &Expr) -> Option<usize> {
    match expr.node {
        ExprNode::Input(i) => Some(i),
        _ => None,
    }
}

/// Replaces every input column by an expression.
pub fn substitute(expr: &mut Expr, by: &[Expr]) {
    if let ExprNode::Input(i) = expr.node {
        *expr = by[i].clone();
        return;
    }
    for child in expr.children_mut() {
        substitute(child, by);
    }
}

/// True if two evaluations of the same expression may differ.
pub fn is_nondeterministic(expr: &Expr) -> bool {
    const VOLATILE: [&str; 5] = ["RAND", "RAND_INTEGER", "UUID", "CURRENT_ROW_TIMESTAMP", "PROCTIME"];
    let mut found = false;
    expr.visit(&mut |e| {
        if let ExprNode::Call { function, .. } = &e.node {
            found |= VOLATILE.contains(&function.as_str());
        }
    });
    found
}
