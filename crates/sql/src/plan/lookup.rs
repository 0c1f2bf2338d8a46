//! Names of tables and views, as sources and as sinks.

use std::collections::BTreeMap;
use std::rc::Rc;

use tidegate_api::error::{Error, Result};

use super::Planner;
use super::error::{invalid_at, refused_at};
use super::query::{Env, rename};
use super::rel::Rel;
use super::scope::uniquify;
use super::table::ResolvedTable;
use crate::ast::{Hint, ObjectName};
use crate::catalog::{CatalogObject, CatalogTable, CatalogView};

impl Planner<'_> {
    /// A table or view as a relation, and its full name.
    pub(super) fn bind_catalog_table(
        &self,
        name: &ObjectName,
        hints: &[Hint],
        env: &Env,
    ) -> Result<(Rel, Vec<String>)> {
        let Some(object) = self.catalog.resolve(name, &env.catalog, &env.database) else {
            return Err(not_found(name));
        };
        let path = object.path();
        let full_name = vec![path.catalog.clone(), path.database.clone(), path.object.clone()];
        match object {
            CatalogObject::Table(table) => {
                let options = self.hinted(table, hints)?;
                let resolved = self.resolve_with(table, options)?;
                Ok((self.scan(Rc::new(resolved)), full_name))
            }
            CatalogObject::View(view) => {
                if let Some(hint) = hints.iter().find(|h| is_options(h)) {
                    let message = format!(
                        "View '{path}' cannot be enriched with new options. Hints can only be applied to tables."
                    );
                    return Err(refused_at(hint.name.span, message));
                }
                Ok((self.bind_view(view, name, env)?, full_name))
            }
        }
    }

    /// A view's query, bound where the view was made. Places in it are places of its own statement.
    fn bind_view(&self, view: &CatalogView, name: &ObjectName, env: &Env) -> Result<Rel> {
        let identifier = view.path.identifier();
        if env.views.contains(&identifier) {
            return Err(invalid_at(name.span(), format!("View '{identifier}' reads itself")));
        }
        let mut views = env.views.clone();
        views.push(identifier.clone());
        let inner = Env { catalog: view.catalog.clone(), database: view.database.clone(), ctes: Vec::new(), views };
        let mut rel = self.bind_query(&view.query, &inner).map_err(|e| e.context(format!("In view '{identifier}'")))?;
        uniquify(&mut rel.columns);
        rename(&mut rel.columns, &view.columns, name.span())?;
        Ok(rel)
    }

    /// The table an `INSERT` writes.
    pub(super) fn sink_table(&self, name: &ObjectName, hints: &[Hint], env: &Env) -> Result<ResolvedTable> {
        match self.catalog.resolve(name, &env.catalog, &env.database) {
            Some(CatalogObject::Table(table)) => {
                let options = self.hinted(table, hints)?;
                self.resolve_with(table, options)
            }
            Some(CatalogObject::View(view)) => {
                let path = &view.path;
                Err(invalid_at(name.span(), format!("{path} is a view; rows can only be inserted into a table.")))
            }
            None => {
                let path = self.catalog.qualify_in(name, &env.catalog, &env.database);
                let catalogs = self.catalog.catalog_list();
                Err(Error::invalid(format!(
                    "Cannot find table '{path}' in any of the catalogs {catalogs}, nor as a temporary table."
                )))
            }
        }
    }

    /// The table's options with `OPTIONS` hints on top. Other hints are for joins and change no row.
    fn hinted(&self, table: &CatalogTable, hints: &[Hint]) -> Result<BTreeMap<String, String>> {
        let mut options = table.options.clone();
        for hint in hints.iter().filter(|h| is_options(h)) {
            if !self.config.bool("table.dynamic-table-options.enabled", true)? {
                let message = "The 'OPTIONS' hint is allowed only when the config option \
                               'table.dynamic-table-options.enabled' is set to true.";
                return Err(refused_at(hint.name.span, message));
            }
            options.extend(hint.options.iter().cloned());
        }
        Ok(options)
    }
}

fn is_options(hint: &Hint) -> bool {
    hint.name.value.eq_ignore_ascii_case("OPTIONS")
}

fn not_found(name: &ObjectName) -> Error {
    let object = name.last();
    let parents: Vec<&str> =
        name.parts[..name.parts.len().saturating_sub(1)].iter().map(|p| p.value.as_str()).collect();
    let within = if parents.is_empty() { String::new() } else { format!(" within '{}'", parents.join(".")) };
    invalid_at(name.span(), format!("Object '{object}' not found{within}"))
}
