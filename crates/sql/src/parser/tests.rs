use super::*;
use crate::ast::*;

fn parse(text: &str) -> Result<Statement> {
    parse_statement(&ScriptStatement { text: text.into(), line: 1, column: 1 })
}

fn ok(text: &str) -> Statement {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn error(text: &str) -> String {
    match parse(text) {
        Ok(parsed) => panic!("{text}: parsed as {parsed:?}"),
        Err(e) => e.to_string(),
    }
}

/// The expression with every operand and operator in parentheses.
fn shape(text: &str) -> String {
    show(&parse_expression(text).unwrap_or_else(|e| panic!("{text}: {e}")))
}

fn show(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Identifier(parts) => parts.iter().map(|p| p.value.as_str()).collect::<Vec<_>>().join("."),
        ExprKind::Literal(Literal::Integer(n)) => n.clone(),
        ExprKind::Unary { op, expr } => format!("({op:?} {})", show(expr)),
        ExprKind::Binary { left, op, right } => format!("({} {} {})", show(left), op.symbol(), show(right)),
        ExprKind::Is { expr, test, negated } => format!("({} is {negated} {test:?})", show(expr)),
        ExprKind::Between { expr, low, high, .. } => format!("({} in {}..{})", show(expr), show(low), show(high)),
        ExprKind::InList { expr, list, .. } => format!("({} in {})", show(expr), list.len()),
        ExprKind::Like { expr, pattern, .. } => format!("({} like {})", show(expr), show(pattern)),
        ExprKind::Index { expr, index } => format!("{}[{}]", show(expr), show(index)),
        ExprKind::Field { expr, name } => format!("{}.{}", show(expr), name.value),
        ExprKind::Function(f) => format!("{}/{}", f.name, f.args.len()),
        ExprKind::Row { fields, .. } => format!("row{}", fields.len()),
        ExprKind::Subquery(_) => "query".into(),
        other => format!("{other:?}").split(['(', ' ']).next().unwrap_or_default().to_string(),
    }
}

#[test]
fn operators_bind_as_in_calcite() {
    for (text, want) in [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a || b || c", "((a || b) || c)"),
        ("NOT a = b AND c OR d", "(((Not (a = b)) AND c) OR d)"),
        ("NOT a IS NULL", "(Not (a is false Null))"),
        ("a = b IS NOT TRUE", "((a = b) is true True)"),
        ("a + 1 BETWEEN b AND c AND d", "(((a + 1) in b..c) AND d)"),
        ("a = b IN (1, 2)", "(a = (b in 2))"),
        ("-a * -b", "((Minus a) * (Minus b))"),
        ("a NOT LIKE b || c AND d", "((a like (b || c)) AND d)"),
        ("t.a[1].b.c", "t.a[1].b.c"),
        ("f(x).y[m['k']]", "f/1.y[m[Literal]]"),
        ("((a))", "a"),
        ("(a, b) = (1, 2)", "(row2 = row2)"),
        ("((SELECT 1)) + 1", "(query + 1)"),
        ("(((SELECT 1) + 1) * 2)", "((query + 1) * 2)"),
        ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP/0"),
        ("LEFT(a, 1)", "LEFT/2"),
        ("a IS DISTINCT FROM b", "IsDistinctFrom"),
        ("(a - b) DAY TO SECOND", "DateTimeDifference"),
        ("(a - b) * 2", "((a - b) * 2)"),
    ] {
        assert_eq!(shape(text), want, "{text}");
    }
}

