//! The SQL/JSON functions and their clauses.

use tidegate_api::Result;

use super::Parser;
use crate::ast::{
    DataType, Expr, JsonCall, JsonExistsOnError, JsonOnNull, JsonQueryBehavior, JsonValueBehavior, JsonWrapper,
};
use crate::lexer::Tok;

impl Parser<'_> {
    /// The call whose name, in upper case, is `word`.
    pub(super) fn json(&mut self, word: &str) -> Result<JsonCall> {
        self.pos += 2;
        let call = match word {
            "JSON_EXISTS" => self.json_exists()?,
            "JSON_VALUE" => self.json_value()?,
            "JSON_QUERY" => self.json_query()?,
            "JSON_OBJECT" => self.json_object()?,
            "JSON_ARRAY" => self.json_array()?,
            "JSON_OBJECTAGG" => self.json_object_agg()?,
            _ => self.json_array_agg()?,
        };
        // The aggregates close their own parentheses, because clauses follow.
        if !matches!(call, JsonCall::ObjectAgg { .. } | JsonCall::ArrayAgg { .. }) {
            self.expect(")")?;
        }
        Ok(call)
    }

    fn json_input(&mut self) -> Result<(Expr, Expr)> {
        let input = self.expr()?;
        self.eat_words(&["FORMAT", "JSON"]);
        self.expect(",")?;
        Ok((input, self.expr()?))
    }

    fn returning(&mut self) -> Result<Option<DataType>> {
        if self.eat_word("RETURNING") { self.data_type().map(Some) } else { Ok(None) }
    }

    fn json_exists(&mut self) -> Result<JsonCall> {
        let (input, path) = self.json_input()?;
        let on_error = match self.upper().as_str() {
            "TRUE" => Some(JsonExistsOnError::True),
            "FALSE" => Some(JsonExistsOnError::False),
            "UNKNOWN" => Some(JsonExistsOnError::Unknown),
            "ERROR" => Some(JsonExistsOnError::Error),
            _ => None,
        };
        if on_error.is_some() {
            self.bump();
            self.expect_words(&["ON", "ERROR"])?;
        }
        Ok(JsonCall::Exists { input, path, on_error })
    }

    fn json_value(&mut self) -> Result<JsonCall> {
        let (input, path) = self.json_input()?;
        let returning = self.returning()?;
        let (mut on_empty, mut on_error) = (None, None);
        loop {
            let behavior = if self.eat_word("ERROR") {
                JsonValueBehavior::Error
            } else if self.eat_word("NULL") {
                JsonValueBehavior::Null
            } else if self.eat_word("DEFAULT") {
                JsonValueBehavior::Default(self.expr()?)
            } else {
                return Ok(JsonCall::Value { input, path, returning, on_empty, on_error });
            };
            match self.on_empty()? {
                true => on_empty = Some(behavior),
                false => on_error = Some(behavior),
            }
        }
    }

    /// `ON EMPTY` is true, `ON ERROR` is false.
    fn on_empty(&mut self) -> Result<bool> {
        self.expect_word("ON")?;
        if self.eat_word("EMPTY") {
            return Ok(true);
        }
        if self.eat_word("ERROR") {
            return Ok(false);
        }
        Err(self.unexpected(&["EMPTY", "ERROR"]))
    }

    fn json_query(&mut self) -> Result<JsonCall> {
        let (input, path) = self.json_input()?;
        let returning = self.returning()?;
        let mut wrapper = None;
        if self.eat_word("WITHOUT") {
            wrapper = Some(JsonWrapper::Without);
        } else if self.eat_word("WITH") {
            wrapper = Some(match self.eat_word("CONDITIONAL") {
                true => JsonWrapper::WithConditional,
                false => {
                    self.eat_word("UNCONDITIONAL");
                    JsonWrapper::WithUnconditional
                }
            });
        }
        if wrapper.is_some() {
            self.eat_word("ARRAY");
            self.expect_word("WRAPPER")?;
        }
        let (mut on_empty, mut on_error) = (None, None);
        loop {
            let behavior = if self.eat_word("ERROR") {
                JsonQueryBehavior::Error
            } else if self.eat_word("NULL") {
                JsonQueryBehavior::Null
            } else if self.eat_words(&["EMPTY", "ARRAY"]) {
                JsonQueryBehavior::EmptyArray
            } else if self.eat_words(&["EMPTY", "OBJECT"]) {
                JsonQueryBehavior::EmptyObject
            } else {
                return Ok(JsonCall::Query { input, path, returning, wrapper, on_empty, on_error });
            };
            match self.on_empty()? {
                true => on_empty = Some(behavior),
                false => on_error = Some(behavior),
            }
        }
    }

    fn is_on_null(&self) -> bool {
        self.are_words(&["NULL", "ON", "NULL"]) || self.are_words(&["ABSENT", "ON", "NULL"])
    }

    fn on_null(&mut self) -> Option<JsonOnNull> {
        if self.eat_words(&["NULL", "ON", "NULL"]) {
            Some(JsonOnNull::Null)
        } else if self.eat_words(&["ABSENT", "ON", "NULL"]) {
            Some(JsonOnNull::Absent)
        } else {
            None
        }
    }

    /// `[KEY] key VALUE value` or `key : value`.
    fn json_entry(&mut self) -> Result<(Expr, Expr)> {
        // `KEY` is no reserved word: it is the keyword only before another operand.
        if self.is_word("KEY") && !self.is_word_at(1, "VALUE") && !matches!(self.peek_at(1).tok, Tok::Punct(_)) {
            self.bump();
        }
        let key = self.expr()?;
        if !self.eat(":") && !self.eat(",") {
            self.expect_word("VALUE")?;
        }
        let value = self.expr()?;
        self.eat_words(&["FORMAT", "JSON"]);
        Ok((key, value))
    }

    fn json_object(&mut self) -> Result<JsonCall> {
        let mut entries = Vec::new();
        if !self.is_punct(")") && !self.is_on_null() {
            entries = self.comma_list(Self::json_entry)?;
        }
        Ok(JsonCall::Object { entries, on_null: self.on_null() })
    }

    fn json_array(&mut self) -> Result<JsonCall> {
        let mut items = Vec::new();
        if !self.is_punct(")") && !self.is_on_null() {
            items = self.comma_list(|p| {
                let item = p.expr()?;
                p.eat_words(&["FORMAT", "JSON"]);
                Ok(item)
            })?;
        }
        Ok(JsonCall::Array { items, on_null: self.on_null() })
    }

    fn json_object_agg(&mut self) -> Result<JsonCall> {
        let (key, value) = self.json_entry()?;
        let on_null = self.on_null();
        self.expect(")")?;
        Ok(JsonCall::ObjectAgg { key, value, on_null, filter: self.filter()? })
    }

    fn json_array_agg(&mut self) -> Result<JsonCall> {
        let value = self.expr()?;
        self.eat_words(&["FORMAT", "JSON"]);
        let mut order_by = self.order_by()?;
        let on_null = self.on_null();
        self.expect(")")?;
        if self.eat_words(&["WITHIN", "GROUP"]) {
            self.expect("(")?;
            order_by = self.order_by()?;
            self.expect(")")?;
        }
        Ok(JsonCall::ArrayAgg { value, order_by, on_null, filter: self.filter()? })
    }
}
