//! Aggregates over a few rows, by Flink's arithmetic.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array,
    StringArray,
};
use arrow::datatypes::{Decimal128Type, Float64Type, Int8Type, Int64Type};
use arrow::util::display::array_value_to_string;
use tidegate_api::Value;
use tidegate_api::expr::AggregateCall;
use tidegate_api::types::{LogicalType, TypeKind};

use super::{accumulator, resolve, state_types};

mod checkpoint;

fn call(function: &str, args: &[LogicalType], params: &[Value], distinct: bool) -> AggregateCall {
    AggregateCall {
        function: function.into(),
        args: (0..args.len()).collect(),
        arg_types: args.to_vec(),
        params: params.to_vec(),
        distinct,
        filter: None,
        ty: resolve(function, args, params, distinct).unwrap(),
        name: function.into(),
        meaning: String::new(),
    }
}

fn ty(kind: TypeKind) -> LogicalType {
    LogicalType::new(kind)
}

/// The result over one group, in one go and merged from two halves.
fn run(call: &AggregateCall, args: &[ArrayRef]) -> ArrayRef {
    let n = args[0].len();
    let mut whole = accumulator(call, false).unwrap();
    whole.update(args, None, &vec![0; n], 1).unwrap();
    let result = whole.evaluate(&[0]).unwrap();
    assert_eq!(result.data_type(), &call.ty.to_arrow());
    let mut merged = accumulator(call, false).unwrap();
    for (from, len) in [(0, n / 2), (n / 2, n - n / 2)] {
        let part: Vec<ArrayRef> = args.iter().map(|a| a.slice(from, len)).collect();
        let mut half = accumulator(call, false).unwrap();
        half.update(&part, None, &vec![1; len], 2).unwrap();
        let state = half.state(&[1]).unwrap();
        if super::can_merge(call) {
            let types: Vec<_> = state_types(call).unwrap().iter().map(LogicalType::to_arrow).collect();
            assert_eq!(state.iter().map(|s| s.data_type().clone()).collect::<Vec<_>>(), types);
        }
        merged.merge(&state, &[2], 3).unwrap();
    }
    assert_eq!(&merged.evaluate(&[2]).unwrap(), &result, "{} merges", call.function);
    result
}

fn text(array: &ArrayRef) -> String {
    if array.is_null(0) { "null".into() } else { array_value_to_string(array, 0).unwrap() }
}

#[test]
fn sums_keep_their_type_and_wrap() {
    let tiny: ArrayRef = Arc::new(Int8Array::from(vec![Some(100), None, Some(100)]));
    let sum = run(&call("SUM", &[ty(TypeKind::TinyInt)], &[], false), std::slice::from_ref(&tiny));
    assert_eq!(sum.as_primitive::<Int8Type>().value(0), -56);
    let avg = run(&call("AVG", &[ty(TypeKind::TinyInt)], &[], false), &[tiny]);
    assert_eq!(avg.as_primitive::<Int8Type>().value(0), 100);
    let big: ArrayRef = Arc::new(Int64Array::from(vec![-7, -8]));
    assert_eq!(text(&run(&call("AVG", &[ty(TypeKind::BigInt)], &[], false), &[big])), "-7");
    let none: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
    for (function, expected) in [("SUM", "null"), ("AVG", "null"), ("MAX", "null"), ("COUNT", "0"), ("VAR_POP", "null")]
    {
        assert_eq!(
            text(&run(&call(function, &[ty(TypeKind::BigInt)], &[], false), std::slice::from_ref(&none))),
            expected
        );
    }
}

#[test]
fn decimals_overflow_to_null_and_divide_half_up() {
    let d = ty(TypeKind::Decimal(38, 0));
    let nines = 10_i128.pow(38) - 1;
    let values =
        |v: Vec<i128>| -> ArrayRef { Arc::new(Decimal128Array::from(v).with_precision_and_scale(38, 0).unwrap()) };
    let sum = call("SUM", std::slice::from_ref(&d), &[], false);
    assert_eq!(text(&run(&sum, &[values(vec![nines, nines])])), "null");
    let fee = ty(TypeKind::Decimal(10, 2));
    let fees: ArrayRef = Arc::new(Decimal128Array::from(vec![100, 100, 1]).with_precision_and_scale(10, 2).unwrap());
    let avg = run(&call("AVG", &[fee], &[], false), &[fees]);
    assert_eq!(avg.as_primitive::<Decimal128Type>().value(0), 670_000);
    assert_eq!(super::numeric::divide_decimal(-5, 0, 2), Some(-3));
}

#[test]
fn variance_of_integers_truncates() {
    let v: ArrayRef = Arc::new(Int64Array::from(vec![-7, -8, 4]));
    let moment =
        |f: &str, v: &ArrayRef, t: TypeKind| text(&run(&call(f, &[ty(t)], &[], false), std::slice::from_ref(v)));
    assert_eq!(moment("VAR_POP", &v, TypeKind::BigInt), "29");
    let kg: ArrayRef = Arc::new(Float64Array::from(vec![0.25, 3.0]));
    assert_eq!(moment("VAR_SAMP", &kg, TypeKind::Double), "3.78125");
    assert_eq!(moment("STDDEV_POP", &kg, TypeKind::Double), "1.375");
    let one: ArrayRef = Arc::new(Float64Array::from(vec![1.5]));
    assert_eq!(moment("STDDEV", &one, TypeKind::Double), "null");
}

