//! String functions of many arguments, or with arrays and maps: `||`, `CONCAT`, `CONCAT_WS`, `ELT`,
//! `PRINTF`, `SPLIT`, `SPLIT_INDEX`, `STR_TO_MAP`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, ListBuilder, MapBuilder, MapFieldNames, StringArray, StringBuilder};
use arrow::datatypes::DataType;
use tidegate_api::expr::Expr;
use tidegate_api::function::RowError;
use tidegate_api::text::format_timestamp_iso;
use tidegate_api::types::{LogicalType, MAX_LENGTH, TypeKind, list_field};
use tidegate_api::value::Value;

use super::printf::{PrintfArg, printf};
use super::{MadeKernel, all_strings, kernel, length_of, nullable_if_null_literal, split};
use crate::functions::CallInfo;
use crate::functions::args::{count, expect_binary, expect_int, expect_string, literal_str, strict};
use crate::functions::coerce::unify;
use crate::functions::columns::{binaries, collect, ints, strings, write_strings};
use crate::functions::regex::JavaRegex;
use crate::functions::value_array::value_at;

/// Type rule of `a || b`: lengths add up; `CHAR` if both are.
pub(super) fn resolve_concat_operator(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    let binary = args.iter().any(|a| a.ty.is_binary());
    for i in 0..2 {
        if binary { expect_binary(args, i)? } else { expect_string(args, i)? }
    }
    if binary {
        return Ok(strict(TypeKind::Varbinary(MAX_LENGTH), args));
    }
    let length = length_of(&args[0].ty).saturating_add(length_of(&args[1].ty)).min(MAX_LENGTH);
    let fixed = args.iter().all(|a| matches!(a.ty.kind, TypeKind::Char(_)));
    Ok(strict(if fixed { TypeKind::Char(length) } else { TypeKind::Varchar(length) }, args))
}

/// Type rule of `CONCAT(text, ...)`.
pub(super) fn resolve_concat(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    let n = args.len();
    count(args, 1..)?;
    all_strings(args, n)
}

/// Code of `||` and `CONCAT`: NULL if any argument is.
pub(super) fn concat_kernel(info: &CallInfo<'_>) -> MadeKernel {
    if info.ty.is_binary() {
        return kernel(|args, rows| {
            let (a, b) = (binaries(&args[0])?, binaries(&args[1])?);
            collect::<Vec<u8>, BinaryArray>(rows, |row| {
                Ok((!a.is_null(row) && !b.is_null(row)).then(|| [a.value(row), b.value(row)].concat()))
            })
        });
    }
    kernel(|args, rows| {
        let columns = args.iter().map(strings).collect::<Result<Vec<_>, _>>()?;
        write_strings(rows, |row, out| {
            for column in &columns {
                if column.is_null(row) {
                    return Ok(false);
                }
                out.push_str(column.value(row));
            }
            Ok(true)
        })
    })
}

/// Type rule of `CONCAT_WS(separator, text, ...)`.
pub(super) fn resolve_concat_ws(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..)?;
    let n = args.len();
    all_strings(args, n)?;
    let nullable = nullable_if_null_literal(args);
    Ok(LogicalType::string().with_nullable(nullable))
}

/// Code of `CONCAT_WS`: NULL texts are left out; NULL if the separator is.
pub(super) fn concat_ws_kernel(_: &CallInfo<'_>) -> MadeKernel {
    kernel(|args, rows| {
        let separators = strings(&args[0])?;
        let columns = args[1..].iter().map(strings).collect::<Result<Vec<_>, _>>()?;
        write_strings(rows, |row, out| {
            if separators.is_null(row) {
                return Ok(false);
            }
            let present = columns.iter().filter(|c| !c.is_null(row));
            for (i, column) in present.enumerate() {
                if i > 0 {
                    out.push_str(separators.value(row));
                }
                out.push_str(column.value(row));
            }
            Ok(true)
        })
    })
}

/// Type rule of `ELT(index, text, ...)`.
pub(super) fn resolve_elt(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..)?;
    expect_int(args, 0)?;
    let binary = args[1..].iter().any(|a| a.ty.is_binary());
    for i in 1..args.len() {
        if binary { expect_binary(args, i)? } else { expect_string(args, i)? }
    }
    Ok(unify(&mut args[1..])?.with_nullable(true))
}

