//! How much room the story of an execution takes: events, compressed transcripts, answers kept for a resume. Prints a line per figure and
//! writes the same to `target/bench/journal.json`. `scripts/bench engine`.
use std::path::Path;

use device::store::{NewExecution, Origin, Piece, RunningTotals, Store};
use domain::{
    ExecutionId, GraphSessionId, Outcome, RawJson, Timestamp,
    completion::Used,
    wire::event::{AgentEnd, FleetEvent, FleetWhat},
};
use serde_json::{Map, json};

type Failed = Box<dyn std::error::Error>;

/// What one agent says: about a page.
const WORDS_SAID: usize = 700;
const WORDS_ANSWERED: usize = 80;

fn main() -> Result<(), Failed> {
    let mut report = Map::new();
    let mut figure = |key: &str, what: &str, bytes: u64| {
        println!("{what:<52} {:>9.1} KB", bytes as f64 / 1000.0);
        report.insert(key.to_owned(), json!(bytes));
    };
    let (text, one, few) = (said(7).len() as u64, stored(1)?, stored(50)?);
    let all = stored(500)?;
    figure("said_bytes", "what one agent says, as text", text);
    figure("one_agent_bytes", "an execution of one agent, on the disk", one);
    figure("fifty_agents_bytes", "an execution of 50 agents", few);
    figure("five_hundred_agents_bytes", "an execution of 500 agents", all);
    figure("per_agent_bytes", "each agent of the 500", all / 500);
    figure("after_pruning_bytes", "what stays of 500 agents after the retention time", pruned(500)?);
    let dir = Path::new(env!("CARGO_BIN_EXE_graph-deskd")).parent().and_then(Path::parent).ok_or("no target folder")?.join("bench");
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("journal.json"), serde_json::to_string_pretty(&report)?)?;
    println!("\nwritten to {}", dir.join("journal.json").display());
    Ok(())
}

/// Bytes the database grows by for one execution of so many agents.
fn stored(agents: u64) -> Result<u64, Failed> {
    let folder = tempfile::tempdir()?;
    let empty = size_of_closed(folder.path(), |_| Ok(()))?;
    Ok(size_of_closed(folder.path(), |store| tell(store, agents))?.saturating_sub(empty))
}

/// What of that is still in use after the retention time. The file keeps its length; its free pages are used again.
fn pruned(agents: u64) -> Result<u64, Failed> {
    let folder = tempfile::tempdir()?;
    size_of_closed(folder.path(), |store| tell(store, agents))?;
    let before = size_of_closed(folder.path(), |store| {
        store.prune_executions(Timestamp::from_ms(1_000_000))?;
        Ok(store.prune_stories(Timestamp::from_ms(1_000_000))?)
    })?;
    let again = size_of_closed(folder.path(), |store| tell(store, agents))?;
    Ok(again.saturating_sub(before))
}

/// The database's size once the store has closed and nothing lies in its log.
fn size_of_closed(folder: &Path, work: impl FnOnce(&Store) -> Result<(), Failed>) -> Result<u64, Failed> {
    let store = Store::open(folder, Timestamp::from_ms(0))?;
    work(&store)?;
    drop(store);
    let files = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.metadata().ok());
    Ok(files.map(|file| file.len()).sum())
}

fn tell(store: &Store, agents: u64) -> Result<(), Failed> {
    let id = ExecutionId::from_random([1; 16]);
    let args = RawJson::empty_object();
    let graph = GraphSessionId::from_random([2; 16]);
    let new =
        NewExecution { id: id.clone(), graph, graph_name: "Bench".into(), version: 1, args, dry: false, resumed_from: None, origin: Origin::Owner };
    store.begin_execution(&new, Timestamp::from_ms(0))?;
    let mut seq = 0;
    for agent in 1..=agents {
        let events: Vec<FleetEvent> = story(agent)
            .into_iter()
            .map(|what| {
                seq += 1;
                FleetEvent { seq, at: Timestamp::from_ms(0), what }
            })
            .collect();
        store.append_events(&id, &events, RunningTotals::default())?;
        store.save_transcript(&id, agent, &[Piece { after: seq, at: Timestamp::from_ms(0), text: said(agent) }])?;
        store.keep_answer(&id, &format!("{agent:064x}"), &RawJson::of(&json!(words(agent, WORDS_ANSWERED))))?;
    }
    let outcome = Outcome::Completed { result: RawJson::of(&json!({ "agents": agents })), used: Used::default() };
    store.end_execution(&id, &outcome, &Default::default(), Timestamp::from_ms(1))?;
    Ok(())
}

/// What the engine and the agent tell of one agent with one model call.
fn story(agent: u64) -> Vec<FleetWhat> {
    let ledger = |spent, held| FleetWhat::Ledger { spent, held, ceiling: 5_000_000, cost: Some(0.01) };
    vec![
        FleetWhat::AgentQueued {
            agent,
            label: format!("review file {agent}"),
            phase: Some("Review".into()),
            wave: Some(1),
            model: "default".into(),
            line: Some(12),
            prompt: words(agent + 1, 60),
            called: Vec::new(),
        },
        FleetWhat::AgentStarted { agent },
        ledger(agent * 900, 4_500),
        FleetWhat::ModelCall { agent, turn: 1, attempt: 1, input: 400, output: 500, cached: 0, estimated: false, cost: Some(0.01), ms: 3_200 },
        ledger(agent * 900 + 900, 0),
        FleetWhat::AgentFinished { agent, end: AgentEnd::Done, code: None, message: None, tokens: 900, cost: Some(0.01), ms: 3_300 },
    ]
}

fn said(agent: u64) -> String {
    words(agent, WORDS_SAID)
}

/// Something like prose: common words often, rare ones rarely, never the same page twice.
fn words(seed: u64, count: usize) -> String {
    const SYLLABLES: [&str; 16] = ["re", "lay", "que", "con", "sent", "ing", "er", "the", "al", "ti", "on", "ma", "pro", "ver", "de", "is"];
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut out = String::new();
    for _ in 0..count {
        // The smaller of two draws: a skew like that of language.
        let word = next(3_000).min(next(3_000));
        let mut left = word + 1;
        while left > 0 {
            out.push_str(SYLLABLES[(left % 16) as usize]);
            left /= 16;
        }
        out.push_str(if next(12) == 0 { ". " } else { " " });
    }
    out
}
