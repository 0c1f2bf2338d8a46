//! Calendar units: `EXTRACT`, `FLOOR` and `CEIL` to a unit, `TIMESTAMPADD`, `TIMESTAMPDIFF`.

use tidegate_api::text::{civil_from_days, days_from_civil};

use super::fields::last_day;

/// Milliseconds of a day.
pub(super) const DAY_MS: i64 = 86_400_000;

/// A unit of time, by its SQL name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Epoch,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
}

impl Unit {
    /// The unit called `name`; also the `SQL_TSI_` names.
    pub(super) fn parse(name: &str) -> Option<Unit> {
        let upper = name.to_ascii_uppercase();
        Some(match upper.strip_prefix("SQL_TSI_").unwrap_or(&upper) {
            "NANOSECOND" | "NANOSECONDS" => Unit::Nanosecond,
            "MICROSECOND" | "MICROSECONDS" | "FRAC_SECOND" => Unit::Microsecond,
            "MILLISECOND" | "MILLISECONDS" => Unit::Millisecond,
            "SECOND" | "SECONDS" => Unit::Second,
            "MINUTE" | "MINUTES" => Unit::Minute,
            "HOUR" | "HOURS" => Unit::Hour,
            "DAY" | "DAYS" => Unit::Day,
            "WEEK" | "WEEKS" => Unit::Week,
            "MONTH" | "MONTHS" => Unit::Month,
            "QUARTER" | "QUARTERS" => Unit::Quarter,
            "YEAR" | "YEARS" => Unit::Year,
            "DECADE" => Unit::Decade,
            "CENTURY" => Unit::Century,
            "MILLENNIUM" => Unit::Millennium,
            "EPOCH" => Unit::Epoch,
            "DOW" => Unit::DayOfWeek,
            "ISODOW" => Unit::IsoDayOfWeek,
            "DOY" => Unit::DayOfYear,
            "ISOYEAR" => Unit::IsoYear,
            _ => return None,
        })
    }

    /// Milliseconds, for units of fixed length from the millisecond to the week.
    pub(super) fn millis(self) -> Option<i64> {
        Some(match self {
            Unit::Millisecond => 1,
            Unit::Second => 1000,
            Unit::Minute => 60_000,
            Unit::Hour => 3_600_000,
            Unit::Day => DAY_MS,
            Unit::Week => 7 * DAY_MS,
            _ => return None,
        })
    }

    /// Months, for units made of months.
    pub(super) fn months(self) -> Option<i64> {
        Some(match self {
            Unit::Month => 1,
            Unit::Quarter => 3,
            Unit::Year => 12,
            Unit::Decade => 120,
            Unit::Century => 1200,
            Unit::Millennium => 12_000,
            _ => return None,
        })
    }

    /// True for the parts of a day.
    pub(super) fn is_clock(self) -> bool {
        matches!(
            self,
            Unit::Nanosecond | Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour
        )
    }
}

/// `unit` of a date.
pub(super) fn extract_date(unit: Unit, days: i64) -> i64 {
    let (year, month, day) = civil_from_days(days);
    // Rounds away from zero to a whole number of `size` years, as centuries are counted.
    let counted = |size: i64| if year > 0 { (year + size - 1) / size } else { (year - size + 1) / size };
    match unit {
        Unit::Year => year,
        Unit::IsoYear => iso_week(days).0,
        Unit::Quarter => (month + 2) / 3,
        Unit::Month => month,
        Unit::Week => iso_week(days).1,
        Unit::Day => day,
        Unit::DayOfYear => days - days_from_civil(year, 1, 1) + 1,
        Unit::DayOfWeek => (days + 4).rem_euclid(7) + 1,
        Unit::IsoDayOfWeek => (days + 3).rem_euclid(7) + 1,
        Unit::Decade => year / 10,
        Unit::Century => counted(100),
        Unit::Millennium => counted(1000),
        Unit::Epoch => days * 86_400,
        _ => 0,
    }
}

/// `EXTRACT` of a `DATE`: its clock shows 0.
pub(super) fn extract_date_part(unit: Unit, days: i64) -> i64 {
    if unit.is_clock() { 0 } else { extract_date(unit, days) }
}

/// `unit` of a wall-clock reading. Before 1970 Flink divides towards zero here (the year of
/// 1969-12-31 23:59:58 is 1970), and so does this.
pub(super) fn extract_timestamp(unit: Unit, nanos: i128) -> i64 {
    let millis = nanos.div_euclid(1_000_000) as i64;
    let nano_of_milli = nanos.rem_euclid(1_000_000) as i64;
    match unit {
        Unit::Epoch => millis / 1000,
        Unit::Millisecond => millis % 1000,
        Unit::Microsecond => millis % 1000 * 1000 + nano_of_milli / 1000,
        Unit::Nanosecond => millis % 1000 * 1_000_000 + nano_of_milli,
        _ => match unit.millis().filter(|_| unit.is_clock()) {
            Some(size) => extract_clock(unit, millis % DAY_MS, size),
            None => extract_date(unit, millis / DAY_MS),
        },
    }
}

