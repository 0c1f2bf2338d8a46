//! What Flink 2.3 gave for these expressions.

use crate::functions::tests::check;

#[test]
fn reading() {
    check(&[
        ("TO_TIMESTAMP('2031-01-02 03:04')", "NULL"),
        ("TO_TIMESTAMP('2031-01-02T03:04:05')", "NULL"),
        ("TO_TIMESTAMP('Tue, 03 Feb 2031', 'EEE, dd MMM yyyy')", "NULL"),
        ("TO_TIMESTAMP('2031-13-02', 'yyyy-MM-dd')", "NULL"),
        ("TO_TIMESTAMP('2031-01-02 03:04:05', CAST(NULL AS STRING))", "NULL"),
        ("TO_TIMESTAMP(' 2031-01-02')", "NULL"),
        ("TO_TIMESTAMP('-2031-01-02')", "NULL"),
        ("TO_TIMESTAMP('12031-01-02')", "NULL"),
        ("TO_TIMESTAMP('1700000000123', 'SSS')", "NULL"),
        ("TO_TIMESTAMP('2031-01-02 1:02:03 pm', 'yyyy-MM-dd h:mm:ss a')", "NULL"),
        ("TO_DATE('2031-04-31')", "NULL"),
        ("TO_DATE('2031-4-3')", "2031-04-03"),
        ("TO_DATE('2031-04-03 10:00:00')", "2031-04-03"),
        ("TO_DATE('2031-04-31', 'yyyy-MM-dd')", "2031-05-01"),
        ("TO_DATE('2031-13-01', 'yyyy-MM-dd')", "2032-01-01"),
        ("TO_DATE('2031/04/05', 'yyyy/MM/dd')", "2031-04-05"),
        ("TO_DATE('2031/04/05xx', 'yyyy/MM/dd')", "2031-04-05"),
        ("TO_DATE('x2031/04/05', 'yyyy/MM/dd')", "5471-09-27"),
        ("TO_DATE('05 Apr 2031', 'dd MMM yyyy')", "2031-04-05"),
        ("TO_DATE('31-4-5', 'yy-M-d')", "2031-04-05"),
        ("TO_DATE('99-4-5', 'yy-M-d')", "1999-04-05"),
        ("TO_DATE('20310405', 'yyyyMMdd')", "2031-04-05"),
        ("TO_DATE('2031')", "2031-01-01"),
        ("TO_DATE('2031-04')", "2031-04-01"),
        ("TO_DATE(' 2031-04-03')", "2031-04-03"),
        ("TO_TIMESTAMP_LTZ(99999999999999999, 0)", "NULL"),
        ("TO_TIMESTAMP_LTZ('soon', 'yyyy')", "NULL"),
        ("UNIX_TIMESTAMP('2031-01-02 03:04:05')", "1925089445"),
        ("UNIX_TIMESTAMP('2031-01-02 03:04:05.678')", "1925089445"),
        ("UNIX_TIMESTAMP('soon')", "-9223372036854775808"),
        ("UNIX_TIMESTAMP('2031-01-02', 'yyyy-MM-dd')", "1925078400"),
        ("UNIX_TIMESTAMP('2031-01-02 03:04:05.678', 'yyyy-MM-dd HH:mm:ss.SSS')", "1925089445"),
        ("UNIX_TIMESTAMP('1969-12-31 23:59:59.5', 'yyyy-MM-dd HH:mm:ss.S')", "0"),
        ("UNIX_TIMESTAMP('1969-12-31 23:59:59')", "-1"),
        ("CONVERT_TZ('2031-01-02 03:04:05', 'UTC', 'America/New_York')", "2031-01-01 22:04:05"),
        ("CONVERT_TZ('2031-01-02 03:04:05', 'PST', 'Asia/Kolkata')", "2031-01-02 16:34:05"),
        ("CONVERT_TZ('2031-01-02 03:04:05', 'Nowhere', 'Asia/Kolkata')", "2031-01-02 08:34:05"),
        ("CONVERT_TZ('2031-01-02 03:04:05', 'GMT+02:00', '+05:00')", "2031-01-02 01:04:05"),
        ("CONVERT_TZ('soon', 'UTC', 'Asia/Kolkata')", "NULL"),
        ("CONVERT_TZ('2031-01-02', 'UTC', 'Asia/Kolkata')", "NULL"),
        ("CONVERT_TZ('2031-03-30 02:30:00', 'Europe/Berlin', 'UTC')", "2031-03-30 01:30:00"),
        ("CONVERT_TZ('2031-10-26 02:30:00', 'Europe/Berlin', 'UTC')", "2031-10-26 01:30:00"),
    ]);
}

