//! The one door from a command's name to its method: the window's handler and the control socket both come through here.
//!
//! Arguments are members of one object, unknown ones are refused by name. Invariant (tested): the names are exactly those of
//! [`crate::view::COMMANDS`] without the ones only a window can do.
use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Desk, errors::bad_argument};
use crate::view::*;

/// Commands of the window that need a window: the shell answers them itself.
pub const SHELL_ONLY: &[&str] = &["folder_pick", "file_save", "logs_open", "window_drawn", "app_quit", "log_ui"];

type Answer = Result<Value, ErrorView>;

macro_rules! commands {
    ($($name:ident($($arg:ident: $kind:ty),*);)+) => {
        /// Name and argument names of each command.
        pub const NAMES: &[(&str, &[&str])] = &[$((stringify!($name), &[$(stringify!($arg)),*])),+];

        impl Desk {
            /// Does one command of the window, by name.
            pub async fn call(self: &Arc<Self>, name: &str, args: Value) -> Answer {
                match name {
                    $(stringify!($name) => {
                        #[derive(Deserialize)]
                        #[serde(deny_unknown_fields)]
                        struct Args { $($arg: $kind),* }
                        let Args { $($arg),* } = read(args)?;
                        write(Box::pin(self.$name($($arg),*)).await?)
                    })+
                    other => Err(super::errors::error("unknown_command", format!("There is no command named {other:?}."))),
                }
            }
        }
    };
}

commands! {
    status_get();
    templates_list();
    graphs_list();
    graph_open(id: String);
    graph_create(source: String);
    graph_create_from_template(template: String);
    graph_import(file_name: String, source: String);
    graph_export(id: String);
    graph_save(id: String, source: String);
    graph_update(id: String, change: GraphChange);
    graph_duplicate(id: String);
    graph_delete(id: String);
    graph_undelete(id: String);
    graph_version_source(id: String, version: u64);
    graph_version_name(id: String, version: u64, name: String);
    graph_inspect(source: String);
    run_graph_now(id: String, args: String);
    run_graph_dry(id: String, args: String);
    fleet_cancel_run(execution_id: String);
    executions_list(filter: ExecutionFilter);
    execution_open(execution_id: String);
    execution_events(execution_id: String, after: u64);
    execution_export(execution_id: String);
    execution_resume(execution_id: String);
    sharing_get();
    sharing_tick(project_id: String, graph_session_id: String, ticked: bool);
    project_enable(project_id: String, enabled: bool);
    project_readable(project_id: String, readable: bool);
    attention_retry(command_id: String);
    attention_discard(command_id: String);
    approvals_get();
    approvals_log(before: u64);
    approval_answer(approval: u64, answer: ApprovalAnswer);
    tool_setting_set(tool: String, ruling: Ruling);
    rule_add(rule: RuleDraft);
    rule_delete(rule_id: u64);
    connections_get();
    pair(address: String, pairing_code: String);
    pair_builtin();
    unpair();
    project_create(name: String);
    project_rename(project_id: String, name: String);
    project_delete(project_id: String);
    agent_token_mint(grant: GrantDraft);
    connect_code_make(grant: GrantDraft);
    sign_in_code_make();
    agent_revoke(agent_id: String);
    models_get();
    models_discover();
    provider_save(provider: ProviderDraft);
    provider_delete(provider_id: String);
    provider_test(provider_id: String);
    model_alias_set(alias: String, model: String);
    price_set(model: String, price: Option<PriceDraft>);
    mcp_get();
    mcp_save(server: McpDraft);
    mcp_delete(server_id: String);
    mcp_enable(server_id: String, enabled: bool);
    mcp_restart(server_id: String);
    settings_get();
    settings_update(change: SettingsChange);
    folder_add(path: String, access: FolderAccess);
    folder_remove(path: String);
    secret_store_choose(choice: SecretStoreChoice);
    doctor_run();
}

impl Desk {
    /// The popup's commands. The window's label names the question; it can neither see nor answer another.
    pub async fn popup_call(self: &Arc<Self>, approval: u64, name: &str, args: Value) -> Answer {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct PopupAnswer {
            answer: ApprovalAnswer,
        }
        match name {
            "popup_question" => write(self.popup_question(approval)),
            "popup_answer" => {
                let PopupAnswer { answer } = read(args)?;
                self.answer_approval(approval, answer).await?;
                Ok(Value::Null)
            }
            other => Err(super::errors::error("unknown_command", format!("There is no popup command named {other:?}."))),
        }
    }
}

fn read<T: DeserializeOwned>(args: Value) -> Result<T, ErrorView> {
    let args = if args.is_null() { Value::Object(serde_json::Map::new()) } else { args };
    serde_json::from_value(args).map_err(|e| bad_argument(None, format!("The command's arguments cannot be read: {e}.")))
}

fn write<T: Serialize>(answer: T) -> Answer {
    serde_json::to_value(answer).map_err(|e| super::errors::error("internal", format!("The answer cannot be written: {e}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dispatcher_knows_exactly_the_windows_commands_and_their_arguments() {
        let wanted: Vec<(String, Vec<String>)> = COMMANDS
            .iter()
            .filter(|(name, ..)| !SHELL_ONLY.contains(name))
            .map(|(name, args, _)| {
                let args = args.split(", ").filter_map(|a| a.split_once(':')).map(|(a, _)| a.trim().to_owned()).collect();
                ((*name).to_owned(), args)
            })
            .collect();
        let known: Vec<(String, Vec<String>)> =
            NAMES.iter().map(|(name, args)| ((*name).to_owned(), args.iter().map(|a| (*a).to_owned()).collect())).collect();
        assert_eq!(known, wanted);
        for shell in SHELL_ONLY {
            assert!(COMMANDS.iter().any(|(name, ..)| name == shell), "{shell}");
        }
    }
}
