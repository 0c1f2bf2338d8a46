//! Styled lines: what the demo shows, before it is a terminal's.

use tidegate_api::text::format_timestamp_sql;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Plain,
    /// Of less weight.
    Dim,
    Strong,
    /// The name of the thing.
    Title,
    /// Nothing is missing.
    Good,
    /// Something is lost.
    Bad,
    /// Worth watching.
    Warn,
}

impl Look {
    /// The terminal's code (ECMA-48 SGR).
    fn code(self) -> &'static str {
        match self {
            Look::Plain => "",
            Look::Dim => "\x1b[2m",
            Look::Strong => "\x1b[1m",
            Look::Title => "\x1b[1;36m",
            Look::Good => "\x1b[32m",
            Look::Bad => "\x1b[31m",
            Look::Warn => "\x1b[33m",
        }
    }
}

/// One line, a few pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    spans: Vec<(Look, String)>,
}

impl Line {
    /// An empty line.
    pub fn new() -> Line {
        Line::default()
    }

    /// A line of one piece.
    pub fn of(look: Look, text: impl Into<String>) -> Line {
        Line::new().add(look, text)
    }

    /// The line with one more piece.
    #[must_use]
    pub fn add(mut self, look: Look, text: impl Into<String>) -> Line {
        self.spans.push((look, text.into()));
        self
    }

    /// The line with all pieces of another.
    #[must_use]
    pub fn join(mut self, other: Line) -> Line {
        self.spans.extend(other.spans);
        self
    }

    /// The line filled with blanks up to this column.
    #[must_use]
    pub fn pad(self, column: usize) -> Line {
        let missing = column.saturating_sub(self.width());
        self.add(Look::Plain, " ".repeat(missing))
    }

    /// Columns it takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| text.width()).sum()
    }

    /// The text alone.
    pub fn text(&self) -> String {
        self.spans.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The line cut to this width.
    #[must_use]
    pub fn clip(self, width: usize) -> Line {
        if self.width() <= width {
            return self;
        }
        let mut left = width;
        let mut clipped = Line::new();
        for (look, text) in self.spans {
            let mut kept = String::new();
            for c in text.chars() {
                let columns = c.width().unwrap_or(0);
                if columns > left {
                    return clipped.add(look, kept);
                }
                left -= columns;
                kept.push(c);
            }
            clipped = clipped.add(look, kept);
        }
        clipped
    }

    /// The line as a terminal or a file takes it.
    pub fn paint(&self, colours: bool) -> String {
        if !colours {
            return self.text().trim_end().to_owned();
        }
        let piece = |(look, text): &(Look, String)| match look.code() {
            "" => text.clone(),
            code => format!("{code}{text}\x1b[0m"),
        };
        self.spans.iter().map(piece).collect()
    }
}

/// Text in lines of at most this width, broken at blanks.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `10:00:05`, UTC, of milliseconds since the epoch.
pub fn clock(ms: i64) -> String {
    format_timestamp_sql(i128::from(ms) * 1_000_000, 0)[11..].to_owned()
}

/// `10:00:05.2`.
pub fn clock_tenths(ms: i64) -> String {
    format_timestamp_sql(i128::from(ms) * 1_000_000, 3)[11..21].to_owned()
}

/// `0.2 s`.
pub fn seconds(ms: i64) -> String {
    format!("{}.{} s", ms / 1_000, (ms % 1_000) / 100)
}

/// `4 s`, `0.5 s`: without a fraction that is zero.
pub fn delay(ms: i64) -> String {
    if ms % 1_000 == 0 { format!("{} s", ms / 1_000) } else { seconds(ms) }
}

/// `812`, `99999`, `1234k`.
pub fn count(n: u64) -> String {
    if n < 100_000 { n.to_string() } else { format!("{}k", n / 1_000) }
}

/// `12.5 %`.
pub fn share(part: u64, whole: u64) -> String {
    let permille = (part * 1_000 + whole / 2).checked_div(whole).unwrap_or(0);
    // What is there at all is never shown as nothing.
    let permille = if part > 0 { permille.max(1) } else { permille };
    format!("{}.{} %", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_columns_and_painted_by_piece() {
        let line = Line::of(Look::Bad, "38 lost").pad(10).add(Look::Plain, "후");
        assert_eq!(line.width(), 12);
        assert_eq!(line.clone().clip(11).text(), "38 lost   ");
        assert_eq!(line.clone().clip(3).text(), "38 ");
        assert_eq!(line.paint(false), "38 lost   후");
        assert_eq!(line.clip(7).paint(true), "\x1b[31m38 lost\x1b[0m");
    }

    #[test]
    fn text_is_broken_at_blanks() {
        assert_eq!(wrap("a window closes when", 8), ["a window", "closes", "when"]);
        assert_eq!(wrap("", 8), Vec::<String>::new());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (clock(1_790_848_805_250), clock_tenths(1_790_848_805_250)),
            ("10:00:05".into(), "10:00:05.2".into())
        );
        assert_eq!((seconds(1_990), delay(4_000), delay(500)), ("1.9 s".into(), "4 s".into(), "0.5 s".into()));
        assert_eq!((count(99_999), count(1_234_567)), ("99999".into(), "1234k".into()));
        assert_eq!((share(0, 0), share(1, 8), share(1, 100_000)), ("0.0 %".into(), "12.5 %".into(), "0.1 %".into()));
    }
}
