//! Brokers for tests, of two kinds: Apache Kafka itself and Tidegate's own.
//!
//! A test is written once, as a function of a [`Kind`], and [`each_broker!`](crate::each_broker) makes two
//! tests of it, `real::name` and `embedded::name`. What holds for one must hold for the other.

mod embedded;
pub mod real;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::leash::Leash;
use crate::process::{free_port, signal};
use crate::{unavailable, wait_for};
use embedded::Embedded;

/// How long a broker may take to start, on a machine that does other things too.
const READY: Duration = Duration::from_secs(180);

/// Whose broker it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Apache Kafka's, of the version in [`real::VERSION`].
    Real,
    /// Tidegate's.
    Embedded,
}

/// What a test may want of its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settings {
    /// Whether topics are made on demand.
    pub auto_create_topics: bool,
    /// The protocol of transactions: 1, or 2 (KIP-890).
    pub transaction_version: i16,
}

impl Default for Settings {
    /// No topics on demand, the newest transactions.
    fn default() -> Settings {
        Settings { auto_create_topics: false, transaction_version: 2 }
    }
}

/// A broker that runs.
pub struct Kafka {
    kind: Kind,
    bootstrap: String,
    running: Running,
}

enum Running {
    /// Started by somebody else.
    Elsewhere,
    /// A program of our own, with the words that start it again.
    Program { leash: Leash, command: Vec<OsString> },
    /// In this process.
    Here(Box<Embedded>),
}

/// The broker of this kind that all tests of this binary share, with the default settings; see
/// [`shared_with`].
pub fn shared(kind: Kind) -> Option<&'static Kafka> {
    shared_with(kind, Settings::default())
}

/// The broker of this kind and these settings that all tests of this binary share, started at first use.
/// `None` if there can be none, which has then been said: that is possible only for the real one.
/// `TIDEGATE_TEST_KAFKA=host:port` names a running broker to use as the real one with default settings.
pub fn shared_with(kind: Kind, settings: Settings) -> Option<&'static Kafka> {
    type Slot = &'static OnceLock<Result<Kafka, String>>;
    static SLOTS: Mutex<BTreeMap<(Kind, Settings), Slot>> = Mutex::new(BTreeMap::new());
    let slot: Slot = {
        let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry((kind, settings)).or_insert_with(|| Box::leak(Box::default()))
    };
    let made = slot.get_or_init(|| match std::env::var("TIDEGATE_TEST_KAFKA") {
        Ok(bootstrap) if kind == Kind::Real && settings == Settings::default() => {
            Ok(Kafka { kind, bootstrap, running: Running::Elsewhere })
        }
        _ => Kafka::start(kind, settings),
    });
    match (made, kind) {
        (Ok(kafka), _) => Some(kafka),
        (Err(reason), Kind::Embedded) => panic!("the embedded broker does not start: {reason}"),
        (Err(reason), Kind::Real) => {
            unavailable("a Kafka broker", reason);
            None
        }
    }
}

impl Kafka {
    /// Starts a broker of one's own, gone when it is dropped.
    pub fn start(kind: Kind, settings: Settings) -> Result<Kafka, String> {
        match kind {
            Kind::Real => {
                let leash = Leash::new("tidegate-kafka-")?;
                let port = free_port();
                let command = real::prepare(leash.dir(), port, settings)?;
                Kafka::run(kind, leash, command, port)
            }
            Kind::Embedded => {
                let here = Embedded::start(settings)?;
                Ok(Kafka { kind, bootstrap: here.bootstrap(), running: Running::Here(Box::new(here)) })
            }
        }
    }

    /// Starts the embedded broker as a program: `tidegate broker`, of the binary named.
    pub fn start_program(tidegate: &Path) -> Result<Kafka, String> {
        let leash = Leash::new("tidegate-broker-")?;
        let port = free_port();
        let data = leash.dir().join("data");
        let mut command: Vec<OsString> = vec![tidegate.into(), "broker".into(), "--data".into(), data.into()];
        command.extend(["--port".into(), port.to_string().into()]);
        Kafka::run(Kind::Embedded, leash, command, port)
    }

