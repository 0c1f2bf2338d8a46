//! Time zones: between instants and the local grid that `TIMESTAMP_LTZ` windows lie on.
//!
//! A window over `TIMESTAMP_LTZ` is an interval of *local* time ("the day of 29 March in Berlin"), so
//! its length in real hours depends on the date. Rows are moved onto the local grid, the arithmetic of
//! windows happens there, and only a window's fire time and its `window_time` are moved back. Moving
//! back is where daylight saving bites: a local time may happen twice, or never.

use jiff::Timestamp as Instant;
use jiff::tz::{Offset, TimeZone};
use tidegate_time::Timestamp;

const HOUR_MS: i64 = 3_600_000;

/// A session time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(Rule);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// Milliseconds east of UTC.
    Fixed(i64),
    Named(TimeZone),
}

/// A stretch of instants with one UTC offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetSpan {
    from: Timestamp,
    until: Timestamp,
    offset: i64,
}

impl Zone {
    /// UTC: local time and epoch time are the same.
    pub const UTC: Zone = Zone(Rule::Fixed(0));

    /// Reads what `table.local-time-zone` takes: an IANA name, or an offset (`Z`, `+08:00`, `-5`,
    /// `+0530`, `UTC+1`, `GMT+08:00`). The error is a sentence about the text.
    pub fn parse(text: &str) -> Result<Zone, String> {
        let offset_text = ["UTC", "GMT", "UT"].iter().find_map(|p| text.strip_prefix(p)).unwrap_or(text);
        if matches!(offset_text, "" | "Z") && !text.is_empty() {
            return Ok(Zone::UTC);
        }
        if let Some(offset) = parse_offset(offset_text) {
            return Ok(Zone(Rule::Fixed(offset)));
        }
        match TimeZone::get(text) {
            Ok(zone) => Ok(Zone(Rule::Named(zone))),
            Err(_) => Err(format!(
                "'{text}' is not a time zone; use an IANA name like 'Europe/Berlin' or 'UTC', or an offset like 'GMT+08:00'"
            )),
        }
    }

    /// True if local time is epoch time.
    pub fn is_utc(&self) -> bool {
        self.0 == Rule::Fixed(0)
    }

    /// The local time of an instant.
    pub fn to_local(&self, epoch_ms: Timestamp) -> Timestamp {
        epoch_ms.saturating_add(self.span_at(epoch_ms).offset)
    }

    fn span_at(&self, epoch_ms: Timestamp) -> OffsetSpan {
        let everything = |offset| OffsetSpan { from: i64::MIN, until: i64::MAX, offset };
        match &self.0 {
            Rule::Fixed(offset) => everything(*offset),
            Rule::Named(zone) => {
                let at = instant(epoch_ms);
                let offset = i64::from(zone.to_offset(at).seconds()) * 1_000;
                // One nanosecond later, so that a transition at this very instant counts as past.
                let next = at.checked_add(jiff::SignedDuration::from_nanos(1)).unwrap_or(at);
                OffsetSpan {
                    from: zone.preceding(next).next().map_or(i64::MIN, |t| t.timestamp().as_millisecond()),
                    until: zone.following(at).next().map_or(i64::MAX, |t| t.timestamp().as_millisecond()),
                    offset,
                }
            }
        }
    }

    /// The instant of a local time, by Java's rule: a time that happens twice is its first happening, a
    /// time that is skipped moves later by the length of the gap. This is what `window_time` shows.
    pub fn to_epoch(&self, local_ms: Timestamp) -> Timestamp {
        match &self.0 {
            Rule::Fixed(offset) => local_ms.saturating_sub(*offset),
            Rule::Named(zone) => {
                let local = Instant::from_millisecond(local_ms).ok().map(|at| Offset::UTC.to_datetime(at));
                match local.and_then(|civil| zone.to_ambiguous_timestamp(civil).compatible().ok()) {
                    Some(at) => at.as_millisecond(),
                    // Beyond the calendar the offset at its end goes on for ever.
                    None => local_ms.saturating_sub(self.span_at(local_ms).offset),
                }
            }
        }
    }

    /// The instant at which a timer for this local time goes off: a time that happens twice is its
    /// second happening (a window must hold both), a skipped one is the moment of the jump.
    ///
    /// Flink's `TimeWindowUtil.toEpochMillsForTimer`.
    pub fn timer_epoch(&self, local_ms: Timestamp) -> Timestamp {
        if let Rule::Fixed(offset) = self.0 {
            return local_ms.saturating_sub(offset);
        }
        let t1 = self.to_epoch(local_ms);
        let t2 = self.to_epoch(local_ms.saturating_add(HOUR_MS));
        if t2 - t1 > HOUR_MS {
            t2 - HOUR_MS
        } else if t1 == t2 {
            t1 - t1.rem_euclid(HOUR_MS)
        } else {
            t1
        }
    }
}

