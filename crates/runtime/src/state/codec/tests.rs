use super::*;
use arrow::array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, MapBuilder,
    StringArray, TimestampMicrosecondArray, new_empty_array,
};
use arrow::datatypes::Field;
use proptest::prelude::*;
use tidegate_api::types::{LogicalType, TypeKind};

fn decoded(types: &[DataType], rows: &[Vec<u8>]) -> Result<Vec<ArrayRef>> {
    let mut decoder = RowDecoder::new(types)?;
    rows.iter().try_for_each(|row| decoder.read(row))?;
    assert_eq!(decoder.rows(), rows.len());
    decoder.finish()
}

fn encoded(columns: &[ArrayRef]) -> Vec<Vec<u8>> {
    let rows = columns[0].len();
    (0..rows)
        .map(|row| {
            let mut bytes = Vec::new();
            encode_row(columns, row, &mut bytes).unwrap();
            bytes
        })
        .collect()
}

type Values = (Option<bool>, Option<i64>, Option<f64>, Option<String>, Option<Vec<Option<i32>>>, Option<i128>);

fn columns(rows: &[Values]) -> Vec<ArrayRef> {
    let lists = rows.iter().map(|r| r.4.clone());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), PrimitiveBuilder::<Int32Type>::new());
    for row in rows {
        for (i, value) in row.4.iter().flatten().enumerate() {
            maps.keys().append_value(format!("k{i}"));
            maps.values().append_option(*value);
        }
        maps.append(row.4.is_some()).unwrap();
    }
    let text: ArrayRef = Arc::new(rows.iter().map(|r| r.3.clone()).collect::<StringArray>());
    let ints: ArrayRef = Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>());
    let fields = Fields::from(vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Int64, true)]);
    let valid = rows.iter().map(|r| r.0.is_some()).collect::<Vec<_>>();
    vec![
        Arc::new(rows.iter().map(|r| r.0).collect::<BooleanArray>()),
        ints.clone(),
        Arc::new(rows.iter().map(|r| r.2).collect::<Float64Array>()),
        text.clone(),
        Arc::new(BinaryArray::from_iter(rows.iter().map(|r| r.3.as_ref().map(|s| s.as_bytes())))),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        Arc::new(rows.iter().map(|r| r.5).collect::<Decimal128Array>().with_precision_and_scale(38, 4).unwrap()),
        Arc::new(rows.iter().map(|r| r.1).collect::<TimestampMicrosecondArray>()),
        Arc::new(rows.iter().map(|r| r.1.map(|v| v as i32)).collect::<Date32Array>()),
        Arc::new(maps.finish()),
        Arc::new(StructArray::try_new(fields, vec![text, ints], Some(valid.into())).unwrap()),
        Arc::new(NullArray::new(rows.len())),
    ]
}

fn values() -> impl Strategy<Value = Values> {
    let list = proptest::collection::vec(any::<Option<i32>>(), 0..4);
    let decimal = -10_i128.pow(37)..10_i128.pow(37);
    (
        any::<Option<bool>>(),
        any::<Option<i64>>(),
        proptest::option::of(any::<f64>().prop_filter("comparable", |f| !f.is_nan())),
        proptest::option::of(".{0,12}"),
        proptest::option::of(list),
        proptest::option::of(decimal),
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(rows in proptest::collection::vec(values(), 1..20)) {
        let columns = columns(&rows);
        let types: Vec<DataType> = columns.iter().map(|c| c.data_type().clone()).collect();
        let back = decoded(&types, &encoded(&columns)).unwrap();
        for (before, after) in columns.iter().zip(&back) {
            prop_assert_eq!(before, after);
        }
        let (mut list, mut scratch) = (Vec::new(), Vec::new());
        (0..rows.len()).for_each(|row| encode_list_row(&columns, row, &mut scratch, &mut list).unwrap());
        let mut decoder = RowDecoder::new(&types).unwrap();
        prop_assert_eq!(decoder.read_elements(&list).unwrap(), rows.len());
        prop_assert_eq!(decoder.finish().unwrap(), back);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), cut in any::<proptest::sample::Index>()) {
        let columns = columns(&[(Some(true), Some(7), Some(0.5), Some("x".into()), Some(vec![Some(1)]), Some(3))]);
        let types: Vec<DataType> = columns.iter().map(|c| c.data_type().clone()).collect();
        let _ = decoded(&types, std::slice::from_ref(&bytes));
        let _ = RowDecoder::new(&types).unwrap().read_elements(&bytes);
        let _ = first_number(&bytes);
        let mut row = encoded(&columns).remove(0);
        row.truncate(cut.index(row.len()));
        row.extend(bytes);
        let _ = decoded(&types, &[row]);
    }
}

