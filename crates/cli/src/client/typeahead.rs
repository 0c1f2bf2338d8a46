//! Keys that are pressed while a statement runs.
//!
//! Between two prompts a terminal is usually as a shell leaves it: it shows what is typed in the middle of what is
//! printed, and turns Enter into a line feed that the next prompt does not take for one. For the time of a session the
//! terminal therefore keeps keys as they are and silent until somebody reads them; only Ctrl-C still makes a signal.

use std::sync::{Mutex, PoisonError};

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal's modes before the session.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Keeps keys until it is dropped.
pub struct TypeAhead;

impl TypeAhead {
    /// Starts to keep keys. What is no terminal stays as it is.
    pub fn keep() -> TypeAhead {
        if let Ok(before) = tcgetattr(std::io::stdin()) {
            let mut modes = before.clone();
            modes.input_modes.remove(InputModes::ICRNL);
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            if tcsetattr(std::io::stdin(), OptionalActions::Now, &modes).is_ok() {
                *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
            }
        }
        TypeAhead
    }
}

impl Drop for TypeAhead {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal its modes from before the session.
pub fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // A terminal that is gone needs no modes.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}
