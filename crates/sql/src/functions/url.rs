//! URLs and internet addresses: `PARSE_URL`, `URL_ENCODE`, `URL_DECODE`, `INET_ATON`, `INET_NTOA`.

// Type rules share the signature of `ScalarFunction::resolve`: some insert arguments.
#![allow(clippy::ptr_arg)]

use std::fmt::Write;

use arrow::array::{Array, Int64Array, StringArray};
use tidegate_api::expr::Expr;
use tidegate_api::types::{LogicalType, TypeKind};

use super::args::{count, expect_bigint, expect_string};
use super::columns::{bigints, map1, strings, write_strings};
use super::string::kernel;
use super::{CallInfo, Kernel, ScalarFunction};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "PARSE_URL", resolve: resolve_parse_url, kernel: parse_url_kernel },
    ScalarFunction {
        name: "URL_ENCODE",
        resolve: |args| one_string(args, LogicalType::string().kind),
        kernel: |_| {
            kernel(|args, rows| {
                let texts = strings(&args[0])?;
                write_strings(rows, |row, out| {
                    let text = if texts.is_null(row) { None } else { Some(texts.value(row)) };
                    text.inspect(|t| url_encode(t, out));
                    Ok(text.is_some())
                })
            })
        },
    },
    ScalarFunction {
        name: "URL_DECODE",
        resolve: |args| one_string(args, LogicalType::string().kind),
        kernel: |_| kernel(|args, _| map1::<_, String, StringArray>(strings(&args[0])?, |t| Ok(url_decode(t)))),
    },
    ScalarFunction {
        name: "INET_ATON",
        resolve: |args| one_string(args, TypeKind::BigInt),
        kernel: |_| kernel(|args, _| map1::<_, i64, Int64Array>(strings(&args[0])?, |t| Ok(inet_aton(t)))),
    },
    ScalarFunction {
        name: "INET_NTOA",
        resolve: |args| {
            count(args, 1..=1)?;
            expect_bigint(args, 0)?;
            Ok(LogicalType::string())
        },
        kernel: |_| kernel(|args, _| map1::<_, String, StringArray>(bigints(&args[0])?, |n| Ok(inet_ntoa(n)))),
    },
];

fn one_string(args: &mut [Expr], kind: TypeKind) -> Result<LogicalType, String> {
    count(args, 1..=1)?;
    expect_string(args, 0)?;
    Ok(LogicalType::new(kind))
}

fn resolve_parse_url(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=3)?;
    (0..args.len()).try_for_each(|i| expect_string(args, i))?;
    Ok(LogicalType::string())
}

fn parse_url_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    kernel(|args, rows| {
        let (urls, parts) = (strings(&args[0])?, strings(&args[1])?);
        let keys = args.get(2).map(strings).transpose()?;
        write_strings(rows, |row, out| {
            if urls.is_null(row) || parts.is_null(row) || keys.is_some_and(|k| k.is_null(row)) {
                return Ok(false);
            }
            let part = url_part(urls.value(row), parts.value(row), keys.map(|k| k.value(row)));
            if let Some(part) = &part {
                out.push_str(part);
            }
            Ok(part.is_some())
        })
    })
}

/// A URL taken apart as `java.net.URL` does, for the protocols Java knows.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    protocol: String,
    authority: Option<&'a str>,
    user_info: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

impl<'a> Url<'a> {
    fn parse(text: &'a str) -> Option<Url<'a>> {
        let text = text.trim_matches(|c: char| c <= ' ');
        let text = text.get(..4).filter(|p| p.eq_ignore_ascii_case("url:")).map_or(text, |_| &text[4..]);
        let (protocol, rest) = text.split_once(':')?;
        let protocol = protocol.to_ascii_lowercase();
        if !matches!(protocol.as_str(), "http" | "https" | "ftp" | "file" | "mailto") {
            return None;
        }
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let Some(after) = rest.strip_prefix("//") else {
            return Some(Url { protocol, authority: None, user_info: None, host: "", path: rest, query, fragment });
        };
        let (authority, path) = after.find('/').map_or((after, ""), |i| after.split_at(i));
        let (user_info, host_port) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let port_at = host_port.rfind(']').unwrap_or(0);
        let (host, port) = match host_port[port_at..].find(':') {
            Some(i) => (&host_port[..port_at + i], &host_port[port_at + i + 1..]),
            None => (host_port, ""),
        };
        let port_ok = port.is_empty() || port.parse::<i32>().is_ok_and(|p| p >= -1);
        port_ok.then_some(Url { protocol, authority: Some(authority), user_info, host, path, query, fragment })
    }
}

/// `PARSE_URL(url, part[, key])`; a key asks for one parameter of the query.
fn url_part(text: &str, part: &str, key: Option<&str>) -> Option<String> {
    let url = Url::parse(text)?;
    if let Some(key) = key {
        let query = url.query.filter(|_| part == "QUERY")?;
        return query.split('&').find_map(|p| p.split_once('=').filter(|(k, _)| *k == key)).map(|(_, v)| v.into());
    }
    match part {
        "HOST" => Some(url.host.into()),
        "PATH" => Some(url.path.into()),
        "QUERY" => url.query.map(Into::into),
        "REF" => url.fragment.map(Into::into),
        "PROTOCOL" => Some(url.protocol),
        "AUTHORITY" => url.authority.map(Into::into),
        "USERINFO" => url.user_info.map(Into::into),
        "FILE" => Some(url.query.map_or(url.path.to_string(), |q| format!("{}?{q}", url.path))),
        _ => None,
    }
}

/// `URL_ENCODE`: `application/x-www-form-urlencoded` in UTF-8.
fn url_encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// `URL_DECODE`; NULL for an incomplete or wrong `%xx`.
fn url_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let hex = rest.get(..2).and_then(|h| std::str::from_utf8(h).ok())?;
                bytes.push(u8::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))?);
                rest = &rest[2..];
            }
            other => bytes.push(*other),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `INET_ATON`: one to four parts of 0 to 255; the last of fewer parts is the last byte.
