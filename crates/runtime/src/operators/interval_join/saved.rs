//! One side of the join: its rows in memory, and those in the state.
//!
//! Rows are saved once, in lists by key, in a namespace for each bucket of time; nobody takes one of them back, for
//! its bucket goes as a whole when the watermark has passed what it may meet. That a saved row has met a partner
//! is noted beside it, by its number, if that matters.
//!
//! On the `disk` backend all rows that are saved may leave memory. A batch then looks its keys up in each bucket
//! near it. Where rows without a partner are wanted, the bucket that the watermark has come to comes back as a
//! whole, so that they go out in time: its rows must fit into memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, UInt32Array};
use arrow::compute::take;
use hashbrown::HashSet;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Field, Result, Schema, Timestamp};
use tidegate_state::{KeyGroupRange, Namespace};

use super::buckets::Buckets;
use super::rows::{Row, SideRows};
use crate::operator::OperatorStates;
use crate::operators::aggregates::{BATCH_ROWS, output_batch};
use crate::operators::group_state::{bigint, numbers};
use crate::operators::join::{JoinKeys, Side};
use crate::operators::progress::OpenSet;
use crate::state::{Changes, KeyedLayout, KeyedState, Tracking};

/// Columns of a saved row before those of the input: time, number, whether it has met a partner.
const FACTS: usize = 3;
/// Rows whose first partner is noted in memory before it is written.
const NOTES_MAX: usize = 65_536;

/// See the module.
pub(super) struct JoinSide {
    pub(super) rows: SideRows,
    /// Whether rows without a partner are wanted.
    pub(super) is_kept: bool,
    pub(super) buckets: Buckets,
    schema: Arc<arrow::datatypes::Schema>,
    state: Option<SideState>,
}

struct SideState {
    rows: KeyedState,
    /// Numbers of saved rows that have met a partner, if that matters.
    matches: Option<KeyedState>,
    /// Those that are not written yet, by bucket: key and number.
    notes: BTreeMap<i64, HashSet<(u32, i64)>>,
    noted: usize,
    /// Keys with rows that are not saved.
    changes: Changes,
    /// Rows with smaller numbers have been saved.
    saved_below: i64,
    /// Rows with smaller numbers are in the state alone if their bucket has any such.
    cold_below: i64,
}

/// Rows as the state has them.
#[derive(Default)]
pub(super) struct StoredRows {
    pub(super) times: Vec<Timestamp>,
    pub(super) numbers: Vec<i64>,
    pub(super) matched: Vec<bool>,
    pub(super) columns: Vec<ArrayRef>,
}

impl StoredRows {
    /// Reads value columns, of which only these rows are wanted.
    fn of(values: &[ArrayRef], wanted: impl Fn(Timestamp, i64) -> bool) -> Result<(StoredRows, UInt32Array)> {
        let (times, arrivals) = (numbers(values.first())?, numbers(values.get(1))?);
        let matched = values.get(2).and_then(|column| column.as_boolean_opt());
        let matched = matched.ok_or_else(|| Error::internal("saved rows without what they have met"))?;
        let rows = (0..times.len() as u32).filter(|row| {
            let row = *row as usize;
            wanted(times.value(row), arrivals.value(row))
        });
        let rows = UInt32Array::from_iter_values(rows);
        let at = || rows.values().iter().map(|row| *row as usize);
        let columns = values[FACTS..].iter().map(|column| take(column, &rows, None));
        let stored = StoredRows {
            times: at().map(|row| times.value(row)).collect(),
            numbers: at().map(|row| arrivals.value(row)).collect(),
            matched: at().map(|row| matched.value(row)).collect(),
            columns: columns.collect::<Result<_, _>>()?,
        };
        Ok((stored, rows))
    }
}

