//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process at once.

use std::process::ExitCode;

use tokio::sync::watch;

/// What a shell sees of a program that Ctrl-C ended: 128 and the signal's number.
const INTERRUPTED: u8 = 130;
/// The same for SIGTERM.
const TERMINATED: u8 = 143;

/// Tells whether the user wants the process to end.
#[derive(Clone)]
pub struct Signals {
    received: watch::Receiver<Option<u8>>,
}

impl Signals {
    /// Listens from now on, for as long as the process lives.
    pub fn listen() -> Signals {
        let (sender, received) = watch::channel(None);
        tokio::spawn(async move {
            let mut terminate = Terminate::new();
            loop {
                let code = tokio::select! {
                    heard = tokio::signal::ctrl_c() => match heard {
                        Ok(()) => INTERRUPTED,
                        // Signals cannot be received; then they end the process by themselves.
                        Err(_) => return,
                    },
                    () = terminate.received() => TERMINATED,
                };
                if sender.borrow().is_some() {
                    std::process::exit(i32::from(code));
                }
                // Without a receiver the work is done and the process is about to end.
                let _ = sender.send(Some(code));
            }
        });
        Signals { received }
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

/// SIGTERM where there is such a thing.
struct Terminate {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Terminate {
    fn new() -> Terminate {
        Terminate {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok(),
        }
    }

    async fn received(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
