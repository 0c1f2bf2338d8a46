//! The settings of the client itself, by Flink's keys.

use tidegate_api::config::Configuration;
use tidegate_api::{Error, Result};

use super::view::ViewMode;
use super::words::SETTINGS;
use crate::tableau;

/// How a SELECT shows its rows.
const RESULT_MODE: &str = "sql-client.execution.result-mode";
/// How many rows a view keeps.
const ROWS_MAX: &str = "sql-client.execution.max-table-result.rows";
/// Whether a result says how long it took.
const PRINT_TIME_COST: &str = "sql-client.display.print-time-cost";
/// Flink's default of [`ROWS_MAX`].
const ROWS_MAX_AT_FIRST: usize = 1_000_000;

/// Fails if a setting of the client makes no sense; Flink would fail only when it uses it.
pub fn check(config: &Configuration) -> Result<()> {
    result_mode(config)?;
    rows_max(config)?;
    prints_time(config)?;
    tableau::max_column_width(config).map(|_| ())
}

/// Whether the client heeds the key.
pub fn is_known(key: &str) -> bool {
    key == "sql-client.display.max-column-width" || SETTINGS.iter().any(|(name, _)| *name == key)
}

/// Whether a result says how long it took.
pub fn prints_time(config: &Configuration) -> Result<bool> {
    config.bool(PRINT_TIME_COST, true)
}

/// How many rows a view keeps.
pub fn rows_max(config: &Configuration) -> Result<usize> {
    match config.usize(ROWS_MAX, ROWS_MAX_AT_FIRST)? {
        0 => Err(Error::invalid(format!("{ROWS_MAX} takes a whole number above 0."))),
        rows => Ok(rows),
    }
}

/// The view that a SELECT is shown in; `None` is the tableau.
pub fn result_mode(config: &Configuration) -> Result<Option<ViewMode>> {
    let mode = config.get(RESULT_MODE).unwrap_or("table");
    match mode.to_ascii_lowercase().as_str() {
        "table" => Ok(Some(ViewMode::Table)),
        "changelog" => Ok(Some(ViewMode::Changelog)),
        "tableau" => Ok(None),
        _ => Err(Error::invalid(format!(
            "Could not parse value '{mode}' for key '{RESULT_MODE}': expected table, changelog or tableau."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: &str, value: &str) -> Configuration {
        let mut config = Configuration::default();
        config.set(key, value);
        config
    }

    #[test]
    fn defaults_are_those_of_flink() {
        let config = Configuration::default();
        assert_eq!(result_mode(&config).ok(), Some(Some(ViewMode::Table)));
        assert_eq!(rows_max(&config).ok(), Some(1_000_000));
        assert_eq!(prints_time(&config).ok(), Some(true));
        assert_eq!(result_mode(&with(RESULT_MODE, "TABLEAU")).ok(), Some(None));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_key_and_value() {
        for (key, value) in [(RESULT_MODE, "tabel"), (ROWS_MAX, "-1"), (PRINT_TIME_COST, "yes"), (ROWS_MAX, "0")] {
            let refused = check(&with(key, value)).expect_err("it makes no sense").to_string();
            assert!(refused.contains(key), "{refused}");
        }
    }
}
