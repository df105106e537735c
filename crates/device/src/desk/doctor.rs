//! Doctor: asks each hop between this computer and a result, times it, and names the broken one in words. The last hop is the whole way:
//! [`super::round_trip`].
use std::sync::Arc;

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
        let broken: Vec<&str> = hops.iter().filter(|h| !h.ok).map(|h| h.name.as_str()).collect();
        let summary = match broken.as_slice() {
            [] => "Every hop works.".to_owned(),
            [one] => format!("Broken: {one}."),
            more => format!("Broken: {}. Mend the first one first.", more.join(", ")),
        };
        Ok(DoctorReport { hops, summary })
    }

    fn hop_store(&self) -> DoctorHop {
        let started = Instant::now();
        let written = self.store.save_setting("doctor", &self.config.clock.now());
        match written {
            Ok(()) => hop("Profile", true, Some(started), format!("{} can be written.", self.config.profile.display())),
            Err(e) => hop("Profile", false, Some(started), format!("{} cannot be written: {e}.", self.config.profile.display())),
        }
    }

    fn hop_secrets(&self) -> DoctorHop {
        let ok = matches!(self.config.secrets.kind(), SecretKind::Os | SecretKind::EncryptedFile);
        hop("Secrets", ok, None, self.config.secrets.text())
    }

    async fn hop_scripts(&self) -> DoctorHop {
        let started = Instant::now();
        match engine::inspect(PROBE, &self.config.graph_vm).await {
            Ok(_) => hop("Script runner", true, Some(started), "graph-vm starts and reads a Graph.".into()),
            Err(fault) => {
                let program = self.config.graph_vm.program().display();
                hop(
                    "Script runner",
                    false,
                    Some(started),
                    format!("{} ({program}). Install Graph Desk again.", super::errors::capital(&fault.message)),
                )
            }
        }
    }

    async fn hops_queue(self: &Arc<Self>) -> Vec<DoctorHop> {
        let pairing = match self.store.pairing() {
            Ok(Some(pairing)) => pairing,
            Ok(None) => return vec![hop("Graph Queue", false, None, "None is paired. Pair one in Connections.".into())],
            Err(e) => return vec![hop("Graph Queue", false, None, format!("The pairing cannot be read: {e}."))],
        };
        let Some(client) = self.relay.client() else {
            return vec![hop("Graph Queue", false, None, "Its device token is missing. Pair again in Connections.".into())];
        };
        let started = Instant::now();
        let first = match client.projects().await {
            Ok(list) => hop("Graph Queue", true, Some(started), format!("{} answers and knows {}.", pairing.address, projects(list.projects.len()))),
            Err(e) => hop("Graph Queue", false, Some(started), super::connections::ask_error(e).message),
        };
        let settings = self.store.settings().unwrap_or_default();
        let enabled = self.store.projects().unwrap_or_default().iter().filter(|p| p.enabled).count();
        let second = match (settings.paused, enabled) {
            (true, _) => hop("Relay", false, None, "Paused: commands stay queued. Resume to take them.".into()),
            (false, 0) => hop("Relay", false, None, "No project is switched on, so no command is taken. Switch one on in Sharing.".into()),
            (false, n) => {
                let how = if settings.pickup_instant { "at once" } else { "every 20 s" };
                hop("Relay", true, None, format!("Takes commands of {}, {how}.", projects(n)))
            }
        };
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
            Ok(model) => hop("Models", true, None, format!("Agents use {} unless their Graph names another.", model.name)),
            Err(e) => hop("Models", true, None, format!("{e} Graphs without agents run.")),
        }
    }
}

fn projects(n: usize) -> String {
    if n == 1 { "1 project".into() } else { format!("{n} projects") }
}

pub(super) fn hop(name: &str, ok: bool, since: Option<Instant>, text: String) -> DoctorHop {
    DoctorHop { name: name.into(), ok, ms: since.map(|s| s.elapsed().as_millis() as u64), text }
}