fn extract_clock(unit: Unit, millis_of_day: i64, size: i64) -> i64 {
    let wrap = if unit == Unit::Hour { 24 } else { 60 };
    millis_of_day / size % wrap
}

/// `unit` of milliseconds of the day.
pub(super) fn extract_time(unit: Unit, millis_of_day: i64) -> i64 {
    match unit {
        Unit::Millisecond => millis_of_day % 1000,
        Unit::Microsecond => millis_of_day % 1000 * 1000,
        Unit::Nanosecond => millis_of_day % 1000 * 1_000_000,
        _ => unit.millis().map_or(0, |size| extract_clock(unit, millis_of_day, size)),
    }
}

/// `unit` of a day-time interval in milliseconds.
pub(super) fn extract_interval(unit: Unit, millis: i64) -> i64 {
    match unit {
        Unit::Day => millis / DAY_MS,
        Unit::Epoch => millis / 1000,
        _ => extract_time(unit, millis % DAY_MS),
    }
}

/// `unit` of a year-month interval in months.
pub(super) fn extract_months(unit: Unit, months: i64) -> i64 {
    match unit {
        Unit::Month => months % 12,
        Unit::Quarter => months % 12 / 3 + 1,
        _ => unit.months().map_or(0, |size| months / size),
    }
}

/// ISO year and week: the week of a year's first Thursday is its week 1.
fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let year = civil_from_days(thursday).0;
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// The start of the `unit` a day lies in; weeks start on Sunday, centuries in the year 1.
pub(super) fn floor_days(unit: Unit, days: i64) -> i64 {
    let (year, month, _) = civil_from_days(days);
    let first = |year: i64| days_from_civil(year, 1, 1);
    match unit {
        Unit::Week => days - (days + 4).rem_euclid(7),
        Unit::Month => days_from_civil(year, month, 1),
        Unit::Quarter => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Unit::Year => first(year),
        Unit::Decade => first(year.div_euclid(10) * 10),
        Unit::Century => first((year - 1).div_euclid(100) * 100 + 1),
        Unit::Millennium => first((year - 1).div_euclid(1000) * 1000 + 1),
        _ => days,
    }
}

/// The start of the next `unit`, or `days` itself if it is a start.
pub(super) fn ceil_days(unit: Unit, days: i64) -> i64 {
    let start = floor_days(unit, days);
    match (start == days, unit) {
        (true, _) => days,
        (false, Unit::Week) => start + 7,
        (false, _) => unit.months().map_or(days, |months| add_months(start, months)),
    }
}

/// `FLOOR` of wall-clock milliseconds.
pub(super) fn floor_millis(unit: Unit, millis: i64) -> i64 {
    match unit.millis().filter(|_| unit != Unit::Week) {
        Some(size) => millis - millis.rem_euclid(size),
        None => floor_days(unit, millis.div_euclid(DAY_MS)) * DAY_MS,
    }
}

/// `CEIL` of wall-clock milliseconds.
pub(super) fn ceil_millis(unit: Unit, millis: i64) -> i64 {
    match unit.millis().filter(|_| unit != Unit::Week) {
        Some(size) => floor_millis(unit, millis + size - 1),
        None => ceil_days(unit, (millis + DAY_MS - 1).div_euclid(DAY_MS)) * DAY_MS,
    }
}

/// A date some months later, clamped to the last day of its month.
pub(super) fn add_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = civil_from_days(days);
    let month0 = year * 12 + month - 1 + months;
    let (year, month) = (month0.div_euclid(12), month0.rem_euclid(12) + 1);
    days_from_civil(year, month, day.min(last_day(year, month)))
}

/// Whole months from `from` to `to`, in wall-clock milliseconds.
pub(super) fn months_between(from: i64, to: i64) -> i64 {
    let (from_day, to_day) = (from.div_euclid(DAY_MS), to.div_euclid(DAY_MS));
    let months = months_between_days(from_day, to_day);
    // Flink gives the last month back only forwards: the time of day must have been reached.
    let same_day = add_months(from_day, months) == to_day;
    months - i64::from(same_day && to.rem_euclid(DAY_MS) < from.rem_euclid(DAY_MS))
}

fn months_between_days(from: i64, to: i64) -> i64 {
    if to < from {
        return -months_between_days(to, from);
    }
    // No month has more than 31 days, so this is never too much.
    let mut months = (to - from) / 31;
    loop {
        if add_months(from, months) >= to || add_months(from, months + 1) > to {
            return months;
        }
        months += 1;
    }
}

