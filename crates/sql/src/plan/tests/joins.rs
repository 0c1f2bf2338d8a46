//! Which joins are interval joins, by what, and what the others are told.

use tidegate_api::graph::{IntervalJoinSpec, JobGraph, JoinKind, OperatorSpec, Partitioner, WindowJoinSpec};

use super::support::{error, graph, names};

const TABLES: &str = "
CREATE TABLE a (k INT, v STRING, ts TIMESTAMP(3), n BIGINT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'format' = 'json');
CREATE TABLE b (k BIGINT, w STRING, ts TIMESTAMP(3), m INT, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'format' = 'json');
CREATE TABLE l (k INT, lt TIMESTAMP_LTZ(3), WATERMARK FOR lt AS lt)
  WITH ('connector' = 'filesystem', 'format' = 'json');
CREATE TABLE p (k INT, pt AS PROCTIME()) WITH ('connector' = 'filesystem', 'format' = 'json');
CREATE TABLE cdc (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'format' = 'debezium-json');
CREATE TABLE sink (v STRING, n BIGINT) WITH ('connector' = 'print');
";

fn plan(query: &str) -> JobGraph {
    graph(&format!("{TABLES} {query};"))
}

fn joins(g: &JobGraph) -> Vec<&IntervalJoinSpec> {
    let joins = g.nodes.iter().filter_map(|n| match &n.spec {
        OperatorSpec::IntervalJoin(join) => Some(join),
        _ => None,
    });
    joins.collect()
}

/// The only join of `SELECT a.v FROM <from>`.
fn join(from: &str) -> IntervalJoinSpec {
    let g = plan(&format!("SELECT a.v, b.w FROM {from}"));
    match joins(&g)[..] {
        [only] => only.clone(),
        _ => panic!("not one interval join: {:?}", names(&g)),
    }
}

#[track_caller]
fn bounds(condition: &str, wanted: (i64, i64)) {
    for from in [
        format!("a JOIN b ON a.k = b.k AND {condition}"),
        format!("a, b WHERE {condition} AND b.k = a.k"),
        format!("a CROSS JOIN b WHERE a.k = b.k AND {condition}"),
    ] {
        let join = join(&from);
        assert_eq!((join.lower_ms, join.upper_ms), wanted, "{from}");
        assert_eq!((join.join.kind, join.join.left_keys.len(), &join.join.condition), (JoinKind::Inner, 1, &None));
    }
}

#[test]
fn bounds_are_read_in_every_form() {
    let hour = 3_600_000;
    bounds("a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts + INTERVAL '10' SECOND", (-hour, 10_000));
    bounds("b.ts BETWEEN a.ts - INTERVAL '10' SECOND AND a.ts + INTERVAL '1' HOUR", (-hour, 10_000));
    bounds("a.ts >= b.ts - INTERVAL '1' HOUR AND b.ts >= a.ts - INTERVAL '10' SECOND", (-hour, 10_000));
    bounds("a.ts > b.ts - INTERVAL '1' HOUR AND a.ts < b.ts + INTERVAL '10' SECOND", (1 - hour, 9_999));
    bounds("a.ts + INTERVAL '1' HOUR > b.ts AND b.ts + INTERVAL '10' SECOND > a.ts", (1 - hour, 9_999));
    bounds("NOT a.ts < b.ts - INTERVAL '1' HOUR AND a.ts <= b.ts", (-hour, 0));
    bounds("a.ts = b.ts", (0, 0));
    bounds("b.ts - INTERVAL '5' SECOND = a.ts + INTERVAL '1' SECOND", (-6_000, -6_000));
    bounds("a.ts <= TIMESTAMPADD(MINUTE, 2, b.ts) AND CAST(a.ts AS TIMESTAMP(3)) >= b.ts", (0, 120_000));
    bounds("a.ts >= b.ts + INTERVAL '1' MINUTE AND a.ts <= b.ts - INTERVAL '1' MINUTE", (60_000, -60_000));
    bounds("a.ts BETWEEN b.ts - 2 * INTERVAL '1' SECOND - INTERVAL '1' SECOND AND b.ts", (-3_000, 0));
    let ltz = plan("SELECT x.k FROM l x JOIN l y ON x.k = y.k AND x.lt BETWEEN y.lt AND y.lt + INTERVAL '1' DAY");
    assert_eq!((joins(&ltz)[0].lower_ms, joins(&ltz)[0].upper_ms), (0, 86_400_000));
}

