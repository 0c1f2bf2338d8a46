//! Digests and encodings: `MD5`, the `SHA` family, `HASH_CODE`, Base64, character sets.

// Type rules share the signature of `ScalarFunction::resolve`: some insert arguments.
#![allow(clippy::ptr_arg)]

use arrow::array::{Array, BinaryArray, BooleanArray, Date32Array, Float64Array, Int32Array, Int64Array, StringArray};
use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use sha2::Digest;
use tidegate_api::expr::Expr;
use tidegate_api::types::{LogicalType, MAX_LENGTH, TypeKind};

use super::args::{any_nullable, count, expect_binary, expect_int, expect_string, literal_str, strict};
use super::columns::{binaries, ints, map1, map2, strings, typed, write_strings};
use super::string::kernel;
use super::{CallInfo, Kernel, ScalarFunction};

macro_rules! digest {
    ($name:literal, $length:literal, $hash:ty) => {
        ScalarFunction {
            name: $name,
            resolve: |args| {
                count(args, 1..=1)?;
                expect_string(args, 0)?;
                Ok(strict(TypeKind::Char($length), args))
            },
            kernel: |_| {
                kernel(|args, rows| {
                    let texts = strings(&args[0])?;
                    write_strings(rows, |row, out| Ok(push_digest::<$hash>(texts, row, out)))
                })
            },
        }
    };
}

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    digest!("MD5", 32, md5::Md5),
    digest!("SHA1", 40, sha1::Sha1),
    digest!("SHA224", 56, sha2::Sha224),
    digest!("SHA256", 64, sha2::Sha256),
    digest!("SHA384", 96, sha2::Sha384),
    digest!("SHA512", 128, sha2::Sha512),
    ScalarFunction { name: "SHA2", resolve: resolve_sha2, kernel: sha2_kernel },
    ScalarFunction { name: "HASH_CODE", resolve: resolve_hash_code, kernel: hash_code_kernel },
    ScalarFunction { name: "TO_BASE64", resolve: one_string, kernel: to_base64_kernel },
    ScalarFunction { name: "FROM_BASE64", resolve: one_string, kernel: from_base64_kernel },
    ScalarFunction { name: "ENCODE", resolve: resolve_encode, kernel: encode_kernel },
    ScalarFunction { name: "DECODE", resolve: resolve_decode, kernel: decode_kernel },
];

fn push_digest<H: Digest>(texts: &StringArray, row: usize, out: &mut String) -> bool {
    if texts.is_null(row) {
        return false;
    }
    push_hex(&H::digest(texts.value(row).as_bytes()), out);
    true
}

fn push_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
}

fn one_string(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_string(args, 0)?;
    Ok(strict(LogicalType::string().kind, args))
}

fn resolve_sha2(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    expect_string(args, 0)?;
    expect_int(args, 1)?;
    Ok(strict(TypeKind::Varchar(128), args))
}

fn sha2_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    kernel(|args, rows| {
        let (texts, bits) = (strings(&args[0])?, ints(&args[1])?);
        write_strings(rows, |row, out| {
            if bits.is_null(row) {
                return Ok(false);
            }
            Ok(match bits.value(row) {
                224 => push_digest::<sha2::Sha224>(texts, row, out),
                256 => push_digest::<sha2::Sha256>(texts, row, out),
                384 => push_digest::<sha2::Sha384>(texts, row, out),
                512 => push_digest::<sha2::Sha512>(texts, row, out),
                other => return Err(format!("SHA2 of {other} bits: Unsupported algorithm.")),
            })
        })
    })
}

fn resolve_hash_code(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    use TypeKind::*;
    count(args, 1..=1)?;
    match args[0].ty.kind {
        Boolean | Int | BigInt | Double | Date | Char(_) | Varchar(_) => {}
        TinyInt | SmallInt => expect_int(args, 0)?,
        _ => return Err("HASH_CODE of this type is not supported.".into()),
    }
    Ok(strict(TypeKind::Int, args))
}

/// The hash codes of Java's `String`, `Boolean`, `Integer`, `Long` and `Double`.
fn hash_code_kernel(info: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let kind = info.args[0].ty.kind.clone();
    let of_long = |v: i64| (v ^ ((v as u64) >> 32) as i64) as i32;
    kernel(move |args, _| {
        let array = &args[0];
        match kind {
            TypeKind::Boolean => {
                map1::<_, _, Int32Array>(typed::<BooleanArray>(array)?, |v| Ok(Some(if v { 1231 } else { 1237 })))
            }
            TypeKind::BigInt => map1::<_, _, Int32Array>(typed::<Int64Array>(array)?, |v| Ok(Some(of_long(v)))),
            TypeKind::Double => map1::<_, _, Int32Array>(typed::<Float64Array>(array)?, |v| {
                let canonical = if v.is_nan() { f64::NAN } else { v };
                Ok(Some(of_long(canonical.to_bits() as i64)))
            }),
            TypeKind::Date => map1::<_, _, Int32Array>(typed::<Date32Array>(array)?, |v| Ok(Some(v))),
            TypeKind::Int => Ok(array.clone()),
            _ => map1::<_, _, Int32Array>(strings(array)?, |s| Ok(Some(super::string::java_hash(s)))),
        }
    })
}

fn to_base64_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    kernel(|args, rows| {
        let texts = strings(&args[0])?;
        write_strings(rows, |row, out| {
            if texts.is_null(row) {
                return Ok(false);
            }
            STANDARD.encode_string(texts.value(row), out);
            Ok(true)
        })
    })
}

