//! GROUP BY without a window: a table that changes with every row.
//!
//! Flink updates its result row by row: the first row of a key gives `+I`, each later one `-U` and `+U`
//! if the result changed, and the one that empties a group `-D`. To do that on columns, a batch is
//! worked off in rounds: round `r` takes the `r`-th row of each key, so a round holds a key once and can
//! be evaluated before and after as a whole. Then the changes go out in the order of the rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, UInt8Array, UInt32Array, make_comparator};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{SortOptions, interleave, take};
use arrow::datatypes::{DataType, Schema as ArrowSchema};
use tidegate_api::graph::GroupAggregateSpec;
use tidegate_api::{Batch, Field, Result, RowKind, Schema};
use tidegate_state::{KeyGroupRange, Namespace};

use super::aggregates::{Accumulators, AggregateSet, BATCH_ROWS, Rows, column_types, output_batch};
use super::group_state::{GroupState, numbers};
use super::recency::{GroupSize, Recency, Room};
use super::ttl::TimeToLive;
use crate::operator::{Operator, OperatorContext, Output};
use crate::state::Changes;
use crate::table::GroupTable;

/// The slot of a key without state.
const NO_SLOT: u32 = u32::MAX;

/// Results of a batch's rounds, and the changes that point into them.
#[derive(Default)]
struct Work {
    /// Result columns before and after each round.
    results: Vec<Vec<ArrayRef>>,
    changes: Vec<Change>,
    /// The slots of the last round. If the next has the same, as always without keys, its results before
    /// are the last ones after.
    slots: Vec<u32>,
}

/// One emitted row: which input row caused it, and where its results lie.
struct Change {
    row: u32,
    kind: RowKind,
    /// Result set and position in it.
    at: (usize, usize),
}

/// See the module.
pub(super) struct GroupAggregate {
    keys: Vec<usize>,
    key_types: Vec<DataType>,
    set: AggregateSet,
    needed: Vec<usize>,
    updating_input: bool,
    emit_update_before: bool,
    table: GroupTable,
    /// For each key of the table, where its accumulators are.
    slot_of: Vec<u32>,
    accumulators: Accumulators,
    /// Rows in each slot.
    row_counts: Vec<i64>,
    dead: usize,
    groups: Vec<u32>,
    /// For each key, how many rows of the batch at hand it had so far; all zero between batches.
    seen: Vec<u32>,
    schema: Arc<ArrowSchema>,
    saved: Option<GroupState>,
    /// Keys whose groups changed since they were last saved.
    changes: Changes,
    /// Groups that are in the state alone.
    cold: u64,
    /// If groups may leave memory.
    room: Option<Room>,
    recency: Recency,
    size: GroupSize,
    /// If keys expire.
    ttl: Option<TimeToLive>,
}

impl GroupAggregate {
    pub(super) fn new(
        spec: &GroupAggregateSpec,
        input: &Schema,
        output: &Schema,
        ctx: &OperatorContext,
    ) -> Result<Self> {
        let key_types = column_types(input, &spec.keys)?;
        let set = AggregateSet::new(spec.aggregates.clone(), ctx.functions.clone(), spec.updating_input);
        let key_fields: Vec<Field> = spec.keys.iter().map(|k| input.fields[*k].clone()).collect();
        let saved = GroupState::open(&ctx.states, "groups", &key_fields, &[], &[], &set)?;
        let room = saved.as_ref().and_then(GroupState::table_bytes).map(Room::new);
        Ok(GroupAggregate {
            changes: Changes::new(ctx.states.tracking()),
            cold: 0,
            recency: Recency::new(room.is_some()),
            room,
            size: GroupSize::default(),
            ttl: ctx.state_ttl_ms.map(|ms| TimeToLive::new(ms, ctx.now_ms.clone())),
            saved,
            keys: spec.keys.clone(),
            table: GroupTable::new(&key_types)?,
            key_types,
            accumulators: set.accumulators()?,
            needed: set.columns().collect(),
            set,
            updating_input: spec.updating_input,
            emit_update_before: spec.emit_update_before,
            slot_of: Vec::new(),
            row_counts: Vec::new(),
            dead: 0,
            groups: Vec::new(),
            seen: Vec::new(),
            schema: output.to_arrow(),
        })
    }

