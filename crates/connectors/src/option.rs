//! Reading a table's `WITH` options so that nothing is ignored silently.
//!
//! An [`OptionReader`] remembers every key that was asked for. What is left over at the end is a
//! mistake of the user's (or a feature we do not have) and is refused with Flink's text.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_api::config::{parse_bytes, parse_duration_ms};
use tidegate_api::connector::TableDescriptor;
use tidegate_api::{Error, Result};

/// Options every table takes. `scan.watermark.*` is read by the planner, not by connectors.
const COMMON: [&str; 4] =
    ["connector", "property-version", "scan.watermark.emit.strategy", "scan.watermark.idle-timeout"];

/// Reads options by key and refuses what nobody read.
pub struct OptionReader<'a> {
    owner: String,
    options: &'a BTreeMap<String, String>,
    asked: BTreeSet<String>,
    prefixes: Vec<String>,
}

impl<'a> OptionReader<'a> {
    /// Reads the options of `table` for the connector `identifier`.
    pub fn new(identifier: &str, table: &'a TableDescriptor) -> Self {
        Self::of(identifier, &table.options)
    }

    /// Reads bare options.
    pub fn of(identifier: &str, options: &'a BTreeMap<String, String>) -> Self {
        let asked = COMMON.iter().map(|k| (*k).to_owned()).collect();
        OptionReader { owner: identifier.to_owned(), options, asked, prefixes: Vec::new() }
    }

    /// Fails with the list of those of `keys` that are not set.
    pub fn require(&mut self, keys: &[&str]) -> Result<()> {
        self.asked.extend(keys.iter().map(|k| (*k).to_owned()));
        let mut missing: Vec<&str> = keys.iter().copied().filter(|k| !self.options.contains_key(*k)).collect();
        missing.sort_unstable();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "One or more required options are missing.\n\nMissing required options are:\n\n{}",
            missing.join("\n")
        )))
    }

    /// The raw value of a key.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        self.asked.insert(key.to_owned());
        self.options.get(key).map(String::as_str)
    }

    /// The raw value of a key that must be set.
    pub fn required(&mut self, key: &str) -> Result<&'a str> {
        self.require(&[key])?;
        Ok(self.options.get(key).map(String::as_str).unwrap_or_default())
    }

    /// Marks keys as known without reading them: accepted, without effect here.
    pub fn accept(&mut self, keys: &[&str]) {
        self.asked.extend(keys.iter().map(|k| (*k).to_owned()));
    }

    /// `true` or `false`.
    pub fn bool(&mut self, key: &str, default: bool) -> Result<bool> {
        let parsed = self.typed(key, "'true' or 'false'", |s| s.trim().to_ascii_lowercase().parse().ok())?;
        Ok(parsed.unwrap_or(default))
    }

    /// A whole number.
    pub fn integer<T: std::str::FromStr>(&mut self, key: &str) -> Result<Option<T>> {
        self.typed(key, "a whole number", |s| s.trim().parse().ok())
    }

    /// A whole number above zero.
    pub fn positive(&mut self, key: &str) -> Result<Option<usize>> {
        self.typed(key, "a whole number above 0", |s| s.trim().parse().ok().filter(|n| *n > 0))
    }

    /// A duration in milliseconds.
    pub fn duration_ms(&mut self, key: &str) -> Result<Option<i64>> {
        self.typed(key, "a duration such as '10 s' or '5 min'", parse_duration_ms)
    }

    /// A size in bytes.
    pub fn bytes(&mut self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "a size such as '128MB'", parse_bytes)
    }

    /// One of `choices` (compared without case); the default is the first.
    pub fn choice<'c>(&mut self, key: &str, choices: &[&'c str]) -> Result<&'c str> {
        let wanted = format!("one of {}", choices.join(", "));
        let found = self.typed(key, &wanted, |s| choices.iter().copied().find(|c| c.eq_ignore_ascii_case(s.trim())))?;
        Ok(found.unwrap_or(choices.first().copied().unwrap_or_default()))
    }

    /// Parses a value; the error names key, value and what is `wanted`.
    pub fn typed<T>(&mut self, key: &str, wanted: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        match self.text(key) {
            None => Ok(None),
            Some(text) => parse(text).map(Some).ok_or_else(|| invalid_value(key, text, wanted)),
        }
    }

    /// All options whose key starts with `prefix`, without it.
    pub fn prefixed(&mut self, prefix: &str) -> Vec<(&'a str, &'a str)> {
        self.prefixes.push(prefix.to_owned());
        let under = self.options.iter().filter_map(|(k, v)| Some((k.strip_prefix(prefix)?, v.as_str())));
        under.collect()
    }

    /// Fails if an option is set that nobody asked for.
    pub fn finish(self) -> Result<()> {
        let known = |key: &str| self.asked.contains(key) || self.prefixes.iter().any(|p| key.starts_with(p.as_str()));
        let unknown: Vec<&str> = self.options.keys().map(String::as_str).filter(|k| !known(k)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let mut supported: Vec<String> = self.asked.iter().cloned().collect();
        supported.extend(self.prefixes.iter().map(|p| format!("{p}*")));
        supported.sort();
        Err(Error::invalid(format!(
            "Unsupported options found for '{}'.\n\nUnsupported options:\n\n{}\n\nSupported options:\n\n{}",
            self.owner,
            unknown.join("\n"),
            supported.join("\n")
        )))
    }
}

/// An option whose value cannot be used.
pub fn invalid_value(key: &str, value: &str, wanted: &str) -> Error {
    Error::invalid(format!("Invalid value for option '{key}': '{value}'. Expected {wanted}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn what_nobody_read_is_refused_by_name() {
        let options = options(&[("connector", "x"), ("path", "/a"), ("foo", "1"), ("properties.b", "2")]);
        let mut reader = OptionReader::of("x", &options);
        assert_eq!(reader.required("path").ok(), Some("/a"));
        assert_eq!(reader.prefixed("properties."), [("b", "2")]);
        let text = reader.finish().expect_err("foo is unknown").to_string();
        assert!(
            text.starts_with("Unsupported options found for 'x'.\n\nUnsupported options:\n\nfoo\n\nSupported"),
            "{text}"
        );
    }

    #[test]
    fn missing_and_malformed_values_are_named() {
        let options = options(&[("rate", "fast"), ("mode", "b")]);
        let mut reader = OptionReader::of("x", &options);
        let text = reader.require(&["path", "format"]).expect_err("missing").to_string();
        assert!(text.ends_with("Missing required options are:\n\nformat\npath"), "{text}");
        let text = reader.positive("rate").expect_err("no number").to_string();
        assert_eq!(text, "Invalid value for option 'rate': 'fast'. Expected a whole number above 0.");
        assert_eq!(reader.choice("mode", &["A", "B"]).ok(), Some("B"));
        assert_eq!(reader.choice("none", &["A", "B"]).ok(), Some("A"));
    }
}
