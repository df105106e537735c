//! What the window shows and asks: the types that cross the IPC border, and the list of commands that carry them.
//!
//! These are pictures of the truth, made afresh for each question; nothing reads them back. Ids are text, times are milliseconds
//! since 1970 (the window formats them), JSON that belongs to the owner is compact text. `ui/src/generated/types.ts` is written from
//! here by a test.
mod approvals;
mod connections;
mod executions;
mod graphs;
mod mcp;
mod models;
mod settings;
mod sharing;
mod status;

use serde::Serialize;
use ts_rs::TS;

pub use approvals::*;
pub use connections::*;
pub use executions::*;
pub use graphs::*;
pub use mcp::*;
pub use models::*;
pub use settings::*;
pub use sharing::*;
pub use status::*;

/// Every IPC command: name, arguments (members of one object), answer. The shell registers exactly these, the window calls no others.
/// `popup` commands are allowed to the approval window alone and act only on its own question.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("status_get", "", "StatusView"),
    ("templates_list", "", "TemplateRow[]"),
    ("graphs_list", "", "GraphRow[]"),
    ("graph_open", "id: string", "GraphDetail"),
    ("graph_create", "source: string", "GraphDetail"),
    ("graph_create_from_template", "template: string", "GraphDetail"),
    ("graph_import", "file_name: string, source: string", "GraphDetail"),
    ("graph_export", "id: string", "ExportedFile"),
    ("graph_save", "id: string, source: string", "GraphDetail"),
    ("graph_update", "id: string, change: GraphChange", "GraphDetail"),
    ("graph_duplicate", "id: string", "GraphDetail"),
    ("graph_delete", "id: string", "null"),
    ("graph_undelete", "id: string", "GraphDetail"),
    ("graph_version_source", "id: string, version: number", "string"),
    ("graph_version_name", "id: string, version: number, name: string", "GraphDetail"),
    ("graph_inspect", "source: string", "Inspection"),
    ("run_graph_now", "id: string, args: string", "string"),
    ("run_graph_dry", "id: string, args: string", "string"),
    ("fleet_cancel_run", "execution_id: string", "null"),
    ("executions_list", "filter: ExecutionFilter", "ExecutionPage"),
    ("execution_open", "execution_id: string", "ExecutionDetail"),
    ("execution_events", "execution_id: string, after: number", "FleetEvent[]"),
    ("execution_export", "execution_id: string", "ExportedFile"),
    ("execution_resume", "execution_id: string", "string"),
    ("sharing_get", "", "SharingView"),
    ("sharing_tick", "project_id: string, graph_session_id: string, ticked: boolean", "SharingView"),
    ("project_enable", "project_id: string, enabled: boolean", "SharingView"),
    ("project_readable", "project_id: string, readable: boolean", "SharingView"),
    ("attention_retry", "command_id: string", "SharingView"),
    ("attention_discard", "command_id: string", "SharingView"),
    ("approvals_get", "", "ApprovalsView"),
    ("approvals_log", "before: number", "RulingLog"),
    ("approval_answer", "approval: number, answer: ApprovalAnswer", "ApprovalsView"),
    ("tool_setting_set", "tool: string, ruling: Ruling", "ApprovalsView"),
    ("rule_add", "rule: RuleDraft", "ApprovalsView"),
    ("rule_delete", "rule_id: number", "ApprovalsView"),
    ("connections_get", "", "ConnectionsView"),
    ("pair", "address: string, pairing_code: string", "ConnectionsView"),
    ("pair_builtin", "", "ConnectionsView"),
    ("unpair", "", "ConnectionsView"),
    ("project_create", "name: string", "ConnectionsView"),
    ("project_rename", "project_id: string, name: string", "ConnectionsView"),
    ("project_delete", "project_id: string", "ConnectionsView"),
    ("agent_token_mint", "grant: GrantDraft", "MintedToken"),
    ("connect_code_make", "grant: GrantDraft", "MadeConnectCode"),
    ("sign_in_code_make", "", "MadeConnectCode"),
    ("agent_revoke", "agent_id: string", "ConnectionsView"),
    ("models_get", "", "ModelsView"),
    ("models_discover", "", "ModelsView"),
    ("provider_save", "provider: ProviderDraft", "ModelsView"),
    ("provider_delete", "provider_id: string", "ModelsView"),
    ("provider_test", "provider_id: string", "ProviderTest"),
    ("model_alias_set", "alias: string, model: string", "ModelsView"),
    ("price_set", "model: string, price: PriceDraft | null", "ModelsView"),
    ("mcp_get", "", "McpView"),
    ("mcp_save", "server: McpDraft", "McpView"),
    ("mcp_delete", "server_id: string", "McpView"),
    ("mcp_enable", "server_id: string, enabled: boolean", "McpView"),
    ("mcp_restart", "server_id: string", "McpView"),
    ("settings_get", "", "SettingsView"),
    ("settings_update", "change: SettingsChange", "SettingsView"),
    ("folder_pick", "", "string | null"),
    ("file_save", "file: ExportedFile", "string | null"),
    ("logs_open", "", "null"),
    ("folder_add", "path: string, access: FolderAccess", "SettingsView"),
    ("folder_remove", "path: string", "SettingsView"),
    ("secret_store_choose", "choice: SecretStoreChoice", "ConnectionsView"),
    ("doctor_run", "", "DoctorReport"),
    ("window_drawn", "painted_ms_ago: number | null", "null"),
    ("app_quit", "", "null"),
    ("log_ui", "level: string, message: string", "null"),
];