/// Java's basic decoder: padding may be missing, and spare bits are not looked at.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

fn from_base64_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    kernel(|args, _| {
        map1::<_, String, StringArray>(strings(&args[0])?, |text| {
            let bytes = LENIENT_BASE64.decode(text).map_err(|e| format!("FROM_BASE64 of '{text}': {e}"))?;
            Ok(Some(lossy(bytes)))
        })
    })
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// A character set `ENCODE` and `DECODE` know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    Ascii,
    Latin1,
    Utf8,
    Utf16,
    Utf16Be,
    Utf16Le,
}

impl Charset {
    fn parse(name: &str) -> Result<Charset, String> {
        match name.to_ascii_uppercase().as_str() {
            "US-ASCII" | "ASCII" => Ok(Charset::Ascii),
            "ISO-8859-1" | "ISO8859_1" | "LATIN1" => Ok(Charset::Latin1),
            "UTF-8" | "UTF8" => Ok(Charset::Utf8),
            "UTF-16" | "UTF16" => Ok(Charset::Utf16),
            "UTF-16BE" => Ok(Charset::Utf16Be),
            "UTF-16LE" => Ok(Charset::Utf16Le),
            _ => Err(format!("Unsupported encoding: {name}")),
        }
    }

    /// Encodes; what the set lacks becomes `?`.
    fn encode(self, text: &str) -> Vec<u8> {
        let single = |most: u32| text.chars().map(|c| if c as u32 <= most { c as u32 as u8 } else { b'?' }).collect();
        let big = || text.encode_utf16().flat_map(u16::to_be_bytes);
        match self {
            Charset::Ascii => single(0x7F),
            Charset::Latin1 => single(0xFF),
            Charset::Utf8 => text.as_bytes().to_vec(),
            Charset::Utf16 if text.is_empty() => Vec::new(),
            Charset::Utf16 => [0xFE, 0xFF].into_iter().chain(big()).collect(),
            Charset::Utf16Be => big().collect(),
            Charset::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        }
    }

    /// Decodes; bytes that are not of the set become U+FFFD.
    fn decode(self, bytes: &[u8]) -> String {
        let ascii = |b: &u8| if b.is_ascii() { char::from(*b) } else { '\u{FFFD}' };
        match self {
            Charset::Ascii => bytes.iter().map(ascii).collect(),
            Charset::Latin1 => bytes.iter().map(|b| char::from(*b)).collect(),
            Charset::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Charset::Utf16 => match bytes {
                [0xFE, 0xFF, rest @ ..] => from_utf16(rest, u16::from_be_bytes),
                [0xFF, 0xFE, rest @ ..] => from_utf16(rest, u16::from_le_bytes),
                _ => from_utf16(bytes, u16::from_be_bytes),
            },
            Charset::Utf16Be => from_utf16(bytes, u16::from_be_bytes),
            Charset::Utf16Le => from_utf16(bytes, u16::from_le_bytes),
        }
    }
}

fn from_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    let mut text = String::from_utf16_lossy(&units);
    if bytes.len() % 2 == 1 {
        text.push('\u{FFFD}');
    }
    text
}

fn check_charset(expr: &Expr) -> Result<(), String> {
    literal_str(expr).map_or(Ok(()), |name| Charset::parse(name).map(|_| ()))
}

fn resolve_encode(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    expect_string(args, 0)?;
    expect_string(args, 1)?;
    check_charset(&args[1])?;
    Ok(strict(TypeKind::Varbinary(MAX_LENGTH), args))
}

fn encode_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    kernel(|args, rows| {
        let (texts, names) = (strings(&args[0])?, strings(&args[1])?);
        let bytes = map2::<_, _, Vec<u8>, BinaryArray>(texts, names, |text, name| {
            Charset::parse(name).map(|charset| Some(charset.encode(text)))
        })?;
        debug_assert_eq!(bytes.len(), rows);
        Ok(bytes)
    })
}

fn resolve_decode(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=2)?;
    expect_binary(args, 0)?;
    expect_string(args, 1)?;
    check_charset(&args[1])?;
    Ok(LogicalType { kind: LogicalType::string().kind, nullable: any_nullable(args) })
}

fn decode_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    kernel(|args, _| {
        map2::<_, _, String, StringArray>(binaries(&args[0])?, strings(&args[1])?, |bytes, name| {
            Charset::parse(name).map(|charset| Some(charset.decode(bytes)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_encode_as_java() {
        for (name, text, bytes) in [
            ("UTF-16BE", "hé", vec![0, 104, 0, 233]),
            ("UTF-16BE", "", vec![]),
            ("US-ASCII", "é", vec![63]),
            ("UTF-16", "é", vec![0xFE, 0xFF, 0, 0xE9]),
            ("ISO-8859-1", "é", vec![0xE9]),
            ("utf8", "é", vec![0xC3, 0xA9]),
        ] {
            assert_eq!(Charset::parse(name).map(|c| c.encode(text)), Ok(bytes), "{name}");
        }
        assert_eq!(Charset::Utf16.decode(&[0xFE, 0xFF, 0, 0x41]), "A");
        assert_eq!(Charset::Utf8.decode(&[0xC3]), "\u{FFFD}");
        assert!(Charset::parse("KOI8").is_err());
    }

    #[test]
    fn base64_without_padding_is_read() {
        assert_eq!(LENIENT_BASE64.decode("YQ").ok(), Some(b"a".to_vec()));
        assert!(LENIENT_BASE64.decode("Y!!").is_err());
    }
}
