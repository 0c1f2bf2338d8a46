//! A view as lines of text: a pure function of the view, the width and the height.
//!
//! The first line says where the user is, the second names the columns, the last tells the keys; rows are between.
//! A terminal that is too small loses the keys first, then the names, never the rows. No line is wider than the
//! terminal, whatever characters it has.

use tidegate_api::element::RowKind;

use super::{Progress, View, ViewMode};
use crate::tableau::{cut, display_width, visible};

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// As it is.
    Plain,
    /// The bars at the top and the bottom.
    Bar,
    /// The names of the columns.
    Head,
    /// The row under the cursor.
    Cursor,
    /// A row that adds.
    Added,
    /// A row that takes away.
    Removed,
}

/// A line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How it looks.
    pub look: Look,
    /// Its text, at most as wide as the screen.
    pub text: String,
}

/// Between two columns.
const GAP: &str = "  ";
/// How many lines are not rows.
const FRAME_LINES: usize = 3;

/// How many rows fit on a screen of this height.
pub fn page_rows(height: usize) -> usize {
    height.saturating_sub(FRAME_LINES).max(1)
}

/// What is shown before the query has its first task.
pub fn waiting(width: usize) -> Vec<Line> {
    vec![bar(" Waiting for the query to start  q quit", width)]
}

/// The view on a screen of this size. There are `height` lines at most.
pub fn lines(view: &View, width: usize, height: usize) -> Vec<Line> {
    let mut lines = match view.opened {
        Some(from) => row_lines(view, from, width, height),
        None => page_lines(view, width, height),
    };
    // On a screen too low for all, first the keys go, then the names, then the title.
    if lines.len() > height {
        lines.pop();
    }
    for frame in [1, 0] {
        if lines.len() > height {
            lines.remove(frame);
        }
    }
    lines.truncate(height);
    lines
}

fn page_lines(view: &View, width: usize, height: usize) -> Vec<Line> {
    let page = page_rows(height);
    let (top, cursor) = view.position(page);
    let rows = view.rows.page(top, page);
    let columns = visible_columns(view, &rows, width);
    let mut out = vec![bar(&title(view, top, rows.len(), page, &columns), width)];
    let names: Vec<String> = columns.iter().map(|c| fit(&view.names[c.index], c.width, c.side)).collect();
    let op = if view.mode == ViewMode::Changelog { "op  " } else { "" };
    out.push(Line { look: Look::Head, text: cut(&format!("{op}{}", names.join(GAP)), width) });
    for (i, (kind, cells)) in rows.iter().enumerate() {
        let values: Vec<String> = columns.iter().map(|c| cell(cells, c)).collect();
        let op = kind.map_or(String::new(), |k| format!("{}{GAP}", k.short()));
        let look = match kind {
            _ if top + i == cursor => Look::Cursor,
            None | Some(RowKind::Insert) => Look::Plain,
            Some(kind) if kind.is_addition() => Look::Added,
            Some(_) => Look::Removed,
        };
        out.push(Line { look, text: cut(&format!("{op}{}", values.join(GAP)), width) });
    }
    out.resize(page + 2, Line { look: Look::Plain, text: String::new() });
    if view.rows.len() == 0 {
        let waiting = if view.progress == Progress::Running { "No rows yet." } else { "No rows." };
        out[2].text = cut(waiting, width);
    }
    out.push(match &view.progress {
        Progress::Failed(why) => bar(&format!(" q quit  {}", visible(why)), width),
        _ => bar(&keys(width), width),
    });
    out
}

/// The row under the cursor, a value a line; what is longer goes on below.
fn row_lines(view: &View, from: usize, width: usize, height: usize) -> Vec<Line> {
    let page = page_rows(height);
    let (_, cursor) = view.position(page);
    let rows = view.rows.page(cursor, 1);
    let mut body: Vec<Line> = Vec::new();
    if let Some((kind, cells)) = rows.first() {
        if let Some(kind) = kind {
            body.push(Line { look: Look::Head, text: cut(kind.short(), width) });
        }
        for (name, value) in view.names.iter().zip(*cells) {
            body.push(Line { look: Look::Head, text: cut(name, width) });
            body.extend(wrapped(&visible(value), width).into_iter().map(|text| Line { look: Look::Plain, text }));
        }
    }
    let from = from.min(body.len().saturating_sub(page + 1));
    let mut out = vec![bar(&format!(" Row {} of {}", cursor + 1, view.rows.len()), width)];
    out.extend(body.into_iter().skip(from).take(page + 1));
    out.resize(page + 2, Line { look: Look::Plain, text: String::new() });
    out.push(bar(" q back  arrows, PgUp/PgDn scroll", width));
    out
}

