//! The log against a model that keeps everything in memory: random operations, restarts, and files cut at a
//! random byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::batch::samples::{Sender, batch, headers};
use kafka_protocol::records::Compression;

#[derive(Clone, Debug)]
enum Step {
    /// A batch of this producer, or of none.
    Append {
        producer: Option<u8>,
        transactional: bool,
        times: Vec<u16>,
        lz4: bool,
    },
    End {
        producer: u8,
        commit: bool,
        new_epoch: bool,
    },
    /// The last batch of the producer again.
    Repeat {
        producer: u8,
    },
    Read {
        from: Index,
        max_bytes: usize,
    },
    Lookup {
        time: u16,
    },
    DeleteBefore {
        offset: Index,
    },
    Clean,
    Reopen,
    /// The process dies and the end of the growing file with it.
    Cut {
        at: Index,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let times = || prop::collection::vec(any::<u16>(), 1..5);
    prop_oneof![
        8 => (prop::option::of(0u8..3), any::<bool>(), times(), any::<bool>())
            .prop_map(|(producer, transactional, times, lz4)| Step::Append { producer, transactional, times, lz4 }),
        4 => (0u8..3, any::<bool>(), any::<bool>())
            .prop_map(|(producer, commit, new_epoch)| Step::End { producer, commit, new_epoch }),
        1 => (0u8..3).prop_map(|producer| Step::Repeat { producer }),
        2 => (any::<Index>(), 1usize..2000).prop_map(|(from, max_bytes)| Step::Read { from, max_bytes }),
        2 => any::<u16>().prop_map(|time| Step::Lookup { time }),
        1 => any::<Index>().prop_map(|offset| Step::DeleteBefore { offset }),
        1 => Just(Step::Clean),
        1 => Just(Step::Reopen),
        1 => any::<Index>().prop_map(|at| Step::Cut { at }),
    ]
}

/// A batch as it was appended.
#[derive(Clone, Debug)]
struct Stored {
    base: i64,
    times: Vec<i64>,
    producer: Option<u8>,
    /// Epoch and sequence.
    sent: (i16, i32),
    transactional: bool,
    /// Whether it is an end marker, and of which kind.
    marker: Option<bool>,
}

impl Stored {
    fn end(&self) -> i64 {
        self.base + self.times.len() as i64
    }
}

/// What the log should hold.
#[derive(Debug, Default)]
struct Model {
    batches: Vec<Stored>,
    log_start: i64,
    /// Where the log ends when there are no batches.
    floor: i64,
}

/// What should be known of a producer.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    epoch: i16,
    next_sequence: i32,
    open_since: Option<i64>,
}

impl Model {
    fn end(&self) -> i64 {
        self.batches.last().map_or(self.floor, Stored::end)
    }

    fn producer(&self, producer: u8) -> State {
        let mut state = State::default();
        for stored in self.batches.iter().filter(|stored| stored.producer == Some(producer)) {
            if stored.sent.0 != state.epoch {
                (state.epoch, state.next_sequence) = (stored.sent.0, 0);
            }
            match stored.marker {
                Some(_) => state.open_since = None,
                None => {
                    state.next_sequence = stored.sent.1 + stored.times.len() as i32;
                    if stored.transactional {
                        state.open_since.get_or_insert(stored.base);
                    }
                }
            }
        }
        state
    }

    fn last_stable(&self) -> i64 {
        let open = (0..3).filter_map(|producer| self.producer(producer).open_since).min();
        open.unwrap_or(self.end()).max(self.log_start)
    }

