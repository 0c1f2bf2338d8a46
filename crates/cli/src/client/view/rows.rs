//! The rows of a running SELECT, as its view shows them.
//!
//! As a *changelog* the result is the list of changes. As a *table* it is what the changes make: `+I` and `+U` add a
//! row, `-U` and `-D` take the latest equal row away, and a `-U` with its `+U` replaces the row where it stands, so
//! that rows do not jump. Both keep at most so many rows; the oldest go first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tidegate_api::element::RowKind;

use crate::collect::Row;

/// The rows of a result.
#[derive(Debug)]
pub enum Rows {
    /// All changes.
    Changelog(Changelog),
    /// What they make.
    Table(Table),
}

impl Rows {
    /// No rows yet; `max` is how many are kept.
    pub fn changelog(max: usize) -> Rows {
        Rows::Changelog(Changelog { rows: VecDeque::new(), max })
    }

    /// No rows yet; `max` is how many are kept.
    pub fn table(max: usize) -> Rows {
        Rows::Table(Table { max, ..Table::default() })
    }

    /// Applies changes in order.
    pub fn apply(&mut self, changes: Vec<Row>) {
        match self {
            Rows::Changelog(log) => changes.into_iter().for_each(|row| log.push(row)),
            Rows::Table(table) => changes.into_iter().for_each(|row| table.apply(row)),
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Rows::Changelog(log) => log.rows.len(),
            Rows::Table(table) => table.rows.len(),
        }
    }

    /// At most `count` rows from row `from` on, from 0: the change, if the view shows changes, and the values.
    pub fn page(&self, from: usize, count: usize) -> Vec<(Option<RowKind>, &[String])> {
        match self {
            Rows::Changelog(log) => {
                log.rows.iter().skip(from).take(count).map(|row| (Some(row.kind), row.cells.as_slice())).collect()
            }
            Rows::Table(table) => {
                table.rows.values().skip(from).take(count).map(|cells| (None, cells.as_slice())).collect()
            }
        }
    }
}

/// The changes of a result.
#[derive(Debug)]
pub struct Changelog {
    rows: VecDeque<Row>,
    max: usize,
}

impl Changelog {
    fn push(&mut self, row: Row) {
        self.rows.push_back(row);
        if self.rows.len() > self.max {
            self.rows.pop_front();
        }
    }
}

/// The table that the changes make. Rows are numbered as they come and never move.
#[derive(Debug, Default)]
pub struct Table {
    rows: BTreeMap<u64, Arc<Vec<String>>>,
    /// The numbers of equal rows, in order.
    places: HashMap<Arc<Vec<String>>, Vec<u64>>,
    next: u64,
    /// Where the row was that the last `-U` took away: its `+U` comes next and stands there.
    replaced: Option<u64>,
    max: usize,
}

impl Table {
    fn apply(&mut self, row: Row) {
        let replaced = self.replaced.take();
        match row.kind {
            RowKind::Insert => self.add(row.cells, None),
            RowKind::UpdateAfter => self.add(row.cells, replaced),
            RowKind::UpdateBefore => self.replaced = self.take_away(row.cells),
            RowKind::Delete => drop(self.take_away(row.cells)),
        }
    }

    fn add(&mut self, cells: Vec<String>, place: Option<u64>) {
        let place = place.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        let cells = Arc::new(cells);
        let places = self.places.entry(cells.clone()).or_default();
        places.insert(places.partition_point(|p| *p < place), place);
        self.rows.insert(place, cells);
        if self.rows.len() > self.max
            && let Some((oldest, cells)) = self.rows.pop_first()
        {
            self.forget(oldest, &cells);
        }
    }

    /// Takes the latest equal row away. A row that the limit has pushed out, or that never came, is not there.
    fn take_away(&mut self, cells: Vec<String>) -> Option<u64> {
        let cells = Arc::new(cells);
        let place = self.places.get(&cells)?.last().copied()?;
        self.forget(place, &cells);
        self.rows.remove(&place);
        Some(place)
    }

    fn forget(&mut self, place: u64, cells: &Arc<Vec<String>>) {
        if let Some(places) = self.places.get_mut(cells) {
            places.retain(|p| *p != place);
            if places.is_empty() {
                self.places.remove(cells);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(kind: RowKind, cell: &str) -> Row {
        Row { kind, cells: vec![cell.to_owned()] }
    }

    fn cells(rows: &Rows) -> Vec<String> {
        rows.page(0, rows.len()).into_iter().map(|(_, cells)| cells[0].clone()).collect()
    }

    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};

    #[test]
    fn an_update_stays_where_the_row_was() {
        let mut rows = Rows::table(10);
        rows.apply(vec![row(Insert, "a"), row(Insert, "b"), row(Insert, "a")]);
        rows.apply(vec![row(UpdateBefore, "b"), row(UpdateAfter, "c")]);
        assert_eq!(cells(&rows), ["a", "c", "a"]);
        rows.apply(vec![row(Delete, "a")]);
        assert_eq!(cells(&rows), ["a", "c"], "the latest of equal rows goes");
        rows.apply(vec![row(UpdateBefore, "a"), row(Insert, "x"), row(UpdateAfter, "y")]);
        assert_eq!(cells(&rows), ["c", "x", "y"], "only the next +U replaces");
    }

    #[test]
    fn the_oldest_rows_go_first_and_may_be_retracted_without_effect() {
        let mut rows = Rows::table(2);
        rows.apply(vec![row(Insert, "a"), row(Insert, "b"), row(Insert, "c")]);
        assert_eq!(cells(&rows), ["b", "c"]);
        rows.apply(vec![row(Delete, "a"), row(Delete, "b")]);
        assert_eq!(cells(&rows), ["c"]);
    }

    #[test]
    fn a_changelog_keeps_every_change() {
        let mut rows = Rows::changelog(3);
        rows.apply(vec![row(Insert, "a"), row(UpdateBefore, "a"), row(UpdateAfter, "b"), row(Delete, "b")]);
        let page = rows.page(1, 5);
        assert_eq!(page.iter().map(|(kind, _)| kind.map(RowKind::short)).collect::<Vec<_>>(), [Some("+U"), Some("-D")]);
        assert_eq!(rows.len(), 3);
    }

    proptest! {
        /// The table holds what a count of equal rows holds.
        #[test]
        fn a_table_is_the_sum_of_its_changes(changes in prop::collection::vec((0..4u8, 0..5u8), 0..60)) {
            let mut rows = Rows::table(1000);
            let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
            for (kind, cell) in changes {
                let cell = cell.to_string();
                let row = row(RowKind::from_byte(kind), &cell);
                let count = wanted.entry(cell).or_default();
                *count = if row.kind.is_addition() { *count + 1 } else { count.saturating_sub(1) };
                rows.apply(vec![row]);
            }
            let mut found: BTreeMap<String, usize> = BTreeMap::new();
            cells(&rows).into_iter().for_each(|cell| *found.entry(cell).or_default() += 1);
            wanted.retain(|_, n| *n > 0);
            prop_assert_eq!(found, wanted);
        }
    }
}
