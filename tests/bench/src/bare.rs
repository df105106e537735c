//! The yardstick: one tool that does nothing, on the protocol library alone, served as that library's own
//! examples serve. In a process of its own.
use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
        ServerConfig, Tool,
    },
    service::RequestContext,
    transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager},
};
use serde_json::json;

pub const WORD: &str = "bare-rmcp";

#[derive(Clone)]
struct NoOp;

impl ServerHandler for NoOp {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(Implementation::new("no-op", "1"))
    }
    fn get_tool(&self, _: &str) -> Option<Tool> {
        None
    }
    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Vec::new()))
    }
    async fn call_tool(&self, _: CallToolRequestParams, _: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::structured(json!({"ok": true})).into())
    }
}

/// Prints its address and serves until it is killed.
pub async fn serve() {
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let service = StreamableHttpService::new(|| Ok(NoOp), Arc::new(NeverSessionManager::default()), config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await.unwrap();
}
