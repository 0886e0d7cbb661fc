//! The suite that every implementation of [`Model`] passes, played against the scripted model.
//!
//! An implementation is made to reach a [`Scripted`](crate::Scripted) one, directly or through
//! whatever it is about, and must show all that the script says.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a suite of assertions; a failure here is a failed test"
)]

use std::sync::Arc;

use crate::Model;

mod answers;
mod chat;
mod failures;
mod refusals;

pub use chat::Chat;

/// Runs the whole suite.
///
/// `factory` makes a fresh model for each case. A case fails by panicking.
///
/// # Panics
/// If the model does not do what the seam promises.
pub async fn run<F, M>(factory: F)
where
    F: Fn() -> M,
    M: Future<Output = Arc<dyn Model>>,
{
    answers::speaks(factory().await).await;
    answers::calls_tools_and_reads_results(factory().await).await;
    answers::keeps_blocks_as_they_are(factory().await).await;
    answers::stops_for_every_reason(factory().await).await;
    answers::cuts_at_max_tokens(factory().await).await;
    answers::pauses_and_goes_on(factory().await).await;
    answers::reports_usage(factory().await).await;
    answers::streams_long_answers(factory().await).await;
    answers::repeats_itself(factory().await).await;
    answers::serves_many_at_once(factory().await).await;
    answers::survives_being_dropped(factory().await).await;
    answers::follows_without_a_script(factory().await).await;
    failures::come_in_every_class(factory().await).await;
    failures::end_after_their_times(factory().await).await;
    failures::come_in_the_middle(factory().await).await;
    refusals::of_broken_requests(factory().await).await;
    refusals::of_changed_thinking(factory().await).await;
    refusals::of_too_much(factory().await).await;
}
