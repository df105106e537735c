//! Where rulings and events of one execution go: rulings durably into the log, before the tool acts; events into the story.
use std::sync::{Arc, OnceLock, Weak};

use agent::gate::{Record, RulingLine};
use domain::wire::event::FleetWhat;
use engine::Fleet;

use super::story::Story;
use crate::{ports::Clock, store::Store};

pub struct Recorder {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub story: Arc<Story>,
    pub graph: String,
    /// Told after each reservation and settlement. Set once, before the first instruction of the Graph.
    pub fleet: OnceLock<Weak<Fleet>>,
}

impl Recorder {
    /// The execution's ledger was used.
    pub fn ledger_changed(&self) {
        if let Some(fleet) = self.fleet.get().and_then(Weak::upgrade) {
            fleet.ledger_changed();
        }
    }
}

impl Record for Recorder {
    fn ruled(&self, line: &RulingLine) -> Result<(), String> {
        let agent = line.agent.and_then(|number| self.story.label(number));
        self.store.log_ruling(line, &self.graph, agent.as_deref(), self.clock.now()).map_err(|e| e.to_string())
    }

    fn tell(&self, what: FleetWhat) {
        self.story.tell(what);
    }
}
