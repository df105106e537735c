//! How an MCP server is reached: a process of its own with a short environment, or an address.
use std::{
    collections::{BTreeMap, HashMap},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess, streamable_http_client::StreamableHttpClientTransportConfig};
use tokio::io::AsyncReadExt;

use crate::Secret;

const STDERR_KEPT: usize = 2_000;
/// What a stdio server gets of our environment, beside what the owner set for it.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SystemRoot", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "TEMP"];

/// A server's process group. Dropping it ends the process and everything in its group.
pub(super) struct Group(#[cfg_attr(not(unix), allow(dead_code))] Option<i32>);
impl Group {
    /// Of a server that is not ours to end.
    pub(super) const fn none() -> Self {
        Self(None)
    }
}
impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL); // gone already is as good
        }
    }
}

/// Starts the program in a process group of its own; the last it says on stderr is kept in `said`.
pub(super) fn spawn(
    program: &str,
    args: &[String],
    env: &BTreeMap<String, Secret>,
    said: &Arc<Mutex<String>>,
) -> std::io::Result<(TokioChildProcess, Group)> {
    let mut command = tokio::process::Command::new(program);
    command.args(args).env_clear().kill_on_drop(true);
    command.envs(ENVIRONMENT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    command.envs(env.iter().map(|(name, value)| (name, value.reveal())));
    #[cfg(unix)]
    command.process_group(0);
    let (process, stderr) = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn()?;
    let group = Group(process.id().and_then(|id| i32::try_from(id).ok()));
    if let Some(mut stderr) = stderr {
        let said = Arc::clone(said);
        tokio::spawn(async move {
            let mut buffer = vec![0; 1024];
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.push_str(&String::from_utf8_lossy(&buffer[..read]));
                let too_much = said.len().saturating_sub(STDERR_KEPT);
                if let Some(cut) = (too_much..=said.len()).find(|at| said.is_char_boundary(*at)) {
                    said.drain(..cut);
                }
            }
        });
    }
    Ok((process, group))
}

/// Redirects are not followed: they would carry the headers and the conversation to a host the owner did not name.
pub(super) fn http(url: &str, headers: &BTreeMap<String, Secret>) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let parsed = url::Url::parse(url).map_err(|e| e.to_string())?;
    let mut builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).pool_max_idle_per_host(0);
    if matches!(parsed.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
        builder = builder.no_proxy();
    }
    let mut given = HashMap::new();
    for (name, value) in headers {
        let named = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name} is not the name of a header"))?;
        let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| format!("the value of the header {name} holds what a header cannot"))?;
        value.set_sensitive(true);
        given.insert(named, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(given);
    Ok(StreamableHttpClientTransport::with_client(builder.build().map_err(|e| e.to_string())?, config))
}