/// `TIMESTAMPDIFF` of wall-clock milliseconds, before Flink narrows it. Units below a second count
/// whole seconds.
pub(super) fn difference(unit: Unit, from: i64, to: i64) -> Option<i64> {
    let seconds = to.wrapping_sub(from) / 1000;
    match unit {
        Unit::Nanosecond => Some(seconds.wrapping_mul(1_000_000_000)),
        Unit::Microsecond => Some(seconds.wrapping_mul(1_000_000)),
        Unit::Millisecond => Some(seconds.wrapping_mul(1000)),
        _ => match (unit.millis(), unit.months()) {
            (Some(size), _) => Some(to.wrapping_sub(from) / size),
            (None, Some(size)) => Some(months_between(from, to) / size),
            (None, None) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::text::{format_timestamp_iso, parse_date, parse_timestamp};

    fn ms(text: &str) -> i64 {
        (parse_timestamp(text, ' ').expect(text) / 1_000_000) as i64
    }

    #[test]
    fn extracts_as_flink_does() {
        let at = |unit, text| extract_timestamp(unit, parse_timestamp(text, ' ').expect(text));
        for (unit, text, expected) in [
            (Unit::Epoch, "2031-08-10 10:11:12", 1_944_123_072),
            (Unit::IsoDayOfWeek, "2031-08-10 10:11:12", 7),
            (Unit::IsoYear, "2027-01-01", 2026),
            (Unit::Week, "2027-01-01", 53),
            (Unit::DayOfWeek, "2027-01-01", 6),
            (Unit::Decade, "2000-12-31 23:59:59", 200),
            (Unit::Century, "2000-12-31 23:59:59", 20),
            (Unit::Century, "2027-01-01", 21),
            (Unit::Millennium, "2000-04-01", 2),
            (Unit::DayOfYear, "2000-12-31 23:59:59", 366),
            (Unit::Year, "1969-12-31 23:59:58.123456", 1970),
            (Unit::Second, "1969-12-31 23:59:58.123456", -1),
            (Unit::Millisecond, "1969-12-31 23:59:58.123456", -877),
            (Unit::Microsecond, "1969-12-31 23:59:58.123456", -876_544),
            (Unit::Nanosecond, "1969-12-31 23:59:58.123456", -876_544_000),
            (Unit::Epoch, "1969-12-31 23:59:58.123456", -1),
            (Unit::Hour, "1969-12-31 23:59:58.123456", 0),
        ] {
            assert_eq!(at(unit, text), expected, "{unit:?} {text}");
        }
    }

    #[test]
    fn floors_and_ceils() {
        for (unit, floor, ceil) in [
            (Unit::Week, "2027-05-02T00:00", "2027-05-09T00:00"),
            (Unit::Quarter, "2027-04-01T00:00", "2027-07-01T00:00"),
            (Unit::Month, "2027-05-01T00:00", "2027-06-01T00:00"),
            (Unit::Year, "2027-01-01T00:00", "2028-01-01T00:00"),
            (Unit::Decade, "2020-01-01T00:00", "2030-01-01T00:00"),
            (Unit::Century, "2001-01-01T00:00", "2101-01-01T00:00"),
            (Unit::Hour, "2027-05-06T10:00", "2027-05-06T11:00"),
            (Unit::Second, "2027-05-06T10:11:12", "2027-05-06T10:11:13"),
        ] {
            let at = ms("2027-05-06 10:11:12.345");
            let iso = |ms: i64| format_timestamp_iso(i128::from(ms) * 1_000_000);
            assert_eq!((iso(floor_millis(unit, at)).as_str(), iso(ceil_millis(unit, at)).as_str()), (floor, ceil));
        }
        assert_eq!(ceil_millis(Unit::Week, ms("2027-05-09")), ms("2027-05-09"));
        assert_eq!(floor_millis(Unit::Day, ms("1927-05-06 10:11:12.345")), ms("1927-05-06"));
    }

    #[test]
    fn months_clamp_and_count_whole() {
        let day = |text| i64::from(parse_date(text).expect(text));
        assert_eq!(add_months(day("2031-01-31"), 1), day("2031-02-28"));
        assert_eq!(add_months(day("2028-02-29"), -3), day("2027-11-29"));
        for (unit, from, to, expected) in [
            (Unit::Month, "2031-01-31 10:00:00", "2031-02-28 10:00:00", 1),
            (Unit::Month, "2031-01-31 10:00:00", "2031-03-31 09:00:00", 1),
            (Unit::Month, "2031-03-31 10:00:00", "2031-01-31 11:00:00", -2),
            (Unit::Year, "2031-03-31", "2030-03-31", -1),
            (Unit::Quarter, "2031-03-31", "2032-03-31", 4),
            (Unit::Week, "2031-03-31", "2032-03-31", 52),
            (Unit::Hour, "2031-01-31 10:00:00", "2031-01-31 08:01:00", -1),
            (Unit::Second, "2031-01-31 10:00:00.500", "2031-01-31 10:00:02.499", 1),
            (Unit::Millisecond, "2031-01-31 10:00:00", "2031-01-31 10:00:02.499", 2000),
            (Unit::Day, "2028-02-29", "2031-03-01", 1096),
        ] {
            assert_eq!(difference(unit, ms(from), ms(to)), Some(expected), "{unit:?} {from} {to}");
        }
    }
}
