//! What users of event-time engines reported as wrong after a restore, each with its exact input and output.

use crate::rig::{Ran, Stretch, run};

/// `T(k, v, ts)` without a watermark delay, read from these rows `(k, second)`, and a query printed.
fn script(folder: &std::path::Path, rows: &[(&str, u32)], sink: &str, query: &str) -> String {
    let line = |(k, s): &(&str, u32)| {
        format!("{{\"k\":\"{k}\",\"v\":{s},\"ts\":\"2024-01-01 00:{:02}:{:02}\"}}\n", s / 60, s % 60)
    };
    let file = folder.join("rows.json");
    std::fs::write(&file, rows.iter().map(line).collect::<String>()).expect("rows");
    format!(
        "CREATE TABLE T (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         CREATE TABLE out_t ({sink}) WITH ('connector' = 'print');
         INSERT INTO out_t {query};",
        file.display()
    )
}

/// Stops after each of these numbers of events, one after the other, and goes on at the next parallelism.
#[track_caller]
fn cut(script: &str, events: &[u64], parallelisms: &[usize]) -> Ran {
    let mut stretches: Vec<Stretch> = events
        .iter()
        .enumerate()
        .map(|(i, events)| Stretch { parallelism: parallelisms[i % parallelisms.len()], events: Some(*events) })
        .collect();
    stretches.push(Stretch { parallelism: parallelisms[events.len() % parallelisms.len()], events: None });
    let (ran, ended) = run(script, &|_| stretches.clone());
    ended.unwrap_or_else(|e| panic!("{e}\n{}", ran.printed));
    ran
}

/// Printed rows without the subtask that printed them, sorted.
fn rows(ran: &Ran) -> Vec<&str> {
    let mut rows: Vec<&str> = ran.printed.lines().map(|l| l.split_once("> ").map_or(l, |(_, row)| row)).collect();
    rows.sort_unstable();
    rows
}

fn late(ran: &Ran) -> Vec<u64> {
    ran.summaries.iter().map(|s| s.late.iter().map(|l| l.rows).sum()).collect()
}

const COUNTS: &str = "k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), cnt BIGINT";
const PARALLELISMS: [&[usize]; 4] = [&[1], &[2], &[1, 2, 3], &[3, 2, 1]];

/// The window aggregates of SQL, each of 10 seconds, over T.
fn aggregate(window: &str) -> String {
    format!("SELECT k, window_start, window_end, COUNT(*) FROM TABLE({window}) GROUP BY k, window_start, window_end")
}

/// A session that is cut by a barrier after every row is one session all the same.
#[test]
fn a_session_cut_by_barriers_is_one_session() {
    let queries = [
        aggregate("SESSION(TABLE T PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND)"),
        "SELECT k, SESSION_START(ts, INTERVAL '10' SECOND), SESSION_END(ts, INTERVAL '10' SECOND), COUNT(*)
         FROM T GROUP BY k, SESSION(ts, INTERVAL '10' SECOND)"
            .to_owned(),
    ];
    for query in queries {
        for parallelisms in PARALLELISMS {
            let folder = tempfile::tempdir().expect("a folder");
            let script = script(folder.path(), &[("a", 0), ("a", 4), ("a", 8), ("b", 30)], COUNTS, &query);
            let ran = cut(&script, &[1, 1, 1, 1], parallelisms);
            assert_eq!(
                rows(&ran),
                [
                    "+I[a, 2024-01-01T00:00, 2024-01-01T00:00:18, 3]",
                    "+I[b, 2024-01-01T00:00:30, 2024-01-01T00:00:40, 1]"
                ],
                "{parallelisms:?}: {query}"
            );
            assert_eq!(late(&ran), [0; 5]);
        }
    }
}

/// The window table function of sessions holds its rows over barriers.
#[test]
fn rows_of_an_open_session_wait_over_barriers() {
    let query = "SELECT k, window_start, window_end, v
                 FROM TABLE(SESSION(TABLE T PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND))";
    for parallelisms in PARALLELISMS {
        let folder = tempfile::tempdir().expect("a folder");
        let script = script(folder.path(), &[("a", 0), ("c", 1), ("a", 8), ("b", 30)], COUNTS, query);
        let ran = cut(&script, &[1, 1, 1, 1], parallelisms);
        assert_eq!(
            rows(&ran),
            [
                "+I[a, 2024-01-01T00:00, 2024-01-01T00:00:18, 0]",
                "+I[a, 2024-01-01T00:00, 2024-01-01T00:00:18, 8]",
                "+I[b, 2024-01-01T00:00:30, 2024-01-01T00:00:40, 30]",
                "+I[c, 2024-01-01T00:00:01, 2024-01-01T00:00:11, 1]",
            ],
            "{parallelisms:?}"
        );
    }
}

