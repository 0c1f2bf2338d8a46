//! The live view: a picture as lines for a terminal of any size. Pure.
//!
//! Wide terminals get bars and words, narrow ones numbers; low ones lose the least important sections
//! first, and the windows get what is left.

use super::picture::{Cell, Delay, Facts, Partition, Picture, Standing, Window};
use super::text::{Line, Look, clock, clock_tenths, count, delay, seconds, share, wrap};

/// Windows shown if there is any room.
const WINDOWS_MIN: usize = 3;
/// Lines that the table has from the start, if there is room, so that what is below it seldom moves.
const TABLE_LINES: usize = 6;
/// From this height on the story is told at length.
const TALL: usize = 28;
/// Widest bar of a window.
const BAR: usize = 8;
/// A shorter bar says nothing.
const BAR_MIN: usize = 4;

/// How much fits side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Wide,
    Medium,
    Narrow,
}

/// Columns.
#[derive(Clone, Copy, Debug)]
struct Layout {
    form: Form,
    width: usize,
    /// Where the numbers sent end, and the delays begin.
    label: usize,
    /// Of each delay.
    cell: usize,
    /// Of a count.
    digits: usize,
    /// Of a bar; 0 if there is no room for one.
    bar: usize,
}

impl Layout {
    fn of(width: usize, picture: &Picture) -> Layout {
        let (form, label) = match width {
            92.. => (Form::Wide, 27),
            56.. => (Form::Medium, 17),
            _ => (Form::Narrow, 12),
        };
        let cell = (width.saturating_sub(label + 1) / picture.delays.len().max(1)).clamp(8, 27);
        let digits = picture.windows.iter().map(|w| count(w.sent).len()).max().unwrap_or(0).max(3);
        let lost = |cell: &Cell| if let Cell::Closed { lost, .. } = cell { count(*lost).len() } else { 1 };
        let lost = picture.windows.iter().flat_map(|w| &w.cells).map(lost).max().unwrap_or(1).max(2);
        // Beside a bar stand the count and the longest word.
        let words = ("  lost ".len() + lost).max(if form == Form::Wide { "  complete".len() } else { 0 });
        let bar = cell.saturating_sub(2 + digits + words).min(BAR);
        let bar = if form == Form::Narrow || bar < BAR_MIN { 0 } else { bar };
        Layout { form, width, label, cell, digits, bar }
    }

    fn is(self, form: Form) -> bool {
        self.form == form
    }

    /// A label and one entry per delay.
    fn row(self, label: &str, cells: impl Iterator<Item = Line>) -> Line {
        let mut line = Line::of(Look::Dim, format!(" {label}")).pad(self.label + 2);
        for (i, cell) in cells.enumerate() {
            let end = self.label + 2 + (i + 1) * self.cell;
            line = line.join(cell.clip(self.cell.saturating_sub(1))).pad(end);
        }
        line
    }

    fn time(self, ms: i64) -> String {
        match self.form {
            Form::Narrow => clock(ms)[3..].to_owned(),
            _ => clock(ms),
        }
    }

    fn time_tenths(self, ms: i64) -> String {
        match self.form {
            Form::Narrow => clock_tenths(ms)[3..].to_owned(),
            _ => clock_tenths(ms),
        }
    }
}

/// A part of the screen; those with the highest number go first when there is no room.
struct Section {
    expendable: u8,
    lines: Vec<Line>,
}

