//! Compiled expressions: a tree of nodes, each of which turns a batch into one column.
//!
//! Invariant: an error fires only on a row that truly needs the value. So whatever Flink evaluates
//! lazily (`CASE`, `COALESCE`, `IF`, the right side of `AND` and `OR`) runs over the rows that take
//! it alone: the batch is filtered, evaluated, and the results are put back in their places. Where
//! the part cannot fail the detour is skipped.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StructArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::boolean::{and_kleene, not, or_kleene};
use arrow::compute::{filter_record_batch, interleave, prep_null_mask_filter};
use tidegate_api::error::Error;
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::function::{EvalContext, Evaluator, RowError};
use tidegate_api::types::{LogicalType, Schema, TypeKind};
use tidegate_api::value::Value;

use super::cast::{self, Cast};
use super::columns::{arrow_failure, booleans, typed};
use super::fold::fold;
use super::value_array::array_from_values;
use super::{CallInfo, Kernel, lookup};

/// Compiles `expr` over batches of `input`, constants folded.
pub fn compile(expr: &Expr, input: &Schema, zone: &str) -> Result<Box<dyn Evaluator>, Error> {
    compile_unfolded(&fold(expr.clone(), zone), input, zone)
}

/// Compiles `expr` as it stands.
pub(super) fn compile_unfolded(expr: &Expr, input: &Schema, zone: &str) -> Result<Box<dyn Evaluator>, Error> {
    Ok(Box::new(build(expr, input, zone).map_err(Error::unsupported)?))
}

/// One compiled part of an expression.
enum Node {
    Column(usize),
    Constant(Constant),
    Call { kernel: Box<dyn Kernel>, args: Vec<Node> },
    Cast { input: Box<Node>, cast: Cast },
    Field { input: Box<Node>, index: usize },
    Logic { and: bool, args: Vec<Part> },
    Choice(Choice),
    Coalesce { args: Vec<Part>, ty: LogicalType },
}

/// A node that may be evaluated on some of the rows only.
struct Part {
    node: Node,
    /// Cannot fail and costs little: it may as well run on all rows.
    harmless: bool,
}

/// `CASE` and `IF`.
struct Choice {
    branches: Vec<(Part, Part)>,
    otherwise: Box<Part>,
    ty: LogicalType,
}

/// A literal and the longest column made of it so far.
struct Constant {
    value: Value,
    ty: LogicalType,
    column: Option<ArrayRef>,
}

impl Constant {
    fn column(&mut self, rows: usize) -> ArrayRef {
        match &self.column {
            Some(column) if column.len() == rows => column.clone(),
            Some(column) if column.len() > rows => column.slice(0, rows),
            _ => {
                let column = array_from_values(std::iter::repeat_n(&self.value, rows), &self.ty);
                self.column = Some(column.clone());
                column
            }
        }
    }
}

fn build(expr: &Expr, input: &Schema, zone: &str) -> Result<Node, String> {
    Ok(match &expr.node {
        ExprNode::Input(i) if *i < input.len() => Node::Column(*i),
        ExprNode::Input(i) => return Err(format!("internal error: the input has no column {i}")),
        ExprNode::Literal(value) => {
            Node::Constant(Constant { value: value.clone(), ty: expr.ty.clone(), column: None })
        }
        ExprNode::Cast { input: inner, lenient } => {
            let cast = cast::kernel(&inner.ty, &expr.ty, *lenient, zone)?;
            Node::Cast { input: Box::new(build(inner, input, zone)?), cast }
        }
        ExprNode::Field { input: inner, index } => {
            Node::Field { input: Box::new(build(inner, input, zone)?), index: *index }
        }
        ExprNode::Case { branches, otherwise } => {
            let null = Expr::literal(Value::Null, expr.ty.with_nullable(true));
            let otherwise = Box::new(part(otherwise.as_deref().unwrap_or(&null), input, zone)?);
            let branches: Result<Vec<_>, String> =
                branches.iter().map(|(c, v)| Ok((part(c, input, zone)?, part(v, input, zone)?))).collect();
            Node::Choice(Choice { branches: branches?, otherwise, ty: expr.ty.clone() })
        }
        ExprNode::Call { function, args } => call(expr, function, args, input, zone)?,
    })
}

fn part(expr: &Expr, input: &Schema, zone: &str) -> Result<Part, String> {
    Ok(Part { node: build(expr, input, zone)?, harmless: harmless(expr) })
}

