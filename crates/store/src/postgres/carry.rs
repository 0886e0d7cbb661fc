//! Who carries the bytes of a connection: a task of its own, or the task that uses it.

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// How long a connection may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Carries connections.
#[derive(Clone)]
pub(super) enum Carrier {
    /// Each has a task.
    Tasks(TaskTracker),
    /// The newest one is carried by whoever runs [`Slot::beside`]. From a task that uses a
    /// connection to one that carries it and back is two changes of tasks, and often of threads,
    /// for each answer: as much as the answer takes.
    Slot(Arc<Slot>),
}

impl Carrier {
    /// Takes a connection on.
    pub(super) fn carry(&self, connection: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Tasks(tasks) => drop(tasks.spawn(connection)),
            Self::Slot(slot) => *slot.lock() = Some(Box::pin(connection)),
        }
    }
}

/// A connection that is carried by the task that uses it.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<BoxFuture<'static, ()>>>);

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl Slot {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<BoxFuture<'static, ()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut carried = self.lock();
        let Some(connection) = carried.as_mut() else {
            return Poll::Ready(());
        };
        let ended = connection.as_mut().poll(context);
        if ended.is_ready() {
            *carried = None;
        }
        ended
    }

    /// Runs something that uses the connection, which is carried meanwhile and to its end.
    pub(super) async fn beside<T>(&self, work: impl Future<Output = T>) -> T {
        let done = {
            let mut work = pin!(work);
            poll_fn(|context| {
                // What has come goes to whoever waits for it, and then what that asks for goes out.
                let _idle = self.poll(context);
                let done = work.as_mut().poll(context);
                let _idle = self.poll(context);
                done
            })
            .await
        };
        drop(timeout(GOODBYE, poll_fn(|context| self.poll(context))).await);
        done
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_is_carried_by_who_asks() {
        let (slot, (ask, mut asked)) = (Arc::new(Slot::default()), mpsc::unbounded_channel::<u8>());
        let (answer, mut answers) = mpsc::unbounded_channel();
        let carrier = Carrier::Slot(slot.clone());
        let work = async {
            carrier.carry(async move {
                while let Some(number) = asked.recv().await {
                    answer.send(number + 1).unwrap();
                }
                answer.send(0).unwrap();
            });
            for number in 1..100 {
                ask.send(number).unwrap();
                assert_eq!(answers.recv().await, Some(number + 1));
            }
            drop(ask);
            answers
        };
        let mut answers = slot.beside(work).await;
        assert_eq!(answers.recv().await, Some(0), "it came to its end");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_says_no_goodbye_is_let_go() {
        let slot = Arc::new(Slot::default());
        Carrier::Slot(slot.clone()).carry(std::future::pending());
        assert_eq!(slot.beside(async { 7 }).await, 7);
    }
}
