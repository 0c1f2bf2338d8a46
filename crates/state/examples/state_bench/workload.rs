//! The operators' access to state: batches of rows through a write-back table; misses are looked up
//! together, dirty entries are written back sorted on eviction and at barriers.

use hashbrown::HashMap;
use std::fs;
use std::time::Instant;

pub const VALUE_BYTES: usize = 80;
const BATCH_ROWS: usize = 8_192;
/// Entries of a table of 128 MB.
const TABLE_ENTRIES: usize = 1_250_000;
const BARRIER_ROWS: u64 = 1_000_000;

/// A store under test.
pub trait Subject {
    /// Looks up ascending distinct keys.
    fn get(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>));
    /// Writes ascending distinct keys.
    fn write(&mut self, entries: &[(Vec<u8>, [u8; VALUE_BYTES])]);
    /// Makes everything written durable, as a checkpoint does.
    fn barrier(&mut self);
}

/// A small generator of random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// How row ids are drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spread {
    /// Exponent 0.9: the table holds about three quarters of the accesses to sixteen times its size.
    Zipf,
    Uniform,
}

/// How keys are built from ids.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Keys {
    /// `key group | hash | id`, 16 bytes.
    Fixed,
    /// `key group | hash | text`, 16 to 79 bytes.
    Variable,
}

pub fn key_of(id: u64, keys: Keys) -> Vec<u8> {
    let hash = mix(id);
    let mut key = Vec::with_capacity(16);
    key.extend_from_slice(&((hash % 128) as u16).to_be_bytes());
    key.extend_from_slice(&hash.to_be_bytes()[..6]);
    key.extend_from_slice(&id.to_be_bytes());
    if keys == Keys::Variable {
        key.extend(std::iter::repeat_n(b"user-name/"[(id % 10) as usize], (hash >> 20) as usize % 64));
    }
    key
}

/// A value that LZ4 shrinks to about 60 %: counter, noise, zeros.
pub fn value_of(id: u64, counter: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&counter.to_le_bytes());
    for (at, chunk) in value[8..40].chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(id ^ ((at as u64) << 50)).to_le_bytes());
    }
    value
}

struct Entry {
    id: u64,
    value: [u8; VALUE_BYTES],
    dirty: bool,
    used: bool,
}

/// What a run of rows cost.
#[derive(Default, Debug)]
pub struct Measured {
    pub rows: u64,
    pub misses: u64,
    pub written_back: u64,
    pub wall_s: f64,
    pub cpu_s: f64,
    pub get_s: f64,
    pub longest_barrier_s: f64,
}