/// The screen's lines: at most `height`, none wider than `width`.
pub fn lines(facts: &Facts, picture: &Picture, width: usize, height: usize) -> Vec<Line> {
    let layout = Layout::of(width, picture);
    let section = |expendable, lines| Section { expendable, lines };
    let mut above = vec![
        section(0, vec![title(facts, picture, width)]),
        section(5, story(facts, width, height)),
        section(4, vec![Line::new()]),
        section(0, vec![head(picture, layout)]),
    ];
    let mut below = vec![
        section(1, costs(picture, layout)),
        section(6, vec![Line::new()]),
        section(2, watermarks(picture, layout)),
        section(4, vec![Line::new()]),
        section(3, partitions(&picture.partitions, layout)),
        section(4, vec![Line::new()]),
        section(5, losses(picture, layout)),
        section(0, footer(facts, layout)),
    ];
    let fixed = |above: &[Section], below: &[Section]| -> usize {
        above.iter().chain(below).map(|s| s.lines.len()).sum::<usize>()
    };
    for level in (1..=6).rev() {
        if fixed(&above, &below) + WINDOWS_MIN <= height {
            break;
        }
        above.iter_mut().chain(&mut below).filter(|s| s.expendable == level).for_each(|s| s.lines.clear());
    }
    let room = height.saturating_sub(fixed(&above, &below));
    let shown = picture.windows.len().saturating_sub(room);
    let mut windows: Vec<Line> = picture.windows[shown..].iter().map(|w| window_line(w, layout)).collect();
    if windows.is_empty() && room > 0 {
        windows.push(Line::of(Look::Dim, " waiting for the first click"));
    }
    windows.resize_with(windows.len().max(TABLE_LINES.min(room)), Line::new);
    let last = below.pop().map_or(Vec::new(), |footer| footer.lines);
    let parts = above.into_iter().map(|s| s.lines).chain([windows]).chain(below.into_iter().map(|s| s.lines));
    let mut all: Vec<Line> = parts.flatten().collect();
    all.resize_with(height.saturating_sub(last.len()), Line::new);
    all.extend(last);
    all.into_iter().take(height).map(|line| line.clip(width)).collect()
}

/// The script on the screen, in place of the picture, so that it can be copied.
pub fn script_lines(script: &str, width: usize, height: usize) -> Vec<Line> {
    let room = height.saturating_sub(1);
    let mut lines: Vec<Line> = script.lines().take(room).map(|line| Line::of(Look::Plain, line).clip(width)).collect();
    lines.resize_with(room, Line::new);
    lines.push(Line::of(Look::Dim, " s back   q quit   it was printed before this screen opened").clip(width));
    lines
}

fn title(facts: &Facts, picture: &Picture, width: usize) -> Line {
    let elapsed = minutes(picture.elapsed_ms);
    let time = match facts.limit_ms {
        Some(limit) => format!("runs for {elapsed} of {} ", minutes(limit)),
        None => format!("runs for {elapsed} "),
    };
    let rate = format!("  {} clicks a second, up to {} late", facts.rate, delay(facts.disorder_ms));
    let left = Line::of(Look::Title, " tidegate demo");
    let whole = left.clone().add(Look::Plain, rate);
    let left = if whole.width() + time.len() < width { whole } else { left };
    left.pad(width.saturating_sub(time.len())).add(Look::Dim, time)
}

fn story(facts: &Facts, width: usize, height: usize) -> Vec<Line> {
    let short = "A window closes when the watermark (the newest click of the slowest partition, less the delay) reaches \
                 its end. Clicks that come later are lost.";
    let long = format!(
        "How long should a window wait for clicks that come late? The same clicks are counted in windows of 5 s under \
         {} watermark delays. The watermark is the newest click of the slowest partition, less the delay; when it \
         reaches the end of a window, the window closes. Clicks that come later are lost.",
        ["no", "one", "two", "three"].get(facts.queries.len()).copied().unwrap_or("several")
    );
    let text = if height < TALL { short } else { long.as_str() };
    let text = wrap(text, width.saturating_sub(2).min(110)).into_iter();
    text.map(|line| Line::of(Look::Dim, format!(" {line}"))).collect()
}

fn head(picture: &Picture, layout: Layout) -> Line {
    let label = match layout.form {
        Form::Wide => "window                sent",
        Form::Medium => "window      sent",
        Form::Narrow => "from   sent",
    };
    let prefix = if layout.is(Form::Narrow) { "" } else { "delay " };
    let cells = picture.delays.iter().map(|d| Line::of(Look::Strong, format!("{prefix}{}", delay(d.delay_ms))));
    let mut line = Line::of(Look::Strong, format!(" {label}")).pad(layout.label + 2);
    for (i, cell) in cells.enumerate() {
        line = line.join(cell).pad(layout.label + 2 + (i + 1) * layout.cell);
    }
    line
}

fn window_line(window: &Window, layout: Layout) -> Line {
    let span = match layout.form {
        Form::Wide => format!(" {} - {}", clock(window.start), clock(window.end)),
        _ => format!(" {}", layout.time(window.start)),
    };
    let sent = count(window.sent);
    // What may still grow is not as firm as what cannot.
    let look = if window.settled { Look::Plain } else { Look::Dim };
    let mut line = Line::of(Look::Plain, span).pad(layout.label - sent.len()).add(look, sent).pad(layout.label + 2);
    for (i, cell) in window.cells.iter().enumerate() {
        let end = layout.label + 2 + (i + 1) * layout.cell;
        line = line.join(cell_line(*cell, window, layout).clip(layout.cell.saturating_sub(1))).pad(end);
    }
    line
}

