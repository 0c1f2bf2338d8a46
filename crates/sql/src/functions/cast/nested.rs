//! Arrays, maps and rows: each part is cast, the shape stays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use tidegate_api::function::RowError;
use tidegate_api::types::{LogicalType, TypeKind, list_field, row_fields};
use tidegate_window::Zone;

use super::Cast;
use crate::functions::columns::{arrow_failure, typed};
use crate::functions::eval::field;
use crate::functions::value_array::map_array;

/// The conversion between two types of the same shape.
pub fn kernel(from: &LogicalType, to: &LogicalType, lenient: bool, zone: Zone) -> Result<Cast, String> {
    let part = |from: &LogicalType, to: &LogicalType| super::with_zone(from, to, lenient, zone.clone());
    let count = LogicalType::new(TypeKind::Int);
    Ok(match (&from.kind, &to.kind) {
        (TypeKind::Array(f), TypeKind::Array(t)) => {
            let (mut items, element) = (part(f, t)?, list_field(t));
            Box::new(move |a| {
                let list: &ListArray = typed(a)?;
                let values = items(list.values()).map_err(|e| outer(e, list.value_offsets()))?;
                let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
                Ok(Arc::new(ListArray::try_new(element.clone(), offsets, values, nulls).map_err(arrow_failure)?))
            })
        }
        (TypeKind::Map(k, v), TypeKind::Map(l, w)) => maps(part(k, l)?, part(v, w)?, to.clone()),
        (TypeKind::Multiset(k), TypeKind::Multiset(l)) => maps(part(k, l)?, part(&count, &count)?, to.clone()),
        (TypeKind::Row(f), TypeKind::Row(t)) if f.len() == t.len() => {
            let mut parts: Vec<Cast> = f.iter().zip(t).map(|(f, t)| part(&f.ty, &t.ty)).collect::<Result<_, _>>()?;
            let fields = row_fields(t);
            Box::new(move |a| {
                let row: &StructArray = typed(a)?;
                let columns: Result<Vec<ArrayRef>, RowError> =
                    parts.iter_mut().enumerate().map(|(i, cast)| cast(&field(a, i)?)).collect();
                let row = StructArray::try_new_with_length(fields.clone(), columns?, row.nulls().cloned(), row.len());
                Ok(Arc::new(row.map_err(arrow_failure)?))
            })
        }
        _ => return Err(format!("Cast function cannot convert value of type {from} to type {to}")),
    })
}

fn maps(mut keys: Cast, mut values: Cast, to: LogicalType) -> Cast {
    Box::new(move |a| {
        let map = a.as_map_opt().ok_or_else(|| RowError::new(0, "internal error: not a map"))?;
        let k = keys(map.keys()).map_err(|e| outer(e, map.value_offsets()))?;
        let v = values(map.values()).map_err(|e| outer(e, map.value_offsets()))?;
        map_array(&to, map.offsets().clone(), k, v, map.nulls().cloned()).map_err(arrow_failure)
    })
}

/// An error of an element, told by the row that holds it.
fn outer(e: RowError, offsets: &[i32]) -> RowError {
    let row = offsets.partition_point(|o| *o as usize <= e.row).saturating_sub(1);
    RowError::new(row, e.message)
}
