use tidegate_api::Result;

use super::*;
use crate::ast::{AlterAction, ColumnKind, Statement};
use crate::parser::parse_statement;
use crate::script::ScriptStatement;

fn parse(text: &str) -> Statement {
    parse_statement(&ScriptStatement { text: text.into(), line: 1, column: 1 }).unwrap()
}

fn name(text: &str) -> ObjectName {
    ObjectName { parts: text.split('.').map(Ident::synthetic).collect() }
}

/// Runs the DDL the catalog alone can run.
fn run(catalog: &mut Catalog, text: &str) -> Result<()> {
    match parse(text) {
        Statement::CreateTable(create) => {
            let mut table = CatalogTable::from_create(&create, catalog.qualify(&create.name))?;
            if let Some(like) = &create.like {
                catalog.merge_like(like, &mut table)?;
            }
            table.check()?;
            catalog.create(CatalogObject::Table(table), create.if_not_exists, create.or_replace)
        }
        Statement::AlterTable(alter) => {
            let path = catalog.qualify(&alter.name);
            if let AlterAction::RenameTo(new) = &alter.action {
                return catalog.rename(&path, new, false);
            }
            let CatalogObject::Table(table) = catalog.permanent_mut(&path, false)? else { panic!("no table") };
            *table = table.altered(&alter.action)?;
            Ok(())
        }
        Statement::Drop(d) => {
            let path = catalog.qualify(&d.name);
            catalog.drop_object(&path, false, d.temporary, d.if_exists)
        }
        other => panic!("{other:?}"),
    }
}

fn catalog(script: &[&str]) -> Catalog {
    let mut catalog = Catalog::default();
    for text in script {
        run(&mut catalog, text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    catalog
}

fn table<'a>(catalog: &'a Catalog, text: &str) -> &'a CatalogTable {
    match catalog.find(&catalog.qualify(&name(text))) {
        Some(CatalogObject::Table(t)) => t,
        other => panic!("{text}: {other:?}"),
    }
}

fn columns(catalog: &Catalog, text: &str) -> String {
    table(catalog, text).columns.iter().map(|c| c.name.value.as_str()).collect::<Vec<_>>().join(",")
}

fn fails(catalog: &mut Catalog, text: &str, want: &str) {
    let message = run(catalog, text).expect_err(text).to_string();
    assert!(message.contains(want), "{text}\n  {message}");
}

const BASE: &str = "CREATE TABLE base (id INT, v STRING, d AS id * 2, m INT METADATA, ts TIMESTAMP(3), \
    WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (v) WITH ('connector' = 'x', 'a' = '1')";

#[test]
fn names_lead_to_objects_and_temporary_ones_hide_permanent_ones() {
    let mut c = catalog(&["CREATE TABLE t (a INT)", "CREATE TEMPORARY TABLE t (b INT)"]);
    assert_eq!(columns(&c, "t"), "b");
    assert_eq!(columns(&c, "default_catalog.default_database.t"), "b");
    fails(&mut c, "DROP TABLE t", "Temporary table with identifier");
    run(&mut c, "DROP TEMPORARY TABLE t").unwrap();
    assert_eq!(columns(&c, "t"), "a");
    c.create_database(&name("d"), false, None, vec![]).unwrap();
    c.use_database(&name("d")).unwrap();
    assert!(c.find(&c.qualify(&name("t"))).is_none());
    assert_eq!(columns(&c, "default_database.t"), "a");
    let options = vec![("type".into(), "generic_in_memory".into()), ("default-database".into(), "yard".into())];
    c.create_catalog("side", false, None, options).unwrap();
    c.use_catalog("side").unwrap();
    assert_eq!(c.current_database(), "yard");
    assert_eq!(columns(&c, "default_catalog.default_database.t"), "a");
}

#[test]
fn messages_are_flinks() {
    let mut c = catalog(&["CREATE TABLE t (a INT)"]);
    for (text, want) in [
        ("CREATE TABLE t (a INT)", "Table (or view) default_database.t already exists in Catalog default_catalog."),
        ("DROP TABLE nope", "Table with identifier 'default_catalog.default_database.nope' does not exist."),
        ("CREATE TABLE x.t (a INT)", "Database x does not exist in Catalog default_catalog."),
        ("CREATE TABLE u (a INT, a INT)", "A column named 'a' already exists in the table."),
        ("CREATE TABLE u (a INT, PRIMARY KEY (a) ENFORCED)", "Flink doesn't support ENFORCED mode"),
        ("CREATE TABLE u (a INT, PRIMARY KEY (b) NOT ENFORCED)", "Primary key column 'b' is not defined"),
        ("CREATE TABLE u (a INT, UNIQUE (a) NOT ENFORCED)", "UNIQUE constraint is not supported yet"),
        ("CREATE TABLE u (a INT) PARTITIONED BY (b)", "Partition column 'b' not defined"),
        (
            "CREATE TABLE u LIKE nope",
            "Source table '`default_catalog`.`default_database`.`nope`' of the LIKE clause not found in the catalog, at line 1, column 21",
        ),
        ("ALTER TABLE nope SET ('a' = 'b')", "Table `default_catalog`.`default_database`.`nope` doesn't exist"),
    ] {
        fails(&mut c, text, want);
    }
    run(&mut c, "CREATE TABLE IF NOT EXISTS t (b INT)").unwrap();
    run(&mut c, "DROP TABLE IF EXISTS nope").unwrap();
    assert_eq!(columns(&c, "t"), "a");
    assert!(c.use_catalog("nope").unwrap_err().message.contains("A catalog with name [nope] does not exist."));
    assert!(c.use_database(&name("nope")).unwrap_err().message.contains("does not exist in the catalog"));
}

