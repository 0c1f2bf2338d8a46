//! What was saved and loaded elsewhere goes on exactly as the original does: every function, with and without
//! DISTINCT, with and without retraction.

use arrow::array::{ArrayRef, BooleanArray};
use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_api::expr::AggregateCall;
use tidegate_api::function::GroupedAccumulator;
use tidegate_api::types::{Field, LogicalType, TypeKind};
use tidegate_api::{Result, Value};

use super::super::{accumulator, names, saved_types};
use super::{call, ty};
use crate::functions::value_array::array_from_values;

/// Groups of the original; the restored one has more, its own lie among them in another order.
const GROUPS: u32 = 4;
const MORE: usize = GROUPS as usize + 2;

/// One row, before it has the types of a call.
#[derive(Clone, Debug)]
struct Row {
    group: u32,
    /// Which of the type's [samples]; NULL beyond them.
    value: usize,
    weight: i64,
    selected: Option<bool>,
    /// Different in each row that was added.
    key: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Add {
        rows: Vec<Row>,
        filtered: bool,
    },
    /// Takes back rows that are there, or (`strays`) these, whether they are or not.
    Retract {
        rows: Vec<Row>,
        filtered: bool,
        strays: bool,
    },
    /// Adds the state of another accumulator that has these rows.
    Merge {
        rows: Vec<Row>,
    },
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let selected = prop_oneof![2 => Just(Some(true)), 1 => Just(Some(false)), 1 => Just(None)];
    let row = (0..GROUPS, 0_usize..7, -1_i64..4, selected);
    vec(row.prop_map(|(group, value, weight, selected)| Row { group, value, weight, selected, key: 0 }), 0..8)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let add = (rows(), any::<bool>()).prop_map(|(rows, filtered)| Step::Add { rows, filtered });
    let retract = (rows(), any::<bool>(), prop::bool::weighted(0.2))
        .prop_map(|(rows, filtered, strays)| Step::Retract { rows, filtered, strays });
    let merge = rows().prop_map(|rows| Step::Merge { rows });
    vec(prop_oneof![4 => add, 3 => retract, 1 => merge], 1..12)
}

/// Values of a type among which something happens: sums wrap, overflow or leave rests, NaNs meet.
fn samples(ty: &LogicalType) -> Vec<Value> {
    let strings = ["red", "", "blue", "\u{e4}\u{10348}", "a,b", "Red"].map(|s| Value::String(s.into()));
    match &ty.kind {
        TypeKind::Boolean => vec![Value::Boolean(true), Value::Boolean(false)],
        TypeKind::Float | TypeKind::Double => [0.1, 0.7, -0.0, 1e16, f64::NAN, f64::INFINITY].map(Value::Double).into(),
        TypeKind::Decimal(38, _) => {
            [10_i128.pow(38) - 1, 6 * 10_i128.pow(37), 1, 0, 1 - 10_i128.pow(38), -7].map(Value::Decimal).into()
        }
        TypeKind::Decimal(..) => [1, 225, 999, 0, -150, 7].map(Value::Decimal).into(),
        TypeKind::Varchar(_) => strings.into(),
        TypeKind::Timestamp(_) => [0, 1, -5, 86_400_000, 7, 3].map(|ms: i128| Value::Timestamp(ms * 1_000_000)).into(),
        TypeKind::Array(_) => {
            let [a, b, ..] = strings;
            let lists =
                [vec![a.clone(), b, Value::Null], vec![], vec![a.clone()], vec![Value::Null], vec![a.clone(), a]];
            lists.map(Value::Array).into()
        }
        TypeKind::Row(_) => {
            let cells = strings.map(|s| vec![s, Value::Int(3)]);
            cells.map(Value::Row).into()
        }
        _ => [100, -7, 100_000, 3, 0, 1 << 40].map(Value::Int).into(),
    }
}

