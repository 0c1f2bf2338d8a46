//! Flink's logical types, and the Arrow array each one travels in.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Fields, Schema as ArrowSchema, TimeUnit};
use serde::{Deserialize, Serialize};

/// The length of `STRING` and `BYTES`: `VARCHAR(2147483647)`.
pub const MAX_LENGTH: u32 = i32::MAX as u32;

/// A type without its nullability.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TypeKind {
    /// The type of a bare `NULL` literal; travels as an Arrow null array.
    Null,
    /// `BOOLEAN`.
    Boolean,
    /// `TINYINT`.
    TinyInt,
    /// `SMALLINT`.
    SmallInt,
    /// `INT`.
    Int,
    /// `BIGINT`.
    BigInt,
    /// `FLOAT`, 4 bytes.
    Float,
    /// `DOUBLE`, 8 bytes.
    Double,
    /// `DECIMAL(precision, scale)`, precision 1 to 38.
    Decimal(u8, u8),
    /// `CHAR(n)`; n counts characters.
    Char(u32),
    /// `VARCHAR(n)`; `STRING` is `VARCHAR(MAX_LENGTH)`.
    Varchar(u32),
    /// `BINARY(n)`.
    Binary(u32),
    /// `VARBINARY(n)`; `BYTES` is `VARBINARY(MAX_LENGTH)`.
    Varbinary(u32),
    /// `DATE`: days since the epoch.
    Date,
    /// `TIME(p)`: milliseconds of the day whatever p says, as in Flink.
    Time(u8),
    /// `TIMESTAMP(p)`: wall-clock digits without a zone, kept as if they were UTC.
    Timestamp(u8),
    /// `TIMESTAMP_LTZ(p)`: an instant.
    TimestampLtz(u8),
    /// `INTERVAL YEAR TO MONTH`: months.
    IntervalYearMonth,
    /// `INTERVAL DAY TO SECOND`: milliseconds.
    IntervalDayTime,
    /// `ARRAY<t>`.
    Array(Box<LogicalType>),
    /// `MAP<k, v>`.
    Map(Box<LogicalType>, Box<LogicalType>),
    /// `MULTISET<t>`: a map from element to its `INT` count.
    Multiset(Box<LogicalType>),
    /// `ROW<name type, ...>`.
    Row(Vec<Field>),
}

/// A type with its nullability.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogicalType {
    /// What the values are.
    pub kind: TypeKind,
    /// Whether a value may be NULL.
    pub nullable: bool,
}

/// A named column, or a field of a `ROW`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// Case-sensitive name.
    pub name: String,
    /// Type.
    pub ty: LogicalType,
}

impl Field {
    /// A column `name` of type `ty`.
    pub fn new(name: impl Into<String>, ty: LogicalType) -> Self {
        Field { name: name.into(), ty }
    }
}

/// The columns of a stream, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Schema {
    /// Columns.
    pub fields: Vec<Field>,
}

impl Schema {
    /// A schema of these columns.
    pub fn new(fields: Vec<Field>) -> Self {
        Schema { fields }
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// True for a stream without columns (`COUNT(*)` needs none).
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Position of the first column with this exact name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }

    /// The Arrow schema batches of this stream carry. Every column is nullable there: nullability
    /// is Flink's business, not Arrow's, and NOT NULL is enforced at the sink.
    pub fn to_arrow(&self) -> Arc<ArrowSchema> {
        let fields: Vec<ArrowField> =
            self.fields.iter().map(|f| ArrowField::new(&f.name, f.ty.to_arrow(), true)).collect();
        Arc::new(ArrowSchema::new(fields))
    }
}

impl LogicalType {
    /// A nullable type.
    pub fn new(kind: TypeKind) -> Self {
        LogicalType { kind, nullable: true }
    }

    /// A NOT NULL type.
    pub fn not_null(kind: TypeKind) -> Self {
        LogicalType { kind, nullable: false }
    }

    /// The same type with this nullability.
    pub fn with_nullable(&self, nullable: bool) -> Self {
        LogicalType { kind: self.kind.clone(), nullable }
    }

    /// Nullable `STRING`.
    pub fn string() -> Self {
        LogicalType::new(TypeKind::Varchar(MAX_LENGTH))
    }

    /// Nullable `BYTES`.
    pub fn bytes() -> Self {
        LogicalType::new(TypeKind::Varbinary(MAX_LENGTH))
    }

    /// `CHAR`, `VARCHAR` or `STRING`.
    pub fn is_string(&self) -> bool {
        matches!(self.kind, TypeKind::Char(_) | TypeKind::Varchar(_))
    }

    /// `BINARY`, `VARBINARY` or `BYTES`.
    pub fn is_binary(&self) -> bool {
        matches!(self.kind, TypeKind::Binary(_) | TypeKind::Varbinary(_))
    }

    /// `TINYINT` to `BIGINT`.
    pub fn is_integer(&self) -> bool {
        matches!(self.kind, TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int | TypeKind::BigInt)
    }

    /// Integers, floats and decimals.
    pub fn is_numeric(&self) -> bool {
        self.is_integer() || self.is_approximate() || matches!(self.kind, TypeKind::Decimal(..))
    }

    /// `FLOAT` or `DOUBLE`.
    pub fn is_approximate(&self) -> bool {
        matches!(self.kind, TypeKind::Float | TypeKind::Double)
    }

