//! Arrays, maps and rows: making them, and getting at their parts. `a[i]` counts from 1; what is not
//! there is NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StructArray, UInt32Array, types::*};
use arrow::buffer::OffsetBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{interleave, take};
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, RowError};
use tidegate_api::types::{Field, LogicalType, TypeKind, list_field, row_fields};
use tidegate_api::value::Value;

use super::args::{count, expect, expect_int, literal_int};
use super::coerce::least_restrictive;
use super::columns::{arrow_failure, collect, ints, typed};
use super::compare::same_value;
use super::value_array::{array_from_values, map_array, value_at};
use super::{CallInfo, Kernel, ScalarFunction};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "ARRAY", resolve: array, kernel: array_kernel },
    ScalarFunction { name: "MAP", resolve: map, kernel: map_kernel },
    ScalarFunction { name: "ROW", resolve: row, kernel: row_kernel },
    ScalarFunction { name: "ITEM", resolve: item, kernel: item_kernel },
    ScalarFunction { name: "CARDINALITY", resolve: cardinality, kernel: cardinality_kernel },
    ScalarFunction { name: "ELEMENT", resolve: element, kernel: element_kernel },
];

const DIFFERENT: &str = "Parameters must be of the same type";

fn array(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    if args.is_empty() {
        return Err("Require at least 1 argument".into());
    }
    let element = least_restrictive(args).map_err(|_| DIFFERENT)?;
    Ok(LogicalType::not_null(TypeKind::Array(Box::new(element))))
}

fn array_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let TypeKind::Array(element) = &call.ty.kind else { return Err("ARRAY makes an array".into()) };
    let field = list_field(element);
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let values = row_by_row(args, rows, field.data_type())?;
        let offsets = OffsetBuffer::from_repeated_length(args.len(), rows);
        Ok(Arc::new(ListArray::try_new(field.clone(), offsets, values, None).map_err(arrow_failure)?) as ArrayRef)
    }))
}

/// The cells of `columns` in row order: all of row 0, all of row 1, ...
fn row_by_row(columns: &[ArrayRef], rows: usize, data_type: &arrow::datatypes::DataType) -> Result<ArrayRef, RowError> {
    if columns.is_empty() {
        return Ok(arrow::array::new_empty_array(data_type));
    }
    let places: Vec<(usize, usize)> = (0..rows).flat_map(|row| (0..columns.len()).map(move |c| (c, row))).collect();
    let columns: Vec<&dyn Array> = columns.iter().map(|c| c.as_ref()).collect();
    interleave(&columns, &places).map_err(arrow_failure)
}

fn map(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    if args.len() % 2 == 1 {
        return Err("A map needs as many values as keys.".into());
    }
    let null = LogicalType::not_null(TypeKind::Null);
    if args.is_empty() {
        return Ok(LogicalType::not_null(TypeKind::Map(Box::new(null.clone()), Box::new(null))));
    }
    let (mut keys, mut values): (Vec<Expr>, Vec<Expr>) = (Vec::new(), Vec::new());
    for (i, arg) in args.drain(..).enumerate() {
        if i % 2 == 0 { keys.push(arg) } else { values.push(arg) }
    }
    if keys.iter().chain(&values).any(|e| e.ty.kind == TypeKind::Null) {
        return Err(DIFFERENT.into());
    }
    let common = |side: &mut [Expr]| least_restrictive(side).map_err(|_| DIFFERENT);
    let (key, value) = (common(&mut keys)?, common(&mut values)?);
    args.extend(keys.into_iter().zip(values).flat_map(|(k, v)| [k, v]));
    Ok(LogicalType::not_null(TypeKind::Map(Box::new(key), Box::new(value))))
}

fn map_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let ty = call.ty.clone();
    let TypeKind::Map(key, value) = ty.kind.clone() else { return Err("MAP makes a map".into()) };
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let keys: Vec<ArrayRef> = args.iter().step_by(2).cloned().collect();
        no_null_keys(&keys)?;
        if keys.len() == 1 {
            let offsets = OffsetBuffer::from_repeated_length(1, rows);
            return map_array(&ty, offsets, keys[0].clone(), args[1].clone(), None).map_err(arrow_failure);
        }
        let maps: Vec<Value> = (0..rows)
            .map(|row| {
                let pairs = args.chunks(2).map(|p| (value_at(&p[0], &key, row), value_at(&p[1], &value, row)));
                Value::Map(last_wins(pairs))
            })
            .collect();
        Ok(array_from_values(&maps, &ty))
    }))
}

