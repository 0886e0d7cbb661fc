//! The suite that every driver must pass.
//!
//! Each check gets a driver of its own from the factory, and panics with what was expected.

#![expect(
    clippy::panic,
    clippy::expect_used,
    reason = "it is a test suite that other crates' tests call"
)]

mod deed;
mod files;
mod layers;
mod outlets;

use std::{sync::Arc, time::Duration};

use outlast_protocol::{
    CallResult, Micros, Outcome,
    id::{EventId, IncarnationId},
    seam::Entropy,
};
use serde_json::value::RawValue;

use crate::{
    CallError, Fence, Hand, HandLost, Keep, Promise, ProvisionError, Provisioner, Recalled, Recipe,
};

pub use deed::Deed;

/// Long enough for a machine under load; no check waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(60);

/// A driver, and calls that it understands.
#[derive(Debug)]
pub struct Fixture {
    /// The driver.
    pub provisioner: Arc<dyn Provisioner>,
    /// For ids.
    pub entropy: Arc<dyn Entropy>,
    /// A tool and an input that succeed, with another text each time they run.
    pub quick: (&'static str, &'static str),
    /// A tool and an input that do not end by themselves.
    pub endless: (&'static str, &'static str),
    /// Makes the tool and the input that do something with files.
    pub deed: fn(&Deed) -> (String, String),
}

impl Fixture {
    /// Draws a new call id.
    fn call(&self) -> EventId {
        EventId::mint(Micros(1_700_000_000_000_000), &*self.entropy)
    }

    /// Draws a recipe of a new incarnation.
    fn recipe(&self) -> Recipe {
        let incarnation = IncarnationId::mint(Micros(1_700_000_000_000_000), &*self.entropy);
        Recipe::new(incarnation)
    }

    /// Returns the recipe of an incarnation.
    fn recipe_of(&self, incarnation: IncarnationId) -> Recipe {
        Recipe {
            incarnation,
            ..self.recipe()
        }
    }

    /// Returns an input as a hand takes it.
    fn input(&self, input: &str) -> Box<RawValue> {
        RawValue::from_string(input.to_owned()).expect("a fixture's input is JSON")
    }

    /// Makes a hand.
    async fn hand(&self) -> Arc<dyn Hand> {
        self.provisioner
            .provision(&self.recipe())
            .await
            .expect("a hand is made")
    }
}

/// Asks a hand, and panics if there is no answer in a long time.
async fn ask(
    hand: &Arc<dyn Hand>,
    call: EventId,
    (name, input): (&str, &str),
) -> Result<CallResult, HandLost> {
    let input = RawValue::from_string(input.to_owned()).expect("a fixture's input is JSON");
    match in_time(hand.execute(FENCE, call, name, &input)).await {
        Ok(result) => Ok(result),
        Err(CallError::Lost(lost)) => Err(lost),
        Err(stale @ CallError::Stale { .. }) => panic!("no newer brain: {stale}"),
    }
}

/// The brain that asks.
const FENCE: Fence = Fence {
    thread: 0,
    epoch: 5,
};

/// An old brain is refused, of its own thread alone; a hand that is gone says that it is.
async fn a_newer_epoch_fences_the_older(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let (name, input) = fixture.quick;
    let input = RawValue::from_string(input.to_owned()).expect("a fixture's input is JSON");
    let execute = async |thread, epoch| {
        let fence = Fence { thread, epoch };
        in_time(hand.execute(fence, fixture.call(), name, &input)).await
    };
    execute(0, 5).await.expect("the newest is served");
    in_time(hand.raise(Fence {
        thread: 0,
        epoch: 7,
    }))
    .await
    .expect("it lives");
    in_time(hand.raise(FENCE)).await.expect("it lives");
    match execute(0, 6).await {
        Err(CallError::Stale { thread, newest, .. }) => assert_eq!((thread, newest), (0, 7)),
        other => panic!("an old epoch was served: {other:?}"),
    }
    execute(1, 1).await.expect("another thread is served");
    execute(0, 8).await.expect("a newer one is served");
    let old = execute(0, 7).await;
    assert!(matches!(old, Err(CallError::Stale { .. })), "{old:?}");
    let (node, incarnation) = (&fixture.provisioner, hand.incarnation());
    node.reap(incarnation, Keep::Layer)
        .await
        .expect("it is reaped");
    in_time(hand.raise(FENCE)).await.expect_err("it is gone");
}

/// Asks for the quick call, which must succeed.
async fn quick(fixture: &Fixture, hand: &Arc<dyn Hand>, call: EventId) -> CallResult {
    let result = ask(hand, call, fixture.quick)
        .await
        .expect("the hand is there");
    assert!(
        !result.is_error && result.outcome == Outcome::Done,
        "not a success: {result:?}"
    );
    result
}

/// Has something done with files; returns what it came to.
async fn tried(fixture: &Fixture, hand: &Arc<dyn Hand>, deed: &Deed) -> CallResult {
    let (name, input) = (fixture.deed)(deed);
    let asked = ask(hand, fixture.call(), (&name, &input)).await;
    asked.expect("the hand is there")
}

