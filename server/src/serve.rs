//! Sockets: accepting, time limits against slow clients, and a clean end.
//!
//! HTTP/1.1 only, in TLS where there is a certificate: a reverse proxy in front brings the rest. A client that sends nothing, or a header byte now and then, is closed after
//! [`HEADER_TIMEOUT`]; slow bodies are the business of [`crate::body`].
use std::{future::Future, net::IpAddr, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{tls::Tls, workers::Workers};

/// A TLS handshake must be over within this time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A request's head must be whole within this time; an idle connection is closed after it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// What has begun may take this long after the shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Who is at the other end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Serves until `shutdown`. Then nothing new is accepted, held requests are answered at once, and what has begun is finished.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    workers: &Workers,
    router: Router,
    connections_max: usize,
    draining: CancellationToken,
    shutdown: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(connections_max));
    let graceful = GracefulShutdown::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await.map_err(std::io::Error::other)?;
            let (socket, peer) = listener.accept().await?;
            // Free of this runtime: the one that attends to it takes it in.
            Ok::<_, std::io::Error>((place, socket.into_std()?, peer))
        };
        let (place, socket, peer) = tokio::select! { biased;
            () = &mut shutdown => break,
            accepted = accepted => match accepted {
                Ok(accepted) => accepted,
                Err(e) => {
                    // Out of file descriptors, most likely: the next one may have a place again.
                    tracing::warn!(error = %e, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (watcher, router, tls) = (graceful.watcher(), router.clone(), tls.clone());
        workers.next().spawn(async move {
            match TcpStream::from_std(socket) {
                Ok(socket) => attend(socket, peer.ip(), tls, router, watcher).await,
                Err(e) => tracing::warn!(error = %e, "a connection could not be taken in"),
            }
            drop(place);
        });
    }
    drop(listener);
    draining.cancel();
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were cut: they had not ended {} s after the shutdown", DRAIN_TIMEOUT.as_secs());
    }
    Ok(())
}

/// One connection from its first byte to its last.
async fn attend(socket: TcpStream, peer: IpAddr, tls: Option<Arc<Tls>>, router: Router, watcher: Watcher) {
    if let Err(e) = socket.set_nodelay(true) {
        tracing::debug!(error = %e, "TCP_NODELAY could not be set");
    }
    let ended = match tls {
        None => watcher.watch(connection(socket, peer, router)).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)).await {
            Ok(Ok(stream)) => watcher.watch(connection(stream, peer, router)).await,
            Ok(Err(e)) => return tracing::debug!(error = %e, "a TLS handshake failed"),
            Err(_) => return tracing::debug!("a TLS handshake took too long"),
        },
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection ended early");
    }
}

fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: IpAddr,
    router: Router,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error, Output = Result<(), hyper::Error>> + Send + 'static {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request)
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
}