fn cell_line(cell: Cell, window: &Window, layout: Layout) -> Line {
    let (wide, narrow) = (layout.is(Form::Wide), layout.is(Form::Narrow));
    let (digits, width) = (layout.digits, layout.bar);
    match cell {
        Cell::Empty => Line::new(),
        Cell::Open { clicks } => {
            let word = if narrow { " ..." } else { "  open" };
            let dots = if width > 0 { "·".repeat(width) + " " } else { String::new() };
            Line::of(Look::Dim, format!("{dots}{:>digits$}{word}", count(clicks)))
        }
        Cell::Closed { clicks, lost } => {
            let line = bar(clicks, lost, width).add(Look::Plain, format!("{:>digits$}", count(clicks)));
            match (lost, narrow) {
                (0, false) if window.settled => line.add(Look::Good, if wide { "  complete" } else { "  all" }),
                (0, true) if window.settled => line.add(Look::Good, " all"),
                (0, _) => line,
                (lost, false) => line.add(Look::Bad, format!("  {} lost", count(lost))),
                (lost, true) => line.add(Look::Bad, format!(" -{}", count(lost))),
            }
        }
    }
}

/// How much of a window was counted, in green, and lost, in red; nothing if there is no room.
fn bar(clicks: u64, lost: u64, width: usize) -> Line {
    if width == 0 {
        return Line::new();
    }
    let whole = (clicks + lost).max(1);
    let red = ((lost as f64 / whole as f64) * width as f64).round() as usize;
    // A loss is seen, however small it is.
    let red = if lost > 0 { red.clamp(1, width) } else { 0 };
    Line::of(Look::Good, "█".repeat(width - red)).add(Look::Bad, "░".repeat(red)).add(Look::Plain, " ")
}

/// What each delay has cost so far: clicks, and time.
fn costs(picture: &Picture, layout: Layout) -> Vec<Line> {
    let narrow = layout.is(Form::Narrow);
    let lost = |d: &Delay| {
        let look = if d.lost == 0 { Look::Good } else { Look::Bad };
        let part = share(d.lost, d.lost + d.counted);
        match (d.closed, narrow) {
            (0, _) => Line::of(Look::Dim, "-"),
            (_, true) => Line::of(look, part),
            (_, false) => Line::of(look, format!("{} = {part}", count(d.lost))),
        }
    };
    let after = |d: &Delay| match d.result_after_ms {
        None => Line::of(Look::Dim, "-"),
        Some(ms) if layout.is(Form::Wide) => Line::of(Look::Plain, format!("{} after its end", seconds(ms))),
        Some(ms) => Line::of(Look::Plain, seconds(ms)),
    };
    let labels = match layout.form {
        Form::Wide => ["lost so far", "a result comes"],
        Form::Medium => ["lost so far", "result after"],
        Form::Narrow => ["lost", "after"],
    };
    vec![
        layout.row(labels[0], picture.delays.iter().map(lost)),
        layout.row(labels[1], picture.delays.iter().map(after)),
    ]
}

/// What each has, and what it needs.
fn watermarks(picture: &Picture, layout: Layout) -> Vec<Line> {
    let has = |d: &Delay| match d.watermark {
        Some(ms) => Line::of(Look::Plain, layout.time_tenths(ms)),
        None => Line::of(Look::Dim, "none yet"),
    };
    let needs = |d: &Delay| match (d.next_end, d.watermark) {
        (None, _) => Line::of(Look::Dim, "-"),
        (Some(end), Some(has)) if layout.is(Form::Wide) => {
            let lacks = Line::of(Look::Plain, clock(end));
            lacks.add(Look::Dim, format!("  lacks {}", seconds((end - has).max(0))))
        }
        (Some(end), _) => Line::of(Look::Plain, layout.time(end)),
    };
    let labels = match layout.form {
        Form::Wide => ["watermark now", "next window closes at"],
        Form::Medium => ["watermark now", "next closes at"],
        Form::Narrow => ["watermark", "closes at"],
    };
    vec![layout.row(labels[0], picture.delays.iter().map(has)), layout.row(labels[1], picture.delays.iter().map(needs))]
}

