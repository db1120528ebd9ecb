//! The runner of sympy, `bin/test -C --verbose`. It writes no result file and
//! keys tests by bare function name, so two files with one name share a verdict
//! (the worse one).

use super::{Status, Statuses, record};

/// Read lines such as `test_diff ok`, `test_diff F`, and failure headers.
pub(super) fn verbose_log(log: &str) -> Statuses {
    let mut statuses = Statuses::new();
    for line in log.lines().map(str::trim) {
        if let Some(test) = failure_header(line) {
            record(&mut statuses, test, Status::Failed);
            continue;
        }
        if !line.starts_with("test_") {
            continue;
        }
        let mut words = line.split_whitespace();
        let (Some(test), Some(word)) = (words.next(), words.next_back()) else {
            continue;
        };
        let status = match word {
            "ok" => Status::Passed,
            "F" => Status::Failed,
            "E" => Status::Error,
            "f" => Status::Xfail,
            "X" => Status::Xpass,
            "s" | "w" => Status::Skipped,
            _ => continue,
        };
        record(&mut statuses, test.to_owned(), status);
    }
    statuses
}

/// The test of `___ sympy/core/tests/test_x.py:test_y ___`.
fn failure_header(line: &str) -> Option<String> {
    let inner = line.strip_prefix('_')?.strip_suffix('_')?.trim_matches('_').trim();
    let (_, test) = inner.split_once(".py:")?;
    (!test.contains(' ')).then(|| test.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verbose_log_is_read() {
        let log = "sympy/core/tests/test_a.py[3] \ntest_a ok\ntest_b F\ntest_c E\ntest_d f\n\
            ____ sympy/core/tests/test_a.py:test_a ____\n";
        let read = verbose_log(log);
        assert_eq!(read["test_a"], Status::Failed);
        assert_eq!(read["test_b"], Status::Failed);
        assert_eq!(read["test_c"], Status::Error);
        assert_eq!(read["test_d"], Status::Xfail);
    }
}