    /// `SELECT DISTINCT` over insertions: the first row of each key. `known` are the keys that were there before
    /// the batch, `found` those of them that were in the state alone.
    fn first_rows(&self, known: usize, found: &[u32]) -> Vec<Change> {
        let mut next = known as u32;
        let mut found = found.iter().peekable();
        let mut changes = Vec::new();
        for (row, group) in self.groups.iter().enumerate() {
            if *group == next {
                if found.next_if_eq(&group).is_none() {
                    changes.push(Change { row: row as u32, kind: RowKind::Insert, at: (0, 0) });
                }
                next += 1;
            }
        }
        changes
    }

    /// True if keys have no accumulators: a key that is there is all there is to it.
    fn is_distinct(&self) -> bool {
        self.set.len() == 0 && !self.updating_input && self.ttl.is_none()
    }

    /// Forgets the groups of these keys that have expired.
    fn expire(&mut self, keys: impl Iterator<Item = u32>) {
        let Some(ttl) = &self.ttl else { return };
        for key in keys {
            let slot = &mut self.slot_of[key as usize];
            if *slot != NO_SLOT && ttl.is_expired(*slot) {
                *slot = NO_SLOT;
                self.dead += 1;
            }
        }
    }

    /// Has groups of new keys back from the state. Returns these keys, ascending.
    fn fetch(&mut self, known: usize) -> Result<Vec<u32>> {
        let mut back = Vec::new();
        if self.cold == 0 || self.table.len() == known {
            return Ok(back);
        }
        let Some(mut saved) = self.saved.take() else { return Ok(back) };
        let new: Vec<u32> = (known as u32..self.table.len() as u32).collect();
        for new in new.chunks(BATCH_ROWS) {
            let found = saved.keyed.get(Namespace::GLOBAL, &self.table.keys(new)?, new.len())?;
            let keys: Vec<u32> = found.rows.iter().map(|row| new[*row as usize]).collect();
            self.cold = self.cold.saturating_sub(keys.len() as u64);
            self.add_saved(&keys, &found.values, &found.expires_ms, saved.widths())?;
            back.extend(keys);
        }
        self.saved = Some(saved);
        back.sort_unstable();
        Ok(back)
    }

    /// The rows of each round, by their position in the batch. Costs by the rows, not by the keys ever seen.
    fn rounds(&mut self) -> Vec<Vec<u32>> {
        self.seen.resize(self.table.len(), 0);
        let mut rounds: Vec<Vec<u32>> = Vec::new();
        for (row, group) in self.groups.iter().enumerate() {
            let round = &mut self.seen[*group as usize];
            match rounds.get_mut(*round as usize) {
                Some(rows) => rows.push(row as u32),
                None => rounds.push(vec![row as u32]),
            }
            *round += 1;
        }
        self.groups.iter().for_each(|group| self.seen[*group as usize] = 0);
        rounds
    }

    /// The slots of these rows, with their counts brought up to date; true if any is new.
    fn slots(&mut self, batch: &Batch, rows: &[u32]) -> (Vec<u32>, bool) {
        let known = self.row_counts.len();
        let mut slots = Vec::with_capacity(rows.len());
        for row in rows {
            let slot = &mut self.slot_of[self.groups[*row as usize] as usize];
            if *slot == NO_SLOT {
                *slot = self.row_counts.len() as u32;
                self.row_counts.push(0);
            }
            self.row_counts[*slot as usize] += if batch.kind(*row as usize).is_addition() { 1 } else { -1 };
            slots.push(*slot);
            if let Some(ttl) = &mut self.ttl {
                ttl.write(*slot);
            }
        }
        (slots, self.row_counts.len() > known)
    }