/// Code of `ELT`: the text at `index` from 1, NULL if there is none.
pub(super) fn elt_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let binary = info.ty.is_binary();
    kernel(move |args, rows| {
        let indexes = ints(&args[0])?;
        let chosen = |row: usize| {
            let index = if indexes.is_null(row) { 0 } else { indexes.value(row) };
            usize::try_from(index).ok().filter(|i| *i > 0 && *i < args.len())
        };
        if binary {
            let columns = args[1..].iter().map(binaries).collect::<Result<Vec<_>, _>>()?;
            return collect::<&[u8], BinaryArray>(rows, |row| {
                Ok(chosen(row).map(|i| columns[i - 1]).filter(|c| !c.is_null(row)).map(|c| c.value(row)))
            });
        }
        let columns = args[1..].iter().map(strings).collect::<Result<Vec<_>, _>>()?;
        collect::<&str, StringArray>(rows, |row| {
            Ok(chosen(row).map(|i| columns[i - 1]).filter(|c| !c.is_null(row)).map(|c| c.value(row)))
        })
    })
}

/// Type rule of `PRINTF(format, value, ...)`.
pub(super) fn resolve_printf(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    expect_string(args, 0)?;
    for (i, arg) in args.iter().enumerate().skip(1) {
        use TypeKind::*;
        if matches!(arg.ty.kind, Array(_) | Map(..) | Multiset(_) | Row(_) | Binary(_) | Varbinary(_)) {
            return Err(format!("Argument {} of PRINTF must be a scalar, but is {}.", i + 1, arg.ty));
        }
    }
    if literal_str(&args[0]).is_some_and(|f| f.contains("%h") || f.contains("%H")) {
        return Err("The conversion %h is not supported.".into());
    }
    Ok(LogicalType::string())
}

/// Code of `PRINTF`: NULL if an argument is, or if it does not fit its conversion.
pub(super) fn printf_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let types: Vec<LogicalType> = info.args.iter().map(|a| a.ty.clone()).collect();
    kernel(move |args, rows| {
        let formats = strings(&args[0])?;
        write_strings(rows, |row, out| {
            if formats.is_null(row) {
                return Ok(false);
            }
            let values: Vec<PrintfArg> =
                args[1..].iter().zip(&types[1..]).map(|(a, ty)| printf_arg(&value_at(a, ty, row), ty)).collect();
            if values.contains(&PrintfArg::Null) {
                return Ok(false);
            }
            let text = printf(formats.value(row), &values);
            text.iter().for_each(|t| out.push_str(t));
            Ok(text.is_some())
        })
    })
}

fn printf_arg(value: &Value, ty: &LogicalType) -> PrintfArg {
    let width = match ty.kind {
        TypeKind::TinyInt => 8,
        TypeKind::SmallInt => 16,
        TypeKind::BigInt | TypeKind::IntervalDayTime => 64,
        _ => 32,
    };
    match (value, &ty.kind) {
        (Value::Boolean(b), _) => PrintfArg::Boolean(*b),
        (Value::Int(i), _) => PrintfArg::Int(*i, width),
        (Value::Double(d), TypeKind::Float) => PrintfArg::Float(*d as f32),
        (Value::Double(d), _) => PrintfArg::Double(*d),
        (Value::Decimal(unscaled), TypeKind::Decimal(_, scale)) => {
            PrintfArg::Text(tidegate_api::text::decimal_to_string(*unscaled, *scale))
        }
        (Value::Timestamp(nanos), _) => PrintfArg::Text(format_timestamp_iso(*nanos)),
        (Value::String(s), _) => PrintfArg::Text(s.clone()),
        _ => PrintfArg::Null,
    }
}

/// Type rule of `SPLIT(text, separator)`.
pub(super) fn resolve_split(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    all_strings(args, 2)?;
    Ok(strict(TypeKind::Array(Box::new(LogicalType::string())), args))
}

/// Code of `SPLIT`.
pub(super) fn split_kernel(_: &CallInfo<'_>) -> MadeKernel {
    kernel(|args, rows| {
        let (texts, separators) = (strings(&args[0])?, strings(&args[1])?);
        let mut lists = ListBuilder::new(StringBuilder::new()).with_field(list_field(&LogicalType::string()));
        for row in 0..rows {
            let null = texts.is_null(row) || separators.is_null(row);
            if !null {
                split::split(texts.value(row), separators.value(row), |part| lists.values().append_value(part));
            }
            lists.append(!null);
        }
        Ok(Arc::new(lists.finish()))
    })
}

/// Type rule of `SPLIT_INDEX(text, separator or its code, index)`.
pub(super) fn resolve_split_index(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 3..=3)?;
    expect_string(args, 0)?;
    if args[1].ty.is_integer() {
        expect_int(args, 1)?
    } else {
        expect_string(args, 1)?
    }
    expect_int(args, 2)?;
    Ok(LogicalType::string())
}

