//! `/external-assistants/…`: what a device asks, `protocol.md` §3. Each handler extracts, converts, calls the queue, converts.
mod extract;
mod handlers;
mod held;

use axum::{
    Router,
    routing::{delete, get, patch, post},
};

use crate::app::App;
pub use extract::{From, bearer, too_many};
pub use held::Held;

pub fn router() -> Router<App> {
    use handlers as h;
    let api = Router::new()
        .route("/pair", post(h::pair))
        .route("/device", delete(h::unpair))
        .route("/graph-relays/sync", post(h::sync))
        .route("/graph-relays/doorbell", post(h::doorbell))
        .route("/graph-relays/commands/{id}/start", post(h::start))
        .route("/graph-relays/commands/{id}/control", post(h::control))
        .route("/graph-relays/commands/{id}/complete", post(h::complete))
        .route("/projects", get(h::projects).post(h::create_project))
        .route("/projects/{id}", patch(h::rename_project).delete(h::delete_project))
        .route("/agent-tokens", post(h::mint_agent_token))
        .route("/connect-codes", post(h::connect_code))
        .route("/agents", get(h::agents))
        .route("/agents/{id}", delete(h::revoke_agent))
        .route("/commands", get(h::commands))
        .route("/commands/{id}/cancel", post(h::cancel));
    Router::new().nest("/external-assistants", api)
}
