//! Graph Desk without a window: the whole desktop for scripts and for machines without a display.
//!
//! A command works on the profile directly when nothing holds it, else through the control socket of the program that does (`graph-deskd
//! serve` or Graph Desk). Answers go to stdout, words about trouble to stderr. Without a window an agent's question is denied at once.
#[path = "graph-deskd/sources.rs"]
mod sources;
#[path = "graph-deskd/words.rs"]
mod words;

use std::{io::Write, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use agent::approvals::Attendance;
use clap::{Parser, Subcommand};
use device::{
    desk::{ControlError, Desk, OpenError, ask_running, verbs},
    real,
    secrets::SecretKind,
    store::StoreError,
    view::{ErrorView, Ruling},
};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Parser)]
#[command(name = "graph-deskd", version, about = "Graph Desk without a window: pairs with a Graph Queue, shares Graphs, runs commands.")]
struct Cli {
    /// The profile folder [default: the platform's data folder]
    #[arg(long, global = true, env = "GRAPH_DESK_PROFILE", value_name = "DIR")]
    profile: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Pairs this computer with a Graph Queue
    Pair {
        /// Its address, like https://queue.example or http://127.0.0.1:8787
        address: String,
        /// The code that `graph-queue pair` printed
        code: String,
    },
    /// Imports a Graph from a file. Import never shares
    Import {
        /// A .graph.js file
        file: PathBuf,
        /// Sets it to ready, if its source has no faults
        #[arg(long)]
        ready: bool,
        /// Its slug [default: made from its name]
        #[arg(long)]
        slug: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Shares a ready Graph with a project, and switches the project on
    Share {
        slug: String,
        /// The project's name; it is made if there is none
        #[arg(long)]
        project: String,
    },
    /// Takes a Graph back from a project, or from all
    Unshare {
        slug: String,
        #[arg(long)]
        project: Option<String>,
    },
    /// Lets a project's Graphs be read in the browser: uploads name and code of the ones shared with it
    Readable {
        project: String,
        /// Takes them back: Graph Queue deletes them
        #[arg(long)]
        off: bool,
    },
    /// Prints a one-time code that signs a browser in to your page at Graph Queue
    SignIn {
        #[arg(long)]
        json: bool,
    },
    /// Allows a tool, by a rule
    Allow(RuleArgs),
    /// Denies a tool, by a rule
    Deny(RuleArgs),
    /// Folders that tools may see
    Folder {
        #[command(subcommand)]
        command: FolderCommand,
    },
    /// Models that agents may call
    Model {
        #[command(subcommand)]
        command: sources::ModelCommand,
    },
    /// MCP servers whose tools agents may use
    Mcp {
        #[command(subcommand)]
        command: sources::McpCommand,
    },
    /// Mints a token for a client that cannot do OAuth; it is shown once
    AgentToken {
        /// What the agent is called in your list
        name: String,
        #[arg(long, required = true)]
        project: Vec<String>,
        /// It may look, but start and cancel nothing
        #[arg(long)]
        read_only: bool,
        #[arg(long)]
        json: bool,
    },
    /// Runs a Graph now and prints its result
    Run {
        slug: String,
        /// The arguments as JSON
        #[arg(long, default_value = "{}")]
        args: String,
        #[arg(long)]
        json: bool,
    },
    /// Lists the last runs
    Runs {
        #[arg(long)]
        json: bool,
    },
    /// Shows one run in full
    Show {
        execution: String,
        #[arg(long)]
        json: bool,
    },
    /// Says what the desktop does
    Status {
        #[arg(long)]
        json: bool,
    },
    /// Takes no commands until `resume`; they stay queued
    Pause,
    /// Takes commands again
    Resume,
    /// Asks each hop between this computer and a result
    Doctor {
        #[arg(long)]
        json: bool,
    },
    /// Takes commands and runs them until it is stopped
    Serve,
}

#[derive(clap::Args)]
struct RuleArgs {
    /// The tool's name, like write_file
    tool: String,
    /// Only in and under this folder (file tools)
    #[arg(long, value_name = "FOLDER", conflicts_with = "pattern")]
    under: Option<PathBuf>,
    /// Only this host (http_fetch), or a command that starts with these words as a JSON list (run_command)
    #[arg(long)]
    pattern: Option<String>,
    /// Only in the present version of this Graph
    #[arg(long, value_name = "SLUG")]
    graph: Option<String>,
    /// Only for commands of this project
    #[arg(long, conflicts_with = "graph")]
    project: Option<String>,
}

#[derive(Subcommand)]
enum FolderCommand {
    /// Lets tools see a folder
    Add {
        path: PathBuf,
        /// They may change files in it too
        #[arg(long)]
        write: bool,
    },
    /// Takes a folder back
    Remove { path: PathBuf },
}

/// What the desktop is asked, and how the answer is told.
struct Question {
    verb: &'static str,
    args: Value,
    /// The queue or a model may be needed: the secrets are opened first.
    needs_secrets: bool,
    tell: fn(&Value) -> String,
    as_json: bool,
    /// Whether an answer means that the command failed.
    is_bad: Box<dyn Fn(&Value) -> bool>,
}

impl Question {
    fn new(verb: &'static str, args: impl Serialize, tell: fn(&Value) -> String) -> Self {
        Self { verb, args: serde_json::to_value(args).unwrap_or_default(), needs_secrets: false, tell, as_json: false, is_bad: Box::new(|_| false) }
    }
    fn with_secrets(self) -> Self {
        Self { needs_secrets: true, ..self }
    }
    fn told_as_json(self, as_json: bool) -> Self {
        Self { as_json, ..self }
    }
    fn bad_if(self, is_bad: impl Fn(&Value) -> bool + 'static) -> Self {
        Self { is_bad: Box::new(is_bad), ..self }
    }
}

fn main() -> ExitCode {
    if let Some(code) = real::sandbox_helper() {
        return code;
    }
    let cli = Cli::parse();
    let level = if matches!(cli.command, Command::Serve) { "info" } else { "error" };
    let filter = tracing_subscriber::EnvFilter::new(real::log_filter(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return fail(&format!("The program cannot start: {e}.")),
    };
    let done = runtime.block_on(run(cli));
    // Whatever still blocks (a keyring dialogue nobody answers) must not hold the exit.
    runtime.shutdown_timeout(Duration::from_millis(500));
    match done {
        Ok(code) => code,
        Err(words) => fail(&words),
    }
}

fn fail(words: &str) -> ExitCode {
    eprintln!("{words}");
    ExitCode::FAILURE
}

async fn run(cli: Cli) -> Result<ExitCode, String> {
    let profile = real::profile_folder(cli.profile).map_err(sentence)?;
    let question = match question(cli.command)? {
        Some(question) => question,
        None => return serve(&profile).await,
    };
    let answer = ask(&profile, &question).await?;
    let text = if question.as_json { serde_json::to_string(&answer).unwrap_or_default() } else { (question.tell)(&answer) };
    let mut out = std::io::stdout();
    // A reader that closed its end early has what it wanted.
    let _ = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
    Ok(if (question.is_bad)(&answer) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn all_ok(report: &Value) -> bool {
    report["hops"].as_array().is_some_and(|hops| hops.iter().all(|hop| hop["ok"] == true))
}

/// The question behind a command; `None` for `serve`.
fn question(command: Command) -> Result<Option<Question>, String> {
    let rule = |args: RuleArgs, ruling: Ruling| {
        let under = args.under.map(absolute).transpose()?;
        let pattern = under.or(args.pattern);
        let allow = verbs::Allow { tool: args.tool, ruling, pattern, graph: args.graph, project: args.project };
        Ok::<_, String>(Question::new("cli_allow", allow, words::rule))
    };
    Ok(Some(match command {
        Command::Serve => return Ok(None),
        Command::Pair { address, code } => Question::new("pair", json!({ "address": address, "pairing_code": code }), words::paired).with_secrets(),
        Command::Import { file, ready, slug, json } => {
            let source = std::fs::read_to_string(&file).map_err(|e| format!("{} cannot be read: {e}.", file.display()))?;
            let file_name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            Question::new("cli_import", verbs::Import { file_name, source, ready, slug }, words::imported).told_as_json(json)
        }
        Command::Share { slug, project } => Question::new("cli_share", verbs::Share { slug, project: Some(project) }, words::shared).with_secrets(),
        Command::Unshare { slug, project } => Question::new("cli_unshare", verbs::Share { slug, project }, words::unshared),
        Command::Readable { project, off } => Question::new("cli_readable", verbs::Readable { project, readable: !off }, words::readable),
        Command::SignIn { json } => Question::new("sign_in_code_make", json!({}), words::sign_in).with_secrets().told_as_json(json),
        Command::Allow(args) => rule(args, Ruling::Allow)?,
        Command::Deny(args) => rule(args, Ruling::Deny)?,
        Command::Folder { command: FolderCommand::Add { path, write } } => {
            Question::new("cli_folder_add", verbs::Folder { path: absolute(path)?, write }, words::folders)
        }
        Command::Folder { command: FolderCommand::Remove { path } } => {
            Question::new("folder_remove", json!({ "path": absolute(path)? }), words::folders)
        }
        Command::Model { command } => command.question()?,
        Command::Mcp { command } => command.question()?,
        Command::AgentToken { name, project, read_only, json } => {
            let token = verbs::AgentToken { name, projects: project, read_only };
            Question::new("cli_agent_token", token, words::token).with_secrets().told_as_json(json)
        }
        Command::Run { slug, args, json } => Question::new("cli_run", verbs::Run { slug, args }, words::ran)
            .bad_if(|ran| ran["state"] != "completed")
            .with_secrets()
            .told_as_json(json),
        Command::Runs { json } => Question::new("cli_runs", json!({}), words::runs).told_as_json(json),
        Command::Show { execution, json } => {
            Question::new("execution_open", json!({ "execution_id": execution }), words::execution).told_as_json(json)
        }
        Command::Status { json } => Question::new("status_get", json!({}), words::status).told_as_json(json),
        Command::Pause => Question::new("cli_pause", json!({}), |_| "Paused. Commands stay queued until graph-deskd resume.".into()),
        Command::Resume => Question::new("cli_resume", json!({}), |_| "Commands are taken again.".into()),
        Command::Doctor { json } => {
            Question::new("doctor_run", json!({}), words::doctor).bad_if(|report| !all_ok(report)).with_secrets().told_as_json(json)
        }
    }))
}

/// Paths are the caller's, the program that answers has another working folder.
fn absolute(path: PathBuf) -> Result<String, String> {
    let path = std::path::absolute(&path).map_err(|e| format!("{} is not a path: {e}.", path.display()))?;
    path.into_os_string().into_string().map_err(|p| format!("{} holds characters that are not Unicode.", p.display()))
}

/// Asks the program that holds the profile, or, where none does, opens it for this one question.
async fn ask(profile: &std::path::Path, question: &Question) -> Result<Value, String> {
    // Another short command may hold the profile for a moment, or a program that is just starting.
    const TRIES: u32 = 50;
    for attempt in 1.. {
        match ask_running(profile, question.verb, question.args.clone()).await {
            Ok(value) => return Ok(value),
            Err(ControlError::Refused(refused)) => return Err(told(&refused)),
            Err(e @ ControlError::Broken(_)) => return Err(sentence(e)),
            Err(ControlError::Nobody(_)) => {}
        }
        let config = real::desk_config(profile, Attendance::None).map_err(sentence)?;
        match Desk::open(config) {
            Ok(desk) => return ask_directly(&desk, question).await,
            Err(OpenError::Store(StoreError::InUse(_))) if attempt < TRIES => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(e) => return Err(sentence(e)),
        }
    }
    Err("The profile is in use.".into())
}

async fn ask_directly(desk: &Arc<Desk>, question: &Question) -> Result<Value, String> {
    if question.needs_secrets {
        desk.open_secrets().await.map_err(|e| told(&e))?;
        if question.verb == "pair" && desk.config().secrets.kind() == SecretKind::Memory {
            // The token would be gone with this very process.
            return Err(format!("Not paired: the device token could not be kept. {}", desk.config().secrets.text()));
        }
    }
    let asked = desk.verb(question.verb, question.args.clone());
    let answer = tokio::select! {
        answer = asked => answer,
        () = stop_signal() => {
            desk.shutdown("interrupted").await;
            return Err("Interrupted. What ran has ended as failed (owner_quit).".into());
        }
    };
    desk.stop_mcp_servers().await;
    answer.map_err(|e| told(&e))
}

async fn serve(profile: &std::path::Path) -> Result<ExitCode, String> {
    if let Ok(point) = std::env::var(device::crash::VARIABLE) {
        device::crash::arm(&point)?;
    }
    let config = real::desk_config(profile, Attendance::None).map_err(sentence)?;
    let desk = open_for_serving(config).await?;
    desk.listen_control().map_err(|e| format!("The control socket cannot be opened: {e}."))?;
    desk.start().await.map_err(|e| told(&e))?;
    let mut out = std::io::stdout();
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
    stop_signal().await;
    desk.shutdown("asked to stop").await;
    Ok(ExitCode::SUCCESS)
}

/// A short command of the owner's may hold the profile for a moment.
async fn open_for_serving(config: device::desk::DeskConfig) -> Result<Arc<Desk>, String> {
    const TRIES: u32 = 50;
    for attempt in 1.. {
        match Desk::open(config.clone()) {
            Ok(desk) => return Ok(desk),
            Err(OpenError::Store(StoreError::InUse(_))) if attempt < TRIES => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(e) => return Err(sentence(e)),
        }
    }
    Err("The profile is in use.".into())
}

/// Ends when this process is asked to stop.
async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn told(e: &ErrorView) -> String {
    e.message.clone()
}

fn sentence(e: impl std::fmt::Display) -> String {
    let text = e.to_string();
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let rest = chars.as_str().trim_end_matches('.');
    format!("{first}{rest}.")
}
