//! Fields of a wall-clock reading: what formatting writes and what parsing collects.

use tidegate_api::text::{DateTime, civil_from_days, days_from_civil};

use super::pattern::Field;

/// A wall-clock reading ready to be written: its parts and what follows from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub at: DateTime,
    /// Days since the epoch.
    pub days: i64,
    /// Offset of the zone in seconds; patterns of plain timestamps cannot ask for it.
    pub offset: i32,
}

impl Reading {
    /// The reading of nanoseconds since the epoch of wall-clock time.
    pub(super) fn new(nanos: i128, offset: i32) -> Reading {
        let at = DateTime::from_nanos(nanos);
        Reading { at, days: days_from_civil(at.year, at.month, at.day), offset }
    }

    /// From Monday = 1.
    pub(super) fn iso_day_of_week(&self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }

    /// From 1 January = 1.
    pub(super) fn day_of_year(&self) -> i64 {
        self.days - days_from_civil(self.at.year, 1, 1) + 1
    }

    /// The value of `field`.
    pub(super) fn get(&self, field: Field) -> i64 {
        let t = &self.at;
        let year_of_era = if t.year > 0 { t.year } else { 1 - t.year };
        let millis = t.nano / 1_000_000;
        match field {
            Field::Era => i64::from(t.year > 0),
            Field::Year => t.year,
            Field::YearOfEra => year_of_era,
            Field::ShortYear => year_of_era.rem_euclid(100),
            Field::WeekYear => self.week().0,
            Field::ShortWeekYear => self.week().0.rem_euclid(100),
            Field::Quarter => (t.month + 2) / 3,
            Field::Month => t.month,
            Field::WeekOfYear => self.week().1,
            Field::WeekOfMonth => week_number(self.days, t.day),
            Field::DayOfYear => self.day_of_year(),
            Field::Day => t.day,
            Field::DayOfWeekInMonth => (t.day - 1) / 7 + 1,
            Field::AlignedDayOfWeek => (t.day - 1) % 7 + 1,
            Field::LocalDayOfWeek => self.iso_day_of_week() % 7 + 1,
            Field::IsoDayOfWeek => self.iso_day_of_week(),
            Field::AmPm => i64::from(t.hour >= 12),
            Field::Hour => t.hour,
            Field::ClockHour => (t.hour + 23) % 24 + 1,
            Field::HourOfAmPm => t.hour % 12,
            Field::ClockHourOfAmPm => (t.hour + 11) % 12 + 1,
            Field::Minute => t.minute,
            Field::Second => t.second,
            Field::Milli => millis,
            Field::MilliOfDay => seconds_of_day(t) * 1000 + millis,
            Field::Nano => t.nano,
            Field::NanoOfDay => seconds_of_day(t) * 1_000_000_000 + t.nano,
        }
    }

    /// Week-based year and week of the US calendar: weeks start on Sunday, and the week of
    /// 1 January is week 1.
    fn week(&self) -> (i64, i64) {
        let next_new_year = days_from_civil(self.at.year + 1, 1, 1);
        let sunday = self.days - self.iso_day_of_week() % 7;
        if sunday + 6 >= next_new_year {
            return (self.at.year + 1, 1);
        }
        (self.at.year, week_number(self.days, self.day_of_year()))
    }
}

fn seconds_of_day(t: &DateTime) -> i64 {
    t.hour * 3600 + t.minute * 60 + t.second
}

/// Number of the Sunday-based week of a day that is the `nth` (from 1) of its month or year.
fn week_number(days: i64, nth: i64) -> i64 {
    let first = days - (nth - 1);
    let first_day_of_week = (first + 4).rem_euclid(7);
    (first_day_of_week + nth - 1) / 7 + 1
}

/// What a parse has read so far; the last value of a field counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    values: Vec<(Field, i64)>,
    /// Offset in seconds, if an offset or zone was read.
    pub offset: Option<i32>,
    /// Zone name, if one was read.
    pub zone: Option<String>,
}

impl Parsed {
    /// Keeps a value; a formatter refuses two different ones of a field (`strict`).
    pub(super) fn set(&mut self, field: Field, value: i64, strict: bool) -> bool {
        match self.values.iter_mut().find(|(f, _)| *f == field) {
            Some((_, old)) if strict => *old == value,
            Some((_, old)) => {
                *old = value;
                true
            }
            None => {
                self.values.push((field, value));
                true
            }
        }
    }

    pub(super) fn get(&self, field: Field) -> Option<i64> {
        self.values.iter().find(|(f, _)| *f == field).map(|(_, v)| *v)
    }

    fn within(&self, field: Field, least: i64, most: i64) -> Option<Option<i64>> {
        match self.get(field) {
            Some(v) if v < least || v > most => None,
            value => Some(value),
        }
    }

    /// Nanoseconds of wall-clock time as `DateTimeFormatter` resolves them (smart style: a day up
    /// to 31 is moved back into its month, `24:00` is the next day), with Flink's completion: year
    /// 1970, month 1, day 1, and a time of 0 for what is missing.
    pub(super) fn resolve(&self) -> Option<i128> {
        let (days, read_whole_date) = self.resolve_date()?;
        if let Some(day_of_week) = self.get(Field::IsoDayOfWeek).or(self.iso_of_local())
            && read_whole_date
            && (days + 3).rem_euclid(7) + 1 != day_of_week
        {
            return None;
        }
        Some(i128::from(days) * 86_400_000_000_000 + i128::from(self.resolve_time()?))
    }

