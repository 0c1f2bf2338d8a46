//! The time in a partition's name: `partition.time-extractor.*`.

use std::path::Path;

use tidegate_api::connector::TableDescriptor;
use tidegate_api::text::days_from_civil;
use tidegate_api::{Error, Result};
use tidegate_window::Zone;

use super::super::partition;
use super::formatter::Formatter;
use crate::option::{OptionReader, invalid_value};

const PATTERN: &str = "partition.time-extractor.timestamp-pattern";
const FORMATTER: &str = "partition.time-extractor.timestamp-formatter";
const ZONE: &str = "sink.partition-commit.watermark-time-zone";
const KIND: &str = "partition.time-extractor.kind";

/// How a partition's name says its time.
#[derive(Clone, Debug)]
pub(super) struct PartitionTime {
    keys: Vec<String>,
    /// `$dt $hour:00:00`; without it the first key's value is the time.
    pattern: Option<String>,
    /// Without it `yyyy-MM-dd HH:mm:ss` and `yyyy-MM-dd`.
    formatter: Option<Formatter>,
    zone: Zone,
}

impl PartitionTime {
    pub(super) fn read(options: &mut OptionReader<'_>, table: &TableDescriptor) -> Result<PartitionTime> {
        let keys = table.partition_keys.iter().filter_map(|key| table.physical.fields.get(*key));
        let keys: Vec<String> = keys.map(|field| field.name.clone()).collect();
        match options.text(KIND).unwrap_or("default") {
            "default" => {}
            "custom" => {
                return Err(Error::unsupported(format!(
                    "Option '{KIND}' = 'custom' is not supported: it names a Java class. Use '{PATTERN}' and \
                     '{FORMATTER}'."
                )));
            }
            other => return Err(invalid_value(KIND, other, "'default'")),
        }
        options.accept(&["partition.time-extractor.class"]);
        let pattern = options.text(PATTERN).map(str::to_owned);
        let formatter = match options.text(FORMATTER) {
            Some(text) => Some(Formatter::compile(text).map_err(|wanted| invalid_value(FORMATTER, text, &wanted))?),
            None => None,
        };
        let zone = options.text(ZONE).unwrap_or("UTC");
        let zone = Zone::parse(zone).map_err(|_| {
            Error::invalid(format!(
                "The supported watermark time zone is either a full name such as 'America/Los_Angeles', or a custom \
                 time zone id such as 'GMT-08:00', but configured time zone is '{zone}'."
            ))
        })?;
        Ok(PartitionTime { keys, pattern, formatter, zone })
    }

    /// The instant that a partition's folder names, milliseconds since the epoch.
    pub(super) fn epoch_ms(&self, directory: &str) -> Result<i64> {
        let text = self.text(directory);
        let local_ms = match &self.formatter {
            Some(formatter) => formatter.parse(&text),
            None => default_time(&text),
        };
        let local_ms = local_ms.ok_or_else(|| {
            let wanted = self.formatter.as_ref().map_or("yyyy-MM-dd HH:mm:ss or yyyy-MM-dd", Formatter::text);
            Error::job(format!(
                "Partition '{}' names no time: '{text}' is not of the form {wanted}. Set '{PATTERN}' and '{FORMATTER}', \
                 or keep such rows out of the table.",
                directory.trim_end_matches('/')
            ))
        })?;
        Ok(self.zone.to_epoch(local_ms))
    }

    fn text(&self, directory: &str) -> String {
        let path = Path::new(directory).join("part");
        let value = |key: &String| partition::value_of(&path, key).unwrap_or_default();
        match &self.pattern {
            None => self.keys.first().map(value).unwrap_or_default(),
            Some(pattern) => {
                let replace = |text: String, key: &String| text.replace(&format!("${key}"), &value(key));
                self.keys.iter().fold(pattern.clone(), replace)
            }
        }
    }
}

