//! Flink's rules for CSV.

use tidegate_api::{Schema, TypeKind};

use crate::testing::{STRING, array, decode_file, encode, schema};

fn lines(row: &Schema, options: &[(&str, &str)], text: &str) -> Vec<String> {
    let (rows, _) = decode_file("csv", options, row, text);
    rows.unwrap_or_else(|e| panic!("{e}"))
}

fn error(row: &Schema, options: &[(&str, &str)], text: &str) -> String {
    let (rows, _) = decode_file("csv", options, row, text);
    rows.expect_err("the text is wrong").to_string()
}

const IGNORE: &[(&str, &str)] = &[("ignore-parse-errors", "true")];

#[test]
fn fields_read_as_in_flink() {
    let row = schema(&[
        ("id", TypeKind::Int),
        ("txt", STRING),
        ("n", TypeKind::Double),
        ("ts", TypeKind::Timestamp(3)),
        ("ok", TypeKind::Boolean),
        ("d", TypeKind::Date),
    ]);
    let text = "1,alpha,2.50,2031-01-01 00:00:00,true,2031-01-01\n\
                2,\"quoted, comma\",-1e3,2031-01-01 00:00:01.5,false,1969-12-31\n\
                3,\"he said \"\"no\"\"\",1,2031-01-01 00:00:02,TRUE,2031-02-28\r\n\
                4,,0.125,2031-1-1 0:0:2.001,true,2031-1-1\n\
                5, spaced ,  7 ,2031-01-01 00:00:03,yes,2031-01-01";
    let expected = [
        "[1, alpha, 2.5, 2031-01-01T00:00, true, 2031-01-01]",
        "[2, quoted, comma, -1000.0, 2031-01-01T00:00:01.500, false, 1969-12-31]",
        "[3, he said \"no\", 1.0, 2031-01-01T00:00:02, true, 2031-02-28]",
        "[4, , 0.125, 2031-01-01T00:00:02.001, true, 2031-01-01]",
        "[5,  spaced , 7.0, 2031-01-01T00:00:03, false, 2031-01-01]",
    ];
    assert_eq!(lines(&row, &[], text), expected);
}

#[test]
fn errors_name_the_line_and_may_be_ignored_by_field() {
    let row = schema(&[("id", TypeKind::Int), ("txt", STRING), ("n", TypeKind::Double)]);
    let text = "1,\"two\nlines\",2.50\n2,b,\n\n3,c,x\n4,d\n5,e,1,extra\n\"6\"x,f,1\n7,g,1,\n";
    let (rows, metrics) = decode_file("csv", IGNORE, &row, text);
    let expected =
        ["[1, two\nlines, 2.5]", "[2, b, null]", "[null, null, null]", "[3, c, null]", "[4, d, null]", "[7, g, 1.0]"];
    assert_eq!(rows.expect("rows"), expected);
    assert_eq!((metrics.errors.get(), metrics.field_errors.get(), metrics.blank.get()), (2, 3, 0));
    let (rows, metrics) = decode_file("csv", &[IGNORE[0], ("allow-comments", "true")], &row, "1,a,1\n\n2,b,2\n");
    assert_eq!((rows.expect("rows").len(), metrics.blank.get()), (2, 1));
    let message = error(&row, &[], text);
    assert!(message.starts_with("Failed to deserialize CSV '2,b,' at line 3: field 'n': an empty text"), "{message}");
    assert!(error(&row, &[], "4,d\n").contains("Row length mismatch. 3 fields expected but was 2."));
    assert!(error(&row, &[], "5,e,1,extra\n").contains("Too many entries: expected at most 3"));
    assert!(error(&row, &[("allow-trailing-comma", "false")], "7,g,1,\n").contains("Too many entries"));
    assert_eq!(lines(&row, &[("null-literal", "")], "2,,\n"), ["[2, null, null]"]);
    assert_eq!(lines(&row, &[("ignore-trailing-unmappable", "true")], "5,e,1,extra\n"), ["[5, e, 1.0]"]);
}

#[test]
fn options_change_the_syntax() {
    let row = schema(&[("id", TypeKind::Int), ("parts", array(STRING)), ("txt", STRING)]);
    let options = [("array-element-delimiter", "|"), ("escape-character", "\\"), ("allow-comments", "true")];
    let text = "1,a|b|c,plain\n# no row\n2,solo,es\\,caped\n3,x||z,last\n4,,\n";
    let expected = ["[1, [a, b, c], plain]", "[2, [solo], es,caped]", "[3, [x, , z], last]", "[4, [], ]"];
    assert_eq!(lines(&row, &options, text), expected);
    let semi = [("field-delimiter", ";"), ("disable-quote-character", "true"), ("array-element-delimiter", ",")];
    assert_eq!(lines(&row, &semi, "1;a,b;\"x\"\n"), ["[1, [a, b], \"x\"]"]);
    assert!(error(&row, &[("field-delimiter", "ab")], "").contains("csv.field-delimiter"));
    let both = [("quote-character", "'"), ("disable-quote-character", "true")];
    assert!(error(&row, &both, "").contains("at the same time"));
}

#[test]
fn records_are_quoted_as_jackson_quotes_them() {
    let row = schema(&[
        ("s", STRING),
        ("n", TypeKind::Decimal(10, 2)),
        ("ts", TypeKind::Timestamp(3)),
        ("a", array(TypeKind::Int)),
        ("d", TypeKind::Double),
    ]);
    let json = r#"{"s":"plain","n":12.50,"ts":"2026-10-01 10:00:00.1","a":[1,2],"d":1e10}
{"s":"say \"hi\", you","n":100.00}
{"s":"a-text-of-more-than-24-characters","n":0}"#;
    let expected = [
        "plain,12.5,\"2026-10-01 10:00:00.1\",1;2,1.0E10",
        "\"say \"\"hi\"\", you\",1E+2,,,",
        "\"a-text-of-more-than-24-characters\",0,,,",
    ];
    assert_eq!(encode("csv", &[], &row, json).expect("csv"), expected);
    let plain = [("write-bigdecimal-in-scientific-notation", "false"), ("null-literal", "n/a")];
    assert_eq!(encode("csv", &plain, &row, json).expect("csv")[1], "\"say \"\"hi\"\", you\",100,n/a,n/a,n/a");
}
