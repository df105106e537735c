//! Where the device token and the model keys lie: the system's keyring, an encrypted file, or this process's memory.
//!
//! What not: nothing is ever written in plain text, and no value is ever logged or shown. Which store is active is always told in words.
//! Every call may block (D-Bus, disk): callers stand in `spawn_blocking`. Invariant: a value is in exactly one store; changing the store
//! moves what was there.
use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use chacha20poly1305::{
    XChaCha20Poly1305, XNonce,
    aead::{Aead, KeyInit},
};
use domain::wire::said::{Sentence, said};
use serde::{Deserialize, Serialize};

/// Longest the probe of the system's keyring may take: an unlock dialogue nobody answers must not hold up the start.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
const SERVICE: &str = "graph-desk";
const FILE: &str = "secrets.sealed";

/// Fills the slice with random bytes. Handed in by the binaries.
pub type Draw = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    Os,
    EncryptedFile,
    Memory,
    /// Not known yet: the keyring is being asked.
    Unknown,
}
impl SecretKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::EncryptedFile => "encrypted_file",
            Self::Memory => "memory",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the system's keyring refused: {0}")]
    Keyring(String),
    #[error("the passphrase does not open {0}")]
    WrongPassphrase(PathBuf),
    #[error("{0} is not a sealed secrets file")]
    Damaged(PathBuf),
    #[error("the passphrase is empty")]
    EmptyPassphrase,
    #[error("{path}: {why}")]
    File { path: PathBuf, why: std::io::Error },
    #[error("the key could not be derived: {0}")]
    Derive(String),
}

/// A place for secrets. Names are ours (`device_token`, `provider:<id>`), never shown either.
pub trait Secrets: Send + Sync {
    fn get(&self, name: &str) -> Result<Option<String>, SecretError>;
    fn set(&self, name: &str, value: &str) -> Result<(), SecretError>;
    fn delete(&self, name: &str) -> Result<(), SecretError>;
    fn kind(&self) -> SecretKind;
}

// ── Memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Until the program ends, no longer.
#[derive(Default)]
pub struct MemorySecrets(Mutex<BTreeMap<String, String>>);

impl Secrets for MemorySecrets {
    fn get(&self, name: &str) -> Result<Option<String>, SecretError> {
        Ok(lock(&self.0).get(name).cloned())
    }
    fn set(&self, name: &str, value: &str) -> Result<(), SecretError> {
        lock(&self.0).insert(name.to_owned(), value.to_owned());
        Ok(())
    }
    fn delete(&self, name: &str) -> Result<(), SecretError> {
        lock(&self.0).remove(name);
        Ok(())
    }
    fn kind(&self) -> SecretKind {
        SecretKind::Memory
    }
}

// ── The system's keyring ────────────────────────────────────────────────────────────────────────────────────────────

/// Entries `graph-desk / <profile>:<name>`. Two profiles of one login share the keyring, so the profile is part of the name.
pub struct OsSecrets {
    profile: String,
}

impl OsSecrets {
    /// Opens the keyring and proves it by writing, reading and deleting a random entry: an open store alone is no proof.
    pub fn probe(profile: &Path, draw: &Draw) -> Result<Self, SecretError> {
        let this = Self { profile: profile.display().to_string() };
        let mut bytes = [0; 12];
        draw(&mut bytes);
        let (name, value) = (format!("probe-{}", hex(&bytes[..6])), hex(&bytes[6..]));
        this.set(&name, &value)?;
        let read = this.get(&name);
        this.delete(&name)?;
        match read? {
            Some(back) if back == value => Ok(this),
            _ => Err(SecretError::Keyring("it did not give back what was written".into())),
        }
    }

    fn entry(&self, name: &str) -> Result<keyring::Entry, SecretError> {
        keyring::Entry::new(SERVICE, &format!("{}:{name}", self.profile)).map_err(|e| match (&e, keyring::Entry::store_status()) {
            (keyring::Error::NoDefaultStore, Err(why)) => SecretError::Keyring(why.to_string()),
            _ => keyring_error(&e),
        })
    }
}

impl Secrets for OsSecrets {
    fn get(&self, name: &str) -> Result<Option<String>, SecretError> {
        match self.entry(name)?.get_password() {
            Ok(value) => Ok(Some(value)),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(e) => Err(keyring_error(&e)),
        }
    }
    fn set(&self, name: &str, value: &str) -> Result<(), SecretError> {
        self.entry(name)?.set_password(value).map_err(|e| keyring_error(&e))
    }
    fn delete(&self, name: &str) -> Result<(), SecretError> {
        match self.entry(name)?.delete_credential() {
            Ok(()) | Err(keyring::Error::NoEntry) => Ok(()),
            Err(e) => Err(keyring_error(&e)),
        }
    }
    fn kind(&self) -> SecretKind {
        SecretKind::Os
    }
}