#[test]
fn keys_are_columns_or_computed_and_have_one_type() {
    let keyed = join("a JOIN b ON a.k + 1 = b.m AND a.k = b.k AND a.v IS NOT DISTINCT FROM b.w AND a.ts = b.ts");
    assert_eq!(keyed.join.null_safe, [false, false, true]);
    assert_eq!((keyed.join.left_keys.len(), keyed.join.right_keys.len()), (3, 3));
    let g = plan("SELECT a.v, b.w FROM a JOIN b ON a.k = b.k AND a.ts = b.ts");
    let at = g.nodes.iter().position(|n| n.name.starts_with("IntervalJoin")).unwrap();
    let OperatorSpec::IntervalJoin(join) = &g.nodes[at].spec else { panic!() };
    let edges: Vec<_> = g.edges.iter().filter(|e| e.to == at).collect();
    assert_eq!(edges.iter().map(|e| e.input).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(edges[0].partitioner, Partitioner::Hash(join.join.left_keys.clone()));
    assert_eq!(edges[1].partitioner, Partitioner::Hash(join.join.right_keys.clone()));
    let types = |edge: usize, key: usize| g.nodes[edges[edge].from].output.fields[key].ty.kind.clone();
    assert_eq!(types(0, join.join.left_keys[0]), types(1, join.join.right_keys[0]), "INT and BIGINT meet");
}

#[test]
fn without_keys_one_task_joins() {
    let g = plan(
        "SET 'parallelism.default' = '4'; SELECT a.v FROM a, b WHERE a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' DAY",
    );
    let at = g.nodes.iter().position(|n| n.name.starts_with("IntervalJoin")).unwrap();
    assert_eq!(g.nodes[at].parallelism, 1);
    assert!(g.edges.iter().filter(|e| e.to == at).all(|e| e.partitioner == Partitioner::Global));
}

#[test]
fn what_concerns_one_side_goes_below_if_the_side_is_not_kept() {
    let filtered = |from: &str| {
        let g = plan(&format!("SELECT a.v, b.w FROM {from}"));
        let below =
            |table: &str| g.nodes.iter().any(|n| n.description.starts_with("Calc") && n.description.contains(table));
        (below("(n > 1)"), below("(m > 1)"), joins(&g)[0].join.condition.is_some(), joins(&g)[0].join.kind)
    };
    let on = "ON a.k = b.k AND a.ts = b.ts AND a.n > 1 AND b.m > 1";
    assert_eq!(filtered(&format!("a JOIN b {on}")), (true, true, false, JoinKind::Inner));
    assert_eq!(filtered(&format!("a LEFT JOIN b {on}")), (false, true, true, JoinKind::Left));
    assert_eq!(filtered(&format!("a RIGHT JOIN b {on}")), (true, false, true, JoinKind::Right));
    assert_eq!(filtered(&format!("a FULL JOIN b {on}")), (false, false, true, JoinKind::Full));
    let above =
        |kind: &str, part: &str| filtered(&format!("a {kind} JOIN b ON a.k = b.k AND a.ts = b.ts WHERE {part}"));
    assert_eq!(above("LEFT", "a.n > 1"), (true, false, false, JoinKind::Left));
    assert_eq!(above("LEFT", "b.m > 1"), (false, true, false, JoinKind::Inner), "a padded row does not pass");
    assert_eq!(above("FULL", "a.n > 1"), (true, false, false, JoinKind::Left));
    assert_eq!(above("FULL", "b.m IS NULL").3, JoinKind::Full);
    assert_eq!(above("LEFT", "b.m IS NULL").3, JoinKind::Left);
}

#[test]
fn bounds_above_an_outer_join_make_it_an_inner_one() {
    let join = join("a LEFT JOIN b ON a.k = b.k WHERE a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' SECOND");
    assert_eq!((join.join.kind, join.upper_ms), (JoinKind::Inner, 1_000));
}

#[test]
fn joins_of_joins_and_views_keep_their_row_times() {
    let g = plan(
        "CREATE VIEW pairs AS SELECT a.k, a.ts AS t1, b.ts AS t2 FROM a, b WHERE a.k = b.k;
         SELECT x.k, c.w FROM (SELECT * FROM pairs WHERE t1 BETWEEN t2 - INTERVAL '1' SECOND AND t2) x
         JOIN b c ON c.k = x.k AND c.ts BETWEEN x.t2 AND x.t2 + INTERVAL '1' MINUTE",
    );
    let found: Vec<_> = joins(&g).iter().map(|j| (j.lower_ms, j.upper_ms)).collect();
    assert_eq!(found, [(-1_000, 0), (-60_000, 0)]);
    let three = plan(
        "SELECT a.v FROM a, b, b c WHERE a.k = b.k AND a.ts = b.ts AND c.k = b.k
         AND c.ts BETWEEN a.ts AND a.ts + INTERVAL '1' SECOND AND c.m > a.n",
    );
    assert_eq!(joins(&three).len(), 2);
    assert!(joins(&three)[1].join.condition.is_some());
    let window = plan(
        "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(
           (SELECT b.ts AS t FROM a RIGHT JOIN b ON a.k = b.k AND a.ts = b.ts), DESCRIPTOR(t), INTERVAL '1' MINUTE))
         GROUP BY window_start, window_end",
    );
    assert_eq!(joins(&window)[0].join.kind, JoinKind::Right);
}

