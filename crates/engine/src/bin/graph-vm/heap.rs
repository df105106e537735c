//! The heap limit: every allocation is counted, and the process ends at the limit with a code of its own.
//!
//! The interpreter has no heap limit, and an allocation that fails would abort the process without a reason.
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::Ordering,
};

use domain::limits::VM_HEAP_BYTES_MAX;
use engine::vm::{EXIT_OUT_OF_MEMORY, HEAP_USED};

pub struct Counted;

fn take(bytes: usize) {
    let before = HEAP_USED.fetch_add(bytes, Ordering::Relaxed);
    if before.saturating_add(bytes) > VM_HEAP_BYTES_MAX {
        end();
    }
}

fn give_back(bytes: usize) {
    HEAP_USED.fetch_sub(bytes, Ordering::Relaxed);
}

#[allow(unsafe_code)]
fn end() -> ! {
    // SAFETY: ends the process without running anything more; nothing here may allocate.
    unsafe { libc::_exit(EXIT_OUT_OF_MEMORY) }
}

// SAFETY: every method hands its arguments unchanged to the system's allocator; the counter touches no memory it manages.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        give_back(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        give_back(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}
