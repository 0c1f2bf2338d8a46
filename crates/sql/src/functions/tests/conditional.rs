use super::{check, check_types};

#[test]
fn null_is_neither_true_nor_false() {
    check(&[
        ("CAST(NULL AS BOOLEAN) AND FALSE", "FALSE"),
        ("CAST(NULL AS BOOLEAN) AND TRUE", "NULL"),
        ("CAST(NULL AS BOOLEAN) OR TRUE", "TRUE"),
        ("NOT CAST(NULL AS BOOLEAN)", "NULL"),
        ("CAST(NULL AS BOOLEAN) IS NOT TRUE", "TRUE"),
        ("CAST(NULL AS BOOLEAN) IS UNKNOWN", "TRUE"),
        ("FALSE IS FALSE", "TRUE"),
        ("CAST(NULL AS BOOLEAN) IS FALSE", "FALSE"),
        ("CAST(NULL AS INT) IS NULL", "TRUE"),
        ("CAST(NULL AS INT) = 1", "NULL"),
        ("CAST(NULL AS INT) IS DISTINCT FROM 1", "TRUE"),
        ("CAST(NULL AS INT) IS NOT DISTINCT FROM CAST(NULL AS INT)", "TRUE"),
        ("3 IN (1, 2, NULL)", "NULL"),
        ("2 IN (1, 2, NULL)", "TRUE"),
        ("3 NOT IN (1, 2)", "TRUE"),
        ("'b' IN ('a', 'b')", "TRUE"),
        ("1.5 IN (1, 2)", "FALSE"),
        ("5 BETWEEN SYMMETRIC 7 AND 3", "TRUE"),
    ]);
}

#[test]
fn sides_of_a_comparison_meet() {
    check(&[
        ("1 = 1.0", "TRUE"),
        ("1 < 1.5e0", "TRUE"),
        ("'a' = CAST('a' AS CHAR(2))", "FALSE"),
        ("'b' > 'abc'", "TRUE"),
        ("TRUE > FALSE", "TRUE"),
        ("1 = '1'", "!implicit type conversion between INTEGER and CHAR is not supported now"),
        ("1 < '2'", "TRUE"),
        ("1 IN ('1', '2')", "TRUE"),
        ("TIMESTAMP '2031-03-04 08:00:10' >= '2031-03-04 08:00:10'", "TRUE"),
        ("TIMESTAMP '2031-03-04 08:00:10' >= 'soon'", "NULL"),
        ("DATE '2031-03-04' = '2031-03-04'", "TRUE"),
        (
            "TIMESTAMP '2031-03-04 00:00:00' = DATE '2031-03-04'",
            "!Cannot apply '=' to arguments of type '<TIMESTAMP(0)> = <DATE>'",
        ),
        ("DATE '2031-03-04' IN (TIMESTAMP '2031-03-04 00:00:00')", "!compatible types"),
        ("X'01' < X'0100'", "TRUE"),
        ("INTERVAL '1' DAY = INTERVAL '24' HOUR", "TRUE"),
    ]);
}

#[test]
fn the_first_that_fits() {
    check(&[
        ("COALESCE(CAST(NULL AS INT), 2, 1 / 0)", "2"),
        ("COALESCE(CAST(NULL AS STRING), CAST(NULL AS STRING))", "NULL"),
        ("NULLIF('red', 'red')", "NULL"),
        ("NULLIF('blue', 'red')", "blue"),
        ("NULLIF(1, 1.0)", "NULL"),
        ("IF(TRUE, 'yes', 'no')", "yes"),
        ("IF(CAST(NULL AS BOOLEAN), 'yes', 'no')", "no"),
        ("IF(FALSE, 1 / 0, 3)", "3"),
        ("IFNULL(CAST(NULL AS BIGINT), -1)", "-1"),
        ("GREATEST(1, 5, 3)", "5"),
        ("LEAST(1, 5.5, 0)", "0.0"),
        ("GREATEST(1, CAST(NULL AS INT))", "NULL"),
        ("CASE WHEN FALSE THEN 1 / 0 WHEN TRUE THEN 2 ELSE 3 END", "2"),
        ("CASE 'b' WHEN 'a' THEN 1 END", "NULL"),
        ("CASE WHEN TRUE THEN 1 ELSE 2.5e0 END", "1.0"),
        ("FALSE AND 1 / 0 = 1", "FALSE"),
        ("TRUE OR 1 / 0 = 1", "TRUE"),
        ("TYPEOF('ab')", "CHAR(2) NOT NULL"),
        ("TYPEOF(CAST('ab' AS STRING), TRUE)", "VARCHAR(2147483647) NOT NULL"),
    ]);
    check_types(&[
        ("COALESCE(CAST(NULL AS INT), 1)", "INT NOT NULL"),
        ("NULLIF(1, 2)", "INT"),
        ("CASE WHEN TRUE THEN 'E' WHEN FALSE THEN 'Wst' END", "VARCHAR(3)"),
        ("IF(TRUE, 1, CAST(2 AS BIGINT))", "BIGINT NOT NULL"),
        ("1 = 1", "BOOLEAN NOT NULL"),
        ("CAST(NULL AS INT) = 1", "BOOLEAN"),
    ]);
}
