//! Plans as text: `EXPLAIN`, and the descriptions of operators.

use tidegate_api::expr::{AggregateCall, Expr, ExprNode};
use tidegate_api::graph::JoinKind;
use tidegate_api::text::{decimal_to_string, java_double};
use tidegate_api::text::{format_date, format_time_sql, format_timestamp_sql};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;
use tidegate_window::{WindowKind, WindowSpec};

use super::expr::PendingAggregate;
use super::rel::{Column, IntervalJoin, Key, Rel, RelKind, WindowAggregate};

/// An expression over these columns.
pub fn expr_text(expr: &Expr, columns: &[Column]) -> String {
    let text = |e: &Expr| expr_text(e, columns);
    match &expr.node {
        ExprNode::Input(i) => columns.get(*i).map_or_else(|| format!("${i}"), |c| c.name.clone()),
        ExprNode::Literal(value) => value_text(value, &expr.ty),
        ExprNode::Call { function, args } => match args.as_slice() {
            [a, b] if !function.starts_with(|c: char| c.is_alphabetic()) || is_infix(function) => {
                format!("({} {function} {})", text(a), text(b))
            }
            [a] if function.starts_with("IS ") => format!("{} {function}", text(a)),
            _ => format!("{function}({})", args.iter().map(text).collect::<Vec<_>>().join(", ")),
        },
        ExprNode::Cast { input, lenient } => {
            let name = if *lenient { "TRY_CAST" } else { "CAST" };
            format!("{name}({} AS {})", text(input), expr.ty.with_nullable(true))
        }
        ExprNode::Case { branches, otherwise } => {
            let mut parts: Vec<String> = branches.iter().flat_map(|(c, v)| [text(c), text(v)]).collect();
            parts.push(otherwise.as_ref().map_or_else(|| "null".to_string(), |e| text(e)));
            format!("CASE({})", parts.join(", "))
        }
        ExprNode::Field { input, index } => {
            let name = match &input.ty.kind {
                TypeKind::Row(fields) => fields.get(*index).map(|f| f.name.clone()),
                _ => None,
            };
            format!("{}.{}", text(input), name.unwrap_or_else(|| index.to_string()))
        }
    }
}

fn is_infix(function: &str) -> bool {
    matches!(function, "AND" | "OR" | "LIKE" | "IS DISTINCT FROM" | "IS NOT DISTINCT FROM")
}

/// A constant of this type.
pub fn value_text(value: &Value, ty: &LogicalType) -> String {
    match (value, &ty.kind) {
        (Value::Null, _) => "null".into(),
        (Value::Boolean(b), _) => b.to_string(),
        (Value::Int(days), TypeKind::Date) => format_date(*days as i32),
        (Value::Int(ms), TypeKind::Time(p)) => format_time_sql(*ms as i32, *p),
        (Value::Int(n), TypeKind::IntervalDayTime) => format!("{n}:INTERVAL SECOND"),
        (Value::Int(n), TypeKind::IntervalYearMonth) => format!("{n}:INTERVAL MONTH"),
        (Value::Int(n), _) => n.to_string(),
        (Value::Double(v), _) => java_double(*v),
        (Value::Decimal(v), TypeKind::Decimal(_, s)) => decimal_to_string(*v, *s),
        (Value::Decimal(v), _) => v.to_string(),
        (Value::String(s), _) => format!("'{}'", s.replace('\'', "''")),
        (Value::Bytes(bytes), _) => format!("X'{}'", hex::encode_upper(bytes)),
        (Value::Timestamp(nanos), TypeKind::Timestamp(p) | TypeKind::TimestampLtz(p)) => {
            format_timestamp_sql(*nanos, *p)
        }
        (other, _) => format!("{other:?}"),
    }
}

fn names(columns: &[Column], indices: &[usize]) -> String {
    indices.iter().map(|&i| columns[i].name.as_str()).collect::<Vec<_>>().join(", ")
}

/// `SUM(v) FILTER b AS EXPR$0`.
fn call_text(call: &AggregateCall, columns: &[Column]) -> String {
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    let args = if call.args.is_empty() { "*".to_string() } else { names(columns, &call.args) };
    let filter = call.filter.map_or_else(String::new, |f| format!(" FILTER {}", columns[f].name));
    format!("{}({distinct}{args}){filter} AS {}", call.function, call.name)
}

/// What an aggregate call over these columns computes: `SUM(DISTINCT price) FILTER (b)`. State is kept under
/// this text, so it must not change between releases.
pub fn meaning(call: &PendingAggregate, columns: &[Column]) -> String {
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    let args: Vec<String> = call.args.iter().map(|a| expr_text(a, columns)).collect();
    let params = call.params.iter().map(|p| format!(", {p:?}")).collect::<String>();
    let args = if args.is_empty() { "*".to_string() } else { args.join(", ") };
    let filter = call.filter.as_ref().map_or_else(String::new, |f| format!(" FILTER ({})", expr_text(f, columns)));
    format!("{}({distinct}{args}{params}){filter}", call.function)
}

