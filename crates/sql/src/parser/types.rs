//! Types.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{DataType, DataTypeKind, RowField};
use crate::lexer::Tok;

impl Parser<'_> {
    /// A type with `NOT NULL` or `NULL`, if written.
    pub(super) fn data_type(&mut self) -> Result<DataType> {
        self.nested(Self::data_type_here)
    }

    /// The type after `CAST(.. AS`: the only place where Flink reads an interval type.
    pub(super) fn cast_type(&mut self) -> Result<DataType> {
        let start = self.span();
        if !self.eat_word("INTERVAL") {
            return self.data_type();
        }
        let kind = DataTypeKind::Interval(self.interval_qualifier()?);
        Ok(DataType { kind, nullable: self.nullability(), span: self.span_from(start) })
    }

    fn data_type_here(&mut self) -> Result<DataType> {
        let start = self.span();
        let mut kind = self.type_kind()?;
        let mut nullable = self.nullability();
        let mut length = 0;
        while self.is_word("ARRAY") || self.is_word("MULTISET") {
            self.chain(length + super::MAX_CHAIN - super::MAX_DEPTH)?;
            length += 1;
            let element = Box::new(DataType { kind, nullable, span: self.span_from(start) });
            kind = match self.eat_word("ARRAY") {
                true => DataTypeKind::Array(element),
                false => {
                    self.bump();
                    DataTypeKind::Multiset(element)
                }
            };
            nullable = self.nullability();
        }
        Ok(DataType { kind, nullable, span: self.span_from(start) })
    }

    fn nullability(&mut self) -> bool {
        if self.eat_words(&["NOT", "NULL"]) {
            return false;
        }
        // `JSON_VALUE(.. RETURNING INT NULL ON EMPTY)`: there the word is not the type's.
        if !self.is_word_at(1, "ON") {
            self.eat_word("NULL");
        }
        true
    }

    fn type_kind(&mut self) -> Result<DataTypeKind> {
        use DataTypeKind::*;
        let word = self.upper();
        let simple = match word.as_str() {
            "BOOLEAN" => Boolean,
            "TINYINT" => TinyInt,
            "SMALLINT" => SmallInt,
            "INT" | "INTEGER" => Int,
            "BIGINT" => BigInt,
            "FLOAT" => Float,
            "REAL" => Real,
            "STRING" => String,
            "BYTES" => Bytes,
            "DATE" => Date,
            "NULL" => Null,
            "VARIANT" => Variant,
            "BITMAP" => Bitmap,
            _ => return self.long_type(&word),
        };
        self.bump();
        Ok(simple)
    }

    fn long_type(&mut self, word: &str) -> Result<DataTypeKind> {
        use DataTypeKind::*;
        if !matches!(self.peek().tok, Tok::Word(_)) || !is_type_word(word) {
            return self.object_name().map(Named);
        }
        self.bump();
        Ok(match word {
            "DOUBLE" => {
                self.eat_word("PRECISION");
                Double
            }
            "DECIMAL" | "DEC" | "NUMERIC" => self.decimal()?,
            "CHAR" | "CHARACTER" => match self.eat_word("VARYING") {
                true => Varchar(self.length()?),
                false => Char(self.length()?),
            },
            "VARCHAR" => Varchar(self.length()?),
            "BINARY" => match self.eat_word("VARYING") {
                true => Varbinary(self.length()?),
                false => Binary(self.length()?),
            },
            "VARBINARY" => Varbinary(self.length()?),
            "TIME" => {
                let precision = self.length()?;
                self.eat_words(&["WITHOUT", "TIME", "ZONE"]);
                Time(precision)
            }
            "TIMESTAMP" => self.timestamp()?,
            "TIMESTAMP_LTZ" => TimestampLtz(self.length()?),
            "ARRAY" => {
                self.expect("<")?;
                let element = self.data_type()?;
                self.expect(">")?;
                Array(Box::new(element))
            }
            "MULTISET" => {
                self.expect("<")?;
                let element = self.data_type()?;
                self.expect(">")?;
                Multiset(Box::new(element))
            }
            "MAP" => {
                self.expect("<")?;
                let key = self.data_type()?;
                self.expect(",")?;
                let value = self.data_type()?;
                self.expect(">")?;
                Map(Box::new(key), Box::new(value))
            }
            "ROW" => Row(self.row_fields()?),
            "STRUCTURED" => self.structured()?,
            _ => self.raw()?,
        })
    }

    /// `(n)`, if written.
    fn length(&mut self) -> Result<Option<u32>> {
        if !self.eat("(") {
            return Ok(None);
        }
        let n = self.uint()?;
        self.expect(")")?;
        Ok(Some(n))
    }

    fn decimal(&mut self) -> Result<DataTypeKind> {
        let (mut precision, mut scale) = (None, None);
        if self.eat("(") {
            precision = Some(self.uint()?);
            if self.eat(",") {
                scale = Some(self.uint()?);
            }
            self.expect(")")?;
        }
        Ok(DataTypeKind::Decimal(precision, scale))
    }

    fn timestamp(&mut self) -> Result<DataTypeKind> {
        let precision = self.length()?;
        if self.eat_words(&["WITH", "LOCAL", "TIME", "ZONE"]) {
            return Ok(DataTypeKind::TimestampLtz(precision));
        }
        if self.eat_words(&["WITH", "TIME", "ZONE"]) {
            return Ok(DataTypeKind::TimestampTz(precision));
        }
        self.eat_words(&["WITHOUT", "TIME", "ZONE"]);
        Ok(DataTypeKind::Timestamp(precision))
    }

    fn row_fields(&mut self) -> Result<Vec<RowField>> {
        if self.eat("<>") {
            return Ok(Vec::new());
        }
        let close = if self.eat("(") {
            ")"
        } else {
            self.expect("<")?;
            ">"
        };
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let fields = self.comma_list(Self::row_field)?;
        self.expect(close)?;
        Ok(fields)
    }

    fn row_field(&mut self) -> Result<RowField> {
        let name = self.ident()?;
        let ty = self.data_type()?;
        let comment = match self.peek().tok {
            Tok::String(_) => Some(self.string()?),
            _ => None,
        };
        Ok(RowField { name, ty, comment })
    }

    fn structured(&mut self) -> Result<DataTypeKind> {
        self.expect("<")?;
        let class = self.string()?;
        let mut fields = Vec::new();
        while self.eat(",") {
            fields.push(self.row_field()?);
        }
        self.expect(">")?;
        Ok(DataTypeKind::Structured(class, fields))
    }

    fn raw(&mut self) -> Result<DataTypeKind> {
        self.expect("(")?;
        let class = self.string()?;
        self.expect(",")?;
        let snapshot = self.string()?;
        self.expect(")")?;
        Ok(DataTypeKind::Raw(class, snapshot))
    }
}

fn is_type_word(word: &str) -> bool {
    matches!(
        word,
        "DOUBLE"
            | "DECIMAL"
            | "DEC"
            | "NUMERIC"
            | "CHAR"
            | "CHARACTER"
            | "VARCHAR"
            | "BINARY"
            | "VARBINARY"
            | "TIME"
            | "TIMESTAMP"
            | "TIMESTAMP_LTZ"
            | "ARRAY"
            | "MULTISET"
            | "MAP"
            | "ROW"
            | "STRUCTURED"
            | "RAW"
    )
}
