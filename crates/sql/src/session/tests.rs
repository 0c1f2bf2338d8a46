use std::sync::Arc;

use tidegate_api::connector::{
    ConnectorFactory, EnumeratorContext, ReadColumn, ReaderContext, Sink, SinkMode, SinkWriter, Source, SourceReader,
    SplitEnumerator, TableDescriptor, WriterContext,
};

use super::*;
use crate::script::split_script;

/// Takes any table and is never run.
struct Stub;

impl Source for Stub {
    fn is_bounded(&self) -> bool {
        true
    }

    fn enumerator(&self, _ctx: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        Err(Error::internal("a stub is never read"))
    }

    fn reader(&self, _: &[ReadColumn], _: ReaderContext) -> Result<Box<dyn SourceReader>> {
        Err(Error::internal("a stub is never read"))
    }
}

impl Sink for Stub {
    fn mode(&self) -> SinkMode {
        SinkMode::Changelog
    }

    fn writer(&self, _: WriterContext) -> Result<Box<dyn SinkWriter>> {
        Err(Error::internal("a stub is never written"))
    }
}

impl ConnectorFactory for Stub {
    fn identifier(&self) -> &'static str {
        "stub"
    }

    fn source(&self, _: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(Stub))
    }

    fn sink(&self, _: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Stub))
    }
}

const TABLE: &str = "CREATE TABLE t (a INT, b STRING, c AS a + 1, ts TIMESTAMP(3) COMMENT 'when', \
    WATERMARK FOR ts AS ts - interval '1' second, PRIMARY KEY (a) NOT ENFORCED) WITH ('k' = 'v', 'connector' = 'stub');
    CREATE TABLE s (x INT, y STRING) WITH ('connector' = 'stub');";

fn session() -> Session {
    let mut connectors = ConnectorRegistry::default();
    connectors.register(Arc::new(Stub));
    let mut config = Configuration::default();
    config.set("parallelism.default", "1");
    let mut session = Session::new(connectors, config);
    run(&mut session, TABLE).unwrap();
    session
}

/// Runs a script and gives what its last statement came to.
fn run(session: &mut Session, script: &str) -> Result<Outcome> {
    let mut last = Outcome::Done;
    for statement in split_script(script)? {
        last = session.execute(&statement)?;
    }
    Ok(last)
}

fn fails(script: &str, want: &str) {
    let message = run(&mut session(), script).expect_err(script).to_string();
    assert!(message.contains(want), "{script}\n  {message}");
}

/// The rows shown, fields joined by `|`, NULL as `-`.
fn rows(session: &mut Session, script: &str) -> Vec<String> {
    match run(session, script) {
        Ok(Outcome::Table { rows, .. }) => {
            rows.iter().map(|r| r.iter().map(|c| c.as_deref().unwrap_or("-")).collect::<Vec<_>>().join("|")).collect()
        }
        other => panic!("{script}: {other:?}"),
    }
}

fn text(session: &mut Session, script: &str) -> String {
    match run(session, script) {
        Ok(Outcome::Text(text)) => text,
        other => panic!("{script}: {other:?}"),
    }
}

