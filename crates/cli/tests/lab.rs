//! The lab of `examples/lab`, on the `tidegate` binary, each kind of Kafka broker and the Python
//! producer: each result must come after exactly the row that brings it, and all at once must give the same.
#![allow(clippy::disallowed_methods)] // a test of a process reads the wall clock

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_testing::each_broker;
use tidegate_testing::kafka::{self, Kafka, Kind};
use tidegate_testing::lab::{self, Stepper};
use tidegate_testing::process::{Tidegate, binary, free_port};
use tidegate_testing::rest::Rest;
use tidegate_testing::wait_for;

each_broker! {
    a_window_waits_for_the_watermark_however_long,
    each_delay_gives_its_results_after_its_rows,
    late_rows_and_dropped_rows_are_told_apart,
    all_at_once_gives_the_same_counts,
    all_at_once_gives_the_same_counts_in_parallel,
    all_at_once_gives_the_same_late_rows,
    all_at_once_gives_the_same_late_rows_in_parallel,
}

const LIMIT: Duration = Duration::from_secs(30);
/// 2026-10-01 10:00:00 UTC.
const TEN: i64 = 1_790_848_800_000;

/// A script of the lab that runs, with its sources assigned.
struct Job {
    process: Tidegate,
    rest: Rest,
    id: String,
    topic: String,
    _dir: tempfile::TempDir,
}

impl Job {
    fn start(kafka: &Kafka, name: &str, args: &[&str]) -> Job {
        let topic = kafka.new_topic("clicks", 1);
        let dir = tempfile::tempdir().expect("a folder");
        let script = dir.path().join(name);
        std::fs::write(&script, lab::script(name, kafka.bootstrap(), &topic)).expect("the script");
        let port = free_port();
        let (script, port_text) = (script.display().to_string(), port.to_string());
        let mut all = vec!["run", script.as_str(), "--rest-port", port_text.as_str()];
        all.extend(args);
        let process = Tidegate::start(&binary(env!("CARGO_BIN_EXE_tidegate")), &all, dir.path());
        let rest = Rest::at(port);
        let id = wait_for(LIMIT, || rest.running_job());
        let id = id.unwrap_or_else(|| panic!("no job runs; standard error:\n{}", process.errors()));
        let job = Job { process, rest, id, topic, _dir: dir };
        // Tables start at the latest offset: what is sent before that is fixed would be missed.
        let ready = wait_for(LIMIT, || job.is_assigned().then_some(()));
        ready.unwrap_or_else(|| panic!("sources were not assigned; standard error:\n{}", job.process.errors()));
        job
    }

    /// Whether every source has its partition.
    fn is_assigned(&self) -> bool {
        let vertices = self.rest.vertices(&self.id).unwrap_or_default();
        let sources = vertices.iter().filter(|v| v.name.starts_with("Source: ")).count();
        sources > 0 && self.offsets().len() == sources
    }

    /// The last offset each source has read.
    fn offsets(&self) -> Vec<i64> {
        let name = format!("KafkaSourceReader.topic.{}.partition.0.currentOffset", self.topic);
        self.values(|id| id.ends_with(&name))
    }

    /// Values of the metrics whose id is wanted, over all vertices.
    fn values(&self, wanted: impl Fn(&str) -> bool) -> Vec<i64> {
        let mut values = Vec::new();
        for vertex in self.rest.vertices(&self.id).unwrap_or_default() {
            let metrics = self.rest.vertex_metrics(&self.id, &vertex.id).unwrap_or_default();
            values.extend(metrics.iter().filter(|(id, _)| wanted(id)).filter_map(|(_, v)| v.parse::<i64>().ok()));
        }
        values.sort_unstable();
        values
    }

    /// Waits until all sources have read `rows` rows and the window aggregates have these watermarks.
    fn wait_processed(&self, rows: usize, watermarks: &[i64]) {
        let last = i64::try_from(rows).expect("few") - 1;
        let reached = wait_for(LIMIT, || {
            let read = self.offsets().iter().all(|offset| *offset == last);
            (read && self.window_watermarks() == watermarks).then_some(())
        });
        if reached.is_none() {
            let (offsets, seen) = (self.offsets(), self.window_watermarks());
            panic!(
                "after row {rows}: offsets {offsets:?}, watermarks {seen:?}, expected {watermarks:?}; errors:\n{}",
                self.process.errors()
            );
        }
    }

