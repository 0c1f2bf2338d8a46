//! Dates and times as Flink prints and reads them.

/// Days since the epoch of a proleptic Gregorian date.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y - era * 400;
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of days since the epoch.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// A wall-clock reading, split into its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// Year, may be below 1.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 59.
    pub second: i64,
    /// 0 to 999,999,999.
    pub nano: i64,
}

impl DateTime {
    /// The parts of nanoseconds since the epoch.
    pub fn from_nanos(nanos: i128) -> DateTime {
        let seconds = nanos.div_euclid(1_000_000_000) as i64;
        let nano = nanos.rem_euclid(1_000_000_000) as i64;
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        DateTime { year, month, day, hour: of_day / 3600, minute: of_day / 60 % 60, second: of_day % 60, nano }
    }

    /// The parts of milliseconds since the epoch.
    pub fn from_millis(millis: i64) -> DateTime {
        DateTime::from_nanos(i128::from(millis) * 1_000_000)
    }

    /// Nanoseconds since the epoch.
    pub fn to_nanos(self) -> i128 {
        let days = days_from_civil(self.year, self.month, self.day);
        let seconds = days * 86_400 + self.hour * 3600 + self.minute * 60 + self.second;
        i128::from(seconds) * 1_000_000_000 + i128::from(self.nano)
    }
}

/// `2026-10-01`.
pub fn format_date(days: i32) -> String {
    let (y, m, d) = civil_from_days(i64::from(days));
    if (0..=9999).contains(&y) { format!("{y:04}-{m:02}-{d:02}") } else { format!("{y:+05}-{m:02}-{d:02}") }
}

/// `LocalTime.toString` of milliseconds of the day: `10:00`, `10:00:01`, `10:00:01.500`.
pub fn format_time_iso(ms_of_day: i32) -> String {
    let ms = i64::from(ms_of_day);
    iso_clock(ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000 * 1_000_000)
}

