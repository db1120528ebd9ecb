//! So many at a time.

use std::sync::{Condvar, Mutex, PoisonError};

/// Lets a fixed number of holders in; the others wait.
pub(super) struct Limit {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place, until dropped.
pub(super) struct Place<'a>(&'a Limit);

impl Limit {
    pub(super) fn new(places: usize) -> Self {
        Self { free: Mutex::new(places), freed: Condvar::new() }
    }

    /// Wait for a place.
    pub(super) fn enter(&self) -> Place<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_while(free, |free| *free == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
