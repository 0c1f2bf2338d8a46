//! UNNEST: one row per element of a collection.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Int32Type, Schema as ArrowSchema};
use tidegate_api::function::Evaluator;
use tidegate_api::graph::UnnestSpec;
use tidegate_api::types::TypeKind;
use tidegate_api::{Batch, Error, LogicalType, Result, Schema, Watermark};

use super::aggregates::{BATCH_ROWS, output_batch};
use crate::operator::{Operator, OperatorContext, Output};

/// See the module.
pub(super) struct Unnest {
    collection: Box<dyn Evaluator>,
    ty: LogicalType,
    with_ordinality: bool,
    outer: bool,
    ctx: OperatorContext,
    watermark: Watermark,
    schema: Arc<ArrowSchema>,
}

impl Unnest {
    pub(super) fn new(spec: &UnnestSpec, input: &Schema, output: &Schema, ctx: OperatorContext) -> Result<Self> {
        let ty = spec.collection.ty.clone();
        if !matches!(ty.kind, TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Multiset(_)) {
            return Err(Error::invalid(format!("UNNEST takes an array, map or multiset, but got {ty}")));
        }
        Ok(Unnest {
            collection: ctx.functions.compile(&spec.collection, input, &ctx.zone)?,
            ty,
            with_ordinality: spec.with_ordinality,
            outer: spec.outer,
            ctx,
            watermark: Watermark::MIN,
            schema: output.to_arrow(),
        })
    }

    /// The columns that all elements of this collection column make, before the ordinal.
    fn element_columns(&self, collection: &ArrayRef) -> Vec<ArrayRef> {
        let flat = |ty: &LogicalType, values: &ArrayRef| match (&ty.kind, values.as_struct_opt()) {
            // A NULL row has NULL fields.
            (TypeKind::Row(_), Some(rows)) => rows.columns().iter().map(|c| with_nulls_of(c, rows.nulls())).collect(),
            _ => vec![values.clone()],
        };
        match (&self.ty.kind, collection.as_list_opt::<i32>(), collection.as_map_opt()) {
            (TypeKind::Array(ty), Some(list), _) => flat(ty, list.values()),
            (TypeKind::Multiset(ty), _, Some(map)) => flat(ty, map.keys()),
            (_, _, Some(map)) => vec![map.keys().clone(), map.values().clone()],
            _ => Vec::new(),
        }
    }

    /// For each output row: input row, element (if any), position from 1 (if any).
    fn expand(&self, collection: &ArrayRef) -> Result<Vec<(u32, Option<u32>, Option<i32>)>> {
        let list = collection.as_list_opt::<i32>().map(|l| l.value_offsets());
        let offsets = list.or_else(|| collection.as_map_opt().map(|m| m.value_offsets()));
        let offsets = offsets.ok_or_else(|| Error::internal("UNNEST of a column that is no collection"))?;
        let counts = match (&self.ty.kind, collection.as_map_opt()) {
            (TypeKind::Multiset(_), Some(map)) => map.values().as_primitive_opt::<Int32Type>(),
            _ => None,
        };
        let mut rows = Vec::new();
        for row in 0..collection.len() {
            let before = rows.len();
            if collection.is_valid(row) {
                for element in offsets[row]..offsets[row + 1] {
                    for _ in 0..counts.map_or(1, |c| c.value(element as usize)) {
                        rows.push((row as u32, Some(element as u32), Some((rows.len() - before) as i32 + 1)));
                    }
                }
            }
            if self.outer && rows.len() == before {
                rows.push((row as u32, None, None));
            }
        }
        Ok(rows)
    }
}

fn with_nulls_of(column: &ArrayRef, nulls: Option<&arrow::buffer::NullBuffer>) -> ArrayRef {
    let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else {
        return column.clone();
    };
    let valid = UInt32Array::from_iter((0..column.len() as u32).map(|i| nulls.is_valid(i as usize).then_some(i)));
    take(column, &valid, None).unwrap_or_else(|_| column.clone())
}

impl Operator for Unnest {
    fn process_batch(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<()> {
        let collection = self.collection.evaluate(&batch.columns, &self.ctx.eval_context(self.watermark))?;
        let elements = self.element_columns(&collection);
        for chunk in self.expand(&collection)?.chunks(BATCH_ROWS) {
            let rows = UInt32Array::from_iter_values(chunk.iter().map(|r| r.0));
            let picked = UInt32Array::from_iter(chunk.iter().map(|r| r.1));
            let input = batch.columns.columns().iter().map(|c| take(c, &rows, None));
            let mut columns: Vec<ArrayRef> =
                input.chain(elements.iter().map(|c| take(c, &picked, None))).collect::<Result<_, _>>()?;
            if self.with_ordinality {
                columns.push(Arc::new(Int32Array::from_iter(chunk.iter().map(|r| r.2))));
            }
            let kinds = batch.kinds.as_ref().map(|k| chunk.iter().map(|r| k.value(r.0 as usize)).collect());
            out.batch(Batch { columns: output_batch(&self.schema, columns, chunk.len())?, kinds });
        }
        Ok(())
    }

    fn process_watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<()> {
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }
}
