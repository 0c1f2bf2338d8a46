//! What joins share: the keys of two inputs, rows that are kept for later, and how pairs of rows become output.

mod held;
mod keys;
mod output;

pub(super) use held::{HeldRows, Place};
pub(super) use keys::{JoinKeys, NO_KEY};
pub(super) use output::{JoinOutput, Pairs};

/// The inputs of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Input 0.
    Left,
    /// Input 1.
    Right,
}

/// Both, left first.
pub(super) const SIDES: [Side; 2] = [Side::Left, Side::Right];

impl Side {
    /// The side that this input of an operator is.
    pub(super) fn of_input(input: usize) -> Side {
        if input == 0 { Side::Left } else { Side::Right }
    }

    /// The side where the partners are.
    pub(super) fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }

    /// Its number: 0 or 1.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}
