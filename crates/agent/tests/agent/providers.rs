//! What happens on the wire, on both protocols, against the scripted server.
use std::time::Duration;

use agent::{
    AgentErrorCode as Code, AgentSpec, Secret,
    model::{Message, ModelError, ModelRequest, Models, Provider, ProviderKind, discover, list_models},
    policy::RuleBook,
};
use domain::wire::event::FleetWhat;
use serde_json::json;

use crate::{
    loops::{Fleet, spec, with_tools},
    scripted::{After, Answer, Server, anthropic, openai},
    support::Desk,
};
use ProviderKind::{Anthropic, OpenAi};

const KEY: &str = "sk-marked-4711";

fn models_at(server: &Server, kind: ProviderKind) -> Models {
    let mut models = Models::new();
    models.add_provider(provider_at(server, kind));
    models.alias("default", "p/claude-sonnet-5-5");
    models
}
fn provider_at(server: &Server, kind: ProviderKind) -> Provider {
    Provider { address: Some(server.address.clone()), key: Some(Secret::new(KEY)), ..Provider::new("p", kind) }
}
fn fleet_at(server: &Server, kind: ProviderKind) -> Fleet {
    Fleet::new(models_at(server, kind))
}

#[tokio::test]
async fn text_streams_and_usage_counts_the_cache_on_both_protocols() {
    for (kind, answer, path) in
        [(OpenAi, openai::text(&["Hel", "lo"]), "/v1/chat/completions"), (Anthropic, anthropic::text(&["Hel", "lo"]), "/v1/messages")]
    {
        let server = Server::start([answer]).await;
        let fleet = fleet_at(&server, kind);
        let got = fleet.run(AgentSpec { system: Some("Be brief.".into()), max_tokens: Some(64), ..spec("hi") }).await.unwrap();
        assert_eq!(got.value.as_str(), r#""Hello""#);
        assert_eq!((got.usage.input, got.usage.output, got.usage.cache_read), (21, 4, 20), "{kind:?}: cached input is input");
        let dollars = (1.0 * 2.0 + 20.0 * 0.2 + 4.0 * 10.0) / 1e6;
        assert!((got.cost.unwrap() - dollars).abs() < 1e-12, "{:?}", got.cost);
        let seen = server.seen(0);
        assert_eq!((seen.path.as_str(), &seen.body["max_tokens"], &seen.body["stream"]), (path, &json!(64), &json!(true)));
        for forbidden in ["temperature", "top_p", "top_k", "tool_choice"] {
            assert!(seen.body.get(forbidden).is_none(), "{forbidden}");
        }
        assert!(!seen.body.to_string().contains("cache_control"), "one turn is not worth writing a cache");
        let pieces: Vec<_> = fleet
            .desk
            .record
            .events()
            .into_iter()
            .filter_map(|e| if let FleetWhat::AgentText { text, .. } = e { Some(text) } else { None })
            .collect();
        assert_eq!(pieces, ["Hel", "lo"]);
    }
}

#[tokio::test]
async fn a_native_tool_call_and_its_result_have_each_protocols_shape() {
    for kind in [OpenAi, Anthropic] {
        let desk = Desk::new(RuleBook::default());
        std::fs::write(desk.path("n"), "42").unwrap();
        let arguments = json!({ "path": desk.path("n") }).to_string();
        let answers = match kind {
            // "stop" although it calls: what counts is the call.
            OpenAi => [openai::call("read_file", &arguments, "stop"), openai::text(&["42"])],
            _ => [anthropic::thinking_then_call("read_file", &arguments, "tool_use"), anthropic::text(&["42"])],
        };
        let server = Server::start(answers).await;
        let fleet = Fleet { desk, ..fleet_at(&server, kind) };
        assert_eq!(fleet.run(with_tools(&["read_file"])).await.unwrap().value.as_str(), r#""42""#);
        let first = server.seen(0).body;
        let messages = server.seen(1).body["messages"].clone();
        match kind {
            OpenAi => {
                assert_eq!(first["tools"][0]["function"]["name"], "read_file");
                assert_eq!(messages[1]["tool_calls"][0]["id"], "call_a");
                assert_eq!((&messages[2]["role"], &messages[2]["tool_call_id"]), (&json!("tool"), &json!("call_a")));
                assert!(messages[2]["content"].as_str().unwrap().contains("42"));
            }
            _ => {
                assert_eq!(first["tools"][0]["name"], "read_file");
                let turn = messages[1]["content"].as_array().unwrap();
                assert_eq!(
                    (&turn[0]["type"], &turn[0]["signature"]),
                    (&json!("thinking"), &json!("c2lnbmVk")),
                    "signed thoughts go back unchanged: {turn:?}"
                );
                assert_eq!(turn[1]["type"], "tool_use");
                let result = &messages[2]["content"][0];
                assert_eq!(
                    (&messages[2]["role"], &result["type"], &result["tool_use_id"]),
                    (&json!("user"), &json!("tool_result"), &json!("toolu_a"))
                );
                let ephemeral = json!({ "type": "ephemeral" });
                assert_eq!(result["cache_control"], ephemeral, "what comes again with the next turn is cached up to here");
                assert_eq!(first["messages"][0]["content"][0]["cache_control"], ephemeral);
                assert_eq!(messages.to_string().matches("cache_control").count(), 1);
            }
        }
    }
}

#[tokio::test]
async fn too_many_requests_is_waited_out_as_the_provider_says() {
    let busy = |status| {
        Answer::Status(status, &[("retry-after-ms", "30")], json!({ "type": "error", "error": { "type": "x", "message": "slow down" } }).to_string())
    };
    for (kind, ok) in [(OpenAi, openai::text(&["ok"])), (Anthropic, anthropic::text(&["ok"]))] {
        let server = Server::start([busy(429), busy(529), ok]).await;
        let fleet = fleet_at(&server, kind);
        assert!(fleet.run(spec("hi")).await.is_ok());
        let waits: Vec<_> = fleet
            .desk
            .record
            .events()
            .into_iter()
            .filter_map(|e| if let FleetWhat::Retry { wait_ms, .. } = e { Some(wait_ms) } else { None })
            .collect();
        assert_eq!(waits, [30, 30]);
        assert_eq!(fleet.spent(), (25, 0), "refused attempts cost nothing");
        let always = Server::start((0..5).map(|_| busy(529))).await;
        assert_eq!((fleet_at(&always, kind).code(spec("hi")).await, always.count()), (Code::RateLimited, 5));
    }
}

#[tokio::test]
async fn retry_after_is_read_as_seconds_and_as_a_date() {
    let model = |headers: &'static [(&'static str, &'static str)]| async move {
        let server = Server::start([Answer::Status(429, headers, "{}".into())]).await;
        let models = models_at(&server, OpenAi);
        let entry = models.resolve(None).unwrap();
        entry.model.call(&request(), &|_| {}).await.unwrap_err()
    };
    for (headers, seconds) in [
        (&[("retry-after", "7")] as &[_], Some(7)),
        (&[("retry-after", "1.0")], Some(1)),
        (&[("date", "Sun, 29 Nov 2026 14:00:00 GMT"), ("retry-after", "Sun, 29 Nov 2026 14:00:09 GMT")], Some(9)),
        (&[("retry-after", "soon")], None),
        (&[], None),
    ] {
        let error = model(headers).await;
        assert!(
            matches!(error, ModelError::Status { status: 429, retry_after, .. } if retry_after == seconds.map(Duration::from_secs)),
            "{headers:?}: {error:?}"
        );
    }
}

fn request() -> ModelRequest {
    ModelRequest { messages: vec![Message::User("hi".into())], max_tokens: 64, ..ModelRequest::default() }
}

/// C53 at this crate's level.
#[tokio::test]
async fn the_key_is_sent_but_never_said() {
    for (kind, header) in [(OpenAi, "authorization"), (Anthropic, "x-api-key")] {
        let echo = Answer::Status(401, &[], format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#));
        let server = Server::start([echo.clone(), echo]).await;
        let fleet = fleet_at(&server, kind);
        let error = fleet.run(spec("hi")).await.unwrap_err();
        assert_eq!((error.code, server.count()), (Code::Provider, 1), "a wrong key is not tried again");
        assert!(server.seen(0).headers[header].to_str().unwrap().contains(KEY));
        let said = format!("{error:?} {:?} {:?}", fleet.desk.record.events(), provider_at(&server, kind));
        assert!(!said.contains("4711") && said.contains("[key]"), "{said}");
        let error = list_models(&provider_at(&server, kind)).await.unwrap_err();
        assert!(!format!("{error:?}").contains("4711"));
    }
    let nobody = Provider { address: Some("http://127.0.0.1:1/v1".into()), key: Some(Secret::new(KEY)), ..Provider::new("p", OpenAi) };
    let mut models = Models::new();
    models.add_provider(nobody);
    let error = models.resolve(Some("p/m")).unwrap().model.call(&request(), &|_| {}).await.unwrap_err();
    assert!(matches!(&error, ModelError::Unreachable(why) if !why.contains("4711")), "{error:?}");
}

#[tokio::test]
async fn a_redirect_does_not_carry_the_key_away() {
    let thief = Server::start([]).await;
    let location: &'static str = Box::leak(format!("{}/chat/completions", thief.address).into_boxed_str());
    let headers: &'static [(&'static str, &'static str)] = Box::leak(Box::new([("location", location)]));
    let server = Server::start([Answer::Status(307, headers, String::new())]).await;
    assert!(fleet_at(&server, OpenAi).run(spec("hi")).await.is_err());
    assert_eq!(thief.count(), 0);
}

#[tokio::test]
async fn refusals_and_overflows_are_recognised_on_both_protocols() {
    let refusal = Answer::Stream(vec![anthropic::start(), anthropic::end("refusal", 2)], After::Close);
    let filtered = Answer::Stream(vec![openai::piece("I"), openai::end("content_filter", 5, 1, 0)], After::Close);
    let window =
        Answer::Stream(vec![anthropic::start(), anthropic::text_block("x"), anthropic::end("model_context_window_exceeded", 2)], After::Close);
    let too_long = |message: &str| Answer::Status(400, &[], json!({ "error": { "code": 400, "type": "x", "message": message } }).to_string());
    for (kind, answer, code) in [
        (Anthropic, refusal, Code::Refused),
        (OpenAi, filtered, Code::Refused),
        (Anthropic, window, Code::ContextOverflow),
        (Anthropic, too_long("prompt is too long: 300000 tokens > 200000 maximum"), Code::ContextOverflow),
        (OpenAi, too_long("context_length_exceeded"), Code::ContextOverflow),
        (OpenAi, too_long("exceed_context_size_error"), Code::ContextOverflow),
        (OpenAi, too_long("bad model"), Code::Provider),
    ] {
        let server = Server::start([answer]).await;
        assert_eq!((fleet_at(&server, kind).code(spec("hi")).await, server.count()), (code, 1), "{kind:?}");
    }
}

#[tokio::test]
async fn arguments_cut_in_the_middle_are_not_executed() {
    let cut = r#"{"path":"/tmp/a","content":"ha"#;
    for (kind, answers) in [
        (OpenAi, [openai::call("write_file", cut, "length"), openai::text(&["gave up"])]),
        (Anthropic, [anthropic::thinking_then_call("write_file", cut, "max_tokens"), anthropic::text(&["gave up"])]),
        (OpenAi, [openai::call("write_file", cut, "tool_calls"), openai::text(&["gave up"])]),
    ] {
        let server = Server::start(answers).await;
        let fleet = fleet_at(&server, kind);
        assert!(fleet.run(with_tools(&["write_file"])).await.is_ok(), "{kind:?}");
        assert_eq!(fleet.desk.record.lines(), vec![], "{kind:?}");
        assert!(server.seen(1).body.to_string().contains("Not done:"), "{kind:?}");
    }
}

#[tokio::test]
async fn a_dropped_stream_is_tried_again_and_its_reservation_is_paid() {
    let begun = |kind| match kind {
        OpenAi => vec![openai::piece("Hel")],
        _ => vec![anthropic::start(), anthropic::text_block("Hel")],
    };
    for (kind, ok) in [(OpenAi, openai::text(&["Hello"])), (Anthropic, anthropic::text(&["Hello"]))] {
        for after in [After::Close, After::Drop] {
            let server = Server::start([Answer::Stream(begun(kind), after), ok.clone()]).await;
            let fleet = fleet_at(&server, kind);
            let answer = fleet.run(AgentSpec { max_tokens: Some(500), ..spec("hi") }).await.unwrap();
            assert_eq!(answer.value.as_str(), r#""Hello""#);
            let entries: Vec<_> = fleet.ledger.lock().unwrap().entries().map(|e| (e.estimated, e.settled == Some(e.reserved))).collect();
            assert_eq!(entries, [(true, true), (false, false)], "{kind:?}");
            assert!(answer.tokens > 525 && answer.cost.is_none(), "an unknown usage makes the cost unknown, not 0");
        }
    }
}

#[tokio::test]
async fn an_error_inside_a_200_is_an_error() {
    for (kind, answer, code, calls) in [
        (Anthropic, anthropic::error("overloaded_error"), Code::RateLimited, 5),
        (Anthropic, anthropic::error("invalid_request_error"), Code::Provider, 1),
        (OpenAi, openai::error(json!({ "message": "no", "type": "rate_limit_error" })), Code::RateLimited, 5),
        (OpenAi, openai::error(json!({ "message": "no", "code": 400 })), Code::Provider, 1),
        (OpenAi, Answer::Status(200, &[], r#"{"error":{"message":"no"}}"#.into()), Code::Provider, 5),
        (OpenAi, Answer::Status(200, &[], "<html>log in</html>".into()), Code::Provider, 5),
    ] {
        let server = Server::start(vec![answer; 5]).await;
        let fleet = fleet_at(&server, kind);
        let run = tokio::spawn(agent::run_agent(spec("hi"), fleet.context()));
        while server.count() == 0 {
            tokio::task::yield_now().await;
        }
        // From here on only back-off passes: no time of ours.
        let ended = fast_forward(run).await;
        assert_eq!((ended.unwrap_err().code, server.count()), (code, calls), "{kind:?}");
    }
}

/// Lets pauses pass at once, real answers come in real time.
async fn fast_forward<T>(mut task: tokio::task::JoinHandle<T>) -> T {
    loop {
        tokio::select! {
            biased;
            done = &mut task => return done.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                tokio::time::pause();
                tokio::time::advance(Duration::from_secs(40)).await;
                tokio::time::resume();
            }
        }
    }
}

#[tokio::test]
async fn two_minutes_without_a_byte_is_a_stall() {
    for (kind, begun) in [(OpenAi, vec![openai::piece("Hel")]), (Anthropic, vec![anthropic::start(), anthropic::text_block("Hel")])] {
        let server = Server::start([Answer::Stream(begun, After::Hang)]).await;
        let fleet = fleet_at(&server, kind);
        let run = tokio::spawn(agent::run_agent(spec("hi"), fleet.context()));
        while !fleet.desk.record.events().iter().any(|e| matches!(e, FleetWhat::AgentText { .. })) {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        let before = tokio::time::Instant::now();
        let error = run.await.unwrap().unwrap_err();
        assert_eq!((error.code, before.elapsed().as_secs()), (Code::Stalled, 120), "{kind:?}");
        assert_eq!(fleet.spent(), (error.tokens, 0));
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_model_that_talks_past_its_allowance_is_cut() {
    let endless = |n| (0..n).map(|_| openai::piece(" word")).collect::<Vec<_>>();
    let server = Server::start([Answer::Stream(endless(500), After::Hang)]).await;
    let fleet = fleet_at(&server, OpenAi);
    let error = fleet.run(AgentSpec { max_tokens: Some(100), ..spec("hi") }).await.unwrap_err();
    assert_eq!((error.code, fleet.spent()), (Code::Cut, (error.tokens, 0)));
    let pieces = fleet.desk.record.events().iter().filter(|e| matches!(e, FleetWhat::AgentText { .. })).count();
    assert!(pieces <= 101, "{pieces}");
}

#[tokio::test]
async fn local_servers_are_found_with_their_models() {
    let list = json!({ "object": "list", "data": [{ "id": "smol" }, { "id": "big" }] }).to_string();
    let server = Server::start([Answer::Status(200, &[], list)]).await;
    let found = discover(&[("llamacpp", OpenAi, server.address.as_str()), ("ollama", ProviderKind::Ollama, "http://127.0.0.1:1")]).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), &found[0].models), ("llamacpp", &vec!["smol".to_owned(), "big".to_owned()]));
}

#[tokio::test]
async fn a_schema_is_asked_for_in_each_providers_own_way() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    for (kind, answer, pointer) in [
        (OpenAi, openai::text(&[r#"{"n":1}"#]), "/response_format/json_schema/schema"),
        (Anthropic, anthropic::text(&[r#"{"n":1}"#]), "/output_config/format/schema"),
    ] {
        let server = Server::start([answer]).await;
        let fleet = fleet_at(&server, kind);
        let got = fleet.run(AgentSpec { schema: Some(schema.clone()), ..spec("count") }).await.unwrap();
        assert_eq!(got.value.as_str(), r#"{"n":1}"#);
        let body = server.seen(0).body;
        assert_eq!(body.pointer(pointer).unwrap()["required"], json!(["n"]), "{kind:?}: {body}");
    }
}

fn ollama_at(server: &Server) -> Fleet {
    let address = server.address.trim_end_matches("/v1").to_owned();
    let mut models = Models::new();
    models.add_provider(Provider { address: Some(address), context: Some(4_096), ..Provider::new("o", ProviderKind::Ollama) });
    models.alias("default", "o/qwen3");
    Fleet::new(models)
}
fn ollama(lines: &[serde_json::Value], after: After) -> Answer {
    Answer::Stream(lines.iter().map(|l| format!("{l}\n")).collect(), after)
}
fn ollama_end(reason: &str, input: u64, output: u64) -> serde_json::Value {
    json!({ "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": reason, "prompt_eval_count": input, "eval_count": output })
}
fn ollama_text(text: &str) -> serde_json::Value {
    json!({ "message": { "role": "assistant", "content": text }, "done": false })
}

#[tokio::test]
async fn ollama_is_spoken_natively_with_its_context_set() {
    let desk = Desk::new(RuleBook::default());
    std::fs::write(desk.path("n"), "42").unwrap();
    let call = json!({ "message": { "role": "assistant", "content": "", "tool_calls": [{ "function": { "name": "read_file", "arguments": { "path": desk.path("n") } } }] }, "done": false });
    let server = Server::start([
        ollama(&[call, ollama_end("stop", 30, 9)], After::Close),
        ollama(&[ollama_text("4"), ollama_text("2"), ollama_end("stop", 50, 2)], After::Close),
    ])
    .await;
    let fleet = Fleet { desk, ..ollama_at(&server) };
    let answer = fleet.run(AgentSpec { system: Some("Be brief.".into()), max_tokens: Some(64), ..with_tools(&["read_file"]) }).await.unwrap();
    assert_eq!((answer.value.as_str(), answer.usage.input, answer.usage.output), (r#""42""#, 80, 11));
    let first = server.seen(0);
    assert_eq!((first.path.as_str(), &first.body["options"]), ("/api/chat", &json!({ "num_ctx": 4_096, "num_predict": 64 })));
    assert_eq!((&first.body["messages"][0]["role"], &first.body["tools"][0]["function"]["name"]), (&json!("system"), &json!("read_file")));
    let second = server.seen(1).body["messages"].clone();
    assert_eq!(
        (&second[2]["tool_calls"][0]["function"]["name"], &second[3]["role"], &second[3]["tool_name"]),
        (&json!("read_file"), &json!("tool"), &json!("read_file"))
    );
}

#[tokio::test]
async fn ollamas_failures_mean_what_they_mean_elsewhere() {
    let schema = json!({ "type": "object", "required": ["n"] });
    let server = Server::start([ollama(&[ollama_text(r#"{"n":1}"#), ollama_end("stop", 9, 4)], After::Close)]).await;
    assert!(ollama_at(&server).run(AgentSpec { schema: Some(schema.clone()), ..spec("x") }).await.is_ok());
    assert_eq!(server.seen(0).body["format"], schema);
    for (answer, code) in [
        (ollama(&[ollama_text("x"), ollama_end("length", 9, 4)], After::Close), Code::Cut),
        (ollama(&[ollama_text("x"), ollama_end("stop", 4_096, 4)], After::Close), Code::ContextOverflow),
        (Answer::Status(404, &[], r#"{"error":"model 'qwen3' not found"}"#.into()), Code::Provider),
        (Answer::Status(400, &[], r#"{"error":"exceed_context_size"}"#.into()), Code::ContextOverflow),
    ] {
        let server = Server::start([answer]).await;
        assert_eq!((ollama_at(&server).code(spec("hi")).await, server.count()), (code, 1));
    }
    let dropped =
        Server::start([ollama(&[ollama_text("Hel")], After::Close), ollama(&[ollama_text("Hello"), ollama_end("stop", 9, 4)], After::Close)]).await;
    assert_eq!(ollama_at(&dropped).run(spec("hi")).await.unwrap().value.as_str(), r#""Hello""#);
    let endless = ollama(&(0..500).map(|_| ollama_text(" word")).collect::<Vec<_>>(), After::Hang);
    let server = Server::start([endless]).await;
    assert_eq!(ollama_at(&server).code(AgentSpec { max_tokens: Some(100), ..spec("hi") }).await, Code::Cut);
}
