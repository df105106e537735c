//! Refusals in words. What happened, what it means, what to do; the code is for programs and for the window's table of texts.
use domain::wire::said::Sentence;

use crate::{
    secrets::SecretError,
    store::{GraphError, SharingError, StoreError},
    view::ErrorView,
};

pub fn error(code: &str, message: impl Into<String>) -> ErrorView {
    ErrorView { code: code.to_owned(), message: message.into(), facts: Default::default(), field: None, line: None, column: None }
}

impl ErrorView {
    /// With a fact of its sentence by name, for the window's own words.
    pub(crate) fn with(mut self, name: &str, fact: impl ToString) -> Self {
        self.facts.insert(name.to_owned(), fact.to_string());
        self
    }
}

/// A refusal told among other sentences: the window has its words under `error.<code>`.
impl From<ErrorView> for Sentence {
    fn from(error: ErrorView) -> Self {
        let facts = error.facts.into_iter().chain([("detail".to_owned(), error.message.clone())]);
        Self { code: format!("error.{}", error.code), facts: facts.map(|(name, fact)| (name, fact.into())).collect(), text: error.message }
    }
}

pub fn bad_argument(field: Option<&str>, message: impl Into<String>) -> ErrorView {
    ErrorView { field: field.map(str::to_owned), ..error("bad_argument", message) }
}

impl From<StoreError> for ErrorView {
    fn from(e: StoreError) -> Self {
        let code = match &e {
            StoreError::InUse(_) => "profile_in_use",
            StoreError::Newer { .. } => "profile_newer",
            StoreError::Folder(..) => "profile_folder",
            StoreError::Database(_) | StoreError::Unreadable { .. } => "store_failed",
        };
        tracing::error!("{e:?}");
        error(code, format!("The profile's database could not be used: {e}. Nothing was changed. Run Doctor in Settings, or start again."))
            .with("why", &e)
    }
}

impl From<GraphError> for ErrorView {
    fn from(e: GraphError) -> Self {
        match e {
            GraphError::Unknown(_) => error("graph_gone", "This Graph is gone: it was deleted. Its runs are still in the history."),
            GraphError::VersionUnknown(_, version) => {
                error("version_gone", format!("There is no version {version} of this Graph.")).with("version", version)
            }
            GraphError::SlugTaken(slug) => ErrorView {
                field: Some("slug".into()),
                ..error("slug_taken", format!("Another Graph has the slug {slug}. Choose another one.")).with("slug", &slug)
            },
            GraphError::TooLong { field, chars, max } => ErrorView {
                field: Some(field.into()),
                ..error("too_long", format!("The {field} has {chars} characters; {max} are allowed. Shorten it."))
                    .with("chars", chars)
                    .with("max", max)
            },
            GraphError::SourceTooLong(_) | GraphError::SchemaTooLong(_) => error("too_long", capital(&format!("{e}."))),
            GraphError::NoName => ErrorView { field: Some("name".into()), ..error("no_name", "A Graph needs a name.") },
            GraphError::Store(e) => e.into(),
        }
    }
}

impl From<SharingError> for ErrorView {
    fn from(e: SharingError) -> Self {
        match e {
            SharingError::ProjectUnknown(_) => error("project_gone", "This project is gone from the Graph Queue. Create it again in Connections."),
            SharingError::GraphUnknown(_) => error("graph_gone", "This Graph is gone: it was deleted."),
            SharingError::NotReady { ref name, .. } => error("not_ready", format!("{e} Set it to ready first.")).with("name", name),
            SharingError::Full(ref project) => {
                error("ticks_full", e.to_string()).with("project", project).with("limit", domain::limits::SESSIONS_PER_SYNC_MAX)
            }
            SharingError::Store(e) => e.into(),
        }
    }
}

impl From<SecretError> for ErrorView {
    fn from(e: SecretError) -> Self {
        match &e {
            SecretError::Keyring(_) => error(
                "keyring_failed",
                format!("{}. Nothing was stored. Unlock it and repeat, or choose an encrypted file.", capital(&e.to_string())),
            ),
            SecretError::WrongPassphrase(_) => ErrorView {
                field: Some("passphrase".into()),
                ..error("wrong_passphrase", format!("{}. Try again, or delete the file and pair anew.", capital(&e.to_string())))
            },
            SecretError::EmptyPassphrase => {
                ErrorView { field: Some("passphrase".into()), ..error("no_passphrase", "The encrypted file needs a passphrase.") }
            }
            SecretError::Damaged(_) | SecretError::File { .. } | SecretError::Derive(_) => {
                error("secrets_failed", format!("The secrets could not be used: {e}. Nothing was changed."))
            }
        }
    }
}

pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
