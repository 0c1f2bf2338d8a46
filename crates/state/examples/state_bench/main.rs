//! Measures the store under the operators' real access: `cargo run --release --example state_bench --
//! FOLDER rmw 2000000`. Docs get ratios of figures from one run, never the figures.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod own;
mod workload;

use own::Own;
use std::path::Path;
use std::sync::Arc;
use tidegate_state::{
    Compression, Entry, KeyGroupRange, KeyRange, KeyedStore, LocalDir, Namespace, PageCache, RunDir, RunStore,
    StoreOptions, WriteBatch,
};
use workload::{Keys, Spread, Subject, key_of, now, peak_mb, read_modify_write, report, sorted_part, value_of};

const CACHE_BYTES: usize = 64 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, what, entries, options @ ..] = &arguments[..] else {
        println!("FOLDER rmw|variable|cold|lists|prefixes|windows ENTRIES [raw] [long] [noahead]");
        return;
    };
    let entries: u64 = entries.parse().expect("a number of entries");
    let folder = Path::new(folder);
    let compression = if options.contains(&"raw".into()) { Compression::None } else { Compression::Lz4 };
    let store = StoreOptions { compression, sync: false, ..StoreOptions::default() };
    let rows = if options.contains(&"long".into()) { (0, 16_000_000) } else { (4_000_000, 2_000_000) };
    match what.as_str() {
        "rmw" => rmw(folder, entries, Keys::Fixed, store, rows),
        "variable" => rmw(folder, entries, Keys::Variable, store, rows),
        "cold" => cold(folder, entries, store, !options.contains(&"noahead".into())),
        "lists" => lists(folder, entries, store),
        "prefixes" => prefixes(folder, entries, store),
        "windows" => windows(folder, entries, store),
        _ => println!("unknown: {what}"),
    }
}

fn describe(own: &Own) {
    let usage = own.store.usage();
    println!(
        "  {} runs in {} shards, {} files of {} MB; footers {:.2} MB, cached pages {:.1} MB ({} hits, {} misses), chain {}",
        usage.runs,
        usage.shards,
        usage.files,
        usage.file_bytes >> 20,
        usage.footer_bytes as f64 / 1e6,
        usage.cache.bytes as f64 / 1e6,
        usage.cache.hits,
        usage.cache.misses,
        own.store.pressure().longest_chain,
    );
    let (flush, merge) = (own.flush_cost, own.merge_cost);
    println!(
        "  flushed {} MB of {} MB raw; merges read {} MB and wrote {} MB (largest {} MB): written / raw {:.2}, written / flushed {:.2}; uploaded {} MB",
        flush.bytes_written >> 20,
        flush.bytes_read >> 20,
        merge.bytes_read >> 20,
        merge.bytes_written >> 20,
        own.largest_merge_bytes >> 20,
        (flush.bytes_written + merge.bytes_written) as f64 / flush.bytes_read.max(1) as f64,
        (flush.bytes_written + merge.bytes_written) as f64 / flush.bytes_written.max(1) as f64,
        own.uploaded_bytes >> 20,
    );
}

/// A base of all entries and ten deltas of 2 % each.
fn load(own: &mut Own, entries: u64, keys: Keys) {
    own.merge_on = false;
    let parts = (entries / 500_000).clamp(1, 128);
    for part in 0..parts {
        let ids = sorted_part(entries, keys, part, parts);
        let values: Vec<_> = ids.into_iter().map(|(key, id)| (key, value_of(id, 0))).collect();
        own.write(&values);
        own.settle();
    }
    own.barrier();
    for delta in 1..=10 {
        let mut ids: Vec<_> = (delta..entries).step_by(50).map(|id| (key_of(id, keys), value_of(id, 0))).collect();
        ids.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        own.write(&ids);
        own.barrier();
    }
    own.settle();
}

