//! Functions of character strings.
//!
//! The functions themselves are in `text`, `split` and `printf`, on single values; here are their
//! type rules and the loops over columns.

// Type rules share the signature of `ScalarFunction::resolve`: some insert arguments.
#![allow(clippy::ptr_arg)]

mod printf;
mod split;
mod text;
mod variadic;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, Int32Array, StringArray};
use tidegate_api::expr::Expr;
use tidegate_api::function::RowError;
use tidegate_api::types::{LogicalType, MAX_LENGTH, TypeKind};

use super::args::{
    any_nullable, count, expect_bigint, expect_int, expect_string, is_null_literal, literal_str, strict,
};
use super::columns::{bigints, binaries, collect, ints, map1, map2, strings, write_strings};
use super::{CallInfo, Kernel, ScalarFunction};

pub(crate) use split::java_hash;

/// What makes a function's code.
pub(super) type MadeKernel = Result<Box<dyn Kernel>, String>;

/// A kernel that needs neither clock nor watermark.
pub(super) fn kernel<F>(mut f: F) -> MadeKernel
where
    F: FnMut(&[ArrayRef], usize) -> Result<ArrayRef, RowError> + Send + 'static,
{
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &_| f(args, rows)))
}

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "||", resolve: variadic::resolve_concat_operator, kernel: variadic::concat_kernel },
    ScalarFunction { name: "CONCAT", resolve: variadic::resolve_concat, kernel: variadic::concat_kernel },
    ScalarFunction { name: "CONCAT_WS", resolve: variadic::resolve_concat_ws, kernel: variadic::concat_ws_kernel },
    ScalarFunction { name: "ELT", resolve: variadic::resolve_elt, kernel: variadic::elt_kernel },
    ScalarFunction { name: "PRINTF", resolve: variadic::resolve_printf, kernel: variadic::printf_kernel },
    ScalarFunction { name: "SPLIT", resolve: variadic::resolve_split, kernel: variadic::split_kernel },
    ScalarFunction { name: "STR_TO_MAP", resolve: variadic::resolve_str_to_map, kernel: variadic::str_to_map_kernel },
    ScalarFunction {
        name: "SPLIT_INDEX",
        resolve: variadic::resolve_split_index,
        kernel: variadic::split_index_kernel,
    },
    ScalarFunction {
        name: "UPPER",
        resolve: resolve_case,
        kernel: |i| case_kernel(i, |s, out| out.push_str(&s.to_uppercase())),
    },
    ScalarFunction {
        name: "LOWER",
        resolve: resolve_case,
        kernel: |i| case_kernel(i, |s, out| out.push_str(&s.to_lowercase())),
    },
    ScalarFunction { name: "INITCAP", resolve: resolve_case, kernel: |i| case_kernel(i, text::initcap) },
    ScalarFunction { name: "CHAR_LENGTH", resolve: resolve_measure, kernel: |_| measure_kernel(text::char_length) },
    ScalarFunction {
        name: "CHARACTER_LENGTH",
        resolve: resolve_measure,
        kernel: |_| measure_kernel(text::char_length),
    },
    ScalarFunction { name: "ASCII", resolve: resolve_measure, kernel: |_| measure_kernel(text::ascii) },
    ScalarFunction { name: "SUBSTRING", resolve: resolve_substring, kernel: |_| substring_kernel() },
    ScalarFunction { name: "SUBSTR", resolve: resolve_substring, kernel: |_| substring_kernel() },
    ScalarFunction { name: "LEFT", resolve: resolve_side, kernel: |_| text_int_kernel(text::left) },
    ScalarFunction { name: "RIGHT", resolve: resolve_side, kernel: |_| text_int_kernel(text::right) },
    ScalarFunction { name: "REPEAT", resolve: resolve_repeat, kernel: |_| text_int_kernel(repeat) },
    ScalarFunction { name: "LPAD", resolve: resolve_pad, kernel: |_| pad_kernel(true) },
    ScalarFunction { name: "RPAD", resolve: resolve_pad, kernel: |_| pad_kernel(false) },
    ScalarFunction { name: "TRIM", resolve: resolve_trim, kernel: trim_kernel },
    ScalarFunction { name: "LTRIM", resolve: resolve_one_sided_trim, kernel: |_| simple_trim_kernel(true, false) },
    ScalarFunction { name: "RTRIM", resolve: resolve_one_sided_trim, kernel: |_| simple_trim_kernel(false, true) },
    ScalarFunction { name: "BTRIM", resolve: resolve_btrim, kernel: |_| simple_trim_kernel(true, true) },
    ScalarFunction { name: "REPLACE", resolve: |a| all_strings(a, 3), kernel: |_| replace_kernel() },
    ScalarFunction { name: "TRANSLATE", resolve: resolve_translate, kernel: |_| translate_kernel() },
    ScalarFunction { name: "OVERLAY", resolve: resolve_overlay, kernel: |_| overlay_kernel() },
    ScalarFunction { name: "POSITION", resolve: resolve_locate, kernel: |_| locate_kernel() },
    ScalarFunction { name: "LOCATE", resolve: resolve_locate, kernel: |_| locate_kernel() },
    ScalarFunction { name: "INSTR", resolve: resolve_instr, kernel: |_| instr_kernel() },
    ScalarFunction { name: "CHR", resolve: resolve_chr, kernel: |_| chr_kernel() },
    ScalarFunction {
        name: "REVERSE",
        resolve: resolve_reverse,
        kernel: |_| text_kernel(|s| Cow::Owned(text::reverse(s))),
    },
    ScalarFunction { name: "STARTSWITH", resolve: resolve_affix, kernel: |i| affix_kernel(i, |s, t| s.starts_with(t)) },
    ScalarFunction { name: "ENDSWITH", resolve: resolve_affix, kernel: |i| affix_kernel(i, |s, t| s.ends_with(t)) },
    ScalarFunction { name: "IS_DIGIT", resolve: resolve_is, kernel: |_| is_kernel(text::is_digit) },
    ScalarFunction { name: "IS_ALPHA", resolve: resolve_is, kernel: |_| is_kernel(text::is_alpha) },
    ScalarFunction { name: "IS_DECIMAL", resolve: resolve_is, kernel: |_| is_kernel(text::is_decimal) },
];