#[test]
fn times_of_another_pair_are_a_condition() {
    let g = plan(
        "SELECT c.w FROM (SELECT a.k, a.ts AS t1, b.ts AS t2 FROM a JOIN b ON a.k = b.k AND a.ts = b.ts) x
         JOIN b c ON c.k = x.k AND c.ts BETWEEN x.t2 AND x.t2 + INTERVAL '1' MINUTE AND c.ts > x.t1",
    );
    let join = joins(&g)[1];
    assert_eq!((join.lower_ms, join.upper_ms, join.join.condition.is_some()), (-60_000, 0, true));
}

#[test]
fn the_plan_reads_as_flinks() {
    let g = plan(
        "SELECT a.v, b.w FROM a LEFT JOIN b ON a.k = b.m AND a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts AND a.v <> b.w",
    );
    let at = g.nodes.iter().find(|n| n.name == "IntervalJoin[7]").unwrap_or_else(|| panic!("{:?}", names(&g)));
    assert_eq!(
        at.description,
        "IntervalJoin(joinType=[LeftOuterJoin], windowBounds=[isRowTime=true, leftLowerBound=-2000, \
         leftUpperBound=0, leftTimeIndex=2, rightTimeIndex=1], where=[((k = m) AND (ts >= (ts0 - 2000:INTERVAL \
         SECOND)) AND (ts <= ts0) AND (v <> w))], select=[k, v, ts, w, ts0, m])"
    );
    let OperatorSpec::IntervalJoin(spec) = &at.spec else { panic!() };
    assert_eq!(spec.meaning, "LeftOuterJoin by -2000 to 0 ms where (v <> w)", "state is kept under these words");
}

const WINDOWS: &str = "
CREATE VIEW wa AS SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' MINUTE));
CREATE VIEW wb AS SELECT * FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '1' MINUTE));
CREATE VIEW hb AS SELECT * FROM TABLE(HOP(TABLE b, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE));
CREATE VIEW sa AS SELECT * FROM TABLE(SESSION(TABLE a, DESCRIPTOR(ts), INTERVAL '1' MINUTE));
";
const SAME_WINDOW: &str = "x.window_start = y.window_start AND x.window_end = y.window_end";

fn window_joins(g: &JobGraph) -> Vec<&WindowJoinSpec> {
    let joins = g.nodes.iter().filter_map(|n| match &n.spec {
        OperatorSpec::WindowJoin(join) => Some(join),
        _ => None,
    });
    joins.collect()
}

#[test]
fn rows_of_one_window_are_joined_as_long_as_it_is_open() {
    let g = plan(&format!(
        "{WINDOWS} SELECT x.v, y.w FROM wa x LEFT JOIN wb y ON {SAME_WINDOW} AND x.k = y.m AND x.v <> y.w"
    ));
    let join = window_joins(&g)[0];
    assert_eq!((join.join.kind, join.join.left_keys.len(), join.join.condition.is_some()), (JoinKind::Left, 3, true));
    let at = g.nodes.iter().find(|n| n.name.starts_with("WindowJoin")).unwrap();
    assert_eq!(
        at.description,
        "WindowJoin(leftWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[1 min])], \
         rightWindow=[TUMBLE(win_start=[window_start0], win_end=[window_end0], size=[1 min])], \
         joinType=[LeftOuterJoin], where=[((k = m) AND (v <> w))], select=[k, v, window_start, window_end, \
         window_time, w, m, window_start0, window_end0, window_time0])"
    );
    assert_eq!(join.meaning, "LeftOuterJoin of TUMBLE(windows, size=[1 min]) where (v <> w)");
    // window_time need not be selected, and the window is known above the join, also of three.
    let g = plan(&format!(
        "{WINDOWS} SELECT x.window_start, COUNT(*) FROM (SELECT window_start, window_end, k FROM wa) x, wb y, wb z
         WHERE {SAME_WINDOW} AND z.window_start = x.window_start AND z.window_end = y.window_end AND x.k = z.m
         GROUP BY x.window_start, x.window_end"
    ));
    assert_eq!(window_joins(&g).len(), 2, "{:?}", names(&g));
    assert!(g.nodes.iter().any(|n| n.name.starts_with("WindowAggregate")), "{:?}", names(&g));
    let aggregates = plan(
        "SELECT x.n, y.n FROM
           (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' DAY))
            GROUP BY window_start, window_end) x
         FULL JOIN
           (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '1' DAY))
            GROUP BY window_start, window_end) y
         ON x.window_start = y.window_start AND x.window_end = y.window_end",
    );
    assert_eq!(window_joins(&aggregates)[0].join.kind, JoinKind::Full);
    let timed =
        plan(&format!("{WINDOWS} SELECT x.v FROM wa x JOIN wb y ON {SAME_WINDOW} AND x.window_time = y.window_time"));
    assert!(window_joins(&timed)[0].join.condition.is_some());
}

