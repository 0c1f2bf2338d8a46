//! `ARRAY_*` and `MAP_*`: functions over whole arrays and maps, one row's values at a time.
//! Elements are the same if `IS NOT DISTINCT FROM` says so: NULL equals NULL.

use std::cmp::Ordering;

use arrow::array::ArrayRef;
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{Field, LogicalType, MAX_LENGTH, TypeKind};
use tidegate_api::value::Value;

use super::args::{any_nullable, count, expect, expect_boolean, expect_int, expect_string};
use super::coerce::{common_type, unify};
use super::collection::{NULL_KEY, last_wins};
use super::compare::{order_values, same_value};
use super::value_array::{array_from_values, value_at};
use super::{CallInfo, Kernel, ScalarFunction};

type RowFunction = fn(&[Value]) -> Result<Value, String>;

macro_rules! functions {
    ($($name:literal, $resolve:expr, $f:expr;)*) => {
        /// The functions of this module.
        pub static FUNCTIONS: &[ScalarFunction] =
            &[$(ScalarFunction { name: $name, resolve: $resolve, kernel: |c| Ok(per_row(c, $f)) }),*];
    };
}

functions! {
    "ARRAY_CONTAINS", contains, |a| with_array(a, |items| Value::Boolean(position(items, &a[1]).is_some()));
    "ARRAY_POSITION", find, |a| strict(a, |items| Value::Int(position(items, &a[1]).map_or(0, |i| i as i64 + 1)));
    "ARRAY_DISTINCT", one_array, |a| with_array(a, |items| Value::Array(distinct(items)));
    "ARRAY_REVERSE", one_array, |a| with_array(a, |items| Value::Array(items.iter().rev().cloned().collect()));
    "ARRAY_REMOVE", with_element, |a| with_array(a, |items| Value::Array(without(items, &a[1])));
    "ARRAY_APPEND", with_element, |a| with_array(a, |items| Value::Array(chain(items, &a[1..])));
    "ARRAY_PREPEND", with_element, |a| with_array(a, |items| Value::Array(chain(&a[1..], items)));
    "ARRAY_SLICE", slicing, |a| strict(a, |items| Value::Array(slice(items, &a[1..])));
    "ARRAY_SORT", sorting, |a| strict(a, |items| Value::Array(sort(items, &a[1..])));
    "ARRAY_MAX", extreme, |a| with_array(a, |items| best(items, Ordering::Greater));
    "ARRAY_MIN", extreme, |a| with_array(a, |items| best(items, Ordering::Less));
    "ARRAY_JOIN", joining, |a| strict(a, |items| join(items, &a[1..]));
    "ARRAY_CONCAT", same_arrays, |a| all_arrays(a, |a| a.concat());
    "ARRAY_UNION", two_arrays, |a| all_arrays(a, |a| distinct(&a.concat()));
    "ARRAY_EXCEPT", two_arrays, |a| all_arrays(a, |a| except(a[0], a[1]));
    "ARRAY_INTERSECT", two_arrays, |a| all_arrays(a, |a| intersect(a[0], a[1]));
    "MAP_KEYS", keys_of, |a| with_map(a, |entries| entries.iter().map(|(k, _)| k.clone()).collect());
    "MAP_VALUES", values_of, |a| with_map(a, |entries| entries.iter().map(|(_, v)| v.clone()).collect());
    "MAP_ENTRIES", entries_of, |a| with_map(a, |entries| {
        entries.iter().map(|(k, v)| Value::Row(vec![k.clone(), v.clone()])).collect()
    });
    "MAP_FROM_ARRAYS", from_arrays, zip_arrays;
    "MAP_UNION", same_maps, union_maps;
}

/// A kernel that reads a row's arguments as values.
fn per_row(call: &CallInfo<'_>, f: RowFunction) -> Box<dyn Kernel> {
    let types: Vec<LogicalType> = call.args.iter().map(|a| a.ty.clone()).collect();
    let ty = call.ty.clone();
    Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let mut results = Vec::with_capacity(rows);
        for row in 0..rows {
            let values: Vec<Value> = args.iter().zip(&types).map(|(a, t)| value_at(a, t, row)).collect();
            results.push(f(&values).map_err(|why| RowError::new(row, why))?);
        }
        Ok(array_from_values(&results, &ty))
    })
}

