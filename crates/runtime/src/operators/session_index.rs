//! Which sessions are in the state alone, and when they end.
//!
//! A key that comes again asks for its sessions, and a watermark for those that are over. So two kinds of rows
//! lie beside what sessions hold: the **bounds** of a key's sessions, by key, and **timers**, by key in a
//! namespace for each stretch of time in which sessions end. As in Flink's timer service on RocksDB, only the
//! nearest timers are in memory; the next are read when these have gone off.
//!
//! A timer is a hint: nobody takes it back when its session grows, and the bounds say whether it still holds.
//! That makes a session cheap to move, and timers cheap to forget: a stretch that has passed is dropped with all
//! its runs. A key has one session at most that ends in a stretch, for ends of sessions that do not touch are
//! further apart than the gap, and a stretch is shorter.
//!
//! The index says nothing that the sessions do not say. State that stays in memory does without it.

mod traffic;

use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, NullArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field as ArrowField, Int64Type};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Field, Result, Schema, Timestamp, Watermark};
use tidegate_state::{KeyGroupRange, Namespace};
use tidegate_window::{TimeWindow, WindowAssigner};

use super::aggregates::BATCH_ROWS;
use super::group_state::bigint;
use super::sessions::{Session, SessionTracker};
use crate::operator::OperatorStates;
use crate::state::{KeyedLayout, KeyedState};
pub(super) use traffic::Returning;

/// When a session ends, and its key as the state has it.
type Timer = (Timestamp, Vec<u8>);

/// The part of the memory for tables that timers may take.
const TIMERS_PART: usize = 4;
/// About what a timer takes.
const TIMER_BYTES: usize = 96;
/// Stretches of time that a gap is as long as.
const STRETCHES: i64 = 16;

/// Numbers of a session in the bounds of its key: start, end, rows.
const BOUND: usize = 3;

/// See the module.
pub(super) struct SessionIndex {
    state: KeyedState,
    /// How long a stretch is, in milliseconds.
    stretch: i64,
    /// Ends of the stretches that have timers.
    stretches: BTreeSet<Timestamp>,
    /// The timer that went off last: no session that ends before is in the state alone, and of those that end
    /// then none whose key comes before.
    gone_off: Timer,
    /// The next timers, and up to which they are all.
    near: VecDeque<Timer>,
    near_until: Timer,
    near_max: usize,
    /// Sessions that are in the state alone.
    cold: u64,
}

/// Sessions of some keys.
#[derive(Default)]
pub(super) struct Bounds {
    /// The key of each, by its position among those that were asked for.
    pub(super) keys: Vec<u32>,
    /// The bounds of each.
    pub(super) windows: Vec<TimeWindow>,
    /// The number of rows in each.
    pub(super) rows: Vec<i64>,
}

/// Keys with sessions that are said to end.
struct Due {
    keys: Vec<ArrayRef>,
    ends: Vec<Timestamp>,
}

impl SessionIndex {
    /// The index of sessions by these keys; `None` if nothing is kept.
    pub(super) fn open(
        states: &OperatorStates,
        keys: &[Field],
        windows: &WindowAssigner,
    ) -> Result<Option<SessionIndex>> {
        let numbers = LogicalType::new(TypeKind::Array(Box::new(LogicalType::new(TypeKind::BigInt))));
        let value = Schema::new(vec![bigint("end"), Field::new("bounds", numbers)]);
        let layout = KeyedLayout {
            name: "index",
            key: Schema::new(keys.to_vec()),
            partitioned: keys.len(),
            value,
            is_list: false,
        };
        let index = |state| SessionIndex {
            state,
            stretch: (windows.slice_size() / STRETCHES).max(1),
            stretches: BTreeSet::new(),
            gone_off: (Timestamp::MAX, Vec::new()),
            near: VecDeque::new(),
            near_until: (Timestamp::MIN, Vec::new()),
            near_max: (states.table_bytes().unwrap_or(0) / TIMERS_PART / TIMER_BYTES).max(1),
            cold: 0,
        };
        Ok(states.keyed(layout)?.map(index))
    }

    /// Number of sessions that are in the state alone.
    pub(super) fn cold(&self) -> u64 {
        self.cold
    }

    /// Sessions have come back from the state.
    fn came_back(&mut self, sessions: usize) {
        self.cold = self.cold.saturating_sub(sessions as u64);
        if self.cold == 0 {
            self.near.clear();
            self.gone_off = (Timestamp::MAX, Vec::new());
        }
    }