    fn iso_of_local(&self) -> Option<i64> {
        self.get(Field::LocalDayOfWeek).map(|d| (d + 5) % 7 + 1)
    }

    fn resolve_year(&self) -> Option<Option<i64>> {
        let era = self.within(Field::Era, 0, 1)?;
        let of_era = self.within(Field::YearOfEra, 1, 999_999_999)?.or(self.get(Field::ShortYear));
        let of_era = of_era.map(|y| if era == Some(0) { 1 - y } else { y });
        match (self.get(Field::Year), of_era) {
            (Some(a), Some(b)) if a != b => None,
            (year, of_era) => Some(year.or(of_era)),
        }
    }

    fn resolve_date(&self) -> Option<(i64, bool)> {
        let year = self.resolve_year()?;
        let month = self.within(Field::Month, 1, 12)?;
        let day = self.within(Field::Day, 1, 31)?;
        self.within(Field::IsoDayOfWeek, 1, 7)?;
        self.within(Field::LocalDayOfWeek, 1, 7)?;
        self.within(Field::Quarter, 1, 4)?;
        if let (Some(y), Some(n)) = (year, self.within(Field::DayOfYear, 1, 366)?)
            && (month.is_none() || day.is_none())
        {
            let days = days_from_civil(y, 1, 1) + n - 1;
            return (civil_from_days(days).0 == y).then_some((days, true));
        }
        let whole = year.is_some() && month.is_some() && day.is_some();
        let (y, m, d) = (year.unwrap_or(1970), month.unwrap_or(1), day.unwrap_or(1));
        let last = last_day(y, m);
        match (d > last, whole) {
            (true, true) => Some((days_from_civil(y, m, last), true)),
            (true, false) => None,
            (false, _) => Some((days_from_civil(y, m, d), whole)),
        }
    }

    /// Nanoseconds of the day; a whole day for `24:00`.
    fn resolve_time(&self) -> Option<i64> {
        let am_pm = self.within(Field::AmPm, 0, 1)?;
        let clock = self.within(Field::ClockHour, 1, 24)?.map(|h| h % 24);
        let of_half = self.within(Field::ClockHourOfAmPm, 1, 12)?.map(|h| h % 12);
        let of_half = of_half.or(self.within(Field::HourOfAmPm, 0, 11)?);
        let hour = self.within(Field::Hour, 0, 24)?.or(clock).or(match (am_pm, of_half) {
            (Some(half), Some(hour)) => Some(half * 12 + hour),
            _ => None,
        });
        let minute = self.within(Field::Minute, 0, 59)?.unwrap_or(0);
        let second = self.within(Field::Second, 0, 59)?.unwrap_or(0);
        let nano = self.within(Field::Nano, 0, 999_999_999)?.unwrap_or(0);
        if let Some(nanos) = self.within(Field::NanoOfDay, 0, 86_399_999_999_999)? {
            return Some(nanos);
        }
        if let Some(millis) = self.within(Field::MilliOfDay, 0, 86_399_999)? {
            return Some(millis * 1_000_000);
        }
        let hour = hour.unwrap_or(0);
        if hour == 24 && (minute, second, nano) != (0, 0, 0) {
            return None;
        }
        Some(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nano)
    }

    /// Milliseconds of wall-clock time as a lenient Java calendar computes them: nothing is out of
    /// range, the 31st of April is the 1st of May.
    pub(super) fn resolve_lenient(&self) -> i64 {
        let year = self.get(Field::YearOfEra).or(self.get(Field::ShortYear)).unwrap_or(1970);
        let year = if self.get(Field::Era) == Some(0) { 1 - year } else { year };
        let month0 = self.get(Field::Month).unwrap_or(1) - 1;
        let (year, month) = (year + month0.div_euclid(12), month0.rem_euclid(12) + 1);
        let days = match (self.get(Field::Day), self.get(Field::DayOfYear)) {
            (None, Some(n)) => days_from_civil(year, 1, 1) + n - 1,
            (day, _) => days_from_civil(year, month, 1) + day.unwrap_or(1) - 1,
        };
        let half = self.get(Field::AmPm).unwrap_or(0) * 12;
        let clock_half = self.get(Field::ClockHourOfAmPm).map(|h| if h == 12 { 0 } else { h });
        let clock = self.get(Field::ClockHour).map(|h| if h == 24 { 0 } else { h });
        let of_half = self.get(Field::HourOfAmPm).or(clock_half).map(|h| h + half);
        let hour = self.get(Field::Hour).or(clock).or(of_half).unwrap_or(half);
        let minutes = hour * 60 + self.get(Field::Minute).unwrap_or(0);
        let seconds = minutes * 60 + self.get(Field::Second).unwrap_or(0);
        (days * 86_400 + seconds) * 1000 + self.get(Field::Milli).unwrap_or(0)
    }
}

/// Last day of a month.
pub(super) fn last_day(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_civil(next_year, next_month, 1) - days_from_civil(year, month, 1)
}
