//! Being an init in a test binary whose `main` belongs to the test harness.
//!
//! Runs before `main`, when there is one thread and the standard library has
//! its arguments. Products call [`crate::init_main`] instead.

use std::ffi::{c_char, c_int};

type Constructor = extern "C" fn(c_int, *const *const c_char, *const *const c_char);

#[used]
#[expect(unsafe_code, reason = "the section of functions that run before main")]
// SAFETY: the section holds pointers to functions of this type.
#[unsafe(link_section = ".init_array")]
static EARLY: Constructor = early;

extern "C" fn early(_: c_int, _: *const *const c_char, _: *const *const c_char) {
    if let Some(code) = crate::init_main() {
        #[expect(unsafe_code, reason = "main must not run")]
        // SAFETY: ends the process at once.
        unsafe {
            libc::_exit(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Job, Local, TierChoice};

    #[test]
    fn a_sandbox_starts_from_a_standard_test_binary() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().join("base");
        fs_err::create_dir(&base).unwrap();
        let local = match Local::start(TierChoice::Auto, &temp.path().join("state")) {
            Ok(local) => local,
            Err(e) => {
                println!("skipped: {e}");
                return;
            }
        };
        let output = local.run(&Job::new(base, ["sh", "-c", "exit 3"])).unwrap();
        assert_eq!(output.ending, crate::Ending::Exited(3));
    }
}