    /// A session that ends then is in the state alone from now on.
    fn leave(&mut self, end: Timestamp) {
        self.cold += 1;
        if self.is_near(end) {
            self.near.clear();
        }
        if self.gone_off.0 >= end {
            self.gone_off = (end, Vec::new());
        }
    }

    /// True if the timer of a session that ends then would be among those in memory.
    fn is_near(&self, end: Timestamp) -> bool {
        !self.near.is_empty() && end <= self.near_until.0
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.stretches.clear();
        self.came_back(usize::MAX);
        self.state.namespaces().into_iter().try_for_each(|namespace| self.state.drop_namespace(namespace))
    }

    /// Goes on with what was restored, of which nothing is in memory. `cold` is the number of sessions if it is
    /// known.
    pub(super) fn restore(&mut self, cold: Option<u64>) -> Result<()> {
        let stretches = self.state.namespaces().into_iter().filter(|namespace| *namespace != Namespace::GLOBAL);
        self.stretches = stretches.map(|namespace| namespace.0).collect();
        self.near.clear();
        self.gone_off = (Timestamp::MIN, Vec::new());
        let mut counted = 0;
        if cold.is_none() {
            self.state.read(Namespace::GLOBAL, KeyGroupRange::all(), |_, values, _| {
                counted += bounds_of(&values)?.values().len() / BOUND;
                Ok(())
            })?;
        }
        self.cold = cold.unwrap_or(counted as u64);
        Ok(())
    }

    /// Writes what waits in memory to a file if that is due. For a restore, when nobody else does.
    pub(super) fn flush_if_due(&self) -> Result<()> {
        self.state.flush_if_due()
    }

    /// Writes the sessions that these distinct keys of the tracker have, and sets their timers. `rows` gives the
    /// number of rows in a slot.
    pub(super) fn write(&mut self, sessions: &SessionTracker, keys: &[u32], rows: impl Fn(u32) -> i64) -> Result<()> {
        for keys in keys.chunks(BATCH_ROWS) {
            let (live, gone): (Vec<u32>, Vec<u32>) =
                keys.iter().partition(|key| sessions.of_key(**key).next().is_some());
            let lengths = OffsetBuffer::from_lengths(live.iter().map(|key| BOUND * sessions.of_key(*key).count()));
            let all: Vec<Session> = live.iter().flat_map(|key| sessions.of_key(*key)).collect();
            let bounds = all.iter().flat_map(|s| [s.window.start, s.window.end, rows(s.slot)]);
            let bounds = Int64Array::from_iter_values(bounds);
            let item = Arc::new(ArrowField::new_list_field(DataType::Int64, true));
            let values: [ArrayRef; 2] = [
                new_null_array(&DataType::Int64, live.len()),
                Arc::new(ListArray::try_new(item, lengths, Arc::new(bounds), None)?),
            ];
            let columns = sessions.keys(live.iter().copied())?;
            self.state.write(Namespace::GLOBAL, &columns, &values, live.len())?;
            self.state.remove(Namespace::GLOBAL, &sessions.keys(gone.iter().copied())?, gone.len())?;
            self.set_timers(sessions, &all)?;
        }
        Ok(())
    }

    fn set_timers(&mut self, sessions: &SessionTracker, all: &[Session]) -> Result<()> {
        let mut all: Vec<(Timestamp, Session)> = all.iter().map(|s| (self.stretch_of(s.window.end), *s)).collect();
        all.sort_by_key(|(stretch, _)| *stretch);
        for of_stretch in all.chunk_by(|a, b| a.0 == b.0) {
            let stretch = of_stretch[0].0;
            let keys = sessions.keys(of_stretch.iter().map(|(_, session)| session.key))?;
            let ends = Int64Array::from_iter_values(of_stretch.iter().map(|(_, session)| session.window.end));
            let values: [ArrayRef; 2] = [Arc::new(ends), Arc::new(NullArray::new(of_stretch.len()))];
            self.state.write(Namespace(stretch), &keys, &values, of_stretch.len())?;
            self.stretches.insert(stretch);
        }
        Ok(())
    }

    /// The end of the stretch that holds the last millisecond of a session with this end.
    fn stretch_of(&self, end: Timestamp) -> Timestamp {
        let before = end.saturating_sub(1).div_euclid(self.stretch);
        before.saturating_add(1).saturating_mul(self.stretch)
    }

