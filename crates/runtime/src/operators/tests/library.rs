//! A function library for tests: every aggregate keeps its values in arrival order and computes at the
//! end. Slow and obviously right.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use tidegate_api::expr::{AggregateCall, Expr, ExprNode};
use tidegate_api::function::{EvalContext, Evaluator, FunctionLibrary, GroupedAccumulator, RowError};
use tidegate_api::types::{LogicalType, TypeKind};
use tidegate_api::{Error, Result, Schema};

pub(super) struct TestLibrary;

struct Column(usize);

impl Evaluator for Column {
    fn evaluate(&mut self, batch: &RecordBatch, _: &EvalContext) -> Result<ArrayRef, RowError> {
        Ok(batch.column(self.0).clone())
    }
}

/// One BIGINT column less than another.
struct Less(usize, usize);

impl Evaluator for Less {
    fn evaluate(&mut self, batch: &RecordBatch, _: &EvalContext) -> Result<ArrayRef, RowError> {
        let column = |i: usize| batch.column(i).as_primitive::<Int64Type>().iter();
        let less = column(self.0).zip(column(self.1)).map(|(a, b)| Some(a? < b?));
        Ok(Arc::new(less.collect::<BooleanArray>()))
    }
}

impl FunctionLibrary for TestLibrary {
    fn compile(&self, expr: &Expr, _: &Schema, _: &str) -> Result<Box<dyn Evaluator>> {
        match &expr.node {
            ExprNode::Input(i) => Ok(Box::new(Column(*i))),
            ExprNode::Call { function, args } if function == "<" => match (&args[0].node, &args[1].node) {
                (ExprNode::Input(a), ExprNode::Input(b)) => Ok(Box::new(Less(*a, *b))),
                _ => Err(Error::unsupported("only columns")),
            },
            _ => Err(Error::unsupported("only columns")),
        }
    }

    fn accumulator(&self, call: &AggregateCall, retracts: bool) -> Result<Box<dyn GroupedAccumulator>> {
        Ok(Box::new(Values { function: call.function.clone(), retracts, groups: Vec::new() }))
    }

    fn state_types(&self, _: &AggregateCall) -> Result<Vec<LogicalType>> {
        Ok(vec![LogicalType::new(TypeKind::Array(Box::new(LogicalType::new(TypeKind::BigInt))))])
    }
}

struct Values {
    function: String,
    retracts: bool,
    groups: Vec<Vec<i64>>,
}

impl Values {
    fn each(args: &[ArrayRef], selected: Option<&BooleanArray>, groups: &[u32], mut f: impl FnMut(usize, i64)) {
        for (row, group) in groups.iter().enumerate() {
            let value =
                args.first().map_or(Some(1), |a| a.is_valid(row).then(|| a.as_primitive::<Int64Type>().value(row)));
            if let (Some(value), true) = (value, selected.is_none_or(|s| s.is_valid(row) && s.value(row))) {
                f(*group as usize, value);
            }
        }
    }
}

impl GroupedAccumulator for Values {
    fn update(
        &mut self,
        args: &[ArrayRef],
        sel: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        self.groups.resize(n.max(self.groups.len()), Vec::new());
        Values::each(args, sel, groups, |g, v| self.groups[g].push(v));
        Ok(())
    }

    fn retract(
        &mut self,
        args: &[ArrayRef],
        sel: Option<&BooleanArray>,
        groups: &[u32],
        n: usize,
    ) -> Result<(), RowError> {
        assert!(self.retracts);
        self.groups.resize(n.max(self.groups.len()), Vec::new());
        Values::each(args, sel, groups, |g, v| {
            if let Some(at) = self.groups[g].iter().position(|x| *x == v) {
                self.groups[g].remove(at);
            }
        });
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], n: usize) -> Result<()> {
        self.groups.resize(n.max(self.groups.len()), Vec::new());
        let lists = states[0].as_list::<i32>();
        for (row, group) in groups.iter().enumerate() {
            self.groups[*group as usize].extend(lists.value(row).as_primitive::<Int64Type>().values());
        }
        Ok(())
    }

    fn state(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let lists = groups.iter().map(|g| Some(self.groups[*g as usize].iter().map(|v| Some(*v))));
        Ok(vec![Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef> {
        let of = groups.iter().map(|g| &self.groups[*g as usize]);
        Ok(match self.function.as_str() {
            "COUNT" => Arc::new(Int64Array::from_iter_values(of.map(|v| v.len() as i64))),
            "SUM" => Arc::new(of.map(|v| (!v.is_empty()).then(|| v.iter().sum::<i64>())).collect::<Int64Array>()),
            "MAX" => Arc::new(of.map(|v| v.iter().max().copied()).collect::<Int64Array>()),
            _ => Arc::new(StringArray::from_iter_values(of.map(|v| format!("{v:?}")))),
        })
    }

    fn clear(&mut self) {
        self.groups.clear();
    }
}
