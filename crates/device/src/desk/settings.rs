//! Settings and folders.
use std::path::{Path, PathBuf};

use agent::tools::{Access, Grant, GrantRefused, Toolbox};

use super::{Desk, errors::error};
use crate::{
    secrets::Choice,
    view::{ConnectionsView, ErrorView, FolderAccess, FolderView, SecretStoreChoice, SettingsChange, SettingsView, Topic},
};

impl Desk {
    pub async fn settings_get(&self) -> Result<SettingsView, ErrorView> {
        let settings = self.store.settings()?;
        Ok(SettingsView {
            folders: self.folder_views()?,
            token_ceiling: settings.token_ceiling,
            cost_ceiling_cents: settings.cost_ceiling_cents,
            max_concurrency: settings.max_concurrency,
            max_tokens_per_call: settings.max_tokens_per_call,
            approval_timeout_s: settings.approval_timeout_s,
            pickup_instant: settings.pickup_instant,
            paused: settings.paused,
            start_at_login: settings.start_at_login,
            keep_in_tray: settings.keep_in_tray,
            tell_asks: settings.tell_asks,
            theme: settings.theme,
            language: settings.language,
            retention_days: settings.retention_days,
            data_folder: self.config.profile.display().to_string(),
            logs_folder: self.config.logs_folder.display().to_string(),
        })
    }

    pub async fn settings_update(&self, change: SettingsChange) -> Result<SettingsView, ErrorView> {
        let before = self.store.settings()?;
        let after = before
            .clone()
            .changed(change, self.config.clock.now())
            .map_err(|e| ErrorView { field: Some(e.field.into()), ..error("out_of_bounds", e.message) })?;
        self.store.save_settings(&after)?;
        self.apply_relay_settings(&after);
        if after.tell_asks != before.tell_asks {
            self.store.tell_sharing();
        }
        self.changed(Topic::Status);
        self.settings_get().await
    }

    pub async fn folder_add(&self, path: String, access: FolderAccess) -> Result<SettingsView, ErrorView> {
        let grant = Grant { path: PathBuf::from(&path), access: access_of(access) };
        let excluded = self.excluded();
        let checked = grant.clone();
        let check = tokio::task::spawn_blocking(move || Toolbox::check_grant(&checked, &excluded)).await;
        match check {
            Ok(Ok(())) => {}
            Ok(Err(refused)) => return Err(folder_error(&refused)),
            Err(e) => return Err(error("internal", format!("The folder could not be checked: {e}."))),
        }
        self.store.save_folder(&grant, self.config.clock.now())?;
        self.changed(Topic::Graphs);
        self.settings_get().await
    }

    pub async fn folder_remove(&self, path: String) -> Result<SettingsView, ErrorView> {
        if !self.store.remove_folder(Path::new(&path))? {
            return Err(error("folder_unknown", format!("{path} is not among the folders tools may see.")));
        }
        self.settings_get().await
    }

    pub async fn secret_store_choose(self: &std::sync::Arc<Self>, choice: SecretStoreChoice) -> Result<ConnectionsView, ErrorView> {
        let names = self.secret_names()?;
        let secrets = std::sync::Arc::clone(&self.config.secrets);
        let done = tokio::task::spawn_blocking(move || match &choice {
            SecretStoreChoice::Os => secrets.choose(Choice::Os, &names),
            SecretStoreChoice::EncryptedFile { passphrase } => secrets.choose(Choice::EncryptedFile(passphrase), &names),
            SecretStoreChoice::Memory => secrets.choose(Choice::Memory, &names),
        })
        .await;
        done.map_err(|e| error("internal", format!("The secrets could not be moved: {e}.")))??;
        self.secrets_changed().await?;
        self.changed(Topic::Connections);
        self.connections_get().await
    }

    /// Names of all secrets this profile may hold.
    pub(super) fn secret_names(&self) -> Result<Vec<String>, ErrorView> {
        let mut names = vec![super::connections::DEVICE_TOKEN.to_owned()];
        names.extend(self.store.providers()?.iter().map(|p| super::models::key_name(&p.id)));
        names.extend(self.store.mcp_servers()?.iter().map(|s| super::mcp::secret_name(&s.id)));
        Ok(names)
    }

    /// The app's own folders: no tool sees them, whatever is granted.
    pub(crate) fn excluded(&self) -> Vec<PathBuf> {
        self.executor.excluded().to_vec()
    }

    pub(crate) fn toolbox(&self) -> Result<Toolbox, ErrorView> {
        Ok(self.executor.toolbox()?)
    }

    pub(super) fn folder_views(&self) -> Result<Vec<FolderView>, ErrorView> {
        let excluded = self.excluded();
        let view = |grant: &Grant| FolderView {
            path: grant.path.display().to_string(),
            access: match grant.access {
                Access::Read => FolderAccess::Read,
                Access::Write => FolderAccess::Write,
            },
            problem: Toolbox::check_grant(grant, &excluded).err().map(|refused| folder_error(&refused).into()),
        };
        Ok(self.store.folders()?.iter().map(view).collect())
    }
}

pub(super) fn access_of(access: FolderAccess) -> Access {
    match access {
        FolderAccess::Read => Access::Read,
        FolderAccess::Write => Access::Write,
    }
}

fn folder_error(refused: &GrantRefused) -> ErrorView {
    let words = super::errors::capital(&format!("{refused}."));
    let error = match refused {
        GrantRefused::NotAbsolute(_) => error("folder_not_absolute", words),
        GrantRefused::NotAFolder { path, why } => error("folder_unusable", words).with("path", path.display()).with("why", why),
        GrantRefused::ContainsOwnData { path, own } => error("folder_holds_own_data", words).with("path", path.display()).with("own", own.display()),
        GrantRefused::IsOwnData { path } => error("folder_is_own_data", words).with("path", path.display()),
    };
    ErrorView { field: Some("path".into()), ..error }
}
