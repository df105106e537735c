//! TLS by rustls: in front of our own socket, and towards PostgreSQL.
//!
//! Where a reverse proxy ends TLS, none of this is used.
use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_postgres::{
    config::SslMode,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect},
};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{0} cannot be read as PEM: {1}")]
    File(PathBuf, String),
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    #[error("this computer has no root certificates to check the database's certificate with; name a file with sslrootcert=")]
    NoRoots,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |e: rustls::pki_types::pem::Error| TlsError::File(path.to_owned(), e.to_string());
    let all: Vec<_> = CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)?;
    if all.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(all) }
}

/// A certificate and its key, read from files and read again when told so.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// PEM files; the certificate's holds its chain as well.
    pub fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let current = RwLock::new(Arc::new(read(&certificate, &key)?));
        Ok(Self { certificate, key, current })
    }

    /// New connections use what the files hold now. On an error everything stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        let new = Arc::new(read(&self.certificate, &self.key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    pub(crate) async fn accept(&self, socket: TcpStream) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        tokio_rustls::TlsAcceptor::from(current).accept(socket).await
    }
}

fn read(certificate: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| TlsError::File(key.to_owned(), e.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, secret)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The way to a PostgreSQL, as its address says: `sslmode=disable`, `prefer` (the default), `require` (encrypted, whoever answers) or
/// `verify-full` (certificate and name checked against `sslrootcert=FILE`, else this computer's roots; `verify-ca` is taken as the same).
pub(crate) fn postgres(url: &str) -> Result<(tokio_postgres::Config, Database), PostgresUrlError> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut rest, mut verify, mut roots) = (Vec::new(), false, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", "verify-full" | "verify-ca")) => verify = true,
            Some(("sslrootcert", file)) => roots = Some(PathBuf::from(percent_encoding::percent_decode_str(file).decode_utf8_lossy().into_owned())),
            Some(_) | None => rest.push(pair),
        }
    }
    let plain = if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
    let mut config: tokio_postgres::Config = plain.parse()?;
    if verify {
        config.ssl_mode(SslMode::Require);
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(TlsError::from)?;
    let client = if verify {
        builder.with_root_certificates(roots_of(roots.as_deref())?).with_no_client_auth()
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider()))).with_no_client_auth()
    };
    Ok((config, Database(Arc::new(client))))
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PostgresUrlError {
    #[error(transparent)]
    Address(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

fn roots_of(file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() { Err(TlsError::NoRoots) } else { Ok(roots) }
}

/// For `prefer` and `require`: whoever answers is believed, as PostgreSQL's own clients do. The handshake's signatures are checked.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        by: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, by, signed, &self.0.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        by: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, by, signed, &self.0.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Makes the encrypted connections to the database.
#[derive(Clone)]
pub(crate) struct Database(Arc<ClientConfig>);

/// One that is about to be made, to a host of this name.
pub(crate) struct ToHost(Arc<ClientConfig>, ServerName<'static>);

pub(crate) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Database {
    type Stream = Encrypted<S>;
    type TlsConnect = ToHost;
    type Error = InvalidDnsNameError;
    fn make_tls_connect(&mut self, host: &str) -> Result<ToHost, InvalidDnsNameError> {
        // Without TLS the name is not used, and a socket's folder is none.
        let name = if host.is_empty() || host.starts_with('/') { "localhost" } else { host };
        Ok(ToHost(self.0.clone(), ServerName::try_from(name)?.to_owned()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ToHost {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;
    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { tokio_rustls::TlsConnector::from(self.0).connect(self.1, stream).await.map(Encrypted) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