fn element_of(args: &[Expr], i: usize) -> Result<LogicalType, String> {
    match &args[i].ty.kind {
        TypeKind::Array(element) => Ok(element.as_ref().clone()),
        _ => Err(format!("Argument {} must be an ARRAY, but is {}.", i + 1, args[i].ty.with_nullable(true))),
    }
}

fn array_of(element: LogicalType, nullable: bool) -> LogicalType {
    LogicalType { kind: TypeKind::Array(Box::new(element)), nullable }
}

fn contains(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    with_element(args)?;
    Ok(LogicalType { kind: TypeKind::Boolean, nullable: args[0].ty.nullable })
}

fn find(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    with_element(args)?;
    Ok(LogicalType { kind: TypeKind::Int, nullable: any_nullable(args) })
}

fn one_array(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    element_of(args, 0)?;
    Ok(args[0].ty.clone())
}

/// An array and a value of its element type; both meet in a common element type.
fn with_element(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    let element = element_of(args, 0)?;
    let common = common_type(&[element, args[1].ty.clone()])
        .ok_or_else(|| format!("{} is no element of {}.", args[1].ty.with_nullable(true), args[0].ty))?;
    let array = array_of(common.clone(), args[0].ty.nullable);
    expect(args, 0, &array)?;
    expect(args, 1, &common)?;
    Ok(array)
}

fn slicing(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=3)?;
    element_of(args, 0)?;
    for i in 1..args.len() {
        expect_int(args, i)?;
    }
    Ok(args[0].ty.with_nullable(any_nullable(args)))
}

fn sorting(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=3)?;
    element_of(args, 0)?;
    for i in 1..args.len() {
        expect_boolean(args, i)?;
    }
    Ok(args[0].ty.with_nullable(any_nullable(args)))
}

fn extreme(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    Ok(element_of(args, 0)?.with_nullable(true))
}

fn joining(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=3)?;
    if !element_of(args, 0)?.is_string() {
        return Err("Supported form(s): 'ARRAY_JOIN(<ARRAY<STRING>>, <STRING>[, <STRING>])'".into());
    }
    for i in 1..args.len() {
        expect_string(args, i)?;
    }
    Ok(LogicalType { kind: TypeKind::Varchar(MAX_LENGTH), nullable: any_nullable(args) })
}

fn same_arrays(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    for i in 0..args.len() {
        element_of(args, i)?;
    }
    unify(args)
}

fn two_arrays(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    same_arrays(args)
}

fn map_parts(args: &[Expr], i: usize) -> Result<(LogicalType, LogicalType), String> {
    match &args[i].ty.kind {
        TypeKind::Map(k, v) => Ok((k.as_ref().clone(), v.as_ref().clone())),
        _ => Err(format!("Argument {} must be a MAP, but is {}.", i + 1, args[i].ty.with_nullable(true))),
    }
}

fn keys_of(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    Ok(array_of(map_parts(args, 0)?.0, args[0].ty.nullable))
}

fn values_of(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    Ok(array_of(map_parts(args, 0)?.1, args[0].ty.nullable))
}

fn entries_of(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    let (key, value) = map_parts(args, 0)?;
    let entry = TypeKind::Row(vec![Field::new("key", key), Field::new("value", value)]);
    Ok(array_of(LogicalType::new(entry), args[0].ty.nullable))
}

fn from_arrays(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    let map = TypeKind::Map(Box::new(element_of(args, 0)?), Box::new(element_of(args, 1)?));
    Ok(LogicalType { kind: map, nullable: any_nullable(args) })
}

fn same_maps(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    for i in 0..args.len() {
        map_parts(args, i)?;
    }
    unify(args)
}

fn items(value: &Value) -> Option<&[Value]> {
    if let Value::Array(items) = value { Some(items) } else { None }
}

/// NULL only if the array is.
fn with_array(args: &[Value], f: impl FnOnce(&[Value]) -> Value) -> Result<Value, String> {
    Ok(items(&args[0]).map_or(Value::Null, f))
}

/// NULL if any argument is.
fn strict(args: &[Value], f: impl FnOnce(&[Value]) -> Value) -> Result<Value, String> {
    if args.contains(&Value::Null) { Ok(Value::Null) } else { with_array(args, f) }
}

fn all_arrays(args: &[Value], f: impl FnOnce(&[&[Value]]) -> Vec<Value>) -> Result<Value, String> {
    let arrays: Option<Vec<&[Value]>> = args.iter().map(items).collect();
    Ok(arrays.map_or(Value::Null, |arrays| Value::Array(f(&arrays))))
}

