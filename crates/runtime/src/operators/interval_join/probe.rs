//! A batch looks for its partners: those in memory, then those in the state alone, some thousand pairs at a time.

use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use hashbrown::HashMap;
use tidegate_api::{Result, Timestamp};

use super::IntervalJoin;
use super::saved::StoredRows;
use crate::operator::Output;
use crate::operators::aggregates::BATCH_ROWS;
use crate::operators::join::{NO_KEY, Pairs, Side};

/// A batch that is being worked off.
pub(super) struct Probe {
    pub(super) side: Side,
    pub(super) rows: RecordBatch,
    pub(super) times: Vec<Timestamp>,
    /// The number of each row's key.
    pub(super) keys: Vec<u32>,
    /// Whether each row has met a partner.
    pub(super) met: Vec<bool>,
    /// Buckets whose rows in the state are still to be looked at.
    pub(super) cold: Vec<i64>,
    /// The partners at hand: those of a bucket in the state, or those in memory.
    stored: Option<Stored>,
    /// The next pair: row, and position among its partners.
    at: (usize, usize),
}

/// Rows of a bucket that a lookup has found, by key.
struct Stored {
    bucket: i64,
    rows: StoredRows,
    of_key: HashMap<u32, Range<usize>>,
}

/// A pair of the batch's row and a partner.
struct Candidates {
    rows: Vec<u32>,
    /// Key and position of each partner.
    partners: Vec<(u32, usize)>,
}

impl Probe {
    pub(super) fn new(side: Side, rows: RecordBatch, times: Vec<Timestamp>, keys: Vec<u32>, cold: Vec<i64>) -> Probe {
        let met = vec![false; keys.len()];
        Probe { side, rows, times, keys, met, cold, stored: None, at: (0, 0) }
    }
}

impl IntervalJoin {
    /// Finds the next pairs of the batch at hand; false if there are none left.
    pub(super) fn probe(&mut self, probe: &mut Probe, out: &mut Output) -> Result<bool> {
        let found = self.next_candidates(probe);
        if !found.rows.is_empty() {
            self.emit_pairs(probe, &found, out)?;
            return Ok(true);
        }
        let Some(bucket) = probe.cold.pop() else { return Ok(false) };
        probe.stored = self.look_up(probe, bucket)?;
        probe.at = (0, 0);
        Ok(true)
    }

    /// The next pairs whose keys and times match.
    fn next_candidates(&self, probe: &mut Probe) -> Candidates {
        let mut found = Candidates { rows: Vec::new(), partners: Vec::new() };
        let partners = &self.sides[probe.side.other().index()].rows;
        while probe.at.0 < probe.keys.len() && found.rows.len() < BATCH_ROWS {
            let (row, from) = probe.at;
            let (key, time) = (probe.keys[row], probe.times[row]);
            if key == NO_KEY {
                probe.at = (row + 1, 0);
                continue;
            }
            let (first, last) =
                (self.bounds.first_partner(probe.side, time), self.bounds.last_partner(probe.side, time));
            let all = match &probe.stored {
                None => partners.between(key, first, last),
                Some(stored) => stored.of_key.get(&key).cloned().unwrap_or(0..0),
            };
            let room = BATCH_ROWS - found.rows.len();
            let taken = all.start + from..all.end.min(all.start + from + room);
            probe.at = if taken.end == all.end { (row + 1, 0) } else { (row, from + taken.len()) };
            for partner in taken {
                let is_near = match &probe.stored {
                    None => true,
                    Some(stored) => (first..=last).contains(&stored.rows.times[partner]),
                };
                if is_near {
                    found.rows.push(row as u32);
                    found.partners.push((key, partner));
                }
            }
        }
        found
    }

    /// Emits those of the pairs that the condition holds for.
    fn emit_pairs(&mut self, probe: &mut Probe, found: &Candidates, out: &mut Output) -> Result<()> {
        let index = UInt32Array::from(found.rows.clone());
        let own = probe.rows.columns().iter().map(|column| take(column, &index, None));
        let own: Vec<ArrayRef> = own.collect::<Result<_, _>>()?;
        let partners = &self.sides[probe.side.other().index()];
        let theirs = match &probe.stored {
            None => {
                let places: Vec<_> =
                    found.partners.iter().map(|(key, at)| partners.rows.row(*key, *at).place).collect();
                partners.rows.held.gather(&places)?
            }
            Some(stored) => {
                let index = UInt32Array::from_iter_values(found.partners.iter().map(|(_, at)| *at as u32));
                stored.rows.columns.iter().map(|column| take(column, &index, None)).collect::<Result<_, _>>()?
            }
        };
        let columns = match probe.side {
            Side::Left => [own, theirs],
            Side::Right => [theirs, own],
        };
        let holds = self.output.pairs(Pairs { columns, len: found.rows.len() }, self.watermark, out)?;
        self.note_pairs(probe, found, holds.as_ref());
        Ok(())
    }

    /// Remembers who has met a partner.
    fn note_pairs(&mut self, probe: &mut Probe, found: &Candidates, holds: Option<&BooleanArray>) {
        let other = &mut self.sides[probe.side.other().index()];
        for (pair, row) in found.rows.iter().enumerate() {
            if holds.is_some_and(|holds| !holds.value(pair)) {
                continue;
            }
            probe.met[*row as usize] = true;
            if !other.is_kept {
                continue;
            }
            let (key, at) = found.partners[pair];
            match &probe.stored {
                Some(stored) => {
                    if !stored.rows.matched[at] {
                        other.note_match(stored.bucket, key, stored.rows.numbers[at]);
                    }
                }
                None => {
                    let partner = other.rows.row_mut(key, at);
                    if !std::mem::replace(&mut partner.matched, true) {
                        let (time, number) = (partner.time, partner.number);
                        other.note_match_in_memory(time, key, number);
                    }
                }
            }
        }
    }

    /// The rows that a bucket of the other side has in the state for the keys of the batch.
    fn look_up(&mut self, probe: &Probe, bucket: i64) -> Result<Option<Stored>> {
        let other = probe.side.other();
        let buckets = self.sides[other.index()].buckets.span(bucket);
        let mut wanted: Vec<u32> = Vec::new();
        for (key, time) in probe.keys.iter().zip(&probe.times) {
            let near = self.bounds.first_partner(probe.side, *time) < buckets.end
                && self.bounds.last_partner(probe.side, *time) >= buckets.start;
            if *key != NO_KEY && near {
                wanted.push(*key);
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(Some(Stored { bucket, rows: StoredRows::default(), of_key: HashMap::new() }));
        }
        let columns = self.keys.columns(&wanted)?;
        let over_until = self.bounds.over_until(other, self.watermark);
        let (rows, found) = self.sides[other.index()].look_up(bucket, &columns, wanted.len(), over_until)?;
        let mut of_key: HashMap<u32, Range<usize>> = HashMap::new();
        for (at, key) in found.into_iter().enumerate() {
            let range = of_key.entry(wanted[key as usize]).or_insert(at..at);
            // The rows of a list lie one after the other.
            range.end = at + 1;
        }
        Ok(Some(Stored { bucket, rows, of_key }))
    }
}
