//! Window table functions: `TUMBLE`, `HOP`, `CUMULATE`, `SESSION`, positional or with named
//! arguments.

use tidegate_api::error::{Error, Result};
use tidegate_api::expr::Expr;
use tidegate_window::{WindowKind, WindowSpec};

use super::Env;
use crate::ast::{self, ExprKind, FunctionArg, Ident, Span, TableArgument, TableArgumentInput, TableFunction};
use crate::plan::Planner;
use crate::plan::error::{calcite_type, invalid_at, unsupported_at};
use crate::plan::expr::{Clause, ExprBinder};
use crate::plan::rel::{Rel, RelKind, TimeAttribute, bare_input};
use crate::plan::scope::Scope;
use crate::plan::window::{check_multiples, interval_ms, positive, window_columns, window_zone};

/// The arguments of one window function, in positional order.
struct Signature {
    name: &'static str,
    /// Names for `=>`, after `DATA` and `TIMECOL`; a trailing `OFFSET` is optional.
    lengths: &'static [&'static str],
    offset: bool,
    /// As Flink shows it.
    text: &'static str,
}

const SIGNATURES: [Signature; 4] = [
    Signature {
        name: "TUMBLE",
        lengths: &["SIZE"],
        offset: true,
        text: "TUMBLE(TABLE table_name, DESCRIPTOR(timecol), datetime interval[, datetime interval])",
    },
    Signature {
        name: "HOP",
        lengths: &["SLIDE", "SIZE"],
        offset: true,
        text: "HOP(TABLE table_name, DESCRIPTOR(timecol), datetime interval, datetime interval[, datetime interval])",
    },
    Signature {
        name: "CUMULATE",
        lengths: &["STEP", "SIZE"],
        offset: true,
        text: "CUMULATE(TABLE table_name, DESCRIPTOR(timecol), datetime interval, datetime interval[, datetime interval])",
    },
    Signature {
        name: "SESSION",
        lengths: &["GAP"],
        offset: false,
        text: "SESSION(TABLE table_name [PARTITION BY (ts)], DESCRIPTOR(timecol), datetime interval)",
    },
];

/// Arguments by position; `None` where a named call left one out.
type Arguments<'a> = Vec<Option<&'a ast::Expr>>;

