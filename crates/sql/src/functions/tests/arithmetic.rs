use tidegate_api::value::Value;

use super::{bind, check, check_types};
use crate::functions::fold;

#[test]
fn integers_wrap_and_divide_toward_zero() {
    check(&[
        ("2147483647 + 1", "-2147483648"),
        ("CAST(127 AS TINYINT) + CAST(1 AS TINYINT)", "-128"),
        ("-5 / 2", "-2"),
        ("MOD(-5, 3)", "-2"),
        ("-5 % 3", "-2"),
        ("ABS(-2147483648)", "-2147483648"),
        ("1 / 0", "!Division by zero"),
        ("MOD(1, 0)", "!Division by zero"),
        ("CAST(NULL AS INT) / 0", "NULL"),
        ("1 + CAST(NULL AS INT)", "NULL"),
        ("9223372036854775807 * 2", "-2"),
    ]);
}

#[test]
fn decimals_have_derived_types_and_round_half_up() {
    check_types(&[
        ("5 / 2", "INT NOT NULL"),
        ("5 / 2.0", "DECIMAL(17, 6) NOT NULL"),
        ("1.5 + 1", "DECIMAL(12, 1) NOT NULL"),
        ("1.5 * 1e0", "DOUBLE NOT NULL"),
        ("0.1 / 3", "DECIMAL(13, 12) NOT NULL"),
        ("CAST(1 AS DECIMAL(10,2)) / CAST(1 AS DECIMAL(10,2))", "DECIMAL(23, 13) NOT NULL"),
        ("CAST(1 AS DECIMAL(10,2)) * CAST(1 AS DECIMAL(10,2))", "DECIMAL(21, 4) NOT NULL"),
        ("CAST(1 AS DECIMAL(38,10)) * CAST(1 AS DECIMAL(38,10))", "DECIMAL(38, 6) NOT NULL"),
        ("CAST(1 AS FLOAT) * CAST(1 AS DECIMAL(5,2))", "DOUBLE NOT NULL"),
        ("CAST(1 AS TINYINT) * CAST(1 AS SMALLINT)", "SMALLINT NOT NULL"),
        ("1 + CAST(1 AS BIGINT)", "BIGINT NOT NULL"),
        ("1 + 1e0", "DOUBLE NOT NULL"),
        ("1 + CAST(NULL AS INT)", "INT"),
        ("CAST(7 AS BIGINT) % 4", "INT NOT NULL"),
        ("FLOOR(2.55)", "DECIMAL(3, 0) NOT NULL"),
    ]);
    check(&[
        ("5 / 2.0", "2.500000"),
        ("1.50 / 3", "0.5000000000000"),
        ("2.0 / 0", "!Division by zero"),
        ("7.5 % 2", "1.5"),
        ("0.1 + 0.2", "0.3"),
        ("CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0)) + 1", "NULL"),
    ]);
}

#[test]
fn doubles_follow_java() {
    check(&[
        ("0.1e0 + 0.2e0", "0.30000000000000004"),
        ("CAST('NaN' AS DOUBLE) > 1e300", "FALSE"),
        ("CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE) + 0", "FALSE"),
        ("0e0 = -0e0 * 1e0", "TRUE"),
        ("POWER(2, 10)", "1024.0"),
        ("SQRT(-4e0)", "NaN"),
        ("LOG2(8)", "3.0"),
        ("LOG(2, 8)", "3.0"),
        ("LOG10(0.25e0 * 100)", "1.3979400086720377"),
        ("DEGREES(PI())", "180.0"),
        ("ROUND(SIN(1), 9)", "0.841470985"),
        ("ROUND(COT(2), 9)", "-0.457657554"),
        ("ATAN2(1, -1)", "2.356194490192345"),
    ]);
}

#[test]
fn both_sides_alike_are_equal_without_a_look() {
    let expr = bind("CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)", "UTC").expect("binds");
    let alike = fold(expr, "UTC");
    assert_eq!(alike.as_literal(), Some(&Value::Boolean(true)));
}

#[test]
fn rounding_is_half_away_from_zero() {
    check(&[
        ("ROUND(2.5)", "3"),
        ("ROUND(-2.5)", "-3"),
        ("ROUND(1234, -2)", "1200"),
        ("ROUND(2.345, 2)", "2.35"),
        ("ROUND(2.675e0, 2)", "2.68"),
        ("TRUNCATE(2.79, 1)", "2.7"),
        ("TRUNCATE(-2.79e0)", "-2.0"),
        ("CEIL(2.1)", "3"),
        ("FLOOR(-2.1)", "-3"),
        ("CEIL(2.1e0)", "3.0"),
        ("FLOOR(7)", "7"),
        ("SIGN(-4e0)", "-1.0"),
        ("SIGN(-2.50)", "-1.00"),
        ("ABS(-1.5)", "1.5"),
        ("BIN(-1)", "1111111111111111111111111111111111111111111111111111111111111111"),
        ("HEX(-1)", "FFFFFFFFFFFFFFFF"),
        ("HEX('hé')", "68C3A9"),
        ("CAST(UNHEX('4869') AS STRING)", "Hi"),
    ]);
}

#[test]
fn numbers_only() {
    check(&[("MOD('a', 1)", "!MOD"), ("MOD(1.5e0, 1)", "!MOD"), ("TRUE + 1", "!'+'")]);
}
