//! One client's connection.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::WireError;
use super::apis::{self, Peer};
use super::frame::FrameReader;
use crate::state::State;

/// Serves one connection until the client closes it.
///
/// One request at a time: what comes meanwhile waits in the socket, as Kafka mutes a channel while a
/// request of it is in progress. So answers leave in the order of the requests, and a client cannot fill
/// the memory of the broker with requests.
///
/// # Errors
///
/// If the client sends what cannot be answered; the connection is closed then.
pub(crate) async fn serve(state: Arc<State>, stream: TcpStream) -> Result<(), WireError> {
    stream.set_nodelay(true)?;
    let peer = Peer { host: format!("/{}", stream.peer_addr()?.ip()), reached: stream.local_addr()? };
    let (source, mut sink) = stream.into_split();
    let mut frames = FrameReader::new(source);
    while let Some(frame) = frames.next().await? {
        if let Some(answer) = apis::answer(&state, frame, &peer).await? {
            sink.write_all(&answer).await?;
        }
    }
    Ok(())
}