    /// Works one round off.
    fn round(&mut self, batch: &Batch, mut rows: Vec<u32>, work: &mut Work) -> Result<()> {
        if self.updating_input {
            // What takes back from nothing is ignored.
            let has_state = |row: &u32| self.slot_of[self.groups[*row as usize] as usize] != NO_SLOT;
            rows.retain(|row| batch.kind(*row as usize).is_addition() || has_state(row));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let first_new = self.row_counts.len() as u32;
        let (slots, any_new) = self.slots(batch, &rows);
        let n = self.row_counts.len();
        if any_new {
            let nothing = Rows::slice(batch, 0, 0, &[]);
            self.accumulators.update(&self.set, &nothing.columns, None, &[], n)?;
        }
        if slots != work.slots {
            work.results.push(self.accumulators.results(&slots)?);
        }
        let before = work.results.len() - 1;
        let taken = match rows.len() {
            1 => Rows::slice(batch, rows[0] as usize, 1, &self.needed),
            len if len == batch.num_rows() => Rows::all(batch),
            _ => Rows::take(batch, rows.clone(), &self.needed)?,
        };
        self.accumulators.update(&self.set, &taken.columns, taken.kinds.as_ref(), &slots, n)?;
        work.results.push(self.accumulators.results(&slots)?);
        let same = equal_rows(&work.results[before], &work.results[before + 1], slots.len())?;
        for (i, (row, slot)) in rows.iter().zip(&slots).enumerate() {
            let mut change = |kind, set| work.changes.push(Change { row: *row, kind, at: (set, i) });
            if self.updating_input && self.row_counts[*slot as usize] == 0 {
                if *slot < first_new {
                    change(RowKind::Delete, before);
                }
                self.slot_of[self.groups[*row as usize] as usize] = NO_SLOT;
                self.dead += 1;
            } else if *slot >= first_new {
                change(RowKind::Insert, before + 1);
            // Those below forget a key that is not heard of, so with a time to live every row is passed on.
            } else if !same[i] || self.ttl.is_some() {
                if self.emit_update_before {
                    change(RowKind::UpdateBefore, before);
                }
                change(RowKind::UpdateAfter, before + 1);
            }
        }
        work.slots = slots;
        Ok(())
    }

    fn emit(&self, batch: &Batch, results: &[Vec<ArrayRef>], changes: &[Change], out: &mut Output) -> Result<()> {
        for chunk in changes.chunks(BATCH_ROWS) {
            let rows = UInt32Array::from_iter_values(chunk.iter().map(|c| c.row));
            let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.keys.len() + self.set.len());
            for key in &self.keys {
                columns.push(take(batch.columns.column(*key), &rows, None)?);
            }
            let at: Vec<(usize, usize)> = chunk.iter().map(|c| c.at).collect();
            for call in 0..self.set.len() {
                let parts: Vec<&dyn Array> = results.iter().map(|r| r[call].as_ref()).collect();
                columns.push(interleave(&parts, &at)?);
            }
            let inserts = chunk.iter().all(|c| c.kind == RowKind::Insert);
            let kinds = (!inserts).then(|| UInt8Array::from_iter_values(chunk.iter().map(|c| c.kind.to_byte())));
            out.batch(Batch { columns: output_batch(&self.schema, columns, chunk.len())?, kinds });
        }
        Ok(())
    }

    /// Writes what has changed of all but the groups of these keys. What a checkpoint has noted belongs to it, what
    /// is newer does not.
    fn save_all_but(&mut self, kept: &[u32]) -> Result<()> {
        self.save_some(usize::MAX)?;
        if let Some(saved) = &self.saved {
            saved.begin_snapshot()?;
        }
        let going = self.changes.keep(kept);
        self.save_groups(&going)
    }

    /// Writes these groups, and removes those of them that are gone.
    fn save_groups(&mut self, keys: &[u32]) -> Result<()> {
        let Some(saved) = &mut self.saved else { return Ok(()) };
        let slot = |key: &u32| self.slot_of.get(*key as usize).copied();
        for keys in keys.chunks(self.size.written_at_once(saved.table_bytes())) {
            let (live, gone): (Vec<u32>, Vec<u32>) = keys.iter().partition(|k| slot(k) != Some(NO_SLOT));
            // Without aggregates there are no slots, and a key that is there is all there is to it.
            let slots: Vec<u32> = live.iter().filter_map(slot).collect();
            let counts: Vec<i64> = match slots.is_empty() {
                true => vec![1; live.len()],
                false => slots.iter().map(|s| self.row_counts[*s as usize]).collect(),
            };
            let mut values = self.accumulators.save(&slots)?;
            values.push(Arc::new(Int64Array::from(counts)));
            let expires_ms = self.ttl.as_ref().map(|ttl| ttl.of(&slots));
            let keys = self.table.keys(&live)?;
            saved.keyed.write_until(Namespace::GLOBAL, &keys, &values, live.len(), expires_ms.as_deref())?;
            saved.keyed.remove(Namespace::GLOBAL, &self.table.keys(&gone)?, gone.len())?;
        }
        Ok(())
    }

