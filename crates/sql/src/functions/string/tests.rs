//! What Flink 2.3 gave for these expressions, of `hash`, `regex` and `url` too.

use crate::functions::tests::check;

#[test]
fn strings_and_patterns() {
    check(&[
        ("PRINTF('abc')", "abc"),
        ("IS_DIGIT('12')", "TRUE"),
        ("IS_DIGIT('1.2')", "FALSE"),
        ("IS_DIGIT(12)", "TRUE"),
        ("IS_DIGIT('-1')", "FALSE"),
        ("IS_ALPHA('ab')", "TRUE"),
        ("IS_ALPHA('é')", "TRUE"),
        ("IS_ALPHA(1)", "FALSE"),
        ("IS_DECIMAL('1.5')", "TRUE"),
        ("IS_DECIMAL('1e5')", "TRUE"),
        ("IS_DECIMAL('x')", "FALSE"),
        ("IS_DECIMAL('1d')", "TRUE"),
        ("IS_DECIMAL('NaN')", "TRUE"),
        ("INET_ATON('127.0.0.1')", "2130706433"),
        ("INET_ATON('127.1')", "2130706433"),
        ("INET_ATON('127.0.1')", "2130706433"),
        ("INET_ATON('1')", "1"),
        ("INET_ATON('256.1.1.1')", "NULL"),
        ("INET_ATON('a.b.c.d')", "NULL"),
        ("INET_ATON('1.2.3.4.5')", "NULL"),
        ("INET_ATON('1.2.3.')", "NULL"),
        ("INET_ATON('01.02.03.04')", "16909060"),
        ("INET_ATON('1..3.4')", "NULL"),
        ("INET_ATON('4294967295')", "NULL"),
        ("INET_ATON('1.65536')", "NULL"),
        ("INET_ATON('1.2.256')", "NULL"),
        ("INET_NTOA(2130706433)", "127.0.0.1"),
        ("INET_NTOA(4294967296)", "NULL"),
        ("INET_NTOA(-1)", "NULL"),
        ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
        ("SHA1('a')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ("SHA224('a')", "abd37534c7d9a2efb9465de931cd7055ffdb8879563ae98078d6d6d5"),
        ("SHA256('a')", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        (
            "SHA384('a')",
            "54a59b9f22b0b80880d8427e548b7c23abd873486e1f035dce9cd697e85175033caa88e6d57bc35efae0b5afd3145f31",
        ),
        (
            "SHA512('a')",
            "1f40fc92da241694750979ee6cf582f2d5d7d28e18335de05abc54d0560e0f5302860c652bf08d560252aa5e74210546f369fbbbce8c12cfc7957b2652fe9a75",
        ),
        ("HASH_CODE('hello')", "99162322"),
        ("HASH_CODE(1)", "1"),
        ("URL_ENCODE('🙂')", "%F0%9F%99%82"),
        ("URL_DECODE('a%2')", "NULL"),
        ("URL_DECODE('%C3%A9+%zz')", "NULL"),
        ("URL_DECODE('%C3%A9+b')", "é b"),
        ("URL_DECODE('%ff')", "�"),
    ]);
}
