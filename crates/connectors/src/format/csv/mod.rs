//! CSV, as Flink's `csv` format (Jackson's CSV reader and writer) does it.
//!
//! [`record`] cuts records and fields by RFC 4180 plus Jackson's extras (escape character, comments); [`decode`]
//! gives fields a type; [`encode`] is the reverse.

mod decode;
mod encode;
mod record;
#[cfg(test)]
mod tests;

use tidegate_api::{Error, LogicalType, Result, Schema, TypeKind};

use super::{DecodeMetrics, Decoder, DecodingFormat, Encoder, EncodingFormat};
use crate::option::{OptionReader, invalid_value};

/// The options of one CSV format.
#[derive(Clone, Debug)]
pub(crate) struct CsvFormat {
    delimiter: char,
    quote: Option<char>,
    escape: Option<char>,
    allow_comments: bool,
    ignore_parse_errors: bool,
    element_delimiter: String,
    null_literal: Option<String>,
    scientific_decimals: bool,
    trim_spaces: bool,
    ignore_trailing_unmappable: bool,
    allow_trailing_comma: bool,
    fail_on_missing_columns: bool,
    empty_as_null: bool,
}

impl CsvFormat {
    /// Reads the options under `prefix` (`csv.`, `value.csv.`).
    pub(crate) fn read(options: &mut OptionReader<'_>, prefix: &str) -> Result<CsvFormat> {
        let key = |name: &str| format!("{prefix}{name}");
        let delimiter = one_char(options, &key("field-delimiter"))?.unwrap_or(',');
        let no_quotes = options.bool(&key("disable-quote-character"), false)?;
        let quote = one_char(options, &key("quote-character"))?;
        if no_quotes && quote.is_some() {
            return Err(Error::invalid(
                "Format cannot define a quote character and disabled quote character at the same time.",
            ));
        }
        Ok(CsvFormat {
            delimiter,
            quote: if no_quotes { None } else { Some(quote.unwrap_or('"')) },
            escape: one_char(options, &key("escape-character"))?,
            allow_comments: options.bool(&key("allow-comments"), false)?,
            ignore_parse_errors: options.bool(&key("ignore-parse-errors"), false)?,
            element_delimiter: options.text(&key("array-element-delimiter")).unwrap_or(";").to_owned(),
            null_literal: options.text(&key("null-literal")).map(str::to_owned),
            scientific_decimals: options.bool(&key("write-bigdecimal-in-scientific-notation"), true)?,
            trim_spaces: options.bool(&key("trim-spaces"), false)?,
            ignore_trailing_unmappable: options.bool(&key("ignore-trailing-unmappable"), false)?,
            allow_trailing_comma: options.bool(&key("allow-trailing-comma"), true)?,
            fail_on_missing_columns: options.bool(&key("fail-on-missing-columns"), false)?,
            empty_as_null: options.bool(&key("empty-string-as-null"), false)?,
        })
    }

    fn check_row(row: &Schema) -> Result<()> {
        row.fields.iter().try_for_each(|f| check_type(&f.ty, 0))
    }
}

/// A single character, with Java's escapes (`\t`, `\u0001`).
fn one_char(options: &mut OptionReader<'_>, key: &str) -> Result<Option<char>> {
    let Some(text) = options.text(key) else { return Ok(None) };
    let mut chars = text.chars();
    let found = match (chars.next(), chars.next(), chars.as_str()) {
        (Some(c), None, _) => Some(c),
        (Some('\\'), Some(c), "") => match c {
            't' => Some('\t'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            'f' => Some('\u{c}'),
            '\\' => Some('\\'),
            c => Some(c),
        },
        (Some('\\'), Some('u'), hex) => u32::from_str_radix(hex, 16).ok().and_then(char::from_u32),
        _ => None,
    };
    found.map(Some).ok_or_else(|| invalid_value(key, text, "a single character"))
}

/// Arrays and rows may hold scalars only: there is one element delimiter.
fn check_type(ty: &LogicalType, depth: usize) -> Result<()> {
    match &ty.kind {
        TypeKind::Array(t) if depth == 0 => check_type(t, 1),
        TypeKind::Row(fields) if depth == 0 => fields.iter().try_for_each(|f| check_type(&f.ty, 1)),
        TypeKind::Array(_) | TypeKind::Row(_) => {
            Err(Error::unsupported(format!("CSV format doesn't support {ty} nested in an array or row.")))
        }
        TypeKind::Map(..) | TypeKind::Multiset(_) => {
            Err(Error::unsupported(format!("CSV format doesn't support the type {ty}.")))
        }
        TypeKind::Time(precision) if *precision > 3 => Err(Error::unsupported(format!(
            "Csv does not support TIME type with precision: {precision}, it only supports precision 0 ~ 3."
        ))),
        _ => Ok(()),
    }
}

impl DecodingFormat for CsvFormat {
    fn identifier(&self) -> &'static str {
        "csv"
    }

    fn check(&self, row: &Schema) -> Result<()> {
        Self::check_row(row)
    }

    fn decoder(&self, row: &Schema, projection: &[usize], metrics: DecodeMetrics) -> Result<Box<dyn Decoder>> {
        Self::check_row(row)?;
        Ok(Box::new(decode::CsvDecoder::new(self, row, projection, metrics)))
    }
}

impl EncodingFormat for CsvFormat {
    fn identifier(&self) -> &'static str {
        "csv"
    }

    fn encoder(&self, schema: &Schema) -> Result<Box<dyn Encoder>> {
        Self::check_row(schema)?;
        Ok(Box::new(encode::CsvEncoder::new(self, schema)))
    }
}
