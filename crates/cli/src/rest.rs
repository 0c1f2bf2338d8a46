//! Serves the REST API on the control runtime.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_api::{Error, Result};

use crate::console::say;
use crate::engine::Engine;

/// Listens and serves in the background; gives the address, which tells the port if 0 was asked for.
pub async fn serve(engine: Arc<Engine>, bind: &str, port: u16) -> Result<SocketAddr> {
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
    tokio::spawn(async move {
        if let Err(e) = tidegate_server::serve(listener, router).await {
            say(&format!("REST ended: {e}"));
        }
    });
    Ok(address)
}
