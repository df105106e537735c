//! stub
use super::*;
pub(super) struct Folders;
impl Folders {
    pub(super) fn open(_f: &[Grant], _e: &[PathBuf]) -> (Self, Vec<GrantRefused>) {
        (Self, vec![])
    }
    pub(super) fn check(_g: &Grant, _e: &[PathBuf]) -> Result<(), GrantRefused> {
        Ok(())
    }
}
pub(super) fn definitions() -> Vec<ToolDefinition> {
    vec![]
}
pub(super) fn prepare(_f: &Folders, tool: &str, _i: &RawJson) -> Result<Prepared, PrepareError> {
    Err(PrepareError::Unknown(tool.into()))
}
