//! Pattern matching: `LIKE`, `SIMILAR TO` and the `REGEXP` family.
//!
//! A literal pattern is compiled once, when the kernel is made, and a bad one fails the plan; a
//! pattern from a column is compiled when it changes.

// Type rules share the signature of `ScalarFunction::resolve`: some insert arguments.
#![allow(clippy::ptr_arg)]

mod java;
mod like;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, ListBuilder, StringArray, StringBuilder};
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{LogicalType, TypeKind, list_field};

use super::args::{any_nullable, count, expect_int, expect_string, is_null_literal, literal_str};
use super::columns::{collect, ints, strings, write_strings};
use super::{CallInfo, Kernel, ScalarFunction};
use like::Like;

pub(crate) use java::JavaRegex;

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "LIKE", resolve: resolve_like, kernel: like_kernel },
    ScalarFunction { name: "SIMILAR TO", resolve: resolve_like, kernel: similar_kernel },
    ScalarFunction {
        name: "REGEXP",
        resolve: |args| two_strings(args, TypeKind::Boolean, false),
        kernel: |info| test_kernel(info, |regex, pattern, text| !pattern.is_empty() && regex.is_match(text)),
    },
    ScalarFunction { name: "REGEXP_EXTRACT", resolve: resolve_extract, kernel: extract_kernel },
    ScalarFunction { name: "REGEXP_EXTRACT_ALL", resolve: resolve_extract_all, kernel: extract_all_kernel },
    ScalarFunction { name: "REGEXP_REPLACE", resolve: resolve_replace, kernel: replace_kernel },
    ScalarFunction {
        name: "REGEXP_COUNT",
        resolve: |args| two_strings(args, TypeKind::Int, true),
        kernel: |info| int_kernel(info, |regex, text| regex.find_iter(text).count() as i32),
    },
    ScalarFunction {
        name: "REGEXP_INSTR",
        resolve: |args| two_strings(args, TypeKind::Int, true),
        kernel: |info| int_kernel(info, position),
    },
    ScalarFunction {
        name: "REGEXP_SUBSTR",
        resolve: |args| two_strings(args, LogicalType::string().kind, true),
        kernel: substr_kernel,
    },
];

type MadeKernel = Result<Box<dyn Kernel>, String>;

fn kernel<F>(f: F) -> MadeKernel
where
    F: FnMut(&[ArrayRef], usize, &EvalContext) -> Result<ArrayRef, RowError> + Send + 'static,
{
    Ok(Box::new(f))
}

/// A pattern argument in compiled form.
pub(super) struct PatternArg<P> {
    compile: fn(&str, Option<&str>) -> Result<P, String>,
    text: String,
    escape: Option<String>,
    compiled: Option<P>,
}

impl<P> PatternArg<P> {
    /// For argument `pattern` and, where the call has one, `escape`.
    pub(super) fn new(
        pattern: &Expr,
        escape: Option<&Expr>,
        compile: fn(&str, Option<&str>) -> Result<P, String>,
    ) -> Result<Self, String> {
        let mut arg = PatternArg { compile, text: String::new(), escape: None, compiled: None };
        let known_escape = escape.is_none_or(|e| literal_str(e).is_some());
        if let Some(text) = literal_str(pattern)
            && known_escape
        {
            arg.of(text, escape.and_then(literal_str))?;
        }
        Ok(arg)
    }

    /// The compiled form of this row's pattern.
    pub(super) fn of(&mut self, text: &str, escape: Option<&str>) -> Result<&P, String> {
        let same = self.text == text && self.escape.as_deref() == escape;
        let compiled = match self.compiled.take().filter(|_| same) {
            Some(compiled) => compiled,
            None => {
                let compiled = (self.compile)(text, escape)?;
                self.text = text.to_string();
                self.escape = escape.map(str::to_string);
                compiled
            }
        };
        Ok(self.compiled.insert(compiled))
    }
}

fn regex_arg(info: &CallInfo<'_>) -> Result<PatternArg<JavaRegex>, String> {
    PatternArg::new(&info.args[1], None, |text, _| JavaRegex::compile(text))
}

fn two_strings(args: &mut [Expr], kind: TypeKind, nullable: bool) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    expect_string(args, 0)?;
    expect_string(args, 1)?;
    Ok(LogicalType { kind, nullable: nullable || any_nullable(args) })
}

fn resolve_like(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=3)?;
    (0..args.len()).try_for_each(|i| expect_string(args, i))?;
    Ok(LogicalType { kind: TypeKind::Boolean, nullable: any_nullable(args) })
}

fn like_kernel(info: &CallInfo<'_>) -> MadeKernel {
    matching_kernel(info, Like::compile, Like::matches)
}

fn similar_kernel(info: &CallInfo<'_>) -> MadeKernel {
    matching_kernel(info, like::similar, JavaRegex::is_match)
}

fn matching_kernel<P: Send + 'static>(
    info: &CallInfo<'_>,
    compile: fn(&str, Option<&str>) -> Result<P, String>,
    matches: fn(&P, &str) -> bool,
) -> MadeKernel {
    let mut pattern = PatternArg::new(&info.args[1], info.args.get(2), compile)?;
    let constant = info.args[1..].iter().all(|a| literal_str(a).is_some());
    kernel(move |args, rows, _| {
        let (texts, patterns) = (strings(&args[0])?, strings(&args[1])?);
        let escapes = args.get(2).map(strings).transpose()?;
        if let (true, Some(compiled)) = (constant, &pattern.compiled) {
            let answer = |row| if texts.is_null(row) { None } else { Some(matches(compiled, texts.value(row))) };
            return collect::<bool, BooleanArray>(rows, |row| Ok(answer(row)));
        }
        collect::<bool, BooleanArray>(rows, |row| {
            if texts.is_null(row) || patterns.is_null(row) || escapes.is_some_and(|e| e.is_null(row)) {
                return Ok(None);
            }
            let compiled = pattern.of(patterns.value(row), escapes.map(|e| e.value(row)))?;
            Ok(Some(matches(compiled, texts.value(row))))
        })
    })
}

