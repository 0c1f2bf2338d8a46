//! JSON functions: asking documents (`JSON_VALUE`, `JSON_QUERY`, `JSON_EXISTS`, `IS JSON`) and
//! writing them (`JSON_OBJECT`, `JSON_ARRAY`, `JSON_STRING`, quoting).

// Type rules share the signature of `ScalarFunction::resolve`: some insert arguments.
#![allow(clippy::ptr_arg)]

mod construct;
mod filter;
mod path;
mod query;
mod text;

#[cfg(test)]
mod tests;

use arrow::array::Array;
use tidegate_api::types::LogicalType;

pub(crate) use construct::{check as check_json, write_value as write_json};
pub(crate) use text::write_string as write_json_string;

use super::ScalarFunction;
use super::args::{count, expect_string, strict};
use super::columns::{strings, write_strings};
use super::string::{MadeKernel, kernel};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "JSON_VALUE", resolve: query::resolve_value, kernel: query::value_kernel },
    ScalarFunction { name: "JSON_QUERY", resolve: query::resolve_query, kernel: query::query_kernel },
    ScalarFunction { name: "JSON_EXISTS", resolve: query::resolve_exists, kernel: query::exists_kernel },
    ScalarFunction { name: "IS JSON", resolve: query::resolve_is_json, kernel: query::is_json_kernel },
    ScalarFunction { name: "JSON_OBJECT", resolve: construct::resolve_object, kernel: construct::object_kernel },
    ScalarFunction { name: "JSON_ARRAY", resolve: construct::resolve_array, kernel: construct::array_kernel },
    ScalarFunction { name: "JSON_STRING", resolve: construct::resolve_string, kernel: construct::string_kernel },
    ScalarFunction {
        name: "JSON_QUOTE",
        resolve: resolve_text,
        kernel: |_| {
            text_kernel(|s, out| {
                text::quote(s, out);
                Ok(())
            })
        },
    },
    ScalarFunction {
        name: "JSON_UNQUOTE",
        resolve: resolve_text,
        kernel: |_| {
            text_kernel(|s, out| {
                out.push_str(&text::unquote(s));
                Ok(())
            })
        },
    },
    // A value of JSON_OBJECT or JSON_ARRAY that is JSON text already.
    ScalarFunction {
        name: "JSON",
        resolve: resolve_text,
        kernel: |_| {
            text_kernel(|s, out| {
                text::write(&text::parse(s).map_err(|why| format!("JSON('{s}'): {why}"))?, out);
                Ok(())
            })
        },
    },
];

fn resolve_text(args: &mut Vec<tidegate_api::expr::Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_string(args, 0)?;
    Ok(strict(LogicalType::string().kind, args))
}

fn text_kernel(f: fn(&str, &mut String) -> Result<(), String>) -> MadeKernel {
    kernel(move |args, rows| {
        let texts = strings(&args[0])?;
        write_strings(rows, |row, out| {
            if texts.is_null(row) {
                return Ok(false);
            }
            f(texts.value(row), out)?;
            Ok(true)
        })
    })
}