/// The text in lines that fit.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for c in text.chars() {
        let wide = display_width(c.encode_utf8(&mut [0; 4]));
        if used + wide > width.max(1) {
            lines.push(String::new());
            used = 0;
        }
        used += wide;
        if wide <= width
            && let Some(line) = lines.last_mut()
        {
            line.push(c);
        }
    }
    lines
}

/// A column on the screen.
struct Column {
    index: usize,
    width: usize,
    /// Numbers stand to the right.
    side: Side,
}

/// The columns that fit, from the view's first on; one that fits only in part is cut if a little of it is left.
fn visible_columns(view: &View, rows: &[(Option<RowKind>, &[String])], width: usize) -> Vec<Column> {
    const LEAST: usize = 4;
    let mut left = width.saturating_sub(if view.mode == ViewMode::Changelog { 4 } else { 0 });
    let mut columns = Vec::new();
    for index in view.left..view.names.len() {
        let values = || rows.iter().filter_map(|(_, cells)| cells.get(index)).map(|cell| visible(cell));
        let content = values().map(|value| display_width(&value)).max().unwrap_or(0);
        let wanted = content.min(view.widths_max[index]).max(display_width(&visible(&view.names[index])));
        let numeric = values().all(|value| value == "<NULL>" || value.parse::<f64>().is_ok());
        let side = if numeric && !rows.is_empty() { Side::Right } else { Side::Left };
        let width = wanted.max(1).min(left);
        if width < wanted && width < LEAST && !columns.is_empty() {
            break;
        }
        columns.push(Column { index, width, side });
        left = left.saturating_sub(width + GAP.len());
        if left == 0 {
            break;
        }
    }
    columns
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

fn cell(cells: &[String], column: &Column) -> String {
    let value = visible(cells.get(column.index).map_or("", String::as_str));
    fit(&value, column.width, column.side)
}

fn fit(text: &str, width: usize, side: Side) -> String {
    let text = cut(&visible(text), width);
    let blank = " ".repeat(width.saturating_sub(display_width(&text)));
    match side {
        Side::Left => text + &blank,
        Side::Right => blank + &text,
    }
}

fn bar(text: &str, width: usize) -> Line {
    Line { look: Look::Bar, text: fit(text, width, Side::Left) }
}

fn title(view: &View, top: usize, shown: usize, page: usize, columns: &[Column]) -> String {
    let total = view.rows.len();
    let mode = match view.mode {
        ViewMode::Table => "Table",
        ViewMode::Changelog => "Changelog",
    };
    let progress = match view.progress {
        Progress::Running => "running",
        Progress::Finished => "finished",
        Progress::Failed(_) => "FAILED",
    };
    let rows = match total {
        0 => "0 rows".to_owned(),
        _ => format!("rows {}-{} of {total}", top + 1, top + shown),
    };
    let pages = match view.follows {
        true => "last page".to_owned(),
        false => format!("page {} of {}", top.div_ceil(page) + 1, total.div_ceil(page).max(1)),
    };
    let refresh = match view.refresh_ms() {
        None => "refresh by r".to_owned(),
        Some(ms) if ms < 1000 => format!("refresh {ms} ms"),
        Some(ms) => format!("refresh {} s", ms / 1000),
    };
    let mut text = format!(" {mode} | {progress} | {rows} | {pages} | {refresh}");
    if columns.len() < view.names.len() {
        let first = columns.first().map_or(0, |c| c.index);
        text += &format!(" | columns {}-{} of {}", first + 1, first + columns.len(), view.names.len());
    }
    text
}

/// What the keys do: as much of it as fits.
fn keys(width: usize) -> String {
    const KEYS: [&str; 7] = [
        "q quit",
        "n/p page",
        "g/G first/last",
        "arrows row, column",
        "Enter open row",
        "+/- refresh rate",
        "r refresh",
    ];
    let mut text = String::new();
    for key in KEYS {
        if display_width(&text) + key.len() + 2 > width {
            break;
        }
        text += &format!("{}{key}", if text.is_empty() { " " } else { "  " });
    }
    text
}

#[cfg(test)]
mod tests;
