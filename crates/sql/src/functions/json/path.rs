//! JSON paths as Flink has them: Calcite's `strict`/`lax` prefix before a Jayway path.
//!
//! A *definite* path names at most one value; any other gives the list of what it found. Strict
//! mode (the default) fails where a definite step finds nothing; lax mode finds NULL.

use serde_json::{Map, Value};

use super::filter::{self, Condition};

/// Whether a missing value is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Strict,
    Lax,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// `.name`, `['name']`, `['a','b']`.
    Names(Vec<String>),
    /// `[1]`, `[-1]`, `[0,2]`.
    Indexes(Vec<i64>),
    /// `[1:3]`.
    Slice(Option<i64>, Option<i64>),
    /// `.*`, `[*]`.
    Wildcard,
    /// `..`: the next step at every depth.
    Scan,
    /// `[?(...)]`.
    Filter(Condition),
    /// `.length()`.
    Length,
}

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    pub mode: Mode,
    pub steps: Vec<Step>,
}

/// A path that names nothing in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotFound(pub String);

impl Path {
    /// Compiles the text of a path; the error says what is wrong with it.
    pub(super) fn compile(text: &str) -> Result<Path, String> {
        let trimmed = text.trim_start();
        let prefix = |word: &str| {
            let head = trimmed.get(..word.len())?;
            let rest = &trimmed[word.len()..];
            (head.eq_ignore_ascii_case(word) && rest.starts_with(char::is_whitespace)).then_some(rest)
        };
        let (mode, spec) = match (prefix("strict"), prefix("lax")) {
            (Some(rest), _) => (Mode::Strict, rest),
            (None, Some(rest)) => (Mode::Lax, rest),
            (None, None) => (Mode::Strict, text),
        };
        let steps = parse_steps(spec.trim()).map_err(|why| format!("Invalid JSON path '{text}': {why}"))?;
        Ok(Path { mode, steps })
    }

    /// What the path finds; a JSON null is nothing in lax mode and an error in strict mode.
    pub(super) fn find(&self, document: Value) -> Result<Option<Value>, NotFound> {
        if let [Step::Names(names)] = self.steps.as_slice()
            && let [name] = names.as_slice()
            && let Value::Object(mut fields) = document
        {
            return self.found(fields.remove(name));
        }
        self.find_general(document)
    }

    fn found(&self, value: Option<Value>) -> Result<Option<Value>, NotFound> {
        match (value, self.mode) {
            (Some(Value::Null), Mode::Strict) => {
                Err(NotFound("Strict jsonpath mode requires a non empty returned value, but is null".into()))
            }
            (Some(Value::Null) | None, Mode::Lax) => Ok(None),
            (Some(value), _) => Ok(Some(value)),
            (None, Mode::Strict) => Err(NotFound(format!("No results for path: {}", self.canonical()))),
        }
    }

    fn find_general(&self, document: Value) -> Result<Option<Value>, NotFound> {
        let mut values = Vec::new();
        let complete = walk(&self.steps, &document, true, &mut |v| values.push(v));
        if is_definite(&self.steps) {
            let value = if complete.is_ok() { values.pop() } else { None };
            return self.found(value);
        }
        match (complete, self.mode) {
            (Err(why), Mode::Strict) => Err(why),
            (Err(_), Mode::Lax) => Ok(Some(Value::Array(Vec::new()))),
            (Ok(()), _) => Ok(Some(Value::Array(values))),
        }
    }

    /// The path as Jayway writes it: `$['a'][0]`.
    fn canonical(&self) -> String {
        let mut text = String::from("$");
        for step in &self.steps {
            match step {
                Step::Names(names) => {
                    let quoted: Vec<String> = names.iter().map(|n| format!("'{n}'")).collect();
                    text += &format!("[{}]", quoted.join(","));
                }
                Step::Indexes(indexes) => {
                    let indexes: Vec<String> = indexes.iter().map(i64::to_string).collect();
                    text += &format!("[{}]", indexes.join(","));
                }
                Step::Slice(..) => text += "[:]",
                Step::Wildcard => text += "[*]",
                Step::Scan => text += "..",
                Step::Filter(_) => text += "[?]",
                Step::Length => text += ".length()",
            }
        }
        text
    }
}