impl JoinSide {
    /// The side with these key columns. Rows without a partner are wanted if `is_kept`; `meaning` is the join's.
    pub(super) fn open(
        side: Side,
        states: &OperatorStates,
        key: Vec<Field>,
        input: &Schema,
        is_kept: bool,
        meaning: &str,
        span: i64,
    ) -> Result<JoinSide> {
        let names = [("left", "left-matched"), ("right", "right-matched")][side.index()];
        let facts = [
            bigint(&format!("time in {meaning}")),
            bigint("number"),
            Field::new("matched", LogicalType::new(TypeKind::Boolean)),
        ];
        let value = Schema::new(facts.into_iter().chain(input.fields.iter().cloned()).collect());
        let partitioned = key.len();
        let key = Schema::new(key);
        let layout = |name, value| KeyedLayout { name, key: key.clone(), partitioned, value, is_list: true };
        let rows = states.keyed(layout(names.0, value))?;
        let matches = match is_kept {
            true => states.keyed(layout(names.1, Schema::new(vec![bigint("number")])))?,
            false => None,
        };
        let state = rows.map(|rows| SideState {
            rows,
            matches,
            notes: BTreeMap::new(),
            noted: 0,
            changes: Changes::new(Tracking::Changed),
            saved_below: 0,
            cold_below: 0,
        });
        let rows = SideRows::default();
        Ok(JoinSide { rows, is_kept, buckets: Buckets::new(span), schema: input.to_arrow(), state })
    }

    /// Rows of these keys are about to come; there are `known` keys.
    pub(super) fn mark(&mut self, keys: &[u32], known: usize) {
        self.rows.know(known);
        if let Some(state) = &mut self.state {
            // Everything is written at the barrier: nothing is noted.
            let _ = state.changes.mark(keys, known);
        }
    }

    /// Number of rows, in memory or not.
    pub(super) fn len(&self) -> u64 {
        self.rows.len() as u64 + self.buckets.cold()
    }

    /// A saved row of this bucket has met its first partner.
    pub(super) fn note_match(&mut self, bucket: i64, key: u32, number: i64) {
        if let Some(state) = &mut self.state {
            state.noted += usize::from(state.notes.entry(bucket).or_default().insert((key, number)));
        }
    }

    /// The same of a row in memory, which need not be saved.
    pub(super) fn note_match_in_memory(&mut self, time: Timestamp, key: u32, number: i64) {
        if self.state.as_ref().is_some_and(|state| number < state.saved_below) {
            self.note_match(self.buckets.of(time), key, number);
        }
    }

    /// Writes which rows have met partners, if these are many.
    pub(super) fn save_many_notes(&mut self, keys: &JoinKeys) -> Result<()> {
        let Some(state) = self.state.as_mut().filter(|state| state.noted >= NOTES_MAX) else { return Ok(()) };
        state.save_notes(keys)
    }

    /// Writes which rows have met partners: their keys are about to get other numbers.
    pub(super) fn save_notes(&mut self, keys: &JoinKeys) -> Result<()> {
        self.state.as_mut().map_or(Ok(()), |state| state.save_notes(keys))
    }

