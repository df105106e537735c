//! TLS with real clients: our own socket with a certificate that is renewed, and an encrypted way to PostgreSQL.
use std::{path::Path, process::Command, time::Duration};

use server::store::{Place, Store};

use crate::{cluster::Cluster, program::Program};

/// A self-signed certificate for `localhost`, as `NAME.pem` and `NAME.key`.
fn certificate(dir: &Path, name: &str) {
    let made = Command::new("openssl")
        .current_dir(dir)
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj"])
        .args([&format!("/CN={name}"), "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A client that believes only this certificate.
fn trusting(dir: &Path, name: &str) -> reqwest::Client {
    let pem = std::fs::read(dir.join(format!("{name}.pem"))).unwrap();
    let builder = reqwest::Client::builder().tls_certs_only([reqwest::Certificate::from_pem(&pem).unwrap()]).no_proxy();
    builder.timeout(Duration::from_secs(20)).build().unwrap()
}

fn put(dir: &Path, name: &str) {
    std::fs::copy(dir.join(format!("{name}.pem")), dir.join("served.pem")).unwrap();
    std::fs::copy(dir.join(format!("{name}.key")), dir.join("served.key")).unwrap();
}

/// Tells the program to read its certificate again, and waits for what it says of that.
async fn hang_up(dir: &Path, program: &Program, says: &str) {
    let count = || std::fs::read_to_string(dir.join("log")).unwrap().matches(says).count();
    let before = count();
    assert!(Command::new("kill").args(["-HUP", &program.child.id().to_string()]).status().unwrap().success());
    let said = async {
        while count() == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), said).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_served_and_a_renewed_one_is_taken_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    certificate(dir, "first");
    certificate(dir, "second");
    put(dir, "first");
    let program = Program::start(dir, &["--tls-cert", "served.pem", "--tls-key", "served.key"]);
    let port = program.address.rsplit_once(':').unwrap().1;
    let url = format!("https://localhost:{port}/.well-known/oauth-protected-resource/mcp");
    let metadata: serde_json::Value = trusting(dir, "first").get(&url).send().await.unwrap().json().await.unwrap();
    assert_eq!(metadata["resource"], format!("https://{}/mcp", program.address), "it names itself https");
    assert!(trusting(dir, "second").get(&url).send().await.is_err(), "another certificate is not believed");
    assert!(program.try_ask("GET", "/healthz", "", "").is_err(), "there is nothing without TLS");

    std::fs::write(dir.join("served.key"), "no key").unwrap();
    hang_up(dir, &program, "the certificate stays as it was").await;
    assert!(trusting(dir, "first").get(&url).send().await.unwrap().status().is_success());
    put(dir, "second");
    hang_up(dir, &program, "certificate and key were read again").await;
    assert!(trusting(dir, "second").get(&url).send().await.unwrap().status().is_success());
    assert!(trusting(dir, "first").get(&url).send().await.is_err());

    std::fs::write(dir.join("served.key"), "no key").unwrap();
    let refused = crate::program::says(dir, &["serve", "--listen", "127.0.0.1:0", "--tls-cert", "served.pem", "--tls-key", "served.key"]);
    assert!(refused.contains("served.key"), "{refused}");
    assert!(crate::program::says(dir, &["serve", "--tls-cert", "served.pem"]).contains("--tls-key"));
}

async fn opens(url: String) -> Result<Store, String> {
    let bells = std::sync::Arc::new(server::bell::Bells::default());
    Store::open(&Place::Postgres { url }, bells).await.map_err(|e| {
        let mut text = e.to_string();
        let mut inner: Option<&dyn std::error::Error> = std::error::Error::source(&e);
        while let Some(e) = inner {
            text.push_str(&format!(": {e}"));
            inner = e.source();
        }
        text
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_to_postgres_is_encrypted_as_its_address_says() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path(), "database");
    certificate(dir.path(), "other");
    let root = |name: &str| format!("sslrootcert={}", dir.path().join(format!("{name}.pem")).display());
    let cluster = Cluster::with_certificate(&dir.path().join("database.pem"), &dir.path().join("database.key"));
    let Place::Postgres { url } = cluster.place().await else { panic!() };
    let named = url.replace("127.0.0.1", "localhost");
    for (address, encrypted) in [
        (format!("{named}?sslmode=verify-full&{}&connect_timeout=10", root("database")), true),
        (format!("{url}?sslmode=require"), true),
        (url.clone(), true),
        (format!("{url}?sslmode=disable"), false),
    ] {
        let store = opens(address.clone()).await.unwrap_or_else(|e| panic!("{address}: {e}"));
        let seen = cluster.encrypted_connections(&url).await;
        assert!(!seen.is_empty() && seen.iter().all(|it| *it == encrypted), "{address}: {seen:?}");
        store.close().await;
        drop(store);
        cluster.until_nobody_is_connected(&url).await;
    }
    for (address, why) in [
        (format!("{named}?sslmode=verify-full&{}", root("other")), "TLS handshake"),
        (format!("{url}?sslmode=verify-full&{}", root("database")), "TLS handshake"),
        (format!("{url}?sslmode=verify-full&sslrootcert=/nowhere.pem"), "/nowhere.pem"),
        (format!("{url}?sslmode=sometimes"), "sslmode"),
    ] {
        let refused = opens(address.clone()).await.err().unwrap_or_else(|| panic!("{address} was believed"));
        assert!(refused.contains(why), "{address}: {refused}");
    }
    let plain = Cluster::start();
    let Place::Postgres { url } = plain.place().await else { panic!() };
    assert!(
        opens(format!("{url}?sslmode=require")).await.is_err_and(|e| e.contains("TLS")),
        "a database without TLS is refused where TLS is required"
    );
}