fn sinks(outcome: Outcome) -> Vec<String> {
    match outcome {
        Outcome::Job(job) => match job.kind {
            JobKind::Insert { sinks } => sinks,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_are_set_listed_and_reset() {
    let mut s = session();
    run(&mut s, "SET 'a.b' = 'x;y'; SET 'parallelism.default' = '4'").unwrap();
    assert_eq!(rows(&mut s, "SET"), ["a.b|x;y", "parallelism.default|4"]);
    run(&mut s, "RESET 'parallelism.default'").unwrap();
    assert_eq!(rows(&mut s, "SET"), ["a.b|x;y", "parallelism.default|1"]);
    run(&mut s, "RESET").unwrap();
    assert_eq!(rows(&mut s, "SET"), ["parallelism.default|1"]);
}

#[test]
fn tables_are_described_and_shown_as_flink_does() {
    let mut s = session();
    assert_eq!(
        rows(&mut s, "DESCRIBE t"),
        [
            "a|INT|FALSE|PRI(a)|-|-|-",
            "b|STRING|TRUE|-|-|-|-",
            "c|INT|FALSE|-|AS `a` + 1|-|-",
            "ts|TIMESTAMP(3) *ROWTIME*|TRUE|-|-|`ts` - INTERVAL '1' SECOND|when",
        ]
    );
    assert_eq!(rows(&mut s, "SHOW COLUMNS FROM s LIKE 'x%'"), ["x|INT|TRUE|-|-|-"]);
    assert_eq!(
        text(&mut s, "SHOW CREATE TABLE t"),
        "CREATE TABLE `default_catalog`.`default_database`.`t` (\n  `a` INT NOT NULL,\n  `b` VARCHAR(2147483647),\n  \
         `c` AS `a` + 1,\n  `ts` TIMESTAMP(3) COMMENT 'when',\n  WATERMARK FOR `ts` AS `ts` - INTERVAL '1' SECOND,\n  \
         CONSTRAINT `PK_a` PRIMARY KEY (`a`) NOT ENFORCED\n)\nWITH (\n  'connector' = 'stub',\n  'k' = 'v'\n)\n"
    );
    // What is shown makes the same table again.
    let shown = text(&mut s, "SHOW CREATE TABLE t");
    run(&mut s, &format!("DROP TABLE t; {shown}")).unwrap();
    assert_eq!(text(&mut s, "SHOW CREATE TABLE t"), shown);
}

#[test]
fn lists_are_filtered() {
    let mut s = session();
    run(&mut s, "CREATE TEMPORARY VIEW v (m, n) AS SELECT a, b FROM t").unwrap();
    assert_eq!(rows(&mut s, "SHOW TABLES"), ["s", "t", "v"]);
    assert_eq!(rows(&mut s, "SHOW TABLES NOT LIKE 't'"), ["s", "v"]);
    assert_eq!(rows(&mut s, "SHOW VIEWS"), ["v"]);
    assert_eq!(rows(&mut s, "SHOW DATABASES"), ["default_database"]);
    assert_eq!(rows(&mut s, "SHOW CURRENT CATALOG"), ["default_catalog"]);
    assert_eq!(rows(&mut s, "DESCRIBE v"), ["m|INT|FALSE|-|-|-", "n|STRING|TRUE|-|-|-"]);
    assert_eq!(
        text(&mut s, "SHOW CREATE VIEW v"),
        "CREATE TEMPORARY VIEW `default_catalog`.`default_database`.`v` (\n  `m`,\n  `n`\n)\nAS SELECT a, b FROM t\n"
    );
}

#[test]
fn inserts_become_jobs_and_sets_one_job() {
    let mut s = session();
    let one = "default_catalog.default_database.s";
    assert_eq!(sinks(run(&mut s, "INSERT INTO s SELECT a, b FROM t").unwrap()), [one]);
    let body = "INSERT INTO s SELECT a, b FROM t; INSERT INTO s VALUES (1, 'x');";
    let set = format!("EXECUTE STATEMENT SET BEGIN {body} END");
    assert_eq!(sinks(run(&mut s, &set).unwrap()), [one, one]);
    run(&mut s, "BEGIN STATEMENT SET; INSERT INTO s SELECT a, b FROM t").unwrap();
    assert!(s.has_open_statement_set());
    assert!(run(&mut s, "SHOW TABLES").is_err());
    assert_eq!(sinks(run(&mut s, "INSERT INTO s VALUES (1, 'x'); END").unwrap()), [one, one]);
    assert!(!s.has_open_statement_set());
    assert!(
        matches!(run(&mut s, "SELECT a FROM t"), Ok(Outcome::Job(job)) if matches!(job.kind, JobKind::Select { .. }))
    );
    assert!(text(&mut s, "EXPLAIN SELECT a FROM t").contains("== Abstract Syntax Tree =="));
    assert!(matches!(run(&mut s, "ADD JAR '/x.jar'; QUIT"), Ok(Outcome::Quit)));
    fails("END", "No Statement Set to submit");
}

#[test]
fn create_table_as_takes_its_columns_from_the_query() {
    let mut s = session();
    let made = run(
        &mut s,
        "CREATE TABLE u (extra INT, a BIGINT, d AS a * 2) WITH ('connector' = 'stub') AS SELECT b, a FROM t",
    );
    assert_eq!(sinks(made.unwrap()), ["default_catalog.default_database.u"]);
    let names: Vec<String> =
        rows(&mut s, "DESCRIBE u").iter().map(|r| r.split('|').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(names, ["extra INT", "d BIGINT", "b STRING", "a BIGINT"]);
    run(&mut s, "CREATE TABLE w (b, a) WITH ('connector' = 'stub') AS SELECT a, b FROM t").unwrap();
    assert_eq!(rows(&mut s, "DESCRIBE w"), ["b|STRING|TRUE|-|-|-", "a|INT|FALSE|-|-|-"]);
    fails("CREATE TABLE w (b) WITH ('connector' = 'stub') AS SELECT a, b FROM t", "number of columns");
    // A failed statement leaves no table behind.
    assert!(run(&mut s, "CREATE TABLE z WITH ('connector' = 'stub') AS SELECT nope FROM t").is_err());
    assert!(!rows(&mut s, "SHOW TABLES").contains(&"z".to_string()));
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (script, want) in [
        (TABLE, "Table (or view) default_database.t already exists in Catalog default_catalog."),
        ("\n\nDROP TABLE nope", "Statement at line 3, column 1: Table with identifier"),
        (
            "CREATE TABLE q (ts STRING, WATERMARK FOR ts AS ts) WITH ('connector' = 'stub')",
            "Invalid data type of time field",
        ),
        (
            "CREATE TABLE q (a INT, WATERMARK FOR nope AS a) WITH ('connector' = 'stub')",
            "'nope' is not defined in the table schema",
        ),
        (
            "CREATE VIEW q AS SELECT a, 1 AS a FROM t",
            "A column with the same name `a` has been defined at line 1, column 25",
        ),
        ("CREATE VIEW q (x) AS SELECT a, b FROM t", "VIEW definition and input fields not match"),
        ("CREATE VIEW q AS SELECT nope FROM t", "nope"),
        ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION (user-defined functions) is not supported"),
        ("TRUNCATE TABLE t", "TRUNCATE TABLE is not supported"),
        ("CREATE OR REPLACE TABLE t (a INT) WITH ('connector' = 'stub')", "CREATE OR REPLACE TABLE without AS query"),
        ("CREATE CATALOG c WITH ('type' = 'hive')", "identifier 'hive'"),
        ("ALTER TABLE t DROP a", "The column `a` is referenced by computed column `c`."),
        ("ALTER TABLE t ADD bad AS nope + 1", "nope"),
    ] {
        fails(script, want);
    }
    let mut s = session();
    assert!(run(&mut s, "ALTER TABLE t ADD bad AS nope + 1").is_err());
    assert!(!text(&mut s, "SHOW CREATE TABLE t").contains("bad"));
}

#[test]
fn views_keep_the_names_of_where_they_were_made() {
    let mut s = session();
    let script = "CREATE CATALOG side WITH ('type' = 'generic_in_memory', 'default-database' = 'yard');
        USE CATALOG side;
        CREATE TABLE only_here (p INT) WITH ('connector' = 'stub');
        CREATE VIEW w AS SELECT p FROM only_here;
        USE CATALOG default_catalog;
        INSERT INTO s SELECT p, 'x' FROM side.yard.w";
    assert_eq!(sinks(run(&mut s, script).unwrap()), ["default_catalog.default_database.s"]);
    assert_eq!(rows(&mut s, "DESCRIBE side.yard.w"), ["p|INT|TRUE|-|-|-"]);
    assert_eq!(rows(&mut s, "SHOW TABLES FROM side.yard"), ["only_here", "w"]);
}
