//! JSON, as Flink's `json` format reads and writes it.
//!
//! Decoding has a meaning ([`convert`], over the parser of `sonic-rs`) and a fast path in front of it ([`shape`]),
//! which speculates that lines repeat one key order. The fast path may only ever give what the meaning gives; a
//! property test holds it to that.

pub(crate) mod changes;
mod convert;
mod decode;
mod encode;
mod shape;
#[cfg(test)]
mod tests;

use tidegate_api::{Error, LogicalType, Result, Schema, TypeKind};

use self::convert::Converter;
use super::text::DateCache;
use super::{DecodeMetrics, Decoder, DecodingFormat, Encoder, EncodingFormat};
use crate::option::OptionReader;

/// `timestamp-format.standard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimestampStandard {
    /// `2026-10-01 10:00:00.123`, instants with a trailing `Z`.
    Sql,
    /// `2026-10-01T10:00:00.123`, instants with `Z` or an offset.
    Iso8601,
}

/// What to do with a map entry whose key is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NullKey {
    Fail,
    Drop,
    Literal(String),
}

/// The options of one JSON format.
#[derive(Clone, Debug)]
pub(crate) struct JsonFormat {
    fail_on_missing_field: bool,
    ignore_parse_errors: bool,
    standard: TimestampStandard,
    null_key: NullKey,
    plain_decimals: bool,
    skip_nulls: bool,
}

impl JsonFormat {
    /// Reads the options under `prefix` (`json.`, `value.json.`).
    pub(crate) fn read(options: &mut OptionReader<'_>, prefix: &str) -> Result<JsonFormat> {
        let key = |name: &str| format!("{prefix}{name}");
        let fail_on_missing_field = options.bool(&key("fail-on-missing-field"), false)?;
        // The two parsers Flink chooses between read the same rows; here there is one.
        options.bool(&key("decode.json-parser.enabled"), true)?;
        let format = Self::read_common(options, prefix)?;
        if fail_on_missing_field && format.ignore_parse_errors {
            return Err(Error::invalid(format!(
                "{} and {} shouldn't both be true.",
                key("fail-on-missing-field"),
                key("ignore-parse-errors")
            )));
        }
        Ok(JsonFormat { fail_on_missing_field, ..format })
    }

    /// The options that all formats made of JSON have.
    fn read_common(options: &mut OptionReader<'_>, prefix: &str) -> Result<JsonFormat> {
        let key = |name: &str| format!("{prefix}{name}");
        let standard = match options.choice(&key("timestamp-format.standard"), &["SQL", "ISO-8601"])? {
            "SQL" => TimestampStandard::Sql,
            _ => TimestampStandard::Iso8601,
        };
        let mode = options.choice(&key("map-null-key.mode"), &["FAIL", "DROP", "LITERAL"])?;
        let literal = options.text(&key("map-null-key.literal")).unwrap_or("null");
        let null_key = match mode {
            "FAIL" => NullKey::Fail,
            "DROP" => NullKey::Drop,
            _ => NullKey::Literal(literal.to_owned()),
        };
        Ok(JsonFormat {
            fail_on_missing_field: false,
            ignore_parse_errors: options.bool(&key("ignore-parse-errors"), false)?,
            standard,
            null_key,
            plain_decimals: options.bool(&key("encode.decimal-as-plain-number"), false)?,
            skip_nulls: options.bool(&key("encode.ignore-null-fields"), false)?,
        })
    }

    fn converter(&self, row: &Schema) -> Converter {
        Converter {
            ignore_errors: self.ignore_parse_errors,
            fail_on_missing: self.fail_on_missing_field,
            standard: self.standard,
            exact_fractions: row.fields.iter().any(|f| has_decimal(&f.ty)),
            dates: DateCache::default(),
            field_errors: 0,
        }
    }
}

impl DecodingFormat for JsonFormat {
    fn identifier(&self) -> &'static str {
        "json"
    }

    fn check(&self, row: &Schema) -> Result<()> {
        row.fields.iter().try_for_each(|f| check_type(&f.ty))
    }

    fn decoder(&self, row: &Schema, projection: &[usize], metrics: DecodeMetrics) -> Result<Box<dyn Decoder>> {
        self.check_row(row)?;
        Ok(Box::new(decode::JsonDecoder::new(self, row, projection, metrics)))
    }
}

impl EncodingFormat for JsonFormat {
    fn identifier(&self) -> &'static str {
        "json"
    }

    fn encoder(&self, schema: &Schema) -> Result<Box<dyn Encoder>> {
        self.check_row(schema)?;
        Ok(Box::new(encode::JsonEncoder::new(self, schema)))
    }
}

impl JsonFormat {
    fn check_row(&self, row: &Schema) -> Result<()> {
        DecodingFormat::check(self, row)
    }
}

fn check_type(ty: &LogicalType) -> Result<()> {
    match &ty.kind {
        TypeKind::Array(t) => check_type(t),
        TypeKind::Map(k, v) => check_key(k, ty).and_then(|()| check_type(v)),
        TypeKind::Multiset(t) => check_key(t, ty),
        TypeKind::Row(fields) => fields.iter().try_for_each(|f| check_type(&f.ty)),
        _ => Ok(()),
    }
}

fn check_key(key: &LogicalType, map: &LogicalType) -> Result<()> {
    if key.is_string() {
        return Ok(());
    }
    Err(Error::unsupported(format!("JSON format doesn't support non-string as key type of map. The type is: {map}")))
}

fn has_decimal(ty: &LogicalType) -> bool {
    match &ty.kind {
        TypeKind::Decimal(..) => true,
        TypeKind::Array(t) | TypeKind::Multiset(t) => has_decimal(t),
        TypeKind::Map(k, v) => has_decimal(k) || has_decimal(v),
        TypeKind::Row(fields) => fields.iter().any(|f| has_decimal(&f.ty)),
        _ => false,
    }
}
