//! `tidegate standalone`: REST, and the jobs submitted to it.

use std::sync::Arc;

use tidegate_api::Result;

use crate::args::StandaloneArgs;
use crate::engine::Engine;
use crate::{rest, script};

/// Serves until Ctrl-C; then cancels what runs.
pub async fn standalone(args: StandaloneArgs) -> Result<()> {
    let config = script::parse_settings(&args.settings)?;
    let engine = Arc::new(Engine::new(&config, false)?);
    let address = rest::serve(engine.clone(), &args.bind, args.port).await?;
    eprintln!("REST on http://{address} - submit with: tidegate run --endpoint http://{address} FILE.sql");
    // An error here means that no signal can be received; then only a kill ends the process.
    let _ = tokio::signal::ctrl_c().await;
    eprintln!("stopping");
    engine.cancel_all().await;
    Ok(())
}
