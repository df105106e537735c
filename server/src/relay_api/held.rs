//! How many requests of one device are held open at this instance.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use domain::{DeviceId, limits::HELD_REQUESTS_PER_DEVICE_MAX};

use crate::http_error::{ApiError, Code};

#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<HashMap<DeviceId, usize>>>);

/// One held request's place, until dropped.
pub struct Place {
    held: Held,
    device: DeviceId,
}

impl Held {
    pub fn take(&self, device: DeviceId) -> Result<Place, ApiError> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = map.entry(device).or_default();
        if *count >= HELD_REQUESTS_PER_DEVICE_MAX {
            let message = format!("at most {HELD_REQUESTS_PER_DEVICE_MAX} requests of one device are held open");
            return Err(ApiError { retry_after_s: Some(5), ..ApiError::new(Code::TooManyRequests, message) });
        }
        *count += 1;
        Ok(Place { held: self.clone(), device })
    }

    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut map = self.held.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = map.get_mut(&self.device) {
            *count -= 1;
            if *count == 0 {
                map.remove(&self.device);
            }
        }
    }
}
