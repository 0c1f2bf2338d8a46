//! Which types become which: by themselves (implicitly), by `CAST`, and to meet in a common type.

use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::types::{Field, LogicalType, MAX_LENGTH, TypeKind};
use tidegate_api::value::Value;

/// `CAST(expr AS to)`, or `TRY_CAST` if `lenient`. The result is nullable if `expr` is, or if the
/// cast is lenient. The error says why Flink refuses the pair.
pub fn cast(expr: Expr, to: &LogicalType, lenient: bool) -> Result<Expr, String> {
    if !supports_explicit(&expr.ty, to) {
        return Err(refusal(&expr.ty, to));
    }
    let nullable = expr.ty.nullable || lenient;
    Ok(wrap(expr, &to.with_nullable(nullable), lenient))
}

/// The cast Flink inserts by itself to reach `to`; refused where only `CAST` could do it. The
/// result keeps the nullability of `expr`.
pub fn implicit_cast(expr: Expr, to: &LogicalType) -> Result<Expr, String> {
    if !supports_implicit(&expr.ty, to) {
        return Err(format!("Cannot implicitly cast {} to {}.", expr.ty.with_nullable(true), to.with_nullable(true)));
    }
    let to = to.with_nullable(expr.ty.nullable);
    Ok(wrap(expr, &to, false))
}

fn wrap(expr: Expr, to: &LogicalType, lenient: bool) -> Expr {
    if expr.ty == *to {
        return expr;
    }
    if expr.as_literal() == Some(&Value::Null) {
        return Expr::literal(Value::Null, to.with_nullable(true));
    }
    if expr.ty.kind == to.kind {
        return Expr { ty: to.clone(), node: expr.node };
    }
    Expr { ty: to.clone(), node: ExprNode::Cast { input: Box::new(expr), lenient } }
}

/// Gives all of `args` their common type (each keeps its nullability); the type is nullable if one
/// of them is. Fails if they have none.
pub fn unify(args: &mut [Expr]) -> Result<LogicalType, String> {
    let types: Vec<LogicalType> = args.iter().map(|a| a.ty.clone()).collect();
    let common = common_type(&types).ok_or_else(|| {
        let types: Vec<String> = types.iter().map(|t| t.with_nullable(true).to_string()).collect();
        format!("The types {} have no common type.", types.join(", "))
    })?;
    for arg in args.iter_mut() {
        let expr = std::mem::replace(arg, super::args::null_literal());
        let to = common.with_nullable(expr.ty.nullable);
        *arg = wrap(expr, &to, false);
    }
    Ok(common)
}

/// [`unify`] by the older of Flink's two rules, which arithmetic, `CASE`, `IF`, arrays, `VALUES` and set
/// operations follow: see [`least_restrictive_type`].
pub fn least_restrictive(args: &mut [Expr]) -> Result<LogicalType, String> {
    let types: Vec<LogicalType> = args.iter().map(|a| a.ty.clone()).collect();
    if least_restrictive_type(&types).is_none() && common_type(&types).is_some() {
        return Err("Illegal mixing of types in CASE or COALESCE statement".into());
    }
    let common = unify(args)?;
    let Some(first) = least_restrictive_type(&types).filter(|t| t.kind != common.kind) else { return Ok(common) };
    for arg in args.iter_mut() {
        let expr = std::mem::replace(arg, super::args::null_literal());
        let to = first.with_nullable(expr.ty.nullable);
        *arg = wrap(expr, &to, false);
    }
    Ok(first)
}

/// Like [`common_type`], but of `FLOAT` and `DOUBLE` the one named first wins, as both have 15 digits for
/// Calcite, and a date does not meet a timestamp.
pub fn least_restrictive_type(types: &[LogicalType]) -> Option<LogicalType> {
    use TypeKind::*;
    let dates = types.iter().any(|t| t.kind == Date);
    if dates && types.iter().any(LogicalType::is_timestamp) {
        return None;
    }
    let common = common_type(types)?;
    let has_decimal = types.iter().any(|t| matches!(t.kind, Decimal(..)));
    let first = types.iter().find(|t| matches!(t.kind, Float | Double));
    Some(match first {
        Some(first) if !has_decimal && matches!(common.kind, Double) => {
            LogicalType { kind: first.kind.clone(), nullable: common.nullable }
        }
        _ => common,
    })
}