fn rmw(folder: &Path, entries: u64, keys: Keys, options: StoreOptions, rows: (u64, u64)) {
    let start = now();
    let mut own = Own::create(folder, CACHE_BYTES, options.clone());
    load(&mut own, entries, keys);
    println!("loaded {entries} in {:.1} s, peak {} MB", start.elapsed().as_secs_f64(), peak_mb());
    describe(&own);
    let snapshot = own.last.take().expect("a snapshot");
    drop(own);
    let start = now();
    let dir = Arc::new(LocalDir::new(folder).expect("a folder"));
    let options = StoreOptions { file_prefix: "again".into(), ..options };
    let cache = Arc::new(PageCache::new(CACHE_BYTES));
    let (store, report_) =
        RunStore::restore(dir, options, cache, &[snapshot], KeyGroupRange::new(0, 128)).expect("files");
    println!("restored {} files in {:.4} s", report_.files, start.elapsed().as_secs_f64());
    let mut own = Own::new(store);
    let first = sorted_part(entries.min(100_000), keys, 0, 4);
    let first: Vec<&[u8]> = first.iter().take(8_192).map(|(key, _)| key.as_slice()).collect();
    let begin = now();
    own.get(&first, &mut |_, _| {});
    println!("first {} lookups after {:.3} s", first.len(), begin.elapsed().as_secs_f64());
    let mut counted = 0;
    let parts = [(Spread::Zipf, rows.0), (Spread::Uniform, rows.1)];
    for (spread, rows) in parts.into_iter().filter(|(_, rows)| *rows > 0) {
        let measured = read_modify_write(&mut own, entries, (keys, spread), rows);
        counted += measured.rows;
        report(&format!("{entries} {keys:?} {spread:?}"), &measured);
        describe(&own);
    }
    own.settle();
    println!("settled");
    describe(&own);
    check(&mut own, entries, counted);
}

/// Scans everything: as many entries as were loaded, and every row counted once.
fn check(own: &mut Own, entries: u64, counted: u64) {
    let begin = now();
    let (mut n, mut sum) = (0u64, 0u64);
    own.store
        .scan(Namespace::GLOBAL, &KeyRange::all(), 0, &mut |_, value| {
            n += 1;
            sum += value.bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            std::ops::ControlFlow::Continue(())
        })
        .expect("a scan");
    println!("scanned {n} entries (counted {sum}) in {:.1} s", begin.elapsed().as_secs_f64());
    assert_eq!((n, sum), (entries, counted));
}

/// Uniform rows after the files have left the page cache.
fn cold(folder: &Path, entries: u64, options: StoreOptions, ahead: bool) {
    let mut own = Own::create(folder, CACHE_BYTES, StoreOptions { sync: true, ..options.clone() });
    load(&mut own, entries, Keys::Fixed);
    let snapshot = own.last.take().expect("a snapshot");
    for file in &snapshot.files {
        let path = folder.join(&file.name);
        let of = format!("if={}", path.display());
        let status = std::process::Command::new("dd").args([&of, "iflag=nocache", "count=0", "status=none"]).status();
        assert!(status.expect("dd runs").success());
    }
    let local = LocalDir::new(folder).expect("a folder");
    let dir: Arc<dyn RunDir> = if ahead { Arc::new(local) } else { Arc::new(own::NoAhead(local)) };
    let options = StoreOptions { file_prefix: "again".into(), ..options };
    let cache = Arc::new(PageCache::new(CACHE_BYTES));
    let (store, _) = RunStore::restore(dir, options, cache, &[snapshot], KeyGroupRange::new(0, 128)).expect("files");
    let mut own = Own::new(store);
    own.merge_on = false;
    for batches in [1, 60] {
        let measured = read_modify_write(&mut own, entries, (Keys::Fixed, Spread::Uniform), batches * 8_192);
        report(&format!("cold, read ahead {ahead}, {batches} batches"), &measured);
    }
}

/// Rows of a join side: each appends one element to one of `entries` lists.
fn lists(folder: &Path, entries: u64, options: StoreOptions) {
    let mut own = Own::create(folder, CACHE_BYTES, options);
    let (start, cpu) = (now(), workload::cpu_seconds());
    let mut random = workload::Random(1);
    let rows = entries * 8;
    let mut appended = 0;
    while appended < rows {
        let mut ids: Vec<_> = (0..100_000).map(|_| random.next() % entries).collect();
        ids.sort_unstable();
        let mut grouped: Vec<_> =
            ids.chunk_by(|a, b| a == b).map(|ids| (key_of(ids[0], Keys::Fixed), ids.len())).collect();
        grouped.sort_unstable();
        let mut batch = WriteBatch::new();
        for (key, n) in &grouped {
            batch.push(key, Entry::append(&[7u8; 40].repeat(*n), *n as u32)).expect("ascending keys");
        }
        own.write_to(Namespace::GLOBAL, batch);
        appended += 100_000;
    }
    own.barrier();
    println!(
        "appended {appended} rows: {:.2} us CPU a row, {:.1} s",
        (workload::cpu_seconds() - cpu) / appended as f64 * 1e6,
        start.elapsed().as_secs_f64()
    );
    describe(&own);
    let (cpu, mut rows_read, mut lookups) = (workload::cpu_seconds(), 0u64, 0);
    for _ in 0..50 {
        let mut ids: Vec<_> = (0..8_192).map(|_| key_of(random.next() % entries, Keys::Fixed)).collect();
        ids.sort_unstable();
        ids.dedup();
        let keys: Vec<&[u8]> = ids.iter().map(Vec::as_slice).collect();
        lookups += keys.len();
        own.store
            .get(Namespace::GLOBAL, &keys, 0, &mut |_, value| rows_read += value.map_or(0, |v| u64::from(v.count)))
            .expect("a lookup");
    }
    println!(
        "read {lookups} lists of {rows_read} rows: {:.2} us CPU a list",
        (workload::cpu_seconds() - cpu) / lookups as f64 * 1e6
    );
    own.settle();
    describe(&own);
    let mut total = 0u64;
    own.store
        .scan(Namespace::GLOBAL, &KeyRange::all(), 0, &mut |_, value| {
            total += u64::from(value.count);
            std::ops::ControlFlow::Continue(())
        })
        .expect("a scan");
    assert_eq!(total, appended);
}