    /// Adds groups that were saved.
    fn load(
        &mut self,
        keys: &[ArrayRef],
        values: &[ArrayRef],
        expires_ms: &[Option<i64>],
        widths: &[usize],
    ) -> Result<()> {
        let rows = numbers(values.last())?.len();
        let mut groups = Vec::new();
        self.table.intern(keys, rows, &mut groups)?;
        self.add_saved(&groups, values, expires_ms, widths)
    }

    /// Gives keys of the table what was saved of them.
    fn add_saved(
        &mut self,
        groups: &[u32],
        values: &[ArrayRef],
        expires_ms: &[Option<i64>],
        widths: &[usize],
    ) -> Result<()> {
        let row_counts = numbers(values.last())?;
        if self.is_distinct() {
            return Ok(());
        }
        self.slot_of.resize(self.table.len(), NO_SLOT);
        let first = self.row_counts.len() as u32;
        let slots: Vec<u32> = (first..first + groups.len() as u32).collect();
        groups.iter().zip(&slots).for_each(|(group, slot)| self.slot_of[*group as usize] = *slot);
        self.row_counts.extend(row_counts.values());
        if let Some(ttl) = &mut self.ttl {
            ttl.add(expires_ms);
        }
        self.accumulators.load(&values[..values.len() - 1], widths, &slots, self.row_counts.len())
    }

    fn end_batch(&mut self, batch: &Batch) -> Result<()> {
        if self.ttl.as_mut().is_some_and(TimeToLive::is_sweep_due) {
            self.expire(0..self.slot_of.len() as u32);
        }
        self.forget_dead()?;
        if self.room.as_mut().is_some_and(|room| room.added(batch)) { self.make_room() } else { Ok(()) }
    }

    /// The keys that are there.
    fn alive(&self) -> Vec<u32> {
        let is_alive = |key: &u32| self.is_distinct() || self.slot_of.get(*key as usize).is_some_and(|s| *s != NO_SLOT);
        (0..self.table.len() as u32).filter(is_alive).collect()
    }

    /// Keeps these keys only. The others are dead, or have been saved.
    fn rebuild(&mut self, kept: &[u32]) -> Result<()> {
        let old: Vec<u32> = match self.is_distinct() {
            true => Vec::new(),
            false => kept.iter().map(|k| self.slot_of[*k as usize]).collect(),
        };
        let mut table = GroupTable::new(&self.key_types)?;
        let mut accumulators = self.set.accumulators()?;
        let (_, widths) = self.set.saved()?;
        let (mut numbers, mut slot_of) = (Vec::new(), Vec::with_capacity(old.len()));
        for (chunk, keys) in kept.chunks(BATCH_ROWS).enumerate() {
            table.intern(&self.table.keys(keys)?, keys.len(), &mut numbers)?;
            if let Some(slots) = old.chunks(BATCH_ROWS).nth(chunk) {
                accumulators.load(&self.accumulators.save(slots)?, &widths, &numbers, table.len())?;
                slot_of.extend_from_slice(&numbers);
            }
        }
        self.row_counts = old.iter().map(|slot| self.row_counts[*slot as usize]).collect();
        (self.table, self.accumulators, self.slot_of) = (table, accumulators, slot_of);
        if let Some(ttl) = &mut self.ttl {
            ttl.renumber(&old);
        }
        self.seen = Vec::new();
        self.dead = 0;
        self.recency.renumber(kept);
        Ok(())
    }

    /// Gives the memory of dead groups back once they are the majority.
    fn forget_dead(&mut self) -> Result<()> {
        if self.changes.is_saving() || self.dead <= self.row_counts.len() / 2 + 4_096 {
            return Ok(());
        }
        let alive = self.alive();
        self.save_all_but(&alive)?;
        self.rebuild(&alive)
    }

