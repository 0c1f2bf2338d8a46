//! Types as written.

use super::{Ident, Span};

/// A type with its nullability.
#[derive(Clone, Debug, PartialEq)]
pub struct DataType {
    /// What it is.
    pub kind: DataTypeKind,
    /// False after `NOT NULL`.
    pub nullable: bool,
    /// Where.
    pub span: Span,
}

/// The kinds of type. A number that was left out is `None`, so that the binder states the default.
#[derive(Clone, Debug, PartialEq)]
pub enum DataTypeKind {
    /// `BOOLEAN`.
    Boolean,
    /// `TINYINT`.
    TinyInt,
    /// `SMALLINT`.
    SmallInt,
    /// `INT`, `INTEGER`.
    Int,
    /// `BIGINT`.
    BigInt,
    /// `FLOAT`.
    Float,
    /// `REAL`.
    Real,
    /// `DOUBLE`, `DOUBLE PRECISION`.
    Double,
    /// `DECIMAL`, `DEC`, `NUMERIC` `[(precision [, scale])]`.
    Decimal(Option<u32>, Option<u32>),
    /// `CHAR`, `CHARACTER` `[(n)]`.
    Char(Option<u32>),
    /// `VARCHAR`, `CHAR VARYING` `[(n)]`.
    Varchar(Option<u32>),
    /// `STRING`.
    String,
    /// `BINARY [(n)]`.
    Binary(Option<u32>),
    /// `VARBINARY`, `BINARY VARYING` `[(n)]`.
    Varbinary(Option<u32>),
    /// `BYTES`.
    Bytes,
    /// `DATE`.
    Date,
    /// `TIME [(p)] [WITHOUT TIME ZONE]`.
    Time(Option<u32>),
    /// `TIMESTAMP [(p)] [WITHOUT TIME ZONE]`.
    Timestamp(Option<u32>),
    /// `TIMESTAMP_LTZ [(p)]`, `TIMESTAMP [(p)] WITH LOCAL TIME ZONE`.
    TimestampLtz(Option<u32>),
    /// `TIMESTAMP [(p)] WITH TIME ZONE`, which Flink parses and refuses.
    TimestampTz(Option<u32>),
    /// `INTERVAL DAY TO SECOND(3)`, ...
    Interval(IntervalQualifier),
    /// `ARRAY<t>` or `t ARRAY`.
    Array(Box<DataType>),
    /// `MULTISET<t>` or `t MULTISET`.
    Multiset(Box<DataType>),
    /// `MAP<k, v>`.
    Map(Box<DataType>, Box<DataType>),
    /// `ROW<name type ['comment'], ...>` or `ROW(name type, ...)`.
    Row(Vec<RowField>),
    /// `STRUCTURED<'class', name type, ...>`.
    Structured(String, Vec<RowField>),
    /// `RAW('class', 'snapshot')`.
    Raw(String, String),
    /// `NULL`.
    Null,
    /// `VARIANT`.
    Variant,
    /// `BITMAP`.
    Bitmap,
    /// Any other name: a user's type, which Tidegate has none of.
    Named(super::ObjectName),
}

/// A field of a `ROW` type.
#[derive(Clone, Debug, PartialEq)]
pub struct RowField {
    /// Name.
    pub name: Ident,
    /// Type.
    pub ty: DataType,
    /// The string after the type.
    pub comment: Option<String>,
}

/// A unit of time. Plurals are folded into the singular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TimeUnit {
    Millennium,
    Century,
    Decade,
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    /// Day of the week, Sunday is 1.
    Dow,
    /// Day of the week, Monday is 1.
    IsoDow,
    Doy,
    IsoYear,
    Epoch,
}

impl TimeUnit {
    /// The unit of a word, singular or plural, in any case.
    pub fn parse(word: &str) -> Option<TimeUnit> {
        Some(match word.to_ascii_uppercase().as_str() {
            "MILLENNIUM" => TimeUnit::Millennium,
            "CENTURY" => TimeUnit::Century,
            "DECADE" => TimeUnit::Decade,
            "YEAR" | "YEARS" | "SQL_TSI_YEAR" => TimeUnit::Year,
            "QUARTER" | "QUARTERS" | "SQL_TSI_QUARTER" => TimeUnit::Quarter,
            "MONTH" | "MONTHS" | "SQL_TSI_MONTH" => TimeUnit::Month,
            "WEEK" | "WEEKS" | "SQL_TSI_WEEK" => TimeUnit::Week,
            "DAY" | "DAYS" | "SQL_TSI_DAY" => TimeUnit::Day,
            "HOUR" | "HOURS" | "SQL_TSI_HOUR" => TimeUnit::Hour,
            "MINUTE" | "MINUTES" | "SQL_TSI_MINUTE" => TimeUnit::Minute,
            "SECOND" | "SECONDS" | "SQL_TSI_SECOND" => TimeUnit::Second,
            "MILLISECOND" => TimeUnit::Millisecond,
            "MICROSECOND" | "SQL_TSI_MICROSECOND" => TimeUnit::Microsecond,
            "NANOSECOND" => TimeUnit::Nanosecond,
            "DOW" => TimeUnit::Dow,
            "ISODOW" => TimeUnit::IsoDow,
            "DOY" => TimeUnit::Doy,
            "ISOYEAR" => TimeUnit::IsoYear,
            "EPOCH" => TimeUnit::Epoch,
            _ => return None,
        })
    }

    /// The keyword, singular.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Millennium => "MILLENNIUM",
            TimeUnit::Century => "CENTURY",
            TimeUnit::Decade => "DECADE",
            TimeUnit::Year => "YEAR",
            TimeUnit::Quarter => "QUARTER",
            TimeUnit::Month => "MONTH",
            TimeUnit::Week => "WEEK",
            TimeUnit::Day => "DAY",
            TimeUnit::Hour => "HOUR",
            TimeUnit::Minute => "MINUTE",
            TimeUnit::Second => "SECOND",
            TimeUnit::Millisecond => "MILLISECOND",
            TimeUnit::Microsecond => "MICROSECOND",
            TimeUnit::Nanosecond => "NANOSECOND",
            TimeUnit::Dow => "DOW",
            TimeUnit::IsoDow => "ISODOW",
            TimeUnit::Doy => "DOY",
            TimeUnit::IsoYear => "ISOYEAR",
            TimeUnit::Epoch => "EPOCH",
        }
    }
}

/// `DAY(3) TO SECOND(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalQualifier {
    /// First (or only) unit.
    pub start: TimeUnit,
    /// Digits of the first unit.
    pub precision: Option<u32>,
    /// Last unit.
    pub end: Option<TimeUnit>,
    /// Digits of a second's fraction.
    pub fraction: Option<u32>,
}
