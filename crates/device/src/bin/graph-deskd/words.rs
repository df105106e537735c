//! Answers of the desktop in lines a person reads. `--json` prints the answer itself instead.
use serde_json::Value;

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}

/// What belongs to the owner or an agent is one line here and moves no cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

pub fn paired(view: &Value) -> String {
    let paired = &view["paired"];
    format!("Paired with {} as {}, owner {}.", plain(text(paired, "address")), plain(text(paired, "device_name")), plain(text(paired, "owner")))
}

pub fn imported(graph: &Value) -> String {
    format!("Imported {} as {} ({}).", plain(text(graph, "name")), text(graph, "slug"), text(graph, "status"))
}

pub fn shared(share: &Value) -> String {
    format!("Shared {} with {}.", text(share, "slug"), plain(text(share, "project")))
}

pub fn readable(sharing: &Value) -> String {
    let browser = &sharing["browser"];
    let open = |name: &str, what: &str| (number(browser, name) > 0).then(|| format!("{} {what}", number(browser, name)));
    let parts = [open("readable", "readable"), open("uploading", "to be uploaded"), open("removing", "to be deleted")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "No Graph is readable in the browser.".into() } else { format!("Graphs in the browser: {}.", parts.join(", ")) }
}

pub fn sign_in(made: &Value) -> String {
    format!("{}\nSign-in code {}, once, until {}", plain(text(made, "mcp_url")), text(made, "code"), when(made["expires_at"].as_i64()))
}

pub fn unshared(share: &Value) -> String {
    match number(share, "projects") {
        0 => format!("{} was shared with no project.", text(share, "slug")),
        1 => format!("{} is no longer shared with that project.", text(share, "slug")),
        n => format!("{} is no longer shared with {n} projects.", text(share, "slug")),
    }
}

pub fn rule(saved: &Value) -> String {
    format!("Saved the rule: {}.", plain(text(saved, "rule")))
}

