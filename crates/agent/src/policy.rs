//! What the owner's rules say of one tool call. Pure: no I/O, no clock; the same call and rules always give the same ruling.
//!
//! The ruling is the strictest of the rules that match (`allow < ask < deny`); where none matches, the tool's own setting; where there is
//! none, the default of its class. A rule that cannot be read denies. Scripts, models, results and callers can only narrow
//! ([`ToolCall::offered`]). Inside a called Graph the rules are asked once for each Graph of the chain and the strictest answer holds.
mod pattern;

use std::{collections::BTreeMap, path::PathBuf};

use domain::{
    GraphSessionId, ProjectId, RawJson,
    wire::{
        event::RulingWord,
        said::{Fact, Sentence, said},
    },
};
use serde::{Deserialize, Serialize};

pub(crate) use pattern::holds_secrets;
pub use pattern::{Pattern, command_line};

/// Ordered by strictness; the order is the meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    Allow,
    Ask,
    Deny,
}
impl Ruling {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
    pub fn sentence(self) -> Sentence {
        match self {
            Self::Allow => said("ruling_allow", "allow", []),
            Self::Ask => said("ruling_ask", "ask", []),
            Self::Deny => said("ruling_deny", "deny", []),
        }
    }
}
impl From<Ruling> for RulingWord {
    fn from(ruling: Ruling) -> Self {
        match ruling {
            Ruling::Allow => Self::Allow,
            Ruling::Ask => Self::Ask,
            Ruling::Deny => Self::Deny,
        }
    }
}

/// What kind of thing a tool does. Decides the ruling where the owner has said nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolClass {
    /// Reads inside granted folders.
    Read,
    /// Writes inside granted folders.
    Write,
    Command,
    Network,
    /// A tool of a server the owner added.
    Mcp,
}
impl ToolClass {
    pub const fn default_ruling(self) -> Ruling {
        match self {
            Self::Read => Ruling::Allow,
            Self::Write | Self::Command | Self::Network | Self::Mcp => Ruling::Ask,
        }
    }
    fn default_in_words(self) -> Sentence {
        match self {
            Self::Read => said("default_read", "default: reading inside granted folders is allowed unless a rule says otherwise", []),
            Self::Write => said("default_write", "default: writing asks unless a rule says otherwise", []),
            Self::Command => said("default_command", "default: commands ask unless a rule says otherwise", []),
            Self::Network => said("default_network", "default: the network asks unless a rule says otherwise", []),
            Self::Mcp => said("default_mcp", "default: tools of MCP servers ask unless a rule says otherwise", []),
        }
    }
}

/// What a call would touch, as the tool itself resolved it: patterns compare this, never the text a model wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Nothing,
    /// The real, absolute path; symbolic links followed.
    Path(PathBuf),
    Command {
        argv: Vec<String>,
    },
    Http {
        host: String,
        /// Upper case.
        method: String,
    },
}

/// One saved version of a Graph: what a Graph's own rules are bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphAt {
    pub session: GraphSessionId,
    pub version: u64,
}

/// Where a call comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    pub project: Option<ProjectId>,
    /// The running Graph first, then each Graph called on the way to this call.
    pub graphs: Vec<GraphAt>,
}

/// One tool call as the policy sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub tool: String,
    pub class: ToolClass,
    pub target: Target,
    pub input: RawJson,
    /// For a tool whose meaning somebody else can change (MCP): the hash of its description and schema.
    pub fingerprint: Option<String>,
    pub place: Place,
    /// False where the Graph's `meta.tools` or the agent's `tools` leave this tool out.
    pub offered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Everywhere,
    Project(ProjectId),
    Graph(GraphAt),
}

/// One rule of the owner. Stored as the JSON of [`Rule::to_json`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A tool's name, or `*` for every tool.
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    pub scope: Scope,
    pub effect: Ruling,
    /// Binds an allowing rule to one description of an MCP tool; when the server changes it, the rule is silent and the owner is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// A rule as it lies in the store. It is read anew for each ruling: what cannot be read denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRule {
    pub id: i64,
    pub text: String,
}

