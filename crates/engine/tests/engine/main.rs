//! Scripts and what becomes of them, against the real script process and its in-process twin.
mod documents;
mod fleets;
mod hostile;
mod outcomes;
mod support;
mod templates;
