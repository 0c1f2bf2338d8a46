use super::{check, check_in, check_types};

#[test]
fn text_becomes_numbers() {
    check(&[
        ("CAST(' 12 ' AS INT)", "12"),
        ("CAST('12.7' AS INT)", "12"),
        ("CAST('+3' AS INT)", "3"),
        ("CAST('east' AS INT)", "!Cannot cast 'east' to INT: For input string: 'east'. Invalid character found."),
        ("CAST('' AS INT)", "!Input is empty"),
        ("CAST('300' AS TINYINT)", "!Overflow"),
        ("CAST('-128' AS TINYINT)", "-128"),
        ("CAST('-9223372036854775808' AS BIGINT)", "-9223372036854775808"),
        ("TRY_CAST('9223372036854775808' AS BIGINT)", "NULL"),
        ("TRY_CAST('1e3' AS INT)", "NULL"),
        ("CAST('1e3' AS DOUBLE)", "1000.0"),
        ("CAST('-.5' AS DOUBLE)", "-0.5"),
        ("CAST('NaN' AS DOUBLE)", "NaN"),
        ("TRY_CAST('nan' AS DOUBLE)", "NULL"),
        ("CAST('1.005' AS DECIMAL(10,2))", "1.01"),
        ("CAST('1e3' AS DECIMAL(10,2))", "1000.00"),
        ("CAST('1234.5' AS DECIMAL(3,1))", "NULL"),
        ("CAST('x' AS DECIMAL(3,1))", "!'x'"),
        ("TRY_CAST('x' AS DECIMAL(3,1))", "NULL"),
        ("CAST('Yes' AS BOOLEAN)", "TRUE"),
        ("CAST('f' AS BOOLEAN)", "FALSE"),
        ("TRY_CAST('12' AS BOOLEAN)", "NULL"),
    ]);
}

#[test]
fn text_becomes_points_in_time() {
    check(&[
        ("CAST('2031-1-5' AS DATE)", "2031-01-05"),
        ("TRY_CAST('12' AS DATE)", "0012-01-01"),
        ("TRY_CAST('2031-02-29' AS DATE)", "NULL"),
        ("TRY_CAST('99999999999' AS DATE)", "NULL"),
        ("CAST('2031-02-03 10:00:00' AS DATE)", "2031-02-03"),
        ("TRY_CAST('2031-02-29' AS TIMESTAMP(3))", "2031-02-28 00:00:00.000"),
        ("TRY_CAST('2031-04-32' AS TIMESTAMP(3))", "NULL"),
        ("TRY_CAST('2031-01-01T00:00:00' AS TIMESTAMP(3))", "NULL"),
        ("CAST('soon' AS TIMESTAMP(3))", "!Text 'soon' could not be parsed"),
        ("CAST('2020-1-1' AS TIMESTAMP(0))", "2020-01-01 00:00:00"),
        ("CAST('2031-02-03 04:05:06.987654321' AS TIMESTAMP(6))", "2031-02-03 04:05:06.987654"),
        ("CAST('9999-12-31 23:59:59.999999999' AS TIMESTAMP(9))", "9999-12-31 23:59:59.999999999"),
        ("CAST('0001-01-01 00:00:01.000001' AS TIMESTAMP(3))", "0001-01-01 00:00:01.000"),
        ("CAST('10:20:30.5' AS TIME(0))", "10:20:30"),
        ("CAST('10:20' AS TIME(3))", "10:20:00.000"),
    ]);
}

#[test]
fn numbers_become_numbers() {
    check(&[
        ("CAST(300 AS TINYINT)", "44"),
        ("CAST(1e20 AS BIGINT)", "9223372036854775807"),
        ("CAST(1e20 AS INT)", "2147483647"),
        ("CAST(-12.7 AS INT)", "-12"),
        ("CAST(1.255 AS DECIMAL(3,2))", "1.26"),
        ("CAST(1000 AS DECIMAL(3,0))", "NULL"),
        ("CAST(0.1e0 AS DECIMAL(20,18))", "0.100000000000000000"),
        ("CAST(1.5 AS DOUBLE)", "1.5"),
        ("CAST(123456789.125e0 AS FLOAT)", "1.23456792E8"),
        ("CAST(2 AS BOOLEAN)", "TRUE"),
        ("CAST(TRUE AS INT)", "1"),
        ("CAST(FALSE AS DECIMAL(5,2))", "0.00"),
    ]);
}

