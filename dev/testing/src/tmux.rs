//! A terminal to drive programs in: keys in, screen out.
//!
//! `tmux` is a whole terminal without a window. Each [`Tmux`] is a server of its own, so tests neither see each other
//! nor the developer's sessions. Nothing here waits a fixed time: a test waits for what the screen shows.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::{unavailable, wait_for};

/// How long the screen may take to show something.
const LIMIT: Duration = Duration::from_secs(20);

/// A terminal that runs one shell.
pub struct Tmux {
    server: String,
    _folder: tempfile::TempDir,
}

impl Tmux {
    /// A terminal of this size, in a shell whose working folder is `dir`; `None` if there is no tmux, which has then
    /// been said.
    pub fn start(width: u16, height: u16, dir: &Path) -> Option<Tmux> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if let Err(e) = Command::new("tmux").arg("-V").output() {
            unavailable("tmux", &format!("{e} (install the package tmux)"));
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = format!("tidegate-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let tmux = Tmux { server, _folder: folder };
        let config = tmux._folder.path().join("tmux.conf");
        // No status line; keys reach the program at once; colours can be seen in what `-e` captures.
        std::fs::write(&config, "set -g status off\nset -sg escape-time 0\nset -g default-terminal tmux-256color\n")
            .expect("a configuration");
        let (x, y) = (width.to_string(), height.to_string());
        let config = config.to_string_lossy().into_owned();
        let dir = dir.to_string_lossy().into_owned();
        // A plain shell, whatever the user's is, with a prompt that no program prints.
        let shell = "env PS1='READY: ' HOME=/nonexistent LANG=C.UTF-8 sh";
        tmux.tmux(&["-f", &config, "new-session", "-d", "-x", &x, "-y", &y, "-c", &dir, shell]);
        tmux.wait("READY:");
        Some(tmux)
    }

    /// Types text, as if by hand.
    pub fn type_text(&self, text: &str) {
        // To tmux an argument that ends in `;` ends a command.
        let text = match text.strip_suffix(';') {
            Some(start) => format!("{start}\\;"),
            None => text.to_owned(),
        };
        self.tmux(&["send-keys", "-l", "--", &text]);
    }

    /// Presses keys by tmux's names: `Enter`, `Tab`, `C-c`, `PageDown`.
    pub fn press(&self, keys: &[&str]) {
        let mut arguments = vec!["send-keys"];
        arguments.extend(keys);
        self.tmux(&arguments);
    }

    /// Types a line and presses Enter.
    pub fn line(&self, text: &str) {
        self.type_text(text);
        self.press(&["Enter"]);
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, width: u16, height: u16) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// What the screen shows, a line a row, without blanks at the ends.
    pub fn screen(&self) -> String {
        self.capture(&["capture-pane", "-p"])
    }

    /// The same with what has scrolled away above it.
    pub fn history(&self) -> String {
        self.capture(&["capture-pane", "-p", "-S", "-"])
    }

    /// What the screen shows, with the escape sequences of its colours.
    pub fn coloured_screen(&self) -> String {
        self.capture(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the screen contains the text; gives the screen.
    #[track_caller]
    pub fn wait(&self, text: &str) -> String {
        self.wait_until(&format!("'{text}'"), |screen| screen.contains(text))
    }

    /// Waits until the screen is as wanted; gives the screen.
    #[track_caller]
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let found = wait_for(LIMIT, || Some(self.screen()).filter(|screen| wanted(screen)));
        found.unwrap_or_else(|| panic!("the screen does not show {what}:\n{}", self.screen()))
    }

    fn capture(&self, arguments: &[&str]) -> String {
        let text = self.tmux(arguments);
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        // Not inside another tmux, if the developer's shell is in one.
        command.env_remove("TMUX").args(["-L", &self.server]).args(arguments);
        let output = command.output().expect("tmux runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "tmux {arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The server ends with its last session, and what runs in it with the server.
        let _ = Command::new("tmux").env_remove("TMUX").args(["-L", &self.server, "kill-server"]).output();
    }
}
