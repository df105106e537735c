//! Everything the desktop does without a window: store, relay, outbox, sharing, history.
pub mod crash;
pub mod net;
pub mod ports;
pub mod relay;
pub mod sharing;
pub mod store;
pub mod view;