/// Code of `SPLIT_INDEX`.
pub(super) fn split_index_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let by_code = info.args[1].ty.is_integer();
    kernel(move |args, rows| {
        let (texts, indexes) = (strings(&args[0])?, ints(&args[2])?);
        if by_code {
            let codes = ints(&args[1])?;
            return collect::<&str, StringArray>(rows, |row| {
                if texts.is_null(row) || codes.is_null(row) || indexes.is_null(row) {
                    return Ok(None);
                }
                let code = u8::try_from(codes.value(row)).ok().filter(|c| *c > 0);
                Ok(code.and_then(|c| {
                    let separator = char::from(c).to_string();
                    split::split_index(texts.value(row), &separator, indexes.value(row))
                }))
            });
        }
        let separators = strings(&args[1])?;
        collect::<&str, StringArray>(rows, |row| {
            if texts.is_null(row) || separators.is_null(row) || indexes.is_null(row) {
                return Ok(None);
            }
            Ok(split::split_index(texts.value(row), separators.value(row), indexes.value(row)))
        })
    })
}

/// Type rule of `STR_TO_MAP(text[, between entries, between key and value])`.
pub(super) fn resolve_str_to_map(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    if args.len() != 1 {
        count(args, 3..=3)?;
    }
    (0..args.len()).try_for_each(|i| expect_string(args, i))?;
    Ok(LogicalType::new(str_map()))
}

fn str_map() -> TypeKind {
    TypeKind::Map(Box::new(LogicalType::string()), Box::new(LogicalType::string()))
}

/// Two compiled separators, which are regular expressions.
struct Separators {
    texts: [String; 2],
    compiled: [JavaRegex; 2],
}

impl Separators {
    fn new(texts: [&str; 2]) -> Result<Separators, String> {
        let [entries, values] = texts.map(JavaRegex::compile);
        Ok(Separators { texts: texts.map(String::from), compiled: [entries?, values?] })
    }

    fn split<'t>(&self, which: usize, text: &'t str, limit: usize) -> Vec<&'t str> {
        let matches = self.compiled[which].find_iter(text).map(|m| (m.start(), m.end()));
        let matches: Vec<(usize, usize)> = matches.collect();
        split::java_split(text, matches.into_iter(), limit)
    }
}

/// Code of `STR_TO_MAP`. An entry without a separator has a NULL value.
pub(super) fn str_to_map_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let literal = |i: usize, default| info.args.get(i).and_then(literal_str).unwrap_or(default).to_string();
    let mut separators = Separators::new([literal(1, ",").as_str(), literal(2, "=").as_str()])?;
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let ty = info.ty.to_arrow();
    kernel(move |args, rows| {
        let texts = strings(&args[0])?;
        let given = match args.len() {
            3 => Some((strings(&args[1])?, strings(&args[2])?)),
            _ => None,
        };
        let mut maps = MapBuilder::new(Some(names.clone()), StringBuilder::new(), StringBuilder::new());
        for row in 0..rows {
            let null = texts.is_null(row) || given.is_some_and(|(a, b)| a.is_null(row) || b.is_null(row));
            if let (false, Some((a, b))) = (null, given)
                && separators.texts != [a.value(row), b.value(row)]
            {
                let made = Separators::new([a.value(row), b.value(row)]);
                separators = made.map_err(|message| RowError::new(row, message))?;
            }
            if !null {
                append_entries(&separators, texts.value(row), &mut maps);
            }
            maps.append(!null).map_err(crate::functions::columns::arrow_failure)?;
        }
        as_type(Arc::new(maps.finish()), &ty)
    })
}

fn append_entries(separators: &Separators, text: &str, maps: &mut MapBuilder<StringBuilder, StringBuilder>) {
    if text.is_empty() {
        return;
    }
    let pairs = separators.split(0, text, 0).into_iter().map(|entry| match separators.split(1, entry, 2)[..] {
        [key, value] => (key, Some(value)),
        _ => (entry, None),
    });
    for (key, value) in split::in_hash_map_order(pairs.collect()) {
        maps.keys().append_value(key);
        maps.values().append_option(value);
    }
}

/// `array` with the field names and nullability of `ty`.
fn as_type(array: ArrayRef, ty: &DataType) -> Result<ArrayRef, RowError> {
    if array.data_type() == ty {
        return Ok(array);
    }
    let data = array.to_data().into_builder().data_type(ty.clone()).build();
    data.map(arrow::array::make_array).map_err(crate::functions::columns::arrow_failure)
}