#[test]
fn values_in_arrival_order() {
    let tags: ArrayRef = Arc::new(StringArray::from(vec![Some("red"), None, Some("blue"), Some("red")]));
    let of = |f: &str, params: &[Value], distinct| {
        text(&run(&call(f, &[LogicalType::string()], params, distinct), std::slice::from_ref(&tags)))
    };
    assert_eq!(of("LISTAGG", &[], false), "red,blue,red");
    assert_eq!(of("LISTAGG", &[Value::String(" / ".into())], true), "red / blue");
    assert_eq!(of("FIRST_VALUE", &[], false), "red");
    assert_eq!(of("LAST_VALUE", &[], false), "red");
    assert_eq!(of("COLLECT", &[], false), "{red: 2, blue: 1}");
    assert_eq!(of("ARRAY_AGG", &[], false), "[red, , blue, red]");
    assert_eq!(of("COUNT", &[], true), "2");
    assert_eq!(of("JSON_ARRAYAGG", &[], false), r#"["red","blue","red"]"#);
    assert_eq!(of("JSON_ARRAYAGG", &[Value::String("NULL ON NULL".into())], false), r#"["red",null,"blue","red"]"#);
    assert_eq!(of("MIN", &[], false), "blue");
}

#[test]
fn percentile_interpolates() {
    let cents: ArrayRef = Arc::new(Int64Array::from(vec![450, -7, 451, 10]));
    let half = call("PERCENTILE", &[ty(TypeKind::BigInt)], &[Value::Double(0.5)], false);
    assert_eq!(text(&run(&half, std::slice::from_ref(&cents))), "230.0");
    let two = Value::Array(vec![Value::Double(0.0), Value::Double(1.0)]);
    assert_eq!(text(&run(&call("PERCENTILE", &[ty(TypeKind::BigInt)], &[two], false), &[cents])), "[-7.0, 451.0]");
}

#[test]
fn filters_and_groups() {
    let v: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 4, 8]));
    let keep = BooleanArray::from(vec![Some(true), None, Some(true), Some(false)]);
    let mut sum = accumulator(&call("SUM", &[ty(TypeKind::Int)], &[], false), false).unwrap();
    sum.update(&[v], Some(&keep), &[1, 1, 1, 0], 3).unwrap();
    assert_eq!(
        &sum.evaluate(&[0, 1, 2]).unwrap(),
        &(Arc::new(Int32Array::from(vec![None, Some(5), None])) as ArrayRef)
    );
}

#[test]
fn what_is_taken_back_was_never_there() {
    let v: ArrayRef = Arc::new(Int64Array::from(vec![5, 7, 5, 1]));
    for (function, distinct, before, after) in [
        ("SUM", false, "18", "12"),
        ("COUNT", true, "3", "2"),
        ("SUM", true, "13", "12"),
        ("MIN", false, "1", "5"),
        ("MAX", false, "7", "7"),
        ("AVG", false, "4", "6"),
        ("FIRST_VALUE", false, "5", "7"),
        ("PERCENTILE", false, "5.0", "6.0"),
        ("VAR_POP", false, "4", "1"),
    ] {
        let params = if function == "PERCENTILE" { vec![Value::Double(0.5)] } else { vec![] };
        let mut acc = accumulator(&call(function, &[ty(TypeKind::BigInt)], &params, distinct), true).unwrap();
        acc.update(std::slice::from_ref(&v), None, &[0; 4], 1).unwrap();
        assert_eq!(text(&acc.evaluate(&[0]).unwrap()), before, "{function}");
        let back: ArrayRef = Arc::new(Int64Array::from(vec![5, 1]));
        acc.retract(std::slice::from_ref(&back), None, &[0; 2], 1).unwrap();
        assert_eq!(text(&acc.evaluate(&[0]).unwrap()), after, "{function}");
        // The state carries what retraction needs: moved elsewhere, the rest can still be taken back.
        let mut moved = accumulator(&call(function, &[ty(TypeKind::BigInt)], &params, distinct), true).unwrap();
        moved.merge(&acc.state(&[0]).unwrap(), &[0], 1).unwrap();
        let rest: ArrayRef = Arc::new(Int64Array::from(vec![5, 7]));
        moved.retract(&[rest], None, &[0; 2], 1).unwrap();
        let left = text(&moved.evaluate(&[0]).unwrap());
        assert!(matches!(left.as_str(), "" | "0" | "null"), "{function}: {left}");
    }
}

#[test]
fn not_a_number_is_one_value() {
    let x: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, -f64::NAN, 0.0, -0.0]));
    let count = run(&call("COUNT", &[ty(TypeKind::Double)], &[], true), std::slice::from_ref(&x));
    assert_eq!(count.as_primitive::<Int64Type>().value(0), 3);
    let inf: ArrayRef = Arc::new(Float64Array::from(vec![f64::INFINITY, 1.0, f64::NEG_INFINITY]));
    let min = run(&call("MIN", &[ty(TypeKind::Double)], &[], false), &[inf]);
    assert_eq!(min.as_primitive::<Float64Type>().value(0), f64::NEG_INFINITY);
}
