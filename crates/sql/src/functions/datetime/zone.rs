//! Time zones by the names Java knows, and wall-clock time in them.

use jiff::Timestamp;
use jiff::civil;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// Java's three-letter names that the time zone database lacks or that mean something else there.
const SHORT_NAMES: [(&str, &str); 28] = [
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
    ("EST", "-05:00"),
    ("MST", "-07:00"),
    ("HST", "-10:00"),
];

/// A zone by IANA name, Java short name or offset (`+08:00`, `GMT+8`, `UTC-03:30`, `Z`).
pub(crate) fn parse(name: &str) -> Option<TimeZone> {
    if let Some((_, full)) = SHORT_NAMES.iter().find(|(short, _)| *short == name) {
        return parse(full);
    }
    if matches!(name, "Z" | "UTC" | "GMT" | "UT") {
        return Some(TimeZone::UTC);
    }
    if let Some(zone) = offset(name) {
        return Some(TimeZone::fixed(zone));
    }
    let prefixed = ["GMT", "UTC", "UT"].iter().find_map(|p| name.strip_prefix(p));
    if let Some(zone) = prefixed.and_then(offset) {
        return Some(TimeZone::fixed(zone));
    }
    let database_name = name.contains('/') || name.chars().next().is_some_and(|c| c.is_ascii_uppercase());
    if database_name { TimeZone::get(name).ok() } else { None }
}

/// The session's zone; planning has checked that it exists.
pub(crate) fn session(name: &str) -> Result<TimeZone, String> {
    parse(name).ok_or_else(|| format!("Unknown time-zone ID: {name}"))
}

/// `TimeZone.getTimeZone(name)`: GMT for what it does not know, a bare offset among it.
pub(super) fn lenient(name: &str) -> TimeZone {
    if name.starts_with(['+', '-']) { TimeZone::UTC } else { parse(name).unwrap_or(TimeZone::UTC) }
}

fn offset(text: &str) -> Option<Offset> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    if digits.len() > 6 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let parts: Vec<i32> = match digits.len() {
        1 | 2 => vec![digits.parse().ok()?],
        4 | 6 => (0..digits.len()).step_by(2).filter_map(|i| digits[i..i + 2].parse().ok()).collect(),
        _ => return None,
    };
    let seconds = parts.iter().zip([3600, 60, 1]).map(|(p, unit)| p * unit).sum::<i32>();
    (seconds <= 18 * 3600).then(|| Offset::from_seconds(sign * seconds).ok()).flatten()
}

/// Offset of `zone` in seconds at an instant in milliseconds.
pub(crate) fn offset_at(zone: &TimeZone, millis: i64) -> i32 {
    match zone.to_fixed_offset() {
        Ok(fixed) => fixed.seconds(),
        Err(_) => zone.to_offset(clamp(millis)).seconds(),
    }
}

fn clamp(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// Which offset counts where the wall clock shows a time twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// The one before the change (`java.time`).
    Earlier,
    /// The one after it (`java.util.Calendar`).
    Later,
}

/// The offset in seconds at a wall-clock reading in milliseconds. In a gap it is the one before the
/// change, so that the reading moves on by the length of the gap.
pub(crate) fn offset_of_local(zone: &TimeZone, local_millis: i64, overlap: Overlap) -> i32 {
    if let Ok(fixed) = zone.to_fixed_offset() {
        return fixed.seconds();
    }
    let Some(local) = civil_of(local_millis) else {
        return offset_at(zone, local_millis);
    };
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
        AmbiguousOffset::Gap { before, .. } => before.seconds(),
        AmbiguousOffset::Fold { before, after } => match overlap {
            Overlap::Earlier => before.seconds(),
            Overlap::Later => after.seconds(),
        },
    }
}

fn civil_of(local_millis: i64) -> Option<civil::DateTime> {
    let local = Timestamp::from_millisecond(local_millis).ok()?;
    Some(TimeZone::UTC.to_datetime(local))
}

/// Wall-clock nanoseconds of an instant.
pub(crate) fn to_local(zone: &TimeZone, nanos: i128) -> i128 {
    let millis = nanos.div_euclid(1_000_000) as i64;
    nanos + i128::from(offset_at(zone, millis)) * 1_000_000_000
}

/// The instant of wall-clock nanoseconds.
pub(crate) fn to_instant(zone: &TimeZone, local_nanos: i128, overlap: Overlap) -> i128 {
    let millis = local_nanos.div_euclid(1_000_000) as i64;
    local_nanos - i128::from(offset_of_local(zone, millis, overlap)) * 1_000_000_000
}

/// The short name Java's `z` writes: `UTC`, `CET`, `PST`.
pub(super) fn display_name(zone: &TimeZone, id: &str, millis: i64) -> String {
    if id == "UTC" || id == "Z" {
        return "UTC".into();
    }
    match zone.to_fixed_offset() {
        Ok(offset) if offset.is_zero() => "GMT".into(),
        Ok(offset) => {
            let minutes = offset.seconds() / 60;
            let sign = if minutes < 0 { '-' } else { '+' };
            format!("GMT{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
        }
        Err(_) => zone.to_offset_info(clamp(millis)).abbreviation().to_string(),
    }
}
