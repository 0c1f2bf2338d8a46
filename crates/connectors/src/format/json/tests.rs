//! Flink's rules for JSON, and that the fast path keeps them.

use proptest::prelude::*;
use tidegate_api::{Schema, TypeKind};

use super::decode::JsonDecoder;
use super::shape::Shapes;
use super::{JsonFormat, NullKey, TimestampStandard};
use crate::format::{DecodeMetrics, Decoder, to_batch};
use crate::testing::{BYTES, STRING, array, decode_file, encode, print, schema};

fn lines(row: &Schema, options: &[(&str, &str)], text: &str) -> Vec<String> {
    let (rows, _) = decode_file("json", options, row, text);
    rows.unwrap_or_else(|e| panic!("{e}"))
}

fn error(row: &Schema, options: &[(&str, &str)], text: &str) -> String {
    let (rows, _) = decode_file("json", options, row, text);
    rows.expect_err("the text is wrong").to_string()
}

fn typed() -> Schema {
    use TypeKind as T;
    schema(&[
        ("b", T::Boolean),
        ("t", T::TinyInt),
        ("s", T::SmallInt),
        ("i", T::Int),
        ("l", T::BigInt),
        ("f", T::Float),
        ("d", T::Double),
        ("n", T::Decimal(8, 2)),
        ("v", STRING),
        ("dt", T::Date),
        ("tm", T::Time(0)),
        ("ts", T::Timestamp(3)),
        ("lz", T::TimestampLtz(3)),
        ("by", BYTES),
    ])
}

#[test]
fn every_type_reads_as_in_flink() {
    let text = r#"{"b":true,"t":127,"s":-32768,"i":2147483647,"l":-9223372036854775808,"f":1.1,"d":0.1,"n":123.456,"v":"abc","dt":"2031-02-28","tm":"12:34:56","ts":"2031-02-28 12:34:56.789","lz":"2031-02-28 12:34:56.789Z","by":"AAEC/w==","x":"unused"}
{"b":null,"i":null}
{}
{"b":"true","t":"5","s":6,"i":"7","l":8,"f":"1e3","d":"-2.50","n":"9.995","v":"x","dt":"1969-01-01","tm":"00:00:00","ts":"1969-12-31 00:00:00","lz":"1970-01-01 00:00:00Z","by":""}
{"d":12345678.9,"f":100000000,"n":-0.001,"l":10000000000}
{"d":1e-7,"f":0.0000001,"n":7}"#;
    let nulls = "[null, null, null, null, null, null, null, null, null, null, null, null, null, null]";
    let expected = [
        "[true, 127, -32768, 2147483647, -9223372036854775808, 1.1, 0.1, 123.46, abc, 2031-02-28, 12:34:56, 2031-02-28T12:34:56.789, 2031-02-28T12:34:56.789Z, [0, 1, 2, -1]]",
        nulls,
        nulls,
        "[true, 5, 6, 7, 8, 1000.0, -2.5, 10.00, x, 1969-01-01, 00:00, 1969-12-31T00:00, 1970-01-01T00:00:00Z, []]",
        "[null, null, null, null, 10000000000, 1.0E8, 1.23456789E7, 0.00, null, null, null, null, null, null]",
        "[null, null, null, null, null, 1.0E-7, 1.0E-7, 7.00, null, null, null, null, null, null]",
    ];
    assert_eq!(lines(&typed(), &[], text), expected);
}

#[test]
fn keys_are_exact_the_last_wins_and_anything_becomes_a_string() {
    let row = schema(&[("id", TypeKind::Int), ("name", STRING), ("Name", STRING), ("raw", STRING)]);
    let text = r#"{"id":1,"name":"low","Name":"Up","raw":{"a":[1, 2.50,"x"]}}
{"ID":2,"NAME":"shout","raw":12.50}
{"id":3,"name":"first","name":"second","raw":true}
{"id":4,"name":"\u00e9\u4e2d\ud83d\ude00","raw":null}
{"id":3.7,"\u006eame":"a	tab","raw":"2"}"#;
    let expected = [
        r#"[1, low, Up, {"a":[1,2.5,"x"]}]"#,
        "[null, null, null, 12.50]",
        "[3, second, null, true]",
        "[4, é中😀, null, null]",
        "[3, a\ttab, null, 2]",
    ];
    assert_eq!(lines(&row, &[], text), expected);
}

