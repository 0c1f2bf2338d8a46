//! `JSON_VALUE`, `JSON_QUERY`, `JSON_EXISTS`, `IS JSON`.
//!
//! The rules are Flink's `SqlJsonUtils`. A broken document is an error under a strict path; under a
//! lax one it is as if the path found nothing. A path is strict unless it says `lax`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, Int32Array, ListBuilder, StringArray, StringBuilder};
use serde_json::Value as Json;
use tidegate_api::expr::Expr;
use tidegate_api::function::RowError;
use tidegate_api::types::{LogicalType, MAX_LENGTH, TypeKind, list_field};

use super::path::{Mode, Path};
use super::text;
use crate::functions::CallInfo;
use crate::functions::args::{count, expect_string, force, is_null_literal, literal_str};
use crate::functions::columns::{booleans, collect, ints, strings, typed, write_strings};
use crate::functions::string::{MadeKernel, kernel};

/// What a function does where it has no value to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Otherwise {
    Null,
    Error,
    Default,
    EmptyArray,
    EmptyObject,
}

impl Otherwise {
    fn of(expr: &Expr, clause: &str) -> Result<Otherwise, String> {
        if is_null_literal(expr) {
            return Ok(Otherwise::Null);
        }
        let name = literal_str(expr).unwrap_or_default().to_ascii_uppercase();
        match name.replace(['_', ' '], "").as_str() {
            "NULL" => Ok(Otherwise::Null),
            "ERROR" => Ok(Otherwise::Error),
            "DEFAULT" => Ok(Otherwise::Default),
            "EMPTYARRAY" | "EMPTY" => Ok(Otherwise::EmptyArray),
            "EMPTYOBJECT" => Ok(Otherwise::EmptyObject),
            _ => Err(format!("'{name}' is no behaviour for {clause}.")),
        }
    }
}

fn path_of(expr: &Expr) -> Result<Path, String> {
    Path::compile(literal_str(expr).ok_or("The JSON path must be a literal.")?)
}

/// What a path finds in a document, or why it failed.
fn find(document: &str, path: &Path) -> Result<Option<Json>, String> {
    match (text::parse(document), path.mode) {
        (Ok(document), _) => path.find(document).map_err(|e| e.0),
        (Err(why), Mode::Strict) => Err(why),
        (Err(_), Mode::Lax) => Ok(None),
    }
}

fn is_scalar(value: &Json) -> bool {
    !matches!(value, Json::Array(_) | Json::Object(_))
}

fn shown(value: &Json) -> String {
    let mut out = String::new();
    text::write(value, &mut out);
    out
}

/// The outcome of a question: a value, or what to do instead and the message of `ERROR`.
enum Outcome {
    Found(Json),
    Empty(String),
    Failed(String),
}

fn value_outcome(document: &str, path: &Path) -> Outcome {
    match find(document, path) {
        Err(why) => Outcome::Failed(why),
        Ok(Some(value)) if is_scalar(&value) => Outcome::Found(value),
        Ok(Some(value)) if path.mode == Mode::Strict => {
            let shown = shown(&value);
            Outcome::Failed(format!("Strict jsonpath mode requires scalar value, and the actual value is: '{shown}'"))
        }
        Ok(_) => Outcome::Empty("Empty result of JSON_VALUE function is not allowed".into()),
    }
}

/// Type rule of `JSON_VALUE(document, path, type, on empty, its default, on error, its default)`.
pub(super) fn resolve_value(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 7..=7)?;
    expect_string(args, 0)?;
    path_of(&args[1])?;
    let kind = returning(&args[2])?;
    for (behaviour, default, clause) in [(3, 4, "ON EMPTY"), (5, 6, "ON ERROR")] {
        if Otherwise::of(&args[behaviour], clause)? == Otherwise::Default && !is_null_literal(&args[default]) {
            let fits = match kind {
                TypeKind::Int => args[default].ty.is_integer(),
                TypeKind::Double => args[default].ty.is_numeric(),
                TypeKind::Boolean => args[default].ty.kind == TypeKind::Boolean,
                _ => true,
            };
            if !fits {
                let ty = LogicalType::new(kind);
                return Err(format!("DEFAULT {clause} is {}, but RETURNING {ty}.", args[default].ty));
            }
        }
        force(args, default, kind.clone())?;
    }
    Ok(LogicalType::new(kind))
}

