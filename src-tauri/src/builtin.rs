//! The built-in queue: Graph Queue inside this process, on a loopback port that stays the same from start to start.
//!
//! For the desk it is a queue like any other, with an address and a pairing code. What is *not* here: anything of the queue itself.
//! Invariant: it listens on loopback only, and it runs no longer than the app.
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use device::desk::BuiltinQueue;
use device::ports::{BoxFuture, Clock, Random};
use server::{App, Config};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

/// Tried first, so that the line for Claude Code looks alike everywhere. Taken by another program: any free one, remembered.
const FIRST_CHOICE_PORT: u16 = 47_821;
const OWNER: &str = "Owner of this computer";

#[derive(Clone)]
pub struct Builtin(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    running: Mutex<Option<Running>>,
}

struct Running {
    app: App,
    address: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

#[derive(Debug, thiserror::Error)]
pub enum BuiltinError {
    #[error(
        "Port {0}, on which connected agents look for the built-in queue, is taken by another program ({1}). Close that program, then try again."
    )]
    PortTaken(u16, std::io::Error),
    #[error("The built-in queue's folder {0} cannot be written: {1}.")]
    Folder(PathBuf, std::io::Error),
    #[error("The built-in queue cannot listen on this computer: {0}.")]
    Listen(std::io::Error),
    #[error("The built-in queue cannot start: {0}.")]
    Open(#[from] server::OpenError),
    #[error("The built-in queue gave no pairing code: {0}.")]
    Pair(String),
}

impl Builtin {
    pub fn new(profile: &std::path::Path, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self(Arc::new(Inner { folder: profile.join("builtin-queue"), clock, random, running: Mutex::default() }))
    }

    /// Starts it if it does not run; its address.
    pub async fn run(&self) -> Result<String, BuiltinError> {
        let mut running = self.0.running.lock().await;
        if let Some(running) = running.as_ref() {
            return Ok(running.address.clone());
        }
        let started = self.0.start().await?;
        let address = started.address.clone();
        tracing::info!(address, "the built-in queue listens");
        *running = Some(started);
        Ok(address)
    }

    /// Answers what is held and writes what is not yet written.
    pub async fn stop(&self) {
        if let Some(running) = self.0.running.lock().await.take() {
            let _ = running.stop.send(()); // gone already: then it has stopped
            let _ = running.served.await;
            running.app.close().await;
        }
    }
}

impl Inner {
    async fn start(&self) -> Result<Running, BuiltinError> {
        std::fs::create_dir_all(&self.folder).map_err(|e| BuiltinError::Folder(self.folder.clone(), e))?;
        let listener = self.listen().await?;
        let address = format!("http://{}", listener.local_addr().map_err(BuiltinError::Listen)?);
        let (clock, random) = (self.clock.clone(), self.random.clone());
        let fill = move |out: &mut [u8]| {
            for chunk in out.chunks_mut(16) {
                chunk.copy_from_slice(&random.bytes16()[..chunk.len()]);
            }
        };
        let config = Config::sqlite(self.folder.join("queue.db"), address.clone());
        let app = App::open(config, Arc::new(move || clock.now()), Arc::new(fill)).await?;
        let (stop, stopped) = oneshot::channel();
        let serving = app.clone();
        let served = tokio::spawn(async move {
            let until = async move {
                let _ = stopped.await;
            };
            serving.serve(listener, until).await.inspect_err(|error| tracing::error!(%error, "the built-in queue ended"))
        });
        Ok(Running { app, address, stop, served })
    }

    /// The remembered port, or a new one that is remembered: agents have it in their settings.
    async fn listen(&self) -> Result<TcpListener, BuiltinError> {
        let at = |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let file = self.folder.join("port");
        if let Some(port) = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()) {
            return at(port).await.map_err(|e| BuiltinError::PortTaken(port, e));
        }
        let listener = match at(FIRST_CHOICE_PORT).await {
            Ok(listener) => listener,
            Err(_) => at(0).await.map_err(BuiltinError::Listen)?,
        };
        let port = listener.local_addr().map_err(BuiltinError::Listen)?.port();
        std::fs::write(&file, port.to_string()).map_err(|e| BuiltinError::Folder(file, e))?;
        Ok(listener)
    }
}

impl BuiltinQueue for Builtin {
    fn start(&self) -> BoxFuture<'static, Result<(String, String), String>> {
        let this = self.clone();
        Box::pin(async move {
            let address = this.run().await.map_err(|e| e.to_string())?;
            let app = this.0.running.lock().await.as_ref().map(|running| running.app.clone());
            let app = app.ok_or("The built-in queue was stopped.")?;
            let code = app.pair_code(OWNER).await.map_err(|e| BuiltinError::Pair(e.to_string()).to_string())?;
            Ok((address, code.code))
        })
    }
}

#[cfg(test)]
mod tests {
    use device::net::{OsRandom, SystemClock};

    use super::*;

    fn builtin(profile: &std::path::Path) -> Builtin {
        Builtin::new(profile, Arc::new(SystemClock), Arc::new(OsRandom))
    }

    #[tokio::test]
    async fn its_address_stays_the_same_from_start_to_start_and_it_gives_pairing_codes() {
        let profile = tempfile::tempdir().unwrap();
        let first = builtin(profile.path());
        let (address, code) = first.start().await.unwrap();
        assert!(address.starts_with("http://127.0.0.1:") && !code.is_empty());
        assert_eq!(first.run().await.unwrap(), address, "started once");
        first.stop().await;
        let second = builtin(profile.path());
        assert_eq!(second.run().await.unwrap(), address);
        second.stop().await;
    }

    #[tokio::test]
    async fn a_remembered_port_that_is_taken_is_said_in_words() {
        let profile = tempfile::tempdir().unwrap();
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = other.local_addr().unwrap().port();
        std::fs::create_dir(profile.path().join("builtin-queue")).unwrap();
        std::fs::write(profile.path().join("builtin-queue/port"), port.to_string()).unwrap();
        let said = builtin(profile.path()).start().await.unwrap_err();
        assert!(said.contains(&format!("Port {port}")) && said.contains("taken by another program"), "{said}");
    }
}