/// A zone that remembers the stretch of constant offset it was last asked about; for loops over rows.
#[derive(Clone, Debug)]
pub struct LocalClock {
    zone: Zone,
    span: OffsetSpan,
}

impl LocalClock {
    /// A clock of this zone.
    pub fn new(zone: Zone) -> Self {
        let span = zone.span_at(0);
        LocalClock { zone, span }
    }

    /// The local time of an instant.
    #[inline]
    pub fn to_local(&mut self, epoch_ms: Timestamp) -> Timestamp {
        if epoch_ms < self.span.from || epoch_ms >= self.span.until {
            self.span = self.zone.span_at(epoch_ms);
        }
        epoch_ms.saturating_add(self.span.offset)
    }
}

/// Clamped to the years jiff knows (-9999 to 9999): zone rules say nothing beyond them.
fn instant(epoch_ms: Timestamp) -> Instant {
    Instant::from_millisecond(epoch_ms).unwrap_or(if epoch_ms < 0 { Instant::MIN } else { Instant::MAX })
}

/// `+8`, `+08`, `+08:00`, `+0800`, `+08:00:00`: milliseconds east of UTC, at most 18 hours as in Java.
fn parse_offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let two =
        |s: &str| (s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse::<i64>().ok()).flatten();
    let parts: Vec<i64> = match digits.len() {
        1 => vec![digits.parse::<u8>().ok()?.into()],
        2 => vec![two(digits)?],
        4 | 6 if !digits.contains(':') => {
            digits.as_bytes().chunks(2).map(|c| two(std::str::from_utf8(c).ok()?)).collect::<Option<_>>()?
        }
        5 | 8 => digits.split(':').map(two).collect::<Option<_>>()?,
        _ => return None,
    };
    let (h, m, s) = (parts[0], parts.get(1).copied().unwrap_or(0), parts.get(2).copied().unwrap_or(0));
    let seconds = h * 3_600 + m * 60 + s;
    (m < 60 && s < 60 && seconds <= 18 * 3_600).then_some(sign * seconds * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (text, hours) in
            [("UTC", 0), ("Z", 0), ("GMT", 0), ("+08:00", 8), ("GMT+08:00", 8), ("UTC-5", -5), ("-0500", -5)]
        {
            assert_eq!(Zone::parse(text), Ok(Zone(Rule::Fixed(hours * HOUR_MS))), "{text}");
        }
        assert!(Zone::parse("Europe/Berlin").is_ok());
        for bad in ["", "Mars/Olympus", "+25:00", "+1:2", "+", "GMT+ab"] {
            assert!(Zone::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_skipped_and_a_doubled_hour() {
        let la = Zone::parse("America/Los_Angeles").unwrap();
        // 2021-03-14 02:30 does not exist: 02:00 PST = 10:00Z is the jump.
        let skipped = 1_615_689_000_000; // 02:30 written as if UTC
        assert_eq!(la.timer_epoch(skipped), 1_615_716_000_000);
        assert_eq!(la.to_epoch(skipped), 1_615_716_000_000 + 30 * 60_000);
        // 2021-11-07 01:30 happens twice: 08:30Z and 09:30Z.
        let doubled = 1_636_248_600_000;
        assert_eq!(la.to_epoch(doubled), 1_636_273_800_000);
        assert_eq!(la.timer_epoch(doubled), 1_636_277_400_000);
    }

    #[test]
    fn times_beyond_the_calendar_still_advance() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let far = 1_700_000_000_000_000; // microseconds taken for milliseconds
        assert_eq!(zone.timer_epoch(far + 10) - zone.timer_epoch(far), 10);
        assert_eq!(zone.to_local(zone.to_epoch(far)), far);
    }

    #[test]
    fn the_clock_agrees_with_the_zone() {
        let zone = Zone::parse("America/New_York").unwrap();
        let mut clock = LocalClock::new(zone.clone());
        let mut t = -2_000_000_000_000;
        while t < 2_000_000_000_000 {
            assert_eq!(clock.to_local(t), zone.to_local(t));
            t += 7 * HOUR_MS + 1;
        }
    }
}