/// Commands of the approval popup. It learns its question from its window's label and can answer no other.
pub const POPUP_COMMANDS: &[(&str, &str, &str)] = &[
    ("popup_question", "", "ApprovalQuestion | null"),
    ("popup_answer", "answer: ApprovalAnswer", "null"),
    ("popup_log_ui", "level: string, message: string", "null"),
];

/// The window's one subscription: `changed` says what to ask again for, `fleet` carries the story of an execution as it happens.
#[derive(Debug, Clone, Serialize, TS)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum DeskEvent {
    Changed {
        topic: Topic,
    },
    /// Numbered events, and streamed text (`agent_text`) that has `seq` 0.
    Fleet {
        execution_id: String,
        #[ts(type = "FleetEvent[]")]
        events: Vec<domain::wire::event::FleetEvent>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    Status,
    Graphs,
    Executions,
    Sharing,
    Approvals,
    Connections,
    Models,
    Settings,
}

/// A refused or failed command: a code for programs, words for people.
#[derive(Debug, Clone, Serialize, TS)]
pub struct ErrorView {
    /// Stable word, key of the window's table of texts, such as `queue_unreachable`.
    pub code: String,
    /// What happened, what it means, what to do: whole sentences, in English.
    pub message: String,
    /// The facts in the message by name, for the window's own words.
    pub facts: std::collections::BTreeMap<String, String>,
    /// The argument at fault, where there is one.
    pub field: Option<String>,
    /// Position in a Graph's source, counted from 1.
    pub line: Option<u32>,
    pub column: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::wire::{event, said};

    macro_rules! declare {
        ($out:ident: $($t:ty),+ $(,)?) => { $( $out.push_str(&format!("export {}\n", <$t as TS>::decl(&ts_rs::Config::from_env()))); )+ };
    }

    /// The window's types are written from these; `UPDATE=1 cargo nextest run -p device generated` rewrites the file.
    #[test]
    fn the_generated_types_of_the_window_are_up_to_date() {
        let mut out = String::from("// Written from crates/device/src/view and domain::wire by a test. Do not edit.\n");
        declare!(out:
            said::Sentence, said::Fact, event::AgentEnd, event::RulingWord, event::FleetWhat, event::FleetEvent,
            DeskEvent, Topic, ErrorView, RelayView, StatusView, RunningView, GraphStatus, TemplateRow, GraphRow, LastExecution, GainedPower, GraphDetail, VersionRow,
            Inspection, SourceFault, Severity, Powers, ToolPower, GraphChange, ExportedFile, ExecutionState, ExecutionFilter, ExecutionPage, ExecutionRow,
            CommandOrigin, Delivery, ExecutionDetail, LedgerRow, SharingView, BrowserView, SharedProject, PickupWait, VisibleSession, SharingRow, AttentionRow, Ruling, ApprovalsView,
            ApprovalQuestion, OfferedRule, RuleScope, Effect, ApprovalAnswer, ToolSetting, RuleRow, RuleDraft, RulingLog, RulingLogRow, ConnectionsView, Pairing, ProjectRow, AgentRow,
            SecretStoreView, SecretStoreChoice, GrantDraft, MintedToken, MadeConnectCode, ModelsView, ProviderRow, AliasRow, FoundServer, PriceRow,
            PriceDraft, ProviderDraft, ProviderTest, McpView, McpWay, McpServerRow, McpStateView, McpToolRow, McpDraft, McpValueDraft, FolderAccess, FolderView, Theme, SettingsView, SettingsChange, DoctorReport, DoctorHop,
        );
        for (name, list) in [("Commands", COMMANDS), ("PopupCommands", POPUP_COMMANDS)] {
            out.push_str(&format!("export type {name} = {{\n"));
            for (command, args, answer) in list {
                out.push_str(&format!("  {command}: {{ args: {{ {args} }}; answer: {answer} }};\n"));
            }
            out.push_str("};\n");
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/generated/types.ts");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &out).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), out, "run with UPDATE=1");
    }
}
