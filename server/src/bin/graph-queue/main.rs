//! Serves the queue and hands out pairing codes. The only place here that reads the clock, draws randomness and opens a socket.
use std::{process::ExitCode, sync::Arc, time::SystemTime};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use domain::Timestamp;
use server::{App, Config, config};
use tokio::net::TcpListener;

#[derive(Parser)]
#[command(name = "graph-queue", version, about = "The queue between connected agents and the desktops that run Graphs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the queue.
    Serve(Serve),
    /// Print a one-time code that pairs a desktop with an owner (made if new).
    Pair(Pair),
}

#[derive(Args)]
struct Common {
    /// An SQLite file, or postgres://…
    #[arg(long, env = "GRAPH_QUEUE_DATABASE", default_value = "graph-queue.db")]
    database: String,
    /// The origin under which clients reach this queue, https://… without a path.
    #[arg(long, env = "GRAPH_QUEUE_PUBLIC_URL")]
    public_url: Option<String>,
    #[arg(long, env = "GRAPH_QUEUE_LISTEN", default_value = "127.0.0.1:8787")]
    listen: String,
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Pair {
    #[command(flatten)]
    common: Common,
    /// The owner's name.
    #[arg(long)]
    owner: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("graph-queue: {e:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve(it) => serve(it).await,
        Command::Pair(it) => pair(it).await,
    }
}

async fn open(common: &Common, public_url: String) -> anyhow::Result<App> {
    let config = Config::at(config::place(&common.database), public_url);
    App::open(config, Arc::new(now), Arc::new(fill)).await.with_context(|| format!("opening {}", database_name(&common.database)))
}

/// The database without the password that may be in its address.
fn database_name(database: &str) -> &str {
    database.rsplit_once('@').map_or(database, |(_, rest)| rest)
}

async fn serve(it: Serve) -> anyhow::Result<()> {
    let listener = TcpListener::bind(&it.common.listen).await.with_context(|| format!("listening on {}", it.common.listen))?;
    let address = listener.local_addr()?;
    let public_url = match &it.common.public_url {
        Some(url) => url.clone(),
        None if address.ip().is_loopback() => format!("http://{address}"),
        None => anyhow::bail!("a queue that others can reach needs --public-url https://…"),
    };
    let app = open(&it.common, public_url.clone()).await?;
    if !app.queue.has_owners().await? {
        let made = app.pair_code("owner").await?;
        eprintln!("First start. Pair a desktop within 10 minutes: address {public_url}, code {}", made.code);
    }
    println!("listening on http://{address}");
    app.serve(listener, terminated()).await?;
    app.close().await;
    Ok(())
}

async fn pair(it: Pair) -> anyhow::Result<()> {
    let url = it.common.public_url.clone().unwrap_or_else(|| format!("http://{}", it.common.listen));
    let app = open(&it.common, url.clone()).await?;
    let made = app.pair_code(&it.owner).await?;
    app.close().await;
    if it.json {
        println!("{}", serde_json::json!({"pairing_code": made.code, "expires_at": made.expires_at, "url": url}));
    } else {
        println!("Pairing code for {}: {}", it.owner, made.code);
        println!("Valid until {}, for one desktop. Address of this queue: {url}", made.expires_at);
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
