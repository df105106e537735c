//! The control socket: how `graph-deskd` speaks to the program that holds the profile, window or not.
//!
//! A unix socket in the profile folder (mode 0600), JSON lines: first the key, then `{"command", "args"}` → `{"ok"}` or `{"error"}`. The key
//! lies beside the socket (mode 0600): a sandboxed tool may reach the socket but cannot read the app's own folder.
//! Invariant: nobody answers an agent's question through here.
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::Desk;
use crate::view::ErrorView;

const KEY_FILE: &str = "control.key";
const SOCKET_FILE: &str = "control.sock";
/// A request carries a Graph's source or a run's arguments at most.
const LINE_BYTES_MAX: usize = 4 * domain::limits::MIB;
/// The first line must come soon: a silent caller is cut.
const KEY_WITHIN: Duration = Duration::from_secs(5);
/// Paths of unix sockets are short on every system.
const SOCKET_PATH_BYTES_MAX: usize = 100;

#[derive(Serialize, Deserialize)]
struct Request {
    command: String,
    #[serde(default)]
    args: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Ok(Value),
    Error(Said),
}

/// An [`ErrorView`] as it travels.
#[derive(Serialize, Deserialize)]
struct Said {
    code: String,
    message: String,
    #[serde(default)]
    facts: BTreeMap<String, String>,
    field: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
}

/// Why the running program gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nothing runs, or nothing listens.
    #[error("nothing listens on {}", .0.display())]
    Nobody(PathBuf),
    #[error("the running program hung up: {0}")]
    Broken(#[source] io::Error),
    /// The command was refused, in words.
    #[error("{}", .0.message)]
    Refused(ErrorView),
}

/// Where the socket of a profile is: in its folder, or for long paths under a short name made from it.
fn socket_path(profile: &Path) -> PathBuf {
    let direct = profile.join(SOCKET_FILE);
    if direct.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return direct;
    }
    use sha2::Digest;
    let hash: String = sha2::Sha256::digest(profile.as_os_str().as_encoded_bytes()).iter().take(12).map(|b| format!("{b:02x}")).collect();
    std::env::temp_dir().join(format!("graph-desk-{hash}.sock"))
}

#[cfg(unix)]
mod unix {
    use std::{fs, os::unix::fs::PermissionsExt};

    use tokio::{
        io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
        net::{UnixListener, UnixStream},
    };

    use super::*;

    impl Desk {
        /// Listens until the desk shuts down. The profile's lock is held, so a socket that is there belongs to nobody.
        pub fn listen_control(self: &Arc<Self>) -> io::Result<()> {
            let profile = &self.config.profile;
            let mut bytes = [0; 32];
            bytes[..16].copy_from_slice(&self.config.random.bytes16());
            bytes[16..].copy_from_slice(&self.config.random.bytes16());
            let key: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            crate::secrets::write_private(&profile.join(KEY_FILE), key.as_bytes())?;
            let path = socket_path(profile);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            let (desk, closing) = (Arc::downgrade(self), self.closing.clone());
            tokio::spawn(async move {
                loop {
                    let accepted = tokio::select! {
                        accepted = listener.accept() => accepted,
                        () = closing.cancelled() => break,
                    };
                    let (Ok((stream, _)), Some(desk)) = (accepted, desk.upgrade()) else { continue };
                    let key = key.clone();
                    tokio::spawn(async move {
                        if let Err(e) = serve(&desk, stream, &key).await {
                            tracing::debug!("a control connection ended: {e}");
                        }
                    });
                }
                let _ = fs::remove_file(&path);
            });
            Ok(())
        }
    }

    async fn serve(desk: &Arc<Desk>, stream: UnixStream, key: &str) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader.take(LINE_BYTES_MAX as u64));
        let mut line = String::new();
        tokio::time::timeout(KEY_WITHIN, reader.read_line(&mut line)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        if !bool::from(line.trim_end().as_bytes().ct_eq(key.as_bytes())) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        loop {
            line.clear();
            reader.get_mut().set_limit(LINE_BYTES_MAX as u64);
            if reader.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let reply = match serde_json::from_str::<Request>(&line) {
                Ok(request) => desk.verb(&request.command, request.args).await,
                Err(e) => Err(super::super::error("bad_argument", format!("The request cannot be read: {e}."))),
            };
            let reply = match reply {
                Ok(value) => Reply::Ok(value),
                Err(ErrorView { code, message, facts, field, line, column }) => Reply::Error(Said { code, message, facts, field, line, column }),
            };
            let mut text = serde_json::to_vec(&reply)?;
            text.push(b'\n');
            writer.write_all(&text).await?;
        }
    }

    /// Asks the program that holds the profile.
    pub async fn ask_running(profile: &Path, command: &str, args: Value) -> Result<Value, ControlError> {
        let path = socket_path(profile);
        let key = fs::read_to_string(profile.join(KEY_FILE)).map_err(|_| ControlError::Nobody(path.clone()))?;
        let stream = UnixStream::connect(&path).await.map_err(|_| ControlError::Nobody(path.clone()))?;
        let (reader, mut writer) = stream.into_split();
        let request = serde_json::to_string(&Request { command: command.to_owned(), args }).map_err(|e| ControlError::Broken(e.into()))?;
        writer.write_all(format!("{key}\n{request}\n").as_bytes()).await.map_err(ControlError::Broken)?;
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).await.map_err(ControlError::Broken)?;
        match serde_json::from_str(&line).map_err(|e| ControlError::Broken(e.into()))? {
            Reply::Ok(value) => Ok(value),
            Reply::Error(Said { code, message, facts, field, line, column }) => {
                Err(ControlError::Refused(ErrorView { code, message, facts, field, line, column }))
            }
        }
    }
}

#[cfg(unix)]
pub use unix::ask_running;

#[cfg(not(unix))]
impl Desk {
    /// This system has no control socket: the command line works only while nothing else holds the profile.
    pub fn listen_control(self: &Arc<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// This system has no control socket.
#[cfg(not(unix))]
pub async fn ask_running(profile: &Path, _command: &str, _args: Value) -> Result<Value, ControlError> {
    Err(ControlError::Nobody(socket_path(profile)))
}
