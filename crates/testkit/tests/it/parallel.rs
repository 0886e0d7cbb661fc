//! Simulations side by side: each has a thread and a runtime of its own, with a clock that is paused.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Runs a simulation; what it panics with is said in words.
pub(crate) fn simulate<T>(doing: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(doing)));
    ran.map_err(|panic| words(&*panic))
}

/// Does something with each, as many at a time as there are processors; the results are in order.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let take = || {
        while let Some((index, item)) = {
            let index = next.fetch_add(1, Ordering::SeqCst);
            items.get(index).map(|item| (index, item))
        } {
            let result = work(item);
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((index, result));
        }
    };
    let many = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..many).for_each(|_| drop(scope.spawn(take))));
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns what a panic said.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let plain = || panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(plain)
        .unwrap_or_else(|| "a panic without words".to_owned())
}
