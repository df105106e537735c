//! Everything the desktop does without a window: store, relay, outbox, sharing, history.
pub mod view;
