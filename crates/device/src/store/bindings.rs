//! Where an execution reports, and the row that files it under its project.
use std::fmt;

use domain::{CommandId, ExecutionId, ProjectId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Store, StoreError, parsed};

/// `graph:external:<command id>` for commands, `graph:local:<execution id>` for the owner's own executions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Channel {
    External(CommandId),
    Local(ExecutionId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a channel must be graph:external:<command id> or graph:local:<execution id>")]
pub struct ChannelError;

impl Channel {
    /// A command id that is not a UUID is no channel.
    pub fn parse(text: &str) -> Result<Self, ChannelError> {
        if let Some(id) = text.strip_prefix("graph:external:") {
            return CommandId::parse(id).map(Self::External).map_err(|_| ChannelError);
        }
        let id = text.strip_prefix("graph:local:").ok_or(ChannelError)?;
        ExecutionId::parse(id).map(Self::Local).map_err(|_| ChannelError)
    }

    pub const fn command(&self) -> Option<CommandId> {
        match self {
            Self::External(command) => Some(*command),
            Self::Local(_) => None,
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::External(command) => write!(f, "graph:external:{command}"),
            Self::Local(execution) => write!(f, "graph:local:{execution}"),
        }
    }
}

/// `ConnectedGraphProjectBinding`: one command's channel and its project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub command: CommandId,
    pub project: ProjectId,
}

pub(super) fn bind(on: &Connection, binding: &Binding, now: Timestamp) -> Result<(), StoreError> {
    on.prepare_cached(
        "INSERT INTO connected_graph_project_bindings (channel, project_id, command_id, bound_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (channel) DO UPDATE SET project_id = excluded.project_id, bound_at = excluded.bound_at",
    )?
    .execute(params![Channel::External(binding.command).to_string(), binding.project.to_string(), binding.command.to_string(), now.ms()])?;
    Ok(())
}

pub(super) fn unbind(on: &Connection, command: CommandId) -> Result<(), StoreError> {
    on.prepare_cached("DELETE FROM connected_graph_project_bindings WHERE channel = ?1")?.execute([Channel::External(command).to_string()])?;
    Ok(())
}

impl Store {
    /// The project a channel is filed under; none for the owner's own executions.
    pub fn project_of(&self, channel: &Channel) -> Result<Option<ProjectId>, StoreError> {
        self.read(|on| {
            let mut statement = on.prepare_cached("SELECT project_id FROM connected_graph_project_bindings WHERE channel = ?1")?;
            let text: Option<String> = statement.query_row([channel.to_string()], |row| row.get(0)).optional()?;
            text.map(|t| parsed(&t, "project_id", |t| ProjectId::parse(t).ok())).transpose()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_exactly_one_spelling() {
        let id = "3f2b8c1e-9a4d-4c6b-8e2f-0a1b2c3d4e5f";
        for good in [format!("graph:external:{id}"), format!("graph:local:{id}"), "graph:local:e-1".to_owned()] {
            assert_eq!(Channel::parse(&good).unwrap().to_string(), good);
        }
        for bad in ["graph:external:../x", "graph:external:", "graph:other:e", "", &format!("graph:external:{}", id.to_uppercase())] {
            assert_eq!(Channel::parse(bad), Err(ChannelError), "{bad}");
        }
    }
}
