//! A proxy that looks into TLS, as companies run them: it takes `CONNECT`, shows a certificate of its own authority for whatever host is
//! asked for, and passes the plain request on to one upstream.
use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

pub struct Proxy {
    pub address: String,
    /// The authority's certificate: what the company put into its computers' stores.
    pub root: PathBuf,
    /// Hosts that were asked for.
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// For `host` alone; requests go to `upstream` (host:port).
    pub fn start(folder: &Path, host: &str, upstream: &str) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(rcgen::DnType::CommonName, "The Company");
        let key = KeyPair::generate().unwrap();
        let root = folder.join("company.pem");
        std::fs::write(&root, authority.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(authority, key);
        let shown_key = KeyPair::generate().unwrap();
        let shown = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&shown_key, &issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(shown_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![shown.der().clone()], key).unwrap());

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, upstream) = (asked.clone(), upstream.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, upstream, config) = (seen.clone(), upstream.clone(), config.clone());
                std::thread::spawn(move || tunnel(stream, &upstream, config, &seen));
            }
        });
        Self { address, root, asked }
    }
}

fn tunnel(stream: TcpStream, upstream: &str, config: Arc<ServerConfig>, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut plain = BufReader::new(stream);
    let mut line = String::new();
    plain.read_line(&mut line).ok()?;
    asked.lock().unwrap().push(line.strip_prefix("CONNECT ")?.split_whitespace().next()?.to_owned());
    while line != "\r\n" {
        line.clear();
        plain.read_line(&mut line).ok()?;
    }
    let mut stream = plain.into_inner();
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    let mut inside = BufReader::new(StreamOwned::new(ServerConnection::new(config).ok()?, stream));
    let (_, answer) = crate::line::exchange(&mut inside, upstream)?;
    let tls = inside.get_mut();
    tls.write_all(&answer).ok()?;
    tls.conn.send_close_notify();
    tls.flush().ok()
}