    /// Writes what came since the last time. Rows that come later have numbers from `next_number` on.
    pub(super) fn save(&mut self, keys: &JoinKeys, next_number: i64) -> Result<()> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let mut new: BTreeMap<i64, Vec<(u32, Row)>> = BTreeMap::new();
        for key in state.changes.take(keys.known()) {
            for row in self.rows.of_key(key).filter(|row| row.number >= state.saved_below) {
                new.entry(self.buckets.of(row.time)).or_default().push((key, *row));
            }
        }
        for (bucket, rows) in new {
            self.buckets.add_saved(bucket);
            for rows in rows.chunks(BATCH_ROWS) {
                let of: Vec<u32> = rows.iter().map(|(key, _)| *key).collect();
                let places: Vec<_> = rows.iter().map(|(_, row)| row.place).collect();
                let column = |f: fn(&Row) -> i64| -> ArrayRef {
                    Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, row)| f(row))))
                };
                let matched: BooleanArray = rows.iter().map(|(_, row)| Some(row.matched)).collect();
                let mut values = vec![column(|row| row.time), column(|row| row.number), Arc::new(matched) as ArrayRef];
                values.extend(self.rows.held.gather(&places)?);
                state.rows.append(Namespace(bucket), &keys.columns(&of)?, &values, rows.len())?;
            }
        }
        state.saved_below = next_number;
        state.save_notes(keys)
    }

    /// Lets saved rows leave memory. `until` says up to which time rows are over: a bucket that the watermark has
    /// come to stays, if rows without a partner are wanted.
    pub(super) fn evict(&mut self, until: Timestamp) {
        let Some(state) = &mut self.state else { return };
        state.cold_below = state.saved_below;
        let mut gone: BTreeMap<i64, u64> = BTreeMap::new();
        let (buckets, is_kept) = (&self.buckets, self.is_kept);
        let stays = |time| is_kept && (buckets.is_loaded(time) || buckets.span(buckets.of(time)).start <= until);
        self.rows.evict(stays, |time| *gone.entry(buckets.of(time)).or_default() += 1);
        gone.into_iter().for_each(|(bucket, rows)| self.buckets.add_cold(bucket, rows));
    }

    /// Rows of a bucket that are in the state alone, of these keys, and for each the position of its key. Rows with
    /// times up to `until` are over.
    pub(super) fn look_up(
        &mut self,
        bucket: i64,
        keys: &[ArrayRef],
        len: usize,
        until: Timestamp,
    ) -> Result<(StoredRows, Vec<u32>)> {
        let Some(state) = &mut self.state else { return Ok(Default::default()) };
        let found = state.rows.get(Namespace(bucket), keys, len)?;
        let cold_below = state.cold_below;
        let (rows, wanted) = StoredRows::of(&found.values, |time, number| time > until && number < cold_below)?;
        Ok((rows, wanted.values().iter().map(|row| found.rows[*row as usize]).collect()))
    }

    /// Brings the first bucket back that holds times up to `until` and rows in the state alone; false if there is
    /// none. Rows with times up to `passed` went before.
    pub(super) fn load_next(&mut self, keys: &mut JoinKeys, until: Timestamp, passed: Timestamp) -> Result<bool> {
        let Some(bucket) = self.buckets.first_cold(until) else { return Ok(false) };
        let cold_below = self.state.as_ref().map_or(i64::MAX, |state| state.cold_below);
        self.load(bucket, keys, passed, cold_below)?;
        self.buckets.loaded(bucket);
        Ok(true)
    }

    /// Takes the rows of a bucket into memory that have a later time than `passed` and a smaller number than
    /// `below`.
    fn load(&mut self, bucket: i64, keys: &mut JoinKeys, passed: Timestamp, below: i64) -> Result<()> {
        let JoinSide { rows, schema, state: Some(state), .. } = self else { return Ok(()) };
        let met = state.read_matches(bucket, keys)?;
        let notes = state.notes.get(&bucket);
        state.rows.read(Namespace(bucket), KeyGroupRange::all(), |columns, values, _| {
            let (stored, wanted) = StoredRows::of(&values, |time, number| time > passed && number < below)?;
            if wanted.is_empty() {
                return Ok(());
            }
            let columns = columns.iter().map(|column| take(column, &wanted, None));
            let of = keys.intern(&columns.collect::<Result<Vec<_>, _>>()?, wanted.len())?;
            rows.know(keys.known());
            let batch = rows.held.hold(output_batch(schema, stored.columns, wanted.len())?, wanted.len());
            for (row, key) in of.into_iter().enumerate() {
                let (time, number) = (stored.times[row], stored.numbers[row]);
                let has_met = |known: &HashSet<(u32, i64)>| known.contains(&(key, number));
                let matched = stored.matched[row] || has_met(&met) || notes.is_some_and(has_met);
                rows.insert(key, Row { time, number, place: (batch, row as u32), matched });
            }
            Ok(())
        })
    }

    /// Forgets the buckets whose rows all have times up to `until`.
    pub(super) fn drop_over(&mut self, until: Timestamp) -> Result<()> {
        let over = self.buckets.take_over(until);
        let Some(state) = &mut self.state else { return Ok(()) };
        for bucket in over {
            state.rows.drop_namespace(Namespace(bucket))?;
            if let Some(matches) = &mut state.matches {
                matches.drop_namespace(Namespace(bucket))?;
            }
            state.noted -= state.notes.remove(&bucket).map_or(0, |notes| notes.len());
        }
        Ok(())
    }

    /// Only these keys are left, numbered from 0 in this order; the others have no rows in memory.
    pub(super) fn renumber(&mut self, kept: &[u32]) {
        self.rows.renumber(kept);
        if let Some(state) = &mut self.state {
            // Those that go have nothing to be saved.
            let _ = state.changes.keep(kept);
        }
    }

    /// What is in the state, for a checkpoint: with what is there alone, so that a restore need not count it.
    pub(super) fn open_sets(&self) -> Vec<OpenSet> {
        let Some(state) = &self.state else { return Vec::new() };
        let mut rows: BTreeMap<i64, u64> = self.buckets.all_cold().collect();
        self.rows.times().for_each(|time| *rows.entry(self.buckets.of(time)).or_default() += 1);
        rows.into_iter().map(|(bucket, rows)| OpenSet::of_rows(&state.rows, bucket, rows as i64)).collect()
    }

    /// Goes on from what was saved, which stays where it is if rows may leave memory. `saved` says what that was,
    /// if it is known; rows with times up to `until` are over.
    pub(super) fn restore(
        &mut self,
        keys: &mut JoinKeys,
        on_disk: bool,
        saved: Option<&[OpenSet]>,
        until: Timestamp,
        next_number: i64,
    ) -> Result<()> {
        let Some(state) = &mut self.state else { return Ok(()) };
        (state.saved_below, state.cold_below) = (next_number, next_number);
        for Namespace(bucket) in state.rows.namespaces() {
            self.buckets.add_saved(bucket);
            if !on_disk {
                self.load(bucket, keys, until, i64::MAX)?;
                continue;
            }
            let known = saved.and_then(|sets| sets.iter().find(|set| set.namespace == bucket));
            let rows = match (known, saved) {
                (Some(set), _) => set.rows() as u64,
                (None, Some(_)) => 0,
                (None, None) => self.count(bucket, until)?,
            };
            self.buckets.add_cold(bucket, rows);
        }
        // As before: what the watermark has come to is in memory.
        while self.is_kept && self.load_next(keys, until, until)? {}
        Ok(())
    }

    /// Rows of a bucket in the state that are not over.
    fn count(&self, bucket: i64, until: Timestamp) -> Result<u64> {
        let Some(state) = &self.state else { return Ok(0) };
        let mut count = 0;
        state.rows.read(Namespace(bucket), KeyGroupRange::all(), |_, values, _| {
            count += numbers(values.first())?.values().iter().filter(|time| **time > until).count() as u64;
            Ok(())
        })?;
        Ok(count)
    }

    /// The state of rows, if anything is kept.
    pub(super) fn state(&self) -> Option<&KeyedState> {
        self.state.as_ref().map(|state| &state.rows)
    }
}