/// The error's words; of an error that carries the secret's bytes, only its kind.
fn keyring_error(e: &keyring::Error) -> SecretError {
    SecretError::Keyring(match e {
        keyring::Error::BadEncoding(_) => "the stored value is not text".into(),
        other => other.to_string(),
    })
}

// ── The encrypted file ──────────────────────────────────────────────────────────────────────────────────────────────

/// One file of the profile folder, sealed with a key made from the owner's passphrase (argon2id, XChaCha20-Poly1305).
pub struct SealedFile {
    path: PathBuf,
    key: [u8; 32],
    salt: [u8; 16],
    draw: Draw,
    values: Mutex<BTreeMap<String, String>>,
}

/// What lies on the disk. The parameters stand beside the box, so that they can be raised later.
#[derive(Serialize, Deserialize)]
struct Sealed {
    version: u32,
    salt: String,
    memory_kib: u32,
    passes: u32,
    nonce: String,
    sealed: String,
}

const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;

impl SealedFile {
    pub fn exists(profile: &Path) -> bool {
        profile.join(FILE).exists()
    }

    /// Opens the file with the passphrase, or begins a new one.
    pub fn open(profile: &Path, passphrase: &str, draw: Draw) -> Result<Self, SecretError> {
        if passphrase.is_empty() {
            return Err(SecretError::EmptyPassphrase);
        }
        let path = profile.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(why) => return Err(SecretError::File { path, why }),
        };
        let Some(text) = text else {
            let mut salt = [0; 16];
            draw(&mut salt);
            let key = derive(passphrase, &salt, MEMORY_KIB, PASSES)?;
            let new = Self { path, key, salt, draw, values: Mutex::default() };
            new.save(&BTreeMap::new())?;
            return Ok(new);
        };
        let damaged = || SecretError::Damaged(path.clone());
        let file: Sealed = serde_json::from_str(&text).map_err(|_| damaged())?;
        let bytes = |text: &str| BASE64_STANDARD.decode(text).map_err(|_| damaged());
        let salt: [u8; 16] = bytes(&file.salt)?.try_into().map_err(|_| damaged())?;
        let nonce: [u8; 24] = bytes(&file.nonce)?.try_into().map_err(|_| damaged())?;
        if file.version != 1 || file.memory_kib > 1024 * 1024 || file.passes > 100 {
            return Err(damaged());
        }
        let key = derive(passphrase, &salt, file.memory_kib, file.passes)?;
        let plain = XChaCha20Poly1305::new(&key.into())
            .decrypt(&XNonce::from(nonce), bytes(&file.sealed)?.as_slice())
            .map_err(|_| SecretError::WrongPassphrase(path.clone()))?;
        let values = serde_json::from_slice(&plain).map_err(|_| damaged())?;
        let (memory_kib, passes) = (file.memory_kib, file.passes);
        let key = if (memory_kib, passes) == (MEMORY_KIB, PASSES) { key } else { derive(passphrase, &salt, MEMORY_KIB, PASSES)? };
        Ok(Self { path, key, salt, draw, values: Mutex::new(values) })
    }

    /// Whole or not at all: a new file beside the old one, then one rename.
    fn save(&self, values: &BTreeMap<String, String>) -> Result<(), SecretError> {
        let file_error = |why| SecretError::File { path: self.path.clone(), why };
        let mut nonce = [0; 24];
        (self.draw)(&mut nonce);
        let plain = serde_json::to_vec(values).map_err(|e| file_error(e.into()))?;
        let sealed = XChaCha20Poly1305::new(&self.key.into())
            .encrypt(&XNonce::from(nonce), plain.as_slice())
            .map_err(|_| SecretError::Damaged(self.path.clone()))?;
        let file = Sealed {
            version: 1,
            salt: BASE64_STANDARD.encode(self.salt),
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            nonce: BASE64_STANDARD.encode(nonce),
            sealed: BASE64_STANDARD.encode(sealed),
        };
        let text = serde_json::to_vec(&file).map_err(|e| file_error(e.into()))?;
        write_private(&self.path, &text).map_err(file_error)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) -> Result<(), SecretError> {
        let mut values = lock(&self.values);
        let mut next = values.clone();
        change(&mut next);
        self.save(&next)?;
        *values = next;
        Ok(())
    }
}

