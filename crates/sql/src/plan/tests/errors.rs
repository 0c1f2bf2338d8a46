//! Messages: Flink's words, with the place.

use super::support::error;

const TABLES: &str =
    "CREATE TABLE t (pid INT, depot STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem');
CREATE TABLE b (pid INT, name STRING, t2 TIMESTAMP(3)) WITH ('connector' = 'filesystem');
CREATE TABLE o (a INT) WITH ('connector' = 'print');
";

fn of(query: &str) -> String {
    error(&format!("{TABLES}{query};"))
}

#[track_caller]
fn says(query: &str, text: &str) {
    let message = of(query);
    assert!(message.contains(text), "{query}\n  gives: {message}\n  wants: {text}");
}

#[test]
fn names_are_reported_where_they_stand() {
    let place = "SQL validation failed. From line 4, column 8 to line 4, column 13: ";
    says("SELECT weight FROM t", &format!("{place}Column 'weight' not found in any table"));
    says("SELECT pid FROM t JOIN b ON t.pid = b.pid", "Column 'pid' is ambiguous");
    says("SELECT pid FROM ghost", "From line 4, column 17 to line 4, column 21: Object 'ghost' not found");
    says("SELECT x.pid FROM t", "Table 'x' not found");
    says("INSERT INTO nowhere SELECT pid FROM t", "Cannot find table '`default_catalog`.`default_database`.`nowhere`'");
    says("SELECT SHOUT(depot) FROM t", "No match found for function signature SHOUT(<CHARACTER>)");
}

#[test]
fn aggregates_stand_where_they_may() {
    says("SELECT depot FROM t WHERE COUNT(*) > 1 GROUP BY depot", "Aggregate expression is illegal in WHERE clause");
    says(
        "SELECT depot, pid, COUNT(*) FROM t GROUP BY depot",
        "column 15 to line 4, column 17: Expression 'pid' is not being grouped",
    );
    says("SELECT SUM(COUNT(*)) FROM t", "Aggregate expressions cannot be nested");
    says("SELECT depot FROM t WHERE depot", "WHERE clause must be a condition");
}

#[test]
fn windows_need_a_rowtime_and_lengths_that_divide() {
    let tumble = |table: &str, column: &str| {
        format!(
            "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR({column}), INTERVAL '1' SECOND))
             GROUP BY window_start, window_end"
        )
    };
    says(&tumble("t", "pid"), "requires the timecol to be TIMESTAMP or TIMESTAMP_LTZ, but is INTEGER.\nBesides,");
    says(&tumble("b", "t2"), "The window function requires the timecol is a time attribute type, but is TIMESTAMP(3).");
    says(&tumble("t", "nope"), "Column 'nope' not found in any table");
    let hop = "SELECT window_start, COUNT(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end";
    says(hop, "requires size must be an integral multiple of slide, but got size 10000 ms and slide 4000 ms");
    let cumulate = "SELECT * FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND))";
    says(cumulate, "maxSize must be an integral multiple of step, but got maxSize 10000 ms and step 4000 ms.");
    let short = "SELECT * FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND))";
    says(short, "Invalid number of arguments to function 'HOP'. Was expecting 4 arguments");
    let month = "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH))";
    says(month, "Window aggregate only support SECOND, MINUTE, HOUR, DAY as the time unit.");
    let auxiliary = "SELECT TUMBLE_START(ts, INTERVAL '2' SECOND) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)";
    says(auxiliary, "must have matching call to group function '$TUMBLE' in GROUP BY clause");
}

#[test]
fn current_watermark_wants_a_rowtime() {
    says("SELECT CURRENT_WATERMARK(t2) FROM b", "must be a rowtime attribute, but was 'TIMESTAMP(3)'.");
    says("SELECT CURRENT_WATERMARK(CAST(ts AS TIMESTAMP(3))) FROM t", "must be a rowtime attribute");
}

#[test]
fn what_does_not_run_is_refused_by_name() {
    says("SELECT pid FROM t ORDER BY pid DESC", "Sort on a non-time-attribute field is not supported.");
    says("SELECT pid FROM t LIMIT 3", "LIMIT");
    says(
        "SELECT /*+ STATE_TTL('t' = '1d') */ pid, COUNT(*) FROM t GROUP BY pid",
        "The STATE_TTL hint is not supported",
    );
    says(
        "SELECT t.pid FROM t JOIN b ON t.pid = b.pid",
        "INNER JOIN without time bounds (a regular join) is not supported by Tidegate yet.",
    );
    says("SELECT pid FROM t RIGHT JOIN b USING (pid)", "JOIN ... USING is not supported by Tidegate yet.");
    says("SELECT t.pid FROM t, LATERAL (SELECT name FROM b WHERE b.pid = t.pid)", "LATERAL (SELECT ...)");
    says("SELECT t.pid FROM t JOIN b FOR SYSTEM_TIME AS OF t.ts AS r ON t.pid = r.pid", "no primary key can be found");
    says("SELECT RANK() OVER (PARTITION BY depot ORDER BY pid) FROM t", "RANK() on streaming table is not supported");
    says("SELECT pid FROM t WHERE pid IN (SELECT pid FROM b)", "IN (SELECT ...)");
    says("SELECT pid FROM t INTERSECT SELECT pid FROM b", "INTERSECT");
    let over =
        "SELECT SUM(pid) OVER (PARTITION BY depot ORDER BY depot ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t";
    says(over, "OVER RANGE FOLLOWING windows are not supported yet.");
    let pattern =
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY pid MEASURES A.pid AS q PATTERN (A B) DEFINE B AS B.pid < 1)";
    says(pattern, "You must specify either rowtime or proctime for order by as the first one.");
    let greedy =
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.pid AS q PATTERN (A B+) DEFINE B AS B.pid < 1)";
    says(greedy, "Greedy quantifiers are not allowed as the last element");
}

#[test]
fn declarations_are_checked_when_they_are_used() {
    let made = |columns: &str| {
        error(&format!("CREATE TABLE m ({columns}) WITH ('connector' = 'filesystem'); SELECT a FROM m;"))
    };
    let text = made("a STRING, WATERMARK FOR a AS a");
    assert!(text.contains("Invalid data type of time field for watermark definition."), "{text}");
    let text = made("a STRING, WATERMARK FOR stamp AS stamp");
    assert!(
        text.contains("The rowtime attribute field 'stamp' is not defined in the table schema, at line 1"),
        "{text}"
    );
    assert!(text.contains("Available fields: ['a']"), "{text}");
    let text = made("a INT, b AS a + 1, c AS b + 1");
    assert!(text.contains("Column 'b' not found in any table"), "{text}");
    let text = made("a INT, m STRING METADATA FROM 'nope'");
    assert!(text.contains("Invalid metadata key 'nope' in column 'm'"), "{text}");
    let text = error("CREATE TABLE m (a INT) WITH ('connector' = 'pigeon', 'password' = 'x'); SELECT a FROM m;");
    assert!(
        text.starts_with("Unable to create a source for reading table 'default_catalog.default_database.m'."),
        "{text}"
    );
    assert!(text.contains("'connector'='pigeon'\n'password'='******'"), "{text}");
}