/// The type of `RETURNING`: `STRING` if absent.
fn returning(expr: &Expr) -> Result<TypeKind, String> {
    if is_null_literal(expr) {
        return Ok(LogicalType::string().kind);
    }
    let name = literal_str(expr).unwrap_or_default().trim().to_ascii_uppercase();
    let name = name.trim_end_matches(" NOT NULL");
    let length = |prefix: &str| {
        let inner = name.strip_prefix(prefix)?.trim().strip_prefix('(')?.strip_suffix(')')?;
        inner.trim().parse::<u32>().ok()
    };
    match name {
        "STRING" | "VARCHAR" => Ok(TypeKind::Varchar(MAX_LENGTH)),
        "INT" | "INTEGER" => Ok(TypeKind::Int),
        "DOUBLE" | "DOUBLE PRECISION" => Ok(TypeKind::Double),
        "BOOLEAN" => Ok(TypeKind::Boolean),
        "CHAR" => Ok(TypeKind::Char(1)),
        _ => match (length("VARCHAR"), length("CHAR")) {
            (Some(n), _) => Ok(TypeKind::Varchar(n)),
            (None, Some(n)) => Ok(TypeKind::Char(n)),
            (None, None) => Err(format!("Unsupported type '{name}' for RETURNING in JSON_VALUE().")),
        },
    }
}

/// Code of `JSON_VALUE`.
pub(super) fn value_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let asked = Asked {
        path: path_of(&info.args[1])?,
        on_empty: Otherwise::of(&info.args[3], "ON EMPTY")?,
        on_error: Otherwise::of(&info.args[5], "ON ERROR")?,
    };
    let kind = info.ty.kind.clone();
    kernel(move |args, rows| match kind {
        TypeKind::Int => {
            let defaults = [ints(&args[4])?, ints(&args[6])?];
            let default =
                |which: usize, row: usize| Ok((!defaults[which].is_null(row)).then(|| defaults[which].value(row)));
            collect::<i32, Int32Array>(rows, |row| asked.at(args, row, default, |v| whole(&v)))
        }
        TypeKind::Double => {
            let defaults = [typed::<Float64Array>(&args[4])?, typed::<Float64Array>(&args[6])?];
            let default =
                |which: usize, row: usize| Ok((!defaults[which].is_null(row)).then(|| defaults[which].value(row)));
            collect::<f64, Float64Array>(rows, |row| asked.at(args, row, default, |v| fraction(&v)))
        }
        TypeKind::Boolean => {
            let defaults = [booleans(&args[4])?, booleans(&args[6])?];
            let default =
                |which: usize, row: usize| Ok((!defaults[which].is_null(row)).then(|| defaults[which].value(row)));
            let boolean = |v: Json| v.as_bool().ok_or_else(|| not_a(&v, "BOOLEAN"));
            collect::<bool, BooleanArray>(rows, |row| asked.at(args, row, default, boolean))
        }
        _ => {
            let defaults = [strings(&args[4])?, strings(&args[6])?];
            let default = |which: usize, row: usize| {
                Ok((!defaults[which].is_null(row)).then(|| defaults[which].value(row).to_string()))
            };
            collect::<String, StringArray>(rows, |row| asked.at(args, row, default, |v| Ok(scalar_text(v))))
        }
    })
}

/// The constant part of a `JSON_VALUE`.
struct Asked {
    path: Path,
    on_empty: Otherwise,
    on_error: Otherwise,
}

impl Asked {
    /// The answer for one row; `default` gives the default of ON EMPTY (0) or ON ERROR (1).
    fn at<T>(
        &self,
        args: &[ArrayRef],
        row: usize,
        default: impl Fn(usize, usize) -> Result<Option<T>, String>,
        convert: impl Fn(Json) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let documents = strings(&args[0]).map_err(|e| e.message)?;
        if documents.is_null(row) {
            return Ok(None);
        }
        let (otherwise, which, why) = match value_outcome(documents.value(row), &self.path) {
            Outcome::Found(value) => return convert(value).map(Some),
            Outcome::Empty(why) => (self.on_empty, 0, why),
            Outcome::Failed(why) => (self.on_error, 1, why),
        };
        match otherwise {
            Otherwise::Error => Err(format!("JSON_VALUE: {why}")),
            Otherwise::Default => default(which, row),
            _ => Ok(None),
        }
    }
}

