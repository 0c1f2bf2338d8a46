//! Writing JSON: `JSON_OBJECT`, `JSON_ARRAY`, `JSON_STRING`, and SQL values in general.
//!
//! Objects come out with their keys sorted, as Flink's mapper writes them.

use arrow::array::Array;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::text::{DateTime, decimal_to_java, java_double};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;

use super::text;
use crate::functions::CallInfo;
use crate::functions::args::{count, literal_str, strict};
use crate::functions::columns::{strings, write_strings};
use crate::functions::string::{MadeKernel, kernel};
use crate::functions::value_array::value_at;

/// Checks that a type has a JSON form; Flink's words if not.
pub(crate) fn check(ty: &LogicalType) -> Result<(), String> {
    use TypeKind::*;
    match &ty.kind {
        Null | Boolean | TinyInt | SmallInt | Int | BigInt | Float | Double | Decimal(..) => Ok(()),
        Char(_) | Varchar(_) | Binary(_) | Varbinary(_) | Timestamp(_) | TimestampLtz(_) => Ok(()),
        Array(element) => check(element),
        Map(key, value) if key.is_string() => check(value),
        Multiset(key) if key.is_string() => Ok(()),
        Map(key, _) | Multiset(key) => {
            Err(format!("Type '{key}' is not supported for JSON conversion. The key type must be a character string."))
        }
        Row(fields) => fields.iter().try_for_each(|f| check(&f.ty)),
        Date | Time(_) | IntervalYearMonth | IntervalDayTime => {
            Err(format!("Type '{ty}' is not scalar or cannot be converted into JSON."))
        }
    }
}

/// Appends the JSON form of a SQL value of type `ty`.
pub(crate) fn write_value(value: &Value, ty: &LogicalType, out: &mut String) {
    match (value, &ty.kind) {
        (Value::Null, _) => out.push_str("null"),
        (Value::Boolean(b), _) => out.push_str(if *b { "true" } else { "false" }),
        (Value::Int(i), _) => out.push_str(&i.to_string()),
        (Value::Double(d), _) if d.is_finite() => text::write_number(&java_double(*d), out),
        (Value::Double(d), _) => text::write_string(&java_double(*d), out),
        (Value::Decimal(unscaled), TypeKind::Decimal(_, scale)) => out.push_str(&decimal_to_java(*unscaled, *scale)),
        (Value::Decimal(unscaled), _) => out.push_str(&unscaled.to_string()),
        (Value::String(s), _) => text::write_string(s, out),
        (Value::Bytes(bytes), _) => text::write_string(&STANDARD.encode(bytes), out),
        (Value::Timestamp(nanos), kind) => {
            let zulu = if matches!(kind, TypeKind::TimestampLtz(_)) { "Z" } else { "" };
            text::write_string(&format!("{}{zulu}", timestamp(*nanos)), out);
        }
        (Value::Array(items), TypeKind::Array(element)) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(item, element, out);
            }
            out.push(']');
        }
        (Value::Map(entries), TypeKind::Map(_, element)) => {
            write_object(entries.iter().map(|(k, v)| (key_text(k), v, element.as_ref())), out);
        }
        (Value::Map(entries), _) => {
            let int = LogicalType::new(TypeKind::Int);
            write_object(entries.iter().map(|(k, v)| (key_text(k), v, &int)), out);
        }
        (Value::Row(values), TypeKind::Row(fields)) => {
            write_object(values.iter().zip(fields).map(|(v, f)| (f.name.as_str(), v, &f.ty)), out);
        }
        (Value::Array(_) | Value::Row(_), _) => out.push_str("null"),
    }
}

fn key_text(key: &Value) -> &str {
    match key {
        Value::String(s) => s,
        _ => "null",
    }
}

fn write_object<'a>(fields: impl Iterator<Item = (&'a str, &'a Value, &'a LogicalType)>, out: &mut String) {
    let mut fields: Vec<_> = fields.collect();
    fields.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
    out.push('{');
    for (i, (name, value, ty)) in fields.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        text::write_string(name, out);
        out.push(':');
        write_value(value, ty, out);
    }
    out.push('}');
}