/// `10:00:01` with `precision` digits of fraction.
pub fn format_time_sql(ms_of_day: i32, precision: u8) -> String {
    let ms = i64::from(ms_of_day);
    let clock = format!("{:02}:{:02}:{:02}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    clock + &fraction(ms % 1000 * 1_000_000, precision)
}

/// `LocalDateTime.toString`, as the print connector shows timestamps: seconds dropped when zero,
/// the fraction in groups of three digits: `2026-10-01T10:00`, `2026-10-01T10:00:00.100`.
pub fn format_timestamp_iso(nanos: i128) -> String {
    let t = DateTime::from_nanos(nanos);
    let date = format_date(days_from_civil(t.year, t.month, t.day) as i32);
    format!("{date}T{}", iso_clock(t.hour, t.minute, t.second, t.nano))
}

/// `2026-10-01 10:00:00.000` with exactly `precision` digits of fraction.
pub fn format_timestamp_sql(nanos: i128, precision: u8) -> String {
    let t = DateTime::from_nanos(nanos);
    let date = format_date(days_from_civil(t.year, t.month, t.day) as i32);
    format!("{date} {:02}:{:02}:{:02}{}", t.hour, t.minute, t.second, fraction(t.nano, precision))
}

fn fraction(nano: i64, precision: u8) -> String {
    if precision == 0 { String::new() } else { format!(".{}", &format!("{nano:09}")[..usize::from(precision.min(9))]) }
}

fn iso_clock(hour: i64, minute: i64, second: i64, nano: i64) -> String {
    let mut text = format!("{hour:02}:{minute:02}");
    if second > 0 || nano > 0 {
        text += &format!(":{second:02}");
    }
    if nano > 0 {
        let digits = match nano {
            n if n % 1_000_000 == 0 => 3,
            n if n % 1000 == 0 => 6,
            _ => 9,
        };
        text += &format!(".{}", &format!("{nano:09}")[..digits]);
    }
    text
}

/// Reads `yyyy-M-d` and checks that the day exists; `None` if it does not.
pub fn parse_date(text: &str) -> Option<i32> {
    let (y, m, d) = date_parts(text)?;
    let days = days_from_civil(y, m, d);
    (civil_from_days(days) == (y, m, d)).then_some(days as i32)
}

fn date_parts(text: &str) -> Option<(i64, i64, i64)> {
    let mut parts = text.splitn(3, '-');
    let (y, m, d) = (number(parts.next()?, 1, 4)?, number(parts.next()?, 1, 2)?, number(parts.next()?, 1, 2)?);
    ((1..=12).contains(&m) && (1..=31).contains(&d)).then_some((y, m, d))
}

fn number(text: &str, min: usize, max: usize) -> Option<i64> {
    let fits = (min..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// Reads `HH:mm[:ss[.fraction]]` into milliseconds of the day.
pub fn parse_time_ms(text: &str) -> Option<i32> {
    let (h, m, s, nano) = clock_parts(text)?;
    Some((((h * 60 + m) * 60 + s) * 1000 + nano / 1_000_000) as i32)
}

fn clock_parts(text: &str) -> Option<(i64, i64, i64, i64)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.splitn(3, ':');
    let h = number(parts.next()?, 1, 2)?;
    let m = number(parts.next()?, 1, 2)?;
    let s = parts.next().map_or(Some(0), |s| number(s, 1, 2))?;
    let nano = if fraction.is_empty() {
        if text.ends_with('.') {
            return None;
        }
        0
    } else {
        let kept = &fraction[..fraction.len().min(9)];
        if !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        format!("{kept:0<9}").parse().ok()?
    };
    (h < 24 && m < 60 && s < 60).then_some((h, m, s, nano))
}

/// Reads `yyyy-MM-dd[<separator>HH:mm:ss[.fraction]]` into nanoseconds since the epoch. A day the
/// month does not have is refused. Digits after the ninth of a fraction are dropped.
pub fn parse_timestamp(text: &str, separator: char) -> Option<i128> {
    let (date, clock) = match text.split_once(separator) {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let days = parse_date(date)?;
    let (h, m, s, nano) = clock.map_or(Some((0, 0, 0, 0)), clock_parts)?;
    let seconds = i128::from(days) * 86_400 + i128::from((h * 60 + m) * 60 + s);
    Some(seconds * 1_000_000_000 + i128::from(nano))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_form_drops_zero_parts() {
        let at = |text| format_timestamp_iso(parse_timestamp(text, ' ').expect(text));
        assert_eq!(at("2026-10-01 10:00:00"), "2026-10-01T10:00");
        assert_eq!(at("2026-10-01 10:00:00.1"), "2026-10-01T10:00:00.100");
        assert_eq!(at("2026-10-01 10:00:10"), "2026-10-01T10:00:10");
        assert_eq!(at("0001-01-01 00:00:01.000001"), "0001-01-01T00:00:01.000001");
        assert_eq!(at("9999-12-31 23:59:59.999999999"), "9999-12-31T23:59:59.999999999");
        assert_eq!(at("1754-08-30"), "1754-08-30T00:00");
    }

    #[test]
    fn before_1970_floors() {
        assert_eq!(DateTime::from_millis(-1).nano, 999_000_000);
        assert_eq!(format_timestamp_sql(-6_795_364_578_871_000_000, 6), "1754-08-30 22:43:41.129000");
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        assert_eq!(parse_date("2031-02-29"), None);
        assert_eq!(parse_date("2031-1-5"), parse_date("2031-01-05"));
        assert_eq!(parse_timestamp("2026-10-01T10:00:00", ' '), None);
        assert_eq!(parse_timestamp("soon", ' '), None);
    }

    #[test]
    fn civil_days_round_trip() {
        for days in [-719_528, -1, 0, 1, 59, 60, 11_016, 2_932_896] {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, m, d), days);
        }
    }
}