fn no_null_keys(keys: &[ArrayRef]) -> Result<(), RowError> {
    let mut nulls = keys.iter().filter_map(|k| k.logical_nulls()).filter(|n| n.null_count() > 0);
    if let Some(nulls) = nulls.next() {
        let row = (0..nulls.len()).find(|i| nulls.is_null(*i)).unwrap_or(0);
        return Err(RowError::new(row, NULL_KEY));
    }
    Ok(())
}

/// Arrow's maps have no NULL keys.
pub(super) const NULL_KEY: &str = "a map with a NULL key is not supported";

/// Entries of which a later one with the same key takes the earlier one's place.
pub(super) fn last_wins(pairs: impl Iterator<Item = (Value, Value)>) -> Vec<(Value, Value)> {
    let mut entries: Vec<(Value, Value)> = Vec::new();
    for (key, value) in pairs {
        match entries.iter_mut().find(|(k, _)| same_value(k, &key)) {
            Some(entry) => entry.1 = value,
            None => entries.push((key, value)),
        }
    }
    entries
}

fn row(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..)?;
    let fields = args.iter().enumerate().map(|(i, a)| Field::new(format!("EXPR${i}"), a.ty.clone())).collect();
    Ok(LogicalType::not_null(TypeKind::Row(fields)))
}

fn row_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let TypeKind::Row(fields) = &call.ty.kind else { return Err("ROW makes a row".into()) };
    let fields = row_fields(fields);
    Ok(Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| {
        Ok(Arc::new(StructArray::try_new(fields.clone(), args.to_vec(), None).map_err(arrow_failure)?) as ArrayRef)
    }))
}

fn item(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    match args[0].ty.kind.clone() {
        TypeKind::Array(element) => {
            if !args[1].ty.is_integer() && args[1].ty.kind != TypeKind::Null {
                return Err("An array index must be an integer.".into());
            }
            expect_int(args, 1)?;
            if let Some(index) = literal_int(&args[1]).filter(|i| *i < 1) {
                return Err(format!("Array element access needs an index starting at 1 but was {index}."));
            }
            Ok(element.with_nullable(true))
        }
        TypeKind::Map(key, value) => {
            expect(args, 1, &key)?;
            Ok(value.with_nullable(true))
        }
        TypeKind::Row(fields) => match literal_int(&args[1]) {
            Some(i) if i >= 1 && (i as usize) <= fields.len() => Ok(fields[i as usize - 1].ty.with_nullable(true)),
            _ => Err("A row field is taken by a constant index within the row.".into()),
        },
        _ => Err("Supported form(s): '<ARRAY>[<INTEGER>]', '<MAP>[<KEY>]', '<ROW>[<INTEGER>]'".into()),
    }
}

/// Flink's generated code gives a primitive's default where a part that is declared NOT NULL is
/// missing, since it has no NULL to give.
fn missing_default(part: &LogicalType) -> Option<Value> {
    if part.nullable {
        return None;
    }
    Some(match part.kind {
        TypeKind::Boolean => Value::Boolean(false),
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int | TypeKind::BigInt => Value::Int(-1),
        TypeKind::Float | TypeKind::Double => Value::Double(-1.0),
        _ => return None,
    })
}