fn call(expr: &Expr, function: &str, args: &[Expr], input: &Schema, zone: &str) -> Result<Node, String> {
    let parts = || args.iter().map(|a| part(a, input, zone)).collect::<Result<Vec<_>, _>>();
    match (function, args) {
        ("AND", _) => return Ok(Node::Logic { and: true, args: parts()? }),
        ("OR", _) => return Ok(Node::Logic { and: false, args: parts()? }),
        ("COALESCE" | "IFNULL", _) => return Ok(Node::Coalesce { args: parts()?, ty: expr.ty.clone() }),
        ("IF", [condition, yes, no]) => {
            let branches = vec![(part(condition, input, zone)?, part(yes, input, zone)?)];
            let otherwise = Box::new(part(no, input, zone)?);
            return Ok(Node::Choice(Choice { branches, otherwise, ty: expr.ty.clone() }));
        }
        _ => {}
    }
    let found = lookup(function).ok_or_else(|| format!("Function not found: {function}"))?;
    let kernel = (found.kernel)(&CallInfo { args, ty: &expr.ty, zone })?;
    let args = args.iter().map(|a| build(a, input, zone)).collect::<Result<Vec<_>, _>>()?;
    Ok(Node::Call { kernel, args })
}

/// Calls that give a value for every input, cheaply.
const HARMLESS: &[&str] = &[
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS NULL",
    "IS NOT NULL",
    "IS TRUE",
    "IS NOT TRUE",
    "IS FALSE",
    "IS NOT FALSE",
    "IS UNKNOWN",
    "IS NOT UNKNOWN",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "+",
    "-",
    "*",
    "NEGATE",
];

fn harmless(expr: &Expr) -> bool {
    match &expr.node {
        ExprNode::Input(_) | ExprNode::Literal(_) => true,
        ExprNode::Call { function, args } => {
            HARMLESS.contains(&function.as_str()) && args.len() < 8 && args.iter().all(harmless)
        }
        ExprNode::Cast { input, .. } => {
            !input.ty.is_string() && !matches!(expr.ty.kind, TypeKind::Row(_)) && harmless(input)
        }
        ExprNode::Field { input, .. } => harmless(input),
        ExprNode::Case { .. } => false,
    }
}

impl Evaluator for Node {
    fn evaluate(&mut self, batch: &RecordBatch, ctx: &EvalContext) -> Result<ArrayRef, RowError> {
        let rows = batch.num_rows();
        match self {
            Node::Column(i) => Ok(batch.column(*i).clone()),
            Node::Constant(constant) => Ok(constant.column(rows)),
            Node::Call { kernel, args } => {
                let args = args.iter_mut().map(|a| a.evaluate(batch, ctx)).collect::<Result<Vec<_>, _>>()?;
                kernel.eval(&args, rows, ctx)
            }
            Node::Cast { input, cast } => {
                let input = input.evaluate(batch, ctx)?;
                cast(&input)
            }
            Node::Field { input, index } => field(&input.evaluate(batch, ctx)?, *index),
            Node::Logic { and, args } => logic(*and, args, batch, ctx),
            Node::Choice(choice) => choice.evaluate(batch, ctx),
            Node::Coalesce { args, ty } => coalesce(args, ty, batch, ctx),
        }
    }
}

/// Field `index` of each row; NULL where the row itself is.
pub(super) fn field(rows: &ArrayRef, index: usize) -> Result<ArrayRef, RowError> {
    let row: &StructArray = typed(rows)?;
    let column = row.columns().get(index).ok_or_else(|| RowError::new(0, format!("a row has no field {index}")))?;
    let Some(valid) = row.nulls() else { return Ok(column.clone()) };
    let missing = BooleanArray::new(!valid.inner(), None);
    arrow::compute::nullif(column, &missing).map_err(arrow_failure)
}

/// `AND` or `OR` of many: a part that may fail sees only rows not yet decided.
fn logic(and: bool, args: &mut [Part], batch: &RecordBatch, ctx: &EvalContext) -> Result<ArrayRef, RowError> {
    let mut so_far: Option<BooleanArray> = None;
    for arg in args {
        let Some(left) = so_far else {
            so_far = Some(booleans(&arg.node.evaluate(batch, ctx)?)?.clone());
            continue;
        };
        // A row is decided once AND has met FALSE, or OR TRUE.
        let decided = if and { not(&left).map_err(arrow_failure)? } else { left.clone() };
        let open = not(&certain(&decided)).map_err(arrow_failure)?;
        let right = if arg.harmless {
            arg.node.evaluate(batch, ctx)?
        } else {
            arg.on(&open, &LogicalType::new(TypeKind::Boolean), batch, ctx)?
        };
        let right = booleans(&right)?;
        let both = if and { and_kleene(&left, right) } else { or_kleene(&left, right) };
        so_far = Some(both.map_err(arrow_failure)?);
    }
    let all = so_far.unwrap_or_else(|| BooleanArray::from(vec![and; batch.num_rows()]));
    Ok(std::sync::Arc::new(all))
}

/// TRUE where `mask` is TRUE, else FALSE, never NULL.
fn certain(mask: &BooleanArray) -> BooleanArray {
    if mask.null_count() == 0 { mask.clone() } else { prep_null_mask_filter(mask) }
}

