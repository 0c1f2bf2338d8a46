//! Scalar functions: one place that knows a function's name, its type rule and its code.
//!
//! The binder asks [`resolve`] with bound arguments and gets a typed call, arguments cast to what
//! the function takes. The runtime asks the library to compile that call; a [`Kernel`] then runs
//! over whole columns. Operators are functions too: `+`, `=`, `AND`, `LIKE`, `IS NULL`, `ITEM`.
//!
//! A module of functions exports `pub static FUNCTIONS: &[ScalarFunction]` and is named in
//! `TABLES`; nothing else is needed to make it callable.

// Type rules share one signature; some of them drop or add arguments, most do not.
#![allow(clippy::ptr_arg)]

pub mod args;
pub mod arithmetic;
pub mod cast;
pub mod clock;
pub mod coerce;
pub mod collection;
pub mod collection_functions;
pub mod columns;
pub mod compare;
pub mod conditional;
pub mod datetime;
pub mod decimal;
pub mod eval;
pub mod fold;
pub mod hash;
pub mod interval;
pub mod json;
mod log10;
pub mod logic;
pub mod math;
pub mod math_round;
pub mod random;
pub mod regex;
pub mod string;
pub mod url;
pub mod value_array;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use arrow::array::ArrayRef;
use hashbrown::HashMap;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::LogicalType;

use crate::plan::error::signature;

pub use coerce::{cast, common_type, implicit_cast, least_restrictive_type};
pub use fold::fold;

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
    /// Wrong number or types of arguments: the whole sentence, call and argument types included.
    BadArguments(String),
}

/// Every module's functions.
static TABLES: &[&[ScalarFunction]] = &[
    arithmetic::FUNCTIONS,
    clock::FUNCTIONS,
    collection::FUNCTIONS,
    collection_functions::FUNCTIONS,
    compare::FUNCTIONS,
    conditional::FUNCTIONS,
    datetime::FUNCTIONS,
    hash::FUNCTIONS,
    json::FUNCTIONS,
    logic::FUNCTIONS,
    math::DOUBLE_FUNCTIONS,
    math::FUNCTIONS,
    math_round::FUNCTIONS,
    random::FUNCTIONS,
    regex::FUNCTIONS,
    string::FUNCTIONS,
    url::FUNCTIONS,
];

static REGISTRY: LazyLock<HashMap<&'static str, &'static ScalarFunction>> =
    LazyLock::new(|| TABLES.iter().flat_map(|table| table.iter()).map(|f| (f.name, f)).collect());

/// The function called `name`, in any case.
pub fn lookup(name: &str) -> Option<&'static ScalarFunction> {
    REGISTRY.get(name).or_else(|| REGISTRY.get(name.to_uppercase().as_str())).copied()
}

/// The upper-case names of all functions and operators, sorted.
pub fn function_names() -> Vec<&'static str> {
    let mut names: Vec<_> = REGISTRY.keys().copied().collect();
    names.sort_unstable();
    names
}

/// The typed call of `name` with `args`, which are cast to what the function takes.
pub fn resolve(name: &str, args: Vec<Expr>) -> Result<Expr, ResolveError> {
    let function = lookup(name).ok_or(ResolveError::UnknownFunction)?;
    let types: Vec<LogicalType> = args.iter().map(|a| a.ty.clone()).collect();
    let mut args = args;
    match (function.resolve)(&mut args) {
        Ok(ty) => Ok(Expr::call(function.name, args, ty)),
        Err(why) => {
            let name = if function.name == "NEGATE" { "-" } else { function.name };
            let form = signature(name, &types);
            let why = if why.is_empty() { String::new() } else { format!(" {why}") };
            Err(ResolveError::BadArguments(format!("Cannot apply '{name}' to arguments of type '{form}'.{why}")))
        }
    }
}