/// Runs `rows` rows; each counts up its entry's counter.
pub fn read_modify_write(
    subject: &mut dyn Subject,
    entries: u64,
    (keys, spread): (Keys, Spread),
    rows: u64,
) -> Measured {
    let mut table = Table { places: HashMap::new(), slots: Vec::new(), hand: 0, keys };
    let mut random = Random(entries ^ spread as u64);
    let mut measured = Measured::default();
    let (start, cpu) = (now(), cpu_seconds());
    let mut since_barrier = 0;
    while measured.rows < rows {
        let ids: Vec<u64> = (0..BATCH_ROWS)
            .map(|_| match spread {
                Spread::Uniform => random.next() % entries,
                Spread::Zipf => (entries as f64 * random.unit().powi(10)) as u64,
            })
            .collect();
        table.load(subject, &ids, &mut measured);
        for id in &ids {
            table.count(*id);
        }
        measured.rows += BATCH_ROWS as u64;
        since_barrier += BATCH_ROWS as u64;
        if since_barrier >= BARRIER_ROWS {
            since_barrier = 0;
            let begin = now();
            measured.written_back += table.write_back(subject);
            subject.barrier();
            measured.longest_barrier_s = measured.longest_barrier_s.max(begin.elapsed().as_secs_f64());
        }
    }
    measured.written_back += table.write_back(subject);
    subject.barrier();
    (measured.wall_s, measured.cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    measured
}

struct Table {
    places: HashMap<u64, u32>,
    slots: Vec<Entry>,
    hand: usize,
    keys: Keys,
}

impl Table {
    fn count(&mut self, id: u64) {
        let slot = &mut self.slots[self.places[&id] as usize];
        let counter = u64::from_le_bytes(slot.value[..8].try_into().expect("eight bytes")) + 1;
        slot.value[..8].copy_from_slice(&counter.to_le_bytes());
        (slot.dirty, slot.used) = (true, true);
    }

    fn load(&mut self, subject: &mut dyn Subject, ids: &[u64], measured: &mut Measured) {
        let mut missing: Vec<u64> = ids.iter().copied().filter(|id| !self.places.contains_key(id)).collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return;
        }
        let mut wanted: Vec<(Vec<u8>, u64)> = missing.iter().map(|id| (key_of(*id, self.keys), *id)).collect();
        wanted.sort_unstable();
        let keys: Vec<&[u8]> = wanted.iter().map(|(key, _)| key.as_slice()).collect();
        let mut values = vec![None; keys.len()];
        let begin = now();
        subject.get(&keys, &mut |index, value| {
            values[index] = value.map(|value| <[u8; VALUE_BYTES]>::try_from(value).expect("a whole value"));
        });
        measured.get_s += begin.elapsed().as_secs_f64();
        measured.misses += keys.len() as u64;
        if self.slots.len() + wanted.len() > TABLE_ENTRIES {
            measured.written_back += self.evict(subject, ids);
        }
        for ((_, id), value) in wanted.iter().zip(values) {
            let value = value.unwrap_or_else(|| value_of(*id, 0));
            self.places.insert(*id, self.slots.len() as u32);
            self.slots.push(Entry { id: *id, value, dirty: false, used: true });
        }
    }

    /// Removes an eighth of the entries that were not used lately, and none of `keep`.
    fn evict(&mut self, subject: &mut dyn Subject, keep: &[u64]) -> u64 {
        for id in keep {
            if let Some(place) = self.places.get(id) {
                self.slots[*place as usize].used = true;
            }
        }
        let keep: hashbrown::HashSet<u64> = keep.iter().copied().collect();
        let mut out = Vec::new();
        for _ in 0..TABLE_ENTRIES / 8 {
            loop {
                self.hand %= self.slots.len();
                let slot = &mut self.slots[self.hand];
                if !slot.used && !keep.contains(&slot.id) {
                    break;
                }
                slot.used = false;
                self.hand += 1;
            }
            let slot = self.slots.swap_remove(self.hand);
            self.places.remove(&slot.id);
            if let Some(moved) = self.slots.get(self.hand) {
                self.places.insert(moved.id, self.hand as u32);
            }
            self.hand += 1;
            if slot.dirty {
                out.push((key_of(slot.id, self.keys), slot.value));
            }
        }
        out.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        subject.write(&out);
        out.len() as u64
    }

    fn write_back(&mut self, subject: &mut dyn Subject) -> u64 {
        let keys = self.keys;
        let dirty = self.slots.iter_mut().filter_map(|slot| std::mem::take(&mut slot.dirty).then_some(&*slot));
        let mut out: Vec<_> = dirty.map(|slot| (key_of(slot.id, keys), slot.value)).collect();
        out.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        subject.write(&out);
        out.len() as u64
    }
}

/// The ids of one of `parts` parts of all entries in key order, so that a base can be written sorted
/// without holding all of it.
pub fn sorted_part(entries: u64, keys: Keys, part: u64, parts: u64) -> Vec<(Vec<u8>, u64)> {
    let group = |id: u64| mix(id) % 128;
    let mut ids: Vec<_> =
        (0..entries).filter(|id| group(*id) * parts / 128 == part).map(|id| (key_of(id, keys), id)).collect();
    ids.sort_unstable();
    ids
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn now() -> Instant {
    Instant::now()
}

/// CPU time of the process, all threads.
pub fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Peak resident memory in MB.
pub fn peak_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024
}

pub fn report(name: &str, m: &Measured) {
    println!(
        "{name}: {:.0} k rows/s, {:.2} us CPU/row, hits {:.0} %, {:.2} us/miss wall, {:.2} us CPU/row+miss share, \
         longest barrier {:.2} s, written back {:.1} M, peak {} MB",
        m.rows as f64 / m.wall_s / 1e3,
        m.cpu_s / m.rows as f64 * 1e6,
        100.0 - m.misses as f64 / m.rows as f64 * 100.0,
        m.get_s / m.misses.max(1) as f64 * 1e6,
        m.cpu_s / m.misses.max(1) as f64 * 1e6,
        m.longest_barrier_s,
        m.written_back as f64 / 1e6,
        peak_mb(),
    );
}
