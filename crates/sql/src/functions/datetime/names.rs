//! English names of months, days and the rest, as Java's en-US locale has them.

use super::pattern::{Field, Style};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const QUARTERS: [&str; 4] = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"];
const SHORT_QUARTERS: [&str; 4] = ["Q1", "Q2", "Q3", "Q4"];

/// The name of `value` of `field`. Days count from Monday = 1.
pub(super) fn name(field: Field, style: Style, value: i64) -> &'static str {
    let pick = |names: &[&'static str], from: i64| names.get((value - from) as usize).copied().unwrap_or("");
    let text = match field {
        Field::Era if style == Style::Full => pick(&["Before Christ", "Anno Domini"], 0),
        Field::Era => pick(&["BC", "AD"], 0),
        Field::AmPm => pick(&["AM", "PM"], 0),
        Field::Quarter if style == Style::Short => return pick(&SHORT_QUARTERS, 1),
        Field::Quarter => pick(&QUARTERS, 1),
        Field::Month => pick(&MONTHS, 1),
        _ => pick(&DAYS, 1),
    };
    match (field, style) {
        (Field::Month | Field::IsoDayOfWeek | Field::LocalDayOfWeek, Style::Short) => &text[..text.len().min(3)],
        (_, Style::Narrow) => &text[..text.len().min(1)],
        _ => text,
    }
}

/// Reads a name of `field` at the start of `text`: its value and length. `any_style` also accepts
/// the other length of it, and any case, as `SimpleDateFormat` does.
pub(super) fn find(field: Field, style: Style, text: &str, any_style: bool) -> Option<(i64, usize)> {
    let values = match field {
        Field::Era | Field::AmPm => 0..=1,
        Field::Quarter => 1..=4,
        Field::Month => 1..=12,
        _ => 1..=7,
    };
    let styles: &[Style] = match (any_style, style) {
        (true, _) => &[Style::Full, Style::Short],
        (false, Style::Full) => &[Style::Full],
        (false, Style::Short) => &[Style::Short],
        (false, Style::Narrow) => &[Style::Narrow],
    };
    let mut best: Option<(i64, usize)> = None;
    for (value, style) in values.flat_map(|v| styles.iter().map(move |s| (v, *s))) {
        let name = name(field, style, value);
        let matches = match text.get(..name.len()) {
            Some(start) if any_style => start.eq_ignore_ascii_case(name),
            Some(start) => start == name,
            None => false,
        };
        if matches && best.is_none_or(|(_, len)| name.len() > len) {
            best = Some((value, name.len()));
        }
    }
    best
}