    /// Offsets that a reader sees from `from` on.
    fn visible(&self, from: i64, isolation: Isolation) -> Vec<i64> {
        let committed = isolation == Isolation::ReadCommitted;
        let limit = if committed { self.last_stable() } else { self.end() };
        if from >= limit {
            return Vec::new();
        }
        let mut aborted = BTreeSet::new();
        let mut under_way: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
        for stored in &self.batches {
            let Some(producer) = stored.producer else { continue };
            match stored.marker {
                Some(false) => aborted.extend(under_way.remove(&producer).unwrap_or_default()),
                Some(true) => drop(under_way.remove(&producer)),
                None if stored.transactional => under_way.entry(producer).or_default().push(stored.base),
                None => {}
            }
        }
        let shown = self.batches.iter().filter(|stored| {
            stored.marker.is_none() && stored.base < limit && !(committed && aborted.contains(&stored.base))
        });
        shown.flat_map(|stored| stored.base..stored.end()).filter(|offset| *offset >= from).collect()
    }

    fn first_at(&self, time: i64) -> Option<(i64, i64)> {
        let records = self.batches.iter().flat_map(|stored| (stored.base..).zip(stored.times.iter().copied()));
        let mut found = records.filter(|(offset, at)| *at >= time && *offset >= self.log_start);
        found.next()
    }
}

fn config() -> TopicConfig {
    TopicConfig { segment_bytes: 700, index_interval_bytes: 150, ..TopicConfig::default() }
}

fn sender(producer: Option<u8>, epoch: i16, sequence: i32, transactional: bool) -> Sender {
    match producer {
        Some(id) => Sender { id: i64::from(id), epoch, sequence, transactional },
        None => crate::batch::samples::PLAIN,
    }
}

struct Run {
    opened: Opened,
    model: Model,
}