/// These bytes are in users' checkpoints.
#[test]
fn the_encoding_is_fixed() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(258), None])),
        Arc::new(StringArray::from(vec![Some("né"), Some("")])),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(-1), None]), None])),
        Arc::new(Decimal128Array::from(vec![Some(-2), Some(1)]).with_precision_and_scale(38, 0).unwrap()),
    ];
    let rows: Vec<String> =
        encoded(&columns).iter().map(|row| row.iter().map(|b| format!("{b:02x}")).collect()).collect();
    assert_eq!(
        rows,
        [
            "0102010000 01036ec3a9 010201ffffffff00 01feffffffffffffffffffffffffffffff".replace(' ', ""),
            "00 0100 00 0101000000000000000000000000000000".replace(' ', ""),
        ]
    );
    let mut list = Vec::new();
    (0..2).for_each(|row| encode_list_row(&columns[..2], row, &mut Vec::new(), &mut list).unwrap());
    assert_eq!(list, [&[10, 1, 2, 1, 0, 0, 1, 3, b'n', 0xc3, 0xa9][..], &[3, 0, 1, 0][..]].concat());
    let number: ArrayRef = Arc::new(Int64Array::from(vec![-2]));
    let row = encoded(&[number, columns[1].slice(0, 1)]).remove(0);
    assert_eq!((first_number(&row).unwrap(), row.len()), (-2, 14));
    assert!(first_number(&encoded(&columns)[1]).is_err());
}

#[test]
fn columns_that_were_added_later_are_null() {
    let old: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1]))];
    let back = decoded(&[DataType::Int64, DataType::Utf8, DataType::Boolean], &encoded(&old)).unwrap();
    assert_eq!(back[0].as_primitive::<Int64Type>().value(0), 1);
    assert!(back[1].is_null(0) && back[2].is_null(0));
    let told = decoded(&[DataType::Int64], &encoded(&[old[0].clone(), old[0].clone()])).unwrap_err().to_string();
    assert!(told.contains("behind the last column"), "{told}");
}

#[test]
fn every_type_a_column_can_have_can_be_state() {
    let nested = LogicalType::new(TypeKind::Array(Box::new(LogicalType::string())));
    for kind in [
        TypeKind::Null,
        TypeKind::Boolean,
        TypeKind::TinyInt,
        TypeKind::SmallInt,
        TypeKind::Int,
        TypeKind::BigInt,
        TypeKind::Float,
        TypeKind::Double,
        TypeKind::Decimal(10, 2),
        TypeKind::Char(3),
        TypeKind::Varbinary(9),
        TypeKind::Date,
        TypeKind::Time(3),
        TypeKind::Timestamp(3),
        TypeKind::TimestampLtz(6),
        TypeKind::Timestamp(9),
        TypeKind::IntervalYearMonth,
        TypeKind::IntervalDayTime,
        TypeKind::Array(Box::new(nested.clone())),
        TypeKind::Map(Box::new(LogicalType::string()), Box::new(nested.clone())),
        TypeKind::Multiset(Box::new(LogicalType::string())),
        TypeKind::Row(vec![tidegate_api::Field::new("x", nested)]),
        TypeKind::Row(Vec::new()),
    ] {
        let ty = LogicalType::new(kind).to_arrow();
        let mut decoder = RowDecoder::new(std::slice::from_ref(&ty)).unwrap_or_else(|e| panic!("{ty}: {e}"));
        assert_eq!(&decoder.finish().unwrap()[0], &new_empty_array(&ty), "{ty}");
        decoder.read(&[NULL]).unwrap();
        let column = decoder.finish().unwrap().remove(0);
        let mut row = Vec::new();
        encode_row(&[column], 0, &mut row).unwrap();
        assert_eq!(row, [NULL], "{ty}");
    }
}