    fn window_watermarks(&self) -> Vec<i64> {
        self.values(|id| id.starts_with("0.GlobalWindowAggregate[") && id.ends_with(".currentInputWatermark"))
    }

    fn assert_lines(&self, after: &str, expected: &[String]) {
        let mut lines = self.process.wait_count(LIMIT, expected.len());
        let mut expected = expected.to_vec();
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected, "{after}; standard error:\n{}", self.process.errors());
    }
}

fn environment(kind: Kind) -> Option<(&'static Kafka, &'static Path)> {
    Some((kafka::shared(kind)?, lab::python()?))
}

fn count(name: &str, start: u32, n: u32) -> String {
    let text = |second: u32| match second {
        0 => "2026-10-01T10:00".to_owned(),
        s => format!("2026-10-01T10:00:{s:02}"),
    };
    format!("{name}> +I[{}, {}, {n}]", text(start), text(start + 10))
}

fn out_of_order(name: &str, user: &str, second: u32, seq: u32, watermark: u32) -> String {
    format!("{name}> +I[{user}, 2026-10-01T10:00:{second:02}, {seq}, 2026-10-01T10:00:{watermark:02}]")
}

/// What experiment 2 prints, by the number of the row that brings it.
fn experiment_2() -> BTreeMap<usize, Vec<String>> {
    BTreeMap::from([
        (10, vec![count("d0", 0, 9)]),
        (16, vec![count("d5", 0, 10)]),
        (20, vec![count("d0", 10, 9), count("d10", 0, 10)]),
        (25, vec![count("d5", 10, 9)]),
        (30, vec![count("d0", 20, 9), count("d10", 10, 10)]),
        (36, vec![count("d5", 20, 10)]),
        (41, vec![count("d5", 30, 10), count("d0", 30, 10), count("d10", 20, 10), count("d10", 30, 10)]),
    ])
}

/// What experiment 3 prints, by the number of the row that brings it.
fn experiment_3() -> BTreeMap<usize, Vec<String>> {
    let both = |user, second, seq, watermark| {
        ["late", "dropped"].map(|name| out_of_order(name, user, second, seq, watermark)).to_vec()
    };
    BTreeMap::from([
        (7, vec![out_of_order("late", "u2", 3, 7, 6)]),
        (10, vec![count("d0", 0, 9)]),
        (12, both("u1", 8, 12, 11)),
        (20, vec![count("d0", 10, 9)]),
        (26, both("u3", 17, 26, 25)),
        (30, vec![count("d0", 20, 9)]),
        (33, both("u1", 29, 33, 32)),
        (41, vec![count("d0", 30, 10)]),
    ])
}

fn a_window_waits_for_the_watermark_however_long(kind: Kind) {
    let Some((kafka, python)) = environment(kind) else { return };
    let job = Job::start(kafka, "s1.sql", &[]);
    lab::send_all(python, kafka.bootstrap(), &job.topic, &lab::file("before.txt"));
    let ids = [
        "0.LocalWindowAggregate[3].currentInputWatermark".to_owned(),
        "0.Source__clicks[1].currentOutputWatermark".to_owned(),
        format!("0.Source__clicks[1].split.{}-0.watermark.currentWatermark", job.topic),
        "0.GlobalWindowAggregate[5].currentInputWatermark".to_owned(),
    ];
    let reached = wait_for(LIMIT, || {
        let metrics = job.rest.metrics(&job.id);
        let at_seven = |id: &String| metrics.get(id).is_some_and(|v| *v == (TEN + 7000).to_string());
        ids.iter().all(at_seven).then_some(())
    });
    let seen = || job.rest.metrics(&job.id).into_iter().filter(|(id, _)| id.contains("atermark")).collect::<Vec<_>>();
    assert!(reached.is_some(), "not all of {ids:?} are at 10:00:07: {:#?}", seen());
    let vertices = job.rest.vertices(&job.id).expect("vertices");
    let by_vertex: BTreeSet<i64> =
        vertices.iter().filter_map(|v| job.rest.watermarks(&job.id, &v.id)).flatten().map(|(_, value)| value).collect();
    assert_eq!(by_vertex, BTreeSet::from([TEN + 7000]), "the Watermarks tab");
    job.assert_lines("ten rows, watermark 10:00:07", &[]);

    lab::send_all(python, kafka.bootstrap(), &job.topic, &lab::file("after.txt"));
    job.wait_processed(11, &[TEN + 10_000]);
    job.assert_lines("the row of second 12", &[count("w2", 0, 10)]);
}