impl Planner<'_> {
    /// A call in `FROM`.
    pub(super) fn bind_table_function(&self, call: &TableFunction, env: &Env) -> Result<Rel> {
        let name = call.name.to_string().to_uppercase();
        let Some(signature) = SIGNATURES.iter().find(|s| s.name == name) else {
            return Err(match name.as_str() {
                "TO_CHANGELOG" | "FROM_CHANGELOG" | "ML_PREDICT" | "ML_EVALUATE" | "VECTOR_SEARCH" => {
                    unsupported_at(call.span, format!("Table function {name}"))
                }
                _ => invalid_at(call.span, format!("No match found for function signature {}()", call.name)),
            });
        };
        let args = arrange(signature, call)?;
        let table = match args[0].map(|e| (&e.kind, e.span)) {
            Some((ExprKind::TableArgument(table), _)) => table,
            Some((_, span)) => {
                return Err(invalid_at(span, format!("The first argument of {name} must be TABLE name or (query)")));
            }
            None => return Err(count_error(signature, call.span)),
        };
        let input = self.bind_table_argument(table, env)?;
        let time_column = self.time_column(signature, args[1], &input, call.span)?;
        let keys = self.session_keys(signature, table, &input, env)?;
        let window = self.window_spec(signature, &args, &input, time_column, env, call.span)?;
        let mut columns = input.columns.clone();
        for column in &mut columns {
            if column.time == TimeAttribute::Rowtime {
                column.time = TimeAttribute::Former;
            }
        }
        columns.extend(window_columns(&window));
        Ok(Rel { columns, kind: RelKind::WindowTvf { input: Box::new(input), window, time_column, keys } })
    }

    fn bind_table_argument(&self, table: &TableArgument, env: &Env) -> Result<Rel> {
        if let Some(first) = table.order_by.first() {
            return Err(unsupported_at(first.expr.span, "ORDER BY of a table argument"));
        }
        match &table.input {
            TableArgumentInput::Table(name) => Ok(self.bind_table(name, &[], env)?.0),
            TableArgumentInput::Query(query) => self.bind_query(query, env),
        }
    }

    /// The column that `DESCRIPTOR(..)` names; it must be a rowtime.
    fn time_column(
        &self,
        signature: &Signature,
        argument: Option<&ast::Expr>,
        input: &Rel,
        span: Span,
    ) -> Result<usize> {
        let Some(argument) = argument else { return Err(count_error(signature, span)) };
        let column: &Ident = match &argument.kind {
            ExprKind::Descriptor(columns) if columns.len() == 1 => &columns[0],
            _ => {
                let name = signature.name;
                return Err(invalid_at(argument.span, format!("{name} needs a DESCRIPTOR with one column here")));
            }
        };
        let scope = Scope::of(Vec::new(), input.columns.clone());
        let i = scope.resolve(std::slice::from_ref(column))?.column;
        let found = &input.columns[i];
        if !found.ty.is_timestamp() {
            let ty = calcite_type(&found.ty);
            let message = format!(
                "The window function {} requires the timecol to be TIMESTAMP or TIMESTAMP_LTZ, but is {ty}.\n\
                 Besides, the timecol must be a time attribute type in streaming mode.",
                signature.text
            );
            return Err(invalid_at(column.span, message));
        }
        match found.time {
            TimeAttribute::Rowtime => Ok(i),
            TimeAttribute::Proctime => Err(unsupported_at(column.span, "A processing-time window")),
            TimeAttribute::None | TimeAttribute::Former => {
                let ty = found.ty.with_nullable(true);
                let message =
                    format!("The window function requires the timecol is a time attribute type, but is {ty}.");
                Err(invalid_at(column.span, message))
            }
        }
    }

    fn session_keys(&self, signature: &Signature, table: &TableArgument, input: &Rel, env: &Env) -> Result<Vec<usize>> {
        let scope = Scope::of(Vec::new(), input.columns.clone());
        let binder = ExprBinder::new(&scope, self.zone(), &env.database, Clause::Other);
        let mut keys = Vec::new();
        for e in &table.partition_by {
            if signature.name != "SESSION" {
                return Err(invalid_at(e.span, format!("PARTITION BY is not allowed in {}", signature.name)));
            }
            let parts = match &e.kind {
                ExprKind::Row { fields, .. } => fields.as_slice(),
                _ => std::slice::from_ref(e),
            };
            for part in parts {
                let Some(key) = bare_input(&binder.bind(part)?) else {
                    return Err(invalid_at(part.span, "PARTITION BY of SESSION takes columns only"));
                };
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        Ok(keys)
    }

    fn window_spec(
        &self,
        signature: &Signature,
        args: &Arguments<'_>,
        input: &Rel,
        time_column: usize,
        env: &Env,
        span: Span,
    ) -> Result<WindowSpec> {
        let name = signature.name;
        let scope = Scope::default();
        let binder = ExprBinder::new(&scope, self.zone(), &env.database, Clause::Other);
        let ms = |e: &ast::Expr| -> Result<i64> {
            let expr: Expr = crate::plan::fold(binder.bind(e)?, self.zone());
            interval_ms(&expr, name, e.span)
        };
        let length = |i: usize| -> Result<i64> {
            let Some(e) = args[2 + i] else { return Err(count_error(signature, span)) };
            positive(ms(e)?, &signature.lengths[i].to_lowercase(), name, e.span)
        };
        let kind = match name {
            "TUMBLE" => WindowKind::Tumble { size: length(0)? },
            "HOP" => WindowKind::Hop { slide: length(0)?, size: length(1)? },
            "CUMULATE" => WindowKind::Cumulate { step: length(0)?, size: length(1)? },
            _ => WindowKind::Session { gap: length(0)? },
        };
        let offset = match args.get(2 + signature.lengths.len()).copied().flatten() {
            Some(e) => bounded_offset(ms(e)?, kind, name, e.span)?,
            None => 0,
        };
        let zone = window_zone(&input.columns[time_column].ty, self.zone());
        let window = WindowSpec { kind, offset, zone };
        if matches!(kind, WindowKind::Cumulate { .. }) {
            // HOP is checked where it is aggregated: without slices any slide will do.
            check_multiples(&window, span)?;
        }
        Ok(window)
    }
}

/// An offset shifts windows by less than one of them.
fn bounded_offset(offset: i64, kind: WindowKind, name: &str, span: Span) -> Result<i64> {
    let (what, size) = match kind {
        WindowKind::Tumble { size } => ("size", size),
        WindowKind::Hop { slide, .. } => ("slide", slide),
        WindowKind::Cumulate { step, .. } => ("step", step),
        WindowKind::Session { gap } => ("gap", gap),
    };
    if offset.unsigned_abs() < size.unsigned_abs() {
        return Ok(offset);
    }
    let message = format!(
        "{name} table function parameters must satisfy abs(offset) < {what}, but got {what} {size} ms and offset \
         {offset} ms."
    );
    Err(invalid_at(span, message))
}

/// Puts named and positional arguments in one order. Names that Flink does not know it ignores; here
/// they are refused, for a typo must not change a result.
fn arrange<'a>(signature: &Signature, call: &'a TableFunction) -> Result<Arguments<'a>> {
    let most = 2 + signature.lengths.len() + usize::from(signature.offset);
    if call.args.iter().all(|a| a.name.is_none()) {
        if !(2 + signature.lengths.len()..=most).contains(&call.args.len()) {
            return Err(count_error(signature, call.span));
        }
        let mut out: Arguments<'a> = call.args.iter().map(|a| Some(&a.value)).collect();
        out.resize(most, None);
        return Ok(out);
    }
    let mut out: Arguments<'a> = vec![None; most];
    for arg in &call.args {
        let position = named_position(signature, arg)?;
        if out[position].replace(&arg.value).is_some() {
            return Err(invalid_at(arg.value.span, format!("An argument of {} is given twice", signature.name)));
        }
    }
    if out[..2 + signature.lengths.len()].iter().any(Option::is_none) {
        return Err(count_error(signature, call.span));
    }
    Ok(out)
}

fn named_position(signature: &Signature, arg: &FunctionArg) -> Result<usize> {
    let Some(name) = &arg.name else {
        let message = "Positional and named arguments cannot be mixed in a call";
        return Err(invalid_at(arg.value.span, message));
    };
    let upper = name.value.to_uppercase();
    let lengths = signature.lengths.len();
    match upper.as_str() {
        "DATA" => Ok(0),
        "TIMECOL" => Ok(1),
        "OFFSET" if signature.offset => Ok(2 + lengths),
        other => signature.lengths.iter().position(|l| *l == other).map(|i| i + 2).ok_or_else(|| {
            let known = signature.lengths.join(", ");
            let message = format!("{} has no argument '{name}'; it takes DATA, TIMECOL, {known}", signature.name);
            invalid_at(name.span, message)
        }),
    }
}

fn count_error(signature: &Signature, span: Span) -> Error {
    let wanted = 2 + signature.lengths.len();
    let name = signature.name;
    let message = format!("Invalid number of arguments to function '{name}'. Was expecting {wanted} arguments");
    invalid_at(span, message)
}
