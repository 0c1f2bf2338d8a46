//! Cutting bytes into CSV records and fields.
//!
//! A field that starts with the quote character runs to the matching one, a doubled quote inside it is a quote, and
//! it may span lines. Elsewhere a quote is an ordinary character. The escape character makes the next one ordinary
//! (or a line end, for `n`), inside quotes and outside. Records end with `\n`, `\r\n` or `\r`.

use super::CsvFormat;

/// A character of the syntax, as UTF-8.
#[derive(Clone, Copy)]
struct Symbol {
    bytes: [u8; 4],
    len: usize,
}

impl Symbol {
    fn new(c: char) -> Symbol {
        let mut bytes = [0; 4];
        let len = c.encode_utf8(&mut bytes).len();
        Symbol { bytes, len }
    }

    #[inline]
    fn at(&self, text: &[u8], at: usize) -> bool {
        text.get(at) == Some(&self.bytes[0]) && text[at..].starts_with(&self.bytes[..self.len])
    }
}

/// What was found at the start of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A record of this many bytes, its line end included; the fields are in the reader.
    Record(usize),
    /// A line without any character; the reader holds one empty field.
    Blank(usize),
    /// A line of comment.
    Comment(usize),
    /// The record is not complete.
    NeedMore,
    /// No CSV; the record was skipped up to its line end.
    Malformed(usize, String),
}