/// Sends the 41 rows one by one; after each, exactly what it brings must be there.
fn step_through(kind: Kind, script: &str, delays: &[i64], expected: &BTreeMap<usize, Vec<String>>) {
    let Some((kafka, python)) = environment(kind) else { return };
    let job = Job::start(kafka, script, &[]);
    let mut producer = Stepper::start(python, kafka.bootstrap(), &job.topic, &lab::file("events.txt"));
    let (mut lines, mut largest, mut seen) = (Vec::new(), 0, 0);
    for (index, second) in lab::seconds("events.txt").into_iter().enumerate() {
        let row = index + 1;
        largest = largest.max(i64::from(second));
        let mut watermarks: Vec<i64> = delays.iter().map(|delay| TEN + (largest - delay) * 1000).collect();
        watermarks.sort_unstable();
        let sent = Instant::now();
        let said = producer.step();
        assert!(said.starts_with(&format!("sent #{row:02} 10:00:{second:02}")), "{said}");
        job.wait_processed(row, &watermarks);
        lines.extend(expected.get(&row).cloned().unwrap_or_default());
        job.assert_lines(&format!("row {row}"), &lines);
        let printed = job.process.timed_lines();
        assert!(printed[seen..].iter().all(|line| line.at >= sent), "a result came before row {row} was sent");
        seen = printed.len();
    }
    assert_eq!(lines.len(), expected.values().map(Vec::len).sum::<usize>());
}

fn each_delay_gives_its_results_after_its_rows(kind: Kind) {
    step_through(kind, "s2.sql", &[0, 5, 10], &experiment_2());
}

fn late_rows_and_dropped_rows_are_told_apart(kind: Kind) {
    step_through(kind, "s3.sql", &[0], &experiment_3());
}

/// Sends the 41 rows at once: the same rows must come, at any parallelism.
fn all_at_once(kind: Kind, script: &str, parallelism: &str, expected: &BTreeMap<usize, Vec<String>>) {
    let Some((kafka, python)) = environment(kind) else { return };
    let job = Job::start(kafka, script, &["-p", parallelism]);
    lab::send_all(python, kafka.bootstrap(), &job.topic, &lab::file("events.txt"));
    let read = wait_for(LIMIT, || job.offsets().iter().all(|offset| *offset == 40).then_some(()));
    assert!(read.is_some(), "offsets {:?}; standard error:\n{}", job.offsets(), job.process.errors());
    let mut expected: Vec<String> = expected.values().flatten().cloned().collect();
    let mut lines = job.process.wait_count(LIMIT, expected.len());
    // At a parallelism of its own a sink adds the subtask: `d0:2> +I[...]`.
    for line in &mut lines {
        let (name, row) = line.split_once("> ").unwrap_or_else(|| panic!("a line without a name: {line}"));
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        *line = format!("{name}> {row}");
    }
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected, "standard error:\n{}", job.process.errors());
}

fn all_at_once_gives_the_same_counts(kind: Kind) {
    all_at_once(kind, "s2.sql", "1", &experiment_2());
}

fn all_at_once_gives_the_same_counts_in_parallel(kind: Kind) {
    all_at_once(kind, "s2.sql", "2", &experiment_2());
}

fn all_at_once_gives_the_same_late_rows(kind: Kind) {
    all_at_once(kind, "s3.sql", "1", &experiment_3());
}

fn all_at_once_gives_the_same_late_rows_in_parallel(kind: Kind) {
    all_at_once(kind, "s3.sql", "2", &experiment_3());
}
