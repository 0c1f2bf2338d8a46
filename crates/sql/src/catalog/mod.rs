//! Catalogs, databases, tables and views of a session.
//!
//! All catalogs live in memory (`generic_in_memory`). An object's path is `catalog.database.object`;
//! a name of fewer parts starts at the current catalog and database. Temporary objects are kept by
//! path beside the catalogs and hide the permanent object of the same path.

mod alter;
mod like;
mod store;
mod table;

use std::collections::BTreeMap;
use std::fmt;

use crate::ast::{Ident, ObjectName, Query};

pub use table::{CatalogTable, PrimaryKey};

/// The full path of a table or view.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectPath {
    /// Catalog.
    pub catalog: String,
    /// Database.
    pub database: String,
    /// Table or view.
    pub object: String,
}

impl ObjectPath {
    /// `catalog.database.object`.
    pub fn identifier(&self) -> String {
        format!("{}.{}.{}", self.catalog, self.database, self.object)
    }
}

impl fmt::Display for ObjectPath {
    /// `` `catalog`.`database`.`object` ``, as Flink's messages write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = |s: &str| s.replace('`', "``");
        write!(f, "`{}`.`{}`.`{}`", quote(&self.catalog), quote(&self.database), quote(&self.object))
    }
}

/// A view. Names in its query start at the catalog and database it was made in.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogView {
    /// Where it is.
    pub path: ObjectPath,
    /// Whether it is temporary.
    pub temporary: bool,
    /// Column names, if given.
    pub columns: Vec<Ident>,
    /// The query.
    pub query: Query,
    /// The query as written.
    pub query_text: String,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// Catalog that was current when it was made.
    pub catalog: String,
    /// Database that was current when it was made.
    pub database: String,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum CatalogObject {
    /// A table.
    Table(CatalogTable),
    /// A view.
    View(CatalogView),
}

impl CatalogObject {
    /// Where it is.
    pub fn path(&self) -> &ObjectPath {
        match self {
            CatalogObject::Table(t) => &t.path,
            CatalogObject::View(v) => &v.path,
        }
    }

    /// Whether it is temporary.
    pub fn is_temporary(&self) -> bool {
        match self {
            CatalogObject::Table(t) => t.temporary,
            CatalogObject::View(v) => v.temporary,
        }
    }

    /// Whether it is a view.
    pub fn is_view(&self) -> bool {
        matches!(self, CatalogObject::View(_))
    }

    fn set_path(&mut self, path: ObjectPath) {
        match self {
            CatalogObject::Table(t) => t.path = path,
            CatalogObject::View(v) => v.path = path,
        }
    }
}

/// A database.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// `COMMENT`.
    pub comment: Option<String>,
    /// `WITH`.
    pub options: BTreeMap<String, String>,
    objects: BTreeMap<String, CatalogObject>,
}

/// One catalog.
#[derive(Clone, Debug, Default)]
pub struct CatalogEntry {
    /// `COMMENT`.
    pub comment: Option<String>,
    /// `WITH`.
    pub options: BTreeMap<String, String>,
    default_database: String,
    databases: BTreeMap<String, Database>,
}

/// All catalogs of a session, and which one is current.
#[derive(Clone, Debug)]
pub struct Catalog {
    catalogs: BTreeMap<String, CatalogEntry>,
    temporary: BTreeMap<ObjectPath, CatalogObject>,
    current_catalog: String,
    current_database: String,
}

impl Default for Catalog {
    /// `default_catalog` with `default_database`.
    fn default() -> Self {
        Catalog::new("default_catalog", "default_database")
    }
}

impl Catalog {
    /// One empty catalog with one empty database, both current.
    pub fn new(catalog: &str, database: &str) -> Self {
        let entry = CatalogEntry {
            options: BTreeMap::from([("type".to_string(), "generic_in_memory".to_string())]),
            default_database: database.to_string(),
            databases: BTreeMap::from([(database.to_string(), Database::default())]),
            ..CatalogEntry::default()
        };
        Catalog {
            catalogs: BTreeMap::from([(catalog.to_string(), entry)]),
            temporary: BTreeMap::new(),
            current_catalog: catalog.to_string(),
            current_database: database.to_string(),
        }
    }

    /// The current catalog.
    pub fn current_catalog(&self) -> &str {
        &self.current_catalog
    }

    /// The current database.
    pub fn current_database(&self) -> &str {
        &self.current_database
    }

    /// The path a name means now.
    pub fn qualify(&self, name: &ObjectName) -> ObjectPath {
        self.qualify_in(name, &self.current_catalog, &self.current_database)
    }

    /// The path a name means where this catalog and database are current. Of more than three parts
    /// the last three count.
    pub fn qualify_in(&self, name: &ObjectName, catalog: &str, database: &str) -> ObjectPath {
        let mut parts = name.parts.iter().rev().map(|p| p.value.clone());
        let object = parts.next().unwrap_or_default();
        let database = parts.next().unwrap_or_else(|| database.to_string());
        let catalog = parts.next().unwrap_or_else(|| catalog.to_string());
        ObjectPath { catalog, database, object }
    }

    /// The table or view of a path; a temporary one first.
    pub fn find(&self, path: &ObjectPath) -> Option<&CatalogObject> {
        self.temporary.get(path).or_else(|| self.find_permanent(path))
    }

    /// The table or view a name means where this catalog and database are current.
    pub fn resolve(&self, name: &ObjectName, catalog: &str, database: &str) -> Option<&CatalogObject> {
        if name.parts.len() > 3 {
            return None;
        }
        self.find(&self.qualify_in(name, catalog, database))
    }

    /// The catalogs' names, for messages: `[default_catalog, side]`.
    pub fn catalog_list(&self) -> String {
        format!("[{}]", self.catalogs.keys().cloned().collect::<Vec<_>>().join(", "))
    }

    fn find_permanent(&self, path: &ObjectPath) -> Option<&CatalogObject> {
        self.catalogs.get(&path.catalog)?.databases.get(&path.database)?.objects.get(&path.object)
    }
}

#[cfg(test)]
mod tests;