/// Has something done with files, which must succeed; returns what it said.
async fn deed(fixture: &Fixture, hand: &Arc<dyn Hand>, deed: &Deed) -> String {
    let result = tried(fixture, hand, deed).await;
    assert!(
        !result.is_error && result.outcome == Outcome::Done,
        "{deed:?}: {result:?}"
    );
    deed::text(&result)
}

/// Tries something with files that must not succeed.
async fn refused(fixture: &Fixture, hand: &Arc<dyn Hand>, deed: &Deed) {
    let result = tried(fixture, hand, deed).await;
    assert!(result.is_error, "{deed:?}: {result:?}");
}

/// Looks what is at a path.
async fn look(fixture: &Fixture, hand: &Arc<dyn Hand>, path: &str) -> String {
    let path = path.to_owned();
    deed(fixture, hand, &Deed::Look { path }).await
}

/// Waits for a future, but not for ever.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .expect("an answer before the deadline")
}

/// Runs every check, each with a new fixture.
///
/// # Panics
///
/// At the first promise that is not kept.
pub async fn run<F, Fut>(factory: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    one_hand_per_incarnation(&factory().await).await;
    found_while_it_lives(&factory().await).await;
    a_call_runs_at_most_once(&factory().await).await;
    a_running_call_is_joined(&factory().await).await;
    a_call_outlives_its_caller(&factory().await).await;
    a_call_that_waits_can_be_cancelled(&factory().await).await;
    a_cancelled_call_settles_once(&factory().await).await;
    a_newer_epoch_fences_the_older(&factory().await).await;
    a_call_cancelled_before_it_came_never_runs(&factory().await).await;
    death_loses_what_ran_and_keeps_what_was_done(&factory().await).await;
    an_ended_incarnation_stays_ended(&factory().await).await;
    reaping_again_or_the_unknown_is_fine(&factory().await).await;
    the_journal_answers_for_the_dead(&factory().await).await;
    files::run(&factory).await;
    layers::run(&factory).await;
    outlets::run(&factory).await;
}

/// Provisioning again, also at once, gives the same hand.
async fn one_hand_per_incarnation(fixture: &Fixture) {
    let recipe = fixture.recipe();
    let provision = || fixture.provisioner.provision(&recipe);
    let (first, second, third) =
        in_time(async { tokio::join!(provision(), provision(), provision()) }).await;
    let hands = [first, second, third].map(|made| made.expect("a hand is made"));
    let call = fixture.call();
    let result = quick(fixture, &hands[0], call).await;
    for hand in &hands {
        assert_eq!(hand.incarnation(), recipe.incarnation);
        assert_eq!(
            quick(fixture, hand, call).await,
            result,
            "they are not one hand"
        );
    }
    assert_eq!(fixture.provisioner.list().await, [recipe.incarnation]);
}

/// `find` and `list` know a hand from its making to its end.
async fn found_while_it_lives(fixture: &Fixture) {
    let recipe = fixture.recipe();
    let (node, incarnation) = (&fixture.provisioner, recipe.incarnation);
    assert!(node.find(incarnation).await.is_none() && node.list().await.is_empty());
    drop(node.provision(&recipe).await.expect("a hand is made"));
    let hand = node.find(incarnation).await.expect("it is found");
    assert_eq!(hand.incarnation(), incarnation);
    node.reap(incarnation, Keep::Nothing)
        .await
        .expect("it is reaped");
    assert!(node.find(incarnation).await.is_none() && node.list().await.is_empty());
}

/// The same id gives the same result without running again.
async fn a_call_runs_at_most_once(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let call = fixture.call();
    let first = quick(fixture, &hand, call).await;
    assert_eq!(quick(fixture, &hand, call).await, first, "it ran twice");
    let other = quick(fixture, &hand, fixture.call()).await;
    assert_ne!(
        other, first,
        "the quick call must say something else each time"
    );
}

/// Asking for a running call joins it.
async fn a_running_call_is_joined(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let call = fixture.call();
    let stop = async {
        running(fixture, &hand, call).await;
        hand.cancel(call).await;
    };
    let ask = || ask(&hand, call, fixture.endless);
    let (first, second, ()) = in_time(async { tokio::join!(ask(), ask(), stop) }).await;
    let first = first.expect("the hand is there");
    told_as_interrupted(&first);
    assert_eq!(Ok(first), second);
}

/// Holds a result to saying, to code and to a model, that its call was interrupted.
fn told_as_interrupted(result: &CallResult) {
    assert!(
        result.is_error && result.outcome == Outcome::Interrupted,
        "it ran: {result:?}"
    );
    let words = format!("{:?}", result.content);
    assert!(words.contains("interrupted"), "not said: {words}");
}