/// Every function over types that it treats differently.
fn calls() -> Vec<AggregateCall> {
    let numbers = [
        TypeKind::TinyInt,
        TypeKind::SmallInt,
        TypeKind::Int,
        TypeKind::BigInt,
        TypeKind::Float,
        TypeKind::Double,
        TypeKind::Decimal(38, 0),
        TypeKind::Decimal(10, 2),
    ]
    .map(ty);
    let row = [("a", LogicalType::string()), ("b", ty(TypeKind::BigInt))].map(|(n, t)| Field::new(n, t));
    let others = [
        LogicalType::string(),
        ty(TypeKind::Boolean),
        ty(TypeKind::Date),
        ty(TypeKind::Timestamp(3)),
        ty(TypeKind::Timestamp(9)),
    ];
    let nested = [ty(TypeKind::Array(Box::new(LogicalType::string()))), ty(TypeKind::Row(row.into()))];
    let one = |t: &LogicalType| vec![t.clone()];
    let mut all = vec![call("COUNT", &[], &[], false)];
    for name in names() {
        let args: Vec<Vec<LogicalType>> = match *name {
            "SUM" | "AVG" | "STDDEV" | "STDDEV_POP" | "STDDEV_SAMP" | "VARIANCE" | "VAR_POP" | "VAR_SAMP" => {
                numbers.iter().map(one).collect()
            }
            "MIN" | "MAX" => numbers.iter().chain(&others).map(one).collect(),
            "LISTAGG" => vec![one(&others[0])],
            "JSON_ARRAYAGG" => numbers[4..].iter().chain(&others[..2]).map(one).collect(),
            "PERCENTILE" => vec![one(&numbers[5]), vec![numbers[3].clone(), numbers[2].clone()]],
            "JSON_OBJECTAGG" => vec![vec![LogicalType::string(), numbers[3].clone()]],
            _ => numbers[4..].iter().chain(&others).chain(&nested).map(one).collect(),
        };
        let params: Vec<Value> = match *name {
            "LISTAGG" => vec![Value::String(" / ".into())],
            "PERCENTILE" => vec![Value::Array(vec![Value::Double(0.3), Value::Double(1.0)])],
            _ => vec![],
        };
        for args in args {
            all.push(call(name, &args, &params, false));
            if args.len() == 1 {
                all.push(call(name, &args, &params, true));
            }
        }
    }
    all
}

/// The rows as columns: arguments, filter and groups.
struct Columns {
    args: Vec<ArrayRef>,
    selected: Option<BooleanArray>,
    groups: Vec<u32>,
}

fn columns(call: &AggregateCall, rows: &[Row], filtered: bool) -> Columns {
    let last = call.arg_types.len().saturating_sub(1);
    let cell = |index: usize, ty: &LogicalType, row: &Row| match (call.function.as_str(), index) {
        ("JSON_OBJECTAGG", 0) => Value::String(format!("{:04}", row.key)),
        ("PERCENTILE", 1) => Value::Int(row.weight),
        _ => samples(ty).get(row.value).cloned().unwrap_or(Value::Null),
    };
    let args = (0..=last).filter_map(|i| Some((i, call.arg_types.get(i)?))).map(|(i, ty)| {
        let cells: Vec<Value> = rows.iter().map(|r| cell(i, ty, r)).collect();
        array_from_values(&cells, ty)
    });
    Columns {
        args: args.collect(),
        selected: filtered.then(|| rows.iter().map(|r| r.selected).collect()),
        groups: rows.iter().map(|r| r.group).collect(),
    }
}

/// The accumulator that was there from the start, or one that took its groups over.
struct Side {
    accumulator: Box<dyn GroupedAccumulator>,
    /// Where each group of the original lies.
    places: Vec<u32>,
    n: usize,
}

impl Side {
    fn fresh(call: &AggregateCall, retracts: bool) -> Side {
        let n = GROUPS as usize;
        let mut side = Side { accumulator: accumulator(call, retracts).unwrap(), places: (0..GROUPS).collect(), n };
        side.change(&columns(call, &[], false), false).unwrap();
        side
    }

    /// Another accumulator with the groups of this one, loaded in two parts.
    fn restored(&self, call: &AggregateCall, retracts: bool, places: &[u32]) -> Side {
        let places = places[..GROUPS as usize].to_vec();
        let mut other = accumulator(call, retracts).unwrap();
        let mut order: Vec<u32> = (0..GROUPS).collect();
        order.sort_by_key(|g| places[*g as usize].wrapping_mul(7) % 5);
        let saved = self.accumulator.save(&order).unwrap();
        for (from, len) in [(0, 1), (1, order.len() - 1)] {
            let part: Vec<ArrayRef> = saved.iter().map(|s| s.slice(from, len)).collect();
            let groups: Vec<u32> = order[from..from + len].iter().map(|g| places[*g as usize]).collect();
            other.load(&part, &groups, MORE).unwrap();
        }
        Side { accumulator: other, places, n: MORE }
    }

    fn at(&self, groups: &[u32]) -> Vec<u32> {
        groups.iter().map(|g| self.places[*g as usize]).collect()
    }