#[test]
fn writing() {
    check(&[
        ("FROM_UNIXTIME(1)", "1970-01-01 00:00:01"),
        ("FROM_UNIXTIME(-1)", "1969-12-31 23:59:59"),
        (
            "FROM_UNIXTIME(1, 'yyyy YY u E EEEE D w W F a h K k S SSS z Z X XXX G')",
            "1970 70 4 Thu Thursday 1 1 1 1 AM 12 0 24 0 000 UTC +0000 Z Z AD",
        ),
        ("FROM_UNIXTIME(CAST(1 AS INT))", "1970-01-01 00:00:01"),
        ("FROM_UNIXTIME(99999999999999999)", "246105574-05-31 09:37:20"),
        (
            "DATE_FORMAT(TIMESTAMP '2031-02-03 04:05:06.789', 'y yy yyy yyyy yyyyy u uuuu M MM MMM MMMM MMMMM L LLL d dd D DDD')",
            "2031 31 2031 2031 02031 2031 2031 2 02 Feb February F 2 Feb 3 03 34 034",
        ),
        (
            "DATE_FORMAT(TIMESTAMP '2031-02-03 04:05:06.789', 'E EE EEE EEEE EEEEE e ee eee c ccc Q QQ QQQ QQQQ q G GGGG a H HH h hh K k m s S SS SSS SSSS SSSSSSSSS A n N w ww W F Y YY YYYY')",
            "Mon Mon Mon Monday M 2 02 Mon 2 Mon 1 01 Q1 1st quarter 1 AD Anno Domini AM 4 04 4 04 4 4 5 6 7 78 789 7890 789000000 14706789 789000000 14706789000000 6 06 2 3 2031 31 2031",
        ),
        ("DATE_FORMAT(TIMESTAMP '2031-02-03 04:05:06.789', 'F')", "3"),
        ("DATE_FORMAT(TIMESTAMP '2031-02-03 04:05:06.123456789', 'SSSSSSSSS')", "123456789"),
        ("DATE_FORMAT('2031-02-03 04:05:06', 'yyyy u E z S')", "2031 1 Mon UTC 0"),
        ("DATE_FORMAT('2031-02-03 04:05:06.789', 'SSS')", "000"),
        ("DATE_FORMAT('2031-02-03', 'SSS')", "NULL"),
        ("DATE_FORMAT('soon', 'yyyy')", "NULL"),
    ]);
}

