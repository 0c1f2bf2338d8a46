//! `raw`: a message is the value of the table's one column, without any structure.

use std::ops::Range;

use arrow::array::{ArrayRef, UInt8Array};
use tidegate_api::{Batch, Error, Field, LogicalType, Result, Schema, TypeKind};

use super::{DecodeError, DecodeMetrics, Decoder, DecodingFormat, Encoder, EncodingFormat};
use crate::column::{Column, finish_all};
use crate::option::{OptionReader, invalid_value};
use crate::view::{Cell, View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    Utf8,
    Latin1,
    Ascii,
    /// Big endian unless a byte order mark says otherwise.
    Utf16,
    Utf16Be,
    Utf16Le,
}

/// The options of one raw format.
#[derive(Clone, Debug)]
pub(crate) struct RawFormat {
    charset: Charset,
    little_endian: bool,
}

impl RawFormat {
    /// Reads the options under `prefix`.
    pub(crate) fn read(options: &mut OptionReader<'_>, prefix: &str) -> Result<RawFormat> {
        let key = format!("{prefix}charset");
        let name = options.text(&key).unwrap_or("UTF-8");
        let charset = match name.to_ascii_uppercase().as_str() {
            "UTF-8" | "UTF8" => Charset::Utf8,
            "ISO-8859-1" | "LATIN1" | "ISO8859_1" => Charset::Latin1,
            "US-ASCII" | "ASCII" => Charset::Ascii,
            "UTF-16" => Charset::Utf16,
            "UTF-16BE" => Charset::Utf16Be,
            "UTF-16LE" => Charset::Utf16Le,
            _ => {
                let known = "one of UTF-8, ISO-8859-1, US-ASCII, UTF-16, UTF-16BE, UTF-16LE";
                return Err(invalid_value(&key, name, known));
            }
        };
        let endianness = options.choice(&format!("{prefix}endianness"), &["big-endian", "little-endian"])?;
        Ok(RawFormat { charset, little_endian: endianness == "little-endian" })
    }

    fn check_row(row: &Schema) -> Result<&Field> {
        let [field] = row.fields.as_slice() else {
            let names: Vec<&str> = row.fields.iter().map(|f| f.name.as_str()).collect();
            return Err(Error::invalid(format!(
                "The 'raw' format only supports single physical column. However the defined schema contains multiple \
                 physical columns: [{}]",
                names.join(", ")
            )));
        };
        let supported = field.ty.is_string() || field.ty.is_binary() || width(&field.ty).is_some();
        if supported {
            return Ok(field);
        }
        Err(Error::unsupported(format!("The 'raw' format doesn't supports '{}' as column type.", field.ty)))
    }
}

/// Bytes of a value of a type with a fixed size.
fn width(ty: &LogicalType) -> Option<usize> {
    match ty.kind {
        TypeKind::Boolean | TypeKind::TinyInt => Some(1),
        TypeKind::SmallInt => Some(2),
        TypeKind::Int | TypeKind::Float => Some(4),
        TypeKind::BigInt | TypeKind::Double => Some(8),
        _ => None,
    }
}

impl DecodingFormat for RawFormat {
    fn identifier(&self) -> &'static str {
        "raw"
    }

    fn check(&self, row: &Schema) -> Result<()> {
        Self::check_row(row).map(|_| ())
    }

    fn decoder(&self, row: &Schema, projection: &[usize], _: DecodeMetrics) -> Result<Box<dyn Decoder>> {
        let field = Self::check_row(row)?.clone();
        let columns = projection.iter().map(|_| Column::new(&field.ty)).collect();
        Ok(Box::new(RawDecoder { format: self.clone(), field, columns, rows: 0 }))
    }
}

impl EncodingFormat for RawFormat {
    fn identifier(&self) -> &'static str {
        "raw"
    }

    fn encoder(&self, schema: &Schema) -> Result<Box<dyn Encoder>> {
        let field = Self::check_row(schema)?.clone();
        Ok(Box::new(RawEncoder { format: self.clone(), field }))
    }
}

struct RawDecoder {
    format: RawFormat,
    field: Field,
    columns: Vec<Column>,
    rows: usize,
}

