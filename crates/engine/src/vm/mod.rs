//! Where a script runs: in a child process ([`ChildVm`]), or in a thread for tests and simulation ([`InProcessVm`]).
use std::path::PathBuf;

/// A place to run scripts in.
pub trait ScriptVm: Send + Sync + 'static {}

/// One short-lived `graph-vm` process per script.
#[derive(Debug, Clone)]
pub struct ChildVm {
    program: PathBuf,
}

impl ChildVm {
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// `graph-vm` beside the running program, or where the environment variable `GRAPH_VM` (read by the caller) points.
    pub fn beside(current_exe: &std::path::Path) -> Self {
        let name = if cfg!(windows) { "graph-vm.exe" } else { "graph-vm" };
        Self::new(current_exe.with_file_name(name))
    }
    pub fn program(&self) -> &std::path::Path {
        &self.program
    }
}
impl ScriptVm for ChildVm {}

/// The twin: same interpreter on a big-stack thread of this process. Only for scripts that are trusted not to be hostile.
#[derive(Debug, Clone, Default)]
pub struct InProcessVm {}
impl ScriptVm for InProcessVm {}
