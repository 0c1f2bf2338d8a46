//! Serves the REST API on the control runtime.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_api::{Error, Result};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::console::say;
use crate::engine::Engine;

/// How long clients have to take the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The API while it is served: until [`Server::end`], or else until the process ends.
pub struct Server {
    /// Tells the port if 0 was asked for.
    pub address: SocketAddr,
    end: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Takes no more requests, and waits until what was asked is answered.
    pub async fn end(self) {
        // A server that is gone has nothing left to answer.
        let _ = self.end.send(());
        let _ = tokio::time::timeout(LAST_ANSWERS, self.serving).await;
    }
}

/// Listens and serves in the background.
pub async fn serve(engine: Arc<Engine>, bind: &str, port: u16) -> Result<Server> {
    let listener = tokio::net::TcpListener::bind((bind, port)).await.map_err(|e| {
        let advice = match e.kind() {
            std::io::ErrorKind::AddrInUse | std::io::ErrorKind::PermissionDenied => " Choose another port.",
            _ => "",
        };
        Error::invalid(format!("Cannot listen on {bind}:{port}: {e}.{advice}"))
    })?;
    let address = listener.local_addr().map_err(|e| Error::job(format!("Cannot read the address listened on: {e}")))?;
    let operations = engine.operations().clone();
    let router = tidegate_server::router_with(engine.clone(), engine.slots(), engine.id(), engine.now_ms(), operations);
    let (end, ended) = oneshot::channel();
    let serving = tokio::spawn(async move {
        let end = async {
            if ended.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        if let Err(e) = tidegate_server::serve(listener, router, end).await {
            say(&format!("REST ended: {e}"));
        }
    });
    Ok(Server { address, end, serving })
}