impl Part {
    /// The part's value on the rows of `mask`, NULL elsewhere.
    fn on(
        &mut self,
        mask: &BooleanArray,
        ty: &LogicalType,
        batch: &RecordBatch,
        ctx: &EvalContext,
    ) -> Result<ArrayRef, RowError> {
        let mut pieces = Pieces::new(batch.num_rows(), ty);
        pieces.take(self, mask, batch, ctx)?;
        pieces.finish()
    }
}

/// A column put together from parts, each for some of the rows.
struct Pieces {
    /// The first is one NULL, for rows nobody claims.
    arrays: Vec<ArrayRef>,
    /// For each row, which array and where in it.
    places: Vec<(usize, usize)>,
}

impl Pieces {
    fn new(rows: usize, ty: &LogicalType) -> Pieces {
        Pieces { arrays: vec![arrow::array::new_null_array(&ty.to_arrow(), 1)], places: vec![(0, 0); rows] }
    }

    /// Evaluates `part` on the rows where `mask` is TRUE and claims them.
    fn take(
        &mut self,
        part: &mut Part,
        mask: &BooleanArray,
        batch: &RecordBatch,
        ctx: &EvalContext,
    ) -> Result<(), RowError> {
        let count = mask.true_count();
        if count == 0 {
            return Ok(());
        }
        let whole = count == batch.num_rows() || part.harmless;
        let number = self.arrays.len();
        let rows = mask.values().set_indices();
        if whole {
            self.arrays.push(part.node.evaluate(batch, ctx)?);
            rows.for_each(|row| self.places[row] = (number, row));
        } else {
            let some = filter_record_batch(batch, mask).map_err(arrow_failure)?;
            let values = part.node.evaluate(&some, ctx).map_err(|e| original(e, mask))?;
            self.arrays.push(values);
            rows.enumerate().for_each(|(i, row)| self.places[row] = (number, i));
        }
        Ok(())
    }

    fn finish(self) -> Result<ArrayRef, RowError> {
        // One part that claimed every row needs no copy.
        if self.arrays.len() == 2
            && self.arrays[1].len() == self.places.len()
            && self.places.iter().enumerate().all(|(row, place)| *place == (1, row))
        {
            return Ok(self.arrays[1].clone());
        }
        let arrays: Vec<&dyn Array> = self.arrays.iter().map(|a| a.as_ref()).collect();
        interleave(&arrays, &self.places).map_err(arrow_failure)
    }
}

/// An error of a filtered batch, told by the row of the whole one.
fn original(e: RowError, mask: &BooleanArray) -> RowError {
    let row = mask.values().set_indices().nth(e.row).unwrap_or(e.row);
    RowError::new(row, e.message)
}

impl Choice {
    fn evaluate(&mut self, batch: &RecordBatch, ctx: &EvalContext) -> Result<ArrayRef, RowError> {
        let rows = batch.num_rows();
        let mut pieces = Pieces::new(rows, &self.ty);
        let mut open = BooleanArray::new(BooleanBuffer::new_set(rows), None);
        let boolean = LogicalType::new(TypeKind::Boolean);
        for (condition, value) in &mut self.branches {
            if open.true_count() == 0 {
                break;
            }
            let met = condition.on(&open, &boolean, batch, ctx)?;
            let taken = certain(booleans(&met)?);
            let taken = BooleanArray::new(taken.values() & open.values(), None);
            pieces.take(value, &taken, batch, ctx)?;
            open = BooleanArray::new(open.values() & &!taken.values(), None);
        }
        pieces.take(&mut self.otherwise, &open, batch, ctx)?;
        pieces.finish()
    }
}

/// The first argument that is not NULL; later ones are not looked at where it is found.
fn coalesce(args: &mut [Part], ty: &LogicalType, batch: &RecordBatch, ctx: &EvalContext) -> Result<ArrayRef, RowError> {
    let rows = batch.num_rows();
    let mut pieces = Pieces::new(rows, ty);
    let mut open = BooleanArray::new(BooleanBuffer::new_set(rows), None);
    for arg in args {
        if open.true_count() == 0 {
            break;
        }
        let values = arg.on(&open, ty, batch, ctx)?;
        let Some(valid) = values.logical_nulls() else {
            pieces.claim(values, &open);
            break;
        };
        let found = BooleanArray::new(valid.inner() & open.values(), None);
        pieces.claim(values, &found);
        open = BooleanArray::new(open.values() & &!valid.inner(), None);
    }
    pieces.finish()
}

impl Pieces {
    /// Claims the rows of `mask` for values that stand in their places already.
    fn claim(&mut self, values: ArrayRef, mask: &BooleanArray) {
        let number = self.arrays.len();
        self.arrays.push(values);
        mask.values().set_indices().for_each(|row| self.places[row] = (number, row));
    }
}
