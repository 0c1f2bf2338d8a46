//! Settings: Flink's string keys with typed reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Key-value settings of a session or job (`SET 'k' = 'v'`, `-D k=v`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// The raw settings.
    pub values: BTreeMap<String, String>,
}

impl Configuration {
    /// The raw value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// Sets a key.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.values.insert(key.into(), value.into());
    }

    /// A duration in milliseconds, or `default` if the key is unset.
    pub fn duration_ms(&self, key: &str, default: i64) -> Result<i64> {
        self.typed(key, default, parse_duration_ms, "a duration such as '10 s' or '5 min'")
    }

    /// A boolean.
    pub fn bool(&self, key: &str, default: bool) -> Result<bool> {
        self.typed(key, default, |s| s.trim().to_ascii_lowercase().parse().ok(), "'true' or 'false'")
    }

    /// A positive integer.
    pub fn usize(&self, key: &str, default: usize) -> Result<usize> {
        self.typed(key, default, |s| s.trim().parse().ok(), "a whole number")
    }

    /// The session time zone (`table.local-time-zone`), `UTC` if unset.
    ///
    /// Flink takes the JVM's zone by default; a result that depends on the machine is not
    /// reproducible, so here it is UTC.
    pub fn time_zone(&self) -> &str {
        match self.get("table.local-time-zone") {
            None | Some("default") => "UTC",
            Some(zone) => zone,
        }
    }

    fn typed<T>(&self, key: &str, default: T, parse: impl Fn(&str) -> Option<T>, wanted: &str) -> Result<T> {
        match self.get(key) {
            None => Ok(default),
            Some(text) => parse(text).ok_or_else(|| {
                Error::invalid(format!("Could not parse value '{text}' for key '{key}': expected {wanted}."))
            }),
        }
    }
}

/// Parts of the names of settings whose values are shown to nobody: Flink's list.
const SECRETS: [&str; 12] = [
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
    "access-key",
];

/// A value as it may be shown: that of a secret is hidden.
pub fn shown<'a>(key: &str, value: &'a str) -> &'a str {
    let key = key.to_ascii_lowercase();
    // `s3.access.key` is an older name of `s3.access-key`.
    let is_secret = SECRETS.iter().any(|secret| key.contains(secret)) || key.contains("access.key");
    if is_secret { "******" } else { value }
}

/// Parses Flink's durations: `1 s`, `1s`, `10 min`, `100ms`, `1 d`, `PT1S`; a bare number is
/// milliseconds. `None` if it is none.
pub fn parse_duration_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.starts_with('P') || text.starts_with('p') {
        let span: jiff::SignedDuration = text.parse().ok()?;
        return i64::try_from(span.as_millis()).ok();
    }
    let (digits, unit) = split_unit(text)?;
    let scale_ns: i64 = match unit.as_str() {
        "d" | "day" | "days" => 86_400_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "s" | "sec" | "second" | "seconds" => 1_000_000_000,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "µs" | "us" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        _ => return None,
    };
    digits.checked_mul(scale_ns).map(|ns| ns / 1_000_000)
}

/// Parses Flink's memory sizes: `128MB`, `64 kb`, `10 m`; a bare number is bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = split_unit(text.trim())?;
    let scale: i64 = match unit.as_str() {
        "" | "b" | "bytes" => 1,
        "k" | "kb" | "kibibytes" => 1 << 10,
        "m" | "mb" | "mebibytes" => 1 << 20,
        "g" | "gb" | "gibibytes" => 1 << 30,
        "t" | "tb" | "tebibytes" => 1 << 40,
        _ => return None,
    };
    digits.checked_mul(scale).and_then(|b| u64::try_from(b).ok())
}

fn split_unit(text: &str) -> Option<(i64, String)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let digits = text[..end].parse().ok()?;
    Some((digits, text[end..].trim().to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_flink_reads_them() {
        for (text, ms) in [
            ("1 s", 1000),
            ("1s", 1000),
            ("10 min", 600_000),
            ("100ms", 100),
            ("1 d", 86_400_000),
            ("PT1S", 1000),
            ("250", 250),
        ] {
            assert_eq!(parse_duration_ms(text), Some(ms), "{text}");
        }
        assert_eq!(parse_duration_ms("soon"), None);
        assert_eq!(parse_duration_ms("3 moons"), None);
    }

    #[test]
    fn secrets_are_not_shown() {
        for key in
            ["s3.secret-key", "s3.access.key", "s3.access-key", "Properties.SASL.jaas.config", "s3.session.token"]
        {
            assert_eq!(shown(key, "hunter2"), "******", "{key}");
        }
        assert_eq!(shown("s3.endpoint", "http://localhost:9000"), "http://localhost:9000");
    }

    #[test]
    fn sizes_are_read_as_flink_reads_them() {
        assert_eq!(parse_bytes("128MB"), Some(128 << 20));
        assert_eq!(parse_bytes("64 kb"), Some(64 << 10));
        assert_eq!(parse_bytes("7"), Some(7));
        assert_eq!(parse_bytes("7 q"), None);
    }
}
