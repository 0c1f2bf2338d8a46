//! Creating, dropping, renaming and listing.

use std::collections::BTreeMap;

use tidegate_api::{Error, Result};

use super::{Catalog, CatalogEntry, CatalogObject, Database, ObjectPath};
use crate::ast::{ObjectName, Options};

impl Catalog {
    // ---- catalogs ----

    /// `CREATE CATALOG`. Only `generic_in_memory` exists.
    pub fn create_catalog(
        &mut self,
        name: &str,
        if_not_exists: bool,
        comment: Option<String>,
        options: Options,
    ) -> Result<()> {
        if self.catalogs.contains_key(name) {
            return if if_not_exists { Ok(()) } else { Err(invalid(format!("Catalog {name} already exists."))) };
        }
        let options: BTreeMap<String, String> = options.into_iter().collect();
        match options.get("type").map(String::as_str) {
            Some("generic_in_memory") => {}
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "Unable to create catalog '{name}'. Could not find any catalog factory for identifier '{other}'. \
                     Available factory identifiers are: generic_in_memory"
                )));
            }
            None => {
                return Err(invalid(format!(
                    "Unable to create catalog '{name}'. Catalog options do not contain an option key 'type' for \
                     discovering a catalog."
                )));
            }
        }
        let default_database = options.get("default-database").cloned().unwrap_or_else(|| "default".to_string());
        let databases = BTreeMap::from([(default_database.clone(), Database::default())]);
        self.catalogs.insert(name.to_string(), CatalogEntry { comment, options, default_database, databases });
        Ok(())
    }

    /// A catalog by name.
    pub fn catalog(&self, name: &str) -> Result<&CatalogEntry> {
        self.catalogs.get(name).ok_or_else(|| no_catalog(name))
    }

    /// A catalog by name, to be altered.
    pub fn catalog_mut(&mut self, name: &str) -> Result<&mut CatalogEntry> {
        self.catalogs.get_mut(name).ok_or_else(|| no_catalog(name))
    }

    /// `DROP CATALOG`.
    pub fn drop_catalog(&mut self, name: &str, if_exists: bool) -> Result<()> {
        if !self.catalogs.contains_key(name) {
            return if if_exists { Ok(()) } else { Err(no_catalog(name)) };
        }
        if name == self.current_catalog {
            return Err(invalid("Cannot drop a catalog which is currently in use."));
        }
        self.catalogs.remove(name);
        Ok(())
    }

    /// `USE CATALOG`: its default database becomes current too.
    pub fn use_catalog(&mut self, name: &str) -> Result<()> {
        let database = self.catalog(name)?.default_database.clone();
        self.current_catalog = name.to_string();
        self.current_database = database;
        Ok(())
    }

    /// The catalogs' names, sorted.
    pub fn catalogs(&self) -> Vec<String> {
        self.catalogs.keys().cloned().collect()
    }

    // ---- databases ----

    /// The catalog and database a name of one or two parts means.
    pub fn qualify_database(&self, name: &ObjectName) -> Result<(String, String)> {
        match name.parts.as_slice() {
            [database] => Ok((self.current_catalog.clone(), database.value.clone())),
            [catalog, database] => Ok((catalog.value.clone(), database.value.clone())),
            _ => Err(invalid(format!("Invalid database identifier '{name}'. A database has at most two parts."))),
        }
    }

    /// `CREATE DATABASE`.
    pub fn create_database(
        &mut self,
        name: &ObjectName,
        if_not_exists: bool,
        comment: Option<String>,
        options: Options,
    ) -> Result<()> {
        let (catalog, database) = self.qualify_database(name)?;
        let databases = &mut self.catalog_mut(&catalog)?.databases;
        if databases.contains_key(&database) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(invalid(format!("Database {database} already exists in Catalog {catalog}."))),
            };
        }
        let options = options.into_iter().collect();
        databases.insert(database, Database { comment, options, objects: BTreeMap::new() });
        Ok(())
    }

    /// A database of a catalog.
    pub fn database(&self, catalog: &str, database: &str) -> Result<&Database> {
        self.catalog(catalog)?.databases.get(database).ok_or_else(|| no_database(catalog, database))
    }

    /// A database of a catalog, to be altered.
    pub fn database_mut(&mut self, catalog: &str, database: &str) -> Result<&mut Database> {
        self.catalog_mut(catalog)?.databases.get_mut(database).ok_or_else(|| no_database(catalog, database))
    }

    /// `DROP DATABASE`.
    pub fn drop_database(&mut self, name: &ObjectName, if_exists: bool, cascade: bool) -> Result<()> {
        let (catalog, database) = self.qualify_database(name)?;
        if (catalog.as_str(), database.as_str()) == (self.current_catalog.as_str(), self.current_database.as_str()) {
            return Err(invalid("Cannot drop a database which is currently in use."));
        }
        let databases = &mut self.catalog_mut(&catalog)?.databases;
        match databases.get(&database) {
            None if if_exists => return Ok(()),
            None => return Err(no_database(&catalog, &database)),
            Some(found) if !cascade && !found.objects.is_empty() => {
                return Err(invalid(format!("Database {database} in catalog {catalog} is not empty.")));
            }
            Some(_) => {}
        }
        databases.remove(&database);
        self.temporary.retain(|path, _| (&path.catalog, &path.database) != (&catalog, &database));
        Ok(())
    }

    /// `USE database`.
    pub fn use_database(&mut self, name: &ObjectName) -> Result<()> {
        let (catalog, database) = self.qualify_database(name)?;
        if !self.catalog(&catalog)?.databases.contains_key(&database) {
            return Err(invalid(format!(
                "A database with name [{database}] does not exist in the catalog: [{catalog}]."
            )));
        }
        self.current_catalog = catalog;
        self.current_database = database;
        Ok(())
    }

    /// The databases of a catalog, sorted.
    pub fn databases(&self, catalog: &str) -> Result<Vec<String>> {
        Ok(self.catalog(catalog)?.databases.keys().cloned().collect())
    }

    // ---- tables and views ----

    /// Adds a table or view.
    pub fn create(&mut self, object: CatalogObject, if_not_exists: bool, or_replace: bool) -> Result<()> {
        let path = object.path().clone();
        let what = if object.is_view() { "view" } else { "table" };
        if object.is_temporary() {
            self.catalog(&path.catalog)?;
            return match self.temporary.contains_key(&path) {
                true if !or_replace && if_not_exists => Ok(()),
                true if !or_replace => Err(invalid(format!("Temporary {what} '{path}' already exists"))),
                _ => {
                    self.temporary.insert(path, object);
                    Ok(())
                }
            };
        }
        let could_not = |e: Error| invalid(format!("Could not execute CreateTable in path {path}. {}", e.message));
        let database = self.database_mut(&path.catalog, &path.database).map_err(could_not)?;
        match database.objects.get(&path.object) {
            Some(old) if or_replace && old.is_view() != object.is_view() => {
                Err(invalid(format!("Could not replace {path}: it is not a {what}.")))
            }
            Some(_) if !or_replace && if_not_exists => Ok(()),
            Some(_) if !or_replace => Err(could_not(already_exists(&path))),
            _ => {
                database.objects.insert(path.object, object);
                Ok(())
            }
        }
    }

    /// `DROP [TEMPORARY] TABLE | VIEW`.
    pub fn drop_object(&mut self, path: &ObjectPath, view: bool, temporary: bool, if_exists: bool) -> Result<()> {
        let kind = if view { "View" } else { "Table" };
        let found_temporary = self.temporary.get(path).is_some_and(|o| o.is_view() == view);
        if temporary {
            return match found_temporary {
                true => {
                    self.temporary.remove(path);
                    Ok(())
                }
                false if if_exists => Ok(()),
                false => Err(invalid(format!(
                    "Temporary {} with identifier '{}' does not exist.",
                    kind.to_lowercase(),
                    path.identifier()
                ))),
            };
        }
        if found_temporary {
            return Err(invalid(format!(
                "Temporary {0} with identifier '{path}' exists. Drop it first before removing the permanent {0}.",
                kind.to_lowercase()
            )));
        }
        if self.find_permanent(path).is_none_or(|o| o.is_view() != view) {
            return match if_exists {
                true => Ok(()),
                false => Err(invalid(format!("{kind} with identifier '{}' does not exist.", path.identifier()))),
            };
        }
        self.database_mut(&path.catalog, &path.database)?.objects.remove(&path.object);
        Ok(())
    }

    /// `ALTER TABLE | VIEW name RENAME TO new`. A new name of one part stays in the old database.
    pub fn rename(&mut self, path: &ObjectPath, new: &ObjectName, view: bool) -> Result<()> {
        let new = self.qualify_in(new, &path.catalog, &path.database);
        if (&new.catalog, &new.database) != (&path.catalog, &path.database) {
            return Err(invalid(format!("Cannot rename {path} to {new}: the database must stay the same.")));
        }
        self.permanent_mut(path, view)?;
        if self.find_permanent(&new).is_some() {
            return Err(already_exists(&new));
        }
        let objects = &mut self.database_mut(&path.catalog, &path.database)?.objects;
        if let Some(mut object) = objects.remove(&path.object) {
            object.set_path(new.clone());
            objects.insert(new.object, object);
        }
        Ok(())
    }

    /// The permanent table or view of a path, to be altered.
    pub fn permanent_mut(&mut self, path: &ObjectPath, view: bool) -> Result<&mut CatalogObject> {
        let kind = if view { "View" } else { "Table" };
        let missing = || {
            let other = kind.to_lowercase();
            invalid(format!("{kind} {path} doesn't exist or is a temporary {other}."))
        };
        if self.temporary.contains_key(path) {
            return Err(missing());
        }
        let database = self.database_mut(&path.catalog, &path.database).map_err(|_| missing())?;
        let found = database.objects.get_mut(&path.object).ok_or_else(missing)?;
        match (found.is_view(), view) {
            (true, false) => Err(invalid("ALTER TABLE for a view is not allowed")),
            (false, true) => Err(invalid("ALTER VIEW for a table is not allowed")),
            _ => Ok(found),
        }
    }

    /// The tables and views of a database, by name, temporary ones first of their name.
    pub fn objects(&self, catalog: &str, database: &str) -> Result<Vec<&CatalogObject>> {
        let mut all: BTreeMap<&str, &CatalogObject> = BTreeMap::new();
        for (name, object) in &self.database(catalog, database)?.objects {
            all.insert(name, object);
        }
        for (path, object) in &self.temporary {
            if path.catalog == catalog && path.database == database {
                all.insert(&path.object, object);
            }
        }
        Ok(all.into_values().collect())
    }
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::invalid(message)
}

fn no_catalog(name: &str) -> Error {
    invalid(format!("A catalog with name [{name}] does not exist."))
}

fn no_database(catalog: &str, database: &str) -> Error {
    invalid(format!("Database {database} does not exist in Catalog {catalog}."))
}

fn already_exists(path: &ObjectPath) -> Error {
    invalid(format!("Table (or view) {}.{} already exists in Catalog {}.", path.database, path.object, path.catalog))
}
