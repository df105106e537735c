//! Doctor: asks each hop between this computer and a result, times it, and names the broken one in words. The last hop is the whole way:
//! [`super::round_trip`].
use std::sync::Arc;

use domain::wire::said::{Sentence, said};
use tokio::time::Instant;

use super::Desk;
use crate::{
    secrets::SecretKind,
    view::{DoctorHop, DoctorReport, ErrorView},
};

pub(super) const PROBE: &str = "export const meta = { name: 'Doctor', description: 'Does nothing' };\nreturn null;\n";

impl Desk {
    pub async fn doctor_run(self: &Arc<Self>) -> Result<DoctorReport, ErrorView> {
        let mut hops = vec![self.hop_store(), self.hop_secrets(), self.hop_scripts().await];
        hops.extend(self.hops_queue().await);
        hops.push(self.hop_models());
        Ok(DoctorReport { hops })
    }

    fn hop_store(&self) -> DoctorHop {
        let started = Instant::now();
        let path = ("path", self.config.profile.display().to_string().into());
        match self.store.save_setting("doctor", &self.config.clock.now()) {
            Ok(()) => hop("Profile", true, Some(started), said("hop_profile", "{path} can be written.", [path])),
            Err(e) => {
                let text = said("hop_profile_broken", "{path} cannot be written: {why}.", [path, ("why", e.to_string().into())]);
                hop("Profile", false, Some(started), text)
            }
        }
    }

    fn hop_secrets(&self) -> DoctorHop {
        let ok = matches!(self.config.secrets.kind(), SecretKind::Os | SecretKind::EncryptedFile);
        hop("Secrets", ok, None, self.config.secrets.text())
    }

    async fn hop_scripts(&self) -> DoctorHop {
        let started = Instant::now();
        match engine::inspect(PROBE, &self.config.graph_vm).await {
            Ok(_) => hop("Script runner", true, Some(started), said("hop_scripts", "graph-vm starts and reads a Graph.", [])),
            Err(fault) => {
                let program = self.config.graph_vm.program().display().to_string();
                let facts = [("why", super::errors::capital(&fault.message).into()), ("program", program.into())];
                hop("Script runner", false, Some(started), said("hop_scripts_broken", "{why} ({program}). Install Graph Desk again.", facts))
            }
        }
    }

    async fn hops_queue(self: &Arc<Self>) -> Vec<DoctorHop> {
        let broken = |text: Sentence| vec![hop("Graph Queue", false, None, text)];
        let pairing = match self.store.pairing() {
            Ok(Some(pairing)) => pairing,
            Ok(None) => return broken(said("hop_queue_none", "None is paired. Pair one in Connections.", [])),
            Err(e) => return broken(said("hop_queue_unreadable", "The pairing cannot be read: {why}.", [("why", e.to_string().into())])),
        };
        let Some(client) = self.relay.client() else {
            return broken(said("hop_queue_no_token", "Its device token is missing. Pair again in Connections.", []));
        };
        let started = Instant::now();
        let first = match client.projects().await {
            Ok(list) => {
                let facts = [("address", pairing.address.into()), ("n", (list.projects.len() as u64).into())];
                hop("Graph Queue", true, Some(started), said("hop_queue", "{address} answers. Projects it knows: {n}.", facts))
            }
            Err(e) => hop("Graph Queue", false, Some(started), super::connections::ask_error(e).into()),
        };
        let settings = self.store.settings().unwrap_or_default();
        let enabled = self.store.projects().unwrap_or_default().iter().filter(|p| p.enabled).count() as u64;
        let (takes, text) = match (settings.paused, enabled) {
            (true, _) => (false, said("hop_relay_paused", "Paused: commands stay queued. Resume to take them.", [])),
            (false, 0) => (false, said("hop_relay_idle", "No project is switched on, so no command is taken. Switch one on in Sharing.", [])),
            (false, n) if settings.pickup_instant => {
                (true, said("hop_relay", "Takes commands at once. Projects switched on: {n}.", [("n", n.into())]))
            }
            (false, n) => (true, said("hop_relay_slow", "Takes commands every 20 s. Projects switched on: {n}.", [("n", n.into())])),
        };
        let second = hop("Relay", takes, None, text);
        let takes_commands = first.ok && !settings.paused;
        let mut hops = vec![first, second];
        if takes_commands {
            hops.extend(self.hops_round_trip(&client).await);
        }
        hops
    }
}

impl Desk {
    /// No model is no fault: Graphs without agents run.
    fn hop_models(&self) -> DoctorHop {
        match self.executor.models().resolve(None) {
            Ok(model) => {
                let text = said("hop_models", "Agents use {model} unless their Graph names another.", [("model", model.name.into())]);
                hop("Models", true, None, text)
            }
            Err(_) => {
                let text =
                    said("hop_models_none", "No model is set up, or none is chosen. Open Models to change that. Graphs without agents run.", []);
                hop("Models", true, None, text)
            }
        }
    }
}

pub(super) fn hop(name: &str, ok: bool, since: Option<Instant>, text: Sentence) -> DoctorHop {
    DoctorHop { name: name.into(), ok, ms: since.map(|s| s.elapsed().as_millis() as u64), text }
}
