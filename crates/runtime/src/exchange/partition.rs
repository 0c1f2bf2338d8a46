//! One edge's sending side: spreads elements over the receiver's subtasks.

use arrow::array::{AsArray, UInt32Array};
use arrow::compute::{take, take_record_batch};
use arrow::datatypes::UInt8Type;
use tidegate_api::graph::Partitioner;
use tidegate_api::{Batch, Result, Schema, StreamElement};
use tidegate_checkpoint::Barrier;
use tidegate_state::{DEFAULT_MAX_PARALLELISM, key_group, operator_index};

use super::ChannelSender;
use super::key_hash::KeyHasher;
use crate::task::TaskTimes;

enum Spread {
    /// The only target, or the first.
    One,
    Hash {
        hasher: KeyHasher,
        rows: Vec<Vec<u32>>,
    },
    RoundRobin {
        next: usize,
    },
    Everyone,
}

/// Where one operator's output goes along one edge.
pub(crate) struct ResultPartition {
    /// One channel per subtask of the receiver; for `Forward` only its own.
    targets: Vec<ChannelSender>,
    spread: Spread,
}

impl ResultPartition {
    /// The sending side of an edge whose rows have `schema`. Subtask `sender` starts a round robin
    /// at its own index, so that few rows do not all end up in one place.
    pub(crate) fn new(
        partitioner: &Partitioner,
        schema: &Schema,
        targets: Vec<ChannelSender>,
        sender: usize,
    ) -> Result<Self> {
        let spread = match partitioner {
            Partitioner::Hash(columns) if targets.len() > 1 => {
                Spread::Hash { hasher: KeyHasher::new(columns, schema)?, rows: vec![Vec::new(); targets.len()] }
            }
            Partitioner::Rebalance => Spread::RoundRobin { next: sender % targets.len().max(1) },
            Partitioner::Broadcast => Spread::Everyone,
            Partitioner::Forward | Partitioner::Global | Partitioner::Hash(_) => Spread::One,
        };
        Ok(ResultPartition { targets, spread })
    }

    /// Sends an element; waits while a receiver's queue is full.
    pub(crate) async fn send(&mut self, element: StreamElement, times: &TaskTimes) -> Result<()> {
        let StreamElement::Batch(batch) = element else {
            return self.send_to_all(&element, times).await;
        };
        match &mut self.spread {
            Spread::One => self.targets[0].send(StreamElement::Batch(batch), times).await,
            Spread::Everyone => self.send_to_all(&StreamElement::Batch(batch), times).await,
            Spread::RoundRobin { next } => {
                let target = *next;
                *next = (*next + 1) % self.targets.len();
                self.targets[target].send(StreamElement::Batch(batch), times).await
            }
            Spread::Hash { hasher, rows } => {
                for (target, part) in by_key_group(hasher, rows, batch)? {
                    self.targets[target].send(StreamElement::Batch(part), times).await?;
                }
                Ok(())
            }
        }
    }

    /// Sends a barrier to every receiver; never waits.
    pub(crate) fn barrier(&self, barrier: Barrier) -> Result<()> {
        self.targets.iter().try_for_each(|target| target.barrier(barrier))
    }

    async fn send_to_all(&self, element: &StreamElement, times: &TaskTimes) -> Result<()> {
        for target in &self.targets {
            target.send(element.clone(), times).await?;
        }
        Ok(())
    }
}

/// Splits a batch by the subtask that owns each row's key group.
fn by_key_group(hasher: &mut KeyHasher, rows: &mut [Vec<u32>], batch: Batch) -> Result<Vec<(usize, Batch)>> {
    let parallelism = rows.len();
    rows.iter_mut().for_each(Vec::clear);
    let mut row = 0;
    hasher.each(&batch.columns, |hash| {
        let group = key_group(hash, DEFAULT_MAX_PARALLELISM);
        rows[operator_index(group, parallelism, DEFAULT_MAX_PARALLELISM)].push(row);
        row += 1;
    })?;
    if let Some(only) = rows.iter().position(|r| r.len() == batch.num_rows()) {
        return Ok(vec![(only, batch)]);
    }
    let parts = rows.iter().enumerate().filter(|(_, rows)| !rows.is_empty());
    parts.map(|(target, rows)| Ok((target, take_rows(&batch, rows)?))).collect()
}

fn take_rows(batch: &Batch, rows: &[u32]) -> Result<Batch> {
    let rows = UInt32Array::from(rows.to_vec());
    let kinds = match &batch.kinds {
        Some(kinds) => Some(take(kinds, &rows, None)?.as_primitive::<UInt8Type>().clone()),
        None => None,
    };
    Ok(Batch { columns: take_record_batch(&batch.columns, &rows)?, kinds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, RecordBatch, UInt8Array};
    use std::sync::Arc;
    use tidegate_api::types::{LogicalType, TypeKind};
    use tidegate_api::{Field, RowKind};

    #[test]
    fn every_row_goes_to_the_owner_of_its_key_with_its_kind() {
        let schema = Schema::new(vec![Field::new("k", LogicalType::new(TypeKind::BigInt))]);
        let keys: Vec<i64> = (0..100).collect();
        let columns = RecordBatch::try_new(schema.to_arrow(), vec![Arc::new(Int64Array::from(keys))]).unwrap();
        let kinds: UInt8Array = (0..100u8).map(|i| i % 4).collect();
        let mut hasher = KeyHasher::new(&[0], &schema).unwrap();
        let mut rows = vec![Vec::new(); 3];
        let batch = Batch { columns, kinds: Some(kinds) };
        let parts = by_key_group(&mut hasher, &mut rows, batch).unwrap();
        assert_eq!(parts.iter().map(|(_, b)| b.num_rows()).sum::<usize>(), 100);
        assert!(parts.len() > 1);
        for (target, part) in parts {
            let keys = part.columns.column(0).to_data();
            let keys = Int64Array::from(keys);
            let mut owners = Vec::new();
            hasher
                .each(&part.columns, |hash| {
                    owners.push(operator_index(key_group(hash, 128), 3, 128));
                })
                .unwrap();
            assert!(owners.iter().all(|owner| *owner == target));
            for i in 0..part.num_rows() {
                assert_eq!(part.kind(i), RowKind::from_byte((keys.value(i) % 4) as u8));
            }
        }
    }
}
