//! Serves the queue and lets its operator look after it. The only place here that reads the clock, draws randomness and opens a socket.
mod admin;
mod out;
mod settings;

use std::{process::ExitCode, sync::Arc, time::SystemTime};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use domain::Timestamp;
use server::{App, tls::Tls, workers::Workers};
use tokio::net::TcpListener;

use out::tell;
use settings::Settings;

#[derive(Parser)]
#[command(name = "graph-queue", version, about = "The queue between connected agents and the desktops that run Graphs")]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the queue.
    Serve,
    /// Print a one-time code that pairs a desktop with an owner (made if new).
    Pair {
        /// The owner's name.
        #[arg(long)]
        owner: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the owners.
    Owner {
        #[command(subcommand)]
        what: admin::List,
    },
    /// List devices, or unpair one.
    Device {
        #[command(subcommand)]
        what: admin::ListOrRevoke,
    },
    /// List connected agents, or revoke one.
    Agent {
        #[command(subcommand)]
        what: admin::ListOrRevoke,
    },
    /// List OAuth clients, register one by hand, or remove one.
    Client {
        #[command(subcommand)]
        what: admin::Clients,
    },
    /// Copy the SQLite database, also while it is in use.
    Backup { file: std::path::PathBuf },
    /// Put a copy into the place of the SQLite database, while nobody uses that. What stood there is kept beside it.
    Restore { file: std::path::PathBuf },
    /// Bring the database's schema up to date.
    Migrate,
    /// Look for what is wrong and say what to do.
    Doctor,
    /// Print the settings in force.
    Config,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = cli.settings.with_file().and_then(|settings| {
        start_log(settings.log.as_deref());
        run(settings, cli.command)
    });
    match outcome {
        Ok(code) => code,
        Err(e) => {
            eprintln!("graph-queue: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Logs go to stderr; stdout belongs to answers.
fn start_log(format: Option<&str>) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info,rmcp=warn".into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if format == Some("json") {
        log.json().init();
    } else {
        log.init();
    }
}

// Requests have threads of their own.
#[tokio::main(flavor = "current_thread")]
async fn run(settings: Settings, command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve => serve(&settings).await?,
        Command::Pair { owner, json } => pair(&settings, &owner, json).await?,
        Command::Owner { what: admin::List::List } => admin::owners(&open(&settings).await?).await?,
        Command::Device { what } => admin::devices(&open(&settings).await?, what).await?,
        Command::Agent { what } => admin::agents(&open(&settings).await?, what).await?,
        Command::Client { what } => admin::clients(&open(&settings).await?, what).await?,
        Command::Backup { file } => {
            open(&settings).await?.queue.backup(&file)?;
            tell!("copied to {}", file.display())?;
        }
        Command::Restore { file } => admin::restore(&settings, &file).await?,
        Command::Migrate => {
            let app = open(&settings).await?;
            app.close().await;
            tell!("{} has schema {}", settings.database_name(), server::store::SCHEMA_VERSION)?;
        }
        Command::Doctor => return admin::doctor(&settings).await,
        Command::Config => tell!("{}", settings.effective()?.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the database for a short visit; a serving process may use it at the same time.
async fn open(settings: &Settings) -> anyhow::Result<App> {
    open_at(settings, settings.own_url()).await
}

async fn open_at(settings: &Settings, public_url: String) -> anyhow::Result<App> {
    let config = settings.config(public_url)?;
    App::open(config, Arc::new(now), Arc::new(fill)).await.with_context(|| format!("opening {}", settings.database_name()))
}

async fn serve(settings: &Settings) -> anyhow::Result<()> {
    raise_file_limit();
    share_heaps();
    let tls = settings.tls()?.map(Arc::new);
    let listener = TcpListener::bind(settings.listen()).await.with_context(|| format!("listening on {}", settings.listen()))?;
    let address = listener.local_addr()?;
    let public_url = settings.public_url(address)?;
    let app = open_at(settings, public_url.clone()).await?;
    for line in settings.effective()?.lines() {
        tracing::info!("setting {line}");
    }
    if !app.queue.has_owners().await? {
        let made = app.pair_code("owner").await?;
        eprintln!("First start. Pair a desktop within 10 minutes: address {public_url}, code {}", made.code);
    }
    tell!("listening on {}://{address}", settings.scheme())?;
    let reloading = tls.clone().map(|tls| tokio::spawn(reload_when_told(tls)));
    let workers = Workers::start().context("starting the threads that answer requests; raise the limit of threads or open files")?;
    app.serve_on(&workers, listener, tls, terminated()).await?;
    if let Some(reloading) = reloading {
        reloading.abort();
    }
    app.close().await;
    Ok(())
}

/// A renewed certificate is taken without a restart. A broken one is said in the log, and the old one goes on.
async fn reload_when_told(tls: Arc<Tls>) {
    #[cfg(unix)]
    {
        let Ok(mut told) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) else { return };
        while told.recv().await.is_some() {
            match tls.reload() {
                Ok(()) => tracing::info!("certificate and key were read again"),
                Err(e) => tracing::error!(error = %e, "the certificate stays as it was"),
            }
        }
    }
    #[cfg(not(unix))]
    drop(tls);
}

async fn pair(settings: &Settings, owner: &str, json: bool) -> anyhow::Result<()> {
    let app = open(settings).await?;
    let made = app.pair_code(owner).await?;
    app.close().await;
    let url = &app.config.public_url;
    if json {
        tell!("{}", serde_json::json!({"pairing_code": made.code, "expires_at": made.expires_at, "url": url}))?;
    } else {
        tell!("Pairing code for {owner}: {}", made.code)?;
        tell!("Valid until {}, for one desktop. Address of this queue: {url}", made.expires_at)?;
    }
    Ok(())
}

async fn terminated() {
    let ctrl_c = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let term = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let term = std::future::pending::<()>();
    tokio::select! { () = ctrl_c => {}, () = term => {} }
    tracing::info!("going away: what is held is answered, what has begun is finished");
}

/// Every held doorbell is an open file; the usual soft limit of 1,024 would be the first to be reached.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        if let Err(e) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
            tracing::warn!(error = %e, "the limit of open files could not be raised");
        }
    }
}

/// No more heaps than threads can be at work. Else glibc gives one to each thread that a commit has woken, and each keeps what its own
/// busiest moment took: a fifth of the memory under load.
fn share_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        #[allow(unsafe_code)]
        // SAFETY: sets a number inside the C library, before there is a second thread.
        let taken = unsafe { libc::mallopt(libc::M_ARENA_MAX, i32::try_from(cores).unwrap_or(i32::MAX)) };
        if taken == 0 {
            tracing::debug!("the C library keeps as many heaps as it likes");
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Without randomness no token is safe, so there is nothing to go on with.
fn fill(out: &mut [u8]) {
    if getrandom::fill(out).is_err() {
        eprintln!("graph-queue: the operating system gives no randomness");
        std::process::abort();
    }
}