/// `n` strings in, a `STRING` out that is NULL only if one of them is.
fn all_strings(args: &mut [Expr], n: usize) -> Result<LogicalType, String> {
    count(args, n..=n)?;
    (0..n).try_for_each(|i| expect_string(args, i))?;
    Ok(strict(LogicalType::string().kind, args))
}

fn length_of(ty: &LogicalType) -> u32 {
    match ty.kind {
        TypeKind::Char(n) | TypeKind::Varchar(n) => n,
        _ => MAX_LENGTH,
    }
}

fn resolve_case(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_string(args, 0)?;
    Ok(args[0].ty.clone())
}

/// The type stays that of the argument; only for a literal Flink also cuts the result to it.
fn case_kernel(info: &CallInfo<'_>, f: fn(&str, &mut String)) -> MadeKernel {
    let limit = match (literal_str(&info.args[0]), &info.ty.kind) {
        (Some(_), TypeKind::Char(n)) => *n as usize,
        _ => usize::MAX,
    };
    kernel(move |args, rows| {
        let texts = strings(&args[0])?;
        write_strings(rows, |row, out| {
            if texts.is_null(row) {
                return Ok(false);
            }
            f(texts.value(row), out);
            if let Some((end, _)) = out.char_indices().nth(limit) {
                out.truncate(end);
            }
            Ok(true)
        })
    })
}

fn resolve_measure(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_string(args, 0)?;
    Ok(strict(TypeKind::Int, args))
}

fn measure_kernel(f: fn(&str) -> i32) -> MadeKernel {
    kernel(move |args, _| map1::<_, i32, Int32Array>(strings(&args[0])?, |s| Ok(Some(f(s)))))
}

fn text_kernel(f: fn(&str) -> Cow<'_, str>) -> MadeKernel {
    kernel(move |args, _| map1::<_, Cow<'_, str>, StringArray>(strings(&args[0])?, |s| Ok(Some(f(s)))))
}

fn text_int_kernel(f: for<'a> fn(&'a str, i32) -> Option<Cow<'a, str>>) -> MadeKernel {
    kernel(move |args, _| {
        map2::<_, _, Cow<'_, str>, StringArray>(strings(&args[0])?, ints(&args[1])?, |s, n| Ok(f(s, n)))
    })
}

fn resolve_substring(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=3)?;
    expect_string(args, 0)?;
    (1..args.len()).try_for_each(|i| expect_int(args, i))?;
    Ok(LogicalType::new(TypeKind::Varchar(length_of(&args[0].ty))))
}

fn substring_kernel() -> MadeKernel {
    kernel(|args, rows| {
        let (texts, positions) = (strings(&args[0])?, ints(&args[1])?);
        let lengths = args.get(2).map(ints).transpose()?;
        collect::<Cow<'_, str>, StringArray>(rows, |row| {
            if texts.is_null(row) || positions.is_null(row) || lengths.is_some_and(|l| l.is_null(row)) {
                return Ok(None);
            }
            let length = lengths.map_or(i32::MAX, |l| l.value(row));
            Ok(text::substring(texts.value(row), positions.value(row), length))
        })
    })
}