#[test]
fn windows_that_differ_are_not_joined() {
    let refused =
        |x: &str, y: &str, on: &str| error(&format!("{TABLES} {WINDOWS} SELECT x.v FROM {x} x JOIN {y} y ON {on};"));
    for (x, y, on) in [
        ("wa", "hb", SAME_WINDOW),
        ("wa", "wb", "x.window_start = y.window_start"),
        ("wa", "b", "x.window_start = y.ts AND x.k = y.m"),
    ] {
        let said = refused(x, y, on);
        assert!(said.contains("INNER JOIN without time bounds"), "{said}");
    }
    let said = refused("sa", "sa", SAME_WINDOW);
    assert!(said.contains("A join of session windows is not supported"), "{said}");
}

#[track_caller]
fn says(query: &str, texts: &[&str]) {
    let message = error(&format!("{TABLES}{query};"));
    for text in texts {
        assert!(message.contains(text), "{query}\n  gives: {message}\n  wants: {text}");
    }
}

#[test]
fn other_joins_are_refused_with_what_to_do() {
    says(
        "SELECT a.v FROM a LEFT JOIN b ON a.k = b.k",
        &[
            "LEFT JOIN without time bounds (a regular join) is not supported",
            "At line 12, column 29",
            "a.ts BETWEEN b.ts",
        ],
    );
    says("SELECT a.v FROM a, b", &["INNER JOIN without time bounds"]);
    says(
        "SELECT a.v FROM a JOIN b ON a.k = b.k AND EXTRACT(HOUR FROM a.ts) = EXTRACT(HOUR FROM b.ts)",
        &["without time bounds"],
    );
    says(
        "SELECT a.v FROM a JOIN b ON a.k = b.k AND a.ts > b.ts",
        &["bounded on one side only, by (ts > ts0), is not supported", "Bound them on both sides"],
    );
    says(
        "SELECT a.v FROM a JOIN b ON a.k = b.k AND a.ts > b.ts AND b.ts < a.ts + INTERVAL '1' SECOND",
        &["bounded on one side only"],
    );
    says(
        "SELECT a.v FROM a JOIN b ON a.k = b.k AND a.ts = b.ts AND a.ts > b.ts - INTERVAL '1' SECOND",
        &["more than a lower and an upper bound", "Flink runs it as a regular join"],
    );
    says(
        "SELECT a.v FROM a JOIN l ON a.k = l.k AND a.ts BETWEEN l.lt AND l.lt + INTERVAL '1' HOUR",
        &["requires same rowtime types, but the types are TIMESTAMP(3) and TIMESTAMP_LTZ(3)", "with one type"],
    );
    says(
        "SELECT x.k FROM p x JOIN p y ON x.k = y.k AND x.pt BETWEEN y.pt AND y.pt + INTERVAL '1' HOUR",
        &["INNER JOIN on processing time is not supported", "WATERMARK"],
    );
    says(
        "SELECT a.v FROM a JOIN cdc ON a.k = cdc.k AND a.ts = cdc.ts",
        &["StreamPhysicalIntervalJoin doesn't support consuming update and delete changes", "TableSourceScan"],
    );
    says("SELECT a.v FROM a LEFT JOIN b", &["join requires a condition"]);
    // A mistake comes first.
    says("SELECT a.zz FROM a JOIN b ON a.k = b.k", &["Column 'zz' not found in table 'a'"]);
}

#[test]
fn a_sink_takes_one_row_time() {
    says(
        "CREATE TABLE two (x TIMESTAMP(3), y TIMESTAMP(3)) WITH ('connector' = 'print');
         INSERT INTO two SELECT a.ts, b.ts FROM a JOIN b ON a.k = b.k AND a.ts = b.ts",
        &["more than one rowtime attribute column [ts, ts0]"],
    );
}
