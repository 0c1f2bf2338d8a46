//! A line per source on standard error while jobs run: rows, rate, watermark.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressFinish, ProgressStyle};
use tidegate_runtime::view::SourceProgress;

use crate::console::Console;
use crate::describe::watermark_text;
use crate::engine::Running;

/// How often the lines are drawn.
const TICK: Duration = Duration::from_millis(250);

/// The running display; dropping or stopping it clears the lines.
pub struct Progress {
    shown: Option<(tokio::task::JoinHandle<()>, MultiProgress)>,
}

impl Progress {
    /// Shows the sources of `jobs`, unless the console shows no progress. Rows that appear on the same
    /// terminal are progress enough, and lines drawn between them would flicker.
    pub fn start(console: &Console, jobs: &[Running]) -> Progress {
        let prints_here = jobs.iter().any(Running::prints) && std::io::IsTerminal::is_terminal(&std::io::stdout());
        let Some(lines) = console.progress_lines().filter(|_| !prints_here) else {
            return Progress { shown: None };
        };
        let sources = jobs.iter().map(Running::progress_reader).collect::<Vec<_>>();
        let drawn = lines.clone();
        let task = tokio::spawn(async move { draw(drawn, move || sources.iter().flat_map(|s| s()).collect()).await });
        Progress { shown: Some((task, lines.clone())) }
    }

    /// Clears the lines.
    pub fn stop(self) {
        if let Some((task, lines)) = self.shown {
            task.abort();
            // A terminal that cannot be cleared is no reason to fail the job.
            let _ = lines.clear();
        }
    }
}

async fn draw(lines: MultiProgress, sources: impl Fn() -> Vec<SourceProgress>) {
    let mut bars: Vec<(ProgressBar, u64)> = Vec::new();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        for (i, source) in sources().iter().enumerate() {
            if bars.len() <= i {
                let style = ProgressStyle::with_template("{spinner} {msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner());
                bars.push((
                    lines.add(ProgressBar::new_spinner().with_style(style).with_finish(ProgressFinish::AndClear)),
                    source.rows,
                ));
            }
            let (bar, before) = &mut bars[i];
            let per_second = (source.rows - *before) as f64 / TICK.as_secs_f64();
            *before = source.rows;
            let mark = watermark_text(&source.watermark.to_string());
            bar.set_message(format!(
                "{}: {} rows, {}/s, watermark {mark}",
                source.name,
                source.rows,
                short(per_second)
            ));
            bar.tick();
        }
    }
}

/// `1.2 M`, `35 k`, `12`.
fn short(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.1} M", n / 1e6),
        n if n >= 1e3 => format!("{:.0} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}
