//! Windows: which columns of a relation carry one, what Flink demands of its lengths, and the legacy
//! form in `GROUP BY`.

use std::collections::BTreeSet;

use tidegate_api::config::Configuration;
use tidegate_api::error::{Error, Result};
use tidegate_api::expr::Expr;
use tidegate_api::graph::JoinKind;
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::value::Value;
use tidegate_window::{WindowKind, WindowSpec};

use super::Planner;
use super::error::{calcite_type, invalid_at, refused_at, unsupported_at};
use super::expr::{ExprBinder, LegacyWindow};
use super::joins::join_window;
use super::rel::{Column, IntervalJoin, JoinedWindow, Rel, RelKind, TimeAttribute, bare_input};
use crate::ast::{self, ExprKind, Span};

/// The window that rows of a relation carry, and in which columns.
#[derive(Clone, Debug)]
pub struct WindowProperties {
    /// The window.
    pub window: WindowSpec,
    /// Columns that hold `window_start`.
    pub start: BTreeSet<usize>,
    /// Columns that hold `window_end`.
    pub end: BTreeSet<usize>,
    /// Columns that hold `window_time`.
    pub time: BTreeSet<usize>,
}

impl WindowProperties {
    fn at(window: &WindowSpec, first: usize) -> Self {
        WindowProperties {
            window: window.clone(),
            start: [first].into(),
            end: [first + 1].into(),
            time: [first + 2].into(),
        }
    }

    /// These and those of another input with the same window.
    pub(super) fn and(mut self, other: WindowProperties) -> Self {
        self.start.extend(other.start);
        self.end.extend(other.end);
        self.time.extend(other.time);
        self
    }

    /// The properties where column `i` of this is found in the columns `to(i)`.
    pub(super) fn mapped(self, to: impl Fn(usize) -> Vec<usize>) -> Option<Self> {
        let map = |columns: BTreeSet<usize>| columns.into_iter().flat_map(&to).collect::<BTreeSet<_>>();
        let mapped =
            WindowProperties { window: self.window, start: map(self.start), end: map(self.end), time: map(self.time) };
        (!mapped.start.is_empty() && !mapped.end.is_empty()).then_some(mapped)
    }
}

/// The window that the rows of `rel` carry, if both its bounds are among the columns.
pub fn window_properties(rel: &Rel) -> Option<WindowProperties> {
    match &rel.kind {
        RelKind::WindowTvf { input, window, .. } => Some(WindowProperties::at(window, input.columns.len())),
        RelKind::WindowAggregate(agg) => Some(WindowProperties::at(&agg.window, agg.keys.len() + agg.aggregates.len())),
        RelKind::Calc { input, filter, projection } => of_filtered(input, filter.as_ref())?.mapped(|i| {
            let copies = projection.iter().enumerate().filter(|(_, e)| bare_input(e) == Some(i));
            copies.map(|(n, _)| n).collect()
        }),
        RelKind::Expand { input, projections } => window_properties(input)?.mapped(|i| {
            let width = projections.first().map_or(0, Vec::len);
            (0..width).filter(|&n| projections.iter().all(|p| bare_input(&p[n]) == Some(i))).collect()
        }),
        RelKind::Unnest { input, .. } => window_properties(input),
        RelKind::Join(join) => join_window(join, None),
        RelKind::IntervalJoin(join) => joined_window(join),
        RelKind::Scan(_) | RelKind::Values(_) | RelKind::Union(_) | RelKind::GroupAggregate { .. } => None,
    }
}

/// The window of a join of windows. Bounds of a side that may be padded are no bounds.
fn joined_window(join: &IntervalJoin) -> Option<WindowProperties> {
    let JoinedWindow { window, start_key, end_key } = join.window.as_ref()?;
    let (start, end) = (&join.keys[*start_key], &join.keys[*end_key]);
    let of = |start: usize, end: usize, time: usize| WindowProperties {
        window: window.clone(),
        start: [start].into(),
        end: [end].into(),
        time: [time].into(),
    };
    let width = join.left.columns.len();
    let left = of(start.left, end.left, join.left_time);
    let right = of(width + start.right, width + end.right, width + join.right_time);
    match join.kind {
        JoinKind::Inner => Some(left.and(right)),
        JoinKind::Left => Some(left),
        JoinKind::Right => Some(right),
        JoinKind::Full => None,
    }
}

/// The same below a filter, which may say of a join that it joins windows.
fn of_filtered(rel: &Rel, filter: Option<&Expr>) -> Option<WindowProperties> {
    match &rel.kind {
        RelKind::Join(join) => join_window(join, filter),
        _ => window_properties(rel),
    }
}

/// `window_start`, `window_end` and `window_time`. Bounds are wall-clock digits, also for instants.
pub fn window_columns(window: &WindowSpec) -> [Column; 3] {
    let bound = LogicalType::not_null(TypeKind::Timestamp(3));
    let time = match window.zone {
        Some(_) => LogicalType::not_null(TypeKind::TimestampLtz(3)),
        None => bound.clone(),
    };
    [
        Column::new("window_start", bound.clone()),
        Column::new("window_end", bound),
        Column::timed("window_time", time, TimeAttribute::Rowtime),
    ]
}

/// The zone whose midnight windows over a rowtime of this type follow.
pub fn window_zone(rowtime: &LogicalType, session_zone: &str) -> Option<String> {
    matches!(rowtime.kind, TypeKind::TimestampLtz(_)).then(|| session_zone.to_string())
}