/// What a window had closed before the savepoint stays closed after it: the row is late, and no window fires twice.
#[test]
fn the_watermark_is_not_forgotten() {
    let windows = [
        ("TUMBLE(TABLE T, DESCRIPTOR(ts), INTERVAL '10' SECOND)", &["[00, 10) 1", "[20, 30) 1"][..]),
        (
            "HOP(TABLE T, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)",
            &["[-10, 10) 1", "[00, 20) 1", "[10, 30) 1", "[20, 40) 1"][..],
        ),
        (
            "CUMULATE(TABLE T, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)",
            &["[00, 10) 1", "[00, 20) 1", "[20, 30) 1", "[20, 40) 1"][..],
        ),
        ("SESSION(TABLE T PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND)", &["[03, 13) 1", "[25, 35) 1"][..]),
    ];
    for (window, wanted) in windows {
        for parallelisms in PARALLELISMS {
            let folder = tempfile::tempdir().expect("a folder");
            let script = script(folder.path(), &[("a", 3), ("a", 25), ("a", 4)], COUNTS, &aggregate(window));
            let ran = cut(&script, &[2], parallelisms);
            let time = |second: i64| match second {
                ..0 => format!("2023-12-31T23:59:{}", 60 + second),
                0 => "2024-01-01T00:00".to_owned(),
                _ => format!("2024-01-01T00:00:{second:02}"),
            };
            let row = |text: &&str| {
                let (start, rest) = text.trim_start_matches('[').split_once(", ").expect("a start");
                let (end, count) = rest.split_once(") ").expect("an end");
                let second = |text: &str| time(text.parse().expect("a second"));
                format!("+I[a, {}, {}, {count}]", second(start), second(end))
            };
            let mut wanted: Vec<String> = wanted.iter().map(row).collect();
            wanted.sort_unstable();
            assert_eq!(rows(&ran), wanted, "{parallelisms:?}: {window}");
            assert_eq!(late(&ran), [0, 1], "{parallelisms:?}: {window}");
        }
    }
}

/// Files that two subtasks were reading side by side, one of them far ahead, go on side by side in one: no row of the
/// one behind is late.
#[test]
fn files_read_side_by_side_go_on_side_by_side() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in 0..2 {
        let rows = (0..30).map(|i| {
            let second = if file == 0 { i } else { i * 2 };
            format!("{{\"k\":\"a\",\"v\":1,\"ts\":\"2024-01-01 00:00:{second:02}\"}}\n")
        });
        std::fs::write(folder.path().join(format!("part-{file}.json")), rows.collect::<String>()).expect("rows");
    }
    let script = format!(
        "CREATE TABLE T (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         CREATE TABLE out_t ({COUNTS}) WITH ('connector' = 'print');
         INSERT INTO out_t {};",
        folder.path().display(),
        aggregate("TUMBLE(TABLE T, DESCRIPTOR(ts), INTERVAL '10' SECOND)")
    );
    for events in [7, 20, 33, 45] {
        for after in [1, 2, 3] {
            let ran = cut(&script, &[events], &[2, after]);
            let time = |s: u32| if s == 0 { "2024-01-01T00:00".to_owned() } else { format!("2024-01-01T00:00:{s:02}") };
            let row = |i: u32| {
                let end = if i == 5 { "2024-01-01T00:01".to_owned() } else { time(i * 10 + 10) };
                format!("+I[a, {}, {end}, {}]", time(i * 10), if i < 3 { 15 } else { 5 })
            };
            assert_eq!(rows(&ran), (0..6).map(row).collect::<Vec<_>>(), "{events} events, 2 to {after}");
            assert_eq!(late(&ran), [0, 0]);
        }
    }
}

/// Two tables united, one read to its end before the savepoint: it is not read again.
#[test]
fn a_source_that_has_ended_is_not_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = script(folder.path(), &[("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5)], "k STRING, cnt BIGINT", "");
    let (tables, _) = long.rsplit_once("INSERT INTO").expect("an insert");
    let short = "SELECT k, COUNT(*) FROM (SELECT k FROM T UNION ALL SELECT 'a' AS k FROM (VALUES (1), (2))) GROUP BY k";
    let script = format!("{tables} INSERT INTO out_t {short};");
    // Nine events: the five rows and the two, and two ends.
    for events in 0..9 {
        for parallelisms in [&[1, 1], &[1, 2], &[2, 1], &[2, 3]] {
            let ran = cut(&script, &[events], parallelisms);
            let last = rows(&ran).into_iter().filter(|r| r.starts_with("+I") || r.starts_with("+U")).max();
            assert_eq!(last, Some("+U[a, 7]"), "{events} events, {parallelisms:?}: {}", ran.printed);
            assert_eq!(ran.printed.lines().filter(|l| l.contains("+I[")).count(), 1);
        }
    }
}

/// Allowed lateness keeps windows for late rows, and must not lose the last of their updates. It is not supported,
/// and a script that asks for it is told so before anything runs.
#[test]
fn allowed_lateness_is_refused_by_name() {
    let query = "SELECT k, TUMBLE_START(ts, INTERVAL '1' HOUR), TUMBLE_END(ts, INTERVAL '1' HOUR), COUNT(*)
                 FROM T GROUP BY k, TUMBLE(ts, INTERVAL '1' HOUR)";
    let folder = tempfile::tempdir().expect("a folder");
    let plain = script(folder.path(), &[("a", 1)], COUNTS, query);
    for (settings, said) in [
        ("SET 'table.exec.emit.allow-lateness' = '1 h';", "table.exec.emit.allow-lateness"),
        (
            "SET 'table.exec.emit.late-fire.enabled' = 'true'; SET 'table.exec.emit.late-fire.delay' = '1 min';",
            "table.exec.emit.*",
        ),
        ("SET 'table.exec.emit.early-fire.enabled' = 'true';", "table.exec.emit.*"),
    ] {
        let (ran, ended) = run(&format!("{settings} {plain}"), &|_| vec![Stretch { parallelism: 1, events: None }]);
        let told = ended.expect_err("it is refused").to_string();
        assert!(told.contains(said) && told.contains("not supported") && told.contains("line "), "{told}");
        assert!(ran.printed.is_empty() && ran.summaries.is_empty());
    }
}
