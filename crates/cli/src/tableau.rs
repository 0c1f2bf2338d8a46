//! Results of `SELECT` and `SHOW` as text tables.
//!
//! A streaming result has no end to measure its columns by, so widths come from the types, as in
//! Flink's tableau mode.

use tidegate_api::types::{LogicalType, TypeKind};

/// Widest text column (`table.display.max-column-width`).
const TEXT_WIDTH: usize = 30;

/// The table of a streaming result.
pub struct Tableau {
    widths: Vec<usize>,
}

impl Tableau {
    /// A table with an `op` column before these.
    pub fn new(names: &[String], types: &[LogicalType]) -> (Tableau, String) {
        let widths: Vec<usize> = names.iter().zip(types).map(|(n, t)| type_width(t).max(display_width(n))).collect();
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
            let cell = cut(cell, *width);
            let pad = width.saturating_sub(display_width(&cell));
            text += &format!(" {}{cell} |", " ".repeat(pad));
        }
        text
    }
}

fn type_width(ty: &LogicalType) -> usize {
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
        TypeKind::Char(n) | TypeKind::Varchar(n) => (*n as usize).min(TEXT_WIDTH),
        _ => TEXT_WIDTH,
    }
}

/// Columns a terminal uses for the text: wide for East Asian scripts and emoji.
fn display_width(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

fn is_wide(c: char) -> bool {
    matches!(u32::from(c),
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD)
}

fn cut(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if display_width(&kept) + if is_wide(c) { 2 } else { 1 } > width.saturating_sub(3) {
            break;
        }
        kept.push(c);
    }
    kept + "..."
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
        let (tableau, head) = Tableau::new(&names, &types);
        assert_eq!(head.lines().next(), Some("+----+-------------+--------------------------------+"));
        assert_eq!(
            tableau.line(&["+I".into(), "1".into(), "한국어".into()]),
            "| +I |           1 |                         한국어 |"
        );
        let long = tableau.line(&["+I".into(), "1".into(), "x".repeat(40)]);
        assert!(long.ends_with("xxx... |"), "{long}");
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
