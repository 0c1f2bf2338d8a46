//! Results of `SELECT` and `SHOW` as text tables.
//!
//! A streaming result has no end to measure its columns by, so widths come from the types, as in
//! Flink's tableau mode.

use std::borrow::Cow;

use tidegate_api::config::Configuration;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Result};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Widest text column unless `table.display.max-column-width` says otherwise.
const TEXT_WIDTH: usize = 30;

/// Width of the widest column of text: `table.display.max-column-width`, or its name before Flink 2.
pub fn max_column_width(config: &Configuration) -> Result<usize> {
    let old = config.usize("sql-client.display.max-column-width", TEXT_WIDTH)?;
    match config.usize("table.display.max-column-width", old)? {
        0 => Err(Error::invalid("table.display.max-column-width takes a whole number above 0.")),
        width => Ok(width),
    }
}

/// The table of a streaming result.
pub struct Tableau {
    widths: Vec<usize>,
}

impl Tableau {
    /// A table with an `op` column before these. Columns of text are at most `text_width` wide.
    pub fn new(names: &[String], types: &[LogicalType], text_width: usize) -> (Tableau, String) {
        let width = |(n, t): (&String, &LogicalType)| type_width(t, text_width).max(display_width(n));
        let widths: Vec<usize> = names.iter().zip(types).map(width).collect();
        let tableau = Tableau { widths };
        let mut cells = vec!["op".to_owned()];
        cells.extend(names.iter().cloned());
        let head = format!("{}\n{}\n{}\n", tableau.border(), tableau.line(&cells), tableau.border());
        (tableau, head)
    }

    /// The line above, under the head and below the rows.
    pub fn border(&self) -> String {
        let dashes: String = self.widths.iter().map(|w| format!("{}+", "-".repeat(w + 2))).collect();
        format!("+----+{dashes}")
    }

    /// One row; the first cell is the row kind.
    pub fn line(&self, cells: &[String]) -> String {
        let mut text = format!("| {} |", cells.first().map_or("", String::as_str));
        for (cell, width) in cells.iter().skip(1).zip(&self.widths) {
            let cell = cut(&visible(cell), *width);
            let pad = width.saturating_sub(display_width(&cell));
            text += &format!(" {}{cell} |", " ".repeat(pad));
        }
        text
    }
}

/// Columns of the terminal that a value of the type takes at most; text takes at most `text_width`.
pub fn type_width(ty: &LogicalType, text_width: usize) -> usize {
    let fraction = |p: u8| if p > 0 { usize::from(p) + 1 } else { 0 };
    match &ty.kind {
        TypeKind::Boolean => 6,
        TypeKind::TinyInt => 4,
        TypeKind::SmallInt => 6,
        TypeKind::Int => 11,
        TypeKind::BigInt => 20,
        TypeKind::Float | TypeKind::Double => 30,
        TypeKind::Decimal(p, _) => usize::from(*p) + 2,
        TypeKind::Date => 10,
        TypeKind::Time(p) => 8 + fraction(*p),
        TypeKind::Timestamp(p) | TypeKind::TimestampLtz(p) => 19 + fraction(*p),
        TypeKind::Char(n) | TypeKind::Varchar(n) => (*n as usize).min(text_width),
        _ => text_width,
    }
}

/// Columns a terminal uses for the text: two for East Asian scripts and emoji, none for combining marks.
pub fn display_width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text as far as it fits `width` columns; `...` says that there is more.
pub fn cut(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let dots = "...".get(..width).unwrap_or("...");
    let mut kept = String::new();
    let mut used = dots.len();
    for c in text.chars() {
        used += UnicodeWidthChar::width(c).unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept + dots
}

/// The text with its control characters written out: data must neither break a table nor steer a terminal.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A finished table, columns as wide as their content: `SHOW`, `DESCRIBE`.
pub fn fitted(columns: &[String], rows: &[Vec<Option<String>>]) -> String {
    if rows.is_empty() {
        return "Empty set\n".into();
    }
    let cell = |c: &Option<String>| c.clone().unwrap_or_else(|| "<NULL>".into());
    let mut widths: Vec<usize> = columns.iter().map(|c| display_width(c)).collect();
    for row in rows {
        for (width, value) in widths.iter_mut().zip(row) {
            *width = (*width).max(display_width(&cell(value)));
        }
    }
    let border: String = widths.iter().map(|w| format!("{}+", "-".repeat(w + 2))).collect();
    let border = format!("+{border}\n");
    let line = |cells: &[String]| -> String {
        let cells = cells.iter().zip(&widths).map(|(c, w)| format!(" {}{c} |", " ".repeat(w - display_width(c))));
        format!("|{}\n", cells.collect::<String>())
    };
    let mut text = format!("{border}{}{border}", line(columns));
    for row in rows {
        text += &line(&row.iter().map(cell).collect::<Vec<_>>());
    }
    let count = if rows.len() == 1 { "1 row in set".to_owned() } else { format!("{} rows in set", rows.len()) };
    text + &border + &count + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streaming_tables_have_fixed_widths() {
        let names = vec!["id".to_owned(), "t".to_owned()];
        let types = [LogicalType::new(TypeKind::Int), LogicalType::string()];
        let (tableau, head) = Tableau::new(&names, &types, 30);
        assert_eq!(head.lines().next(), Some("+----+-------------+--------------------------------+"));
        assert_eq!(
            tableau.line(&["+I".into(), "1".into(), "한국어".into()]),
            "| +I |           1 |                         한국어 |"
        );
        let long = tableau.line(&["+I".into(), "1".into(), "x".repeat(40)]);
        assert!(long.ends_with("xxx... |"), "{long}");
    }

    #[test]
    fn widths_are_those_of_a_terminal() {
        assert_eq!(display_width("한국어"), 6);
        assert_eq!(display_width("e\u{301}"), 1);
        assert_eq!(cut("한국어한국어", 8), "한국...");
        assert_eq!(cut("abcdef", 2), "..");
        assert_eq!(cut("abc", 3), "abc");
        for width in 0..9 {
            assert!(display_width(&cut("a한b국c어d", width)) <= width);
        }
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(visible("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J");
        assert_eq!(visible("plain é 한"), "plain é 한");
    }

    #[test]
    fn fitted_tables_follow_their_content() {
        let text = fitted(&["table name".into()], &[vec![Some("clicks".into())]]);
        assert_eq!(
            text,
            "+------------+\n| table name |\n+------------+\n|     clicks |\n+------------+\n1 row in set\n"
        );
        assert_eq!(fitted(&["x".into()], &[]), "Empty set\n");
    }
}