pub fn folders(settings: &Value) -> String {
    let folders = settings["folders"].as_array().map(Vec::as_slice).unwrap_or_default();
    if folders.is_empty() {
        return "Tools see no folder.".into();
    }
    let lines = folders.iter().map(|f| {
        let problem = f["problem"]["text"].as_str().map(|p| format!("  ({})", plain(p))).unwrap_or_default();
        format!("{:<6} {}{problem}", text(f, "access"), plain(text(f, "path")))
    });
    format!("Tools may see:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

pub fn token(minted: &Value) -> String {
    format!("{}\n\nThis token is shown once. For Claude Code:\n{}", text(minted, "token"), text(minted, "claude_code_line"))
}

pub fn ran(run: &Value) -> String {
    let tokens = match number(run, "tokens") {
        0 => String::new(),
        n => format!(", {n} tokens"),
    };
    let tail = format!("{} ({}){tokens}: {}", text(run, "state"), text(run, "reason"), text(run, "execution_id"));
    if let Some(error) = run["error"].as_str() {
        let line = run["error_line"].as_u64().map(|n| format!("Line {n}: ")).unwrap_or_default();
        return format!("{line}{error}\n{tail}");
    }
    format!("{}\n{tail}", serde_json::to_string_pretty(&run["result"]).unwrap_or_default())
}

pub fn runs(page: &Value) -> String {
    let rows = page["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return "Nothing has run yet. Run a Graph, or let Claude start one.".into();
    }
    let lines = rows.iter().map(|row| {
        let by = row["command"]["agent"].as_str().unwrap_or(if row["command"].is_null() { "you" } else { "a connected agent" });
        let reason = row["reason"].as_str().map(|r| format!(" ({r})")).unwrap_or_default();
        format!(
            "{}  {}  {:<24} {}{reason}, by {}",
            when(row["started_at"].as_i64()),
            text(row, "execution_id"),
            plain(text(row, "graph")),
            text(row, "state"),
            plain(by)
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub fn execution(detail: &Value) -> String {
    let row = &detail["row"];
    let mut lines = vec![
        format!("{} version {} · {}", plain(text(row, "graph")), number(row, "version"), text(row, "execution_id")),
        format!("{} {}", text(row, "state"), text(row, "reason")),
        format!("started {}", when(row["started_at"].as_i64())),
    ];
    if let Some(ended) = row["ended_at"].as_i64() {
        lines.push(format!("ended   {}", when(Some(ended))));
    }
    lines.push(format!("tokens  {} of {}", number(row, "tokens"), number(detail, "ceiling")));
    lines.push(format!("arguments {}", text(detail, "args")));
    if let Some(error) = detail["error"]["text"].as_str() {
        let line = detail["error_line"].as_u64().map(|n| format!("line {n}: ")).unwrap_or_default();
        lines.push(format!("error   {line}{}", plain(error)));
    }
    if let Some(result) = detail["result"].as_str() {
        lines.push(format!("result  {result}"));
    }
    for event in detail["events"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let mut rest = event.clone();
        if let Some(members) = rest.as_object_mut() {
            for name in ["seq", "at", "kind"] {
                members.remove(name);
            }
        }
        lines.push(format!("{:>5}  {}  {:<18} {rest}", number(event, "seq"), text(event, "at"), text(event, "kind")));
    }
    lines.join("\n")
}

pub fn status(status: &Value) -> String {
    let relay = &status["relay"];
    let mut lines = vec![match text(relay, "at") {
        "not_connected" => "Not connected to a Graph Queue. Pair one: graph-deskd pair ADDRESS CODE".to_owned(),
        "ready" => "Ready".to_owned(),
        "busy" => format!("Busy with {} since {}", plain(text(relay, "graph")), when(relay["since"].as_i64())),
        "paused" => format!("Paused since {}: commands stay queued", when(relay["since"].as_i64())),
        "offline" => format!("Offline since {}: {}", when(relay["since"].as_i64()), plain(text(&relay["why"], "text"))),
        "failing" => format!(
            "The relay failed {} times in a row since {}: commands wait. Restart graph-deskd; its log says why",
            number(relay, "times"),
            when(relay["since"].as_i64())
        ),
        _ => format!("The server says: {}", plain(text(&relay["message"], "text"))),
    }];
    if let Some(queue) = status["queue"].as_str() {
        lines.push(format!("Graph Queue        {}", plain(queue)));
    }
    lines.push(format!("Graphs             {}", number(status, "graphs")));
    lines.push(format!("Running            {}", status["running"].as_array().map_or(0, Vec::len)));
    lines.push(format!("Tokens today       {}", number(status, "tokens_today")));
    if number(status, "outbox") > 0 {
        lines.push(format!("Endings to deliver {}", number(status, "outbox")));
    }
    if number(status, "needs_attention") > 0 {
        lines.push(format!("Needs attention    {} endings the server refuses", number(status, "needs_attention")));
    }
    lines.join("\n")
}

pub fn doctor(report: &Value) -> String {
    let hops = report["hops"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = hops.iter().map(|hop| {
        let mark = if hop["ok"] == true { "ok    " } else { "broken" };
        let ms = hop["ms"].as_u64().map(|ms| format!(" ({ms} ms)")).unwrap_or_default();
        format!("{mark} {}{ms}: {}", text(hop, "name"), plain(text(&hop["text"], "text")))
    });
    let broken: Vec<&str> = hops.iter().filter(|hop| hop["ok"] != true).map(|hop| text(hop, "name")).collect();
    let summary = match broken.as_slice() {
        [] => "Every hop works.".to_owned(),
        [one] => format!("Broken: {one}."),
        more => format!("Broken: {}. Mend the first one first.", more.join(", ")),
    };
    format!("{}\n{summary}", lines.collect::<Vec<_>>().join("\n"))
}

fn when(ms: Option<i64>) -> String {
    ms.map(|ms| domain::Timestamp::from_ms(ms).to_string()).unwrap_or_default()
}

pub fn models(view: &Value) -> String {
    let of = |name: &str| view[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let names =
        |row: &Value| row["models"].as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let mut lines: Vec<String> =
        of("providers").iter().map(|p| format!("{:<12} {}  {}", plain(text(p, "name")), plain(text(p, "address")), plain(&names(p)))).collect();
    if lines.is_empty() {
        lines.push("There is no provider of models. graph-deskd model find looks on this computer.".into());
    }
    lines.extend(of("aliases").iter().filter_map(|a| Some(format!("{:<12} = {}", text(a, "alias"), plain(a["model"].as_str()?)))));
    lines
        .extend(of("found").iter().map(|f| format!("{:<12} answers at {}  {}", plain(text(f, "name")), plain(text(f, "address")), plain(&names(f)))));
    lines.join("\n")
}

pub fn tested(test: &Value) -> String {
    format!("{} ({} ms)", plain(text(&test["text"], "text")), number(test, "ms"))
}

pub fn mcp(view: &Value) -> String {
    let servers = view["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if servers.is_empty() {
        return "There is no MCP server.".into();
    }
    let mut lines = Vec::new();
    for server in servers {
        let state = match text(&server["state"], "at") {
            "off" => "off".to_owned(),
            "idle" => "starts at the next call".to_owned(),
            "failed" => plain(text(&server["state"]["why"], "text")),
            other => other.to_owned(),
        };
        lines.push(format!("{:<12} {}  {state}", text(server, "name"), plain(text(server, "target"))));
        for tool in server["tools"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let changed = if tool["changed"] == true { ", changed since you allowed it" } else { "" };
            lines.push(format!("  {} ({}{changed})", text(tool, "tool"), text(tool, "ruling")));
        }
    }
    lines.join("\n")
}