/// Waits until a call is known to run.
async fn running(fixture: &Fixture, hand: &Arc<dyn Hand>, call: EventId) {
    let known = async {
        while fixture.provisioner.recall(hand.incarnation(), call).await != Recalled::Begun {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(known).await;
}

/// A call whose caller went away goes on and can be asked for.
async fn a_call_outlives_its_caller(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let call = fixture.call();
    let gone = tokio::time::timeout(Duration::from_millis(50), ask(&hand, call, fixture.endless));
    assert!(gone.await.is_err(), "the endless call must not end");
    assert_eq!(
        fixture.provisioner.recall(hand.incarnation(), call).await,
        Recalled::Begun
    );
    in_time(hand.cancel(call)).await;
    let result = ask(&hand, call, fixture.endless)
        .await
        .expect("the hand is there");
    told_as_interrupted(&result);
}

/// So it is for a call that waits behind another, or has only just been handed over.
async fn a_call_that_waits_can_be_cancelled(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let (first, second) = (fixture.call(), fixture.call());
    let stop = async {
        running(fixture, &hand, first).await;
        running(fixture, &hand, second).await;
        hand.cancel(second).await;
        hand.cancel(first).await;
    };
    let ask = |call| ask(&hand, call, fixture.endless);
    let (first, second, ()) = in_time(async { tokio::join!(ask(first), ask(second), stop) }).await;
    told_as_interrupted(&first.expect("the hand is there"));
    told_as_interrupted(&second.expect("the hand is there"));
    quick(fixture, &hand, fixture.call()).await;
}

/// What is settled stays as it is, and the hand goes on.
async fn a_cancelled_call_settles_once(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let call = fixture.call();
    let result = quick(fixture, &hand, call).await;
    in_time(hand.cancel(call)).await;
    in_time(hand.cancel(call)).await;
    assert_eq!(quick(fixture, &hand, call).await, result);
}

/// Cancelling first wins.
async fn a_call_cancelled_before_it_came_never_runs(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let call = fixture.call();
    in_time(hand.cancel(call)).await;
    let result = ask(&hand, call, fixture.quick)
        .await
        .expect("the hand is there");
    told_as_interrupted(&result);
    quick(fixture, &hand, fixture.call()).await;
}

/// A dead hand says so, and what of a call is known.
async fn death_loses_what_ran_and_keeps_what_was_done(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let (done, lost) = (fixture.call(), fixture.call());
    let result = quick(fixture, &hand, done).await;
    let end = async {
        running(fixture, &hand, lost).await;
        fixture
            .provisioner
            .reap(hand.incarnation(), Keep::Layer)
            .await
            .expect("it is reaped");
    };
    let (asked, ()) = in_time(async { tokio::join!(ask(&hand, lost, fixture.endless), end) }).await;
    let error = asked.expect_err("the call is lost");
    assert!(error.handed_over && !error.reason.is_empty(), "{error:?}");
    let error = ask(&hand, fixture.call(), fixture.quick)
        .await
        .expect_err("the hand is gone");
    assert!(!error.handed_over, "{error:?}");
    assert_eq!(ask(&hand, done, fixture.quick).await, Ok(result));
    in_time(hand.cancel(lost)).await;
}

/// One life per incarnation.
async fn an_ended_incarnation_stays_ended(fixture: &Fixture) {
    let recipe = fixture.recipe();
    let node = &fixture.provisioner;
    drop(node.provision(&recipe).await.expect("a hand is made"));
    node.reap(recipe.incarnation, Keep::Layer)
        .await
        .expect("it is reaped");
    match node.provision(&recipe).await {
        Err(ProvisionError::Ended { incarnation }) => assert_eq!(incarnation, recipe.incarnation),
        other => panic!("made again: {other:?}"),
    }
    let next = Recipe {
        predecessor: Some(recipe.incarnation),
        ..fixture.recipe()
    };
    let hand = node.provision(&next).await.expect("a successor is made");
    quick(fixture, &hand, fixture.call()).await;
}

/// Reaping is idempotent.
async fn reaping_again_or_the_unknown_is_fine(fixture: &Fixture) {
    let node = &fixture.provisioner;
    let hand = fixture.hand().await;
    for keep in [Keep::Layer, Keep::Nothing, Keep::Nothing] {
        node.reap(hand.incarnation(), keep)
            .await
            .expect("it is reaped");
    }
    let unknown = fixture.recipe().incarnation;
    node.reap(unknown, Keep::Nothing)
        .await
        .expect("nothing to do");
    assert!(node.list().await.is_empty());
}

/// What a journalled hand did can be asked for until it is reaped for good.
async fn the_journal_answers_for_the_dead(fixture: &Fixture) {
    let node = &fixture.provisioner;
    let hand = fixture.hand().await;
    if hand.promise() != Promise::Journalled {
        return;
    }
    let (done, never) = (fixture.call(), fixture.call());
    let result = quick(fixture, &hand, done).await;
    let incarnation = hand.incarnation();
    node.reap(incarnation, Keep::Layer)
        .await
        .expect("it is reaped");
    assert_eq!(
        node.recall(incarnation, done).await,
        Recalled::Settled(result)
    );
    assert_eq!(node.recall(incarnation, never).await, Recalled::NotStarted);
    node.reap(incarnation, Keep::Nothing)
        .await
        .expect("it is reaped");
    assert_eq!(node.recall(incarnation, done).await, Recalled::Unknown);
}
