//! Whether a host answers: asked again and again, whatever else is asked of it and however long that
//! takes.

use std::{pin::pin, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::Silence;

/// How long between two looks at a question that waits for its answer.
const LOOK: Duration = Duration::from_secs(5);

/// Looks in vain after which a host is called silent: a machine under load, not a normal one.
const SILENT: u32 = 2;

/// Looks in vain after which nobody should wait for it any more.
const HOPELESS: u32 = 6;

/// A host that does not answer.
#[derive(Clone, Debug)]
struct Quiet {
    silence: Silence,
    hopeless: bool,
}

/// What is known of whether a host answers.
#[derive(Debug, Default)]
pub(super) struct Pulse(watch::Sender<Option<Quiet>>);

impl Pulse {
    /// Waits for the answer to a question that a host can answer at once, and notes how long that takes.
    pub(super) async fn feel<T>(
        &self,
        who: impl Fn() -> String,
        asked: impl Future<Output = T>,
    ) -> T {
        let (since, mut asked) = (Instant::now(), pin!(asked));
        // Counted, not measured: whoever was stopped along with the host gives it as long again.
        let mut looks = 0_u32;
        loop {
            if let Ok(answer) = timeout(LOOK, &mut asked).await {
                self.answers();
                return answer;
            }
            looks = looks.saturating_add(1);
            if looks >= SILENT {
                self.is_silent(Silence { who: who(), since }, looks);
            }
        }
    }

    fn answers(&self) {
        if let Some(Quiet { silence, .. }) = self.0.send_replace(None) {
            tracing::info!("{} answers again", silence.who);
        }
    }

    fn is_silent(&self, silence: Silence, looks: u32) {
        if looks == SILENT || looks == HOPELESS {
            tracing::warn!("{silence}");
        }
        let hopeless = looks >= HOPELESS;
        self.0.send_replace(Some(Quiet { silence, hopeless }));
    }

    /// Says since when the host is silent, if it is.
    pub(super) fn silence(&self) -> Option<Silence> {
        let quiet = self.0.borrow();
        quiet.as_ref().map(|quiet| quiet.silence.clone())
    }

    /// Waits until nobody should wait for the host any more.
    pub(super) async fn hopeless(&self) -> Silence {
        let mut known = self.0.subscribe();
        loop {
            let found = known.borrow_and_update().clone();
            if let Some(Quiet { silence, .. }) = found.filter(|quiet| quiet.hopeless) {
                return silence;
            }
            // The sender lives as long as `self` does.
            drop(known.changed().await);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use tokio::time::sleep;

    use super::*;

    fn who() -> String {
        "the host".to_owned()
    }

    async fn after(seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_answers_late_is_silent_until_then_and_nobody_waits_long() {
        let pulse = Arc::new(Pulse::default());
        pulse.feel(who, after(9)).await;
        assert!(pulse.silence().is_none());
        let began = Instant::now();
        let (asked, watched) = (pulse.clone(), pulse.clone());
        let watch = async move {
            after(11).await;
            assert_eq!(watched.silence().unwrap().since, began);
            assert!(watched.hopeless().now_or_never().is_none());
            let silence = watched.hopeless().await;
            assert!(began.elapsed() >= LOOK * HOPELESS);
            assert!(
                silence.to_string().contains("has not answered for 30 s"),
                "{silence}"
            );
        };
        tokio::join!(asked.feel(who, after(100)), watch);
        assert!(pulse.silence().is_none());
        assert!(
            pulse.hopeless().now_or_never().is_none(),
            "it answers again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_the_whole_machine_is_no_silence() {
        let pulse = Pulse::default();
        let mut asked = Box::pin(pulse.feel(who, after(100_000)));
        assert!((&mut asked).now_or_never().is_none());
        // Nothing runs for an hour, as if this process was stopped too.
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert!((&mut asked).now_or_never().is_none());
        assert!(pulse.silence().is_none());
    }
}
