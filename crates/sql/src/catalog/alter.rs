//! `ALTER TABLE` on a table's columns, watermark, key and options.
//!
//! A change is made to a copy, so that a statement that fails changes nothing.

use tidegate_api::{Error, Result};

use super::store::invalid;
use super::table::{CatalogTable, PrimaryKey, only_watermark};
use crate::ast::{AlterAction, AlterElements, ColumnDef, ColumnKind, ColumnPosition, Expr, ExprKind, Ident};

fn failed(message: impl std::fmt::Display) -> Error {
    invalid(format!("Failed to execute ALTER TABLE statement.\n{message}"))
}

impl CatalogTable {
    /// The table after `action`; `RENAME TO` is not for here.
    pub fn altered(&self, action: &AlterAction) -> Result<CatalogTable> {
        let mut table = self.clone();
        match action {
            AlterAction::RenameTo(_) => {}
            AlterAction::RenameColumn(old, new) => table.rename_column(old, new)?,
            AlterAction::Set(options) => table.options.extend(options.iter().cloned()),
            AlterAction::Reset(keys) => table.reset(keys)?,
            AlterAction::Add(elements) => table.add(elements)?,
            AlterAction::Modify(elements) => table.modify(elements)?,
            AlterAction::DropColumns(columns) => table.drop_columns(columns)?,
            AlterAction::DropPrimaryKey => {
                if table.primary_key.take().is_none() {
                    return Err(failed("The base table does not define any primary key."));
                }
            }
            AlterAction::DropConstraint(name) => table.drop_constraint(name)?,
            AlterAction::DropWatermark => {
                if table.watermark.take().is_none() {
                    return Err(failed("The base table does not define any watermark strategy."));
                }
            }
            AlterAction::Distribution(distribution) => {
                if distribution.is_none() && table.distribution.is_none() {
                    return Err(failed("Table does not have a distribution to drop."));
                }
                table.distribution = distribution.clone();
            }
            AlterAction::Partition(what) => {
                return Err(Error::unsupported(format!("ALTER TABLE ... {what} is not supported by Tidegate yet.")));
            }
        }
        table.check()?;
        Ok(table)
    }

    fn reset(&mut self, keys: &[String]) -> Result<()> {
        if keys.is_empty() {
            return Err(invalid("ALTER TABLE RESET does not support empty key"));
        }
        if keys.iter().any(|k| k == "connector") {
            return Err(invalid("ALTER TABLE RESET does not support changing 'connector'"));
        }
        self.options.retain(|key, _| !keys.contains(key));
        Ok(())
    }

    fn position(&self, name: &Ident) -> Option<usize> {
        self.columns.iter().position(|c| c.name == *name)
    }

    fn add(&mut self, elements: &AlterElements) -> Result<()> {
        for (column, position) in &elements.columns {
            if self.position(&column.name).is_some() {
                return Err(failed(format!(
                    "Try to add a column `{}` which already exists in the table.",
                    column.name
                )));
            }
            self.insert(column.clone(), position.as_ref(), self.columns.len())?;
        }
        if let Some(new) = only_watermark(&elements.watermarks)? {
            if let Some(old) = &self.watermark {
                return Err(failed(format!(
                    "The base table has already defined the watermark strategy `{}` AS {}. You might want to drop it \
                     before adding a new one.",
                    old.column.iter().map(|c| c.value.as_str()).collect::<Vec<_>>().join("`.`"),
                    old.text
                )));
            }
            self.watermark = Some(new);
        }
        if let Some(new) = PrimaryKey::from_constraints(&elements.constraints)? {
            if let Some(old) = &self.primary_key {
                let columns: Vec<String> = old.columns.iter().map(|c| format!("`{c}`")).collect();
                return Err(failed(format!(
                    "The base table has already defined the primary key constraint [{}]. You might want to drop it \
                     before adding a new one.",
                    columns.join(", ")
                )));
            }
            self.primary_key = Some(new);
        }
        Ok(())
    }

