//! Lists, revocations and the doctor.
use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use domain::{AgentId, DeviceId, Timestamp};
use server::{
    App, config,
    store::{self, Place},
};

use crate::{out::tell, settings::Settings};

#[derive(Subcommand)]
pub enum List {
    List,
}

#[derive(Subcommand)]
pub enum ListOrRevoke {
    List,
    /// End its access at once.
    Revoke {
        id: String,
    },
}

#[derive(Subcommand)]
pub enum Clients {
    List,
    /// For clients that a person gives an id and secret to, instead of registering themselves.
    Add {
        #[arg(long)]
        name: String,
        /// Where it may send its owner back to (repeatable): https, or http to this computer.
        #[arg(long = "redirect", required = true)]
        redirects: Vec<String>,
        /// `none`, `client_secret_post` or `client_secret_basic`.
        #[arg(long, default_value = "client_secret_post")]
        auth_method: String,
    },
    Remove {
        id: String,
    },
}

fn when(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "never".into(), |at| at.to_string())
}

pub async fn owners(app: &App) -> anyhow::Result<()> {
    for row in app.queue.all_owners().await? {
        tell!("{}  {}  {} devices, {} agents", row.id, row.name, row.devices, row.agents)?;
    }
    Ok(())
}

pub async fn devices(app: &App, what: ListOrRevoke) -> anyhow::Result<()> {
    match what {
        ListOrRevoke::List => {
            for row in app.queue.all_devices().await? {
                let state = if row.unpaired { "unpaired" } else { "paired" };
                tell!("{}  {}  {}  {state}, last contact {}", row.device.id, row.owner, row.name, when(row.last_contact_at))?;
            }
        }
        ListOrRevoke::Revoke { id } => {
            ensure!(app.queue.unpair_by_id(DeviceId::parse(&id)?).await?, "there is no device {id}");
            tell!("unpaired {id}")?;
        }
    }
    Ok(())
}

pub async fn agents(app: &App, what: ListOrRevoke) -> anyhow::Result<()> {
    match what {
        ListOrRevoke::List => {
            for row in app.queue.all_agents().await? {
                let state = if row.revoked { "revoked" } else { "connected" };
                tell!("{}  {}  {}  {} {state}, last used {}", row.id, row.owner_name, row.name, row.kind, when(row.last_used_at))?;
            }
        }
        ListOrRevoke::Revoke { id } => {
            ensure!(app.queue.revoke_by_id(AgentId::parse(&id)?).await?, "there is no connected agent {id}");
            tell!("revoked {id}")?;
        }
    }
    Ok(())
}

pub async fn clients(app: &App, what: Clients) -> anyhow::Result<()> {
    match what {
        Clients::List => {
            for (client, created_at) in app.queue.all_clients().await? {
                let secret = if client.secret_hash.is_some() { "with a secret" } else { "public" };
                tell!("{}  {}  {secret}, since {created_at}, to {}", client.client_id, client.client_name, client.redirect_uris.join(" "))?;
            }
        }
        Clients::Add { name, redirects, auth_method } => {
            let (client, secret) = app.add_client(name, redirects, &auth_method).await?;
            tell!("client id: {}", client.client_id)?;
            if let Some(secret) = secret {
                tell!("client secret, shown only now: {secret}")?;
            }
        }
        Clients::Remove { id } => {
            ensure!(app.queue.remove_client(&id).await?, "there is no client {id}");
            tell!("removed {id}; its agents keep their access for an hour at most (agent revoke ends it at once)")?;
        }
    }
    Ok(())
}

/// The copy in place, brought up to date, and what an operator should know of it.
pub async fn restore(settings: &Settings, file: &Path) -> anyhow::Result<()> {
    let Place::Sqlite { path, .. } = config::place(settings.database()) else { bail!("PostgreSQL is restored by its own tools (pg_restore)") };
    let aside = path.with_extension(format!("replaced-{}.db", crate::now().ms()));
    let had_one = path.exists();
    store::restore(file, &path, &aside).with_context(|| format!("restoring {}", file.display()))?;
    let app = crate::open(settings).await?;
    let newest = app.queue.newest().await?;
    app.close().await;
    tell!("restored {}; its newest command was queued {}", path.display(), when(newest))?;
    if had_one {
        tell!("what stood there is kept as {}", aside.display())?;
    }
    tell!("Agents and devices that were revoked after the copy was made are connected again: look at agent list and device list.")?;
    Ok(())
}

/// One line per finding; fails if any of them needs doing something.
pub async fn doctor(settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut healthy = true;
    let mut say = |ok: bool, text: String| {
        healthy &= ok;
        tell!("{} {text}", if ok { "ok     " } else { "problem" })
    };
    match crate::open(settings).await {
        Err(e) => say(false, format!("the database {} cannot be opened: {e:#}", settings.database_name()))?,
        Ok(app) => {
            say(true, format!("the database {} opens and has schema {}", settings.database_name(), server::store::SCHEMA_VERSION))?;
            let health = app.queue.integrity().await?;
            say(health == "ok", format!("its own check says: {health}"))?;
            let owners = app.queue.all_owners().await?;
            let hint = if owners.is_empty() { "; make one with: graph-queue pair --owner NAME" } else { "" };
            say(true, format!("{} owners, {} devices{hint}", owners.len(), owners.iter().map(|o| o.devices).sum::<i64>()))?;
            let (queued, running, oldest) = app.queue.depth().await?;
            say(true, format!("{queued} queued (the oldest for {oldest} s), {running} running"))?;
            app.close().await;
        }
    }
    let url = settings.own_url();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).build()?;
    match client.get(format!("{url}/readyz")).send().await {
        Ok(reply) if reply.status().is_success() => say(true, format!("{url} answers"))?,
        Ok(reply) => say(false, format!("{url} answers {} at /readyz: is it this queue?", reply.status()))?,
        Err(e) => say(false, format!("{url} does not answer ({}): start it with graph-queue serve, or check proxy and name", e.without_url()))?,
    }
    match client.get(format!("{url}/.well-known/oauth-protected-resource/mcp")).send().await {
        Ok(reply) if reply.status().is_success() => {
            let named = reply.json::<serde_json::Value>().await.ok().and_then(|v| v["resource"].as_str().map(str::to_owned)).unwrap_or_default();
            say(named == format!("{url}/mcp"), format!("it names itself {named}; clients compare that with the address they were given"))?;
        }
        Ok(_) | Err(_) => {}
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
