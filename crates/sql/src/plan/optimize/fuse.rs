//! Calc over Calc is one Calc; a Calc that changes nothing is none.

use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::types::{LogicalType, TypeKind};

use crate::plan::rel::{Rel, RelKind, bare_input, is_nondeterministic, substitute, visit_inputs};

/// Merges Calcs from the bottom up.
pub fn fuse(rel: Rel) -> Rel {
    let rel = rel.map_inputs(&mut fuse);
    let Rel { columns, kind } = rel;
    let RelKind::Calc { input, filter, projection } = kind else { return Rel { columns, kind } };
    let (input, filter, projection) = merge(*input, filter, projection);
    if filter.is_none() && is_identity(&projection, &input) {
        // Names and time attributes are the upper operator's.
        return Rel { columns, kind: input.kind };
    }
    Rel { columns, kind: RelKind::Calc { input: Box::new(input), filter, projection } }
}

fn is_identity(projection: &[Expr], input: &Rel) -> bool {
    projection.len() == input.columns.len()
        && projection.iter().enumerate().all(|(i, e)| bare_input(e) == Some(i) && e.ty.kind == input.columns[i].ty.kind)
}

fn merge(input: Rel, filter: Option<Expr>, projection: Vec<Expr>) -> (Rel, Option<Expr>, Vec<Expr>) {
    let can_merge = match &input.kind {
        RelKind::Calc { filter: lower_filter, projection: lower, .. } => {
            let both = filter.is_some() && lower_filter.is_some();
            let safe = !both || filter.as_ref().is_some_and(|f| cannot_fail_over(f, lower));
            safe && !repeats_nondeterministic(lower, filter.as_ref(), &projection)
        }
        _ => false,
    };
    if !can_merge {
        return (input, filter, projection);
    }
    let columns = input.columns.clone();
    let RelKind::Calc { input: below, filter: lower_filter, projection: lower } = input.kind else {
        return (Rel { columns, kind: input.kind }, filter, projection);
    };
    let mut projection = projection;
    projection.iter_mut().for_each(|e| substitute(e, &lower));
    let filter = filter.map(|mut f| {
        substitute(&mut f, &lower);
        f
    });
    let filter = match (lower_filter, filter) {
        (Some(a), Some(b)) => Some(and(a, b)),
        (a, b) => a.or(b),
    };
    (*below, filter, projection)
}

/// `a AND b`, both BOOLEAN.
fn and(a: Expr, b: Expr) -> Expr {
    let ty = LogicalType { kind: TypeKind::Boolean, nullable: a.ty.nullable || b.ty.nullable };
    Expr::call("AND", vec![a, b], ty)
}

/// True if a condition, with the columns below put in, cannot fail on a row that the condition below
/// would have kept from it.
fn cannot_fail_over(filter: &Expr, lower: &[Expr]) -> bool {
    let mut safe = is_total(filter);
    visit_inputs(filter, &mut |i| safe &= is_total(&lower[i]));
    safe
}

fn is_total(expr: &Expr) -> bool {
    const TOTAL: [&str; 18] = [
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "AND",
        "OR",
        "NOT",
        "IS NULL",
        "IS NOT NULL",
        "IS TRUE",
        "IS NOT TRUE",
        "IS FALSE",
        "IS NOT FALSE",
        "IS UNKNOWN",
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
    ];
    let mut total = true;
    expr.visit(&mut |e| {
        total &= match &e.node {
            ExprNode::Input(_) | ExprNode::Literal(_) | ExprNode::Case { .. } | ExprNode::Field { .. } => true,
            ExprNode::Call { function, .. } => TOTAL.contains(&function.as_str()),
            // Widening cannot fail; a string that is no number can.
            ExprNode::Cast { input, .. } => input.ty.is_numeric() && e.ty.is_numeric(),
        };
    });
    total
}

/// `RAND()` named twice above must still be drawn once.
fn repeats_nondeterministic(lower: &[Expr], filter: Option<&Expr>, projection: &[Expr]) -> bool {
    if !lower.iter().any(is_nondeterministic) {
        return false;
    }
    let mut uses = vec![0usize; lower.len()];
    for expr in filter.into_iter().chain(projection) {
        visit_inputs(expr, &mut |i| uses[i] += 1);
    }
    lower.iter().zip(uses).any(|(e, n)| n > 1 && is_nondeterministic(e))
}
