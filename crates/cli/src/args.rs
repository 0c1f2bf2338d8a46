//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Flink's largest parallelism: the number of key groups there can be.
const PARALLELISM_MAX: i64 = 1 << 15;

/// Runs Apache Flink SQL scripts on event-time streams: one binary, no JVM.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, about, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 the job failed, 2 the script or the arguments are wrong; ended from outside: 130 \
                  Ctrl-C, 143 SIGTERM, 141 standard output closed."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// See what a watermark delay costs: a broker, clicks out of order, and the windows that count them
    Demo(DemoArgs),
    /// Run a script to its end; results on standard output, everything else on standard error
    Run(RunArgs),
    /// SQL client: statements typed at a prompt, from a file, or from standard input
    Sql(SqlArgs),
    /// Serve REST and run the jobs that are submitted to it
    Standalone(StandaloneArgs),
    /// Run a single-node Kafka-protocol broker, for development
    #[command(
        after_help = "It is for development and tests: one node, no TLS, no authentication. What it has acknowledged \
                      survives the end of the process, not a power failure. A script is pointed at a real cluster with \
                      'properties.bootstrap.servers' = 'host:port' in the table's WITH."
    )]
    Broker(BrokerArgs),
    /// Look at jobs of a standalone process, take savepoints of them, stop them
    Job {
        /// What to do with jobs.
        #[command(subcommand)]
        command: JobCommand,
    },
    /// Print a shell's completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command into a folder
    Man {
        /// The folder
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// `tidegate demo`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DemoArgs {
    /// Clicks per second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// How late the latest clicks come, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0, value_parser = disorder)]
    pub disorder: f64,
    /// Partitions of the topic
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub partitions: u16,
    /// End after so many seconds [default: when you press q or Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: Option<u32>,
    /// The same seed makes the same clicks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub stage: StageArgs,
    /// A log instead of the live view, as where no terminal is
    #[arg(long)]
    pub plain: bool,
    /// Only print the SQL script
    #[arg(long)]
    pub script: bool,
    /// What else to see.
    #[command(subcommand)]
    pub command: Option<DemoCommand>,
}

/// Where a demo plays.
#[derive(Debug, Args)]
pub struct StageArgs {
    /// Port of the REST API [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Use this Kafka and a new topic on it instead of the broker inside
    #[arg(long, value_name = "HOST:PORT")]
    pub bootstrap: Option<String>,
}

/// What else there is to see.
#[derive(Debug, Subcommand)]
pub enum DemoCommand {
    /// 41 clicks, one after the other: what each does to watermarks and windows, and why
    Lab {
        /// Without the pauses between the clicks
        #[arg(long)]
        fast: bool,
        #[command(flatten)]
        stage: StageArgs,
    },
}

fn disorder(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("it must be a number of seconds from 0 to 60".to_owned()),
    }
}

/// `tidegate run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The Flink SQL script
    pub file: PathBuf,
    #[command(flatten)]
    pub session: SessionArgs,
    /// Go on from a checkpoint or savepoint: its folder
    #[arg(short = 's', long, value_name = "PATH", alias = "fromSavepoint")]
    pub from_savepoint: Option<String>,
    /// Leave behind state that no operator of the script asks for
    #[arg(short = 'n', long, requires = "from_savepoint", alias = "allowNonRestoredState")]
    pub allow_non_restored_state: bool,
    /// Whose the snapshot is from then on: yours, and nothing deletes it (NO_CLAIM, the default); or the job's, which
    /// deletes it when its own checkpoints have replaced it (CLAIM)
    #[arg(long, value_name = "MODE", alias = "claimMode", value_parser = claim_mode, requires = "from_savepoint")]
    pub claim_mode: Option<&'static str>,
    /// Start nothing: print what each operator would get of the snapshot. The exit code is 1 if the job would be
    /// refused
    #[arg(long, conflicts_with = "endpoint")]
    pub dry_run: bool,
    /// Serve Flink's REST API on this port of 127.0.0.1 while the script runs
    #[arg(long, value_name = "PORT")]
    pub rest_port: Option<u16>,
    /// Submit the jobs to a standalone process instead of running them here
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
}

fn claim_mode(text: &str) -> Result<&'static str, String> {
    match text.to_ascii_uppercase().replace('-', "_").as_str() {
        "NO_CLAIM" => Ok("NO_CLAIM"),
        "CLAIM" => Ok("CLAIM"),
        "LEGACY" => Err("LEGACY is not supported: nobody would own the snapshot. Use NO_CLAIM or CLAIM".to_owned()),
        _ => Err("it must be NO_CLAIM or CLAIM".to_owned()),
    }
}