fn inet_aton(text: &str) -> Option<i64> {
    let parts: Vec<i64> = text
        .split('.')
        .map(|p| {
            let digits = !p.is_empty() && p.len() <= 9 && p.bytes().all(|b| b.is_ascii_digit());
            if digits { p.parse().ok().filter(|v| (0..=255).contains(v)) } else { None }
        })
        .collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 {
        return None;
    }
    let high = leading.iter().enumerate().map(|(i, part)| part << (24 - 8 * i)).sum::<i64>();
    Some(high + last)
}

/// `INET_NTOA`; NULL outside 32 bits.
fn inet_ntoa(address: i64) -> Option<String> {
    u32::try_from(address).ok().map(|a| std::net::Ipv4Addr::from(a).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_urls() {
        let shop = "https://shop.example.org:8443/x/y.html?lot=7&z=1#top";
        let full = "http://user:pw@host:80/p?q=1&r=2#f";
        for (url, part, key, expected) in [
            (shop, "HOST", None, Some("shop.example.org")),
            (shop, "PATH", None, Some("/x/y.html")),
            (shop, "QUERY", None, Some("lot=7&z=1")),
            (shop, "QUERY", Some("lot"), Some("7")),
            (shop, "REF", None, Some("top")),
            ("not a url", "HOST", None, None),
            (full, "AUTHORITY", None, Some("user:pw@host:80")),
            (full, "USERINFO", None, Some("user:pw")),
            (full, "FILE", None, Some("/p?q=1&r=2")),
            (full, "PORT", None, None),
            ("http://host", "PATH", None, Some("")),
            ("http://host", "QUERY", None, None),
            ("http://host?xq=1&q=a%20b", "QUERY", Some("q"), Some("a%20b")),
            ("http://host?q", "QUERY", Some("q"), None),
            ("http://host?q=1", "host", None, None),
            ("foo://host/a", "PROTOCOL", None, None),
            ("mailto:a@b.c", "PATH", None, Some("a@b.c")),
            ("HTTP://Host/a b", "PATH", None, Some("/a b")),
            ("http://[::1]:80/x", "HOST", None, Some("[::1]")),
            ("http:///x", "HOST", None, Some("")),
            ("http://h:8a/", "HOST", None, None),
            ("  http://h/p", "HOST", None, Some("h")),
            ("file:/a/b", "HOST", None, Some("")),
            ("http://h/p?", "QUERY", None, Some("")),
        ] {
            assert_eq!(url_part(url, part, key).as_deref(), expected, "{url} {part}");
        }
    }

    #[test]
    fn url_escapes() {
        let mut out = String::new();
        url_encode("å b&c*-._~🙂", &mut out);
        assert_eq!(out, "%C3%A5+b%26c*-._%7E%F0%9F%99%82");
        assert_eq!(url_decode("a%2Fb+c").as_deref(), Some("a/b c"));
        assert_eq!(url_decode("a%2"), None);
        assert_eq!(url_decode("%zz"), None);
    }

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("127.0.0.1", Some(2_130_706_433)),
            ("127.1", Some(2_130_706_433)),
            ("1", Some(1)),
            ("256.1.1.1", None),
            ("1.2.3.", None),
            ("1.2.3.4.5", None),
            ("01.02.03.04", Some(16_909_060)),
            ("1.2.256", None),
            ("", None),
        ] {
            assert_eq!(inet_aton(text), expected, "{text}");
        }
        assert_eq!(inet_ntoa(2_130_706_433).as_deref(), Some("127.0.0.1"));
        assert_eq!(inet_ntoa(-1), None);
    }
}
