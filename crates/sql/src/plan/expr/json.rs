//! JSON functions: their clauses become arguments.

use tidegate_api::error::Result;
use tidegate_api::expr::Expr;
use tidegate_api::value::Value;

use super::{ExprBinder, null_literal, text_literal};
use crate::ast::{JsonCall, JsonExistsOnError, JsonOnNull, JsonQueryBehavior, JsonValueBehavior, JsonWrapper, Span};
use crate::plan::error::unsupported_at;
use crate::plan::types::logical_type;

impl ExprBinder<'_> {
    /// A JSON call.
    pub(super) fn json(&self, call: &JsonCall, span: Span) -> Result<Expr> {
        match call {
            JsonCall::Exists { input, path, on_error } => {
                let on_error = match on_error {
                    Some(JsonExistsOnError::True) => "TRUE",
                    None | Some(JsonExistsOnError::False) => "FALSE",
                    Some(JsonExistsOnError::Unknown) => "UNKNOWN",
                    Some(JsonExistsOnError::Error) => "ERROR",
                };
                let args = vec![self.bind(input)?, self.bind(path)?, text_literal(on_error)];
                self.call("JSON_EXISTS", args, span)
            }
            JsonCall::Value { input, path, returning, on_empty, on_error } => {
                let returning = match returning {
                    Some(ty) => text_literal(&logical_type(ty)?.with_nullable(true).to_string()),
                    None => null_literal(),
                };
                let mut args = vec![self.bind(input)?, self.bind(path)?, returning];
                for behaviour in [on_empty, on_error] {
                    let (name, default) = self.json_value_behaviour(behaviour.as_ref())?;
                    args.push(text_literal(name));
                    args.push(default);
                }
                self.call("JSON_VALUE", args, span)
            }
            JsonCall::Query { input, path, returning, wrapper, on_empty, on_error } => {
                let returning = returning.as_ref().map(logical_type).transpose()?;
                let wrapper = match wrapper {
                    None | Some(JsonWrapper::Without) => "WITHOUT",
                    Some(JsonWrapper::WithConditional) => "CONDITIONAL",
                    Some(JsonWrapper::WithUnconditional) => "UNCONDITIONAL",
                };
                let behaviours = [on_empty, on_error].map(|b| text_literal(json_query_behaviour(*b)));
                let mut args = vec![self.bind(input)?, self.bind(path)?, text_literal(wrapper)];
                args.extend(behaviours);
                args.extend(returning.map(|ty| text_literal(&ty.with_nullable(true).to_string())));
                self.call("JSON_QUERY", args, span)
            }
            JsonCall::Object { entries, on_null } => {
                let mut args = vec![text_literal(null_clause(*on_null, JsonOnNull::Null))];
                for (k, v) in entries {
                    args.push(self.bind(k)?);
                    args.push(self.bind(v)?);
                }
                self.call("JSON_OBJECT", args, span)
            }
            JsonCall::Array { items, on_null } => {
                let mut args = vec![text_literal(null_clause(*on_null, JsonOnNull::Absent))];
                args.extend(self.bind_all(items)?);
                self.call("JSON_ARRAY", args, span)
            }
            JsonCall::ObjectAgg { key, value, on_null, filter } => {
                let clause = null_clause(*on_null, JsonOnNull::Null);
                let args = [key, value];
                self.json_aggregate("JSON_OBJECTAGG", &args, clause, filter.as_ref(), span)
            }
            JsonCall::ArrayAgg { value, order_by, on_null, filter } => {
                if let Some(first) = order_by.first() {
                    return Err(unsupported_at(first.expr.span, "ORDER BY in JSON_ARRAYAGG"));
                }
                let clause = null_clause(*on_null, JsonOnNull::Absent);
                self.json_aggregate("JSON_ARRAYAGG", &[value], clause, filter.as_ref(), span)
            }
        }
    }

    fn json_value_behaviour(&self, behaviour: Option<&JsonValueBehavior>) -> Result<(&'static str, Expr)> {
        Ok(match behaviour {
            None | Some(JsonValueBehavior::Null) => ("NULL", null_literal()),
            Some(JsonValueBehavior::Error) => ("ERROR", null_literal()),
            Some(JsonValueBehavior::Default(e)) => ("DEFAULT", self.bind(e)?),
        })
    }

    fn json_aggregate(
        &self,
        name: &str,
        args: &[&crate::ast::Expr],
        clause: &str,
        filter: Option<&crate::ast::Expr>,
        span: Span,
    ) -> Result<Expr> {
        let params = vec![Value::String(clause.into())];
        self.collect_aggregate(name, args, params, false, filter, span)
    }
}

fn json_query_behaviour(behaviour: Option<JsonQueryBehavior>) -> &'static str {
    match behaviour {
        None | Some(JsonQueryBehavior::Null) => "NULL",
        Some(JsonQueryBehavior::Error) => "ERROR",
        Some(JsonQueryBehavior::EmptyArray) => "EMPTY ARRAY",
        Some(JsonQueryBehavior::EmptyObject) => "EMPTY OBJECT",
    }
}

/// How NULL values are written: `NULL` or `ABSENT`.
fn null_clause(written: Option<JsonOnNull>, default: JsonOnNull) -> &'static str {
    match written.unwrap_or(default) {
        JsonOnNull::Null => "NULL",
        JsonOnNull::Absent => "ABSENT",
    }
}
