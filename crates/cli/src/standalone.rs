//! `tidegate standalone`: REST, and the jobs submitted to it.

use std::sync::Arc;

use tidegate_api::config::Configuration;
use tidegate_api::{Error, Result};

use crate::args::StandaloneArgs;
use crate::console::Console;
use crate::engine::{Engine, finished_jobs_max};
use crate::signals::Signals;
use crate::store::JobStore;
use crate::{rest, script};

/// Serves until Ctrl-C or SIGTERM; then stops what runs, for good or until it is started again on the same folder.
pub async fn standalone(args: StandaloneArgs, signals: Signals) -> Result<()> {
    let config = script::parse_settings(&args.settings)?;
    let console = Console::new(false);
    let (engine, stored) = match &args.state_dir {
        None => (Engine::serving(&config, console.clone(), None)?, Vec::new()),
        Some(dir) => {
            let (store, stored) = JobStore::open(dir, finished_jobs_max(&config)?)?;
            (Engine::serving(&config, console.clone(), Some(Arc::new(store)))?, stored)
        }
    };
    let engine = Arc::new(engine);
    let address = rest::serve(engine.clone(), &bind(&args, &config), port(&args, &config)?).await?.address;
    // Not before the port is taken: a process that cannot serve must not run anything.
    engine.recover(stored);
    console
        .notice(&format!("REST on http://{address} - submit with: tidegate run --endpoint http://{address} FILE.sql"));
    signals.wait().await;
    console.notice("stopping");
    // What has not stopped by then is blocked, and the end of the process stops it.
    let _ = tokio::time::timeout(script::STOP_WAIT, engine.stop_all()).await;
    Ok(())
}

fn bind(args: &StandaloneArgs, config: &Configuration) -> String {
    let configured = args.bind.as_deref().or_else(|| config.get("rest.bind-address"));
    configured.unwrap_or("127.0.0.1").to_owned()
}

fn port(args: &StandaloneArgs, config: &Configuration) -> Result<u16> {
    let configured = match args.port {
        Some(port) => usize::from(port),
        None => config.usize("rest.port", 8081)?,
    };
    u16::try_from(configured).map_err(|_| Error::invalid(format!("rest.port is no port: {configured}.")))
}