#[test]
fn parts_and_differences() {
    check(&[
        ("EXTRACT(YEAR FROM TIMESTAMP '1969-12-31 23:59:58.123456')", "1970"),
        ("EXTRACT(SECOND FROM TIMESTAMP '1969-12-31 23:59:58.123456')", "-1"),
        ("EXTRACT(MILLISECOND FROM TIMESTAMP '1969-12-31 23:59:58.123456')", "-877"),
        ("EXTRACT(MICROSECOND FROM TIMESTAMP '1969-12-31 23:59:58.123456')", "-876544"),
        ("EXTRACT(NANOSECOND FROM TIMESTAMP '1969-12-31 23:59:58.123456')", "-876544000"),
        ("EXTRACT(EPOCH FROM TIMESTAMP '1969-12-31 23:59:58.123456')", "-1"),
        ("EXTRACT(EPOCH FROM DATE '1969-12-31')", "-86400"),
        ("EXTRACT(HOUR FROM TIMESTAMP '1969-12-31 23:59:58.123456')", "0"),
        ("EXTRACT(HOUR FROM DATE '1969-12-31')", "0"),
        ("EXTRACT(MINUTE FROM TIME '10:11:12')", "11"),
        ("EXTRACT(MILLISECOND FROM TIME '10:11:12.123')", "123"),
        ("EXTRACT(WEEK FROM TIMESTAMP '2027-01-01 00:00:00')", "53"),
        ("EXTRACT(DOW FROM TIMESTAMP '2027-01-01 00:00:00')", "6"),
        ("EXTRACT(DOY FROM TIMESTAMP '2027-01-01 00:00:00')", "1"),
        ("EXTRACT(QUARTER FROM TIMESTAMP '2027-04-01 00:00:00')", "2"),
        ("EXTRACT(MILLENNIUM FROM TIMESTAMP '2000-04-01 00:00:00')", "2"),
        ("EXTRACT(CENTURY FROM TIMESTAMP '1900-04-01 00:00:00')", "19"),
        ("EXTRACT(DECADE FROM TIMESTAMP '1999-04-01 00:00:00')", "199"),
        ("EXTRACT(DAY FROM INTERVAL '3 04:05:06' DAY TO SECOND)", "3"),
        ("EXTRACT(HOUR FROM INTERVAL '3 04:05:06' DAY TO SECOND)", "4"),
        ("EXTRACT(YEAR FROM INTERVAL '1-2' YEAR TO MONTH)", "1"),
        ("EXTRACT(MONTH FROM INTERVAL '1-2' YEAR TO MONTH)", "2"),
        ("YEAR(TIMESTAMP '2027-01-01 00:00:00')", "2027"),
        ("HOUR(TIMESTAMP '2027-01-01 10:00:00')", "10"),
        ("SECOND(TIMESTAMP '2027-01-01 10:00:59')", "59"),
        ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2031-01-31 10:00:00', TIMESTAMP '2031-02-28 10:00:00')", "1"),
        ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2031-01-31 10:00:00', TIMESTAMP '2031-03-31 09:00:00')", "1"),
        ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2031-03-31 10:00:00', TIMESTAMP '2031-01-31 11:00:00')", "-2"),
        ("TIMESTAMPDIFF(YEAR, DATE '2031-03-31', DATE '2030-03-31')", "-1"),
        ("TIMESTAMPDIFF(QUARTER, DATE '2031-03-31', DATE '2032-03-31')", "4"),
        ("TIMESTAMPDIFF(WEEK, DATE '2031-03-31', DATE '2032-03-31')", "52"),
        ("TIMESTAMPDIFF(HOUR, TIMESTAMP '2031-01-31 10:00:00', TIMESTAMP '2031-01-31 08:01:00')", "-1"),
        ("TIMESTAMPDIFF(SECOND, TIMESTAMP '2031-01-31 10:00:00.500', TIMESTAMP '2031-01-31 10:00:02.499')", "1"),
        ("TIMESTAMPDIFF(SECOND, TIMESTAMP '1931-01-31 10:00:00', TIMESTAMP '2031-01-31 10:00:02.499')", "-1139207294"),
        ("TIMESTAMPDIFF(MILLISECOND, TIMESTAMP '2031-01-31 10:00:00', TIMESTAMP '2031-01-31 10:00:02.499')", "2000"),
        ("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '2031-01-31 10:00:00', TIMESTAMP '2031-01-31 10:00:02.499')", "2000000"),
        ("TIMESTAMPDIFF(SECOND, TO_TIMESTAMP_LTZ(0, 3), TO_TIMESTAMP_LTZ(9000, 3))", "9"),
        ("TIMESTAMPDIFF(SECOND, TIME '10:00:00', TIME '11:00:00')", "3600"),
    ]);
}