    /// The sessions of these distinct keys.
    fn bounds(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Bounds> {
        let mut bounds = Bounds::default();
        let found = self.state.get(Namespace::GLOBAL, keys, rows)?;
        if found.rows.is_empty() {
            return Ok(bounds);
        }
        let lists = bounds_of(&found.values)?;
        for (at, key) in found.rows.into_iter().enumerate() {
            let list = lists.value(at);
            for bound in list.as_primitive::<Int64Type>().values().chunks_exact(BOUND) {
                bounds.keys.push(key);
                bounds.windows.push(TimeWindow::new(bound[0], bound[1]));
                bounds.rows.push(bound[2]);
            }
        }
        Ok(bounds)
    }

    /// The stretch with the next timers, if this watermark may concern any of them.
    fn next_stretch(&self, windows: &WindowAssigner, watermark: Watermark) -> Option<Timestamp> {
        let stretch = *self.stretches.range(self.gone_off.0..).next()?;
        let nearest = self.gone_off.0.max(stretch.saturating_sub(self.stretch - 1));
        windows.is_fired(nearest, watermark.timestamp()).then_some(stretch)
    }

    /// The end up to which all sessions that are over at this watermark are in memory; `None` if all are.
    pub(super) fn all_until(&self, windows: &WindowAssigner, watermark: Watermark) -> Option<Timestamp> {
        let is_left = match self.near.front() {
            Some((end, _)) => windows.is_fired(*end, watermark.timestamp()),
            None => self.next_stretch(windows, watermark).is_some(),
        };
        is_left.then_some(self.gone_off.0)
    }

    /// The next timers that go off at this watermark, at most `limit`; `None` if there are none left.
    fn next_due(&mut self, windows: &WindowAssigner, watermark: Watermark, limit: usize) -> Result<Option<Due>> {
        while self.near.is_empty() {
            let Some(stretch) = self.next_stretch(windows, watermark) else { return Ok(None) };
            self.read_near(stretch)?;
        }
        let is_over = |timer: &&Timer| windows.is_fired(timer.0, watermark.timestamp());
        let count = self.near.iter().take(limit).take_while(is_over).count();
        let due: Vec<Timer> = self.near.drain(..count).collect();
        match due.last() {
            Some(_) if self.near.is_empty() => self.gone_off = self.near_until.clone(),
            Some(last) => self.gone_off = last.clone(),
            None => return Ok(None),
        }
        let keys = self.state.key_columns(due.iter().map(|(_, key)| &key[..]))?;
        Ok(Some(Due { keys, ends: due.iter().map(|(end, _)| *end).collect() }))
    }

    /// Reads the next timers of a stretch.
    fn read_near(&mut self, stretch: Timestamp) -> Result<()> {
        let mut nearest: BinaryHeap<Timer> = BinaryHeap::new();
        let (gone_off, mut is_all) = ((self.gone_off.0, &self.gone_off.1[..]), true);
        self.state.visit(Namespace(stretch), |key, end| {
            if (end, key) <= gone_off {
                return;
            }
            if nearest.len() < self.near_max {
                nearest.push((end, key.to_vec()));
                return;
            }
            is_all = false;
            if let Some(mut last) = nearest.peek_mut().filter(|last| (end, key) < (last.0, &last.1[..])) {
                *last = (end, key.to_vec());
            }
        })?;
        self.near_until = match nearest.peek() {
            Some(last) if !is_all => last.clone(),
            _ => (stretch.saturating_add(1), Vec::new()),
        };
        self.near = nearest.into_sorted_vec().into();
        if self.near.is_empty() {
            self.gone_off = self.near_until.clone();
        }
        Ok(())
    }

    /// Forgets the timers of stretches that have passed.
    pub(super) fn passed(&mut self, windows: &WindowAssigner, watermark: Watermark) -> Result<()> {
        while let Some(stretch) = self.stretches.first().filter(|end| windows.is_fired(**end, watermark.timestamp())) {
            self.state.drop_namespace(Namespace(*stretch))?;
            self.stretches.pop_first();
        }
        Ok(())
    }
}

fn bounds_of(values: &[ArrayRef]) -> Result<&ListArray> {
    let lists = values.get(1).and_then(|column| column.as_list_opt::<i32>());
    lists.ok_or_else(|| Error::internal("the bounds of sessions are missing"))
}
