use super::{check, check_in, check_types};

#[test]
fn intervals_move_points_in_time() {
    check(&[
        ("TIMESTAMP '2031-01-31 00:00:00.000' + INTERVAL '1' MONTH", "2031-02-28 00:00:00.000"),
        ("TIMESTAMP '2032-03-31 10:00:00' - INTERVAL '1-1' YEAR TO MONTH", "2031-02-28 10:00:00"),
        ("TIMESTAMP '2031-01-31 00:00:00.000' - INTERVAL '90' MINUTE", "2031-01-30 22:30:00.000"),
        ("INTERVAL '1' DAY + DATE '2031-12-31'", "2032-01-01"),
        ("DATE '2031-12-31' - INTERVAL '1' MONTH", "2031-11-30"),
        ("TIME '23:15:00' + INTERVAL '90' MINUTE", "00:45:00"),
        ("TIMESTAMP '2030-12-31 23:59:59.999' + 3 * INTERVAL '10' SECOND", "2031-01-01 00:00:29.999"),
        ("INTERVAL '1' DAY + INTERVAL '2' HOUR", "+1 02:00:00.000"),
        ("INTERVAL '1' DAY / 2", "+0 12:00:00.000"),
        ("-INTERVAL '1' YEAR", "-1-00"),
        ("CAST(TIMESTAMP '1969-12-31 23:00:00' AS DATE)", "1970-01-01"),
        ("CAST(TIMESTAMP '1969-12-31 23:00:00' AS TIME)", "23:00:00"),
        ("CAST(TIMESTAMP '9999-12-31 23:59:59.999999999' AS TIMESTAMP(0))", "9999-12-31 23:59:59"),
        ("DATE '2031-12-31' - DATE '2031-12-30'", "!TIMESTAMPDIFF"),
    ]);
    check_types(&[
        ("TIMESTAMP '2031-01-31 00:00:00.000' + INTERVAL '1' MONTH", "TIMESTAMP(3) NOT NULL"),
        ("DATE '2031-12-31' - INTERVAL '1' MONTH", "DATE NOT NULL"),
        ("CURRENT_TIMESTAMP", "TIMESTAMP_LTZ(3) NOT NULL"),
        ("NOW()", "TIMESTAMP_LTZ(3) NOT NULL"),
        ("LOCALTIMESTAMP", "TIMESTAMP(3) NOT NULL"),
        ("CURRENT_DATE", "DATE NOT NULL"),
        ("CURRENT_TIME", "TIME(0) NOT NULL"),
        ("PROCTIME()", "TIMESTAMP_LTZ(3) NOT NULL"),
    ]);
}

#[test]
fn the_clock_is_the_runtimes() {
    check_in(
        "Asia/Shanghai",
        &[
            ("CURRENT_TIMESTAMP", "2030-03-18 01:46:40.123"),
            ("LOCALTIMESTAMP", "2030-03-18 01:46:40.123"),
            ("CURRENT_DATE", "2030-03-18"),
            ("LOCALTIME", "01:46:40"),
        ],
    );
}