fn resolve_side(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    expect_string(args, 0)?;
    expect_int(args, 1)?;
    Ok(LogicalType::new(TypeKind::Varchar(length_of(&args[0].ty))))
}

fn resolve_repeat(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    resolve_side(args)?;
    Ok(strict(LogicalType::string().kind, args))
}

fn repeat(s: &str, n: i32) -> Option<Cow<'_, str>> {
    Some(Cow::Owned(s.repeat(n.max(0) as usize)))
}

fn resolve_pad(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 3..=3)?;
    expect_string(args, 0)?;
    expect_int(args, 1)?;
    expect_string(args, 2)?;
    Ok(strict(LogicalType::string().kind, args))
}

fn pad_kernel(at_left: bool) -> MadeKernel {
    kernel(move |args, rows| {
        let (texts, lengths, pads) = (strings(&args[0])?, ints(&args[1])?, strings(&args[2])?);
        collect::<String, StringArray>(rows, |row| {
            if texts.is_null(row) || lengths.is_null(row) || pads.is_null(row) {
                return Ok(None);
            }
            Ok(text::pad(texts.value(row), lengths.value(row), pads.value(row), at_left))
        })
    })
}

fn resolve_trim(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 3..=3)?;
    (0..3).try_for_each(|i| expect_string(args, i))?;
    trim_sides(args)?;
    Ok(strict(TypeKind::Varchar(length_of(&args[2].ty)), &args[1..]))
}

fn trim_sides(args: &[Expr]) -> Result<(bool, bool), String> {
    match literal_str(&args[0]) {
        Some("BOTH") => Ok((true, true)),
        Some("LEADING") => Ok((true, false)),
        Some("TRAILING") => Ok((false, true)),
        _ => Err("TRIM takes BOTH, LEADING or TRAILING.".into()),
    }
}

fn trim_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let (leading, trailing) = trim_sides(info.args)?;
    kernel(move |args, _| {
        map2::<_, _, &str, StringArray>(strings(&args[1])?, strings(&args[2])?, |chars, s| {
            Ok(Some(text::trim(s, chars, leading, trailing)))
        })
    })
}

fn resolve_one_sided_trim(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    resolve_btrim(args)?;
    Ok(strict(TypeKind::Varchar(length_of(&args[0].ty)), args))
}

fn resolve_btrim(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=2)?;
    (0..args.len()).try_for_each(|i| expect_string(args, i))?;
    Ok(strict(LogicalType::string().kind, args))
}

fn simple_trim_kernel(leading: bool, trailing: bool) -> MadeKernel {
    kernel(move |args, _| {
        let texts = strings(&args[0])?;
        match args.get(1) {
            None => map1::<_, &str, StringArray>(texts, |s| Ok(Some(text::trim(s, " ", leading, trailing)))),
            Some(chars) => map2::<_, _, &str, StringArray>(texts, strings(chars)?, |s, chars| {
                Ok(Some(text::trim(s, chars, leading, trailing)))
            }),
        }
    })
}

fn replace_kernel() -> MadeKernel {
    kernel(|args, rows| {
        let (texts, sought, replacements) = (strings(&args[0])?, strings(&args[1])?, strings(&args[2])?);
        collect::<String, StringArray>(rows, |row| {
            if texts.is_null(row) || sought.is_null(row) || replacements.is_null(row) {
                return Ok(None);
            }
            Ok(Some(text::replace(texts.value(row), sought.value(row), replacements.value(row))))
        })
    })
}

fn resolve_translate(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    all_strings(args, 3)?;
    Ok(strict(LogicalType::string().kind, &args[..1]))
}

/// `TRANSLATE`: NULL among the characters counts as none.
fn translate_kernel() -> MadeKernel {
    kernel(|args, rows| {
        let (texts, from, to) = (strings(&args[0])?, strings(&args[1])?, strings(&args[2])?);
        let or_empty = |a: &StringArray, row| if a.is_null(row) { String::new() } else { a.value(row).to_string() };
        write_strings(rows, |row, out| {
            if texts.is_null(row) {
                return Ok(false);
            }
            text::translate(texts.value(row), &or_empty(from, row), &or_empty(to, row), out);
            Ok(true)
        })
    })
}

fn resolve_overlay(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 3..=4)?;
    expect_string(args, 0)?;
    expect_string(args, 1)?;
    (2..args.len()).try_for_each(|i| expect_int(args, i))?;
    let length = length_of(&args[0].ty).saturating_add(length_of(&args[1].ty)).min(MAX_LENGTH);
    Ok(strict(TypeKind::Varchar(length), args))
}

