//! What users of event-time engines reported as wrong, each with its exact input and the right output.
//!
//! Rows are read from a file one after the other (one split), so every row meets exactly the watermark
//! of the rows before it; at the end of the file the watermark goes to its maximum.

mod common;

use std::time::Duration;

use common::{Finished, tidegate};

const LIMIT: Duration = Duration::from_secs(60);

/// Runs `script`, in which `@FILE@` stands for a file with these lines.
fn run(lines: &[&str], script: &str) -> Finished {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("rows.json");
    std::fs::write(&data, lines.iter().map(|l| format!("{l}\n")).collect::<String>()).expect("data");
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script.replace("@FILE@", &data.to_string_lossy())).expect("a script");
    tidegate(&["run", &file.to_string_lossy()], LIMIT)
}

/// `T(k, v, ts)` with a watermark delay, and a print table for the query.
fn over_t(delay: &str, sink: &str, query: &str) -> String {
    format!(
        "CREATE TABLE T (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND)
         WITH ('connector' = 'filesystem', 'path' = '@FILE@', 'format' = 'json');
         CREATE TABLE out_t ({sink}) WITH ('connector' = 'print');
         INSERT INTO out_t {query};"
    )
}

/// `{"k":"a","v":1,"ts":"..."}`; times without a date lie on 2024-01-01.
fn rows(times: &[&str]) -> Vec<String> {
    let full = |t: &&str| if t.len() > 12 { (*t).to_owned() } else { format!("2024-01-01 {t}") };
    times.iter().map(|t| format!(r#"{{"k":"a","v":1,"ts":"{}"}}"#, full(t))).collect()
}

#[track_caller]
fn expect(ran: &Finished, wanted: &[&str]) {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut printed: Vec<&str> = ran.stdout.lines().collect();
    let mut wanted = wanted.to_vec();
    printed.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(printed, wanted, "stderr: {}", ran.stderr);
}

#[track_caller]
fn case(times: &[&str], delay: &str, sink: &str, query: &str, wanted: &[&str]) -> Finished {
    let lines = rows(times);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let ran = run(&lines, &over_t(delay, sink, query));
    expect(&ran, wanted);
    ran
}

const COUNTS: &str = "ws TIMESTAMP(3), we TIMESTAMP(3), cnt BIGINT";

fn tumble(size: &str) -> String {
    format!(
        "SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE T, DESCRIPTOR(ts), INTERVAL {size}))
         GROUP BY window_start, window_end"
    )
}

#[test]
fn old_data_after_new_is_dropped_with_a_word() {
    let new = "2024-02-18 00:00:01";
    let ran = case(
        &[new, new, new, new, new, "2024-02-17 22:59:59"],
        "0",
        COUNTS,
        &tumble("'1' DAY"),
        &["+I[2024-02-18T00:00, 2024-02-19T00:00, 5]"],
    );
    for told in [
        "1 row dropped as late",
        "window [2024-02-17 00:00:00.000, 2024-02-18 00:00:00.000)",
        "watermark is 2024-02-18 00:00:01.000, 1 s past its end",
    ] {
        assert!(ran.stderr.contains(told), "no '{told}' in: {}", ran.stderr);
    }
}

#[test]
fn a_stream_united_with_itself_counts_twice() {
    let query = "SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE both_t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                 GROUP BY window_start, window_end";
    let script = over_t("0", COUNTS, query)
        .replace("INSERT INTO", "CREATE VIEW both_t AS SELECT * FROM T UNION ALL SELECT * FROM T; INSERT INTO");
    let lines = rows(&["00:00:01", "00:00:12"]);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    expect(
        &run(&lines, &script),
        &["+I[2024-01-01T00:00, 2024-01-01T00:00:10, 2]", "+I[2024-01-01T00:00:10, 2024-01-01T00:00:20, 2]"],
    );
}

#[test]
fn last_year_is_replayed_by_its_own_time() {
    let ran = case(
        &["2023-10-01 00:00:10", "2023-10-01 00:00:50", "2023-10-01 00:02:00"],
        "30",
        COUNTS,
        &tumble("'1' MINUTE"),
        &["+I[2023-10-01T00:00, 2023-10-01T00:01, 2]", "+I[2023-10-01T00:02, 2023-10-01T00:03, 1]"],
    );
    assert!(!ran.stderr.contains("late"), "{}", ran.stderr);
}

#[test]
fn tiny_backward_steps_do_not_stall_the_watermark() {
    let mut times = vec!["00:00:01.000".to_owned(), "00:00:01.001".into(), "00:00:00.999".into()];
    times.extend((1002..=12_000).step_by(7).map(|ms| format!("00:00:{:02}.{:03}", ms / 1000, ms % 1000)));
    let first = times.iter().filter(|t| t.as_str() < "00:00:10").count();
    let wanted = [
        format!("+I[2024-01-01T00:00, 2024-01-01T00:00:10, {first}]"),
        format!("+I[2024-01-01T00:00:10, 2024-01-01T00:00:20, {}]", times.len() - first),
    ];
    let times: Vec<&str> = times.iter().map(String::as_str).collect();
    case(&times, "0", COUNTS, &tumble("'10' SECOND"), &[&wanted[0], &wanted[1]]);
}

#[test]
fn window_bounds_lie_on_the_grid() {
    case(
        &["10:01:00", "10:05:00", "10:21:00"],
        "0",
        COUNTS,
        &tumble("'20' MINUTE"),
        &["+I[2024-01-01T10:00, 2024-01-01T10:20, 2]", "+I[2024-01-01T10:20, 2024-01-01T10:40, 1]"],
    );
}

fn session(gap: &str) -> String {
    format!(
        "SELECT window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE T, DESCRIPTOR(ts), INTERVAL '{gap}' SECOND))
         GROUP BY window_start, window_end"
    )
}

#[test]
fn a_session_needs_no_key() {
    case(
        &["00:00:00", "00:00:03", "00:00:20"],
        "0",
        COUNTS,
        &session("5"),
        &["+I[2024-01-01T00:00, 2024-01-01T00:00:08, 2]", "+I[2024-01-01T00:00:20, 2024-01-01T00:00:25, 1]"],
    );
}

#[test]
fn a_session_ends_a_gap_after_its_last_row() {
    case(
        &["00:00:00", "00:00:10"],
        "0",
        "ws TIMESTAMP(3), we TIMESTAMP(3), wt TIMESTAMP(3)",
        "SELECT window_start, window_end, window_time
         FROM TABLE(SESSION(TABLE T PARTITION BY k, DESCRIPTOR(ts), INTERVAL '30' SECOND))
         GROUP BY k, window_start, window_end, window_time",
        &["+I[2024-01-01T00:00, 2024-01-01T00:00:40, 2024-01-01T00:00:39.999]"],
    );
}

#[test]
fn equal_row_times_meet_once_half_an_hour_apart() {
    // What is in state meanwhile is tested where it is kept.
    let script = "CREATE TABLE t1 (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
         WITH ('connector' = 'filesystem', 'path' = '@FILE@', 'format' = 'json');
         CREATE TABLE t2 (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
         WITH ('connector' = 'filesystem', 'path' = '@FILE@', 'format' = 'json');
         CREATE TABLE out_t (ts TIMESTAMP(3)) WITH ('connector' = 'print');
         INSERT INTO out_t SELECT t1.ts FROM t1 JOIN t2 ON t1.ts = t2.ts;";
    let lines = [r#"{"ts":"2024-01-01 05:00:00.000"}"#, r#"{"ts":"2024-01-01 05:33:43.520"}"#];
    expect(&run(&lines, script), &["+I[2024-01-01T05:00]", "+I[2024-01-01T05:33:43.520]"]);
}

fn hop(slide_ms: &str, size_ms: &str) -> String {
    format!(
        "SELECT window_start, window_end, COUNT(*)
         FROM TABLE(HOP(TABLE T, DESCRIPTOR(ts), INTERVAL '{slide_ms}' SECOND(3), INTERVAL '{size_ms}' SECOND(3)))
         GROUP BY window_start, window_end"
    )
}

#[test]
fn odd_hops_lose_no_row() {
    let at = &["2024-03-01 17:51:52.577"];
    case(
        at,
        "0",
        COUNTS,
        &hop("0.8", "1.6"),
        &[
            "+I[2024-03-01T17:51:51.200, 2024-03-01T17:51:52.800, 1]",
            "+I[2024-03-01T17:51:52, 2024-03-01T17:51:53.600, 1]",
        ],
    );
    case(
        at,
        "0",
        COUNTS,
        &hop("0.7", "1.4"),
        &[
            "+I[2024-03-01T17:51:51.400, 2024-03-01T17:51:52.800, 1]",
            "+I[2024-03-01T17:51:52.100, 2024-03-01T17:51:53.500, 1]",
        ],
    );
    let refused = run(&[], &over_t("0", COUNTS, &hop("0.7", "1.6")));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("size 1600 ms and slide 700 ms"), "{}", refused.stderr);
}

/// A table whose rowtime is an instant in epoch milliseconds.
fn over_instants(zone: &str, millis: &[i64], sink: &str, query: &str) -> Finished {
    let lines: Vec<String> = millis.iter().map(|ms| format!(r#"{{"ms":{ms}}}"#)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    run(
        &lines,
        &format!(
            "SET 'table.local-time-zone' = '{zone}';
             CREATE TABLE T (ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
             WITH ('connector' = 'filesystem', 'path' = '@FILE@', 'format' = 'json');
             CREATE TABLE out_t ({sink}) WITH ('connector' = 'print');
             INSERT INTO out_t {query};"
        ),
    )
}

#[test]
fn instants_are_windowed_and_shown_in_the_session_zone() {
    let ran = over_instants(
        "GMT+08:00",
        &[0],
        "ws TIMESTAMP(3), we TIMESTAMP(3), wt TIMESTAMP_LTZ(3)",
        "SELECT window_start, window_end, window_time FROM TABLE(TUMBLE(TABLE T, DESCRIPTOR(ts), INTERVAL '10' SECOND))
         GROUP BY window_start, window_end, window_time",
    );
    expect(&ran, &["+I[1970-01-01T08:00, 1970-01-01T08:00:10, 1970-01-01T00:00:09.999Z]"]);
}

#[test]
fn spring_forward_shortens_a_window() {
    let hours = [1_615_708_800_000, 1_615_712_400_000, 1_615_716_000_000, 1_615_719_600_000];
    expect(
        &over_instants("America/Los_Angeles", &hours, COUNTS, &tumble("'4' HOUR")),
        &["+I[2021-03-14T00:00, 2021-03-14T04:00, 3]", "+I[2021-03-14T04:00, 2021-03-14T08:00, 1]"],
    );
    expect(&over_instants("UTC", &hours, COUNTS, &tumble("'4' HOUR")), &["+I[2021-03-14T08:00, 2021-03-14T12:00, 4]"]);
}

#[test]
fn a_day_is_a_day_of_the_session_zone() {
    // 2024-01-24T22:30Z, 23:30Z and 2024-01-25T21:59Z.
    let instants = [1_706_135_400_000, 1_706_139_000_000, 1_706_219_940_000];
    expect(
        &over_instants("GMT+02:00", &instants, COUNTS, &tumble("'1' DAY")),
        &["+I[2024-01-25T00:00, 2024-01-26T00:00, 3]"],
    );
    case(
        &["2024-01-24 22:30:00", "2024-01-24 23:30:00", "2024-01-25 21:59:00"],
        "0",
        COUNTS,
        &tumble("'1' DAY"),
        &["+I[2024-01-24T00:00, 2024-01-25T00:00, 2]", "+I[2024-01-25T00:00, 2024-01-26T00:00, 1]"],
    );
}

#[test]
fn a_bucket_holds_its_row_in_any_offset() {
    // 2024-07-01T05:30Z is 01:30 in New York in summer.
    expect(
        &over_instants("America/New_York", &[1_719_811_800_000], COUNTS, &tumble("'1' HOUR")),
        &["+I[2024-07-01T01:00, 2024-07-01T02:00, 1]"],
    );
}

#[test]
fn a_window_over_a_window_loses_nothing() {
    let ran = case(
        &["00:00:01", "00:00:06", "00:00:12", "00:00:21"],
        "0",
        "ws TIMESTAMP(3), s BIGINT",
        "SELECT window_start, SUM(n) FROM TABLE(TUMBLE(
           (SELECT window_time AS wt, SUM(v) AS n FROM TABLE(TUMBLE(TABLE T, DESCRIPTOR(ts), INTERVAL '5' SECOND))
            GROUP BY window_start, window_end, window_time), DESCRIPTOR(wt), INTERVAL '10' SECOND))
         GROUP BY window_start, window_end",
        &["+I[2024-01-01T00:00, 2]", "+I[2024-01-01T00:00:10, 1]", "+I[2024-01-01T00:00:20, 1]"],
    );
    assert!(!ran.stderr.contains("late"), "{}", ran.stderr);
}

#[test]
fn finality_follows_the_watermark_not_the_greatest_time() {
    case(
        &["11:50:00", "11:50:50", "11:51:05", "11:50:55", "11:51:16"],
        "15",
        COUNTS,
        &tumble("'1' MINUTE"),
        &["+I[2024-01-01T11:50, 2024-01-01T11:51, 3]", "+I[2024-01-01T11:51, 2024-01-01T11:52, 2]"],
    );
}

#[test]
fn a_null_event_time_follows_the_policy() {
    let lines = [
        r#"{"k":"a","v":1,"ts":"2024-01-01 00:00:01"}"#,
        r#"{"k":"b","v":2,"ts":null}"#,
        r#"{"k":"c","v":3,"ts":"2024-01-01 00:00:20"}"#,
    ];
    let script = over_t("0", COUNTS, &tumble("'10' SECOND"));
    let failed = run(&lines, &script);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    for word in ["ts", "rows.json", "line 2"] {
        assert!(failed.stderr.contains(word), "no '{word}' in: {}", failed.stderr);
    }
    let dropped = run(&lines, &format!("SET 'tidegate.rowtime.null' = 'drop'; {script}"));
    expect(
        &dropped,
        &["+I[2024-01-01T00:00, 2024-01-01T00:00:10, 1]", "+I[2024-01-01T00:00:20, 2024-01-01T00:00:30, 1]"],
    );
    assert!(dropped.stderr.to_lowercase().contains("null"), "{}", dropped.stderr);
}

#[test]
fn timestamp_spellings_are_read_or_refused_never_nulled() {
    let script = |ty: &str, standard: &str| {
        format!(
            "CREATE TABLE T (ts {ty}) WITH ('connector' = 'filesystem', 'path' = '@FILE@', 'format' = 'json',
               'json.timestamp-format.standard' = '{standard}');
             CREATE TABLE out_t (ts {ty}) WITH ('connector' = 'print');
             INSERT INTO out_t SELECT ts FROM T;"
        )
    };
    let iso = script("TIMESTAMP_LTZ(3)", "ISO-8601");
    for (text, instant) in [
        ("2024-02-12T21:31:21-05:00", "2024-02-13T02:31:21Z"),
        ("2020-03-26T11:03:29.986905-0700", "2020-03-26T18:03:29.986Z"),
        ("2021-01-01T01:02:03Z", "2021-01-01T01:02:03Z"),
    ] {
        expect(&run(&[&format!(r#"{{"ts":"{text}"}}"#)], &iso), &[&format!("+I[{instant}]")]);
    }
    let long = run(&[r#"{"ts":"2022-09-21 09:45:47.387344020Z"}"#], &script("TIMESTAMP_LTZ(3)", "SQL"));
    expect(&long, &["+I[2022-09-21T09:45:47.387Z]"]);
    let spaced = run(&[r#"{"ts":"2021-01-01 01:02:03"}"#], &iso);
    assert_eq!(spaced.code, Some(1), "{}", spaced.stderr);
    let shifted = run(&[r#"{"ts":"2021-01-01T01:02:03-05:00"}"#], &script("TIMESTAMP(3)", "ISO-8601"));
    assert_eq!(shifted.code, Some(1), "{}", shifted.stderr);
}

#[test]
fn units_of_epoch_numbers_are_stated_never_guessed() {
    let script = "CREATE TABLE T (x BIGINT) WITH ('connector' = 'filesystem', 'path' = '@FILE@', 'format' = 'json');
        CREATE TABLE out_t (a TIMESTAMP_LTZ(9), b TIMESTAMP_LTZ(3), c TIMESTAMP_LTZ(3)) WITH ('connector' = 'print');
        INSERT INTO out_t SELECT TO_TIMESTAMP_LTZ(63072000000000000, 9), TO_TIMESTAMP_LTZ(x, 0), TO_TIMESTAMP_LTZ(x, 3) FROM T;";
    expect(
        &run(&[r#"{"x":1704067205}"#], script),
        &["+I[1972-01-01T00:00:00Z, 2024-01-01T00:00:05Z, 1970-01-20T17:21:07.205Z]"],
    );
}

#[test]
fn seconds_read_as_milliseconds_are_warned_of() {
    let seconds: Vec<i64> = (0..200).map(|i| 1_704_067_205 + i).collect();
    let ran = over_instants("UTC", &seconds, COUNTS, &tumble("'1' DAY"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("1970"), "{}", ran.stderr);
}

#[test]
fn micros_before_1970_floor() {
    let script = "CREATE TABLE T (x BIGINT) WITH ('connector' = 'filesystem', 'path' = '@FILE@', 'format' = 'json');
        CREATE TABLE out_t (a TIMESTAMP_LTZ(6)) WITH ('connector' = 'print');
        INSERT INTO out_t SELECT TO_TIMESTAMP_LTZ(x, 6) FROM T;";
    expect(
        &run(&[r#"{"x":-6795364578871000}"#, r#"{"x":1704067205000001}"#], script),
        &["+I[1754-08-30T22:43:41.129Z]", "+I[2024-01-01T00:00:05.000001Z]"],
    );
}

#[test]
fn a_blank_record_is_no_row_of_nulls() {
    let script = "CREATE TABLE T (id INT) WITH ('connector' = 'filesystem', 'path' = '@FILE@', 'format' = 'json');
        CREATE TABLE out_t (id INT) WITH ('connector' = 'print');
        INSERT INTO out_t SELECT id FROM T;";
    let ran = run(&[r#"{"id":1}"#, "", r#"{"id":2}"#], script);
    expect(&ran, &["+I[1]", "+I[2]"]);
    assert!(ran.stderr.contains("blank"), "{}", ran.stderr);
}

#[test]
fn one_future_timestamp_closes_windows_and_is_named() {
    // The guard is off: Flink's behaviour, but said.
    let ran = case(
        &["2026-01-10 10:00:10", "2999-01-11 10:00:20", "2026-01-10 10:00:30", "2026-01-10 10:01:10"],
        "5",
        COUNTS,
        &tumble("'1' MINUTE"),
        &["+I[2026-01-10T10:00, 2026-01-10T10:01, 1]", "+I[2999-01-11T10:00, 2999-01-11T10:01, 1]"],
    );
    assert!(ran.stderr.contains("ahead of"), "{}", ran.stderr);
    assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 rows") || ran.stderr.contains("late"), "{}", ran.stderr);
}
