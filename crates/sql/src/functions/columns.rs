//! Loops over columns: typed access to arguments, and maps that leave NULL rows alone.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Decimal128Array, Int32Array,
    Int64Array, PrimitiveArray, StringArray, StringBuilder,
};
use arrow::datatypes::DataType;
use tidegate_api::function::RowError;

/// What a row function gives: a value, NULL, or why this row fails.
pub type RowResult<T> = Result<Option<T>, String>;

/// `array` as the concrete type `A`. It fails only if a plan and its kernels disagree.
pub fn typed<A: Array + 'static>(array: &ArrayRef) -> Result<&A, RowError> {
    array.as_any().downcast_ref::<A>().ok_or_else(|| {
        let wanted = std::any::type_name::<A>();
        RowError::new(0, format!("internal error (please report it): a column is {}, not {wanted}", array.data_type()))
    })
}

/// `array` as strings.
pub fn strings(array: &ArrayRef) -> Result<&StringArray, RowError> {
    typed(array)
}

/// `array` as byte strings.
pub fn binaries(array: &ArrayRef) -> Result<&BinaryArray, RowError> {
    typed(array)
}

/// `array` as `INT`s.
pub fn ints(array: &ArrayRef) -> Result<&Int32Array, RowError> {
    typed(array)
}

/// `array` as `BIGINT`s.
pub fn bigints(array: &ArrayRef) -> Result<&Int64Array, RowError> {
    typed(array)
}

/// `array` as `BOOLEAN`s.
pub fn booleans(array: &ArrayRef) -> Result<&BooleanArray, RowError> {
    typed(array)
}

/// `array` as unscaled decimals.
pub fn decimals(array: &ArrayRef) -> Result<&Decimal128Array, RowError> {
    typed(array)
}

/// `f` of each row of `a` that is not NULL. `C` collects: `StringArray`, `BooleanArray`,
/// `Int32Array`, ...
pub fn map1<A, T, C>(a: A, mut f: impl FnMut(A::Item) -> RowResult<T>) -> Result<ArrayRef, RowError>
where
    A: ArrayAccessor,
    C: Array + FromIterator<Option<T>> + 'static,
{
    collect::<T, C>(a.len(), |i| if a.is_null(i) { Ok(None) } else { f(a.value(i)) })
}

/// `f` of each row where neither `a` nor `b` is NULL.
pub fn map2<A, B, T, C>(a: A, b: B, mut f: impl FnMut(A::Item, B::Item) -> RowResult<T>) -> Result<ArrayRef, RowError>
where
    A: ArrayAccessor,
    B: ArrayAccessor,
    C: Array + FromIterator<Option<T>> + 'static,
{
    collect::<T, C>(a.len(), |i| if a.is_null(i) || b.is_null(i) { Ok(None) } else { f(a.value(i), b.value(i)) })
}

/// `f` of each row where none of `a`, `b` and `c` is NULL.
pub fn map3<A, B, D, T, C>(
    a: A,
    b: B,
    c: D,
    mut f: impl FnMut(A::Item, B::Item, D::Item) -> RowResult<T>,
) -> Result<ArrayRef, RowError>
where
    A: ArrayAccessor,
    B: ArrayAccessor,
    D: ArrayAccessor,
    C: Array + FromIterator<Option<T>> + 'static,
{
    collect::<T, C>(a.len(), |i| {
        if a.is_null(i) || b.is_null(i) || c.is_null(i) { Ok(None) } else { f(a.value(i), b.value(i), c.value(i)) }
    })
}

/// A column of `rows` rows made by a function of the row number; the first failure wins.
pub fn collect<T, C>(rows: usize, mut f: impl FnMut(usize) -> RowResult<T>) -> Result<ArrayRef, RowError>
where
    C: Array + FromIterator<Option<T>> + 'static,
{
    let mut failure = None;
    let array: C =
        (0..rows).map_while(|i| f(i).map_err(|message| failure = Some(RowError::new(i, message))).ok()).collect();
    match failure {
        Some(e) => Err(e),
        None => Ok(Arc::new(array)),
    }
}

/// Strings written row by row into one buffer: `f` appends the row's text and says whether there
/// is one; text of a NULL row is forgotten.
pub fn write_strings(
    rows: usize,
    mut f: impl FnMut(usize, &mut String) -> Result<bool, String>,
) -> Result<ArrayRef, RowError> {
    let mut out = StringBuilder::with_capacity(rows, rows * 16);
    let mut text = String::new();
    for i in 0..rows {
        text.clear();
        match f(i, &mut text) {
            Ok(true) => out.append_value(&text),
            Ok(false) => out.append_null(),
            Err(message) => return Err(RowError::new(i, message)),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// A primitive column given another Arrow type of the same native values (a decimal's precision,
/// a timestamp's unit).
pub fn retyped<T: ArrowPrimitiveType>(array: PrimitiveArray<T>, to: &DataType) -> ArrayRef {
    Arc::new(array.with_data_type(to.clone()))
}

/// A failure of Arrow itself, as an error of the first row.
pub fn arrow_failure(e: arrow::error::ArrowError) -> RowError {
    RowError::new(0, format!("internal error (please report it): {e}"))
}
