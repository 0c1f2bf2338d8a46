//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process at once.

use std::process::ExitCode;
use std::sync::Arc;

use tokio::sync::watch;

/// What a shell sees of a program that Ctrl-C ended: 128 and the signal's number.
const INTERRUPTED: u8 = 130;
/// The same for SIGTERM.
const TERMINATED: u8 = 143;

/// Tells whether the user wants the process to end.
#[derive(Clone)]
pub struct Signals {
    sender: Arc<watch::Sender<Option<u8>>>,
    received: watch::Receiver<Option<u8>>,
}

impl Signals {
    /// Listens from now on, for as long as the process lives. The handlers are in place on return: a signal
    /// that comes before the listening task has its first turn must not end the process by itself.
    pub fn listen() -> Signals {
        let (sender, received) = watch::channel(None);
        let sender = Arc::new(sender);
        let told = sender.clone();
        let mut handlers = Handlers::install();
        tokio::spawn(async move {
            loop {
                let code = handlers.next().await;
                if told.borrow().is_some() {
                    std::process::exit(i32::from(code));
                }
                told.send_replace(Some(code));
            }
        });
        Signals { sender, received }
    }

    /// Ctrl-C came as a key: a terminal in raw mode makes no signal of it.
    pub fn interrupt(&self) {
        self.sender.send_replace(Some(INTERRUPTED));
    }

    /// The exit code, if a signal has come.
    pub fn exit_code(&self) -> Option<ExitCode> {
        self.received.borrow().map(ExitCode::from)
    }

    /// Whether a signal has come.
    pub fn came(&self) -> bool {
        self.received.borrow().is_some()
    }

    /// Waits for a signal.
    pub async fn wait(&self) {
        if self.received.clone().wait_for(Option::is_some).await.is_err() {
            // No signal can be received.
            std::future::pending::<()>().await;
        }
    }
}

/// What is installed for the signals. One that cannot be caught ends the process by itself.
#[cfg(unix)]
struct Handlers {
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Handlers {
    fn install() -> Handlers {
        use tokio::signal::unix::{SignalKind, signal};
        Handlers { interrupt: signal(SignalKind::interrupt()).ok(), terminate: signal(SignalKind::terminate()).ok() }
    }

    /// The exit code of the next signal.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            () = received(&mut self.interrupt) => INTERRUPTED,
            () = received(&mut self.terminate) => TERMINATED,
        }
    }
}

#[cfg(unix)]
async fn received(handler: &mut Option<tokio::signal::unix::Signal>) {
    if let Some(handler) = handler
        && handler.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}

#[cfg(not(unix))]
struct Handlers;

#[cfg(not(unix))]
impl Handlers {
    fn install() -> Handlers {
        Handlers
    }

    async fn next(&mut self) -> u8 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        INTERRUPTED
    }
}