/// What the owner set for one tool as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSetting {
    pub ruling: Ruling,
    /// As in [`Rule::fingerprint`].
    pub fingerprint: Option<String>,
}

/// Everything the owner has said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleBook {
    pub rules: Vec<StoredRule>,
    pub settings: BTreeMap<String, ToolSetting>,
}

/// A ruling and what made it: shown to the owner, kept in the history, told to the model where it denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruled {
    pub ruling: Ruling,
    pub because: Sentence,
    /// The rule that decided, if one did.
    pub rule: Option<i64>,
}

/// What the rules say of this call.
pub fn rule(call: &ToolCall, book: &RuleBook) -> Ruled {
    if !call.offered {
        let because = said("tool_left_out", "the Graph or the agent's own tool list leaves this tool out", []);
        return Ruled { ruling: Ruling::Deny, because, rule: None };
    }
    let asked_for = |graph: Option<&GraphAt>| rule_for(call, graph, book);
    let strictest = call.place.graphs.iter().map(|g| asked_for(Some(g))).reduce(|a, b| if b.ruling > a.ruling { b } else { a });
    strictest.unwrap_or_else(|| asked_for(None))
}

fn rule_for(call: &ToolCall, graph: Option<&GraphAt>, book: &RuleBook) -> Ruled {
    let mut decided: Option<Ruled> = None;
    for stored in &book.rules {
        let speaks = match Rule::from_json(&stored.text) {
            Ok(rule) => rule.matches(call, graph).then(|| (rule.effect, rule.sentence())),
            Err(broken) => broken.concerns(&call.tool).then(|| (Ruling::Deny, broken.sentence())),
        };
        let Some((ruling, sentence)) = speaks else { continue };
        if decided.as_ref().is_none_or(|d| ruling > d.ruling) {
            let because = said("by_rule", "rule {id}: {rule}", [("id", stored.id.into()), ("rule", sentence.into())]);
            decided = Some(Ruled { ruling, because, rule: Some(stored.id) });
        }
    }
    decided.unwrap_or_else(|| default_for(call, book))
}

fn default_for(call: &ToolCall, book: &RuleBook) -> Ruled {
    if let Some(setting) = book.settings.get(&call.tool)
        && (setting.ruling != Ruling::Allow || same_tool(setting.fingerprint.as_deref(), call))
    {
        let facts = [("tool", call.tool.as_str().into()), ("ruling", setting.ruling.sentence().into())];
        return Ruled { ruling: setting.ruling, because: said("by_setting", "setting of {tool}: {ruling}", facts), rule: None };
    }
    if let Target::Path(path) = &call.target
        && call.class == ToolClass::Read
        && pattern::holds_secrets(path)
    {
        let because = said("default_secrets", "files that usually hold keys or passwords ask unless a rule says otherwise", []);
        return Ruled { ruling: Ruling::Ask, because, rule: None };
    }
    Ruled { ruling: call.class.default_ruling(), because: call.class.default_in_words(), rule: None }
}

/// What is allowed of an MCP tool is allowed of the tool the owner saw, not of whatever bears its name later.
fn same_tool(allowed: Option<&str>, call: &ToolCall) -> bool {
    match (&call.fingerprint, call.class) {
        (None, ToolClass::Mcp) => false,
        (None, ToolClass::Read | ToolClass::Write | ToolClass::Command | ToolClass::Network) => true,
        (Some(now), _) => allowed == Some(now.as_str()),
    }
}

/// Why a stored rule cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRule {
    tool: Option<String>,
    why: String,
}
impl BrokenRule {
    /// A broken rule denies the tool it names, or every tool where not even that can be read.
    fn concerns(&self, tool: &str) -> bool {
        self.tool.as_deref().is_none_or(|t| t == "*" || t == tool)
    }
    fn sentence(&self) -> Sentence {
        said("rule_broken", "cannot be read and therefore denies ({why})", [("why", self.why.as_str().into())])
    }
}

