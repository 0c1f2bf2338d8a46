//! One named state of an operator: rows by key.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use tidegate_api::{Error, Result, Schema};
use tidegate_state::{
    DEFAULT_MAX_PARALLELISM, Entry, KeyGroupRange, KeyedStore, Namespace, RunStore, StateError, Value, WriteBatch,
    key_group,
};

use super::asked::AskedSnapshot;
use super::codec::{RowDecoder, encode_list_row, encode_row, first_number};
use super::origin::{Origin, unreadable};
use crate::exchange::KeyHasher;

/// Rows read at a time.
const READ_ROWS: usize = 8192;

/// What a keyed state looks like.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyedLayout {
    /// Name within the operator.
    pub name: &'static str,
    /// Key columns. The first `partitioned` of them are those rows are spread by; others make the key
    /// distinct, such as the start of a session.
    pub key: Schema,
    /// How many key columns decide the key group.
    pub partitioned: usize,
    /// Value columns. Their names say what they mean.
    pub value: Schema,
    /// Whether a key has a list of rows, which grows at its end, and not one.
    pub is_list: bool,
}

impl KeyedLayout {
    /// Adds the rows of a key to `values`; returns how many there are.
    fn decode(&self, bytes: &[u8], values: &mut RowDecoder) -> Result<usize> {
        if self.is_list { values.read_elements(bytes) } else { values.read(bytes).map(|()| 1) }
    }
}

/// Rows by key, in a store of runs.
pub(crate) struct KeyedState {
    layout: KeyedLayout,
    partition_schema: SchemaRef,
    hasher: KeyHasher,
    store: Arc<Mutex<RunStore>>,
    asked: AskedSnapshot,
    scratch: Scratch,
    /// Rows that expire at this time or earlier are not there any more.
    now_ms: i64,
    /// Types the values had when they were written by the job that was restored.
    restored_values: Option<Schema>,
    /// Where it was restored from.
    origin: Option<Origin>,
}

/// Rows that a lookup has found.
pub(crate) struct Found {
    /// Which of the keys asked for, by position.
    pub rows: Vec<u32>,
    /// Value columns, one row for each of `rows`.
    pub values: Vec<ArrayRef>,
    /// When each expires.
    pub expires_ms: Vec<Option<i64>>,
}

/// Where one row lies in the scratch buffer: key, and value unless the row is removed.
struct EncodedRow {
    /// The first bytes of the key, which tell most keys apart: the key group and a number or two.
    prefix: u128,
    /// Its number among the rows.
    row: u32,
    key: Range<usize>,
    value: Option<Range<usize>>,
}

/// Buffers that live from call to call.
#[derive(Default)]
struct Scratch {
    bytes: Vec<u8>,
    rows: Vec<EncodedRow>,
}

impl Scratch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// Adds a row with the key that begins at `start` and ends at `middle`; the value, if any, comes behind it.
    fn push(&mut self, row: usize, start: usize, middle: usize, has_value: bool) {
        let mut prefix = [0; size_of::<u128>()];
        let key = &self.bytes[start..middle];
        let known = key.len().min(prefix.len());
        prefix[..known].copy_from_slice(&key[..known]);
        let value = has_value.then_some(middle..self.bytes.len());
        self.rows.push(EncodedRow { prefix: u128::from_be_bytes(prefix), row: row as u32, key: start..middle, value });
    }

    /// The batch of rows with these keys and key groups; those that `value` gives none are removed.
    fn batch(
        &mut self,
        keys: &[ArrayRef],
        groups: &[u16],
        expires_ms: Option<&[i64]>,
        value: impl Fn(usize, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<WriteBatch> {
        self.clear();
        for (row, group) in groups.iter().enumerate() {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&group.to_be_bytes());
            encode_row(keys, row, &mut self.bytes)?;
            let middle = self.bytes.len();
            let has_value = value(row, &mut self.bytes)?;
            self.push(row, start, middle, has_value);
        }
        self.sort();
        let mut batch = WriteBatch::with_capacity(groups.len(), self.bytes.len());
        for EncodedRow { row, key, value, .. } in &self.rows {
            let entry = value.clone().map_or(Entry::delete(), |value| {
                let put = Entry::put(&self.bytes[value]);
                expires_ms.map_or(put, |all| put.expiring_at(all[*row as usize]))
            });
            batch.push(&self.bytes[key.clone()], entry).map_err(failed)?;
        }
        Ok(batch)
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let rest = |row: &EncodedRow| &bytes[row.key.clone()];
        self.rows.sort_unstable_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| rest(a).cmp(rest(b))));
    }
}

