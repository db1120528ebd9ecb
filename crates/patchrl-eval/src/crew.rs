//! Many things done at the same time, each heard of as soon as it is done.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Do `task` for every item with `workers` threads, in the order of the items. `heard` gets each
/// result on the caller's thread; once it says that it is enough nothing new is begun, and what is
/// under way is still heard of.
pub fn crew<T: Sync, R: Send>(
    items: &[T],
    workers: usize,
    task: impl Fn(&T) -> R + Sync,
    mut heard: impl FnMut(&T, R) -> bool,
) {
    let (next, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers.max(1).min(items.len()) {
            let sender = sender.clone();
            let (task, next, enough) = (&task, &next, &enough);
            scope.spawn(move || {
                while !enough.load(Ordering::Relaxed)
                    && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
                    && sender.send((item, task(item))).is_ok()
                {}
            });
        }
        drop(sender);
        for (item, result) in results {
            if !heard(item, result) {
                enough.store(true, Ordering::Relaxed);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn everything_is_done_once_or_stopped() {
        let items: Vec<u64> = (0..100).collect();
        let (mut sum, mut count) = (0, 0);
        crew(
            &items,
            4,
            |item| item * 2,
            |item, double| {
                assert_eq!(double, item * 2);
                (sum, count) = (sum + double, count + 1);
                true
            },
        );
        assert_eq!((sum, count), (9900, 100));
        // What is under way when it is stopped is heard, and nothing is begun after it.
        let (mut heard, stopped) = (0, AtomicBool::new(false));
        crew(
            &items,
            2,
            |item| {
                while *item >= 10 && !stopped.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(if *item >= 10 { 20 } else { 0 }));
            },
            |_, ()| {
                heard += 1;
                stopped.store(heard >= 3, Ordering::SeqCst);
                heard < 3
            },
        );
        assert!((3..100).contains(&heard), "{heard}");
        crew(&[], 4, |item: &u64| *item, |_, _| panic!("nothing to do"));
    }
}