fn partitions(partitions: &[Partition], layout: Layout) -> Vec<Line> {
    // Never more than fit beside the rest.
    const SHOWN: usize = 6;
    let name = partitions.iter().map(|p| p.name.len()).max().unwrap_or(0).clamp(9, 24);
    let mut lines = Vec::new();
    if !layout.is(Form::Narrow) {
        let head = format!(" {:<name$}  {:>7}  {:<12}", "partition", "clicks", "newest click");
        lines.push(Line::of(Look::Strong, head));
    }
    // Those that matter to the watermark before those that do not, all in their order.
    let ahead = |p: &Partition| p.state == Standing::Ahead;
    let room = SHOWN.saturating_sub(partitions.iter().filter(|p| !ahead(p)).count());
    let others = partitions.iter().filter(|p| ahead(p)).take(room);
    let mut shown: Vec<&Partition> = partitions.iter().filter(|p| !ahead(p)).take(SHOWN).chain(others).collect();
    shown.sort_by_key(|p| (p.name.len(), &p.name));
    for partition in shown {
        let newest = partition.newest.map_or("-".to_owned(), |ms| layout.time_tenths(ms));
        let line = match layout.form {
            Form::Narrow => Line::of(Look::Plain, format!(" {:<name$} {newest:<8}", partition.name)),
            _ => {
                let clicks = count(partition.clicks);
                Line::of(Look::Plain, format!(" {:<name$}  {clicks:>7}  {newest:<12}", partition.name))
            }
        };
        let (look, text) = standing(partition.state, layout.is(Form::Wide));
        lines.push(line.add(look, format!("  {text}")));
    }
    if partitions.len() > SHOWN {
        lines.push(Line::of(Look::Dim, format!(" and {} more", partitions.len() - SHOWN)));
    }
    lines
}

/// What a partition does to the watermark.
fn standing(state: Standing, wide: bool) -> (Look, String) {
    /// Silence that is worth saying.
    const QUIET_MS: i64 = 700;
    match state {
        Standing::Holds { quiet_ms } if quiet_ms >= QUIET_MS => match wide {
            true => (Look::Warn, format!("silent for {}: all windows wait for it", seconds(quiet_ms))),
            false => (Look::Warn, format!("silent {}", seconds(quiet_ms))),
        },
        Standing::Holds { .. } if wide => (Look::Plain, "the slowest: it sets the watermark".into()),
        Standing::Holds { .. } => (Look::Plain, "the slowest".into()),
        Standing::Ahead => (Look::Dim, "ahead".into()),
        Standing::Idle { ms } => match wide {
            true => (Look::Warn, format!("idle: nothing for {}, so nobody waits for it", seconds(ms))),
            false => (Look::Warn, format!("idle {}", seconds(ms))),
        },
        Standing::CatchingUp => (Look::Warn, if wide { "back, and catching up".into() } else { "back".into() }),
    }
}

/// The last loss of each delay that lost something.
fn losses(picture: &Picture, layout: Layout) -> Vec<Line> {
    let mut lines = Vec::new();
    for d in &picture.delays {
        let Some(loss) = d.last_loss else { continue };
        let (start, end, delay) = (layout.time(loss.start), layout.time(loss.end), delay(d.delay_ms));
        let clicks = if loss.clicks == 1 { "1 click".to_owned() } else { format!("{} clicks", loss.clicks) };
        let text = match layout.form {
            Form::Wide => format!(
                "delay {delay}: {clicks} for {start} - {end} came after it had closed; watermark {}",
                clock_tenths(loss.watermark)
            ),
            Form::Medium => format!("delay {delay} lost {clicks} of {start} - {end}"),
            Form::Narrow => format!("{delay} lost {clicks} of {start}"),
        };
        lines.push(Line::of(Look::Bad, " late ").add(Look::Dim, text));
    }
    lines
}

fn footer(facts: &Facts, layout: Layout) -> Vec<Line> {
    let keys = " q quit   s the SQL script";
    let addresses = format!("REST {}/jobs   Kafka {}", facts.rest, facts.bootstrap);
    if keys.len() + addresses.len() + 4 <= layout.width {
        let line = Line::of(Look::Plain, keys).pad(layout.width - addresses.len() - 1);
        return vec![line.add(Look::Dim, addresses)];
    }
    let rest = format!(" REST {}/jobs", facts.rest);
    vec![Line::of(Look::Dim, rest), Line::of(Look::Plain, keys)]
}

/// `1:05`.
fn minutes(ms: i64) -> String {
    format!("{}:{:02}", ms / 60_000, ms / 1_000 % 60)
}

#[cfg(test)]
mod tests;
