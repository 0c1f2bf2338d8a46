//! Which schema can be read as which.

use std::fmt;

use tidegate_api::types::{Field, LogicalType, Schema, TypeKind};

use crate::manifest::StateSchema;

/// An accepted difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaChange {
    /// A column was added at the end; it is NULL in what was there.
    Added(Field),
    /// A column has a wider type.
    Widened {
        /// The column.
        column: String,
        /// Type in the snapshot.
        from: LogicalType,
        /// Type in the job.
        to: LogicalType,
    },
}

impl fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaChange::Added(field) => write!(f, "column '{}' {} is added, NULL so far", field.name, field.ty),
            SchemaChange::Widened { column, from, to } => write!(f, "column '{column}' {from} becomes {to}"),
        }
    }
}

/// What changes from one to the other, or every reason why it must not.
pub(super) fn compare(old: &StateSchema, new: &StateSchema) -> Result<Vec<SchemaChange>, Vec<String>> {
    let (mut changes, mut reasons) = (Vec::new(), Vec::new());
    if old.kind != new.kind {
        reasons.push(format!("it was a state of kind {:?} and is now of kind {:?}", old.kind, new.kind));
    }
    columns("key", &old.key, &new.key, &mut changes, &mut reasons);
    if new.key.len() > old.key.len() {
        let names: Vec<&str> = new.key.fields[old.key.len()..].iter().map(|field| field.name.as_str()).collect();
        reasons.push(format!("key column '{}' is new: other keys are other rows", names.join("', '")));
    }
    columns("column", &old.value, &new.value, &mut changes, &mut reasons);
    for field in new.value.fields.iter().skip(old.value.len()) {
        if field.ty.nullable {
            changes.push(SchemaChange::Added(field.clone()));
        } else {
            reasons.push(format!("column '{}' {} is added but may not be NULL", field.name, field.ty));
        }
    }
    if reasons.is_empty() { Ok(changes) } else { Err(reasons) }
}

/// The columns both have, by position.
fn columns(what: &str, old: &Schema, new: &Schema, changes: &mut Vec<SchemaChange>, reasons: &mut Vec<String>) {
    for (index, before) in old.fields.iter().enumerate() {
        let Some(after) = new.fields.get(index) else {
            reasons.push(format!("{what} '{}' {} is missing in the job", before.name, before.ty));
            continue;
        };
        if before.name != after.name {
            reasons.push(format!(
                "{what} {} was '{}' {} and is now '{}' {}",
                index + 1,
                before.name,
                before.ty,
                after.name,
                after.ty
            ));
        } else if before.ty == after.ty {
        } else if is_wider(&before.ty, &after.ty) {
            let (from, to) = (before.ty.clone(), after.ty.clone());
            changes.push(SchemaChange::Widened { column: before.name.clone(), from, to });
        } else {
            reasons.push(format!(
                "{what} '{}' was {} and is now {}, which cannot hold every value of it",
                before.name, before.ty, after.ty
            ));
        }
    }
}

/// True if every value of `from` is a value of `to`, with the same key hash (see
/// `tidegate_state::KeyBytes`: numbers and timestamps hash by value).
fn is_wider(from: &LogicalType, to: &LogicalType) -> bool {
    use TypeKind::{
        Array, BigInt, Binary, Char, Decimal, Double, Float, Int, Map, Multiset, Row, SmallInt, Timestamp,
        TimestampLtz, TinyInt, Varbinary, Varchar,
    };
    let rank = |kind: &TypeKind| [TinyInt, SmallInt, Int, BigInt].iter().position(|other| other == kind);
    if from.nullable && !to.nullable {
        return false;
    }
    match (&from.kind, &to.kind) {
        (a, b) if a == b => true,
        (Float, Double) => true,
        (Decimal(p, s), Decimal(wider, scale)) => wider >= p && scale == s,
        (Varchar(n), Varchar(m)) | (Varbinary(n), Varbinary(m)) => m >= n,
        (Char(n), Varchar(m)) | (Binary(n), Varbinary(m)) => m >= n,
        (Timestamp(p), Timestamp(q)) | (TimestampLtz(p), TimestampLtz(q)) => q >= p,
        (Array(a), Array(b)) | (Multiset(a), Multiset(b)) => is_wider(a, b),
        (Map(k, v), Map(l, w)) => is_wider(k, l) && is_wider(v, w),
        (Row(a), Row(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.name == y.name && is_wider(&x.ty, &y.ty))
        }
        (a, b) => rank(a).zip(rank(b)).is_some_and(|(low, high)| low <= high),
    }
}