/// `2031-01-02T03:04:05.6`: seconds always, the fraction without its zeros.
fn timestamp(nanos: i128) -> String {
    let t = DateTime::from_nanos(nanos);
    let date = tidegate_api::text::format_date(tidegate_api::text::days_from_civil(t.year, t.month, t.day) as i32);
    let clock = format!("{date}T{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
    if t.nano == 0 {
        return clock;
    }
    format!("{clock}.{}", format!("{:09}", t.nano).trim_end_matches('0'))
}

/// What the first argument of a constructor says: whether NULLs are kept, and which arguments are
/// JSON text already. The latter is written there when the call is bound (`NULL:2,4`), because a
/// nested constructor may have become a plain string literal by the time code is made.
struct Clause {
    keep_nulls: bool,
    raw: Vec<usize>,
}

impl Clause {
    fn of(args: &[Expr]) -> Result<Clause, String> {
        let text = args.first().and_then(literal_str).unwrap_or_default();
        let (word, raw) = text.split_once(':').unwrap_or((text, ""));
        let keep_nulls = match word {
            "NULL" => true,
            "ABSENT" => false,
            _ => return Err("The NULL clause must be NULL or ABSENT.".into()),
        };
        Ok(Clause { keep_nulls, raw: raw.split(',').filter_map(|n| n.parse().ok()).collect() })
    }

    /// Marks the arguments that are calls of JSON constructors.
    fn mark(args: &mut [Expr]) -> Result<(), String> {
        let mut clause = Clause::of(args)?;
        for (i, arg) in args.iter().enumerate().skip(1) {
            let nested = matches!(&arg.node, ExprNode::Call { function, .. }
                if matches!(function.as_str(), "JSON_OBJECT" | "JSON_ARRAY" | "JSON"));
            if nested && !clause.raw.contains(&i) {
                clause.raw.push(i);
            }
        }
        let raw: Vec<String> = clause.raw.iter().map(usize::to_string).collect();
        let word = if clause.keep_nulls { "NULL" } else { "ABSENT" };
        let text = if raw.is_empty() { word.to_string() } else { format!("{word}:{}", raw.join(",")) };
        let ty = LogicalType::not_null(TypeKind::Char(text.len() as u32));
        args[0] = Expr::literal(Value::String(text), ty);
        Ok(())
    }
}

/// Type rule of `JSON_OBJECT(null clause, key, value, ...)`.
pub(super) fn resolve_object(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    if args.len().is_multiple_of(2) {
        return Err("Every key needs a value.".into());
    }
    for pair in args[1..].chunks(2) {
        if literal_str(&pair[0]).is_none() {
            return Err("The keys of JSON_OBJECT must be string literals.".into());
        }
        check(&pair[1].ty)?;
    }
    Clause::mark(args)?;
    Ok(LogicalType::string().with_nullable(false))
}

/// Type rule of `JSON_ARRAY(null clause, value, ...)`.
pub(super) fn resolve_array(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    args[1..].iter().try_for_each(|a| check(&a.ty))?;
    Clause::mark(args)?;
    Ok(LogicalType::string().with_nullable(false))
}

/// Where a constructor takes a value from, and the key before it.
struct Slot {
    /// `"key":`, ready to be written.
    key: String,
    arg: usize,
    ty: LogicalType,
    raw: bool,
}

/// Code of `JSON_OBJECT`; of equal keys the last counts.
pub(super) fn object_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let clause = Clause::of(info.args)?;
    let mut slots: Vec<(&str, Slot)> = Vec::new();
    for arg in (2..info.args.len()).step_by(2) {
        let name = literal_str(&info.args[arg - 1]).unwrap_or_default();
        let mut key = String::new();
        text::write_string(name, &mut key);
        key.push(':');
        let slot = Slot { key, arg, ty: info.args[arg].ty.clone(), raw: clause.raw.contains(&arg) };
        slots.retain(|(n, _)| *n != name);
        slots.push((name, slot));
    }
    slots.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    let slots = slots.into_iter().map(|(_, slot)| slot).collect();
    constructor(slots, clause.keep_nulls, '{', '}')
}

/// Code of `JSON_ARRAY`.
pub(super) fn array_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let clause = Clause::of(info.args)?;
    let slot =
        |arg: usize| Slot { key: String::new(), arg, ty: info.args[arg].ty.clone(), raw: clause.raw.contains(&arg) };
    let slots = (1..info.args.len()).map(slot).collect();
    constructor(slots, clause.keep_nulls, '[', ']')
}

fn constructor(slots: Vec<Slot>, keep_nulls: bool, open: char, close: char) -> MadeKernel {
    kernel(move |args, rows| {
        write_strings(rows, |row, out| {
            out.push(open);
            for slot in &slots {
                let value = value_at(&args[slot.arg], &slot.ty, row);
                if value == Value::Null && !keep_nulls {
                    continue;
                }
                if out.len() > 1 {
                    out.push(',');
                }
                out.push_str(&slot.key);
                match (&value, slot.raw) {
                    (Value::String(json), true) => out.push_str(json),
                    _ => write_value(&value, &slot.ty, out),
                }
            }
            out.push(close);
            Ok(true)
        })
    })
}

/// Type rule of `JSON_STRING(value)`.
pub(super) fn resolve_string(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    check(&args[0].ty)?;
    Ok(strict(LogicalType::string().kind, args))
}

/// Code of `JSON_STRING`: NULL stays NULL.
pub(super) fn string_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let ty = info.args[0].ty.clone();
    kernel(move |args, rows| {
        if ty.is_string() {
            let texts = strings(&args[0])?;
            return write_strings(rows, |row, out| {
                if !texts.is_null(row) {
                    text::write_string(texts.value(row), out);
                }
                Ok(!texts.is_null(row))
            });
        }
        write_strings(rows, |row, out| {
            let value = value_at(&args[0], &ty, row);
            if value == Value::Null {
                return Ok(false);
            }
            write_value(&value, &ty, out);
            Ok(true)
        })
    })
}
