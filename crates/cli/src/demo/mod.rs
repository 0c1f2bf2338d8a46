//! `tidegate demo`: what a watermark delay costs, seen in one command.
//!
//! ```text
//!   clicks (pure) --> producer --> embedded broker --> the script's job --> print tables
//!      |                                                  | views             | results
//!      +-- truth --------------------> picture (pure) <---+-------------------+
//!                                         |
//!                          screen | log | summary (pure) --> terminal, standard output
//! ```

mod clicks;
mod lab;
mod live;
mod log;
mod picture;
mod results;
mod screen;
mod stage;
mod story;
mod summary;
mod terminal;
mod text;

use tidegate_api::Result;

use crate::args::{DemoArgs, DemoCommand};
use crate::console::print_out;
use crate::signals::Signals;
use stage::Place;
use text::Line;

/// Runs what was asked for.
pub async fn demo(args: DemoArgs, signals: Signals) -> Result<()> {
    if args.script {
        let bootstrap = args.stage.bootstrap.unwrap_or_else(|| "localhost:9092".to_owned());
        return print_out(&live::script(&Place { bootstrap, topic: "clicks".into() }));
    }
    match &args.command {
        Some(DemoCommand::Lab { fast, stage }) => lab::lab(stage, *fast, &signals).await,
        None => live::live(&args, &signals).await,
    }
}

/// Lines on standard output.
fn say_lines(lines: &[Line]) -> Result<()> {
    let colours = terminal::colours();
    let text: String = lines.iter().map(|line| line.paint(colours) + "\n").collect();
    print_out(&text)
}
