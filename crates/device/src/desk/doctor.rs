//! Doctor: asks each hop between this computer and a result, and names the broken one in words.
use super::{Desk, errors::not_yet};
use crate::view::{DoctorReport, ErrorView};

impl Desk {
    pub async fn doctor_run(&self) -> Result<DoctorReport, ErrorView> {
        Err(not_yet("Doctor"))
    }
}