#[test]
fn special_forms_parse() {
    for text in [
        "EXTRACT(DOW FROM ts)",
        "TRIM(BOTH 'x' FROM s)",
        "TRIM(LEADING FROM s)",
        "TRIM(s)",
        "SUBSTRING(s FROM 2 FOR 3)",
        "SUBSTRING(s, 2, 3)",
        "POSITION('a' IN s)",
        "OVERLAY(s PLACING 'x' FROM 1 FOR 2)",
        "FLOOR(ts TO HOUR)",
        "CEIL(1.5)",
        "TIMESTAMPADD(DAY, 1, ts)",
        "TIMESTAMPDIFF(MINUTE, a, b)",
        "JSON_VALUE(j, '$.a' RETURNING INT NULL ON EMPTY DEFAULT -1 ON ERROR)",
        "JSON_QUERY(j, 'lax $.a' RETURNING ARRAY<STRING> WITH CONDITIONAL ARRAY WRAPPER EMPTY ARRAY ON EMPTY)",
        "JSON_EXISTS(j, '$.a' TRUE ON ERROR)",
        "JSON_OBJECT(KEY 'a' VALUE 1, 'b' VALUE x ABSENT ON NULL)",
        "JSON_OBJECT('a': 1, key VALUE 2)",
        "JSON_ARRAY(1, NULL, x NULL ON NULL)",
        "JSON_OBJECTAGG(KEY k VALUE v NULL ON NULL) FILTER (WHERE k > 1)",
        "JSON_ARRAYAGG(v ORDER BY w DESC ABSENT ON NULL)",
        "a IS JSON OBJECT",
        "CASE x WHEN 1, 2 THEN 'a' ELSE 'b' END",
        "TRY_CAST(a AS ROW<x INT NOT NULL, y ARRAY<MAP<STRING, INT>>>)",
        "CAST(a AS INTERVAL DAY(3) TO SECOND(3))",
        "ARRAY[1, 2]",
        "ARRAY[]",
        "MAP['a', 1]",
        "ROW(1, 'a')",
        "x'CAFE'",
        "U&'\\00e9'",
        "U&'!00e9' UESCAPE '!'",
        "TIMESTAMP WITH LOCAL TIME ZONE '2024-01-01 00:00:00'",
        "INTERVAL '1 02:03:04.005' DAY TO SECOND(3)",
        "INTERVAL -'1' DAYS",
        "INTERVAL 1 DAY",
        "INTERVAL (a + 1) HOURS",
        "COUNT(DISTINCT a) FILTER (WHERE b > 1) OVER (PARTITION BY c ORDER BY d ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "SUM(a) OVER w",
        "LAST_VALUE(a) IGNORE NULLS OVER (ORDER BY ts RANGE INTERVAL '1' HOUR PRECEDING)",
        "LISTAGG(a, ',') WITHIN GROUP (ORDER BY b)",
        "x = ANY (SELECT 1)",
        "x > ALL (1, 2)",
        "x NOT IN (SELECT y FROM t)",
        "EXISTS (SELECT 1 FROM t)",
        "a SIMILAR TO 'x' ESCAPE '!'",
        "f(a => 1, b => DEFAULT)",
        "`select`.`a``b`",
    ] {
        parse_expression(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

#[test]
fn statements_parse() {
    for text in [
        "CREATE TABLE t (a INT NOT NULL PRIMARY KEY NOT ENFORCED COMMENT 'x', b AS a + 1, ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, \
         WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) COMMENT 'c' DISTRIBUTED BY HASH(a) INTO 4 BUCKETS PARTITIONED BY (a) WITH ('k' = 'v')",
        "CREATE TABLE t WITH ('a' = 'b') LIKE s (EXCLUDING ALL INCLUDING WATERMARKS OVERWRITING OPTIONS)",
        "CREATE TABLE t (b, a, WATERMARK FOR a AS a) WITH ('a' = 'b') AS SELECT 1 AS a, 2 AS b",
        "CREATE TEMPORARY VIEW IF NOT EXISTS v (a, b) COMMENT 'c' AS WITH x AS (SELECT 1) SELECT * FROM x",
        "CREATE FUNCTION f AS 'com.acme.F' LANGUAGE JAVA USING JAR '/a.jar'",
        "CREATE CATALOG c WITH ('type' = 'generic_in_memory')",
        "ALTER TABLE t ADD (a INT FIRST, b AS a + 1 AFTER a, PRIMARY KEY (a) NOT ENFORCED)",
        "ALTER TABLE IF EXISTS t RENAME a TO b",
        "ALTER TABLE t DROP WATERMARK",
        "ALTER TABLE t RESET ('a', 'b')",
        "DROP TEMPORARY TABLE IF EXISTS a.b.c",
        "DROP DATABASE d CASCADE",
        "INSERT INTO t /*+ OPTIONS('a' = 'b') */ PARTITION (p = 1) (a, b) SELECT 1, 2 ON CONFLICT DO NOTHING",
        "INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x",
        "INSERT INTO t (SELECT 1)",
        "INSERT INTO t (a) VALUES (1), (2)",
        "INSERT INTO a SELECT * FROM b JOIN c ON CONFLICT DO ERROR",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;",
        "EXPLAIN CHANGELOG_MODE, ESTIMATED_COST SELECT 1",
        "EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END",
        "SHOW TABLES FROM c.d NOT LIKE 'x%'",
        "SHOW CREATE TABLE t",
        "SHOW COLUMNS IN t",
        "DESC EXTENDED t",
        "USE CATALOG c",
        "USE c.d",
        "SET",
        "RESET 'a'",
        "ADD JAR '/x.jar'",
    ] {
        ok(text);
    }
    assert!(matches!(ok("TRUNCATE TABLE t"), Statement::Unsupported { name: "TRUNCATE TABLE", .. }));
}

#[test]
fn queries_parse() {
    for text in [
        "SELECT /*+ STATE_TTL('a' = '1d'), MULTI_JOIN(a, b) */ DISTINCT a.*, b AS `date` FROM t AS a (x, y) WHERE x > 1",
        "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        "SELECT * FROM SESSION(DATA => TABLE t PARTITION BY (a, b), TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '1' MINUTE)",
        "SELECT * FROM HOP((SELECT * FROM t), DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE, `OFFSET` => INTERVAL '1' SECOND) AS w",
        "SELECT * FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.ts AS x ON o.k = x.k",
        "SELECT * FROM t CROSS JOIN UNNEST(a) WITH ORDINALITY AS u (x, i), LATERAL TABLE(f(t.a)) AS l(b)",
        "SELECT * FROM (a JOIN b USING (k)) JOIN (SELECT 1) c ON TRUE",
        "SELECT * FROM ((SELECT 1) UNION ALL (SELECT 2)) AS x",
        "SELECT * FROM ((SELECT 1) AS a CROSS JOIN b)",
        "SELECT x.a FROM (t AS x) JOIN (u) ON TRUE, LATERAL (SELECT 1) AS y",
        "(SELECT 1 UNION SELECT 2) EXCEPT ALL SELECT 3 ORDER BY 1 LIMIT 5 OFFSET 2 ROWS",
        "SELECT a, COUNT(*) FROM t GROUP BY window_start, GROUPING SETS ((a), ()), ROLLUP (b, (c, d)), CUBE (e) HAVING COUNT(*) > 1",
        "SELECT a, SUM(b) OVER w FROM t WINDOW w AS (PARTITION BY a ORDER BY ts) QUALIFY ROW_NUMBER() OVER w = 1",
        "VALUES (1, 'a'), (2, 'b')",
        "TABLE t",
        "SELECT * FROM t FETCH FIRST 3 ROWS ONLY",
        "SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY a ORDER BY ts MEASURES FIRST(A.x, 1) AS f, FINAL LAST(B.x) AS l ONE ROW PER MATCH \
         AFTER MATCH SKIP TO FIRST B PATTERN (A+? B{2,3} (C | D)*? PERMUTE(E, F) {- G -}) WITHIN INTERVAL '1' HOUR \
         SUBSET S = (A, B) DEFINE A AS x > 1, B AS PREV(x) < 2) AS m",
    ] {
        ok(text);
    }
}

#[test]
fn errors_have_flinks_words_and_place() {
    for (text, want) in [
        (
            "INSERT INTO out_e\nSELECT pid FROM t WHERE GROUP BY pid",
            "SQL parse failed. Incorrect syntax near the keyword 'GROUP' at line 2, column 25.",
        ),
        ("SELECT a AS date FROM t", "Incorrect syntax near the keyword 'date' at line 1, column 13."),
        ("SELECT a,, b FROM t", "SQL parse failed. Encountered \",\" at line 1, column 10."),
        ("SELECT 1 FROM", "Encountered \"<EOF>\" at line 1, column 13."),
        ("SELECT \"a\"", "Lexical error at line 1, column 8."),
        ("SELECT a != b", "From line 1, column 10 to line 1, column 11: Bang equal '!=' is not allowed"),
        ("SELECT 1 MINUS SELECT 2", "MINUS is not allowed under the current SQL conformance level"),
        ("SELECT 99999999999999999999", "Numeric literal '99999999999999999999' out of range"),
        ("SELECT 1e400", "Numeric literal '1e400' out of range"),
        ("SET a = b", "Encountered \"a\" at line 1, column 5."),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "Encountered \"INSERT\" at line 1, column 22."),
        ("CREATE TABLE t (a INT,) WITH ()", "Encountered \")\" at line 1, column 23."),
        ("CREATE TABLE t (a INT) WITH ('a' = 'b',)", "Encountered \")\" at line 1, column 40."),
        ("SELECT a::INT", "Encountered \":\" at line 1, column 10."),
        ("SELECT TIMESTAMP_LTZ '2024-01-01 00:00:00'", "Incorrect syntax near the keyword 'TIMESTAMP_LTZ'"),
        ("DROP TABLE a.b.c.d", "From line 1, column 12 to line 1, column 18: A name has at most three parts"),
        ("CREATE TABLE t (a INTERVAL DAY)", "Incorrect syntax near the keyword 'INTERVAL' at line 1, column 19."),
        ("SELECT 1 2", "Encountered \"2\" at line 1, column 10."),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1 END", "Encountered \"END\" at line 1, column 52."),
    ] {
        let message = error(text);
        assert!(message.contains(want), "{text}\n  {message}");
    }
}

#[test]
fn deep_and_long_input_is_refused_not_overflowed() {
    let deep = [
        ("(", "1", ")"),
        ("- ", "1", ""),
        ("NOT ", "a", ""),
        ("f(", "1", ")"),
        ("CASE WHEN TRUE THEN ", "1", " END"),
        ("(SELECT ", "1", ")"),
        ("ARRAY[", "1", "]"),
        ("CAST(", "1", " AS INT)"),
        ("((SELECT 1) + ", "1", ")"),
    ];
    for (open, middle, close) in deep {
        let text = format!("SELECT {}{middle}{}", open.repeat(5000), close.repeat(5000));
        assert!(error(&text).contains("Nesting deeper than"), "{open}");
    }
    for text in [
        format!("SELECT * FROM {}t{}", "(".repeat(5000), ")".repeat(5000)),
        format!("SELECT CAST(a AS {}INT{})", "ARRAY<".repeat(5000), ">".repeat(5000)),
    ] {
        assert!(error(&text).contains("Nesting deeper than"));
    }
    for text in [
        format!("SELECT 1{}", " + 1".repeat(5000)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(5000)),
        format!("SELECT a{}", "[1]".repeat(5000)),
    ] {
        assert!(error(&text).contains("A chain of more than"));
    }
    ok(&format!("SELECT {}1{}", "(".repeat(50), ")".repeat(50)));
    ok(&format!("SELECT 1 IN (1{})", ", 1".repeat(5000)));
}

#[test]
fn texts_and_places_are_kept() {
    let Statement::CreateTable(table) =
        ok("CREATE TABLE t (a INT, b AS a  + 1, WATERMARK FOR c AS c - INTERVAL '1' SECOND)")
    else {
        panic!("no table")
    };
    assert!(matches!(&table.columns[1].kind, ColumnKind::Computed { text, .. } if text == "a  + 1"));
    assert_eq!(table.watermarks[0].text, "c - INTERVAL '1' SECOND");
    let view =
        parse_statement(&ScriptStatement { text: "CREATE VIEW v AS SELECT\n x FROM t".into(), line: 7, column: 3 });
    let Ok(Statement::CreateView(view)) = view else { panic!("no view") };
    assert_eq!(view.query_text, "SELECT\n x FROM t");
    let SetExpr::Select(select) = &view.query.body else { panic!("no select") };
    let SelectItem::Expr { expr, .. } = &select.projection[0] else { panic!("no item") };
    assert_eq!(expr.span, Span { line: 8, column: 2, end_line: 8, end_column: 2 });
}

mod soup {
    use proptest::prelude::*;

    const WORDS: [&str; 64] = [
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "BY",
        "ORDER",
        "(",
        ")",
        "(",
        ")",
        ",",
        ".",
        "*",
        "+",
        "-",
        "=",
        "<",
        ">",
        "<>",
        "'s'",
        "`q`",
        "a",
        "b",
        "1",
        "1.5",
        "1e3",
        "AS",
        "JOIN",
        "ON",
        "LEFT",
        "UNION",
        "ALL",
        "VALUES",
        "TABLE",
        "CREATE",
        "INSERT",
        "INTO",
        "WITH",
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "CAST",
        "INT",
        "ROW",
        "ARRAY",
        "[",
        "]",
        "MATCH_RECOGNIZE",
        "PATTERN",
        "DEFINE",
        "INTERVAL",
        "DAY",
        "NOT",
        "IN",
        "BETWEEN",
        "AND",
        "IS",
        "NULL",
        "OVER",
        "ROWS",
        ";",
        "/*+",
        "*/",
    ];

    proptest! {
        #[test]
        fn no_token_soup_panics(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..40)) {
            let text = words.join(" ");
            let _ = super::parse(&text);
            let _ = super::parse(&format!("SELECT {text}"));
            let _ = super::parse(&format!("CREATE TABLE t ({text}"));
            let _ = super::parse(&format!("INSERT INTO t {text}"));
            let _ = super::parse(&format!("SELECT * FROM t MATCH_RECOGNIZE ({text}"));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = super::parse(&text);
            let _ = crate::script::split_script(&text);
        }
    }
}