impl Secrets for SealedFile {
    fn get(&self, name: &str) -> Result<Option<String>, SecretError> {
        Ok(lock(&self.values).get(name).cloned())
    }
    fn set(&self, name: &str, value: &str) -> Result<(), SecretError> {
        self.change(|values| {
            values.insert(name.to_owned(), value.to_owned());
        })
    }
    fn delete(&self, name: &str) -> Result<(), SecretError> {
        self.change(|values| {
            values.remove(name);
        })
    }
    fn kind(&self) -> SecretKind {
        SecretKind::EncryptedFile
    }
}

fn derive(passphrase: &str, salt: &[u8], memory_kib: u32, passes: u32) -> Result<[u8; 32], SecretError> {
    let params = argon2::Params::new(memory_kib, passes, 1, Some(32)).map_err(|e| SecretError::Derive(e.to_string()))?;
    let mut key = [0; 32];
    argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), salt, &mut key)
        .map_err(|e| SecretError::Derive(e.to_string()))?;
    Ok(key)
}

/// Readable by the owner alone, durable before it takes the old file's place.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let next = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&next)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&next, path)?;
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

// ── The active one ──────────────────────────────────────────────────────────────────────────────────────────────────

/// The store in use. It can be changed by the owner while the app runs.
pub struct SecretStore {
    profile: PathBuf,
    draw: Draw,
    active: RwLock<Active>,
}

struct Active {
    store: Arc<dyn Secrets>,
    known: bool,
    /// Why the system's keyring is not used, in its own words.
    keyring_says: Option<String>,
}

impl SecretStore {
    /// For tests and for callers that chose already.
    pub fn fixed(profile: &Path, store: Arc<dyn Secrets>, draw: Draw) -> Arc<Self> {
        Self::make(profile, store, true, draw)
    }

    /// With a passphrase the encrypted file, at once. Without one memory for the moment, until [`SecretStore::probe`] has asked the keyring.
    pub fn open(profile: &Path, passphrase: Option<&str>, draw: Draw) -> Result<Arc<Self>, SecretError> {
        Ok(match passphrase {
            Some(passphrase) => Self::make(profile, Arc::new(SealedFile::open(profile, passphrase, draw.clone())?), true, draw),
            None => Self::make(profile, Arc::new(MemorySecrets::default()), false, draw),
        })
    }

    fn make(profile: &Path, store: Arc<dyn Secrets>, known: bool, draw: Draw) -> Arc<Self> {
        Arc::new(Self { profile: profile.to_owned(), draw, active: RwLock::new(Active { store, known, keyring_says: None }) })
    }