    fn insert(&mut self, column: ColumnDef, position: Option<&ColumnPosition>, otherwise: usize) -> Result<()> {
        let index = match position {
            None => otherwise,
            Some(ColumnPosition::First) => 0,
            Some(ColumnPosition::After(name)) => match self.position(name) {
                Some(index) => index + 1,
                None => {
                    return Err(failed(format!("Referenced column `{name}` by 'AFTER' does not exist in the table.")));
                }
            },
        };
        self.columns.insert(index, column);
        Ok(())
    }

    fn modify(&mut self, elements: &AlterElements) -> Result<()> {
        for (column, position) in &elements.columns {
            let Some(index) = self.position(&column.name) else {
                return Err(failed(format!(
                    "Try to modify a column `{}` which does not exist in the table.",
                    column.name
                )));
            };
            self.columns.remove(index);
            self.insert(column.clone(), position.as_ref(), index)?;
        }
        if let Some(new) = only_watermark(&elements.watermarks)?
            && self.watermark.replace(new).is_none()
        {
            return Err(failed("The base table does not define any watermark. You might want to add a new one."));
        }
        if let Some(new) = PrimaryKey::from_constraints(&elements.constraints)?
            && self.primary_key.replace(new).is_none()
        {
            return Err(failed(
                "The base table does not define any primary key constraint. You might want to add a new one.",
            ));
        }
        Ok(())
    }

    fn drop_constraint(&mut self, name: &Ident) -> Result<()> {
        match &self.primary_key {
            Some(key) if key.name == name.value => {
                self.primary_key = None;
                Ok(())
            }
            Some(key) => Err(failed(format!(
                "The base table does not define a primary key constraint named '{name}'. Available constraint name: \
                 ['{}'].",
                key.name
            ))),
            None => Err(failed("The base table does not define any primary key.")),
        }
    }

    fn drop_columns(&mut self, columns: &[Ident]) -> Result<()> {
        for name in columns {
            let Some(index) = self.position(name) else {
                return Err(failed(format!("The column `{name}` does not exist in the base table.")));
            };
            self.columns.remove(index);
        }
        columns.iter().try_for_each(|name| self.check_unused(name))
    }

    fn rename_column(&mut self, old: &Ident, new: &Ident) -> Result<()> {
        let Some(index) = self.position(old) else {
            return Err(failed(format!("The column `{old}` does not exist in the base table.")));
        };
        if self.position(new).is_some() {
            return Err(failed(format!("The column `{new}` already existed in table schema.")));
        }
        self.check_unreferenced(old)?;
        self.columns[index].name = new.clone();
        let renamed = |name: &mut String| {
            if *name == old.value {
                *name = new.value.clone();
            }
        };
        self.partition_keys.iter_mut().for_each(renamed);
        if let Some(key) = &mut self.primary_key {
            key.columns.iter_mut().for_each(renamed);
        }
        Ok(())
    }

    fn check_unused(&self, name: &Ident) -> Result<()> {
        self.check_unreferenced(name)?;
        if self.primary_key.as_ref().is_some_and(|k| k.columns.contains(&name.value)) {
            return Err(failed(format!("The column `{name}` is used as the primary key.")));
        }
        if self.partition_keys.contains(&name.value) {
            return Err(failed(format!("The column `{name}` is used as the partition keys.")));
        }
        Ok(())
    }

    /// No computed column and no watermark may use the column.
    fn check_unreferenced(&self, name: &Ident) -> Result<()> {
        for column in &self.columns {
            if let ColumnKind::Computed { expr, .. } = &column.kind
                && references(expr, name)
            {
                return Err(failed(format!("The column `{name}` is referenced by computed column `{}`.", column.name)));
            }
        }
        if let Some(watermark) = &self.watermark
            && (watermark.column.first() == Some(name) || references(&watermark.expr, name))
        {
            return Err(failed(format!("The column `{name}` is referenced by watermark expression.")));
        }
        Ok(())
    }
}

/// Whether an expression names the column: an identifier's first part equals it.
fn references(expr: &Expr, name: &Ident) -> bool {
    let mut found = false;
    crate::ast::visit(expr, &mut |e| {
        if let ExprKind::Identifier(parts) = &e.kind {
            found |= parts.first() == Some(name);
        }
    });
    found
}
