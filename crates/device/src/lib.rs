//! Everything the desktop does without a window: store, relay, outbox, sharing, history.
pub mod crash;
pub mod desk;
pub mod net;
pub mod ports;
pub mod real;
pub mod relay;
pub mod runs;
pub mod secrets;
pub mod sharing;
pub mod store;
pub mod view;
