//! `CREATE TABLE ... LIKE`: merging a base table into a new one.
//!
//! Physical columns of the base always come along, first. The rest follows the like options; the
//! default is `INCLUDING ALL OVERWRITING OPTIONS`.

use tidegate_api::Result;

use super::store::invalid;
use super::table::{CatalogTable, at};
use super::{Catalog, CatalogObject};
use crate::ast::{ColumnDef, ColumnKind, Like, LikeFeature, LikeOption, LikeStrategy};

/// The strategy of each feature.
struct Strategies<'a>(&'a [LikeOption]);

impl Strategies<'_> {
    fn of(&self, feature: LikeFeature) -> LikeStrategy {
        let named = |f| self.0.iter().find(|o| o.feature == f).map(|o| o.strategy);
        named(feature).or(named(LikeFeature::All)).unwrap_or(match feature {
            LikeFeature::Options => LikeStrategy::Overwriting,
            _ => LikeStrategy::Including,
        })
    }

    fn takes(&self, feature: LikeFeature) -> bool {
        self.of(feature) != LikeStrategy::Excluding
    }

    fn overwrites(&self, feature: LikeFeature) -> bool {
        self.of(feature) == LikeStrategy::Overwriting
    }

    fn check(&self) -> Result<()> {
        for (i, option) in self.0.iter().enumerate() {
            if self.0[..i].iter().any(|o| o.feature == option.feature) {
                return Err(invalid("Each like option feature can be declared only once."));
            }
        }
        Ok(())
    }
}

impl Catalog {
    /// Merges the table that `like` names into `derived`.
    pub fn merge_like(&self, like: &Like, derived: &mut CatalogTable) -> Result<()> {
        let path = self.qualify(&like.name);
        let span = like.name.span();
        let place = format!("at line {}, column {}", span.line, span.column);
        let base = match self.find(&path) {
            Some(CatalogObject::Table(base)) => base,
            Some(CatalogObject::View(_)) => {
                return Err(invalid(format!("Source table '{path}' of the LIKE clause can not be a VIEW, {place}")));
            }
            None => {
                return Err(invalid(format!(
                    "Source table '{path}' of the LIKE clause not found in the catalog, {place}"
                )));
            }
        };
        let strategies = Strategies(&like.options);
        strategies.check()?;
        derived.columns = merge_columns(base, &derived.columns, &strategies)?;
        merge_watermark(base, derived, &strategies)?;
        merge_rest(base, derived, &strategies)
    }
}

fn merge_columns(base: &CatalogTable, derived: &[ColumnDef], strategies: &Strategies<'_>) -> Result<Vec<ColumnDef>> {
    let mut out: Vec<ColumnDef> = base
        .columns
        .iter()
        .filter(|c| match c.kind {
            ColumnKind::Computed { .. } => strategies.takes(LikeFeature::Generated),
            ColumnKind::Metadata { .. } => strategies.takes(LikeFeature::Metadata),
            _ => true,
        })
        .cloned()
        .collect();
    let of_base = out.len();
    for column in derived {
        let Some(old) = out.iter().position(|c| c.name == column.name) else {
            out.push(column.clone());
            continue;
        };
        let name = &column.name;
        let (feature, word) = match (&column.kind, &out[old].kind) {
            (ColumnKind::Computed { .. }, ColumnKind::Computed { .. }) => (LikeFeature::Generated, "generated"),
            (ColumnKind::Metadata { .. }, ColumnKind::Metadata { .. }) => (LikeFeature::Metadata, "metadata"),
            _ => {
                let table = if old < of_base { "base table" } else { "table" };
                return Err(at(name.span, format!("A column named '{name}' already exists in the {table}.")));
            }
        };
        if old >= of_base || !strategies.overwrites(feature) {
            return Err(at(
                name.span,
                format!(
                    "A {word} column named '{name}' already exists in the base table. You might want to specify \
                     EXCLUDING {0} or OVERWRITING {0}.",
                    feature.name()
                ),
            ));
        }
        out[old] = column.clone();
    }
    Ok(out)
}

fn merge_watermark(base: &CatalogTable, derived: &mut CatalogTable, strategies: &Strategies<'_>) -> Result<()> {
    let Some(old) = base.watermark.as_ref().filter(|_| strategies.takes(LikeFeature::Watermarks)) else {
        return Ok(());
    };
    match &derived.watermark {
        None => derived.watermark = Some(old.clone()),
        Some(_) if strategies.overwrites(LikeFeature::Watermarks) => {}
        Some(new) => {
            let column =
                |w: &crate::ast::WatermarkDef| w.column.iter().map(|c| c.value.as_str()).collect::<Vec<_>>().join(".");
            if column(new) != column(old) {
                return Err(at(new.span, "Multiple WATERMARK statements is not supported yet."));
            }
            return Err(at(
                new.span,
                format!(
                    "There already exists a watermark spec for column '{}' in the base table. You might want to specify \
                     EXCLUDING WATERMARKS or OVERWRITING WATERMARKS.",
                    column(new)
                ),
            ));
        }
    }
    Ok(())
}

fn merge_rest(base: &CatalogTable, derived: &mut CatalogTable, strategies: &Strategies<'_>) -> Result<()> {
    if base.primary_key.is_some() && strategies.takes(LikeFeature::Constraints) {
        if derived.primary_key.is_some() {
            return Err(invalid(
                "The base table already has a primary key. You might want to specify EXCLUDING CONSTRAINTS.",
            ));
        }
        derived.primary_key = base.primary_key.clone();
    }
    if !base.partition_keys.is_empty() && strategies.takes(LikeFeature::Partitions) {
        if !derived.partition_keys.is_empty() {
            return Err(invalid(
                "The base table already has partitions defined. You might want to specify EXCLUDING PARTITIONS.",
            ));
        }
        derived.partition_keys = base.partition_keys.clone();
    }
    if base.distribution.is_some() && strategies.takes(LikeFeature::Distribution) {
        if derived.distribution.is_some() {
            return Err(invalid(
                "The base table already has a distribution defined. You might want to specify EXCLUDING DISTRIBUTION.",
            ));
        }
        derived.distribution = base.distribution.clone();
    }
    if strategies.takes(LikeFeature::Options) {
        for (key, value) in &base.options {
            if derived.options.contains_key(key) {
                if !strategies.overwrites(LikeFeature::Options) {
                    return Err(invalid(format!(
                        "There already exists an option ['{key}' -> '{value}']  in the base table. You might want to \
                         specify EXCLUDING OPTIONS or OVERWRITING OPTIONS."
                    )));
                }
            } else {
                derived.options.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}