/// True if the steps name at most one value.
fn is_definite(steps: &[Step]) -> bool {
    steps.iter().enumerate().all(|(i, step)| match step {
        Step::Names(names) => names.len() == 1 || i + 1 == steps.len(),
        Step::Indexes(indexes) => indexes.len() == 1,
        Step::Length => true,
        Step::Slice(..) | Step::Wildcard | Step::Scan | Step::Filter(_) => false,
    })
}

/// Gives `found` every value `steps` lead to from `value`. While the way so far is definite, a step
/// that cannot be taken is an error; after that it finds nothing.
pub(super) fn walk(
    steps: &[Step],
    value: &Value,
    definite: bool,
    found: &mut dyn FnMut(Value),
) -> Result<(), NotFound> {
    let Some((step, rest)) = steps.split_first() else {
        found(value.clone());
        return Ok(());
    };
    let nothing = |why: String| if definite { Err(NotFound(why)) } else { Ok(()) };
    match (step, value) {
        (Step::Names(names), Value::Object(fields)) => walk_names(names, fields, rest, definite, found),
        (Step::Names(names), _) => {
            nothing(format!("Expected to find an object with property ['{}']", names.join("','")))
        }
        (Step::Indexes(indexes), Value::Array(items)) => {
            let one = indexes.len() == 1;
            for index in indexes {
                let from_start = if *index < 0 { index + items.len() as i64 } else { *index };
                match usize::try_from(from_start).ok().and_then(|i| items.get(i)) {
                    Some(item) => walk(rest, item, definite && one, found)?,
                    None if definite && one => return Err(NotFound(format!("Index out of bound: [{index}]"))),
                    None => {}
                }
            }
            Ok(())
        }
        (Step::Slice(from, to), Value::Array(items)) => {
            slice(items, *from, *to).iter().try_for_each(|item| walk(rest, item, false, found))
        }
        (Step::Indexes(_) | Step::Slice(..), _) => nothing("An index can only be applied to arrays".into()),
        (Step::Wildcard, Value::Object(fields)) => fields.values().try_for_each(|v| walk(rest, v, false, found)),
        (Step::Wildcard, Value::Array(items)) => items.iter().try_for_each(|v| walk(rest, v, false, found)),
        (Step::Wildcard, _) => Ok(()),
        (Step::Scan, _) => scan(rest, value, found),
        (Step::Filter(condition), Value::Array(items)) => items
            .iter()
            .filter(|item| filter::holds(condition, item))
            .try_for_each(|item| walk(rest, item, false, found)),
        (Step::Filter(condition), Value::Object(_)) => {
            if filter::holds(condition, value) {
                walk(rest, value, false, found)
            } else {
                Ok(())
            }
        }
        (Step::Filter(_), _) => nothing("A filter can only be applied to arrays and objects".into()),
        (Step::Length, Value::Array(items)) => length(items.len(), found),
        (Step::Length, Value::Object(fields)) => length(fields.len(), found),
        (Step::Length, _) => {
            found(Value::Null);
            Ok(())
        }
    }
}

fn length(n: usize, found: &mut dyn FnMut(Value)) -> Result<(), NotFound> {
    found(Value::from(n));
    Ok(())
}

fn walk_names(
    names: &[String],
    fields: &Map<String, Value>,
    rest: &[Step],
    definite: bool,
    found: &mut dyn FnMut(Value),
) -> Result<(), NotFound> {
    if let [name] = names {
        return match fields.get(name) {
            Some(value) => walk(rest, value, definite, found),
            None if definite => Err(NotFound(format!("Missing property in path $['{name}']"))),
            None => Ok(()),
        };
    }
    if rest.is_empty() {
        let part = names.iter().filter_map(|n| Some((n.clone(), fields.get(n)?.clone()))).collect();
        found(Value::Object(part));
        return Ok(());
    }
    names.iter().filter_map(|n| fields.get(n)).try_for_each(|value| walk(rest, value, false, found))
}

/// Takes `steps` at `value` and at everything inside it, outer values first.
fn scan(steps: &[Step], value: &Value, found: &mut dyn FnMut(Value)) -> Result<(), NotFound> {
    if matches!(value, Value::Object(_) | Value::Array(_)) {
        walk(steps, value, false, found)?;
    }
    match value {
        Value::Object(fields) => fields.values().try_for_each(|v| scan(steps, v, found)),
        Value::Array(items) => items.iter().try_for_each(|v| scan(steps, v, found)),
        _ => Ok(()),
    }
}

