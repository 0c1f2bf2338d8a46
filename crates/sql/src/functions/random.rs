//! `RAND`, `RAND_INTEGER`, `UUID`. With a seed the numbers are those of `java.util.Random`, so a
//! seeded script draws what it draws under Flink.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray};
use tidegate_api::expr::Expr;
use tidegate_api::function::EvalContext;
use tidegate_api::types::{LogicalType, TypeKind};

use super::args::{count, expect_int, literal_int};
use super::columns::{collect, ints};
use super::{CallInfo, Kernel, ScalarFunction};

/// The functions of this module.
pub static FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction { name: "RAND", resolve: fraction, kernel: fraction_kernel },
    ScalarFunction { name: "RAND_INTEGER", resolve: integer, kernel: integer_kernel },
    ScalarFunction { name: "UUID", resolve: uuid, kernel: uuid_kernel },
];

/// `java.util.Random`: a 48-bit linear congruential generator.
struct JavaRandom(u64);

impl JavaRandom {
    fn new(seed: i64) -> JavaRandom {
        JavaRandom((seed as u64 ^ 0x5_DEEC_E66D) & ((1 << 48) - 1))
    }

    fn from_entropy() -> JavaRandom {
        JavaRandom::new(rand::random())
    }

    fn next(&mut self, bits: u32) -> i32 {
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        (self.0 >> (48 - bits)) as i32
    }

    fn next_double(&mut self) -> f64 {
        let high = i64::from(self.next(26)) << 27;
        (high + i64::from(self.next(27))) as f64 / (1u64 << 53) as f64
    }

    fn next_int(&mut self, bound: i32) -> i32 {
        let mut drawn = self.next(31);
        let most = bound - 1;
        if bound & most == 0 {
            return ((i64::from(bound) * i64::from(drawn)) >> 31) as i32;
        }
        loop {
            let value = drawn % bound;
            // Draws from the incomplete last stretch would favour small numbers.
            if drawn.wrapping_sub(value).wrapping_add(most) >= 0 {
                return value;
            }
            drawn = self.next(31);
        }
    }
}

fn fraction(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 0..=1)?;
    if args.len() == 1 {
        expect_int(args, 0)?;
    }
    Ok(LogicalType { kind: TypeKind::Double, nullable: super::args::any_nullable(args) })
}

fn integer(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 1..=2)?;
    for i in 0..args.len() {
        expect_int(args, i)?;
    }
    Ok(LogicalType { kind: TypeKind::Int, nullable: super::args::any_nullable(args) })
}

/// A generator for the call, or for each row if the seed is a column.
enum Source {
    Shared(JavaRandom),
    PerRow(usize),
}

fn source(args: &[Expr], seed: Option<usize>) -> Source {
    match seed {
        None => Source::Shared(JavaRandom::from_entropy()),
        Some(i) => match literal_int(&args[i]) {
            Some(seed) => Source::Shared(JavaRandom::new(seed)),
            None => Source::PerRow(i),
        },
    }
}

impl Source {
    fn draw<T>(&mut self, args: &[ArrayRef], row: usize, f: impl Fn(&mut JavaRandom) -> T) -> Option<T> {
        match self {
            Source::Shared(random) => Some(f(random)),
            Source::PerRow(i) => {
                let seeds = args[*i].as_primitive_opt::<Int32Type>()?;
                seeds.is_valid(row).then(|| f(&mut JavaRandom::new(seeds.value(row).into())))
            }
        }
    }
}

fn fraction_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let mut source = source(call.args, (call.args.len() == 1).then_some(0));
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        collect::<f64, PrimitiveArray<Float64Type>>(rows, |row| Ok(source.draw(args, row, JavaRandom::next_double)))
    }))
}

fn integer_kernel(call: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    let mut source = source(call.args, (call.args.len() == 2).then_some(0));
    Ok(Box::new(move |args: &[ArrayRef], rows: usize, _: &EvalContext| {
        let bounds = ints(&args[args.len() - 1])?;
        collect::<i32, PrimitiveArray<Int32Type>>(rows, |row| {
            if bounds.is_null(row) {
                return Ok(None);
            }
            let bound = bounds.value(row);
            if bound <= 0 {
                return Err("bound must be positive".into());
            }
            Ok(source.draw(args, row, |random| random.next_int(bound)))
        })
    }))
}

fn uuid(args: &mut Vec<Expr>) -> Result<LogicalType, String> {
    count(args, 0..=0)?;
    Ok(LogicalType::not_null(TypeKind::Char(36)))
}

fn uuid_kernel(_: &CallInfo<'_>) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(|_: &[ArrayRef], rows: usize, _: &EvalContext| {
        let cells = (0..rows).map(|_| uuid::Uuid::new_v4().to_string());
        Ok(Arc::new(StringArray::from_iter_values(cells)) as ArrayRef)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_what_java_draws() {
        // new Random(42): nextInt(10) gives 0, 3, 8; a fresh one's nextDouble 0.7275636800328681.
        let mut random = JavaRandom::new(42);
        assert_eq!([random.next_int(10), random.next_int(10), random.next_int(10)], [0, 3, 8]);
        assert_eq!(JavaRandom::new(42).next_double(), 0.7275636800328681);
    }
}