#[test]
fn like_merges_by_its_options() {
    let mut c = catalog(&[
        BASE,
        "CREATE TABLE all_of_it WITH ('a' = '2', 'b' = '3') LIKE base",
        "CREATE TABLE bare (w INT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND, PRIMARY KEY (w) NOT ENFORCED) LIKE base (EXCLUDING ALL)",
        "CREATE TABLE few (d AS id * 3, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) LIKE base (OVERWRITING GENERATED OVERWRITING WATERMARKS)",
    ]);
    assert_eq!(columns(&c, "all_of_it"), "id,v,d,m,ts");
    let all = table(&c, "all_of_it");
    assert_eq!(all.options["a"], "2");
    assert_eq!((all.options["connector"].as_str(), all.options["b"].as_str()), ("x", "3"));
    assert!(all.watermark.is_some() && all.primary_key.is_some() && all.partition_keys == ["v"]);
    assert_eq!(columns(&c, "bare"), "id,v,ts,w");
    assert!(table(&c, "bare").options.is_empty() && table(&c, "bare").partition_keys.is_empty());
    assert_eq!(columns(&c, "few"), "id,v,d,m,ts");
    assert!(
        matches!(&table(&c, "few").column("d").unwrap().kind, ColumnKind::Computed { text, .. } if text == "id * 3")
    );
    for (text, want) in [
        ("CREATE TABLE u (v INT) LIKE base", "A column named 'v' already exists in the base table."),
        ("CREATE TABLE u (d AS id) LIKE base", "EXCLUDING GENERATED or OVERWRITING GENERATED"),
        (
            "CREATE TABLE u (WATERMARK FOR ts AS ts) LIKE base",
            "There already exists a watermark spec for column 'ts' in the base table. You might want to specify EXCLUDING WATERMARKS or OVERWRITING WATERMARKS.",
        ),
        ("CREATE TABLE u WITH ('a' = '2') LIKE base (INCLUDING ALL)", "There already exists an option ['a' -> '1']"),
        ("CREATE TABLE u (w INT, PRIMARY KEY (w) NOT ENFORCED) LIKE base", "already has a primary key"),
        ("CREATE TABLE u LIKE base (INCLUDING OPTIONS EXCLUDING OPTIONS)", "declared only once"),
    ] {
        fails(&mut c, text, want);
    }
}

#[test]
fn alter_changes_columns_or_nothing() {
    let mut c = catalog(&[
        "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('x' = '1', 'y' = '2')",
        "ALTER TABLE t ADD (c AS b * 2 FIRST, d STRING AFTER a)",
        "ALTER TABLE t MODIFY d INT FIRST",
        "ALTER TABLE t RENAME a TO k",
        "ALTER TABLE t SET ('x' = '9', 'z' = '3')",
        "ALTER TABLE t RESET ('y')",
    ]);
    assert_eq!(columns(&c, "t"), "d,c,k,b");
    let t = table(&c, "t");
    assert_eq!(t.primary_key.as_ref().unwrap().columns, ["k"]);
    assert_eq!(t.options.iter().map(|(k, v)| format!("{k}{v}")).collect::<String>(), "x9z3");
    for (text, want) in [
        ("ALTER TABLE t ADD (e INT, b INT)", "Try to add a column `b` which already exists in the table."),
        ("ALTER TABLE t ADD e INT AFTER nope", "Referenced column `nope` by 'AFTER' does not exist in the table."),
        ("ALTER TABLE t DROP b", "The column `b` is referenced by computed column `c`."),
        ("ALTER TABLE t DROP k", "The column `k` is used as the primary key."),
        ("ALTER TABLE t DROP nope", "The column `nope` does not exist in the base table."),
        ("ALTER TABLE t DROP WATERMARK", "does not define any watermark strategy"),
        ("ALTER TABLE t RENAME b TO k", "The column `k` already existed in table schema."),
        ("ALTER TABLE t MODIFY nope INT", "does not exist in the table."),
    ] {
        fails(&mut c, text, want);
    }
    assert_eq!(columns(&c, "t"), "d,c,k,b");
    run(&mut c, "ALTER TABLE t DROP (c, b)").unwrap();
    run(&mut c, "ALTER TABLE t RENAME TO s").unwrap();
    assert_eq!(columns(&c, "s"), "d,k");
    assert_eq!(table(&c, "s").path.object, "s");
}