impl SideState {
    /// Writes which saved rows have met partners since the last time.
    fn save_notes(&mut self, keys: &JoinKeys) -> Result<()> {
        self.noted = 0;
        let notes = std::mem::take(&mut self.notes);
        let Some(matches) = &mut self.matches else { return Ok(()) };
        for (bucket, notes) in notes {
            let notes: Vec<(u32, i64)> = notes.into_iter().collect();
            for notes in notes.chunks(BATCH_ROWS) {
                let of: Vec<u32> = notes.iter().map(|(key, _)| *key).collect();
                let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(notes.iter().map(|note| note.1)));
                matches.append(Namespace(bucket), &keys.columns(&of)?, &[numbers], notes.len())?;
            }
        }
        Ok(())
    }

    /// Keys and numbers of the saved rows of a bucket that have met partners, as far as that is written beside them.
    fn read_matches(&self, bucket: i64, keys: &mut JoinKeys) -> Result<HashSet<(u32, i64)>> {
        let mut met = HashSet::new();
        let Some(matches) = &self.matches else { return Ok(met) };
        matches.read(Namespace(bucket), KeyGroupRange::all(), |columns, values, rows| {
            let of = keys.intern(&columns, rows.len())?;
            met.extend(of.into_iter().zip(numbers(values.first())?.values().iter().copied()));
            Ok(())
        })?;
        Ok(met)
    }
}