#[test]
fn nested_values() {
    let inner = TypeKind::Row(schema(&[("q", TypeKind::Int), ("w", STRING)]).fields);
    let map = |value| {
        let ty = tidegate_api::LogicalType::new;
        TypeKind::Map(Box::new(ty(STRING)), Box::new(ty(value)))
    };
    let row = schema(&[("id", TypeKind::Int), ("m", map(inner)), ("a", array(map(TypeKind::Int)))]);
    let text = r#"{"id":1,"m":{"k":{"q":5,"w":"five"}},"a":[{"y":1},{"z":2}]}
{"id":3,"m":{"k":null,"l":{}},"a":[null,{"z":null,"z":7}]}
{"a":[]}"#;
    let expected =
        ["[1, {k=+I[5, five]}, [{y=1}, {z=2}]]", "[3, {k=null, l=+I[null, null]}, [null, {z=7}]]", "[null, null, []]"];
    assert_eq!(lines(&row, &[], text), expected);
    let text = r#"{"id":1,"m":{"k":{"q":"five","w":"x"}},"a":[{"y":"b"},7,{"y":2}]}"#;
    let message = error(&row, &[], text);
    assert!(message.ends_with("at line 1: field 'm.k.q': \"five\" is no INT"), "{message}");
    let (rows, metrics) = decode_file("json", &[("ignore-parse-errors", "true")], &row, text);
    assert_eq!(rows.expect("rows"), ["[1, {k=+I[null, x]}, [{y=null}, null, {y=2}]]"]);
    assert_eq!(metrics.field_errors.get(), 3);
}