/// `CASE`: conditions must be BOOLEAN, results meet in a common type.
pub fn case(branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Result<Expr, String> {
    let (mut conditions, mut results): (Vec<Expr>, Vec<Expr>) = branches.into_iter().unzip();
    for i in 0..conditions.len() {
        super::args::expect_boolean(&mut conditions, i)?;
    }
    let has_else = otherwise.is_some();
    results.extend(otherwise);
    let mut ty = least_restrictive(&mut results)?;
    ty.nullable |= !has_else;
    let otherwise = if has_else { results.pop().map(Box::new) } else { None };
    Ok(Expr { ty, node: ExprNode::Case { branches: conditions.into_iter().zip(results).collect(), otherwise } })
}

/// The smallest type all of `types` become by themselves, nullable if one of them is.
pub fn common_type(types: &[LogicalType]) -> Option<LogicalType> {
    let mut types = types.iter();
    let first = types.next()?.clone();
    types.try_fold(first, |a, b| common_pair(&a, b))
}

fn common_pair(a: &LogicalType, b: &LogicalType) -> Option<LogicalType> {
    let kind = common_kind(&a.kind, &b.kind)?;
    Some(LogicalType { kind, nullable: a.nullable || b.nullable })
}

fn common_kind(a: &TypeKind, b: &TypeKind) -> Option<TypeKind> {
    use TypeKind::*;
    if a == b {
        return Some(a.clone());
    }
    Some(match (a, b) {
        (Null, other) | (other, Null) => other.clone(),
        (Char(m) | Varchar(m), Char(n) | Varchar(n)) => Varchar(*m.max(n)),
        (Binary(m) | Varbinary(m), Binary(n) | Varbinary(n)) => Varbinary(*m.max(n)),
        (Timestamp(m), Timestamp(n)) => Timestamp(*m.max(n)),
        (TimestampLtz(m) | Timestamp(m), TimestampLtz(n) | Timestamp(n)) => TimestampLtz(*m.max(n)),
        (Date, Timestamp(p)) | (Timestamp(p), Date) => Timestamp(*p),
        (Date, TimestampLtz(p)) | (TimestampLtz(p), Date) => TimestampLtz(*p),
        (Time(m), Time(n)) => Time(*m.max(n)),
        (Array(m), Array(n)) => Array(Box::new(common_pair(m, n)?)),
        (Multiset(m), Multiset(n)) => Multiset(Box::new(common_pair(m, n)?)),
        (Map(k, v), Map(l, w)) => Map(Box::new(common_pair(k, l)?), Box::new(common_pair(v, w)?)),
        (Row(m), Row(n)) if m.len() == n.len() => Row(common_fields(m, n)?),
        _ => return common_number(a, b),
    })
}

fn common_fields(a: &[Field], b: &[Field]) -> Option<Vec<Field>> {
    a.iter().zip(b).map(|(m, n)| Some(Field::new(m.name.clone(), common_pair(&m.ty, &n.ty)?))).collect()
}

fn common_number(a: &TypeKind, b: &TypeKind) -> Option<TypeKind> {
    use TypeKind::*;
    let rank = |k: &TypeKind| match k {
        TinyInt => Some(1),
        SmallInt => Some(2),
        Int => Some(3),
        BigInt => Some(4),
        Decimal(..) => Some(5),
        Float => Some(6),
        Double => Some(7),
        _ => None,
    };
    let (low, high) = if rank(a)? <= rank(b)? { (a, b) } else { (b, a) };
    Some(match (low, high) {
        (Decimal(..), Float) => Double,
        (low, Decimal(p, s)) => {
            let (q, t) = as_decimal(low)?;
            let scale = (*s).max(t);
            let whole = (p - s).max(q - t);
            let precision = (whole + scale).min(38);
            Decimal(precision, scale.min(precision.saturating_sub(whole.min(precision))))
        }
        (_, high) => high.clone(),
    })
}

/// Precision and scale of a decimal, and of an integer where it meets one.
pub fn as_decimal(kind: &TypeKind) -> Option<(u8, u8)> {
    match kind {
        TypeKind::TinyInt => Some((3, 0)),
        TypeKind::SmallInt => Some((5, 0)),
        TypeKind::Int => Some((10, 0)),
        TypeKind::BigInt => Some((19, 0)),
        TypeKind::Decimal(p, s) => Some((*p, *s)),
        _ => None,
    }
}

/// Whether Flink casts `from` to `to` by itself (widening), nullability aside.
pub fn supports_implicit(from: &LogicalType, to: &LogicalType) -> bool {
    use TypeKind::*;
    if from.kind == to.kind {
        return true;
    }
    match (&from.kind, &to.kind) {
        (Null, _) => true,
        (Char(_), Char(_)) | (Char(_) | Varchar(_), Varchar(_)) => true,
        (Binary(_), Binary(_)) | (Binary(_) | Varbinary(_), Varbinary(_)) => true,
        (_, Decimal(..) | Double) => from.is_numeric(),
        (TinyInt | SmallInt | Int | BigInt | Decimal(..), Float) => true,
        (TinyInt, SmallInt | Int | BigInt) | (SmallInt, Int | BigInt) | (Int, BigInt) => true,
        (Timestamp(_) | TimestampLtz(_), Timestamp(_) | TimestampLtz(_) | Date | Time(_)) => true,
        (Time(_), Time(_)) => true,
        _ => elementwise(from, to, &supports_implicit),
    }
}

/// Whether `CAST(from AS to)` exists, nullability aside.
pub fn supports_explicit(from: &LogicalType, to: &LogicalType) -> bool {
    use TypeKind::*;
    if supports_implicit(from, to) {
        return true;
    }
    let scalar = |t: &LogicalType| !matches!(t.kind, Array(_) | Map(..) | Multiset(_) | Row(_) | Null);
    match (&from.kind, &to.kind) {
        (_, Char(_) | Varchar(_)) => true,
        (Char(_) | Varchar(_), IntervalYearMonth | IntervalDayTime) => false,
        (Char(_) | Varchar(_), _) => scalar(to),
        (Binary(_) | Varbinary(_), Binary(_) | Varbinary(_)) => true,
        (Boolean, _) => to.is_numeric(),
        (_, Boolean) => from.is_numeric(),
        (Date, Timestamp(_) | TimestampLtz(_)) | (Time(_), Timestamp(_) | TimestampLtz(_)) => true,
        (IntervalYearMonth, IntervalDayTime) | (IntervalDayTime, IntervalYearMonth) => false,
        (IntervalYearMonth | IntervalDayTime, _) => to.is_integer(),
        (_, IntervalYearMonth | IntervalDayTime) => from.is_integer(),
        _ if from.is_numeric() && to.is_numeric() => true,
        _ => elementwise(from, to, &supports_explicit),
    }
}

fn elementwise(from: &LogicalType, to: &LogicalType, ok: &dyn Fn(&LogicalType, &LogicalType) -> bool) -> bool {
    match (&from.kind, &to.kind) {
        (TypeKind::Array(a), TypeKind::Array(b)) | (TypeKind::Multiset(a), TypeKind::Multiset(b)) => ok(a, b),
        (TypeKind::Map(k, v), TypeKind::Map(l, w)) => ok(k, l) && ok(v, w),
        (TypeKind::Row(a), TypeKind::Row(b)) => a.len() == b.len() && a.iter().zip(b).all(|(m, n)| ok(&m.ty, &n.ty)),
        _ => false,
    }
}

/// Flink's words for a cast that does not exist.
fn refusal(from: &LogicalType, to: &LogicalType) -> String {
    match (&from.kind, to.is_numeric()) {
        (TypeKind::Timestamp(_), true) => "The cast from TIMESTAMP type to NUMERIC type is not allowed. It's \
             recommended to use UNIX_TIMESTAMP(CAST(timestamp_col AS STRING)) instead."
            .into(),
        (TypeKind::TimestampLtz(_), true) => "The cast from TIMESTAMP_LTZ type to NUMERIC type is not allowed.".into(),
        _ => format!("Cast function cannot convert value of type {from} to type {to}"),
    }
}

/// Nullable `STRING` of no particular length, or the same string type made nullable.
pub fn varchar_of(length: Option<u32>) -> TypeKind {
    TypeKind::Varchar(length.unwrap_or(MAX_LENGTH))
}
