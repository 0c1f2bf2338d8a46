//! A way to a server on this machine that can be closed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Passes connections on to a port, until it is dropped.
pub struct Gate {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    closed: bool,
    gone: bool,
    connections: Vec<TcpStream>,
}

impl Gate {
    /// An open gate before this port.
    pub fn before(port: u16) -> Gate {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let gate = Gate { port: listener.local_addr().expect("its address").port(), state: Arc::default() };
        let state = Arc::clone(&gate.state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = lock(&state);
                if state.gone {
                    return;
                }
                // Closed, it hangs up at once.
                if !state.closed
                    && let Ok(server) = TcpStream::connect(("127.0.0.1", port))
                {
                    state.connections.extend(join(&client, &server).into_iter().flatten());
                }
            }
        });
        gate
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts what passes through, and lets nothing pass any more.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        for connection in state.connections.drain(..) {
            // It may have ended by itself.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Lets everything pass again.
    pub fn open(&self) {
        lock(&self.state).closed = false;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.close();
        lock(&self.state).gone = true;
        // Wakes the listener, so that its thread ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies both ways, and gives both ends to whoever wants to cut them.
fn join(client: &TcpStream, server: &TcpStream) -> std::io::Result<[TcpStream; 2]> {
    for (from, to) in [(client, server), (server, client)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || pump(from, to));
    }
    Ok([client.try_clone()?, server.try_clone()?])
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(n) = from.read(&mut bytes) {
        if n == 0 || to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Read);
    let _ = to.shutdown(Shutdown::Write);
}
