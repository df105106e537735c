//! `graph-deskd model …` and `graph-deskd mcp …`: what agents are made of.
//!
//! A secret need not stand on the command line, where other programs could read it: `--key-from VAR` and `--env VAR` take it from the
//! caller's own environment.
use clap::Subcommand;
use device::{
    desk::verbs::{McpAct, McpAdd, McpDo, ModelAdd, Named},
    view::McpWay,
};
use serde_json::{Value, json};

use crate::{Question, words};

#[derive(Subcommand)]
pub enum ModelCommand {
    /// Adds a provider of models, or changes the one of that name
    Add {
        /// Begins its models' names, as in name/model
        name: String,
        #[arg(long, value_parser = ["anthropic", "openai_compatible", "ollama"], default_value = "openai_compatible")]
        kind: String,
        /// [default: the kind's own]
        #[arg(long, default_value = "")]
        address: String,
        /// The environment variable that holds the key
        #[arg(long, value_name = "VAR")]
        key_from: Option<String>,
        /// A model's name; may be given several times [default: what the provider lists]
        #[arg(long)]
        model: Vec<String>,
        /// Its models have no tool calls of their own: they are led by a JSON Schema
        #[arg(long)]
        emulate_tools: bool,
        /// Ollama: tokens of context to ask for
        #[arg(long)]
        context: Option<u64>,
    },
    /// Lists providers, what the names stand for, and what answers on this computer
    List {
        #[arg(long)]
        json: bool,
    },
    /// Asks the usual ports of this computer for model servers
    Find {
        #[arg(long)]
        json: bool,
    },
    /// Lets one of the provider's models say a word
    Test { name: String },
    /// Chooses the model that default, fast, strong or local stands for
    Use { alias: String, model: String },
    /// Takes a provider and its key away
    Remove { name: String },
}

impl ModelCommand {
    pub fn question(self) -> Result<Question, String> {
        Ok(match self {
            Self::Add { name, kind, address, key_from, model, emulate_tools, context } => {
                let key = key_from.map(|variable| from_environment(&variable)).transpose()?;
                let add = ModelAdd { name, kind, address, key, models: model, emulated_tools: emulate_tools, context };
                Question::new("cli_model_add", add, words::models)
            }
            Self::List { json } => Question::new("models_get", json!({}), words::models).told_as_json(json),
            Self::Find { json } => Question::new("models_discover", json!({}), words::models).told_as_json(json),
            Self::Test { name } => Question::new("cli_model_test", Named { name }, words::tested).bad_if(|test| test["ok"] != true),
            Self::Use { alias, model } => Question::new("model_alias_set", json!({ "alias": alias, "model": model }), words::models),
            Self::Remove { name } => Question::new("cli_model_remove", Named { name }, words::models),
        }
        .with_secrets())
    }
}

#[derive(Subcommand)]
pub enum McpCommand {
    /// Adds an MCP server, or changes the one of that name, and starts it
    Add {
        /// Stands in its tools' names, as in mcp__name__tool
        name: String,
        /// Its address, for a server that is reached over HTTP
        #[arg(long, conflicts_with = "program")]
        url: Option<String>,
        /// An environment variable for it: NAME=VALUE, or NAME to take yours
        #[arg(long, value_name = "NAME[=VALUE]", conflicts_with = "url")]
        env: Vec<String>,
        /// A header for it: NAME=VALUE, or NAME=$VAR to take it from your environment
        #[arg(long, value_name = "NAME=VALUE", requires = "url")]
        header: Vec<String>,
        /// Seconds a call may take [default: 120]
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        timeout: u64,
        /// Its program and arguments, after --
        #[arg(last = true, required_unless_present = "url")]
        program: Vec<String>,
    },
    /// Lists the servers with their state and tools
    List {
        #[arg(long)]
        json: bool,
    },
    /// Ends a server, starts it and lists its tools again
    Restart { name: String },
    /// Switches a server on
    Enable { name: String },
    /// Switches a server off: its tools are gone until it is switched on
    Disable { name: String },
    /// Takes a server and its values away
    Remove { name: String },
}

impl McpCommand {
    pub fn question(self) -> Result<Question, String> {
        let act = |name: String, act: McpAct| Question::new("cli_mcp_do", McpDo { name, act }, words::mcp);
        Ok(match self {
            Self::Add { name, url, env, header, timeout, program } => {
                let mut program = program.into_iter();
                let (way, target) = match url {
                    Some(url) => (McpWay::Http, url),
                    None => (McpWay::Stdio, program.next().unwrap_or_default()),
                };
                let values = env.iter().map(|e| variable(e)).chain(header.iter().map(|h| header_value(h))).collect::<Result<_, _>>()?;
                let named = name.clone();
                let add = McpAdd { name, way, target, args: program.collect(), values, timeout_s: timeout };
                let failed = move |view: &Value| view["servers"].as_array().is_some_and(|all| all.iter().any(|s| s["name"] == *named && failed(s)));
                Question::new("cli_mcp_add", add, words::mcp).bad_if(failed)
            }
            Self::List { json } => Question::new("mcp_get", json!({}), words::mcp).told_as_json(json),
            Self::Restart { name } => act(name, McpAct::Restart),
            Self::Enable { name } => act(name, McpAct::Enable),
            Self::Disable { name } => act(name, McpAct::Disable),
            Self::Remove { name } => act(name, McpAct::Remove),
        }
        .with_secrets())
    }
}

fn failed(server: &Value) -> bool {
    server["state"]["at"] == "failed"
}

fn variable(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Ok((given.to_owned(), from_environment(given)?)),
    }
}

fn header_value(given: &str) -> Result<(String, String), String> {
    let (name, value) = given.split_once('=').ok_or_else(|| format!("{given} is not NAME=VALUE."))?;
    let value = match value.strip_prefix('$') {
        Some(variable) => from_environment(variable)?,
        None => value.to_owned(),
    };
    Ok((name.to_owned(), value))
}

fn from_environment(variable: &str) -> Result<String, String> {
    std::env::var(variable).map_err(|_| format!("The environment variable {variable} is not set."))
}