impl KeyedState {
    pub(crate) fn new(
        layout: KeyedLayout,
        store: Arc<Mutex<RunStore>>,
        asked: AskedSnapshot,
        restored_values: Option<Schema>,
        origin: Option<Origin>,
    ) -> Result<KeyedState> {
        let partitioned: Vec<usize> = (0..layout.partitioned).collect();
        let partition = Schema::new(layout.key.fields[..layout.partitioned].to_vec());
        Ok(KeyedState {
            hasher: KeyHasher::new(&partitioned, &partition)?,
            partition_schema: partition.to_arrow(),
            layout,
            store,
            asked,
            scratch: Scratch::default(),
            now_ms: i64::MIN,
            restored_values,
            origin,
        })
    }

    /// Its name within the operator.
    pub(crate) fn name(&self) -> &'static str {
        self.layout.name
    }

    /// How many key columns decide the key group.
    pub(crate) fn partitioned(&self) -> usize {
        self.layout.partitioned
    }

    /// From now on, rows that expire at `now_ms` or earlier are not found.
    pub(crate) fn advance_clock(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    /// Adds rows to the lists of their keys, in this order.
    pub(crate) fn append(
        &mut self,
        namespace: Namespace,
        keys: &[ArrayRef],
        values: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let groups = self.key_groups(keys, rows)?;
        let (mut bytes, mut encoded, mut scratch) = (Vec::new(), Vec::with_capacity(rows), Vec::new());
        for (row, group) in groups.into_iter().enumerate() {
            let start = bytes.len();
            bytes.extend_from_slice(&group.to_be_bytes());
            encode_row(keys, row, &mut bytes)?;
            let middle = bytes.len();
            encode_list_row(values, row, &mut scratch, &mut bytes)?;
            encoded.push((start..middle, middle..bytes.len()));
        }
        // Stable: rows of a key stay in their order.
        encoded.sort_by(|a, b| bytes[a.0.clone()].cmp(&bytes[b.0.clone()]));
        let mut batch = WriteBatch::with_capacity(rows, bytes.len());
        for list in encoded.chunk_by(|a, b| bytes[a.0.clone()] == bytes[b.0.clone()]) {
            let elements = match list {
                [(_, one)] => &bytes[one.clone()],
                _ => {
                    scratch.clear();
                    list.iter().for_each(|(_, element)| scratch.extend_from_slice(&bytes[element.clone()]));
                    &scratch
                }
            };
            batch.push(&bytes[list[0].0.clone()], Entry::append(elements, list.len() as u32)).map_err(failed)?;
        }
        self.lock().write(namespace, batch).map_err(failed)
    }

    /// Puts rows of distinct keys in the place of what was there.
    pub(crate) fn write(
        &mut self,
        namespace: Namespace,
        keys: &[ArrayRef],
        values: &[ArrayRef],
        rows: usize,
    ) -> Result<()> {
        self.write_until(namespace, keys, values, rows, None)
    }

    /// The same; row `i` expires at `expires_ms[i]`.
    pub(crate) fn write_until(
        &mut self,
        namespace: Namespace,
        keys: &[ArrayRef],
        values: &[ArrayRef],
        rows: usize,
        expires_ms: Option<&[i64]>,
    ) -> Result<()> {
        self.change(namespace, keys, rows, expires_ms, |row, into| {
            encode_row(values, row, into)?;
            Ok(true)
        })
    }

    /// Removes the rows of these distinct keys.
    pub(crate) fn remove(&mut self, namespace: Namespace, keys: &[ArrayRef], rows: usize) -> Result<()> {
        self.change(namespace, keys, rows, None, |_, _| Ok(false))
    }

    /// Encodes a row for each key; `value` says whether there is one.
    fn change(
        &mut self,
        namespace: Namespace,
        keys: &[ArrayRef],
        rows: usize,
        expires_ms: Option<&[i64]>,
        value: impl Fn(usize, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let groups = self.key_groups(keys, rows)?;
        let batch = self.scratch.batch(keys, &groups, expires_ms, value)?;
        self.lock().write(namespace, batch).map_err(failed)
    }

    fn key_groups(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<u16>> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = keys[..self.layout.partitioned].to_vec();
        let batch = RecordBatch::try_new_with_options(self.partition_schema.clone(), columns, &options)?;
        let mut groups = Vec::with_capacity(rows);
        // Key groups are below the maximal parallelism, which is at most 32768.
        self.hasher.each(&batch, |hash| groups.push(key_group(hash, DEFAULT_MAX_PARALLELISM) as u16))?;
        Ok(groups)
    }

    /// Looks up rows by distinct keys. All rows of a list are found under its key, one after the other.
    pub(crate) fn get(&mut self, namespace: Namespace, keys: &[ArrayRef], rows: usize) -> Result<Found> {
        let stored = self.restored_values.as_ref().unwrap_or(&self.layout.value);
        let mut values = RowDecoder::new(&types(stored))?;
        let groups = self.key_groups(keys, rows)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        for (row, group) in groups.into_iter().enumerate() {
            let start = scratch.bytes.len();
            scratch.bytes.extend_from_slice(&group.to_be_bytes());
            encode_row(keys, row, &mut scratch.bytes)?;
            let end = scratch.bytes.len();
            scratch.push(row, start, end, false);
        }
        scratch.sort();
        let sorted: Vec<&[u8]> = scratch.rows.iter().map(|row| &scratch.bytes[row.key.clone()]).collect();
        let (mut found, mut expires_ms, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
        let mut answer = |index: usize, value: Option<Value<'_>>| {
            let Some(value) = value else { return };
            if outcome.is_ok() {
                outcome = self.layout.decode(value.bytes, &mut values).map(|rows| {
                    found.extend(std::iter::repeat_n(scratch.rows[index].row, rows));
                    expires_ms.extend(std::iter::repeat_n(value.expires_ms, rows));
                });
            }
        };
        let asked = self.lock().get(namespace, &sorted, self.now_ms, &mut answer);
        drop(sorted);
        self.scratch = scratch;
        asked.map_err(|e| self.unreadable(&e))?;
        outcome?;
        let values = self.as_declared(values.finish()?, found.len())?;
        Ok(Found { rows: found, values, expires_ms })
    }

    /// Begins the snapshot that was asked for, if one was: everything that belongs to it is written, and what is
    /// written from here on is not part of it.
    pub(crate) fn begin_snapshot(&self) -> Result<()> {
        self.asked.begin().map_err(failed)
    }

    /// Forgets a namespace.
    pub(crate) fn drop_namespace(&mut self, namespace: Namespace) -> Result<()> {
        self.lock().drop_namespace(namespace).map_err(failed)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.namespaces().into_iter().try_for_each(|namespace| self.drop_namespace(namespace))
    }

    /// The namespaces that hold something.
    pub(crate) fn namespaces(&self) -> Vec<Namespace> {
        self.lock().namespaces()
    }

    /// Gives the rows of a namespace that belong to these key groups, some thousand at a time: key columns,
    /// value columns, and when each row expires. `take` must not use this state.
    pub(crate) fn read(
        &self,
        namespace: Namespace,
        key_groups: KeyGroupRange,
        mut take: impl FnMut(Vec<ArrayRef>, Vec<ArrayRef>, &[Option<i64>]) -> Result<()>,
    ) -> Result<()> {
        let mut expires_ms = Vec::new();
        let mut keys = RowDecoder::new(&types(&self.layout.key))?;
        let stored = self.restored_values.as_ref().unwrap_or(&self.layout.value);
        let mut values = RowDecoder::new(&types(stored))?;
        let mut outcome = Ok(());
        let scanned = self.lock().scan(namespace, &key_groups.keys(), self.now_ms, &mut |key, value| {
            let row = || {
                for _ in 0..self.layout.decode(value.bytes, &mut values)? {
                    keys.read(key.get(2..).unwrap_or_default())?;
                    expires_ms.push(value.expires_ms);
                }
                if keys.rows() < READ_ROWS {
                    return Ok(());
                }
                self.hand_over(&mut keys, &mut values, &mut expires_ms, &mut take)
            };
            outcome = std::iter::once_with(row).next().unwrap_or(Ok(()));
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.map_err(|e| self.unreadable(&e))?;
        outcome?;
        self.hand_over(&mut keys, &mut values, &mut expires_ms, &mut take)
    }

    /// Gives the keys of a namespace in their order, as bytes, each with its first value column, a BIGINT that is
    /// not NULL. `take` must not use this state.
    pub(crate) fn visit(&self, namespace: Namespace, mut take: impl FnMut(&[u8], i64)) -> Result<()> {
        let mut outcome = Ok(());
        let keys = KeyGroupRange::all().keys();
        let scanned = self.lock().scan(namespace, &keys, self.now_ms, &mut |key, value| {
            match first_number(value.bytes) {
                Ok(number) => take(key, number),
                Err(error) => outcome = Err(error),
            }
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.map_err(|e| self.unreadable(&e))?;
        outcome
    }

    /// The key columns of keys as [`KeyedState::visit`] gives them.
    pub(crate) fn key_columns<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let mut columns = RowDecoder::new(&types(&self.layout.key))?;
        for key in keys {
            columns.read(key.get(2..).unwrap_or_default())?;
        }
        columns.finish()
    }

    /// Writes what waits in memory to a file if that is due, on this thread: for a restore, when nobody else does.
    pub(crate) fn flush_if_due(&self) -> Result<()> {
        let mut store = self.lock();
        while store.pressure().wants_flush {
            let Some(job) = store.flush_job(self.now_ms) else { break };
            let written = job.run().map_err(failed)?;
            store.apply_flush(written).map_err(failed)?;
        }
        Ok(())
    }

    fn hand_over(
        &self,
        keys: &mut RowDecoder,
        values: &mut RowDecoder,
        expires_ms: &mut Vec<Option<i64>>,
        take: &mut impl FnMut(Vec<ArrayRef>, Vec<ArrayRef>, &[Option<i64>]) -> Result<()>,
    ) -> Result<()> {
        let rows = keys.rows();
        if rows == 0 {
            return Ok(());
        }
        let keys = keys.finish()?;
        take(keys, self.as_declared(values.finish()?, rows)?, expires_ms)?;
        expires_ms.clear();
        Ok(())
    }

    /// Values as the layout wants them, with columns that were added or widened since they were written.
    fn as_declared(&self, mut values: Vec<ArrayRef>, rows: usize) -> Result<Vec<ArrayRef>> {
        for (i, ty) in types(&self.layout.value).iter().enumerate() {
            match values.get_mut(i) {
                Some(column) if column.data_type() == ty => {}
                Some(column) => *column = arrow::compute::cast(column, ty)?,
                None => values.push(arrow::array::new_null_array(ty, rows)),
            }
        }
        Ok(values)
    }

    /// The key groups whose rows it holds.
    pub(crate) fn owned(&self) -> KeyGroupRange {
        self.lock().key_groups()
    }

    fn unreadable(&self, error: &StateError) -> Error {
        unreadable(error, self.origin.as_ref())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, RunStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn types(schema: &Schema) -> Vec<DataType> {
    schema.fields.iter().map(|f| f.ty.to_arrow()).collect()
}

/// A failure to write state as one of the job.
pub(crate) fn failed(error: StateError) -> Error {
    Error::job(format!("State cannot be kept: {error}"))
}