    /// `TIMESTAMP` or `TIMESTAMP_LTZ`.
    pub fn is_timestamp(&self) -> bool {
        matches!(self.kind, TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_))
    }

    /// The Arrow type of a column of this type.
    ///
    /// | Flink | Arrow |
    /// |---|---|
    /// | `TIMESTAMP(0..3)`, `TIMESTAMP_LTZ(0..3)` | `Timestamp(Millisecond, None)` |
    /// | `TIMESTAMP(4..6)`, `TIMESTAMP_LTZ(4..6)` | `Timestamp(Microsecond, None)` |
    /// | `TIMESTAMP(7..9)`, `TIMESTAMP_LTZ(7..9)` | `Decimal128(38, 0)`: nanoseconds since the epoch; 64 bits of them end in 2262 |
    /// | `TIME(p)` | `Time32(Millisecond)` |
    /// | intervals | `Int32` months, `Int64` milliseconds |
    /// | `MULTISET<t>` | a map from `t` to `Int32` |
    pub fn to_arrow(&self) -> DataType {
        match &self.kind {
            TypeKind::Null => DataType::Null,
            TypeKind::Boolean => DataType::Boolean,
            TypeKind::TinyInt => DataType::Int8,
            TypeKind::SmallInt => DataType::Int16,
            TypeKind::Int => DataType::Int32,
            TypeKind::BigInt => DataType::Int64,
            TypeKind::Float => DataType::Float32,
            TypeKind::Double => DataType::Float64,
            TypeKind::Decimal(p, s) => DataType::Decimal128(*p, *s as i8),
            TypeKind::Char(_) | TypeKind::Varchar(_) => DataType::Utf8,
            TypeKind::Binary(_) | TypeKind::Varbinary(_) => DataType::Binary,
            TypeKind::Date => DataType::Date32,
            TypeKind::Time(_) => DataType::Time32(TimeUnit::Millisecond),
            TypeKind::Timestamp(p) | TypeKind::TimestampLtz(p) => match p {
                0..=3 => DataType::Timestamp(TimeUnit::Millisecond, None),
                4..=6 => DataType::Timestamp(TimeUnit::Microsecond, None),
                _ => DataType::Decimal128(38, 0),
            },
            TypeKind::IntervalYearMonth => DataType::Int32,
            TypeKind::IntervalDayTime => DataType::Int64,
            TypeKind::Array(t) => DataType::List(list_field(t)),
            TypeKind::Map(k, v) => DataType::Map(map_field(k, v), false),
            TypeKind::Multiset(t) => DataType::Map(map_field(t, &LogicalType::new(TypeKind::Int)), false),
            TypeKind::Row(fields) => DataType::Struct(row_fields(fields)),
        }
    }
}

/// The Arrow field of a list's elements.
pub fn list_field(element: &LogicalType) -> Arc<ArrowField> {
    Arc::new(ArrowField::new("item", element.to_arrow(), true))
}

/// The Arrow field of a map's entries: a struct of `key` and `value`.
pub fn map_field(key: &LogicalType, value: &LogicalType) -> Arc<ArrowField> {
    let entries = Fields::from(vec![
        ArrowField::new("key", key.to_arrow(), false),
        ArrowField::new("value", value.to_arrow(), true),
    ]);
    Arc::new(ArrowField::new("entries", DataType::Struct(entries), false))
}

/// The Arrow fields of a `ROW`.
pub fn row_fields(fields: &[Field]) -> Fields {
    Fields::from(fields.iter().map(|f| ArrowField::new(&f.name, f.ty.to_arrow(), true)).collect::<Vec<_>>())
}

impl fmt::Display for LogicalType {
    /// Flink's summary string, as `TYPEOF` and `DESCRIBE` print it: `DECIMAL(10, 2) NOT NULL`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_kind(&self.kind, f)?;
        if !self.nullable {
            f.write_str(" NOT NULL")?;
        }
        Ok(())
    }
}

fn fmt_kind(kind: &TypeKind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match kind {
        TypeKind::Null => f.write_str("NULL"),
        TypeKind::Boolean => f.write_str("BOOLEAN"),
        TypeKind::TinyInt => f.write_str("TINYINT"),
        TypeKind::SmallInt => f.write_str("SMALLINT"),
        TypeKind::Int => f.write_str("INT"),
        TypeKind::BigInt => f.write_str("BIGINT"),
        TypeKind::Float => f.write_str("FLOAT"),
        TypeKind::Double => f.write_str("DOUBLE"),
        TypeKind::Decimal(p, s) => write!(f, "DECIMAL({p}, {s})"),
        TypeKind::Char(n) => write!(f, "CHAR({n})"),
        TypeKind::Varchar(MAX_LENGTH) => f.write_str("STRING"),
        TypeKind::Varchar(n) => write!(f, "VARCHAR({n})"),
        TypeKind::Binary(n) => write!(f, "BINARY({n})"),
        TypeKind::Varbinary(MAX_LENGTH) => f.write_str("BYTES"),
        TypeKind::Varbinary(n) => write!(f, "VARBINARY({n})"),
        TypeKind::Date => f.write_str("DATE"),
        TypeKind::Time(p) => write!(f, "TIME({p})"),
        TypeKind::Timestamp(p) => write!(f, "TIMESTAMP({p})"),
        TypeKind::TimestampLtz(p) => write!(f, "TIMESTAMP_LTZ({p})"),
        TypeKind::IntervalYearMonth => f.write_str("INTERVAL YEAR TO MONTH"),
        TypeKind::IntervalDayTime => f.write_str("INTERVAL SECOND(3)"),
        TypeKind::Array(t) => write!(f, "ARRAY<{t}>"),
        TypeKind::Map(k, v) => write!(f, "MAP<{k}, {v}>"),
        TypeKind::Multiset(t) => write!(f, "MULTISET<{t}>"),
        TypeKind::Row(fields) => {
            f.write_str("ROW<")?;
            for (i, field) in fields.iter().enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                write!(f, "{comma}`{}` {}", field.name, field.ty)?;
            }
            f.write_str(">")
        }
    }
}
