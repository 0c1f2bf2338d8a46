//! Calls in the common form, and the functions the planner itself gives a meaning.

use tidegate_api::error::{Error, Result};
use tidegate_api::expr::Expr;
use tidegate_api::types::LogicalType;
use tidegate_api::value::Value;

use super::ExprBinder;
use crate::aggregates;
use crate::ast::{self, FrameBound, Over, Span};
use crate::plan::error::{invalid_at, refused_at, unsupported_at};
use crate::plan::rel::TimeAttribute;

impl ExprBinder<'_> {
    /// `name(args)`.
    pub(super) fn function(&self, call: &ast::FunctionCall, span: Span) -> Result<Expr> {
        let name = call.name.last().to_uppercase();
        if let Some(over) = &call.over {
            return Err(over_refusal(&name, over, span));
        }
        refuse_clauses(call, &name, span)?;
        if call.name.parts.len() > 1 {
            let args = self.call_args(call)?;
            let types: Vec<LogicalType> = args.into_iter().map(|a| a.ty).collect();
            let name = call.name.to_string();
            return Err(super::resolve_error(crate::functions::ResolveError::UnknownFunction, &name, &types, span));
        }
        match name.as_str() {
            "GROUPING" | "GROUPING_ID" => return self.grouping(call, span),
            "GROUP_ID" => return Err(unsupported_at(span, "GROUP_ID()")),
            "TUMBLE_START" | "TUMBLE_END" | "TUMBLE_ROWTIME" | "TUMBLE_PROCTIME" | "HOP_START" | "HOP_END"
            | "HOP_ROWTIME" | "HOP_PROCTIME" | "SESSION_START" | "SESSION_END" | "SESSION_ROWTIME"
            | "SESSION_PROCTIME" => return self.window_auxiliary(&name, call, span),
            "TUMBLE" | "HOP" | "SESSION" | "CUMULATE" => {
                let message = format!("Group function '${name}' can only appear in GROUP BY clause");
                return Err(invalid_at(span, message));
            }
            "CURRENT_WATERMARK" => return self.current_watermark(call, span),
            "SOURCE_WATERMARK" => return Err(unsupported_at(span, "SOURCE_WATERMARK()")),
            "CURRENT_DATABASE" => {
                let ty = LogicalType { nullable: false, ..LogicalType::string() };
                return Ok(Expr::literal(Value::String(self.database.into()), ty));
            }
            "ROW_NUMBER" | "RANK" | "DENSE_RANK" | "LAG" | "LEAD" | "NTILE" | "CUME_DIST" | "PERCENT_RANK" => {
                return Err(invalid_at(span, format!("OVER clause is necessary for window functions: {name}")));
            }
            _ => {}
        }
        if aggregates::is_aggregate(&name) {
            return self.aggregate(&name, call, span);
        }
        if call.filter.is_some() {
            return Err(invalid_at(span, "FILTER must not be applied to non-aggregate function"));
        }
        if call.quantifier.is_some() {
            let message = format!("DISTINCT/ALL not allowed with {name} function");
            return Err(invalid_at(span, message));
        }
        if call.star {
            return Err(invalid_at(span, format!("'*' is not an argument of function {name}")));
        }
        let types_null = matches!(name.as_str(), "COALESCE" | "IFNULL" | "NULLIF" | "GREATEST" | "LEAST" | "TYPEOF");
        if !types_null && !name.starts_with("ARRAY_") && !name.starts_with("MAP_") {
            call.args.iter().try_for_each(|a| super::refuse_null(&a.value))?;
        }
        let args = self.call_args(call)?;
        self.call(&name, args, span)
    }

    fn call_args(&self, call: &ast::FunctionCall) -> Result<Vec<Expr>> {
        call.args.iter().map(|a| self.bind(&a.value)).collect()
    }

    /// `CURRENT_WATERMARK(rowtime)`.
    fn current_watermark(&self, call: &ast::FunctionCall, span: Span) -> Result<Expr> {
        let [arg] = call.args.as_slice() else {
            let message = "Invalid number of arguments to function 'CURRENT_WATERMARK'. Was expecting 1 arguments";
            return Err(invalid_at(span, message));
        };
        let expr = self.bind(&arg.value)?;
        match self.time_attribute(&arg.value, &expr) {
            TimeAttribute::Rowtime | TimeAttribute::Former => {}
            _ => {
                let ty = &expr.ty;
                let message =
                    format!("The argument of CURRENT_WATERMARK() must be a rowtime attribute, but was '{ty}'.");
                return Err(invalid_at(span, message));
            }
        }
        self.call("CURRENT_WATERMARK", vec![expr], span)
    }
}

fn refuse_clauses(call: &ast::FunctionCall, name: &str, span: Span) -> Result<()> {
    if let Some(named) = call.args.iter().find(|a| a.name.is_some()) {
        return Err(unsupported_at(named.value.span, format!("A named argument of {name}")));
    }
    if let Some(first) = call.order_by.first().or(call.within_group.first()) {
        return Err(unsupported_at(first.expr.span, format!("ORDER BY inside {name}")));
    }
    if call.nulls.is_some() {
        return Err(unsupported_at(span, format!("IGNORE NULLS or RESPECT NULLS of {name}")));
    }
    if call.match_semantics.is_some() {
        return Err(unsupported_at(span, "RUNNING and FINAL outside of MATCH_RECOGNIZE"));
    }
    Ok(())
}

/// Flink's words for an OVER window it would refuse too, else a plain refusal.
fn over_refusal(name: &str, over: &Over, span: Span) -> Error {
    if matches!(name, "RANK" | "DENSE_RANK") {
        return refused_at(span, format!("{name}() on streaming table is not supported currently"));
    }
    if name == "ROW_NUMBER" {
        return unsupported_at(span, "ROW_NUMBER() OVER (...) (Top-N and deduplication)");
    }
    let following = |bound: &FrameBound| matches!(bound, FrameBound::Following(_) | FrameBound::UnboundedFollowing);
    if let Over::Spec(spec) = over {
        let follows = |f: &&ast::Frame| following(&f.start) || f.end.as_ref().is_some_and(following);
        if let Some(frame) = spec.frame.as_ref().filter(follows) {
            return refused_at(frame.span, "OVER RANGE FOLLOWING windows are not supported yet.");
        }
        if let Some(first) = spec.order_by.first().filter(|o| o.descending) {
            return refused_at(first.expr.span, "The window can only be ordered in ASCENDING mode.");
        }
    }
    unsupported_at(span, format!("{name}(...) OVER (...)"))
}