    /// Asks the system's keyring, for at most [`PROBE_TIMEOUT`], where nothing was chosen. What had been put into memory meanwhile moves over.
    pub async fn probe(self: &Arc<Self>, names: &[String]) {
        if self.read().known {
            return;
        }
        let (profile, draw) = (self.profile.clone(), self.draw.clone());
        let asked = tokio::task::spawn_blocking(move || OsSecrets::probe(&profile, &draw));
        let answer = match tokio::time::timeout(PROBE_TIMEOUT, asked).await {
            Ok(Ok(Ok(store))) => self.move_to(Arc::new(store), names).map_err(|e| e.to_string()),
            Ok(Ok(Err(e))) => Err(e.to_string()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err(format!("it did not answer within {} s", PROBE_TIMEOUT.as_secs())),
        };
        let mut active = self.write();
        active.known = true;
        active.keyring_says = answer.err();
    }

    /// Changes to another store; the named secrets move, then leave the old one.
    pub fn choose(&self, choice: Choice<'_>, names: &[String]) -> Result<(), SecretError> {
        let store: Arc<dyn Secrets> = match choice {
            Choice::Os => Arc::new(OsSecrets::probe(&self.profile, &self.draw)?),
            Choice::EncryptedFile(passphrase) => Arc::new(SealedFile::open(&self.profile, passphrase, self.draw.clone())?),
            Choice::Memory => Arc::new(MemorySecrets::default()),
        };
        self.move_to(store, names)?;
        self.write().known = true;
        Ok(())
    }

    fn move_to(&self, store: Arc<dyn Secrets>, names: &[String]) -> Result<(), SecretError> {
        let old = self.active();
        for name in names {
            // What the new store already knows is kept where the old one knows nothing (an encrypted file opened again).
            if let Some(value) = old.get(name)? {
                store.set(name, &value)?;
            }
        }
        self.write().store = store;
        for name in names {
            if let Err(e) = old.delete(name) {
                tracing::warn!(store = old.kind().as_str(), "a secret could not be removed from the old store: {e}");
            }
        }
        Ok(())
    }

    pub fn get(&self, name: &str) -> Result<Option<String>, SecretError> {
        self.active().get(name)
    }
    pub fn set(&self, name: &str, value: &str) -> Result<(), SecretError> {
        self.active().set(name, value)
    }
    pub fn delete(&self, name: &str) -> Result<(), SecretError> {
        self.active().delete(name)
    }

    pub fn kind(&self) -> SecretKind {
        let active = self.read();
        if active.known { active.store.kind() } else { SecretKind::Unknown }
    }

    /// Which store is in use, what that means and what to do, in words.
    pub fn text(&self) -> Sentence {
        let active = self.read();
        if !active.known {
            return said("secrets_unknown", "The system's keyring is being asked.", []);
        }
        match active.store.kind() {
            SecretKind::Os => said("secrets_os", "The device token and the model keys are kept in the system's keyring.", []),
            SecretKind::EncryptedFile => said(
                "secrets_in_file",
                "The device token and the model keys are kept in an encrypted file ({path}), opened by your passphrase.",
                [("path", self.profile.join(FILE).display().to_string().into())],
            ),
            SecretKind::Memory | SecretKind::Unknown => {
                let keyring = match &active.keyring_says {
                    Some(why) => said("no_keyring_because", "No system keyring is available ({why})", [("why", why.as_str().into())]),
                    None => said("no_keyring", "No system keyring is available", []),
                };
                let file = if SealedFile::exists(&self.profile) {
                    said("open_secrets_file", "open your encrypted file with its passphrase", [])
                } else {
                    said("choose_secrets_file", "choose an encrypted file with a passphrase", [])
                };
                said(
                    "secrets_in_memory",
                    "{keyring}. Secrets are kept only until you quit. Unlock or install GNOME Keyring, KWallet or KeePassXC, or {file} (graph-deskd: set GRAPH_DESK_PASSPHRASE).",
                    [("keyring", keyring.into()), ("file", file.into())],
                )
            }
        }
    }

    fn active(&self) -> Arc<dyn Secrets> {
        Arc::clone(&self.read().store)
    }
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Active> {
        self.active.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Active> {
        self.active.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the owner chose.
pub enum Choice<'a> {
    Os,
    EncryptedFile(&'a str),
    Memory,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> Draw {
        let next = std::sync::atomic::AtomicU8::new(1);
        Arc::new(move |out: &mut [u8]| out.fill_with(|| next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)))
    }

    #[test]
    fn a_sealed_file_opens_with_its_passphrase_only_and_shows_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = SealedFile::open(folder.path(), "correct horse", counting()).unwrap();
        file.set("device_token", "marked-4711").unwrap();
        file.set("provider:a", "key").unwrap();
        file.delete("provider:a").unwrap();
        let on_disk = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(!on_disk.contains("4711") && !on_disk.contains("device_token"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let again = SealedFile::open(folder.path(), "correct horse", counting()).unwrap();
        assert_eq!(again.get("device_token").unwrap().as_deref(), Some("marked-4711"));
        assert_eq!(again.get("provider:a").unwrap(), None);
        assert!(matches!(SealedFile::open(folder.path(), "wrong", counting()), Err(SecretError::WrongPassphrase(_))));
        assert!(matches!(SealedFile::open(folder.path(), "", counting()), Err(SecretError::EmptyPassphrase)));
    }

    #[test]
    fn a_damaged_file_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        assert!(matches!(SealedFile::open(folder.path(), "p", counting()), Err(SecretError::Damaged(_))));
        assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), "{}");
    }

    #[test]
    fn changing_the_store_moves_what_was_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = SecretStore::fixed(folder.path(), Arc::new(MemorySecrets::default()), counting());
        store.set("device_token", "t").unwrap();
        store.choose(Choice::EncryptedFile("p"), &["device_token".into(), "provider:x".into()]).unwrap();
        assert_eq!((store.kind(), store.get("device_token").unwrap().as_deref()), (SecretKind::EncryptedFile, Some("t")));
        store.choose(Choice::Memory, &["device_token".into()]).unwrap();
        assert_eq!(SealedFile::open(folder.path(), "p", counting()).unwrap().get("device_token").unwrap(), None);
        assert!(store.text().text.contains("only until you quit"));
    }
}
