//! One tool of an MCP server: what it is called and said to do here, a call of it, and what its answer becomes.
use std::sync::Arc;

use domain::RawJson;
use rmcp::model::{CallToolResult, ContentBlock, Tool};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::McpServer;
use crate::{
    gate::sha256_hex,
    policy::{Target, ToolClass},
    tools::{Effect, PrepareError, Prepared, ToolDefinition, ToolOutput},
};

const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 4_000;

/// A tool as its server listed it. Kept between starts, so that it can be offered, ruled on and shown while the server does not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpTool {
    /// The name as the server knows it.
    pub name: String,
    #[serde(default)]
    pub title: Option<String>,
    pub description: String,
    pub schema: Value,
}

impl McpTool {
    pub(super) fn of(tool: Tool) -> Self {
        Self {
            name: tool.name.to_string(),
            title: tool.title.clone(),
            description: tool.description.as_deref().unwrap_or("").to_owned(),
            schema: Value::Object(tool.input_schema.as_ref().clone()),
        }
    }

    /// Hash of everything a rule about this tool was made on.
    pub fn fingerprint(&self) -> String {
        let whole = json!({ "name": self.name, "title": self.title, "description": self.description, "schema": self.schema });
        sha256_hex(RawJson::of(&whole).canonical().as_bytes())
    }

    /// `mcp__server__tool`, in the characters a model may use.
    pub fn name_here(&self, server: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        format!("mcp__{server}__{}", self.name).chars().map(plain).take(NAME_CHARS_MAX).collect()
    }

    pub(super) fn definition(&self, server: &str) -> ToolDefinition {
        ToolDefinition {
            name: self.name_here(server),
            description: domain::text::cut_chars(&self.description, DESCRIPTION_CHARS_MAX).to_owned(),
            input_schema: self.schema.clone(),
            class: ToolClass::Mcp,
            fingerprint: Some(self.fingerprint()),
        }
    }
}

pub(in crate::tools) fn prepare(servers: &[Arc<McpServer>], tool: &str, input: &RawJson) -> Result<Prepared, PrepareError> {
    let found = servers.iter().find_map(|server| Some((Arc::clone(server), server.find(tool)?)));
    let (server, known) = found.ok_or_else(|| PrepareError::Unknown(tool.to_owned()))?;
    if !input.is_object() {
        return Err(PrepareError::Input("it must be an object".into()));
    }
    let schema = jsonschema::validator_for(&known.schema);
    if let Some(error) = schema.ok().and_then(|schema| schema.validate(&input.to_value()).err().map(|e| e.to_string())) {
        return Err(PrepareError::Input(error));
    }
    let description = domain::text::cut_chars(&known.description, 300);
    let sentence = crate::shown::visible(&format!("Call {} of the MCP server {} (it says: {description})", known.name, server.id()));
    let effect = Effect { sentence, sandboxed: Some(false), ..Effect::default() };
    let fingerprint = Some(known.fingerprint());
    let input = input.clone();
    let run =
        Box::new(move |stop| -> futures::future::BoxFuture<'static, ToolOutput> { Box::pin(async move { server.call(&known, &input, stop).await }) });
    Ok(Prepared { fingerprint, ..Prepared::new(ToolClass::Mcp, Target::Nothing, effect, run) })
}

/// Text as text, structured content as it is, everything else named and left out.
pub(super) fn output(result: CallToolResult) -> ToolOutput {
    let text: Vec<String> = result.content.iter().map(block).collect();
    let text = text.join("\n");
    if result.is_error == Some(true) {
        return ToolOutput::failed(text);
    }
    let mut value = json!({ "text": text });
    if let Some(structured) = result.structured_content {
        value["structured"] = structured;
    }
    ToolOutput::done(&value)
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image {}, {} characters of base64 left out]", image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => format!("[audio {}, {} characters of base64 left out]", audio.mime_type, audio.data.len()),
        ContentBlock::Resource(_) => "[embedded resource left out]".to_owned(),
        ContentBlock::ResourceLink(link) => format!("[resource {}]", link.uri),
        _ => "[content of an unknown kind left out]".to_owned(), // the SDK's own enum may grow
    }
}