fn slice(items: &[Value], from: Option<i64>, to: Option<i64>) -> &[Value] {
    let len = items.len() as i64;
    let bound = |i: i64| if i < 0 { (i + len).max(0) } else { i.min(len) } as usize;
    let (from, to) = (bound(from.unwrap_or(0)), bound(to.unwrap_or(len)));
    if from < to { &items[from..to] } else { &[] }
}

fn parse_steps(spec: &str) -> Result<Vec<Step>, String> {
    if spec.is_empty() {
        return Err("it is empty".into());
    }
    let mut rest = match spec.strip_prefix(['$', '@']) {
        Some(rest) => rest.to_string(),
        None => format!(".{spec}"),
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let taken = if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Scan);
            if after.is_empty() {
                return Err("it ends with '..'".into());
            }
            if after.starts_with('[') { 2 } else { 1 }
        } else if let Some(after) = rest.strip_prefix('.') {
            1 + dotted(after, &mut steps)?
        } else if rest.starts_with('[') {
            let end = closing(&rest)?;
            steps.push(bracketed(rest[1..end].trim())?);
            end + 1
        } else {
            return Err(format!("'{rest}' where '.' or '[' should be"));
        };
        rest.drain(..taken);
    }
    Ok(steps)
}

fn dotted(after: &str, steps: &mut Vec<Step>) -> Result<usize, String> {
    if after.starts_with('*') {
        steps.push(Step::Wildcard);
        return Ok(1);
    }
    let end = after.find(['.', '[', '(', ' ']).unwrap_or(after.len());
    let name = &after[..end];
    if name.is_empty() {
        return Err("a name is missing after '.'".into());
    }
    if after[end..].starts_with('(') {
        if matches!(name, "length" | "size") && after[end..].starts_with("()") && after.len() == end + 2 {
            steps.push(Step::Length);
            return Ok(end + 2);
        }
        return Err(format!("the path function {name}() is not supported"));
    }
    steps.push(Step::Names(vec![name.to_string()]));
    Ok(end)
}

/// The characters outside quotes, each with the number of brackets open after it.
pub(super) fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char, i32)> {
    let (mut depth, mut quote, mut escaped) = (0, None, false);
    text.char_indices().filter_map(move |(i, c)| {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(q), _) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) => {
                depth += i32::from(matches!(c, '[' | '(')) - i32::from(matches!(c, ']' | ')'));
                return Some((i, c, depth));
            }
        }
        None
    })
}

/// Index of the bracket that closes the one at the start.
fn closing(text: &str) -> Result<usize, String> {
    let mut closing = outside_quotes(text).filter(|(_, c, depth)| matches!(c, ']' | ')') && *depth == 0);
    closing.next().map(|(i, ..)| i).ok_or_else(|| "a '[' is not closed".into())
}

fn bracketed(inside: &str) -> Result<Step, String> {
    if inside == "*" {
        return Ok(Step::Wildcard);
    }
    if let Some(condition) = inside.strip_prefix('?') {
        let condition = condition.trim().strip_prefix('(').and_then(|c| c.strip_suffix(')'));
        let condition = condition.ok_or("a filter is written [?(...)]")?;
        return Ok(Step::Filter(filter::compile(condition)?));
    }
    if inside.starts_with(['\'', '"']) {
        return Ok(Step::Names(filter::quoted_list(inside)?));
    }
    let index = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("'{inside}' is no index"));
    let bound = |text: &str| if text.trim().is_empty() { Ok(None) } else { index(text).map(Some) };
    match inside.split(':').collect::<Vec<_>>().as_slice() {
        [_] => Ok(Step::Indexes(inside.split(',').map(index).collect::<Result<_, _>>()?)),
        [from, to] => Ok(Step::Slice(bound(from)?, bound(to)?)),
        _ => Err(format!("'{inside}' is no slice; a step width is not supported")),
    }
}

/// Steps of a path inside a filter, which starts with `@`.
pub(super) fn relative_steps(text: &str) -> Result<Vec<Step>, String> {
    parse_steps(text)
}