fn not_a(value: &Json, wanted: &str) -> String {
    format!("JSON_VALUE: {} is no {wanted} and is not converted to one", shown(value))
}

fn whole(value: &Json) -> Result<i32, String> {
    let number = value.as_number().map(|n| n.to_string()).filter(|n| text::is_whole(n));
    number.and_then(|n| n.parse().ok()).ok_or_else(|| not_a(value, "INTEGER"))
}

/// Flink makes a DOUBLE only of a number written with a point or an exponent.
fn fraction(value: &Json) -> Result<f64, String> {
    let number = value.as_number().map(|n| n.to_string()).filter(|n| !text::is_whole(n));
    number.and_then(|n| n.parse().ok()).ok_or_else(|| not_a(value, "DOUBLE"))
}

fn scalar_text(value: Json) -> String {
    match value {
        Json::String(s) => s,
        other => shown(&other),
    }
}

/// Whether `JSON_QUERY` puts what it finds into an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrapper {
    Without,
    Conditional,
    Unconditional,
}

impl Wrapper {
    fn of(expr: &Expr) -> Result<Wrapper, String> {
        match literal_str(expr) {
            None | Some("WITHOUT") => Ok(Wrapper::Without),
            Some("CONDITIONAL") => Ok(Wrapper::Conditional),
            Some("UNCONDITIONAL") => Ok(Wrapper::Unconditional),
            Some(other) => Err(format!("'{other}' is no wrapper of JSON_QUERY.")),
        }
    }

    fn wrap(self, value: Json) -> Json {
        match (self, value) {
            (Wrapper::Unconditional, value) => Json::Array(vec![value]),
            (Wrapper::Conditional, Json::Array(items)) => Json::Array(items),
            (Wrapper::Conditional, value) => Json::Array(vec![value]),
            (Wrapper::Without, value) => value,
        }
    }
}

/// Type rule of `JSON_QUERY(document, path, wrapper, on empty, on error[, type])`.
pub(super) fn resolve_query(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 5..=6)?;
    expect_string(args, 0)?;
    path_of(&args[1])?;
    Wrapper::of(&args[2])?;
    Otherwise::of(&args[3], "ON EMPTY")?;
    Otherwise::of(&args[4], "ON ERROR")?;
    let name = args.get(5).and_then(literal_str).unwrap_or("STRING").replace(' ', "").to_ascii_uppercase();
    match name.as_str() {
        "STRING" | "VARCHAR" => Ok(LogicalType::string()),
        "ARRAY<STRING>" => Ok(LogicalType::new(TypeKind::Array(Box::new(LogicalType::string())))),
        _ => Err(format!("Unsupported type '{name}' for RETURNING in JSON_QUERY().")),
    }
}

fn query_outcome(document: &str, path: &Path, wrapper: Wrapper) -> Outcome {
    match find(document, path) {
        Err(why) => Outcome::Failed(why),
        Ok(None) => Outcome::Empty("Empty result of JSON_QUERY function is not allowed".into()),
        Ok(Some(value)) => match wrapper.wrap(value) {
            value if !is_scalar(&value) => Outcome::Found(value),
            value if path.mode == Mode::Strict => {
                let shown = shown(&value);
                Outcome::Failed(format!(
                    "Strict jsonpath mode requires array or object value, and the actual value is: '{shown}'"
                ))
            }
            _ => Outcome::Empty("Empty result of JSON_QUERY function is not allowed".into()),
        },
    }
}