/// Flink's default: `y-M-d[ H:m:s[.fraction]]`, where what is too large counts on (month 13 is the next January).
/// Milliseconds of local time.
fn default_time(text: &str) -> Option<i64> {
    let (date, clock) = match text.split_once(' ') {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let (negative, date) = date.strip_prefix('-').map_or((false, date), |rest| (true, rest));
    let mut fields = date.split('-');
    let year = number(fields.next()?, 10)?;
    let (month, day) = (number(fields.next()?, 2)?, number(fields.next()?, 2)?);
    if fields.next().is_some() {
        return None;
    }
    let months = if negative { -year } else { year } * 12 + month - 1;
    let days = days_from_civil(months.div_euclid(12), months.rem_euclid(12) + 1, 1) + day - 1;
    let of_day = clock.map_or(Some(0), default_clock)?;
    days.checked_mul(86_400_000)?.checked_add(of_day)
}

fn default_clock(text: &str) -> Option<i64> {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut fields = clock.split(':');
    let mut next = || number(fields.next()?, 2);
    let (hour, minute, second) = (next()?, next()?, next()?);
    if fields.next().is_some() {
        return None;
    }
    let millis = match fraction {
        None => 0,
        Some(digits) => {
            number(digits, 9)?;
            number(&format!("{digits:0<3}")[..3], 3)?
        }
    };
    Some(((hour * 60 + minute) * 60 + second) * 1000 + millis)
}

/// One to `most` digits.
fn number(text: &str, most: usize) -> Option<i64> {
    let fits = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidegate_api::TypeKind;

    use super::*;
    use crate::testing::{STRING, schema};

    const DAY_MS: i64 = 86_400_000;
    /// 2026-10-01 in UTC.
    const DAY: i64 = 20_727 * DAY_MS;

    fn time(pairs: &[(&str, &str)]) -> Result<PartitionTime> {
        let physical = schema(&[("v", TypeKind::Int), ("dt", STRING), ("hour", STRING)]);
        let options: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let table = TableDescriptor { options, physical, partition_keys: vec![1, 2], ..TableDescriptor::default() };
        PartitionTime::read(&mut OptionReader::new("filesystem", &table), &table)
    }

    #[test]
    fn the_first_key_is_the_time_unless_a_pattern_says_otherwise() {
        let of = |pairs: &[(&str, &str)], directory: &str| {
            time(pairs).expect("options").epoch_ms(directory).map_err(|e| e.to_string())
        };
        assert_eq!(of(&[], "dt=2026-10-01/hour=07/"), Ok(DAY));
        let hours = [(PATTERN, "$dt $hour:00:00")];
        assert_eq!(of(&hours, "dt=2026-10-01/hour=07/"), Ok(DAY + 7 * 3_600_000));
        assert_eq!(of(&hours, "dt=2026-10-01/hour=7/"), Ok(DAY + 7 * 3_600_000));
        let escaped = "dt=2026-10-01 07%3A30%3A00.25/hour=x/";
        assert_eq!(of(&[], escaped), Ok(DAY + 7 * 3_600_000 + 1_800_250));
        let compact = [(PATTERN, "$dt$hour"), (FORMATTER, "yyyyMMddHH")];
        assert_eq!(of(&compact, "dt=20261001/hour=07/"), Ok(DAY + 7 * 3_600_000));
        let zoned = [(PATTERN, "$dt"), (ZONE, "Asia/Shanghai")];
        assert_eq!(of(&zoned, "dt=2026-10-01/hour=07/"), Ok(DAY - 8 * 3_600_000));
        let told = of(&[], "dt=__DEFAULT_PARTITION__/hour=1/").expect_err("no time");
        assert!(told.contains("'dt=__DEFAULT_PARTITION__/hour=1' names no time"), "{told}");
    }

    #[test]
    fn the_default_counts_on_what_is_too_large() {
        let cases = [
            ("2026-10-01", Some(DAY)),
            ("2026-9-31", Some(DAY)),
            ("2025-22-1", Some(DAY)),
            ("2026-09-30 24:00:00", Some(DAY)),
            ("2026-10-01 00:00:00.001", Some(DAY + 1)),
            ("1970-1-1", Some(0)),
            ("2026-10-01 10", None),
            ("2026-10-01T00:00:00", None),
            ("2026-10", None),
            ("2026-10-001", None),
            ("20261001", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(default_time(text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let told = |pairs: &[(&str, &str)]| time(pairs).expect_err("refused").to_string();
        assert!(told(&[(KIND, "custom")]).contains("names a Java class"));
        assert!(told(&[(ZONE, "Moon/Base")]).contains("configured time zone is 'Moon/Base'"));
        assert!(told(&[(FORMATTER, "yyyy-MM")]).contains("'yyyy-MM'"));
    }
}
