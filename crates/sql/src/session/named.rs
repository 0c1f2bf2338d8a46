//! What a statement may name: tables, views and their columns, for completion.

use super::Session;
use crate::ast::{Ident, ObjectName};
use crate::functions;
use crate::lexer::keywords;

/// Functions that are no entry of the registry: they are made of syntax or belong to windows.
const SYNTACTIC_FUNCTIONS: [&str; 8] =
    ["CAST", "COALESCE", "EXTRACT", "ROW_NUMBER", "TRY_CAST", "TIMESTAMPADD", "TIMESTAMPDIFF", "NULLIF"];

/// A table or view and its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedObject {
    /// The name as a statement can write it now: `clicks`, `other_database.clicks`, with backticks where needed.
    pub name: String,
    /// Whether it is a view.
    pub is_view: bool,
    /// Column names as a statement can write them, and their types. Empty if they cannot be told, as for a view
    /// whose table is gone.
    pub columns: Vec<(String, String)>,
}

impl Session {
    /// All tables and views of the current catalog; those of the current database by their bare names.
    pub fn named_objects(&self) -> Vec<NamedObject> {
        let catalog = self.catalog.current_catalog();
        let mut out = Vec::new();
        for database in self.catalog.databases(catalog).unwrap_or_default() {
            let here = database == self.catalog.current_database();
            for object in self.catalog.objects(catalog, &database).unwrap_or_default() {
                let last = &object.path().object;
                let parts: Vec<&str> = if here { vec![last] } else { vec![&database, last] };
                let name = ObjectName { parts: parts.iter().map(|part| Ident::synthetic(*part)).collect() };
                let rows = self.columns_of(&name).map(|(_, rows)| rows).unwrap_or_default();
                let column = |row: Vec<Option<String>>| {
                    let mut cells = row.into_iter();
                    Some((written(&cells.next()??), cells.next()??))
                };
                out.push(NamedObject {
                    name: parts.iter().map(|part| written(part)).collect::<Vec<_>>().join("."),
                    is_view: object.is_view(),
                    columns: rows.into_iter().filter_map(column).collect(),
                });
            }
        }
        out
    }
}

/// The functions a query may call, in upper case and sorted; operators are not among them.
pub fn callable_names() -> Vec<&'static str> {
    let is_name = |name: &&str| name.len() > 1 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let operators = ["AND", "OR", "NOT", "ITEM", "NEGATE", "LIKE", "IN", "BETWEEN"];
    let scalar = functions::function_names().into_iter().filter(is_name).filter(|n| !operators.contains(n));
    let mut names: Vec<&str> =
        scalar.chain(SYNTACTIC_FUNCTIONS).chain(crate::aggregates::names().iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A name as a statement writes it: in backticks if it is reserved or has other characters than a name may.
fn written(name: &str) -> String {
    let first = name.chars().next().is_some_and(|c| c == '_' || c.is_alphabetic());
    let plain = first && name.chars().all(|c| c == '_' || c == '$' || c.is_alphanumeric());
    match plain && !keywords::is_reserved(&name.to_ascii_uppercase()) {
        true => name.to_owned(),
        false => format!("`{}`", name.replace('`', "``")),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_api::Error;
    use tidegate_api::config::Configuration;
    use tidegate_api::connector::ConnectorRegistry;

    use super::*;
    use crate::script::split_script;
    use crate::session::StopMode;
    use crate::session::{ClientCommand, Outcome};

    fn session() -> Session {
        Session::new(ConnectorRegistry::default(), Configuration::default())
    }

    fn run(session: &mut Session, script: &str) -> Result<Outcome, Error> {
        let mut last = Ok(Outcome::Done);
        for statement in split_script(script)? {
            last = Ok(session.execute(&statement)?);
        }
        last
    }

    #[test]
    fn objects_are_named_as_a_statement_writes_them() {
        let mut session = session();
        let script = "CREATE VIEW `order` AS SELECT 1 AS id, 'x' AS `a b`; CREATE DATABASE other; USE other;
                      CREATE VIEW v AS SELECT TRUE AS yes; USE default_database;";
        run(&mut session, script).unwrap();
        let objects = session.named_objects();
        let names: Vec<&str> = objects.iter().map(|o| o.name.as_str()).collect();
        assert_eq!(names, ["`order`", "other.v"]);
        assert!(objects.iter().all(|o| o.is_view));
        assert_eq!(objects[0].columns, [("id".into(), "INT".into()), ("`a b`".into(), "CHAR(1)".into())]);
    }

    #[test]
    fn callable_names_are_sorted_and_no_operators() {
        let names = callable_names();
        assert!(names.is_sorted());
        for name in ["COUNT", "CAST", "UPPER", "ROW_NUMBER", "JSON_VALUE"] {
            assert!(names.contains(&name), "{name}");
        }
        for operator in ["AND", "+", "IS NULL", "NEGATE"] {
            assert!(!names.contains(&operator), "{operator}");
        }
    }

    #[test]
    fn what_the_client_must_do_is_handed_to_it() {
        let mut session = session();
        let stop = |mode| ClientCommand::StopJob { id: "a".into(), mode };
        for (statement, wanted) in [
            ("SHOW JOBS", ClientCommand::ShowJobs),
            ("DESCRIBE JOB 'a'", ClientCommand::DescribeJob("a".into())),
            ("STOP JOB 'a'", stop(StopMode::Cancel)),
            ("STOP JOB 'a' WITH SAVEPOINT", stop(StopMode::Savepoint)),
            ("STOP JOB 'a' WITH SAVEPOINT WITH DRAIN", stop(StopMode::SavepointAndDrain)),
            ("HELP", ClientCommand::Help),
            ("CLEAR", ClientCommand::Clear),
        ] {
            match run(&mut session, statement) {
                Ok(Outcome::Client(command)) => assert_eq!(command, wanted),
                other => panic!("{statement}: {other:?}"),
            }
        }
        let refused = |session: &mut Session, text: &str| run(session, text).unwrap_err().to_string();
        assert!(refused(&mut session, "STOP JOB 'a' WITH DRAIN").contains("only be used after WITH SAVEPOINT"));
        assert!(refused(&mut session, "BEGIN STATEMENT SET; SHOW JOBS").contains("Only INSERT statement is allowed"));
        assert!(matches!(run(&mut session, "HELP"), Ok(Outcome::Client(ClientCommand::Help))), "HELP is always there");
    }

    #[test]
    fn times_are_those_of_the_sessions_zone() {
        let mut session = session();
        assert_eq!(session.local_time(1_000_123), "1970-01-01T00:16:40.123");
        run(&mut session, "SET 'table.local-time-zone' = 'Asia/Seoul'").unwrap();
        assert_eq!(session.local_time(1_000_123), "1970-01-01T09:16:40.123");
    }
}