/// Code of `JSON_QUERY`.
pub(super) fn query_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let (path, wrapper) = (path_of(&info.args[1])?, Wrapper::of(&info.args[2])?);
    let on_empty = Otherwise::of(&info.args[3], "ON EMPTY")?;
    let on_error = Otherwise::of(&info.args[4], "ON ERROR")?;
    let answer = move |document: &str| {
        let (otherwise, why) = match query_outcome(document, &path, wrapper) {
            Outcome::Found(value) => return Ok(Some(value)),
            Outcome::Empty(why) => (on_empty, why),
            Outcome::Failed(why) => (on_error, why),
        };
        match otherwise {
            Otherwise::Error => Err(format!("JSON_QUERY: {why}")),
            Otherwise::EmptyArray => Ok(Some(Json::Array(Vec::new()))),
            Otherwise::EmptyObject => Ok(Some(Json::Object(Default::default()))),
            Otherwise::Null | Otherwise::Default => Ok(None),
        }
    };
    if info.ty.is_string() {
        return kernel(move |args, rows| {
            let documents = strings(&args[0])?;
            write_strings(rows, |row, out| {
                let found = if documents.is_null(row) { None } else { answer(documents.value(row))? };
                found.iter().for_each(|value| text::write(value, out));
                Ok(found.is_some())
            })
        });
    }
    kernel(move |args, rows| {
        let documents = strings(&args[0])?;
        let mut lists = ListBuilder::new(StringBuilder::new()).with_field(list_field(&LogicalType::string()));
        for row in 0..rows {
            let found = if documents.is_null(row) { Ok(None) } else { answer(documents.value(row)) };
            let items = match found.map_err(|message| RowError::new(row, message))? {
                Some(Json::Array(items)) => items,
                _ => {
                    lists.append(false);
                    continue;
                }
            };
            for item in items {
                lists.values().append_option(if item.is_null() { None } else { Some(scalar_text(item)) });
            }
            lists.append(true);
        }
        Ok(Arc::new(lists.finish()))
    })
}

/// Type rule of `JSON_EXISTS(document, path[, on error])`.
pub(super) fn resolve_exists(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 2..=3)?;
    expect_string(args, 0)?;
    path_of(&args[1])?;
    exists_on_error(args)?;
    Ok(LogicalType::new(TypeKind::Boolean))
}

/// `None` means ERROR ON ERROR.
fn exists_on_error(args: &[Expr]) -> Result<Option<Option<bool>>, String> {
    match args.get(2).and_then(literal_str) {
        None | Some("FALSE") => Ok(Some(Some(false))),
        Some("TRUE") => Ok(Some(Some(true))),
        Some("UNKNOWN" | "NULL") => Ok(Some(None)),
        Some("ERROR") => Ok(None),
        Some(other) => Err(format!("'{other}' is no behaviour for ON ERROR.")),
    }
}

/// Code of `JSON_EXISTS`; a JSON null does not exist, and is an error in strict mode.
pub(super) fn exists_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let path = path_of(&info.args[1])?;
    let on_error = exists_on_error(info.args)?;
    kernel(move |args, rows| {
        let documents = strings(&args[0])?;
        collect::<bool, BooleanArray>(rows, |row| {
            if documents.is_null(row) {
                return Ok(None);
            }
            match (find(documents.value(row), &path), on_error) {
                (Ok(found), _) => Ok(Some(found.is_some())),
                (Err(_), Some(answer)) => Ok(answer),
                (Err(why), None) => Err(format!("JSON_EXISTS: {why}")),
            }
        })
    })
}

/// Type rule of `IS JSON(text, kind)`: never NULL.
pub(super) fn resolve_is_json(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=2)?;
    expect_string(args, 0)?;
    json_kind(args)?;
    Ok(LogicalType::not_null(TypeKind::Boolean))
}

fn json_kind(args: &[Expr]) -> Result<fn(&Json) -> bool, String> {
    match args.get(1).and_then(literal_str) {
        None | Some("VALUE") => Ok(|_| true),
        Some("OBJECT") => Ok(Json::is_object),
        Some("ARRAY") => Ok(Json::is_array),
        Some("SCALAR") => Ok(is_scalar),
        Some(other) => Err(format!("'{other}' is no kind of JSON.")),
    }
}

/// Code of `IS JSON`.
pub(super) fn is_json_kernel(info: &CallInfo<'_>) -> MadeKernel {
    let fits = json_kind(info.args)?;
    kernel(move |args, rows| {
        let texts = strings(&args[0])?;
        collect::<bool, BooleanArray>(rows, |row| {
            let json = if texts.is_null(row) { None } else { text::parse(texts.value(row)).ok() };
            Ok(Some(json.is_some_and(|j| fits(&j))))
        })
    })
}