/// Calls `f` with the regular expression of each row where no argument is NULL.
fn each<T>(
    args: &[ArrayRef],
    pattern: &mut PatternArg<JavaRegex>,
    row: usize,
    f: impl FnOnce(&JavaRegex, &str, &str) -> Result<Option<T>, String>,
) -> Result<Option<T>, String> {
    let string = |i: usize| args[i].as_any().downcast_ref::<StringArray>().filter(|a| !a.is_null(row));
    match (string(0), string(1)) {
        (Some(texts), Some(patterns)) => {
            let text = patterns.value(row);
            f(pattern.of(text, None)?, text, texts.value(row))
        }
        _ => Ok(None),
    }
}

fn test_kernel(info: &CallInfo<'_>, test: fn(&JavaRegex, &str, &str) -> bool) -> MadeKernel {
    let mut pattern = regex_arg(info)?;
    kernel(move |args, rows, _| {
        collect::<bool, BooleanArray>(rows, |row| {
            each(args, &mut pattern, row, |regex, p, text| Ok(Some(test(regex, p, text))))
        })
    })
}

fn int_kernel(info: &CallInfo<'_>, value: fn(&JavaRegex, &str) -> i32) -> MadeKernel {
    let mut pattern = regex_arg(info)?;
    kernel(move |args, rows, _| {
        collect::<i32, Int32Array>(rows, |row| {
            each(args, &mut pattern, row, |regex, _, text| Ok(Some(value(regex, text))))
        })
    })
}

/// `REGEXP_INSTR`: place of the first match in UTF-16 units from 1, or 0.
fn position(regex: &JavaRegex, text: &str) -> i32 {
    regex.find(text).map_or(0, |m| text[..m.start()].encode_utf16().count() as i32 + 1)
}

fn substr_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let mut pattern = regex_arg(info)?;
    kernel(move |args, rows, _| {
        write_strings(rows, |row, out| {
            let found =
                each(args, &mut pattern, row, |regex, _, text| Ok(regex.find(text).map(|m| out.push_str(m.as_str()))))?;
            Ok(found.is_some())
        })
    })
}

fn resolve_extract(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=3)?;
    expect_string(args, 0)?;
    expect_string(args, 1)?;
    if args.len() == 3 {
        expect_int(args, 2)?;
    }
    Ok(LogicalType::string())
}

/// Group `index` if the pattern has it.
fn group_index(regex: &JavaRegex, index: i32) -> Option<usize> {
    usize::try_from(index).ok().filter(|i| *i <= regex.group_count())
}

/// The group column at `row`: `default` if the call has none, `None` if it is NULL.
fn group_at(args: &[ArrayRef], row: usize, default: i32) -> Result<Option<i32>, String> {
    let Some(column) = args.get(2) else { return Ok(Some(default)) };
    let indexes = ints(column).map_err(|e| e.message)?;
    Ok((!indexes.is_null(row)).then(|| indexes.value(row)))
}

fn extract_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let mut pattern = regex_arg(info)?;
    kernel(move |args, rows, _| {
        write_strings(rows, |row, out| {
            let Some(index) = group_at(args, row, 0)? else { return Ok(false) };
            let found = each(args, &mut pattern, row, |regex, _, text| {
                let group = group_index(regex, index).and_then(|i| regex.group(text, i).flatten());
                Ok(group.map(|g| out.push_str(g)))
            })?;
            Ok(found.is_some())
        })
    })
}

fn resolve_extract_all(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    resolve_extract(args)?;
    Ok(LogicalType::new(TypeKind::Array(Box::new(LogicalType::string()))))
}

fn extract_all_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let mut pattern = regex_arg(info)?;
    kernel(move |args, rows, _| {
        let mut lists = ListBuilder::new(StringBuilder::new()).with_field(list_field(&LogicalType::string()));
        for row in 0..rows {
            let failed = |message| RowError::new(row, message);
            let index = group_at(args, row, 1).map_err(failed)?;
            let found = each(args, &mut pattern, row, |regex, _, text| {
                let Some(group) = index.and_then(|i| group_index(regex, i)) else { return Ok(None) };
                regex.groups(text, group, |g| lists.values().append_option(g));
                Ok(Some(()))
            });
            lists.append(found.map_err(failed)?.is_some());
        }
        Ok(Arc::new(lists.finish()))
    })
}

fn resolve_replace(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 3..=3)?;
    (0..3).try_for_each(|i| expect_string(args, i))?;
    let nullable = any_nullable(args) || args.iter().any(is_null_literal);
    Ok(LogicalType::string().with_nullable(nullable))
}

/// `REGEXP_REPLACE`: the replacement stands for itself, `$1` too.
fn replace_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let mut pattern = regex_arg(info)?;
    kernel(move |args, rows, _| {
        let replacements = strings(&args[2])?;
        write_strings(rows, |row, out| {
            if replacements.is_null(row) {
                return Ok(false);
            }
            let found = each(args, &mut pattern, row, |regex, _, text| {
                let mut from = 0;
                for m in regex.find_iter(text) {
                    out.push_str(&text[from..m.start()]);
                    out.push_str(replacements.value(row));
                    from = m.end();
                }
                out.push_str(&text[from..]);
                Ok(Some(()))
            })?;
            Ok(found.is_some())
        })
    })
}