    fn change(&mut self, rows: &Columns, back: bool) -> Result<(), String> {
        let (groups, selected) = (self.at(&rows.groups), rows.selected.as_ref());
        let done = if back {
            self.accumulator.retract(&rows.args, selected, &groups, self.n)
        } else {
            self.accumulator.update(&rows.args, selected, &groups, self.n)
        };
        done.map_err(|e| e.message)
    }

    fn merge(&mut self, states: &[ArrayRef]) -> Result<(), String> {
        let groups = self.places.clone();
        self.accumulator.merge(states, &groups, self.n).map_err(|e| e.to_string())
    }

    /// All that can be seen of it: results, partial states, and what it saves.
    fn seen(&self) -> (ArrayRef, Vec<ArrayRef>, Vec<ArrayRef>) {
        let a = &self.accumulator;
        (a.evaluate(&self.places).unwrap(), a.state(&self.places).unwrap(), a.save(&self.places).unwrap())
    }
}

/// Arrays as text, since floats that are not a number differ from themselves.
fn same(a: &Side, b: &Side) -> bool {
    format!("{:?}", a.seen()) == format!("{:?}", b.seen())
}

fn play(call: &AggregateCall, retracts: bool, steps: &[Step], save_at: usize, places: &[u32]) {
    let title = format!("{}({:?}) distinct {} retracts {retracts}", call.function, call.arg_types, call.distinct);
    let types: Vec<_> = saved_types(call, retracts).unwrap().iter().map(LogicalType::to_arrow).collect();
    let mut whole = Side::fresh(call, retracts);
    let mut restored: Option<Side> = None;
    let (mut there, mut keys): (Vec<(Row, bool)>, usize) = (Vec::new(), 0);
    for (at, step) in steps.iter().enumerate() {
        if at == save_at % steps.len() {
            let saved = whole.accumulator.save(&whole.places).unwrap();
            assert_eq!(saved.iter().map(|s| s.data_type().clone()).collect::<Vec<_>>(), types, "{title}");
            let other = whole.restored(call, retracts, places);
            assert!(same(&whole, &other), "{title}: loaded\n{:?}\n{:?}", whole.seen(), other.seen());
            restored = Some(other);
        }
        let mut keyed = |rows: &[Row]| -> Vec<Row> {
            let next = |r: &Row| {
                keys += 1;
                Row { key: keys, ..r.clone() }
            };
            rows.iter().map(next).collect()
        };
        let done: Vec<Result<(), String>> = match step {
            Step::Add { rows, filtered } => {
                let rows = keyed(rows);
                there.extend(rows.iter().map(|r| (r.clone(), *filtered)));
                let columns = columns(call, &rows, *filtered);
                restored.iter_mut().chain([&mut whole]).map(|s| s.change(&columns, false)).collect()
            }
            Step::Retract { .. } if !retracts => continue,
            Step::Retract { rows, filtered, strays } => {
                let mut back = keyed(rows);
                let mut by_filter = *filtered;
                if !strays {
                    // Rows go as they came: those of one batch all with the filter or all without it.
                    by_filter = there.first().is_some_and(|t| t.1);
                    back.clear();
                    for row in rows {
                        let wanted = row.value * 3 + row.group as usize;
                        let fitting: Vec<usize> = (0..there.len()).filter(|i| there[*i].1 == by_filter).collect();
                        if !fitting.is_empty() {
                            back.push(there.remove(fitting[wanted % fitting.len()]).0);
                        }
                    }
                }
                let columns = columns(call, &back, by_filter);
                restored.iter_mut().chain([&mut whole]).map(|s| s.change(&columns, true)).collect()
            }
            Step::Merge { rows } => {
                let rows = keyed(rows);
                there.extend(rows.iter().map(|r| (r.clone(), false)));
                let mut part = Side::fresh(call, retracts);
                if part.change(&columns(call, &rows, false), false).is_err() {
                    continue;
                }
                let states = part.accumulator.state(&part.places).unwrap();
                restored.iter_mut().chain([&mut whole]).map(|s| s.merge(&states)).collect()
            }
        };
        assert!(done.windows(2).all(|d| d[0] == d[1]), "{title}: {done:?}");
        if let Some(other) = &restored {
            assert!(same(&whole, other), "{title}: after {step:?}\n{:?}\n{:?}", whole.seen(), other.seen());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_accumulator_goes_on_as_the_original(
        steps in steps(),
        save_at in 0_usize..12,
        places in Just((0..MORE as u32).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        for call in calls() {
            for retracts in [false, true] {
                play(&call, retracts, &steps, save_at, &places);
            }
        }
    }
}