/// Map state: `entries` keys of ten rows each in three runs; the rows of a key are read by its prefix.
fn prefixes(folder: &Path, entries: u64, options: StoreOptions) {
    let mut own = Own::create(folder, CACHE_BYTES, options);
    own.merge_on = false;
    for part in 0..3 {
        let mut rows: Vec<_> = (0..entries)
            .flat_map(|id| (0..10u8).filter(|row| row % 3 == part).map(move |row| (id, row)))
            .map(|(id, row)| ([&key_of(id, Keys::Fixed)[..], &[row]].concat(), value_of(id, 0)))
            .collect();
        rows.sort_unstable();
        own.write(&rows);
        own.barrier();
    }
    let mut wanted: Vec<_> = (0..entries).step_by(7).map(|id| key_of(id, Keys::Fixed)).collect();
    wanted.sort_unstable();
    let (cpu, mut found) = (workload::cpu_seconds(), 0);
    for prefix in &wanted {
        let visit = &mut |_: &[u8], _: tidegate_state::Value<'_>| {
            found += 1;
            std::ops::ControlFlow::Continue(())
        };
        own.store.scan(Namespace::GLOBAL, &KeyRange::prefix(prefix), 0, visit).expect("a scan");
    }
    let cpu = workload::cpu_seconds() - cpu;
    println!("{} prefixes of {found} rows: {:.2} us CPU each", wanted.len(), cpu / wanted.len() as f64 * 1e6);
    assert_eq!(found, wanted.len() * 10);
}

/// `entries` windows of 100 keys each, written in ten flushes, read, and dropped.
fn windows(folder: &Path, entries: u64, options: StoreOptions) {
    let mut own = Own::create(folder, CACHE_BYTES, options);
    let (start, cpu) = (now(), workload::cpu_seconds());
    for round in 0..10 {
        for window in 0..entries {
            let mut keys: Vec<_> = (0..10).map(|n| key_of(window * 100 + n * 10 + round, Keys::Fixed)).collect();
            keys.sort_unstable();
            let mut batch = WriteBatch::new();
            for key in &keys {
                batch.push(key, Entry::put(&value_of(window, round))).expect("ascending keys");
            }
            own.store.write(Namespace(window as i64), batch).expect("a batch");
        }
        let begin = now();
        own.barrier();
        println!("flushed round {round} of {entries} windows in {:.3} s", begin.elapsed().as_secs_f64());
    }
    own.settle();
    println!(
        "{:.2} s, {:.2} us CPU an entry",
        start.elapsed().as_secs_f64(),
        (workload::cpu_seconds() - cpu) / (entries * 100) as f64 * 1e6
    );
    describe(&own);
    let text = own.last.as_ref().map_or(0, |snapshot| format!("{snapshot:?}").len());
    println!("  descriptor as text: {} KB", text >> 10);
    let begin = now();
    let mut found = 0;
    for window in 0..entries {
        let mut keys: Vec<_> = (0..100).map(|n| key_of(window * 100 + n, Keys::Fixed)).collect();
        keys.sort_unstable();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        own.store
            .get(Namespace(window as i64), &keys, 0, &mut |_, value| found += u64::from(value.is_some()))
            .expect("a lookup");
    }
    println!("read {found} entries, {:.2} us each", begin.elapsed().as_secs_f64() / found as f64 * 1e6);
    let begin = now();
    for window in 0..entries {
        own.store.drop_namespace(Namespace(window as i64)).expect("a drop");
    }
    println!("dropped {entries} windows, {:.1} us each", begin.elapsed().as_secs_f64() / entries as f64 * 1e6);
    describe(&own);
    assert_eq!(found, entries * 100);
}