impl Rule {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() // an empty text cannot be read and denies
    }

    pub fn from_json(text: &str) -> Result<Self, BrokenRule> {
        let broken = |why: String| {
            let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
            let tool = value.as_ref().and_then(|v| v.get("tool")).and_then(|t| t.as_str()).map(str::to_owned);
            BrokenRule { tool, why }
        };
        let rule: Self = serde_json::from_str(text).map_err(|e| broken(e.to_string()))?;
        if rule.tool.is_empty() {
            return Err(BrokenRule { tool: None, why: "it names no tool".into() });
        }
        Ok(rule)
    }

    fn matches(&self, call: &ToolCall, graph: Option<&GraphAt>) -> bool {
        let in_scope = match self.scope {
            Scope::Everywhere => true,
            Scope::Project(project) => call.place.project == Some(project),
            Scope::Graph(at) => graph == Some(&at),
        };
        // Only an allowing rule is tied to what the tool was; a rule that restricts holds on.
        let bound = self.effect != Ruling::Allow || same_tool(self.fingerprint.as_deref(), call);
        let tool = self.tool == "*" || self.tool == call.tool;
        in_scope && tool && bound && self.pattern.as_ref().is_none_or(|p| p.matches(call, self.effect))
    }

    /// The rule in words, as the popup, the rules page and the history show it.
    pub fn sentence(&self) -> Sentence {
        let tool = if self.tool == "*" { said("every_tool", "every tool", []).into() } else { Fact::from(self.tool.as_str()) };
        let calls = match &self.pattern {
            Some(pattern) => pattern.sentence(tool).into(),
            None => tool,
        };
        let scope = match self.scope {
            Scope::Everywhere => said("rule_everywhere", "everywhere", []),
            Scope::Project(_) => said("rule_project", "in this project", []),
            Scope::Graph(at) => said("rule_graph", "in version {version} of this Graph", [("version", at.version.into())]),
        };
        let facts = [("ruling", self.effect.sentence().into()), ("calls", calls), ("scope", scope.into())];
        said("rule", "{ruling} {calls}, {scope}", facts).map(&crate::shown::visible)
    }
}

/// The rules that "Always allow …" may save for this call, narrowest first: exactly what was asked, in this version of this Graph, in this
/// project, everywhere. Inside a called Graph the first is missing, since a rule of one Graph of the chain would not suffice.
pub fn exact_rules_for(call: &ToolCall) -> Vec<Rule> {
    let mut scopes = Vec::new();
    if let [graph] = call.place.graphs.as_slice() {
        scopes.push(Scope::Graph(*graph));
    }
    scopes.extend(call.place.project.map(Scope::Project));
    scopes.push(Scope::Everywhere);
    scopes.into_iter().map(|scope| exact_rule_for(call, scope)).collect()
}

/// The allowing rule for exactly this call: its folder, its host and method, its whole command line, or its very input.
pub fn exact_rule_for(call: &ToolCall, scope: Scope) -> Rule {
    let pattern = Some(Pattern::exactly(call));
    Rule { tool: call.tool.clone(), pattern, scope, effect: Ruling::Allow, fingerprint: call.fingerprint.clone() }
}
impl Rule {
    /// Whether this rule, taken alone and wherever it came from, speaks of this call.
    pub(crate) fn covers(&self, call: &ToolCall) -> bool {
        self.matches(call, None)
    }
}

/// Whether no call of this tool could be allowed, whatever its input: such a tool is not offered to models at all.
pub fn denied_outright(tool: &str, project: Option<ProjectId>, book: &RuleBook) -> bool {
    let setting = book.settings.get(tool).is_some_and(|s| s.ruling == Ruling::Deny);
    let mut any_rule = false;
    for stored in &book.rules {
        match Rule::from_json(&stored.text) {
            Err(broken) if broken.concerns(tool) => return true,
            Err(_) => {}
            Ok(rule) if rule.tool != "*" && rule.tool != tool => {}
            Ok(rule) => {
                let always = rule.pattern.is_none() && (rule.scope == Scope::Everywhere || project.is_some_and(|p| rule.scope == Scope::Project(p)));
                if always && rule.effect == Ruling::Deny {
                    return true;
                }
                any_rule = true;
            }
        }
    }
    setting && !any_rule // a rule may allow what the setting denies
}