/// `TUMBLE(time_col=[ts], size=[10 s])`.
pub fn window_text(window: &WindowSpec, time: &str) -> String {
    let offset = if window.offset == 0 { String::new() } else { format!(", offset=[{}]", millis(window.offset)) };
    match window.kind {
        WindowKind::Tumble { size } => format!("TUMBLE({time}, size=[{}]{offset})", millis(size)),
        WindowKind::Hop { slide, size } => {
            format!("HOP({time}, size=[{}], slide=[{}]{offset})", millis(size), millis(slide))
        }
        WindowKind::Cumulate { step, size } => {
            format!("CUMULATE({time}, max_size=[{}], step=[{}]{offset})", millis(size), millis(step))
        }
        WindowKind::Session { gap } => format!("SESSION({time}, gap=[{}])", millis(gap)),
    }
}

fn millis(ms: i64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    match units.iter().find(|(size, _)| ms != 0 && ms % size == 0) {
        Some((size, unit)) => format!("{} {unit}", ms / size),
        None => format!("{ms} ms"),
    }
}

/// `groupBy=[k], select=[k, COUNT(*) AS EXPR$0]`.
pub fn aggregate_text(columns: &[Column], keys: &[usize], calls: &[AggregateCall]) -> String {
    let group_by = if keys.is_empty() { String::new() } else { format!("groupBy=[{}], ", names(columns, keys)) };
    let select: Vec<String> =
        keys.iter().map(|&k| columns[k].name.clone()).chain(calls.iter().map(|c| call_text(c, columns))).collect();
    format!("{group_by}select=[{}]", select.join(", "))
}

fn window_aggregate_text(agg: &WindowAggregate) -> String {
    use tidegate_api::graph::WindowInput;
    let columns = &agg.input.columns;
    let time = match agg.source {
        WindowInput::TimeColumn(t) => format!("time_col=[{}]", columns[t].name),
        WindowInput::Attached { start, end } => {
            format!("win_start=[{}], win_end=[{}]", columns[start].name, columns[end].name)
        }
    };
    let window = window_text(&agg.window, &time);
    let rest = aggregate_text(columns, &agg.keys, &agg.aggregates);
    match rest.strip_prefix("groupBy=") {
        Some(_) => rest.replacen("], select=", &format!("], window=[{window}], select="), 1),
        None => format!("window=[{window}], {rest}"),
    }
}

/// One operator, without those below it.
pub fn rel_text(rel: &Rel) -> String {
    match &rel.kind {
        RelKind::Scan(table) => {
            let fields: Vec<&str> = rel.columns.iter().map(|c| c.name.as_str()).collect();
            let path = table.descriptor.identifier.replace('.', ", ");
            format!("TableSourceScan(table=[[{path}]], fields=[{}])", fields.join(", "))
        }
        RelKind::Values(rows) => format!("Values(rows=[{}])", rows.len()),
        RelKind::Calc { input, filter, projection } => calc_text(input, filter.as_ref(), projection, &rel.columns),
        RelKind::Union(_) => {
            let fields: Vec<&str> = rel.columns.iter().map(|c| c.name.as_str()).collect();
            format!("Union(all=[true], union=[{}])", fields.join(", "))
        }
        RelKind::WindowTvf { input, window, time_column, keys } => {
            let partition = if keys.is_empty() {
                String::new()
            } else {
                format!(", partition keys=[{}]", names(&input.columns, keys))
            };
            let time = format!("time_col=[{}]{partition}", input.columns[*time_column].name);
            format!("WindowTableFunction(window=[{}])", window_text(window, &time))
        }
        RelKind::WindowAggregate(agg) if agg.legacy => format!("GroupWindowAggregate({})", window_aggregate_text(agg)),
        RelKind::WindowAggregate(agg) => format!("WindowAggregate({})", window_aggregate_text(agg)),
        RelKind::GroupAggregate { input, keys, aggregates } => {
            format!("GroupAggregate({})", aggregate_text(&input.columns, keys, aggregates))
        }
        RelKind::Expand { input, projections } => {
            let lists: Vec<String> = projections
                .iter()
                .map(|list| list.iter().map(|e| expr_text(e, &input.columns)).collect::<Vec<_>>().join(", "))
                .collect();
            format!("Expand(projects=[{{{}}}])", lists.join("}, {"))
        }
        RelKind::Unnest { input, spec } => {
            let kind = if spec.outer { "LEFT" } else { "INNER" };
            let collection = expr_text(&spec.collection, &input.columns);
            format!("Correlate(invocation=[UNNEST({collection})], joinType=[{kind}])")
        }
        RelKind::Join(join) => {
            let condition = join.condition.as_ref().map_or_else(|| "true".into(), |c| expr_text(c, &rel.columns));
            format!("Join(joinType=[{}], condition=[{condition}])", join.kind.name())
        }
        RelKind::IntervalJoin(join) => interval_join_text(join, &rel.columns),
    }
}