    fn run(kind: Kind, mut leash: Leash, command: Vec<OsString>, port: u16) -> Result<Kafka, String> {
        leash.run(&command)?;
        let kafka =
            Kafka { kind, bootstrap: format!("127.0.0.1:{port}"), running: Running::Program { leash, command } };
        kafka.wait_until_ready()?;
        Ok(kafka)
    }

    /// Ends the broker at once (a program is killed), but keeps its data for [`Kafka::resume`].
    pub fn interrupt(&mut self) {
        match &mut self.running {
            Running::Elsewhere => {}
            Running::Program { leash, .. } => leash.kill(),
            Running::Here(embedded) => embedded.stop(),
        }
    }

    /// Lets a broker that is a program end in order, as by `kill`; its data stays for [`Kafka::resume`].
    pub fn stop(&mut self) -> Result<(), String> {
        if let Running::Program { leash, .. } = &mut self.running
            && let Some(pid) = leash.pid()
        {
            signal("TERM", pid)?;
            let gone = wait_for(Duration::from_secs(60), || is_over(pid).then_some(()));
            gone.ok_or_else(|| format!("the broker does not stop; its log:\n{}", self.log_tail()))?;
        }
        self.interrupt();
        Ok(())
    }

    /// Whose broker it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Starts an interrupted broker again, with its data and at its address.
    pub fn resume(&mut self) -> Result<(), String> {
        match &mut self.running {
            Running::Elsewhere => return Err("this broker was not started here".to_owned()),
            Running::Program { leash, command } => leash.run(command)?,
            Running::Here(embedded) => embedded.resume()?,
        }
        self.wait_until_ready()
    }

    /// `host:port` for clients.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The process id of a broker that is a program.
    pub fn pid(&self) -> Option<u32> {
        match &self.running {
            Running::Program { leash, .. } => leash.pid(),
            Running::Elsewhere | Running::Here(_) => None,
        }
    }

    /// What a broker that is a program wrote last.
    pub fn log_tail(&self) -> String {
        match &self.running {
            Running::Program { leash, .. } => leash.log_tail(),
            Running::Elsewhere | Running::Here(_) => String::new(),
        }
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let consumer: BaseConsumer = self.client().create().map_err(|e| e.to_string())?;
        let ready = wait_for(READY, || {
            let answer = consumer.fetch_metadata(None, Duration::from_secs(1)).ok()?;
            (!answer.brokers().is_empty()).then_some(())
        });
        let failed = || {
            format!("the broker at {} did not answer within {READY:?}; its log:\n{}", self.bootstrap, self.log_tail())
        };
        ready.ok_or_else(failed)
    }
}

/// Whether a process has ended, though its parent may not have asked how.
fn is_over(pid: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state comes after the name in brackets.
    status.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// Makes two tests of each function of a [`Kind`](crate::kafka::Kind): `real::name` and `embedded::name`.
/// `each_broker!(async a, b)` is for async functions and `tokio::test`.
#[macro_export]
macro_rules! each_broker {
    (async $($case:ident),+ $(,)?) => {
        $crate::each_broker! { @async real Real $($case)+ }
        $crate::each_broker! { @async embedded Embedded $($case)+ }
    };
    (@async $module:ident $kind:ident $($case:ident)+) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case($crate::kafka::Kind::$kind).await;
                }
            )+
        }
    };
    (@sync $module:ident $kind:ident $($case:ident)+) => {
        mod $module {
            $(
                #[test]
                fn $case() {
                    super::$case($crate::kafka::Kind::$kind);
                }
            )+
        }
    };
    ($($case:ident),+ $(,)?) => {
        $crate::each_broker! { @sync real Real $($case)+ }
        $crate::each_broker! { @sync embedded Embedded $($case)+ }
    };
}
