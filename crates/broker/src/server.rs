//! The running broker: it listens, serves connections and lets time pass for the coordinators.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock::{self, Clock};
use crate::folder::DataFolder;
use crate::groups::Groups;
use crate::options::BrokerOptions;
use crate::state::{NodeAddress, State};
use crate::topics::{TopicConfig, Topics};
use crate::transactions::Transactions;
use crate::wire::{WireError, connection};

/// Id of the only node.
const NODE_ID: i32 = 1;
/// How often the coordinators look at their deadlines.
const TICK: Duration = Duration::from_millis(100);
/// How long no connection is taken after one could not be: for want of file descriptors, mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Threads that serve connections.
const WORKERS: usize = 2;

/// Why a broker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The address is taken, or is not one of this machine.
    #[error("Cannot listen on {address}: {source}. Is another broker running there? Take another port.")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Another process uses the data folder.
    #[error("Another broker uses the data folder '{}'. Stop it, or take another folder.", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds files that no broker has written.
    #[error("The folder '{}' is not empty and holds no broker's data. Take an empty or a new one.", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was written by a broker of another format, or is damaged.
    #[error("Cannot read the data folder, '{}': {reason}. Take another folder, or the version that wrote it.", path.display())]
    Format {
        /// The file that says it.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder cannot be read or written.
    #[error("Cannot use the data in '{}': {source}. Take a folder that this user may read and write.", path.display())]
    Data {
        /// The folder or file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives no threads.
    #[error("Cannot start the broker's threads: {0}")]
    Threads(io::Error),
}

/// A broker that runs until it is shut down or dropped.
///
/// It has threads of its own, so it can be started from a test without a runtime as well as from an
/// asynchronous program, and several times in a process.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    bootstrap: String,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    folder: Arc<DataFolder>,
}

impl Broker {
    /// Starts a broker. When it returns, clients can connect, and what was left unfinished by the process
    /// before (torn writes, prepared transactions) is brought to its end.
    ///
    /// # Errors
    ///
    /// If the address or the data folder cannot be used.
    pub fn start(options: BrokerOptions) -> Result<Broker, BrokerError> {
        Broker::start_at(options, clock::wall())
    }

    /// The same with another clock: for tests of what takes hours.
    ///
    /// # Errors
    ///
    /// As [`Broker::start`].
    pub fn start_at(options: BrokerOptions, clock: Clock) -> Result<Broker, BrokerError> {
        let failed = |source| BrokerError::Listen { address: options.listen, source };
        let folder = Arc::new(DataFolder::open(options.data.as_deref())?);
        let listener = TcpListener::bind(options.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (host, port) = options.advertised.clone().unwrap_or_else(|| (local_host(address), address.port()));
        let bootstrap = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };

        let state = Arc::new(open(options, clock, &folder)?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("broker")
            .enable_all()
            .build()
            .map_err(BrokerError::Threads)?;
        let (stop, stopped) = watch::channel(false);
        let held = folder.clone();
        let thread = std::thread::Builder::new().name("broker".to_owned()).spawn(move || {
            runtime.block_on(run(state, listener, stopped));
            // Waits for a cleaning that is under way, so that nobody writes to the folder afterwards.
            drop(runtime);
            drop(held);
        });
        let thread = Some(thread.map_err(BrokerError::Threads)?);
        Ok(Broker { address, bootstrap, stop, thread, folder })
    }

    /// The address it listens on, with the port it has got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `host:port`, as `bootstrap.servers` takes it.
    pub fn bootstrap(&self) -> String {
        self.bootstrap.clone()
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        self.folder.path()
    }

    /// Closes the listener and all connections, and waits until nothing of it runs any more. Dropping the
    /// broker does the same.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic in there was reported by the thread itself; there is nothing more to stop.
            let _ = thread.join();
        }
    }
}

/// The host under which this machine reaches the broker.
fn local_host(address: SocketAddr) -> String {
    match address.ip() {
        ip if !ip.is_unspecified() => ip.to_string(),
        _ => "localhost".to_owned(),
    }
}

fn open(options: BrokerOptions, clock: Clock, folder: &DataFolder) -> Result<State, BrokerError> {
    let data = folder.path();
    let failed = |source| BrokerError::Data { path: data.to_owned(), source };
    let now_ms = clock();
    let topics = Topics::open(data, TopicConfig::default(), now_ms).map_err(failed)?;
    let groups = Groups::open(data, &options, now_ms).map_err(failed)?;
    let transactions = Transactions::open(data, &topics, &groups, &options, now_ms).map_err(failed)?;
    let node = NodeAddress { id: NODE_ID, advertised: options.advertised.clone(), cluster: folder.cluster.clone() };
    Ok(State { options, topics, groups, transactions, clock, node, data: data.to_owned() })
}

/// Serves until it is told to stop.
async fn run(state: Arc<State>, listener: TcpListener, mut stopped: watch::Receiver<bool>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(e) => return state.options.report.trouble(&format!("cannot listen: {e}")),
    };
    let mut background = JoinSet::new();
    background.spawn(tick(state.clone()));
    background.spawn(clean(state.clone()));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // An error means that the broker is gone, which is the same.
            _ = stopped.wait_for(|stopped| *stopped) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(state.clone(), stream));
                }
                Err(e) => {
                    state.options.report.trouble(&format!("cannot take a connection: {e}"));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
    background.shutdown().await;
}

async fn serve(state: Arc<State>, stream: tokio::net::TcpStream) {
    let peer = stream.peer_addr();
    match connection::serve(state.clone(), stream).await {
        // A client may leave in any way it likes.
        Ok(()) | Err(WireError::Io(_)) => {}
        Err(error) => {
            let peer = peer.map_or_else(|_| "a client".to_owned(), |peer| peer.to_string());
            state.options.report.trouble(&format!("closed the connection of {peer}: {error}"));
        }
    }
}

/// Lets time pass for sessions, rebalances and transactions.
async fn tick(state: Arc<State>) {
    let mut beat = tokio::time::interval(TICK);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        let now_ms = state.now_ms();
        let groups = state.groups.tick(now_ms);
        let transactions = state.transactions.tick(&state.topics, &state.groups, now_ms);
        for trouble in [groups, transactions].into_iter().filter_map(Result::err) {
            state.options.report.trouble(&format!("cannot write what has expired: {trouble}"));
        }
    }
}

/// Retention and compaction, on a thread that may block.
async fn clean(state: Arc<State>) {
    let mut beat = tokio::time::interval(state.options.clean_interval.max(TICK));
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first beat comes at once.
    beat.tick().await;
    loop {
        beat.tick().await;
        let cleaned = state.clone();
        let outcome = tokio::task::spawn_blocking(move || cleaned.topics.clean_all(cleaned.now_ms())).await;
        match outcome {
            Ok(Ok(_)) => {}
            Ok(Err(e)) => state.options.report.trouble(&format!("cannot clean the logs: {e}")),
            Err(e) => state.options.report.trouble(&format!("cleaning the logs has failed: {e}")),
        }
    }
}