#[test]
fn bad_fields_and_bad_messages() {
    let row = schema(&[("id", TypeKind::Int), ("v", TypeKind::Int), ("w", STRING)]);
    let text = r#"{"id":1,"v":10,"w":"fine"}
{"id":2,"v":"ten","w":"bad int"}
this is not json

{"id":3,"v":30
{"id":4,"v":4.7,"w":5}
{"id":6,"v":true,"w":[1, 2]}
[1,2,3]
{"id":99999999999,"v":1,"w":"wide"}
{"id":7} {"id":8}"#;
    let (rows, metrics) = decode_file("json", &[("ignore-parse-errors", "true")], &row, text);
    let expected = ["[1, 10, fine]", "[2, null, bad int]", "[4, 4, 5]", "[6, null, [1,2]]", "[null, 1, wide]"];
    assert_eq!(rows.expect("rows"), expected);
    assert_eq!((metrics.errors.get(), metrics.field_errors.get(), metrics.blank.get()), (4, 3, 1));
    let message = error(&row, &[], "{\"id\":1}\nthis is not json");
    assert!(message.starts_with("Failed to deserialize JSON 'this is not json' at line 2: "), "{message}");
    let message = error(&row, &[], "{\"id\":1,\"v\":\"ten\"}");
    assert!(message.ends_with("field 'v': \"ten\" is no INT"), "{message}");
    let message = error(&row, &[("fail-on-missing-field", "true")], "{\"id\":1,\"v\":2}");
    assert!(message.contains("field 'w'"), "{message}");
    let both = [("fail-on-missing-field", "true"), ("ignore-parse-errors", "true")];
    assert!(error(&row, &both, "").contains("both be true"));
}

#[test]
fn timestamps_have_two_standards_and_offsets() {
    let row = schema(&[("a", TypeKind::Timestamp(3)), ("b", TypeKind::TimestampLtz(3))]);
    let iso = [("timestamp-format.standard", "ISO-8601")];
    let text = r#"{"a":"2031-04-05T06:07:08.123","b":"2031-04-05T06:07:08.123Z"}
{"a":"2031-04-05T06:07","b":"2024-02-12T21:31:21-05:00"}
{"b":"2020-03-26T11:03:29.986905-0700"}"#;
    let expected = [
        "[2031-04-05T06:07:08.123, 2031-04-05T06:07:08.123Z]",
        "[2031-04-05T06:07, 2024-02-13T02:31:21Z]",
        "[null, 2020-03-26T18:03:29.986Z]",
    ];
    assert_eq!(lines(&row, &iso, text), expected);
    assert!(error(&row, &iso, r#"{"a":"2024-02-12T21:31:21-05:00"}"#).contains("has a time zone"));
    assert!(error(&row, &iso, r#"{"b":"2021-01-01 01:02:03"}"#).contains("field 'b'"));
    let sql = r#"{"a":"2022-09-21 09:45:47.387344020","b":"2022-09-21 09:45:47.387344020Z"}"#;
    assert_eq!(lines(&row, &[], sql), ["[2022-09-21T09:45:47.387, 2022-09-21T09:45:47.387Z]"]);
    assert!(error(&row, &[], r#"{"a":"2031-04-05T06:07:08"}"#).contains("field 'a'"));
    assert!(error(&row, &[], r#"{"b":"2031-04-05 06:07:08"}"#).contains("field 'b'"));
}

#[test]
fn rows_are_written_as_flink_writes_them() {
    let text = r#"{"b":true,"t":1,"s":2,"i":3,"l":4,"f":1.5,"d":1e10,"n":12.50,"v":"a\"b\\\n\u0001é","dt":"2026-10-01","tm":"10:00:00","ts":"2026-10-01 10:00:00.100","lz":"2026-10-01 10:00:00Z","by":"yv4="}
{"n":100.00,"ts":"2026-10-01 00:00:00"}"#;
    let first = r#"{"b":true,"t":1,"s":2,"i":3,"l":4,"f":1.5,"d":1.0E10,"n":12.5,"v":"a\"b\\\n\u0001é","dt":"2026-10-01","tm":"10:00:00","ts":"2026-10-01 10:00:00.1","lz":"2026-10-01 10:00:00Z","by":"yv4="}"#;
    assert_eq!(encode("json", &[], &typed(), text).expect("json")[0], first);
    let short = [("encode.ignore-null-fields", "true"), ("timestamp-format.standard", "ISO-8601")];
    let written = encode("json", &short, &typed(), text).expect("json");
    assert_eq!(written[1], r#"{"n":1E+2,"ts":"2026-10-01T00:00:00"}"#);
    let plain = [("encode.ignore-null-fields", "true"), ("encode.decimal-as-plain-number", "true")];
    let written = encode("json", &plain, &typed(), text).expect("json");
    assert_eq!(written[1], r#"{"n":100,"ts":"2026-10-01 00:00:00"}"#);
}

/// Decodes line by line; also the outcome of each line.
fn outcomes(row: &Schema, text: &[String], ignore: bool, fast: bool) -> (Vec<String>, Vec<String>, [u64; 3]) {
    let format = JsonFormat {
        fail_on_missing_field: false,
        ignore_parse_errors: ignore,
        standard: TimestampStandard::Sql,
        null_key: NullKey::Fail,
        plain_decimals: false,
        skip_nulls: false,
    };
    let metrics = DecodeMetrics::default();
    let all: Vec<usize> = (0..row.len()).collect();
    let mut decoder = JsonDecoder::new(&format, row, &all, metrics.clone());
    if !fast {
        decoder.set_shapes(Shapes::off());
    }
    let outcomes = text.iter().map(|line| format!("{:?}", decoder.decode(Some(line.as_bytes())))).collect();
    let rows = decoder.rows();
    let (columns, _) = decoder.finish().expect("columns");
    let batch = to_batch(row.to_arrow(), columns, rows).expect("batch");
    let counts = [metrics.errors.get(), metrics.field_errors.get(), metrics.blank.get()];
    (outcomes, print(row, &batch).expect("rows"), counts)
}

fn raw_value() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0",
        "01",
        "7",
        "-12",
        "3.7",
        "12.50",
        "0.1",
        "1e3",
        "1E-2",
        "1.",
        ".5",
        "-",
        "+1",
        "9007199254740993",
        "123456789012345678",
        "1234567890123456789",
        "99999999999999999999",
        "0.30000000000000004",
        "17.123456789012345678",
        "1.7976931348623157e308",
        "1e400",
        "\"\"",
        "\"2\"",
        "\" 5 \"",
        "\"a\\u0041\"",
        "\"a\\\\\"",
        "\"é中\"",
        "\"tab\there\"",
        "\"true\"",
        "\"2026-10-01 10:00:03.000\"",
        "\"2026-10-01 10:00:03\"",
        "\"2026-02-30 10:00:03\"",
        "\"2026-10-01T10:00:03\"",
        "\"2026-10-01 10:00:03.123456\"",
        "\"2026-10-01\"",
        "\"1969-12-31 23:59:59.999\"",
        "[]",
        "[1, null,\"2\"]",
        "{\"q\": 1.50}",
        "{}",
        "tru",
        "nul",
        "\"open",
        "NaN",
        "1 2",
        "",
    ]);
    let fixed = fixed.prop_map(str::to_owned);
    prop_oneof![
        4 => fixed,
        1 => any::<i64>().prop_map(|v| v.to_string()),
        1 => any::<f64>().prop_filter("finite", |v| v.is_finite()).prop_map(|v| format!("{v:?}")),
        1 => (any::<i32>(), 0usize..6).prop_map(|(v, places)| format!("{:.*}", places, f64::from(v) / 1000.0)),
        1 => "[a-z \\\\\"é]{0,12}".prop_map(|v| format!("\"{v}\"")),
    ]
}

/// Lines of a few shapes, their values changing, some of them damaged.
fn messy_lines() -> impl Strategy<Value = Vec<String>> {
    let key =
        prop::sample::select(vec!["s", "l", "d", "ts", "i", "n", "b", "a", "x", "long_key_nobody_wants", "\\u0073"]);
    let glue = prop::sample::select(vec![("{", ":", ",", "}"), ("{ ", ": ", ", ", " }"), (" {", " :", " ,", "} ")]);
    let shape = (prop::collection::vec(key, 0..7), glue);
    let line =
        (0usize..3, prop::collection::vec(raw_value(), 7), prop::option::weighted(0.15, (0usize..60, "[\\PC]?")));
    (prop::collection::vec(shape, 3), prop::collection::vec(line, 1..40)).prop_map(|(shapes, lines)| {
        let one = |(shape, values, damage): (usize, Vec<String>, Option<(usize, String)>)| {
            let (keys, (open, colon, comma, close)) = &shapes[shape];
            let fields: Vec<String> =
                keys.iter().zip(&values).map(|(key, value)| format!("\"{key}\"{colon}{value}")).collect();
            let mut line = format!("{open}{}{close}", fields.join(comma));
            if let Some((at, text)) = damage {
                let at = (0..=at.min(line.len())).rev().find(|i| line.is_char_boundary(*i)).unwrap_or(0);
                let end = (at + 1..=line.len()).find(|i| line.is_char_boundary(*i)).unwrap_or(at);
                line.replace_range(at..end, &text);
            }
            line
        };
        lines.into_iter().map(one).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_fast_path_gives_what_the_parser_gives(lines in messy_lines(), ignore: bool) {
        let row = schema(&[
            ("s", STRING),
            ("l", TypeKind::BigInt),
            ("d", TypeKind::Double),
            ("ts", TypeKind::Timestamp(3)),
            ("i", TypeKind::Int),
            ("n", TypeKind::Decimal(8, 2)),
            ("b", TypeKind::Boolean),
            ("a", array(TypeKind::Int)),
        ]);
        prop_assert_eq!(outcomes(&row, &lines, ignore, true), outcomes(&row, &lines, ignore, false));
    }
}

#[test]
fn lines_of_one_shape_take_the_fast_path() {
    let row = schema(&[("user_id", STRING), ("ts", TypeKind::Timestamp(3)), ("price", TypeKind::Double)]);
    let line = |i: usize| {
        format!("{{\"user_id\":\"u{i}\",\"ts\":\"2026-10-01 10:00:{:02}.000\",\"seq\":{i},\"price\":{i}.34}}", i % 60)
    };
    let text: Vec<String> = (0..500).map(line).collect();
    let format = JsonFormat {
        fail_on_missing_field: false,
        ignore_parse_errors: false,
        standard: TimestampStandard::Sql,
        null_key: NullKey::Fail,
        plain_decimals: false,
        skip_nulls: false,
    };
    let mut decoder = JsonDecoder::new(&format, &row, &[0, 1, 2], DecodeMetrics::default());
    for line in &text {
        assert_eq!(decoder.decode(Some(line.as_bytes())), Ok(1));
    }
    assert_eq!(decoder.shapes().counts(), (499, 1), "only the first line is read by the parser");
}
