//! The status bar: what the relay does, what runs, what waits.
use domain::wire::said::said;

use super::Desk;
use crate::view::{ErrorView, RelayView, RunningView, StatusView};

impl Desk {
    pub async fn status_get(&self) -> Result<StatusView, ErrorView> {
        let now = self.config.clock.now();
        // A day in UTC: nobody told us where the owner lives.
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        let midnight = domain::Timestamp::from_ms(now.ms() - now.ms().rem_euclid(DAY_MS));
        let pairing = self.store.pairing()?;
        let outbox = self.store.outbox()?;
        let waiting = self.approvals.waiting();
        let running = self.executor.running().into_iter().map(|r| RunningView {
            agents_running: r.counts.agents_running,
            agents_waiting: r.counts.agents_queued.saturating_sub(r.counts.agents_running + r.counts.agents_done + r.counts.agents_failed),
            asking: waiting.iter().filter(|w| w.execution == r.execution).count() as u64,
            since: r.since.ms(),
            graph: r.graph,
            execution_id: r.execution.to_string(),
        });
        Ok(StatusView {
            relay: self.relay_view(pairing.is_some()),
            running: running.collect(),
            tokens_today: self.store.tokens_since(midnight)?,
            approvals_waiting: waiting.len() as u64,
            outbox: outbox.iter().filter(|row| !row.refused).count() as u64,
            needs_attention: outbox.iter().filter(|row| row.refused).count() as u64,
            queue_builtin: pairing.as_ref().is_some_and(|p| p.builtin),
            queue: pairing.map(|p| p.address),
            graphs: self.store.graphs()?.len() as u64,
            version: env!("CARGO_PKG_VERSION").into(),
        })
    }

    fn relay_view(&self, is_paired: bool) -> RelayView {
        match self.relay.status().view() {
            // Paired, but without its token the relay has nobody to ask: pairing again mends it.
            RelayView::NotConnected if is_paired => {
                let message = said("relay_no_token", "The device token is missing. Pair again in Connections.", []);
                RelayView::ServerSays { message, repair: true }
            }
            view => view,
        }
    }
}
