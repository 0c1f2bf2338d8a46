//! The line editor: reedline with SQL's colours, completion and idea of when a statement ends.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reedline::{
    Color, ColumnarMenu, Completer, CompletionResult, Emacs, ExternalPrinter, FileBackedHistory, Highlighter,
    InputMode, KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch,
    PromptHistorySearchStatus, Reedline, ReedlineEvent, ReedlineMenu, Signal, Span, StyledText, Suggestion,
    ValidationResult, Validator, default_emacs_keybindings,
};
use tidegate_api::{Error, Result};
use tidegate_sql::script::is_finished;

use super::complete::{Vocabulary, candidates};
use super::highlight::{NoColours, SqlColours};
use super::input::is_bare_command;
use super::interrupt::Interrupts;
use super::mailbox::Mailbox;
use super::terminal::Terminal;
use crate::console::say;

/// Statements remembered.
const HISTORY_MAX: usize = 2000;
/// How long a notice may wait before it is printed above the prompt.
const POLL: Duration = Duration::from_millis(100);
/// Lines printed above the prompt at one go.
const LINES_AT_ONCE: usize = 200;
/// Names the completion menu.
const MENU: &str = "completion";

/// What the user did at the prompt.
pub enum Entered {
    /// Typed statements.
    Text(String),
    /// Cleared what was typed.
    Cleared,
    /// Wants to leave.
    End,
}

/// Reads statements.
pub struct Editor {
    reedline: Reedline,
    vocabulary: Arc<Mutex<Vocabulary>>,
}

impl Editor {
    /// An editor whose statements go to `history`, if there is one.
    pub fn new(
        terminal: Terminal,
        history: Option<FileBackedHistory>,
        interrupts: &Interrupts,
        mailbox: Arc<Mailbox>,
    ) -> Editor {
        let vocabulary: Arc<Mutex<Vocabulary>> = Arc::default();
        let printer = ExternalPrinter::new(LINES_AT_ONCE);
        let lines = printer.sender();
        let fits_a_row = Arc::new(AtomicBool::new(true));
        let may_print = fits_a_row.clone();
        let print_waiting = move || {
            if may_print.load(Ordering::Relaxed) {
                for line in mailbox.take(LINES_AT_ONCE) {
                    // There is room: the editor has printed all that came before.
                    let _ = lines.try_send(line);
                }
            }
        };
        // What stands after the cursor counts too: the tables of a query whose columns are being typed.
        let menu = ColumnarMenu::default().with_name(MENU).with_columns(3).with_marker("");
        let menu = menu.with_input_mode(InputMode::FullBuffer);
        let mut keys = default_emacs_keybindings();
        let open = ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.into()), ReedlineEvent::MenuNext]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, open);
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        let mut reedline = Reedline::create()
            .with_ansi_colors(terminal.colours)
            .with_validator(Box::new(StatementEnd))
            .with_completer(Box::new(NameCompleter(vocabulary.clone())))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_break_signal(interrupts.break_signal())
            .with_external_printer(printer)
            .with_idle_callback(Box::new(print_waiting))
            .with_poll_interval(POLL)
            .use_bracketed_paste(true);
        let colours: Box<dyn Highlighter> = if terminal.colours { Box::new(SqlColours) } else { Box::new(NoColours) };
        reedline = reedline.with_highlighter(Box::new(RowWatch { colours, fits_a_row }));
        if let Some(history) = history {
            reedline = reedline.with_history(Box::new(history));
        }
        Editor { reedline, vocabulary }
    }

    /// What completion may offer from now on.
    pub fn learn(&self, vocabulary: Vocabulary) {
        *self.vocabulary.lock().unwrap_or_else(PoisonError::into_inner) = vocabulary;
    }

    /// Reads what the user types next.
    pub fn read(&mut self) -> Result<Entered> {
        match self.reedline.read_line(&SqlPrompt) {
            Ok(Signal::Success(text)) => {
                // A history that cannot be written any more is no reason to stop working.
                let _ = self.reedline.sync_history();
                Ok(Entered::Text(text))
            }
            Ok(Signal::CtrlC) => Ok(Entered::Cleared),
            Ok(Signal::ExternalBreak(_)) => {
                // The cursor is still where the statement is typed.
                say("");
                Ok(Entered::End)
            }
            Ok(_) => Ok(Entered::End),
            Err(e) => Err(Error::job(format!("Cannot read from the terminal: {e}."))),
        }
    }
}

/// Opens the history: the file that is asked for, else one in the user's state folder.
pub fn open_history(asked: Option<&Path>) -> Result<FileBackedHistory, String> {
    let file = match asked {
        Some(file) => file.to_path_buf(),
        None => state_folder().ok_or("neither XDG_STATE_HOME nor HOME is set")?.join("tidegate/sql_history"),
    };
    FileBackedHistory::with_file(HISTORY_MAX, file.clone()).map_err(|e| format!("'{}': {e}", file.display()))
}

/// Where programs keep state, by the XDG base directory specification.
fn state_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

/// Watches, whenever the statement is drawn, whether it takes one row of the screen. The editor knows how to print
/// above such a one only; lines that come while a longer one is typed wait for the next prompt.
struct RowWatch {
    colours: Box<dyn Highlighter>,
    fits_a_row: Arc<AtomicBool>,
}

impl Highlighter for RowWatch {
    fn highlight(&self, line: &str, cursor: usize) -> StyledText {
        let width = crossterm::terminal::size().map_or(80, |(width, _)| usize::from(width));
        // In bytes, as the editor counts: never fewer than columns.
        let fits = !line.contains('\n') && line.len() + PROMPT.len() < width;
        self.fits_a_row.store(fits, Ordering::Relaxed);
        self.colours.highlight(line, cursor)
    }
}

/// Enter ends the input only where a statement ends.
struct StatementEnd;

impl Validator for StatementEnd {
    fn validate(&self, line: &str) -> ValidationResult {
        match is_finished(line) || is_bare_command(line) {
            true => ValidationResult::Complete,
            false => ValidationResult::Incomplete,
        }
    }
}

struct NameCompleter(Arc<Mutex<Vocabulary>>);

impl Completer for NameCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let vocabulary = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, found) = candidates(&vocabulary, line, pos);
        let suggestion = |candidate: super::complete::Candidate| Suggestion {
            append_whitespace: candidate.about == "keyword",
            value: candidate.text,
            description: Some(candidate.about),
            span: Span::new(start, pos),
            ..Suggestion::default()
        };
        CompletionResult::fresh(found.into_iter().map(suggestion).collect::<Vec<_>>())
    }
}

/// `Tidegate SQL> `, and lines that go on below it.
pub struct SqlPrompt;

/// The prompt of a first line.
pub const PROMPT: &str = "Tidegate SQL> ";
/// The prompt of the lines below, as wide.
pub const PROMPT_MORE: &str = "            > ";

impl Prompt for SqlPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(PROMPT)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed(PROMPT_MORE)
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => " (nothing found)",
        };
        Cow::Owned(format!("Search{found} '{}'> ", search.term))
    }

    fn get_indicator_color(&self) -> Color {
        Color::Cyan
    }

    fn get_prompt_multiline_color(&self) -> Color {
        Color::Cyan
    }
}