impl Run {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Append { producer, transactional, times, lz4 } => {
                self.append(*producer, *transactional, times, *lz4);
            }
            Step::End { producer, commit, new_epoch } => self.end(*producer, *commit, *new_epoch),
            Step::Repeat { producer } => self.repeat(*producer),
            Step::Read { from, max_bytes } => self.read(*from, *max_bytes),
            Step::Lookup { time } => {
                let query = OffsetQuery::Timestamp(i64::from(*time), Isolation::ReadUncommitted);
                let found = self.opened.log.offset_for(query).unwrap();
                assert_eq!(found, self.model.first_at(i64::from(*time)));
            }
            Step::DeleteBefore { offset } => {
                let offset = offset.index(self.model.end() as usize + 1) as i64;
                self.opened.log.delete_before(offset).unwrap();
                self.model.log_start = self.model.log_start.max(offset);
            }
            Step::Clean => drop(self.opened.log.clean(NOW).unwrap()),
            Step::Reopen => self.opened.reopen(),
            Step::Cut { at } => self.cut(*at),
        }
        let offsets = self.opened.log.offsets();
        assert_eq!(offsets.high_watermark, self.model.end());
        assert_eq!(offsets.log_start, self.model.log_start);
        assert_eq!(offsets.last_stable, self.model.last_stable());
    }

    fn append(&mut self, producer: Option<u8>, transactional: bool, times: &[u16], lz4: bool) {
        let state = producer.map_or(State::default(), |producer| self.model.producer(producer));
        let transactional = producer.is_some() && (transactional || state.open_since.is_some());
        let times: Vec<i64> = times.iter().map(|time| i64::from(*time)).collect();
        let base = self.model.end();
        let values: Vec<String> = (base..).take(times.len()).map(|offset| offset.to_string()).collect();
        let records: Vec<_> =
            times.iter().zip(&values).map(|(time, value)| (*time, Some("key"), Some(value.as_str()))).collect();
        let codec = if lz4 { Compression::Lz4 } else { Compression::None };
        let from = sender(producer, state.epoch, state.next_sequence, transactional);
        assert_eq!(self.opened.at(batch(from, codec, &records)), base);
        let sent = (state.epoch, state.next_sequence);
        self.model.batches.push(Stored { base, times, producer, sent, transactional, marker: None });
    }

    fn end(&mut self, producer: u8, commit: bool, new_epoch: bool) {
        let state = self.model.producer(producer);
        if state.open_since.is_none() {
            return;
        }
        let epoch = state.epoch + i16::from(new_epoch);
        let base = self.model.end();
        let marker = self.opened.log.append_end_marker(i64::from(producer), epoch, commit, NOW).unwrap();
        assert_eq!(marker, base);
        self.model.batches.push(Stored {
            base,
            times: vec![NOW],
            producer: Some(producer),
            sent: (epoch, -1),
            transactional: true,
            marker: Some(commit),
        });
    }

    fn repeat(&mut self, producer: u8) {
        let epoch = self.model.producer(producer).epoch;
        let last = self
            .model
            .batches
            .iter()
            .rev()
            .find(|stored| stored.producer == Some(producer) && stored.marker.is_none() && stored.sent.0 == epoch);
        let Some(last) = last else { return };
        let records: Vec<_> = last.times.iter().map(|time| (*time, None, None)).collect();
        let from = sender(Some(producer), last.sent.0, last.sent.1, last.transactional);
        let again = self.opened.append(batch(from, Compression::None, &records)).unwrap();
        assert_eq!((again.base_offset, again.duplicate), (last.base, true));
    }

    fn read(&self, from: Index, max_bytes: usize) {
        let span = (self.model.end() - self.model.log_start) as usize + 1;
        self.read_from(self.model.log_start + from.index(span) as i64, max_bytes);
    }

    fn read_from(&self, from: i64, max_bytes: usize) {
        for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
            let seen = self.opened.consume(from, max_bytes, isolation);
            for record in &seen {
                assert_eq!(text(record.value.as_ref()), record.offset.to_string());
            }
            let offsets: Vec<i64> = seen.iter().map(|record| record.offset).collect();
            assert_eq!(offsets, self.model.visible(from, isolation), "{isolation:?} from {from}");
        }
    }

    fn cut(&mut self, at: Index) {
        let name = self.opened.files(".log").last().cloned();
        let Some(name) = name else { return self.opened.reopen() };
        let path = self.opened.path().join(&name);
        let bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len() + 1);
        let base: i64 = name.trim_end_matches(".log").parse().unwrap();
        let mut position = 0;
        let mut end = base;
        for header in headers(&bytes) {
            position += header.size;
            if position <= at {
                end = header.last_offset() + 1;
            }
        }
        OpenOptions::new().write(true).open(&path).unwrap().set_len(at as u64).unwrap();
        self.opened.reopen();
        self.model.batches.retain(|stored| stored.end() <= end);
        self.model.floor = end;
        if self.model.log_start > end {
            // What was left is before the start, and offsets are not given twice.
            end = self.model.log_start;
            self.model.batches.clear();
            self.model.floor = end;
        }
        assert_eq!(self.opened.log.offsets().high_watermark, end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_log_behaves_as_its_model(steps in prop::collection::vec(step(), 1..80)) {
        let opened = open(|settings| *settings = config());
        let mut run = Run { opened, model: Model::default() };
        for step in &steps {
            run.apply(step);
        }
        run.opened.reopen();
        run.read_from(run.model.log_start, 1 << 20);
    }

    /// Whatever a disk gives back, opening ends with a log or with an error.
    #[test]
    fn damaged_files_never_panic(
        at in any::<Index>(),
        flip in 1u8..,
        file in any::<Index>(),
        rounds in 1i32..20,
    ) {
        let opened = open(|settings| *settings = config());
        for round in 0..rounds {
            opened.at(batch(sender(Some(1), 0, round, true), Compression::None, &[(1, None, Some("v"))]));
            opened.log.append_end_marker(1, 0, round % 2 == 0, NOW).unwrap();
        }
        opened.log.delete_before(1).unwrap();
        let files = opened.files("");
        let path = opened.path().join(&files[file.index(files.len())]);
        let mut bytes = fs::read(&path).unwrap();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            fs::write(&path, bytes).unwrap();
        }
        if let Ok(log) = PartitionLog::open(&opened.path(), Arc::clone(&opened.config), NOW) {
            let offsets = log.offsets();
            let _ = log.read(offsets.log_start, 1 << 20, true, Isolation::ReadCommitted);
            let _ = log.offset_for(OffsetQuery::Timestamp(1, Isolation::ReadUncommitted));
            let _ = log.clean(NOW);
        }
    }
}
