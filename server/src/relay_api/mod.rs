//! `/external-assistants/…`: what a device asks, `protocol.md` §3. Each handler extracts, converts, calls the queue, converts.
mod extract;
mod handlers;
mod held;

use axum::{
    Router,
    routing::{delete, get, patch, post, put},
};

use crate::app::{Access, App, Route};
pub use extract::{Body, From, Id, bearer, too_many};
pub use held::Held;

/// The table of routes and the router made from it, so that no route can be missing from the authorization matrix.
macro_rules! routes {
    ($($method:ident $path:literal $access:ident $handler:ident;)+) => {
        pub const ROUTES: &[Route] = &[$(Route { method: stringify!($method), path: concat!("/external-assistants", $path), access: Access::$access }),+];

        pub fn router() -> Router<App> {
            Router::new()$(.route(concat!("/external-assistants", $path), $method(handlers::$handler)))+
        }
    };
}

routes! {
    post "/pair" Anybody pair;
    delete "/device" Device unpair;
    post "/graph-relays/sync" Device sync;
    post "/graph-relays/doorbell" Device doorbell;
    post "/graph-relays/commands/{id}/start" Device start;
    post "/graph-relays/commands/{id}/control" Device control;
    post "/graph-relays/commands/{id}/complete" Device complete;
    get "/projects" Device projects;
    post "/projects" Device create_project;
    patch "/projects/{id}" Device rename_project;
    delete "/projects/{id}" Device delete_project;
    post "/agent-tokens" Device mint_agent_token;
    post "/connect-codes" Device connect_code;
    post "/sign-in-codes" Device sign_in_code;
    get "/graphs" Device graphs;
    put "/graphs/{id}" Device put_graph;
    delete "/graphs/{id}" Device delete_graph;
    get "/agents" Device agents;
    delete "/agents/{id}" Device revoke_agent;
    get "/commands" Device commands;
    post "/commands/{id}/cancel" Device cancel;
}