fn with_map(args: &[Value], f: impl FnOnce(&[(Value, Value)]) -> Vec<Value>) -> Result<Value, String> {
    Ok(if let Value::Map(entries) = &args[0] { Value::Array(f(entries)) } else { Value::Null })
}

fn position(items: &[Value], wanted: &Value) -> Option<usize> {
    items.iter().position(|item| same_value(item, wanted))
}

fn distinct(items: &[Value]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if position(&kept, item).is_none() {
            kept.push(item.clone());
        }
    }
    kept
}

fn without(items: &[Value], unwanted: &Value) -> Vec<Value> {
    items.iter().filter(|item| !same_value(item, unwanted)).cloned().collect()
}

fn chain(first: &[Value], second: &[Value]) -> Vec<Value> {
    first.iter().chain(second).cloned().collect()
}

/// Items of the first that are not in the second, each once.
fn except(first: &[Value], second: &[Value]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for item in first {
        if position(second, item).is_none() && position(&kept, item).is_none() {
            kept.push(item.clone());
        }
    }
    kept
}

fn intersect(first: &[Value], second: &[Value]) -> Vec<Value> {
    distinct(&first.iter().filter(|item| position(second, item).is_some()).cloned().collect::<Vec<_>>())
}

/// From and to, counted from 1 and both included; negative ones count from the end.
fn slice(items: &[Value], bounds: &[Value]) -> Vec<Value> {
    let length = items.len() as i64;
    let place = |bound: Option<&Value>, otherwise: i64| match bound {
        Some(Value::Int(i)) if *i < 0 => length + i + 1,
        Some(Value::Int(i)) => *i,
        _ => otherwise,
    };
    let from = place(bounds.first(), 1).max(1);
    let to = place(bounds.get(1), length).min(length);
    if from > to { Vec::new() } else { items[from as usize - 1..to as usize].to_vec() }
}

/// Ascending unless the first flag is FALSE; NULLs lead if ascending, unless the second flag tells.
fn sort(items: &[Value], flags: &[Value]) -> Vec<Value> {
    let ascending = flags.first() != Some(&Value::Boolean(false));
    let nulls_first = match flags.get(1) {
        Some(Value::Boolean(first)) => *first,
        _ => ascending,
    };
    let (nulls, mut rest): (Vec<Value>, Vec<Value>) = items.iter().cloned().partition(|v| *v == Value::Null);
    rest.sort_by(|a, b| {
        let order = order_values(a, b).unwrap_or(Ordering::Equal);
        if ascending { order } else { order.reverse() }
    });
    if nulls_first { chain(&nulls, &rest) } else { chain(&rest, &nulls) }
}

fn best(items: &[Value], wanted: Ordering) -> Value {
    let mut best = &Value::Null;
    for item in items.iter().filter(|i| **i != Value::Null) {
        if *best == Value::Null || order_values(item, best) == Some(wanted) {
            best = item;
        }
    }
    best.clone()
}

/// NULL items are left out, or shown as the third argument.
fn join(items: &[Value], texts: &[Value]) -> Value {
    let text = |v: Option<&Value>| if let Some(Value::String(s)) = v { Some(s.clone()) } else { None };
    let (separator, null) = (text(texts.first()).unwrap_or_default(), text(texts.get(1)));
    let parts: Vec<String> = items.iter().filter_map(|v| text(Some(v)).or_else(|| null.clone())).collect();
    Value::String(parts.join(&separator))
}

fn zip_arrays(args: &[Value]) -> Result<Value, String> {
    let (Some(keys), Some(values)) = (items(&args[0]), items(&args[1])) else { return Ok(Value::Null) };
    if keys.len() != values.len() {
        return Err(format!(
            "Invalid function MAP_FROM_ARRAYS call:\nThe length of the keys array {} is not equal to the length of \
             the values array {}",
            keys.len(),
            values.len()
        ));
    }
    if keys.contains(&Value::Null) {
        return Err(NULL_KEY.into());
    }
    Ok(Value::Map(last_wins(keys.iter().cloned().zip(values.iter().cloned()))))
}

fn union_maps(args: &[Value]) -> Result<Value, String> {
    let mut all = Vec::new();
    for arg in args {
        match arg {
            Value::Map(entries) => all.extend(entries.iter().cloned()),
            _ => return Ok(Value::Null),
        }
    }
    Ok(Value::Map(last_wins(all.into_iter())))
}
