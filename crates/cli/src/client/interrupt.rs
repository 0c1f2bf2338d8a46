//! Ctrl-C and SIGTERM in the interactive client.
//!
//! Ctrl-C is about what runs now, not about the process: it cancels a query and leaves the session alone. (While a
//! statement is edited or a view is shown the terminal sends no signal; there it is a key.) SIGTERM ends the session in
//! order, a second one at once. SIGHUP says that the terminal is gone: nobody can be told anything any more, and whoever
//! reads keys from it would read for ever, so the process ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Exit codes as a shell sees them: 128 and the signal's number.
#[cfg(unix)]
const TERMINATED: u8 = 143;
/// The same for SIGHUP.
#[cfg(unix)]
const HANGUP: i32 = 129;

/// What has come so far.
#[derive(Clone, Copy, Default)]
struct Received {
    interrupts: u64,
    end: Option<u8>,
}

/// Tells what the user interrupts.
#[derive(Clone)]
pub struct Interrupts {
    received: watch::Receiver<Received>,
    breaks: Arc<AtomicBool>,
}

impl Interrupts {
    /// Listens from now on. The handlers are in place on return; call it inside a runtime.
    #[cfg(unix)]
    pub fn listen() -> Interrupts {
        use tokio::signal::unix::{Signal, SignalKind, signal};
        let (sender, received) = watch::channel(Received::default());
        let breaks = Arc::new(AtomicBool::new(false));
        let told = breaks.clone();
        let mut interrupt = signal(SignalKind::interrupt()).ok();
        let mut terminate = signal(SignalKind::terminate()).ok();
        let mut hangup = signal(SignalKind::hangup()).ok();
        async fn next(signal: &mut Option<Signal>) {
            if let Some(signal) = signal
                && signal.recv().await.is_some()
            {
                return;
            }
            // A signal that cannot be caught does what it does by itself.
            std::future::pending().await
        }
        tokio::spawn(async move {
            loop {
                let end = tokio::select! {
                    () = next(&mut interrupt) => None,
                    () = next(&mut terminate) => Some(TERMINATED),
                    () = next(&mut hangup) => std::process::exit(HANGUP),
                };
                match end {
                    None => sender.send_modify(|received| received.interrupts += 1),
                    Some(code) if sender.borrow().end.is_some() => {
                        super::typeahead::restore();
                        std::process::exit(i32::from(code))
                    }
                    Some(code) => {
                        sender.send_modify(|received| received.end = Some(code));
                        told.store(true, Ordering::Relaxed);
                    }
                }
            }
        });
        Interrupts { received, breaks }
    }

    /// Without Unix signals there is only Ctrl-C.
    #[cfg(not(unix))]
    pub fn listen() -> Interrupts {
        let (sender, received) = watch::channel(Received::default());
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                sender.send_modify(|received| received.interrupts += 1);
            }
        });
        Interrupts { received, breaks: Arc::default() }
    }

    /// How many Ctrl-Cs have come.
    pub fn count(&self) -> u64 {
        self.received.borrow().interrupts
    }

    /// The exit code, if the session is to end.
    pub fn end(&self) -> Option<u8> {
        self.received.borrow().end
    }

    /// Turns true when the session is to end: breaks off the editing of a statement.
    pub fn break_signal(&self) -> Arc<AtomicBool> {
        self.breaks.clone()
    }

    /// Waits for a Ctrl-C after the first `seen`, or for the end of the session.
    pub async fn after(&self, seen: u64) {
        let came = |received: &Received| received.interrupts > seen || received.end.is_some();
        if self.received.clone().wait_for(came).await.is_err() {
            // No signal can be received.
            std::future::pending::<()>().await;
        }
    }
}
