//! `VALUES`: constants if they fold, else rows computed when the job runs.

use tidegate_api::error::Result;
use tidegate_api::expr::Expr;
use tidegate_api::types::LogicalType;
use tidegate_api::value::Value;

use super::Env;
use crate::ast;
use crate::functions;
use crate::plan::Planner;
use crate::plan::error::invalid_at;
use crate::plan::expr::{Clause, ExprBinder};
use crate::plan::rel::{Column, Rel, RelKind};
use crate::plan::scope::Scope;

impl Planner<'_> {
    pub(super) fn bind_values(&self, values: &ast::Values, env: &Env) -> Result<Rel> {
        let scope = Scope::default();
        let binder = ExprBinder::new(&scope, self.zone(), &env.database, Clause::Other);
        let rows: Vec<Vec<Expr>> = values.rows.iter().map(|row| binder.bind_typed(row)).collect::<Result<_>>()?;
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != width) {
            return Err(invalid_at(values.span, "Values passed to VALUES operator must have compatible types"));
        }
        let mut columns = Vec::with_capacity(width);
        for i in 0..width {
            let types: Vec<LogicalType> = rows.iter().map(|row| row[i].ty.clone()).collect();
            let Some(ty) = functions::least_restrictive_type(&types) else {
                let message = "Values passed to VALUES operator must have compatible types";
                return Err(invalid_at(values.span, message));
            };
            columns.push(Column::new(format!("EXPR${i}"), ty));
        }
        let mut bound = Vec::with_capacity(rows.len());
        for row in rows {
            let mut out = Vec::with_capacity(width);
            for (expr, column) in row.into_iter().zip(&columns) {
                let expr = functions::cast(expr, &column.ty, false).map_err(|m| invalid_at(values.span, m))?;
                out.push(crate::plan::fold(expr, self.zone()));
            }
            bound.push(out);
        }
        Ok(constant_rows(bound, columns))
    }
}

/// Rows of expressions without inputs.
fn constant_rows(rows: Vec<Vec<Expr>>, columns: Vec<Column>) -> Rel {
    let constants: Option<Vec<Vec<Value>>> =
        rows.iter().map(|row| row.iter().map(|e| e.as_literal().cloned()).collect()).collect();
    if let Some(rows) = constants {
        return Rel { columns, kind: RelKind::Values(rows) };
    }
    let mut inputs: Vec<Rel> = rows
        .into_iter()
        .map(|row| Rel::one_row().calc(None, row.into_iter().zip(columns.iter().cloned()).collect()))
        .collect();
    if inputs.len() == 1 {
        return inputs.remove(0);
    }
    Rel { columns, kind: RelKind::Union(inputs) }
}