/// `tidegate sql`.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// Run the statements of this file instead of asking for some
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Set the session up with the statements of this file first: DDL, USE, SET, RESET
    #[arg(short = 'i', long = "init", value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// Keep typed statements in this file [default: tidegate/sql_history in the user's state folder]
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    #[command(flatten)]
    pub session: SessionArgs,
    /// Submit the jobs to a standalone process: http://127.0.0.1:8081
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
}

/// What `run` and `sql` share.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Setting as if by SET: -D parallelism.default=2
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Default parallelism of operators
    #[arg(short = 'p', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=PARALLELISM_MAX))]
    pub parallelism: Option<u16>,
    /// No progress and no notices on standard error
    #[arg(long, short = 'q')]
    pub quiet: bool,
}

/// `tidegate standalone`.
#[derive(Debug, Args)]
pub struct StandaloneArgs {
    /// Port of the REST API [default: rest.port, or 8081]
    #[arg(long)]
    pub port: Option<u16>,
    /// Address to listen on [default: rest.bind-address, or 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<String>,
    /// Setting as in a Flink configuration: -D jobstore.max-capacity=20; jobs have it too unless they SET it
    /// themselves
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Keep jobs and their checkpoints in this folder, and go on with them when started on it again
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// `tidegate broker`.
#[derive(Debug, Args)]
pub struct BrokerArgs {
    /// Folder of the logs [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 9092)]
    pub port: u16,
    /// IP address to listen on; on any but a loopback address everybody who reaches it can do everything
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Partitions of a topic that is made without a number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    pub partitions: i32,
    /// Refuse topics that do not exist instead of making them
    #[arg(long)]
    pub no_auto_create: bool,
    /// Highest transaction protocol that is offered: 2 is Kafka 4's, 1 that of clusters before it
    #[arg(long, value_name = "VERSION", default_value_t = 2, value_parser = clap::value_parser!(i16).range(1..=2))]
    pub transaction_version: i16,
}

/// `tidegate job`.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List the jobs
    List(Endpoint),
    /// Show one job: state, vertices, watermarks, checkpoints
    Describe(OneJob),
    /// Cancel one job where it is
    Cancel(OneJob),
    /// Show what a job's exactly-once sinks have published, what is pending, and what a restart published again
    Audit(OneJob),
    /// Stop one job with a savepoint, from which it can go on
    #[command(
        after_help = "Before a job is stopped to go on with a changed script, see whether the script fits its state: take \
                      a savepoint (`tidegate job savepoint JOB DIR`) or look for the latest checkpoint (`tidegate job \
                      checkpoints JOB`) while the job runs on, and try the script on it with `tidegate run --dry-run -s \
                      PATH NEW.sql`: it names every operator whose state is kept, new, dropped or refused, and starts \
                      nothing. If the savepoint fails, the job runs on."
    )]
    Stop(StopArgs),
    /// Take a savepoint of one job, which runs on
    Savepoint(SavepointArgs),
    /// Take a checkpoint of one job now
    #[command(
        after_help = "It is the job's own, like those it takes by itself: a failed job goes on from it, and the next one \
                      replaces it. What is to stay is a savepoint."
    )]
    Checkpoint(OneJob),
    /// Show the checkpoints of one job, where they are, and what made the last one slow
    Checkpoints(OneJob),
}

/// `tidegate job stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    pub of: OneJob,
    /// Let all windows fire first. The job is over then: do not go on from its savepoint with the same input
    #[arg(short = 'd', long)]
    pub drain: bool,
    /// Folder for the savepoint [default: execution.checkpointing.savepoint-dir of the job or of the process]
    #[arg(short = 'p', long, value_name = "DIR", alias = "savepointPath")]
    pub savepoint_dir: Option<String>,
}

/// `tidegate job savepoint`.
#[derive(Debug, Args)]
pub struct SavepointArgs {
    #[command(flatten)]
    pub of: OneJob,
    /// Folder for the savepoint [default: execution.checkpointing.savepoint-dir of the job or of the process]
    pub dir: Option<String>,
}

/// Where the standalone process is.
#[derive(Debug, Args)]
pub struct Endpoint {
    /// Its REST address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081")]
    pub endpoint: String,
}

/// One job of a standalone process.
#[derive(Debug, Args)]
pub struct OneJob {
    /// The job's id (the first digits are enough if they are unique)
    pub job: String,
    #[command(flatten)]
    pub at: Endpoint,
}