impl Decoder for RawDecoder {
    fn decode(&mut self, message: Option<&[u8]>) -> Result<usize, DecodeError> {
        for column in &mut self.columns {
            match message {
                // A message without a value is a row whose only column is NULL.
                None => column.push_null(),
                Some(bytes) => push(&self.format, &self.field, column, bytes)?,
            }
        }
        self.rows += 1;
        Ok(1)
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn finish(&mut self) -> Result<(Vec<ArrayRef>, Option<UInt8Array>)> {
        self.rows = 0;
        Ok((finish_all(&mut self.columns)?, None))
    }
}

fn push(format: &RawFormat, field: &Field, column: &mut Column, bytes: &[u8]) -> Result<(), DecodeError> {
    if field.ty.is_binary() {
        return pushed(field, column.push_bytes(bytes));
    }
    if field.ty.is_string() {
        return match (format.charset, std::str::from_utf8(bytes)) {
            (Charset::Utf8, Ok(_)) => pushed(field, column.push_bytes(bytes)),
            _ => pushed(field, column.push_bytes(decode_text(format.charset, bytes).as_bytes())),
        };
    }
    let expected = width(&field.ty).unwrap_or_default();
    if bytes.len() != expected {
        return Err(DecodeError::field(
            &field.name,
            format!(
                "Size of data received for deserializing {} type is not correct: expected {expected} bytes, got {}.",
                field.ty,
                bytes.len()
            ),
        ));
    }
    let mut big = [0u8; 8];
    for (i, byte) in bytes.iter().enumerate() {
        big[if format.little_endian { 7 - i } else { 8 - expected + i }] = *byte;
    }
    let bits = u64::from_be_bytes(big);
    let done = match field.ty.kind {
        TypeKind::Boolean => column.push_bool(bits != 0),
        TypeKind::TinyInt => column.push_i64(i64::from(bits as i8)),
        TypeKind::SmallInt => column.push_i64(i64::from(bits as i16)),
        TypeKind::Int => column.push_i64(i64::from(bits as i32)),
        TypeKind::BigInt => column.push_i64(bits as i64),
        TypeKind::Float => column.push_f32(f32::from_bits(bits as u32)),
        _ => column.push_f64(f64::from_bits(bits)),
    };
    pushed(field, done)
}

fn pushed(field: &Field, done: bool) -> Result<(), DecodeError> {
    if done { Ok(()) } else { Err(DecodeError::field(&field.name, "the column of this batch would pass 2 GiB")) }
}

/// Text as Java decodes it: what is malformed becomes U+FFFD.
fn decode_text(charset: Charset, bytes: &[u8]) -> String {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let pairs = bytes.chunks(2).map(|pair| match pair {
            [a, b] => unit([*a, *b]),
            _ => 0xfffd,
        });
        char::decode_utf16(pairs).map(|c| c.unwrap_or('\u{fffd}')).collect()
    };
    match charset {
        Charset::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Charset::Latin1 => bytes.iter().map(|b| char::from(*b)).collect(),
        Charset::Ascii => bytes.iter().map(|b| if b.is_ascii() { char::from(*b) } else { '\u{fffd}' }).collect(),
        Charset::Utf16 => match bytes {
            [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
            _ => utf16(bytes, u16::from_be_bytes),
        },
        Charset::Utf16Be => utf16(bytes, u16::from_be_bytes),
        Charset::Utf16Le => utf16(bytes, u16::from_le_bytes),
    }
}

struct RawEncoder {
    format: RawFormat,
    field: Field,
}

impl Encoder for RawEncoder {
    fn encode(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        out: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let view = View::new(batch.columns.column(0), &self.field.ty)?;
        for row in rows {
            match view.get(row) {
                Cell::Text(text) if self.format.charset == Charset::Utf8 => out(row, text.as_bytes())?,
                Cell::Text(text) => out(row, &encode_text(self.format.charset, text))?,
                Cell::Bytes(bytes) => out(row, bytes)?,
                Cell::Bool(v) => out(row, &[u8::from(v)])?,
                Cell::Int(v) => self.number(v as u64, row, out)?,
                Cell::Float(v) => self.number(u64::from(v.to_bits()), row, out)?,
                Cell::Double(v) => self.number(v.to_bits(), row, out)?,
                _ => {
                    return Err(Error::job(format!(
                        "The 'raw' format cannot write the NULL in column '{}'.",
                        self.field.name
                    )));
                }
            }
        }
        Ok(())
    }
}

impl RawEncoder {
    fn number(&self, bits: u64, row: usize, out: &mut dyn FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        let width = width(&self.field.ty).unwrap_or(8);
        if self.format.little_endian {
            out(row, &bits.to_le_bytes()[..width])
        } else {
            out(row, &bits.to_be_bytes()[8 - width..])
        }
    }
}

fn encode_text(charset: Charset, text: &str) -> Vec<u8> {
    let limit = if charset == Charset::Ascii { 0x7f } else { 0xff };
    match charset {
        Charset::Utf8 => text.as_bytes().to_vec(),
        Charset::Latin1 | Charset::Ascii => {
            text.chars().map(|c| if (c as u32) <= limit { c as u32 as u8 } else { b'?' }).collect()
        }
        Charset::Utf16 => {
            let mark = [0xfe, 0xff].into_iter();
            mark.chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect()
        }
        Charset::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Charset::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn numbers_have_an_order_of_bytes_and_a_size() {
        for (little_endian, bytes) in [(false, [0, 0, 1, 2]), (true, [2, 1, 0, 0])] {
            let format = RawFormat { charset: Charset::Utf8, little_endian };
            let schema = Schema::new(vec![Field::new("n", LogicalType::new(TypeKind::Int))]);
            let mut decoder = format.decoder(&schema, &[0], DecodeMetrics::default()).expect("decoder");
            assert_eq!(decoder.decode(Some(&bytes)), Ok(1));
            assert!(decoder.decode(Some(&[1])).is_err());
            assert_eq!(decoder.decode(None), Ok(1));
            let (columns, _) = decoder.finish().expect("columns");
            let numbers = columns[0].as_primitive::<Int32Type>();
            assert_eq!(numbers.iter().collect::<Vec<_>>(), [Some(258), None]);
        }
    }

    #[test]
    fn charsets_go_both_ways() {
        for charset in [Charset::Utf8, Charset::Latin1, Charset::Utf16, Charset::Utf16Be, Charset::Utf16Le] {
            assert_eq!(decode_text(charset, &encode_text(charset, "hé")), "hé", "{charset:?}");
        }
        assert_eq!(encode_text(Charset::Ascii, "hé"), b"h?");
    }
}
