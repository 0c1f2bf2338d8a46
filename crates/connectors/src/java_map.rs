//! The order in which Java walks a map.
//!
//! Flink's `print` connector makes a `java.util.HashMap` of every MAP and MULTISET, so its text lists entries by the
//! bucket of their key's hash code, and within a bucket by arrival. Keys whose hash Java takes from the object's
//! identity (bytes, arrays) have no order to keep; they stay as they came.

use crate::view::{Cell, View};
use tidegate_api::TypeKind;

/// The entries `start..end` in the order of a `HashMap` that got them one by one.
pub(crate) fn hash_map_order(keys: &View<'_>, start: usize, end: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (start..end).collect();
    if order.len() > 1 {
        let buckets = buckets(order.len());
        let bucket =
            |i: &usize| hash_code(keys, *i).map_or(0, |h| (h ^ (h as u32 >> 16) as i32) as u32 & (buckets - 1));
        order.sort_by_cached_key(bucket);
    }
    order
}

/// A table starts with 16 buckets and doubles when it is three quarters full.
fn buckets(entries: usize) -> u32 {
    let mut buckets = 16;
    while entries > buckets / 4 * 3 {
        buckets *= 2;
    }
    buckets as u32
}

/// `Object.hashCode` of the Java object for this value; `None` if it is not a function of the value.
fn hash_code(keys: &View<'_>, i: usize) -> Option<i32> {
    Some(match keys.get(i) {
        Cell::Null => 0,
        Cell::Bool(v) => {
            if v {
                1231
            } else {
                1237
            }
        }
        Cell::Int(v) if matches!(keys.kind(), TypeKind::BigInt) => fold(v),
        Cell::Int(v) => v as i32,
        Cell::Months(v) => v,
        Cell::Float(v) => v.to_bits() as i32,
        Cell::Double(v) => fold(v.to_bits() as i64),
        Cell::Decimal(v, scale) => decimal(v, scale),
        Cell::Text(v) => v.encode_utf16().fold(0, |h: i32, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit))),
        Cell::Date(v) => date(i64::from(v)),
        Cell::Time(v) => fold(i64::from(v) * 1_000_000),
        Cell::Timestamp(nanos) => {
            let (day, rest) = (nanos.div_euclid(DAY), nanos.rem_euclid(DAY));
            date(day as i64) ^ fold(rest as i64)
        }
        Cell::TimestampLtz(nanos) => {
            let (second, rest) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
            fold(second as i64).wrapping_add((rest as i32).wrapping_mul(51))
        }
        Cell::Bytes(_) | Cell::Millis(_) | Cell::List(..) | Cell::Map(..) | Cell::Row(..) => return None,
    })
}

const DAY: i128 = 86_400_000_000_000;

/// `Long.hashCode`.
fn fold(v: i64) -> i32 {
    (v ^ (v as u64 >> 32) as i64) as i32
}

/// `BigDecimal.hashCode`: the magnitude by 32-bit words, the sign, the scale.
fn decimal(unscaled: i128, scale: u8) -> i32 {
    let magnitude = unscaled.unsigned_abs();
    let words = (0..4).rev().map(|i| (magnitude >> (32 * i)) as u32 as i32);
    let hash = words.fold(0, |h: i32, word| h.wrapping_mul(31).wrapping_add(word));
    let signed = if unscaled < 0 { hash.wrapping_neg() } else { hash };
    signed.wrapping_mul(31).wrapping_add(i32::from(scale))
}

/// `LocalDate.hashCode` of a day since the epoch.
fn date(day: i64) -> i32 {
    let text = tidegate_api::text::format_date(day as i32);
    let (rest, of_month) = text.rsplit_once('-').unwrap_or(("", ""));
    let (year, month) = rest.rsplit_once('-').unwrap_or(("", ""));
    let part = |s: &str| s.parse::<i32>().unwrap_or(0);
    let year = part(year);
    (year & !0x7ff) ^ (year.wrapping_shl(11).wrapping_add(part(month) << 6).wrapping_add(part(of_month)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray};
    use tidegate_api::LogicalType;

    #[test]
    fn text_keys_go_by_their_hash() {
        let array = StringArray::from(vec!["one", "two", "three", "four", "five"]);
        let ty = LogicalType::new(TypeKind::Varchar(10));
        let keys = View::new(&array, &ty).unwrap();
        assert_eq!(hash_map_order(&keys, 0, 5), [3, 0, 1, 2, 4]);
        assert_eq!(hash_map_order(&keys, 1, 3), [1, 2]);
    }

    #[test]
    fn long_keys_fold_and_a_full_table_grows() {
        let ty = LogicalType::new(TypeKind::BigInt);
        let array = Int64Array::from(vec![10_000_000_000, 2]);
        assert_eq!(hash_map_order(&View::new(&array, &ty).unwrap(), 0, 2), [1, 0]);
        let array = Int64Array::from_iter_values((0..13).rev().map(|i| i * 3));
        let order = hash_map_order(&View::new(&array, &ty).unwrap(), 0, 13);
        let want = [0, 33, 3, 36, 6, 9, 12, 15, 18, 21, 24, 27, 30];
        assert_eq!(order.iter().map(|i| array.value(*i)).collect::<Vec<_>>(), want);
    }

    #[test]
    fn decimals_and_dates_hash_like_java() {
        // jshell: new BigDecimal("-1.50").hashCode(), LocalDate.of(2020, 1, 31).hashCode()
        assert_eq!(decimal(-150, 2), -4648);
        assert_eq!(date(18292), 4_137_055);
    }
}