fn overlay_kernel() -> MadeKernel {
    kernel(|args, rows| {
        let (texts, replacements, starts) = (strings(&args[0])?, strings(&args[1])?, ints(&args[2])?);
        let lengths = args.get(3).map(ints).transpose()?;
        collect::<String, StringArray>(rows, |row| {
            let null = texts.is_null(row) || replacements.is_null(row) || starts.is_null(row);
            if null || lengths.is_some_and(|l| l.is_null(row)) {
                return Ok(None);
            }
            let length = lengths.map(|l| l.value(row));
            Ok(Some(text::overlay(texts.value(row), replacements.value(row), starts.value(row), length)))
        })
    })
}

fn resolve_locate(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=3)?;
    expect_string(args, 0)?;
    expect_string(args, 1)?;
    if args.len() == 3 {
        expect_int(args, 2)?;
    }
    Ok(strict(TypeKind::Int, args))
}

fn locate_kernel() -> MadeKernel {
    kernel(|args, rows| {
        let (sought, texts) = (strings(&args[0])?, strings(&args[1])?);
        let starts = args.get(2).map(ints).transpose()?;
        collect::<i32, Int32Array>(rows, |row| {
            if sought.is_null(row) || texts.is_null(row) || starts.is_some_and(|s| s.is_null(row)) {
                return Ok(None);
            }
            let from = starts.map_or(1, |s| s.value(row));
            Ok(Some(text::position(sought.value(row), texts.value(row), from)))
        })
    })
}

fn resolve_instr(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=4)?;
    expect_string(args, 0)?;
    expect_string(args, 1)?;
    (2..args.len()).try_for_each(|i| expect_int(args, i))?;
    Ok(strict(TypeKind::Int, args))
}

fn instr_kernel() -> MadeKernel {
    kernel(|args, rows| {
        let (texts, sought) = (strings(&args[0])?, strings(&args[1])?);
        let numbers = [args.get(2).map(ints).transpose()?, args.get(3).map(ints).transpose()?];
        collect::<i32, Int32Array>(rows, |row| {
            let null = numbers.iter().flatten().any(|n| n.is_null(row));
            if null || texts.is_null(row) || sought.is_null(row) {
                return Ok(None);
            }
            let [start, nth] = numbers.map(|n| n.map_or(1, |n| n.value(row)));
            text::instr(texts.value(row), sought.value(row), start, nth).map(Some)
        })
    })
}

fn resolve_chr(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_bigint(args, 0)?;
    Ok(LogicalType::string())
}

fn chr_kernel() -> MadeKernel {
    kernel(|args, _| map1::<_, String, StringArray>(bigints(&args[0])?, |n| Ok(Some(text::chr(n)))))
}

fn resolve_reverse(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    all_strings(args, 1)?;
    Ok(LogicalType::string())
}

fn resolve_affix(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    let binary = args.iter().any(|a| a.ty.is_binary());
    for i in 0..2 {
        if binary { super::args::expect_binary(args, i)? } else { expect_string(args, i)? }
    }
    Ok(strict(TypeKind::Boolean, args))
}

fn affix_kernel(info: &CallInfo<'_>, f: fn(&[u8], &[u8]) -> bool) -> MadeKernel {
    if info.args[0].ty.is_binary() {
        return kernel(move |args, _| {
            let (a, b): (&BinaryArray, &BinaryArray) = (binaries(&args[0])?, binaries(&args[1])?);
            map2::<_, _, bool, BooleanArray>(a, b, |s, t| Ok(Some(f(s, t))))
        });
    }
    kernel(move |args, _| {
        map2::<_, _, bool, BooleanArray>(strings(&args[0])?, strings(&args[1])?, |s, t| {
            Ok(Some(f(s.as_bytes(), t.as_bytes())))
        })
    })
}

/// `IS_DIGIT` and its like also take numbers, by their text; they are never NULL.
fn resolve_is(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    if args[0].ty.is_numeric() {
        super::args::force(args, 0, LogicalType::string().kind)?;
    }
    expect_string(args, 0)?;
    Ok(LogicalType::not_null(TypeKind::Boolean))
}

fn is_kernel(f: fn(&str) -> bool) -> MadeKernel {
    kernel(move |args, rows| {
        let texts = strings(&args[0])?;
        collect::<bool, BooleanArray>(rows, |row| Ok(Some(!texts.is_null(row) && f(texts.value(row)))))
    })
}

/// A result that may be NULL though no argument is, as a literal NULL makes it.
fn nullable_if_null_literal(args: &[Expr]) -> bool {
    any_nullable(args) || args.iter().any(is_null_literal)
}
