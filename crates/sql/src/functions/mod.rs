//! Scalar functions: one place that knows a function's name, its type rule and its code.
//!
//! The binder asks [`resolve`] with bound arguments and gets a typed call, arguments cast to what
//! the function takes. The runtime asks the library to compile that call; a [`Kernel`] then runs
//! over whole columns. Operators are functions too: `+`, `=`, `AND`, `LIKE`, `IS NULL`, `ITEM`.

use arrow::array::ArrayRef;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::LogicalType;

/// The code of one call: argument columns in, result column out. Literal arguments arrive as
/// columns too; a kernel that wants their value (a pattern, a unit) takes it from [`CallInfo`].
pub trait Kernel: Send {
    /// The result for each of `rows` rows.
    fn eval(&mut self, args: &[ArrayRef], rows: usize, ctx: &EvalContext) -> Result<ArrayRef, RowError>;
}

impl<F> Kernel for F
where
    F: FnMut(&[ArrayRef], usize, &EvalContext) -> Result<ArrayRef, RowError> + Send,
{
    fn eval(&mut self, args: &[ArrayRef], rows: usize, ctx: &EvalContext) -> Result<ArrayRef, RowError> {
        self(args, rows, ctx)
    }
}

/// What a kernel is made from.
pub struct CallInfo<'a> {
    /// The call's arguments; literals are visible here.
    pub args: &'a [Expr],
    /// The result type.
    pub ty: &'a LogicalType,
    /// The session time zone: IANA name or offset.
    pub zone: &'a str,
}

/// A function as the registry holds it.
pub struct ScalarFunction {
    /// Upper-case name, unique.
    pub name: &'static str,
    /// Checks the arguments, casts them, and gives the result type. The text of an error is the part
    /// after "Cannot apply 'NAME' to arguments of type ...".
    pub resolve: fn(&mut Vec<Expr>) -> Result<LogicalType, String>,
    /// Makes the code.
    pub kernel: fn(&CallInfo<'_>) -> Result<Box<dyn Kernel>, String>,
}

/// Why a call could not be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// No function of that name.
    UnknownFunction,
    /// Wrong number or types of arguments; what is wrong with them.
    BadArguments(String),
}
