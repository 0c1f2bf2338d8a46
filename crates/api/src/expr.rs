//! Expressions as data: what a plan asks the function library to evaluate.

use serde::{Deserialize, Serialize};

use crate::types::LogicalType;
use crate::value::Value;

/// A typed expression over the columns of one input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// The type of the result.
    pub ty: LogicalType,
    /// How it is made.
    pub node: ExprNode,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExprNode {
    /// Column `i` of the input.
    Input(usize),
    /// A constant.
    Literal(Value),
    /// A function or operator by its registered name (`+`, `AND`, `UPPER`, `ITEM`, ...).
    Call {
        /// Upper-case name as the function library registers it.
        function: String,
        /// Arguments, already cast to what the function takes.
        args: Vec<Expr>,
    },
    /// `CAST` (a bad value fails the job) or `TRY_CAST` (a bad value is NULL) to the node's type.
    Cast {
        /// What is cast.
        input: Box<Expr>,
        /// True for `TRY_CAST`.
        lenient: bool,
    },
    /// `CASE WHEN c THEN v ... ELSE e END`; only the branch taken is evaluated for a row.
    Case {
        /// Condition and result pairs.
        branches: Vec<(Expr, Expr)>,
        /// `ELSE`; NULL if absent.
        otherwise: Option<Box<Expr>>,
    },
    /// Field `index` of a `ROW`.
    Field {
        /// The row.
        input: Box<Expr>,
        /// Position of the field.
        index: usize,
    },
}

impl Expr {
    /// Column `index` of the input.
    pub fn input(index: usize, ty: LogicalType) -> Expr {
        Expr { ty, node: ExprNode::Input(index) }
    }

    /// A constant.
    pub fn literal(value: Value, ty: LogicalType) -> Expr {
        Expr { ty, node: ExprNode::Literal(value) }
    }

    /// A call.
    pub fn call(function: impl Into<String>, args: Vec<Expr>, ty: LogicalType) -> Expr {
        Expr { ty, node: ExprNode::Call { function: function.into(), args } }
    }

    /// The constant, if this is one.
    pub fn as_literal(&self) -> Option<&Value> {
        match &self.node {
            ExprNode::Literal(v) => Some(v),
            _ => None,
        }
    }

    /// The direct parts of this expression.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.node {
            ExprNode::Input(_) | ExprNode::Literal(_) => Vec::new(),
            ExprNode::Call { args, .. } => args.iter().collect(),
            ExprNode::Cast { input, .. } | ExprNode::Field { input, .. } => vec![input],
            ExprNode::Case { branches, otherwise } => {
                branches.iter().flat_map(|(c, v)| [c, v]).chain(otherwise.as_deref()).collect()
            }
        }
    }

    /// The direct parts of this expression, to be changed in place.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.node {
            ExprNode::Input(_) | ExprNode::Literal(_) => Vec::new(),
            ExprNode::Call { args, .. } => args.iter_mut().collect(),
            ExprNode::Cast { input, .. } | ExprNode::Field { input, .. } => vec![input],
            ExprNode::Case { branches, otherwise } => {
                branches.iter_mut().flat_map(|(c, v)| [c, v]).chain(otherwise.as_deref_mut()).collect()
            }
        }
    }

    /// Calls `f` on this expression and everything below it.
    pub fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        for child in self.children() {
            child.visit(f);
        }
    }

    /// True if any part is a call of `function`.
    pub fn calls(&self, function: &str) -> bool {
        let mut found = false;
        self.visit(&mut |e| {
            found |= matches!(&e.node, ExprNode::Call { function: name, .. } if name == function);
        });
        found
    }

    /// Replaces each input column `i` by `to(i)`.
    pub fn map_inputs(&mut self, to: &dyn Fn(usize) -> usize) {
        if let ExprNode::Input(i) = &mut self.node {
            *i = to(*i);
        }
        for child in self.children_mut() {
            child.map_inputs(to);
        }
    }
}

/// An aggregate function call of a group or window aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AggregateCall {
    /// Upper-case registered name: `COUNT`, `SUM`, `AVG`, `MIN`, `MAX`, ...
    pub function: String,
    /// Input columns the arguments come from; empty for `COUNT(*)`.
    pub args: Vec<usize>,
    /// Types of those columns.
    pub arg_types: Vec<LogicalType>,
    /// Constant parameters after the arguments, such as the separator of `LISTAGG`.
    pub params: Vec<Value>,
    /// `DISTINCT`.
    pub distinct: bool,
    /// `FILTER (WHERE ...)`: a BOOLEAN input column; rows where it is not TRUE do not count.
    pub filter: Option<usize>,
    /// Result type.
    pub ty: LogicalType,
    /// Name of the result column.
    pub name: String,
    /// What it computes, in words that stay the same while it means the same: `SUM(DISTINCT price)`.
    /// State of another meaning is never taken for its own.
    #[serde(default)]
    pub meaning: String,
}
