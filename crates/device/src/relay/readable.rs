//! Brings the texts of Graphs that the queue holds for the owner's browser in line with the owner's switches.
//!
//! They go beside the passes and hold none of them up: a proxy that cuts uploads costs the owner the texts, not the commands.
//! Only what [`Store::begin_upload`](crate::store::Store) hands out is ever sent, and it hands out nothing without the switch.
use domain::{DeviceId, GraphSessionId, Timestamp, limits::TEXTS_COMPARED_EVERY_MS};
use serde::Serialize;

use super::{AskError, PassError, Relay};
use crate::store::ReadableStep;

#[derive(Serialize)]
struct GraphText<'a> {
    name: &'a str,
    text: &'a str,
}

/// When, and as whom, this process last compared what the queue holds with what it should hold.
pub(super) type Compared = Option<(DeviceId, Timestamp)>;

impl Relay {
    /// Sends and removes what is due, then compares where that is due. What failed is told in the owner's settings and tried again after
    /// the next answered sync.
    pub(super) async fn tend_texts(&self) -> Result<(), PassError> {
        self.sync_readable().await?;
        self.compare_readable().await
    }

    /// At the start, after pairing, and hourly: either side may have been put back to an older copy, and then holds a text that nobody
    /// remembers, or none where one is meant to be.
    async fn compare_readable(&self) -> Result<(), PassError> {
        {
            let Some((client, link)) = self.linked() else { return Ok(()) };
            let (mut compared, now) = (self.uploading.lock().await, self.now());
            let is_recent = |(device, at): (DeviceId, Timestamp)| device == link.device && now.since_ms(at).abs() < TEXTS_COMPARED_EVERY_MS;
            if compared.is_some_and(is_recent) {
                return Ok(());
            }
            match self.heard_beside(client.graphs().await) {
                Ok(there) => self.store.compare_uploads(&there.graph_session_ids)?,
                Err(AskError::Refused { .. }) => {} // an older server does not say
                Err(error) => return Err(error.into()),
            }
            *compared = Some((link.device, now));
        }
        self.sync_readable().await
    }

    /// Removals first; one refusal does not hold up the others. One at a time, or an upload could overtake its own removal.
    async fn sync_readable(&self) -> Result<(), PassError> {
        let _one = self.uploading.lock().await;
        for step in self.store.readable_plan(self.now())? {
            match step {
                ReadableStep::Remove(id) => self.remove_text(id).await?,
                ReadableStep::Upload(id) => self.upload_text(id).await?,
            }
        }
        Ok(())
    }

    async fn remove_text(&self, id: GraphSessionId) -> Result<(), PassError> {
        let Some(client) = self.client() else { return Ok(()) };
        match self.heard_beside(client.delete_graph(id).await) {
            Ok(()) => Ok(self.store.removal_answered(id)?),
            Err(error) => self.text_failed(id, None, error),
        }
    }

    async fn upload_text(&self, id: GraphSessionId) -> Result<(), PassError> {
        let Some(client) = self.client() else { return Ok(()) };
        let Some(sent) = self.store.begin_upload(id)? else { return Ok(()) };
        match self.heard_beside(client.put_graph(id, &GraphText { name: &sent.name, text: &sent.source }).await) {
            Ok(()) => Ok(self.store.upload_answered(id, &sent)?),
            Err(error) => self.text_failed(id, Some(sent.version), error),
        }
    }

    /// An error only where the next request would fare no better.
    fn text_failed(&self, id: GraphSessionId, version: Option<u64>, error: AskError) -> Result<(), PassError> {
        self.store.readable_failed(id, version, &error.sentence().to_column(), error.is_final(), self.now())?;
        if error.concerns_all() { Err(error.into()) } else { Ok(()) }
    }
}
