//! Aggregates that keep values: FIRST_VALUE, LAST_VALUE, LISTAGG, ARRAY_AGG, COLLECT, SINGLE_VALUE.
//!
//! All go by arrival order, whatever the event time says. A retracted value is taken out at its first
//! occurrence.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, ListArray, MapArray, StringArray, StructArray};
use arrow::array::{AsArray, Int32Array};
use arrow::datatypes::{DataType, Field};
use tidegate_api::function::{GroupedAccumulator, RowError};
use tidegate_api::{Error, Result};

use super::rows::{RowCodec, counting, for_each, items, list_state, update_and_retract};

/// What becomes of the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gathering {
    /// The first that is not NULL.
    First,
    /// The last that is not NULL.
    Last,
    /// All that are not NULL, joined by a separator; NULL if there are none.
    Joined(String),
    /// All, NULL included; NULL if there are none.
    Array,
    /// Each with its number of occurrences, without NULL; empty if there are none.
    Multiset,
    /// The only one; more fail the job.
    Single,
}

type Bytes = Box<[u8]>;

/// An aggregate over the list of its values.
pub(super) struct Gather {
    what: Gathering,
    codec: RowCodec,
    null: Bytes,
    retracts: bool,
    groups: Vec<Vec<Bytes>>,
}

impl Gather {
    /// An aggregate over values of the Arrow type `ty`.
    pub(super) fn new(what: Gathering, ty: &DataType, retracts: bool) -> Result<Self> {
        let codec = RowCodec::new(ty)?;
        let null = codec.encode(&arrow::array::new_null_array(ty, 1))?.row(0).data().into();
        Ok(Gather { what, codec, null, retracts, groups: Vec::new() })
    }

    fn keeps_nulls(&self) -> bool {
        matches!(self.what, Gathering::Array | Gathering::Single)
    }

    fn grow(&mut self, n: usize) {
        self.groups.resize_with(n.max(self.groups.len()), Vec::new);
    }

    fn push(&mut self, group: usize, bytes: &[u8]) -> Result<(), &'static str> {
        let list = &mut self.groups[group];
        match self.what {
            Gathering::First if !self.retracts && !list.is_empty() => {}
            Gathering::Last if !self.retracts && !list.is_empty() => list[0] = bytes.into(),
            Gathering::Single if !list.is_empty() => return Err("SINGLE_VALUE received more than one value"),
            _ => list.push(bytes.into()),
        }
        Ok(())
    }

    fn add(
        &mut self,
        args: &[ArrayRef],
        selected: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
        back: bool,
    ) -> Result<(), RowError> {
        self.grow(n);
        let values = &args[0];
        let rows = self.codec.encode(values).map_err(|e| RowError::new(0, e.to_string()))?;
        let nulls = if self.keeps_nulls() { None } else { values.logical_nulls() };
        let mask = counting(selected, nulls.as_ref());
        let mut failed = Ok(());
        for_each(groups, mask.as_ref(), |row, g| {
            let bytes = rows.row(row).data();
            if back {
                if let Some(at) = self.groups[g].iter().position(|b| **b == *bytes) {
                    self.groups[g].remove(at);
                }
            } else if let Err(message) = self.push(g, bytes) {
                failed = Err(RowError::new(row, message));
            }
        });
        failed
    }

    fn one_of(&self, group: u32, pick: fn(&[Bytes]) -> Option<&Bytes>) -> &[u8] {
        pick(&self.groups[group as usize]).unwrap_or(&self.null)
    }

    fn joined(&self, groups: &[u32], separator: &str) -> Result<ArrayRef> {
        let lists = self.lists(groups, false)?;
        let strings = lists.values().as_string_opt::<i32>();
        let strings = strings.ok_or_else(|| Error::internal("LISTAGG takes strings"))?;
        let joined = lists.offsets().windows(2).map(|w| {
            let (from, to) = (w[0] as usize, w[1] as usize);
            (from < to).then(|| (from..to).map(|i| strings.value(i)).collect::<Vec<_>>().join(separator))
        });
        Ok(Arc::new(joined.collect::<StringArray>()))
    }

    /// The values of each group; NULL instead of an empty list if `empty_is_null`.
    fn lists(&self, groups: &[u32], empty_is_null: bool) -> Result<ListArray> {
        self.codec.decode_lists(groups.iter().map(|g| {
            let list = &self.groups[*g as usize];
            (!empty_is_null || !list.is_empty()).then(|| list.iter().map(|b| &b[..]))
        }))
    }

    fn multisets(&self, groups: &[u32]) -> Result<ArrayRef> {
        let mut counts: Vec<i32> = Vec::new();
        let lists = self.codec.decode_lists(groups.iter().map(|g| {
            let mut order: Vec<&[u8]> = Vec::new();
            let mut seen: hashbrown::HashMap<&[u8], usize> = hashbrown::HashMap::new();
            for bytes in &self.groups[*g as usize] {
                let position = *seen.entry(&bytes[..]).or_insert_with(|| {
                    order.push(&bytes[..]);
                    counts.push(0);
                    counts.len() - 1
                });
                counts[position] += 1;
            }
            Some(order)
        }))?;
        let key = Arc::new(Field::new("key", self.codec.data_type().clone(), false));
        let value = Arc::new(Field::new("value", DataType::Int32, true));
        let entries = StructArray::try_new(
            vec![key, value].into(),
            vec![lists.values().clone(), Arc::new(Int32Array::from(counts))],
            None,
        )?;
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        Ok(Arc::new(MapArray::try_new(field, lists.offsets().clone(), entries, None, false)?))
    }
}

impl GroupedAccumulator for Gather {
    update_and_retract!();

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.grow(n);
        let lists = list_state(states, 0)?;
        let rows = self.codec.encode(lists.values())?;
        for (row, group) in groups.iter().enumerate() {
            for i in items(lists, row) {
                self.push(*group as usize, rows.row(i).data()).map_err(Error::job)?;
            }
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.lists(groups, false)?)])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        match &self.what {
            Gathering::First | Gathering::Single => {
                self.codec.decode(groups.iter().map(|g| self.one_of(*g, |l| l.first())))
            }
            Gathering::Last => self.codec.decode(groups.iter().map(|g| self.one_of(*g, |l| l.last()))),
            Gathering::Joined(separator) => self.joined(groups, separator),
            Gathering::Array => Ok(Arc::new(self.lists(groups, true)?)),
            Gathering::Multiset => self.multisets(groups),
        }
    }

    fn clear(&mut self) {
        self.groups.clear();
    }
}