#[test]
fn everything_becomes_text() {
    check(&[
        ("CAST(1 > 2 AS STRING)", "FALSE"),
        ("CAST(1.0E0/4 AS STRING)", "0.25"),
        ("CAST(1e10 AS STRING)", "1.0E10"),
        ("CAST(CAST(0 AS DECIMAL(20,10)) AS STRING)", "0.0000000000"),
        ("CAST(X'4869' AS STRING)", "Hi"),
        ("'[' || CAST('ab' AS CHAR(4)) || ']'", "[ab  ]"),
        ("CAST('abcdefgh' AS VARCHAR(3))", "abc"),
        ("CAST(12345 AS VARCHAR(3))", "123"),
        ("CAST(DATE '0099-01-01' AS STRING)", "0099-01-01"),
        ("CAST(TIME '23:15:00' AS STRING)", "23:15:00"),
        ("CAST(TIMESTAMP '2031-02-03 04:05:06.70' AS STRING)", "2031-02-03 04:05:06.70"),
        ("CAST(INTERVAL '1-2' YEAR TO MONTH AS STRING)", "+1-02"),
        ("CAST(INTERVAL '3 04:05:06' DAY TO SECOND AS STRING)", "+3 04:05:06.000"),
        ("CAST(INTERVAL -'90' MINUTE AS STRING)", "-0 01:30:00.000"),
        ("CAST(ROW('Lin', ROW(4, CAST(NULL AS STRING))) AS STRING)", "(Lin, (4, NULL))"),
        ("CAST(ARRAY[3, 1, CAST(NULL AS INT)] AS STRING)", "[3, 1, NULL]"),
        ("CAST(MAP['k', TRUE] AS STRING)", "{k=TRUE}"),
    ]);
}

#[test]
fn nested_values_are_cast_part_by_part() {
    check(&[
        ("CAST(ROW(1, '2') AS ROW<a BIGINT, b INT>)", "(1, 2)"),
        ("CAST(ROW(1, '2') AS ROW<a BIGINT, b INT>).b + 1", "3"),
        ("CAST(ARRAY['1', '2'] AS ARRAY<INT>)", "[1, 2]"),
        ("CAST(MAP['1', 2] AS MAP<INT, STRING>)", "{1=2}"),
        ("CAST(ARRAY['1', 'x'] AS ARRAY<INT>)", "!'x'"),
        ("TRY_CAST(ARRAY['1', 'x'] AS ARRAY<INT>)", "[1, NULL]"),
    ]);
}

#[test]
fn zones_meet_like_javas_local_times() {
    check_in(
        "America/Los_Angeles",
        &[
            // Skipped by the clock change: an hour later. Happens twice: the first one.
            ("CAST(CAST(TIMESTAMP '2021-03-14 02:30:00' AS TIMESTAMP_LTZ(0)) AS STRING)", "2021-03-14 03:30:00"),
            ("CAST(TIMESTAMP '2021-11-07 01:30:00' AS TIMESTAMP_LTZ(0)) = TO_TIMESTAMP_LTZ(1636273800, 0)", "TRUE"),
            ("CAST(TO_TIMESTAMP_LTZ(0, 3) AS TIMESTAMP(3))", "1969-12-31 16:00:00.000"),
            ("CAST(TO_TIMESTAMP_LTZ(0, 3) AS DATE)", "1969-12-31"),
            ("CAST(DATE '2021-07-01' AS TIMESTAMP_LTZ(0))", "2021-07-01 00:00:00"),
        ],
    );
}

#[test]
fn some_casts_do_not_exist() {
    check(&[
        ("CAST(TIMESTAMP '2020-01-01 00:00:00' AS BIGINT)", "!The cast from TIMESTAMP type to NUMERIC type is not"),
        ("CAST(ARRAY[1] AS INT)", "!cannot convert"),
        ("CAST(1 AS DATE)", "!cannot convert"),
    ]);
    check_types(&[("CAST('1' AS INT)", "INT NOT NULL"), ("TRY_CAST('1' AS INT)", "INT"), ("CAST(NULL AS INT)", "INT")]);
}
