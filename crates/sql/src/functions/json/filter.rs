//! Filters of JSON paths: `[?(@.price < 10 && @.kind == 'book')]`.

use serde_json::Value;

use super::path::{Step, outside_quotes, relative_steps, walk};

/// A condition on an element.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    Or(Box<Condition>, Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    Exists(Vec<Step>),
    Compare(Operand, Comparison, Operand),
}

/// A side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Compiles the text between the parentheses of `[?(...)]`.
pub(super) fn compile(text: &str) -> Result<Condition, String> {
    let text = text.trim();
    if let Some((left, right)) = split_outside(text, "||") {
        return Ok(Condition::Or(Box::new(compile(left)?), Box::new(compile(right)?)));
    }
    if let Some((left, right)) = split_outside(text, "&&") {
        return Ok(Condition::And(Box::new(compile(left)?), Box::new(compile(right)?)));
    }
    if let Some(inner) = text.strip_prefix('!').filter(|t| !t.starts_with('=')) {
        return Ok(Condition::Not(Box::new(compile(inner)?)));
    }
    if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        return compile(inner);
    }
    for (sign, comparison) in [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ] {
        if let Some((left, right)) = split_outside(text, sign) {
            return Ok(Condition::Compare(operand(left)?, comparison, operand(right)?));
        }
    }
    match operand(text)? {
        Operand::Path(steps) => Ok(Condition::Exists(steps)),
        Operand::Literal(_) => Err(format!("the filter '{text}' is not supported")),
    }
}

/// Splits at the first `sign` outside quotes and parentheses.
fn split_outside<'a>(text: &'a str, sign: &str) -> Option<(&'a str, &'a str)> {
    let mut found = outside_quotes(text)
        .filter(|(i, c, depth)| *depth == 0 && !matches!(c, ')' | ']') && text[*i..].starts_with(sign));
    found.next().map(|(i, ..)| (&text[..i], &text[i + sign.len()..]))
}

fn operand(text: &str) -> Result<Operand, String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('@') {
        if rest.contains(char::is_whitespace) || rest.contains('~') {
            return Err(format!("the filter '{text}' is not supported"));
        }
        return relative_steps(text).map(Operand::Path);
    }
    if text.starts_with(['\'', '"']) {
        let mut list = quoted_list(text)?;
        return match (list.pop(), list.is_empty()) {
            (Some(literal), true) => Ok(Operand::Literal(Value::String(literal))),
            _ => Err(format!("'{text}' is no string")),
        };
    }
    let literal: Value =
        serde_json::from_str(text).map_err(|_| format!("the filter operand '{text}' is not supported"))?;
    Ok(Operand::Literal(literal))
}

/// Reads `'a', "b"`.
pub(super) fn quoted_list(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let quote = chars.next().filter(|c| matches!(c, '\'' | '"')).ok_or("a quoted name is missing")?;
        let mut name = String::new();
        loop {
            match chars.next().ok_or("a quote is not closed")? {
                '\\' => name.extend(chars.next()),
                c if c == quote => break,
                c => name.push(c),
            }
        }
        names.push(name);
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        match chars.next() {
            None => return Ok(names),
            Some(',') => {}
            Some(c) => return Err(format!("'{c}' after a quoted name")),
        }
    }
}

/// Whether `condition` holds for `item`.
pub(super) fn holds(condition: &Condition, item: &Value) -> bool {
    match condition {
        Condition::Or(a, b) => holds(a, item) || holds(b, item),
        Condition::And(a, b) => holds(a, item) && holds(b, item),
        Condition::Not(a) => !holds(a, item),
        Condition::Exists(steps) => value_of(steps, item).is_some(),
        Condition::Compare(left, comparison, right) => match (resolve(left, item), resolve(right, item)) {
            (Some(left), Some(right)) => compare(&left, *comparison, &right),
            (None, None) => false,
            _ => *comparison == Comparison::NotEqual,
        },
    }
}

fn resolve(operand: &Operand, item: &Value) -> Option<Value> {
    match operand {
        Operand::Literal(value) => Some(value.clone()),
        Operand::Path(steps) => value_of(steps, item),
    }
}

fn value_of(steps: &[Step], item: &Value) -> Option<Value> {
    let mut value = None;
    walk(steps, item, true, &mut |v| value = Some(v)).ok()?;
    value
}

fn compare(left: &Value, comparison: Comparison, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => None,
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let equal = order.map_or(left == right, |o| o.is_eq());
    match comparison {
        Comparison::Equal => equal,
        Comparison::NotEqual => !equal,
        Comparison::Less => order.is_some_and(|o| o.is_lt()),
        Comparison::LessOrEqual => order.is_some_and(|o| o.is_le()),
        Comparison::Greater => order.is_some_and(|o| o.is_gt()),
        Comparison::GreaterOrEqual => order.is_some_and(|o| o.is_ge()),
    }
}