/// Reads one record at a time into its own buffer.
pub(super) struct RecordReader {
    delimiter: Symbol,
    delimiter_char: char,
    quote: Option<Symbol>,
    escape: Option<Symbol>,
    comments: bool,
    trim: bool,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl RecordReader {
    pub(super) fn new(format: &CsvFormat) -> RecordReader {
        RecordReader {
            delimiter: Symbol::new(format.delimiter),
            delimiter_char: format.delimiter,
            quote: format.quote.map(Symbol::new),
            escape: format.escape.map(Symbol::new),
            comments: format.allow_comments,
            trim: format.trim_spaces,
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Number of fields of the last record.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field of the last record, without quotes and escapes.
    pub(super) fn field(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)?;
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        self.text.get(start..end)
    }

    /// Reads the record at the start of `bytes`.
    pub(super) fn read(&mut self, bytes: &[u8], at_end: bool) -> Found {
        self.text.clear();
        self.ends.clear();
        match line_end(bytes, 0, at_end) {
            LineEnd::Here(next) => {
                self.ends.push(0);
                return Found::Blank(next);
            }
            LineEnd::Unknown => return Found::NeedMore,
            LineEnd::No => {}
        }
        if self.comments && bytes.trim_ascii_start().first() == Some(&b'#') {
            return match next_line(bytes, 0, at_end) {
                Some(next) => Found::Comment(next),
                None => Found::NeedMore,
            };
        }
        let mut at = 0;
        loop {
            let quoted = self.quote.filter(|q| q.at(bytes, at));
            let stop = match quoted {
                Some(quote) => self.quoted(bytes, at, quote, at_end),
                None => self.plain(bytes, at, at_end),
            };
            match stop {
                Stop::Delimiter(next) => at = next,
                Stop::LineEnd(next) => return Found::Record(next),
                Stop::NeedMore => return Found::NeedMore,
                Stop::Malformed(at, message) => {
                    return match next_line(bytes, at, at_end) {
                        Some(next) => Found::Malformed(next, message),
                        None => Found::NeedMore,
                    };
                }
            }
        }
    }

    fn plain(&mut self, bytes: &[u8], mut at: usize, at_end: bool) -> Stop {
        let start = self.text.len();
        let stop = loop {
            if self.delimiter.at(bytes, at) {
                break Stop::Delimiter(at + self.delimiter.len);
            }
            match line_end(bytes, at, at_end) {
                LineEnd::Here(next) => break Stop::LineEnd(next),
                LineEnd::Unknown => return Stop::NeedMore,
                LineEnd::No => {}
            }
            match self.escaped(bytes, at) {
                Some(Some(next)) => at = next,
                Some(None) => return self.cut_off(bytes, at_end, "an escape"),
                None => {
                    self.text.push(bytes[at]);
                    at += 1;
                }
            }
        };
        if self.trim {
            let kept = self.text[start..].trim_ascii().to_vec();
            self.text.truncate(start);
            self.text.extend_from_slice(&kept);
        }
        self.ends.push(self.text.len());
        stop
    }

    fn quoted(&mut self, bytes: &[u8], start: usize, quote: Symbol, at_end: bool) -> Stop {
        let mut at = start + quote.len;
        loop {
            if at >= bytes.len() {
                return self.cut_off(bytes, at_end, "a quoted value");
            }
            if quote.at(bytes, at) {
                at += quote.len;
                if at >= bytes.len() && !at_end {
                    return Stop::NeedMore;
                }
                if !quote.at(bytes, at) {
                    break;
                }
                self.text.extend_from_slice(&quote.bytes[..quote.len]);
                at += quote.len;
                continue;
            }
            match self.escaped(bytes, at) {
                Some(Some(next)) => at = next,
                Some(None) => return self.cut_off(bytes, at_end, "an escape"),
                None => {
                    self.text.push(bytes[at]);
                    at += 1;
                }
            }
        }
        self.ends.push(self.text.len());
        self.after_quote(bytes, at, at_end)
    }

    /// Behind a closing quote only spaces may stand before the delimiter or line end.
    fn after_quote(&self, bytes: &[u8], mut at: usize, at_end: bool) -> Stop {
        loop {
            if self.delimiter.at(bytes, at) {
                return Stop::Delimiter(at + self.delimiter.len);
            }
            match line_end(bytes, at, at_end) {
                LineEnd::Here(next) => return Stop::LineEnd(next),
                LineEnd::Unknown => return Stop::NeedMore,
                LineEnd::No if bytes[at] <= b' ' => at += 1,
                LineEnd::No => {
                    let found = char::from(bytes[at]);
                    return Stop::Malformed(
                        at,
                        format!(
                            "unexpected character '{found}' behind a quoted value: expected the column separator '{}' \
                             or the end of the line",
                            self.delimiter_char
                        ),
                    );
                }
            }
        }
    }

    /// Takes an escape at `at`: `None` if there is none, else where it ends (or that the bytes end before it does).
    fn escaped(&mut self, bytes: &[u8], at: usize) -> Option<Option<usize>> {
        let escape = self.escape.filter(|e| e.at(bytes, at))?;
        let at = at + escape.len;
        let Some(byte) = bytes.get(at) else { return Some(None) };
        self.text.push(match byte {
            b'0' => 0,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            other => *other,
        });
        Some(Some(at + 1))
    }

    fn cut_off(&self, bytes: &[u8], at_end: bool, what: &str) -> Stop {
        if at_end {
            Stop::Malformed(bytes.len(), format!("unexpected end of input within {what}"))
        } else {
            Stop::NeedMore
        }
    }
}

enum Stop {
    Delimiter(usize),
    LineEnd(usize),
    NeedMore,
    Malformed(usize, String),
}

enum LineEnd {
    /// The next line starts there.
    Here(usize),
    No,
    /// The bytes end here, or with a `\r` that may belong to a `\r\n`.
    Unknown,
}

#[inline]
fn line_end(bytes: &[u8], at: usize, at_end: bool) -> LineEnd {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\n'), _) => LineEnd::Here(at + 1),
        (Some(b'\r'), Some(b'\n')) => LineEnd::Here(at + 2),
        (Some(b'\r'), None) if !at_end => LineEnd::Unknown,
        (Some(b'\r'), _) => LineEnd::Here(at + 1),
        (None, _) if at_end => LineEnd::Here(at),
        (None, _) => LineEnd::Unknown,
        _ => LineEnd::No,
    }
}

fn next_line(bytes: &[u8], at: usize, at_end: bool) -> Option<usize> {
    let rest = bytes.get(at..).unwrap_or_default();
    match memchr::memchr(b'\n', rest) {
        Some(end) => Some(at + end + 1),
        None => at_end.then_some(bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::option::OptionReader;

    fn reader(options: &[(&str, &str)]) -> RecordReader {
        let options: BTreeMap<String, String> =
            options.iter().map(|(k, v)| (format!("csv.{k}"), (*v).to_owned())).collect();
        let format = CsvFormat::read(&mut OptionReader::of("test", &options), "csv.").expect("options");
        RecordReader::new(&format)
    }

    fn fields(reader: &mut RecordReader, text: &str) -> Vec<String> {
        match reader.read(text.as_bytes(), true) {
            Found::Record(_) => {}
            other => panic!("{text}: {other:?}"),
        }
        (0..reader.len()).map(|i| String::from_utf8_lossy(reader.field(i).expect("field")).into_owned()).collect()
    }

    #[test]
    fn fields_are_jackson_s() {
        let mut plain = reader(&[]);
        assert_eq!(fields(&mut plain, "1,\"quoted, comma\" ,,x\"y"), ["1", "quoted, comma", "", "x\"y"]);
        assert_eq!(fields(&mut plain, "\"he said \"\"no\"\"\",\n"), ["he said \"no\"", ""]);
        assert_eq!(fields(&mut plain, "\"two\nlines\",b\r\nnext"), ["two\nlines", "b"]);
        let mut other = reader(&[("escape-character", "\\"), ("field-delimiter", "\\t"), ("quote-character", "|")]);
        assert_eq!(fields(&mut other, "es\\\tcaped\t|a|\t\\n"), ["es\tcaped", "a", "\n"]);
    }

    #[test]
    fn records_wait_for_their_end_and_bad_ones_are_skipped() {
        let mut plain = reader(&[("allow-comments", "true")]);
        assert_eq!(plain.read(b"1,\"open\n", false), Found::NeedMore);
        assert_eq!(plain.read(b"1,2", false), Found::NeedMore);
        assert_eq!(plain.read(b"1,2\r", false), Found::NeedMore);
        assert_eq!(plain.read(b"1,2", true), Found::Record(3));
        assert_eq!(plain.read(b"\r\n1", true), Found::Blank(2));
        assert_eq!(plain.read(b"# x\n1", true), Found::Comment(4));
        assert!(matches!(plain.read(b"\"a\"b,c\nd", true), Found::Malformed(7, _)));
        assert!(matches!(plain.read(b"1,\"open", true), Found::Malformed(7, _)));
    }
}
