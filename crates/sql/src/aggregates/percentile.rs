//! PERCENTILE: the exact one, over all values of a group.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use tidegate_api::function::{GroupedAccumulator, RowError};
use tidegate_api::{Error, Result};

use super::counted::Counted;
use super::rows::{count_state, counting, for_each, items, list_of, list_state, update_and_retract};

/// `PERCENTILE(x, p)`: the value at `p * (n - 1)` of the sorted values, interpolated; `p` is one
/// fraction or several.
pub(super) struct Percentile {
    fractions: Vec<f64>,
    as_list: bool,
    held: Counted<Order>,
}

/// A number in Java's order.
#[derive(Clone, Copy, PartialEq)]
struct Order(f64);

impl Eq for Order {}
impl PartialOrd for Order {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Order {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
impl From<&Order> for Order {
    fn from(value: &Order) -> Self {
        *value
    }
}

impl Percentile {
    /// At these fractions; an array of results if `as_list`.
    pub(super) fn new(fractions: Vec<f64>, as_list: bool) -> Self {
        Percentile { fractions, as_list, held: Counted::new() }
    }

    fn add(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        back: bool,
    ) -> Result<(), RowError> {
        let failed = |e: arrow::error::ArrowError| RowError::new(0, e.to_string());
        self.held.grow(n);
        let values = cast(&args[0], &DataType::Float64).map_err(failed)?;
        let values = values.as_primitive::<Float64Type>();
        let weights = args.get(1).map(|w| cast(w, &DataType::Int64)).transpose().map_err(failed)?;
        let weights = weights.as_ref().map(|w| w.as_primitive::<Int64Type>());
        let mask = counting(selected, values.nulls());
        let (held, sign) = (&mut self.held, if back { -1 } else { 1 });
        for_each(groups, mask.as_ref(), |row, g| {
            let weight = weights.map_or(1, |w| if w.is_null(row) { 0 } else { w.value(row) });
            if weight > 0 {
                held.add(g, &Order(values.value(row)), weight * sign);
            }
        });
        Ok(())
    }

    fn at(&self, group: u32, fraction: f64) -> Option<f64> {
        let values = self.held.of(group);
        let total: i64 = values.values().filter(|c| **c > 0).sum();
        if total == 0 {
            return None;
        }
        // Ranks count from one, as in Flink: the last digits of the result depend on it.
        let position = (total - 1) as f64 * fraction + 1.0;
        let (low, high) = (position.floor() as i64, position.ceil() as i64);
        let pick = |index: i64| {
            let mut before = 0;
            values.iter().filter(|(_, c)| **c > 0).find_map(|(v, c)| {
                before += c;
                (before > index).then_some(v.0)
            })
        };
        let (a, b) = (pick(low - 1)?, pick(high - 1)?);
        Some(if low == high || a == b { a } else { (high as f64 - position) * a + (position - low as f64) * b })
    }
}

impl GroupedAccumulator for Percentile {
    update_and_retract!();

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.held.grow(n);
        let (values, (lists, counts)) = (list_state(states, 0)?, count_state(states, 1)?);
        let numbers = values.values().as_primitive_opt::<Float64Type>();
        let numbers = numbers.ok_or_else(|| Error::internal("the partial state of PERCENTILE holds no numbers"))?;
        for (row, group) in groups.iter().enumerate() {
            for (value, count) in items(values, row).zip(items(lists, row)) {
                self.held.add(*group as usize, &Order(numbers.value(value)), counts.value(count));
            }
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let held = || groups.iter().map(|g| self.held.of(*g));
        let values = Float64Array::from_iter_values(held().flat_map(|m| m.keys().map(|k| k.0)));
        let values = list_of(Arc::new(values), held().map(|m| m.len()), None)?;
        Ok(vec![Arc::new(values), self.held.counts(groups)?])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        if !self.as_list {
            let p = *self.fractions.first().ok_or_else(|| Error::internal("PERCENTILE without a fraction"))?;
            return Ok(Arc::new(groups.iter().map(|g| self.at(*g, p)).collect::<Float64Array>()));
        }
        let present: Vec<bool> = groups.iter().map(|g| !self.held.of(*g).is_empty()).collect();
        let values: Float64Array = groups
            .iter()
            .zip(&present)
            .filter(|(_, p)| **p)
            .flat_map(|(g, _)| self.fractions.iter().map(|p| self.at(*g, *p)))
            .collect();
        let lengths = present.iter().map(|p| if *p { self.fractions.len() } else { 0 });
        Ok(Arc::new(list_of(Arc::new(values), lengths, Some(present.clone().into()))?))
    }

    fn clear(&mut self) {
        self.held.clear();
    }
}
