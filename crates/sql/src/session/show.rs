//! `SHOW`.

use tidegate_api::{Error, Result};

use super::{ClientCommand, Outcome, Session};
use crate::ast::{ObjectName, Show, ShowLike, ShowList};
use crate::functions;

impl Session {
    pub(super) fn show(&self, show: &Show) -> Result<Outcome> {
        match show {
            Show::List { what: ShowList::Columns, from, like } => self.show_columns(from.as_ref(), like.as_ref()),
            Show::List { what: ShowList::FullModules, .. } => Ok(Outcome::Table {
                columns: vec!["module name".into(), "used".into()],
                rows: vec![vec![Some("core".into()), Some("TRUE".into())]],
            }),
            Show::List { what: ShowList::Jobs, .. } => Ok(Outcome::Client(ClientCommand::ShowJobs)),
            Show::List { what, from, like } => {
                let (column, names) = self.list(*what, from.as_ref())?;
                let keep = |name: &String| like.as_ref().is_none_or(|l| matches(l, name));
                let rows = names.into_iter().filter(keep).map(|n| vec![Some(n)]).collect();
                Ok(Outcome::Table { columns: vec![column.into()], rows })
            }
            Show::CurrentCatalog => Ok(one("current catalog name", self.catalog.current_catalog())),
            Show::CurrentDatabase => Ok(one("current database name", self.catalog.current_database())),
            Show::Create(kind, name) => self.show_create(*kind, name),
        }
    }

    fn list(&self, what: ShowList, from: Option<&ObjectName>) -> Result<(&'static str, Vec<String>)> {
        Ok(match what {
            ShowList::Catalogs => ("catalog name", self.catalog.catalogs()),
            ShowList::Databases => {
                let catalog = from.map_or(self.catalog.current_catalog(), ObjectName::last);
                ("database name", self.catalog.databases(catalog)?)
            }
            ShowList::Tables => ("table name", self.objects(from, false)?),
            ShowList::Views => ("view name", self.objects(from, true)?),
            ShowList::Functions => {
                let mut names: Vec<String> =
                    functions::function_names().iter().map(|n| n.to_ascii_lowercase()).collect();
                names.sort();
                ("function name", names)
            }
            ShowList::Modules => ("module name", vec!["core".into()]),
            ShowList::UserFunctions => ("function name", Vec::new()),
            ShowList::MaterializedTables => ("table name", Vec::new()),
            ShowList::Models => ("model name", Vec::new()),
            ShowList::Procedures => ("procedure name", Vec::new()),
            ShowList::Jars => ("jars", Vec::new()),
            ShowList::Connections => ("connection name", Vec::new()),
            ShowList::Partitions => {
                return Err(Error::unsupported("SHOW PARTITIONS is not supported by Tidegate yet."));
            }
            ShowList::Columns | ShowList::FullModules | ShowList::Jobs => {
                return Err(Error::internal("this list has its own form"));
            }
        })
    }

    /// Tables and views, or views only.
    fn objects(&self, from: Option<&ObjectName>, views_only: bool) -> Result<Vec<String>> {
        let (catalog, database) = match from {
            Some(name) => self.catalog.qualify_database(name)?,
            None => (self.catalog.current_catalog().to_string(), self.catalog.current_database().to_string()),
        };
        let objects = self.catalog.objects(&catalog, &database)?;
        let kept = objects.into_iter().filter(|o| o.is_view() || !views_only);
        Ok(kept.map(|o| o.path().object.clone()).collect())
    }

    fn show_columns(&self, name: Option<&ObjectName>, like: Option<&ShowLike>) -> Result<Outcome> {
        let Some(name) = name else { return Err(Error::internal("SHOW COLUMNS without a table")) };
        let (columns, mut rows) = self.columns_of(name)?;
        rows.retain(|row| like.is_none_or(|l| row[0].as_ref().is_some_and(|name| matches(l, name))));
        Ok(Outcome::Table { columns, rows })
    }
}

fn one(column: &str, value: &str) -> Outcome {
    Outcome::Table { columns: vec![column.into()], rows: vec![vec![Some(value.into())]] }
}

fn matches(like: &ShowLike, name: &str) -> bool {
    let (pattern, name) = match like.ignore_case {
        true => (like.pattern.to_lowercase(), name.to_lowercase()),
        false => (like.pattern.clone(), name.to_string()),
    };
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    like_matches(&pattern, &name) != like.negated
}

/// `LIKE` without escapes. Goes back only to the last `%`, so it takes at most pattern times name steps.
fn like_matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut resume: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('%') => {
                resume = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == '_' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match resume {
                Some((after, from)) => {
                    resume = Some((after, from + 1));
                    p = after;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_filters_names() {
        let like = |pattern: &str, negated, ignore_case| ShowLike { negated, ignore_case, pattern: pattern.into() };
        assert!(matches(&like("cl%k_", false, false), "clicks"));
        assert!(!matches(&like("CL%", false, false), "clicks"));
        assert!(matches(&like("CL%", false, true), "clicks"));
        assert!(!matches(&like("%", true, false), "clicks"));
        assert!(matches(&like("%a%b", false, false), "aabab"));
        assert!(!matches(&like("a", false, false), "ab"));
    }
}