fn item_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    match call.args[0].ty.kind.clone() {
        TypeKind::Array(element) => Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
            let (list, index): (&ListArray, &Int32Array) = (typed(&args[0])?, ints(&args[1])?);
            let place = |row: usize| {
                if list.is_null(row) || index.is_null(row) {
                    return None;
                }
                let i = index.value(row);
                (i >= 1 && i <= list.value_length(row)).then(|| (list.value_offsets()[row] + i - 1) as u32)
            };
            let found = take(list.values(), &(0..rows).map(place).collect::<UInt32Array>(), None);
            let asked = |row: usize| list.is_valid(row) && index.is_valid(row);
            default_missing(found.map_err(arrow_failure)?, &element, rows, asked)
        })),
        TypeKind::Map(key, value) => Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
            let map = args[0].as_map_opt().ok_or_else(|| RowError::new(0, "internal error: not a map"))?;
            let offsets = map.value_offsets();
            let mut places = Vec::with_capacity(rows);
            for row in 0..rows {
                let entries = offsets[row] as usize..offsets[row + 1] as usize;
                let hit = if map.is_null(row) { None } else { find_key(map.keys(), &key, entries, &args[1], row) };
                places.push(hit.map(|i| i as u32));
            }
            let found = take(map.values(), &UInt32Array::from(places), None).map_err(arrow_failure)?;
            default_missing(found, &value, rows, |row| map.is_valid(row) && args[1].is_valid(row))
        })),
        TypeKind::Row(_) => {
            let index = literal_int(&call.args[1]).unwrap_or(1) as usize - 1;
            Ok(Box::new(move |args: &[ArrayRef], _: usize, _: &EvalContext| super::eval::field(&args[0], index)))
        }
        _ => Err("ITEM takes an array, a map or a row".into()),
    }
}

fn find_key(
    keys: &ArrayRef,
    ty: &LogicalType,
    entries: std::ops::Range<usize>,
    wanted: &ArrayRef,
    row: usize,
) -> Option<usize> {
    if wanted.is_null(row) {
        return None;
    }
    if let (Some(keys), Some(wanted)) = (keys.as_string_opt::<i32>(), wanted.as_string_opt::<i32>()) {
        let wanted = wanted.value(row);
        return entries.into_iter().find(|i| keys.value(*i) == wanted);
    }
    let wanted = value_at(wanted, ty, row);
    entries.into_iter().find(|i| same_value(&value_at(keys, ty, *i), &wanted))
}

fn default_missing(
    found: ArrayRef,
    part: &LogicalType,
    rows: usize,
    asked: impl Fn(usize) -> bool,
) -> Result<ArrayRef, RowError> {
    let Some(default) = missing_default(part).filter(|_| found.null_count() > 0) else { return Ok(found) };
    let missing: BooleanArray = (0..rows).map(|row| Some(found.is_null(row) && asked(row))).collect();
    let defaults = array_from_values(std::iter::repeat_n(&default, rows), part);
    zip(&missing, &defaults, &found).map_err(arrow_failure)
}

fn cardinality(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    match args[0].ty.kind {
        TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Multiset(_) => {
            Ok(LogicalType { kind: TypeKind::Int, nullable: args[0].ty.nullable })
        }
        _ => Err("Supported form(s): 'CARDINALITY(<MULTISET>)', 'CARDINALITY(<ARRAY>)', 'CARDINALITY(<MAP>)'".into()),
    }
}

fn cardinality_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(|args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let offsets = match args[0].as_list_opt::<i32>() {
            Some(list) => list.value_offsets(),
            None => args[0].as_map_opt().map(|m| m.value_offsets()).unwrap_or_default(),
        };
        let size = |row: usize| args[0].is_valid(row).then(|| offsets[row + 1] - offsets[row]);
        Ok(Arc::new((0..rows).map(size).collect::<Int32Array>()) as ArrayRef)
    }))
}

fn element(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    match &args[0].ty.kind {
        TypeKind::Array(element) => Ok(element.with_nullable(element.nullable || args[0].ty.nullable)),
        _ => Err("Supported form(s): 'ELEMENT(<ARRAY>)'".into()),
    }
}

fn element_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(|args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let list: &ListArray = typed(&args[0])?;
        let places = collect::<u32, UInt32Array>(rows, |row| match list.value_length(row) {
            _ if list.is_null(row) => Ok(None),
            0 => Ok(None),
            1 => Ok(Some(list.value_offsets()[row] as u32)),
            _ => Err("Array has more than one element.".into()),
        })?;
        take(list.values(), places.as_primitive::<UInt32Type>(), None).map_err(arrow_failure)
    }))
}
