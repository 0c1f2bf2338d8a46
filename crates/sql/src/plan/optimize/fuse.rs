//! Calc over Calc is one Calc; a Calc that changes nothing is none.

use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::types::{LogicalType, TypeKind};

use crate::plan::rel::{Column, Rel, RelKind, bare_input, is_nondeterministic, substitute, visit_inputs};

/// Merges Calcs from the bottom up.
pub fn fuse(rel: Rel) -> Rel {
    let rel = rel.map_inputs(&mut fuse);
    let Rel { columns, kind } = rel;
    let RelKind::Calc { input, filter, projection } = kind else { return Rel { columns, kind } };
    let (input, filter, mut projection) = merge(*input, filter, projection);
    if let Some(filter) = &filter {
        pin_types(&mut projection, filter);
    }
    if filter.is_none() && is_identity(&projection, &input) {
        // Names and time attributes are the upper operator's.
        return Rel { columns, kind: input.kind };
    }
    if let RelKind::Union(branches) = input.kind {
        if projection.iter().any(asks_for_type) {
            let calc = |branch| above_branch(branch, &columns, &filter, &projection);
            let branches = branches.into_iter().map(calc).collect();
            return Rel { columns, kind: RelKind::Union(branches) };
        }
        let input = Rel { columns: input.columns, kind: RelKind::Union(branches) };
        return Rel { columns, kind: RelKind::Calc { input: Box::new(input), filter, projection } };
    }
    Rel { columns, kind: RelKind::Calc { input: Box::new(input), filter, projection } }
}

/// True if `TYPEOF` is called. Flink computes a projection over a union in each branch, and there a column may be
/// NOT NULL that is nullable in the union.
fn asks_for_type(expr: &Expr) -> bool {
    let mut found = false;
    expr.visit(&mut |e| found |= matches!(&e.node, ExprNode::Call { function, .. } if function.as_str() == "TYPEOF"));
    found
}

/// True for a column, cast or not, that the filter holds equal to a constant: Flink puts the constant in its place.
fn is_pinned(expr: &Expr, filter: &Expr) -> bool {
    match &expr.node {
        ExprNode::Cast { input, lenient: false } => is_pinned(input, filter),
        ExprNode::Input(_) => pins(filter, expr),
        _ => false,
    }
}

fn pins(filter: &Expr, column: &Expr) -> bool {
    let ExprNode::Call { function, args } = &filter.node else { return false };
    let is = |e: &Expr| e.node == column.node;
    match (function.as_str(), args.as_slice()) {
        ("AND", parts) => parts.iter().any(|part| pins(part, column)),
        ("=", [a, b]) => (is(a) && b.as_literal().is_some()) || (is(b) && a.as_literal().is_some()),
        _ => false,
    }
}

/// Makes a pinned column NOT NULL where its type is asked for.
fn pin_types(projection: &mut [Expr], filter: &Expr) {
    for expr in projection.iter_mut() {
        if let ExprNode::Call { function, args } = &mut expr.node
            && function.as_str() == "TYPEOF"
            && matches!(args[0].node, ExprNode::Input(_))
            && pins(filter, &args[0])
        {
            args[0].ty.nullable = false;
        }
    }
}

fn above_branch(branch: Rel, columns: &[Column], filter: &Option<Expr>, projection: &[Expr]) -> Rel {
    let mut branch = branch;
    if let RelKind::Calc { filter: Some(filter), projection, .. } = &mut branch.kind {
        for (expr, column) in projection.iter_mut().zip(&mut branch.columns) {
            if is_pinned(expr, filter) {
                expr.ty.nullable = false;
                column.ty.nullable = false;
            }
        }
    }
    let inputs: Vec<Expr> = (0..branch.columns.len()).map(|i| branch.input_expr(i)).collect();
    let over_branch = |e: &Expr| {
        let mut e = e.clone();
        substitute(&mut e, &inputs);
        e
    };
    let (filter, projection) = (filter.as_ref().map(over_branch), projection.iter().map(over_branch).collect());
    fuse(Rel { columns: columns.to_vec(), kind: RelKind::Calc { input: Box::new(branch), filter, projection } })
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
            // A point in time can be moved by any interval.
            ExprNode::Call { function, .. } if matches!(function.as_str(), "+" | "-") => e.ty.is_timestamp(),
            ExprNode::Call { function, .. } => TOTAL.contains(&function.as_str()),
            // Widening cannot fail; a string that is no number can.
            ExprNode::Cast { input, .. } => {
                (input.ty.is_numeric() && e.ty.is_numeric()) || (input.ty.is_timestamp() && e.ty.is_timestamp())
            }
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