/// Early and late firing exist for no window that Tidegate runs.
pub fn check_emit_options(config: &Configuration, legacy: bool, span: Span) -> Result<()> {
    let early = config.bool("table.exec.emit.early-fire.enabled", false)?;
    let late = config.bool("table.exec.emit.late-fire.enabled", false)?;
    if (early || late) && !legacy {
        let message = "Currently, window table function based aggregate doesn't support early-fire and late-fire \
                       configuration 'table.exec.emit.early-fire.enabled' and 'table.exec.emit.late-fire.enabled'.";
        return Err(refused_at(span, message));
    }
    if early || late {
        return Err(unsupported_at(span, "Early or late firing (table.exec.emit.*) of group windows"));
    }
    if legacy && config.duration_ms("table.exec.emit.allow-lateness", 0)? > 0 {
        return Err(unsupported_at(span, "table.exec.emit.allow-lateness"));
    }
    Ok(())
}

/// The slices of HOP and CUMULATE need lengths that divide.
pub fn check_multiples(window: &WindowSpec, span: Span) -> Result<()> {
    match window.kind {
        WindowKind::Hop { slide, size } if size % slide != 0 => {
            let message = format!(
                "HOP table function based aggregate requires size must be an integral multiple of slide, but got \
                 size {size} ms and slide {slide} ms"
            );
            Err(refused_at(span, message))
        }
        WindowKind::Cumulate { step, size } if size % step != 0 => {
            let message = format!(
                "CUMULATE table function based aggregate requires maxSize must be an integral multiple of step, \
                 but got maxSize {size} ms and step {step} ms."
            );
            Err(refused_at(span, message))
        }
        _ => Ok(()),
    }
}

/// Milliseconds of a constant interval argument.
pub fn interval_ms(expr: &Expr, name: &str, span: Span) -> Result<i64> {
    match (&expr.ty.kind, expr.as_literal()) {
        (TypeKind::IntervalDayTime, Some(Value::Int(ms))) => Ok(*ms),
        (TypeKind::IntervalYearMonth, _) => {
            let message = "Window aggregate only support SECOND, MINUTE, HOUR, DAY as the time unit. MONTH and YEAR \
                           time unit are not supported yet.";
            Err(refused_at(span, message))
        }
        (TypeKind::IntervalDayTime, _) => {
            Err(refused_at(span, format!("Only constant window intervals are supported in {name}.")))
        }
        _ => {
            let ty = calcite_type(&expr.ty);
            Err(invalid_at(span, format!("{name} requires an INTERVAL here, but got <{ty}>")))
        }
    }
}

/// A length that must be positive.
pub fn positive(ms: i64, what: &str, name: &str, span: Span) -> Result<i64> {
    if ms > 0 {
        return Ok(ms);
    }
    Err(refused_at(span, format!("{name} requires {what} to be positive, but got {ms} ms.")))
}

impl Planner<'_> {
    /// The legacy window, if `e` is a call of `TUMBLE`, `HOP` or `SESSION`.
    pub(super) fn legacy_window(&self, e: &ast::Expr, binder: &ExprBinder<'_>) -> Result<Option<LegacyWindow>> {
        let ExprKind::Function(call) = &e.kind else { return Ok(None) };
        let name = call.name.last().to_uppercase();
        let wanted = match name.as_str() {
            "TUMBLE" | "SESSION" => 2,
            "HOP" => 3,
            _ => return Ok(None),
        };
        if call.args.len() > wanted {
            let extra = &call.args[wanted].value;
            return Err(unsupported_at(extra.span, format!("The alignment argument of {name}()")));
        }
        if call.args.len() < wanted {
            let message =
                format!("Invalid number of arguments to function '${name}'. Was expecting {wanted} arguments");
            return Err(invalid_at(e.span, message));
        }
        let args: Vec<Expr> = call.args.iter().map(|a| binder.bind(&a.value)).collect::<Result<_>>()?;
        let time_span = call.args[0].value.span;
        let time_column = bare_input(&args[0]);
        let time = time_column.map(|i| binder.scope.column(i).time);
        let (Some(time_column), Some(TimeAttribute::Rowtime)) = (time_column, time) else {
            return Err(legacy_time_error(&args[0], time, time_span));
        };
        let length = |i: usize, what: &str| -> Result<i64> {
            let span = call.args[i].value.span;
            positive(interval_ms(&args[i], &name, span)?, what, &name, span)
        };
        let kind = match name.as_str() {
            "TUMBLE" => WindowKind::Tumble { size: length(1, "size")? },
            "SESSION" => WindowKind::Session { gap: length(1, "gap")? },
            _ => WindowKind::Hop { slide: length(1, "slide")?, size: length(2, "size")? },
        };
        let time_type = args[0].ty.clone();
        let zone = window_zone(&time_type, self.zone());
        let window = WindowSpec { kind, offset: 0, zone };
        Ok(Some(LegacyWindow { name, args, window, time_column, time_type }))
    }
}

fn legacy_time_error(time: &Expr, attribute: Option<TimeAttribute>, span: Span) -> Error {
    if attribute == Some(TimeAttribute::Proctime) {
        return unsupported_at(span, "A processing-time window");
    }
    let message = if time.ty.is_timestamp() {
        let ty = calcite_type(&time.ty);
        format!("Window aggregate can only be defined over a time attribute column, but {ty} encountered.")
    } else {
        let ty = calcite_type(&time.ty);
        format!("Group windows require a time attribute of type TIMESTAMP or TIMESTAMP_LTZ, but got <{ty}>")
    };
    refused_at(span, message)
}