/// `IntervalJoin(joinType=[InnerJoin], windowBounds=[...], where=[...], select=[...])`.
fn interval_join_text(join: &IntervalJoin, columns: &[Column]) -> String {
    let bounds = format!(
        "isRowTime=true, leftLowerBound={}, leftUpperBound={}, leftTimeIndex={}, rightTimeIndex={}",
        join.lower_ms, join.upper_ms, join.left_time, join.right_time
    );
    let select: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    if let Some(joined) = &join.window {
        let side = |start: usize, end: usize| {
            let bounds = format!("win_start=[{}], win_end=[{}]", columns[start].name, columns[end].name);
            window_text(&joined.window, &bounds)
        };
        let width = join.left.columns.len();
        let (start, end) = (&join.keys[joined.start_key], &join.keys[joined.end_key]);
        return format!(
            "WindowJoin(leftWindow=[{}], rightWindow=[{}], joinType=[{}], where=[{}], select=[{}])",
            side(start.left, end.left),
            side(width + start.right, width + end.right),
            join.kind.name(),
            interval_condition(join, columns),
            select.join(", ")
        );
    }
    format!(
        "IntervalJoin(joinType=[{}], windowBounds=[{bounds}], where=[{}], select=[{}])",
        join.kind.name(),
        interval_condition(join, columns),
        select.join(", ")
    )
}

/// Keys, bounds and what else must hold, as one condition.
fn interval_condition(join: &IntervalJoin, columns: &[Column]) -> String {
    let width = join.left.columns.len();
    let key = |key: &Key| {
        let operator = if key.null_safe { "IS NOT DISTINCT FROM" } else { "=" };
        format!("({} {operator} {})", columns[key.left].name, columns[width + key.right].name)
    };
    let others = join.within.iter().chain(&join.residual).map(|e| expr_text(e, columns));
    let is_bound = |n: usize| join.window.as_ref().is_some_and(|w| n == w.start_key || n == w.end_key);
    let keys = join.keys.iter().enumerate().filter(|(n, _)| !is_bound(*n)).map(|(_, k)| key(k));
    let parts: Vec<String> = keys.chain(others).collect();
    match parts.as_slice() {
        [] => "true".into(),
        [only] => only.clone(),
        parts => format!("({})", parts.join(" AND ")),
    }
}

impl IntervalJoin {
    /// What it joins, as far as its state depends on it. State is kept under this text, so it must not change
    /// between releases.
    pub fn meaning(&self) -> String {
        let bounds = match &self.window {
            Some(joined) => format!("{} of {}", self.kind.name(), window_text(&joined.window, "windows")),
            None => format!("{} by {} to {} ms", self.kind.name(), self.lower_ms, self.upper_ms),
        };
        let columns = super::rel::join_columns(&self.left.columns, &self.right.columns, self.kind);
        match &self.residual {
            // Rows remember whether they have met a partner.
            Some(residual) if self.kind != JoinKind::Inner => {
                format!("{bounds} where {}", expr_text(residual, &columns))
            }
            _ => bounds,
        }
    }
}

/// `Calc(select=[a, (b + 1) AS c], where=[(a > 1)])`.
pub fn calc_text(input: &Rel, filter: Option<&Expr>, projection: &[Expr], columns: &[Column]) -> String {
    let select: Vec<String> = projection
        .iter()
        .zip(columns)
        .map(|(e, c)| {
            let text = expr_text(e, &input.columns);
            if text == c.name { text } else { format!("{text} AS {}", c.name) }
        })
        .collect();
    let filter = filter.map_or_else(String::new, |f| format!(", where=[{}]", expr_text(f, &input.columns)));
    format!("Calc(select=[{}]{filter})", select.join(", "))
}

/// The tree of operators, the root first.
pub fn tree_text(root: Option<&str>, rel: &Rel) -> String {
    let mut out = String::new();
    match root {
        Some(root) => {
            out.push_str(root);
            out.push('\n');
            write_tree(rel, 1, &mut out);
        }
        None => write_tree(rel, 0, &mut out),
    }
    out
}

fn write_tree(rel: &Rel, depth: usize, out: &mut String) {
    if depth > 0 {
        out.push_str(&"   ".repeat(depth - 1));
        out.push_str("+- ");
    }
    out.push_str(&rel_text(rel));
    out.push('\n');
    for input in rel.inputs() {
        write_tree(input, depth + 1, out);
    }
}
