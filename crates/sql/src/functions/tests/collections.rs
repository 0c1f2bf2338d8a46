use super::{check, check_types};

#[test]
fn parts_are_found_or_null() {
    check(&[
        ("ARRAY[10, CAST(20 AS INT)][2]", "20"),
        ("ARRAY[10, CAST(NULL AS INT)][3]", "NULL"),
        ("ARRAY[1][0]", "!Array element access needs an index starting at 1 but was 0."),
        // Flink's generated code has no NULL for a primitive that is NOT NULL.
        ("MAP['a', 1]['b']", "-1"),
        ("MAP['a', CAST(NULL AS INT)]['b']", "NULL"),
        ("MAP['a', 'x']['a']", "x"),
        ("CAST(NULL AS ARRAY<INT>)[1]", "NULL"),
        ("CARDINALITY(MAP['a', 1, 'b', 2])", "2"),
        ("CARDINALITY(CAST(NULL AS ARRAY<INT>))", "NULL"),
        ("ELEMENT(ARRAY[7])", "7"),
        ("ELEMENT(ARRAY[7, 8])", "!more than one"),
        ("MAP['a', 1, 'a', 2]", "{a=2}"),
    ]);
    check_types(&[
        ("ARRAY[1, 2]", "ARRAY<INT NOT NULL> NOT NULL"),
        ("ARRAY[1, 2.5]", "ARRAY<DECIMAL(11, 1) NOT NULL> NOT NULL"),
        ("MAP['k', 1]", "MAP<CHAR(1) NOT NULL, INT NOT NULL> NOT NULL"),
        ("ROW(1, 'x')", "ROW<`EXPR$0` INT NOT NULL, `EXPR$1` CHAR(1) NOT NULL> NOT NULL"),
        ("MAP_ENTRIES(MAP['k', 1])", "ARRAY<ROW<`key` CHAR(1) NOT NULL, `value` INT NOT NULL>> NOT NULL"),
    ]);
}

#[test]
fn array_functions_take_null_as_a_value() {
    check(&[
        ("ARRAY_CONTAINS(ARRAY[1, NULL], CAST(NULL AS INT))", "TRUE"),
        ("ARRAY_CONTAINS(ARRAY[1, 2], 3)", "FALSE"),
        ("ARRAY_POSITION(ARRAY['a', 'b'], 'b')", "2"),
        ("ARRAY_POSITION(ARRAY['a', 'b'], 'c')", "0"),
        ("ARRAY_DISTINCT(ARRAY[1, 2, 1, NULL, NULL])", "[1, 2, NULL]"),
        ("ARRAY_REMOVE(ARRAY[1, 2, 1], 1)", "[2]"),
        ("ARRAY_REVERSE(ARRAY[1, 2, 3])", "[3, 2, 1]"),
        ("ARRAY_SLICE(ARRAY[1, 2, 3, 4], 2, 3)", "[2, 3]"),
        ("ARRAY_SLICE(ARRAY[1, 2, 3, 4], -2)", "[3, 4]"),
        ("ARRAY_SLICE(ARRAY[1, 2], 3, 4)", "[]"),
        ("ARRAY_SORT(ARRAY[3, NULL, 1])", "[NULL, 1, 3]"),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], FALSE)", "[3, 1, NULL]"),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], FALSE, TRUE)", "[NULL, 3, 1]"),
        ("ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", "[1, 2, 3]"),
        ("ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2, 3])", "[1, 2, 2, 3]"),
        ("ARRAY_EXCEPT(ARRAY[1, 2, 2], ARRAY[1])", "[2]"),
        ("ARRAY_INTERSECT(ARRAY[1, 2, 2], ARRAY[2, 3])", "[2]"),
        ("ARRAY_MAX(ARRAY[1, NULL, 3])", "3"),
        ("ARRAY_MIN(ARRAY[1, NULL, 3])", "1"),
        ("ARRAY_JOIN(ARRAY['a', CAST(NULL AS STRING), 'b'], ',')", "a,b"),
        ("ARRAY_JOIN(ARRAY['a', CAST(NULL AS STRING), 'b'], ',', '?')", "a,?,b"),
        ("ARRAY_APPEND(ARRAY[1], 2)", "[1, 2]"),
        ("ARRAY_PREPEND(ARRAY[1], 2)", "[2, 1]"),
    ]);
}

#[test]
fn map_functions() {
    check(&[
        ("MAP_KEYS(MAP['a', 1, 'b', 2])", "[a, b]"),
        ("MAP_VALUES(MAP['a', 1, 'b', 2])", "[1, 2]"),
        ("MAP_ENTRIES(MAP['a', 1])", "[(a, 1)]"),
        ("MAP_FROM_ARRAYS(ARRAY['a', 'b'], ARRAY[1, 2])", "{a=1, b=2}"),
        ("MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1, 2])", "!not equal to the length"),
        ("MAP_UNION(MAP['a', 1], MAP['a', 2, 'b', 3])", "{a=2, b=3}"),
    ]);
}

#[test]
fn nested_values_compare_as_wholes() {
    check(&[
        ("ARRAY[1, 2] = ARRAY[1, 2]", "TRUE"),
        ("ARRAY[1, 2] = ARRAY[2, 1]", "FALSE"),
        ("ARRAY[1] <> ARRAY[1, 2]", "TRUE"),
        ("ROW(1, 'a') = ROW(1, 'a')", "TRUE"),
        ("ROW(1, 'a') = ROW(1, 'b')", "FALSE"),
        ("MAP['a', 1, 'b', 2] = MAP['b', 2, 'a', 1]", "TRUE"),
        ("ARRAY[1] = CAST(NULL AS ARRAY<INT>)", "NULL"),
    ]);
}