    /// Lets groups leave for the state if the table has grown too large.
    fn make_room(&mut self) -> Result<()> {
        let groups = self.row_counts.len().max(self.table.len());
        let slots = self.row_counts.len();
        let average = self.size.average(slots, |slots| self.accumulators.save(slots))?;
        let numbers = size_of::<u32>() * (self.slot_of.capacity() + self.seen.capacity());
        let bytes = self.table.memory_bytes() + numbers + average * slots;
        let Some(keep) = self.room.as_ref().and_then(|room| room.keep(bytes, groups)) else { return Ok(()) };
        let alive = self.alive();
        let kept = self.recency.hottest(&alive, keep);
        self.save_all_but(&kept)?;
        self.cold += (alive.len() - kept.len()) as u64;
        self.rebuild(&kept)
    }
}

/// For each row, whether all columns agree; NULL agrees with NULL.
fn equal_rows(before: &[ArrayRef], after: &[ArrayRef], rows: usize) -> Result<Vec<bool>> {
    let mut same = vec![true; rows];
    for (b, a) in before.iter().zip(after) {
        if b.data_type().is_nested() {
            let compare = make_comparator(b, a, SortOptions::default())?;
            same.iter_mut().enumerate().for_each(|(i, s)| *s &= compare(i, i).is_eq());
        } else {
            let equal = not_distinct(b, a)?;
            same.iter_mut().zip(equal.values()).for_each(|(s, e)| *s &= e);
        }
    }
    Ok(same)
}

impl Operator for GroupAggregate {
    fn process_batch(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<()> {
        if let Some(ttl) = &mut self.ttl {
            let now_ms = ttl.read_clock();
            if let Some(saved) = &mut self.saved {
                saved.keyed.advance_clock(now_ms);
            }
        }
        let known = self.table.len();
        let key_columns: Vec<ArrayRef> = self.keys.iter().map(|k| batch.columns.column(*k).clone()).collect();
        self.table.intern(&key_columns, batch.num_rows(), &mut self.groups)?;
        let found = self.fetch(known)?;
        self.recency.touch(&self.groups, self.table.len());
        if self.is_distinct() {
            let new: Vec<u32> = (known as u32..self.table.len() as u32).collect();
            // Nothing of a new key has been noted.
            let _ = self.changes.mark(&new, self.table.len());
            self.emit(&batch, &[], &self.first_rows(known, &found), out)?;
            return self.end_batch(&batch);
        }
        let first = self.changes.mark(&self.groups, self.table.len());
        self.save_groups(&first)?;
        self.slot_of.resize(self.table.len(), NO_SLOT);
        if self.ttl.is_some() {
            let groups = std::mem::take(&mut self.groups);
            self.expire(groups.iter().copied());
            self.groups = groups;
        }
        let mut work = Work::default();
        for rows in self.rounds() {
            self.round(&batch, rows, &mut work)?;
        }
        work.changes.sort_by_key(|c| c.row);
        self.emit(&batch, &work.results, &work.changes, out)?;
        self.end_batch(&batch)
    }

    fn checkpoint(&mut self) -> Result<serde_json::Value> {
        self.saved.as_mut().map_or(Ok(()), GroupState::begin)?;
        self.changes.note(self.table.len());
        Ok(serde_json::Value::Null)
    }

    fn save_some(&mut self, most: usize) -> Result<bool> {
        let next = self.changes.next_noted(most);
        self.save_groups(&next)?;
        Ok(!self.changes.is_saving())
    }

    fn restore(&mut self, _: &[serde_json::Value]) -> Result<()> {
        let Some(saved) = self.saved.take() else { return Ok(()) };
        let loaded = match self.room {
            // How many there are does not matter, only that there are any.
            Some(_) if !saved.keyed.namespaces().is_empty() => {
                self.cold = u64::MAX / 2;
                Ok(())
            }
            Some(_) => Ok(()),
            None => {
                for namespace in saved.keyed.namespaces() {
                    saved.keyed.read(namespace, KeyGroupRange::all(), |keys, values, expires_ms| {
                        self.load(&keys, &values, expires_ms, saved.widths())
                    })?;
                }
                Ok(())
            }
        };
        self.saved = Some(saved);
        loaded
    }
}
