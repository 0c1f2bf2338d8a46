//! The allocator, and when it gives memory back.
#![allow(unsafe_code)] // One call into the allocator, which has no safe form.

use tidegate_runtime::PreparedJob;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc's header: the crate has no name for it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// After how long memory that was freed goes back to the system, in milliseconds. Tables of state that are built anew
/// all the time leave as much behind in mimalloc's second as they hold; what is wanted again sooner than this would
/// only be cleared anew.
const SOON_MS: i64 = 100;

/// Keeps a process whose state is limited in memory to that limit. Any other job's memory stays as fast as can be.
pub fn suit(job: &PreparedJob) {
    if job.limits_memory() {
        give_back_soon();
    }
}

fn give_back_soon() {
    // SAFETY: sets a number in the allocator's table of options, atomically; it may be called at any time from any
    // thread, and an option it does not have is ignored.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, SOON_MS as std::ffi::c_long) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_one_of_this_version() {
        // SAFETY: reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "mimalloc's own delay; if it is another one, look up the option's number anew");
        give_back_soon();
        assert_eq!(delay(), SOON_MS as std::ffi::c_long);
    }
}
