//! What names mean: the tables of a `FROM` clause and their columns.
//!
//! The columns of all tables stand side by side; a name resolves to a position in that row, and
//! what is left of a dotted name are fields of a nested `ROW`.

use tidegate_api::error::{Error, Result};

use super::error::invalid_at;
use super::rel::Column;
use crate::ast::{Ident, Span};

/// A table of a `FROM` clause.
#[derive(Clone, Debug)]
pub struct ScopeTable {
    /// Its alias, or its full name: `catalog`, `database`, `table`. Empty for what cannot be named.
    pub name: Vec<String>,
    /// Position of its first column in the row.
    pub offset: usize,
    /// Its columns.
    pub columns: Vec<Column>,
}

impl ScopeTable {
    /// True if `parts` name this table: all of its name, or the end of it.
    fn is_named(&self, parts: &[Ident]) -> bool {
        !self.name.is_empty()
            && parts.len() <= self.name.len()
            && self.name[self.name.len() - parts.len()..].iter().zip(parts).all(|(n, p)| *n == p.value)
    }

    fn position(&self, column: &Ident) -> Result<Option<usize>> {
        let mut hits = self.columns.iter().enumerate().filter(|(_, c)| c.name == column.value);
        let first = hits.next().map(|(i, _)| self.offset + i);
        if hits.next().is_some() {
            return Err(ambiguous(column));
        }
        Ok(first)
    }
}

/// The names that an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Tables from left to right.
    pub tables: Vec<ScopeTable>,
}

/// A resolved name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Column of the row.
    pub column: usize,
    /// How many parts of the name it took; the others are fields.
    pub parts: usize,
}

impl Scope {
    /// A scope of one table.
    pub fn of(name: Vec<String>, columns: Vec<Column>) -> Scope {
        Scope { tables: vec![ScopeTable { name, offset: 0, columns }] }
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.tables.iter().map(|t| t.columns.len()).sum()
    }

    /// Column `i` of the row.
    pub fn column(&self, i: usize) -> &Column {
        let table = self.tables.iter().rev().find(|t| t.offset <= i && !t.columns.is_empty());
        // Positions come from this scope, so that a table holds each.
        let table = table.unwrap_or(&self.tables[0]);
        &table.columns[i - table.offset]
    }

    /// Adds a table on the right.
    pub fn push(&mut self, name: Vec<String>, columns: Vec<Column>) {
        let offset = self.width();
        self.tables.push(ScopeTable { name, offset, columns });
    }

    /// The table that `parts` name.
    pub fn table(&self, parts: &[Ident]) -> Option<&ScopeTable> {
        self.tables.iter().find(|t| t.is_named(parts))
    }

    /// Resolves `a`, `t.a`, `a.field`, `c.d.t.a.field`. A table's name wins over a column's.
    pub fn resolve(&self, parts: &[Ident]) -> Result<Resolved> {
        for taken in (1..parts.len()).rev() {
            let Some(table) = self.table(&parts[..taken]) else { continue };
            let column = &parts[taken];
            return match table.position(column)? {
                Some(column) => Ok(Resolved { column, parts: taken + 1 }),
                None => {
                    let names: Vec<&str> = parts[..taken].iter().map(|p| p.value.as_str()).collect();
                    let message = format!("Column '{}' not found in table '{}'", column.value, names.join("."));
                    Err(invalid_at(column.span, message + &self.hint(column)))
                }
            };
        }
        let column = &parts[0];
        let mut found = None;
        for table in &self.tables {
            if let Some(i) = table.position(column)? {
                if found.is_some() {
                    return Err(ambiguous(column));
                }
                found = Some(i);
            }
        }
        match found {
            Some(column) => Ok(Resolved { column, parts: 1 }),
            None if parts.len() > 1 => {
                let span = column.span;
                Err(invalid_at(span, format!("Table '{}' not found", column.value)))
            }
            None => {
                let message = format!("Column '{}' not found in any table{}", column.value, self.hint(column));
                Err(invalid_at(column.span, message))
            }
        }
    }

    /// `; did you mean 'Id'?` for a name that differs only in case.
    fn hint(&self, column: &Ident) -> String {
        let near = self
            .tables
            .iter()
            .flat_map(|t| &t.columns)
            .find(|c| c.name != column.value && c.name.eq_ignore_ascii_case(&column.value));
        near.map_or_else(String::new, |c| format!("; did you mean '{}'?", c.name))
    }
}

fn ambiguous(column: &Ident) -> Error {
    invalid_at(column.span, format!("Column '{}' is ambiguous", column.value))
}

/// Gives every column a name of its own, as Calcite does: `depot`, `depot0`.
pub fn uniquify(columns: &mut [Column]) {
    let mut used = std::collections::HashSet::new();
    for column in columns {
        let base = column.name.clone();
        let mut attempt = 0;
        while !used.insert(column.name.clone()) {
            column.name = format!("{base}{attempt}");
            attempt += 1;
        }
    }
}

/// The place from the first to the last part of a name.
pub fn span_of(parts: &[Ident]) -> Span {
    match (parts.first(), parts.last()) {
        (Some(a), Some(b)) => a.span.to(b.span),
        _ => Span::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::types::{LogicalType, TypeKind};

    fn columns(names: &[&str]) -> Vec<Column> {
        names.iter().map(|n| Column::new(*n, LogicalType::new(TypeKind::Int))).collect()
    }

    fn resolve(scope: &Scope, name: &str) -> Result<Resolved> {
        let parts: Vec<Ident> = name.split('.').map(Ident::synthetic).collect();
        scope.resolve(&parts)
    }

    #[test]
    fn names_resolve_by_table_then_by_column() {
        let mut scope = Scope::of(vec!["c".into(), "d".into(), "t".into()], columns(&["a", "Bid"]));
        scope.push(vec!["u".into()], columns(&["a", "t"]));
        assert_eq!(resolve(&scope, "t.a").unwrap(), Resolved { column: 0, parts: 2 });
        assert_eq!(resolve(&scope, "c.d.t.a").unwrap(), Resolved { column: 0, parts: 4 });
        assert_eq!(resolve(&scope, "u.t.f").unwrap(), Resolved { column: 3, parts: 2 });
        assert_eq!(resolve(&scope, "Bid.x").unwrap(), Resolved { column: 1, parts: 1 });
        assert!(resolve(&scope, "a").unwrap_err().message.contains("Column 'a' is ambiguous"));
        assert!(resolve(&scope, "bid").unwrap_err().message.contains("not found in any table; did you mean 'Bid'?"));
        assert!(resolve(&scope, "z.a").unwrap_err().message.contains("Table 'z' not found"));
        assert!(resolve(&scope, "u.b").unwrap_err().message.contains("Column 'b' not found in table 'u'"));
    }

    #[test]
    fn repeated_names_get_numbers() {
        let mut cols = columns(&["d", "d", "d0", "d"]);
        uniquify(&mut cols);
        let names: Vec<&str> = cols.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["d", "d0", "d00", "d1"]);
    }
}
