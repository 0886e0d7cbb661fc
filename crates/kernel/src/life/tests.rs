use std::sync::atomic::{AtomicU64, Ordering};

use outlast_protocol::{Micros, seam::Entropy};

use super::*;

#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Micros {
        Micros(0)
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

impl Entropy for Hand {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(0);
    }
}

const BEATS: Beats = Beats {
    bound: Duration::from_secs(12),
    by: Beater::Task,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn id(number: i64) -> ProcessId {
    ProcessId::mint(Micros(number * 1_000), &Hand::default())
}

fn begin(beats: Option<Beats>) -> (Arc<Hand>, Life) {
    let clock = Arc::new(Hand::default());
    let life = Life::new(clock.clone(), beats, id(1), seconds(0));
    (clock, life)
}

#[test]
fn a_process_without_a_beat_for_half_the_bound_is_unsure() {
    let (clock, life) = begin(Some(BEATS));
    for (at, known) in [
        (0, Ok(())),
        (5, Ok(())),
        (6, Err(Halt::Unsure)),
        (600, Err(Halt::Unsure)),
    ] {
        clock.0.store(at, Ordering::SeqCst);
        assert_eq!(life.check(id(1)), known, "after {at} s");
    }
    // What counts is when a beat was sent, not when its answer came.
    life.confirm(id(1), seconds(590));
    assert_eq!(life.check(id(1)), Err(Halt::Unsure));
    life.confirm(id(1), seconds(599));
    life.confirm(id(1), seconds(595));
    assert_eq!(life.check(id(1)), Ok(()));
    life.confirm(id(2), seconds(700));
    clock.0.store(605, Ordering::SeqCst);
    assert_eq!(
        life.check(id(1)),
        Err(Halt::Unsure),
        "another's beat is none of its own"
    );
}

#[test]
fn where_nobody_else_is_nobody_is_unsure() {
    let (clock, life) = begin(None);
    clock.0.store(1_000_000, Ordering::SeqCst);
    assert_eq!(life.check(id(1)), Ok(()));
}

#[test]
fn the_dead_stay_dead_and_their_brains_with_them() {
    let (_, life) = begin(Some(BEATS));
    life.declared(id(2));
    assert!(life.is(id(1)), "that was somebody else");
    life.declared(id(1));
    life.confirm(id(1), seconds(1));
    assert_eq!(
        (life.check(id(1)), life.is(id(1))),
        (Err(Halt::Dead), false)
    );
    life.rise(id(2), seconds(0));
    assert_eq!((life.check(id(2)), life.process()), (Ok(()), id(2)));
    assert_eq!(life.check(id(1)), Err(Halt::Dead), "what began before");
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told() {
    let (clock, life) = begin(Some(BEATS));
    let halted = life.halted(id(1));
    tokio::pin!(halted);
    assert!(futures::poll!(&mut halted).is_pending());
    // The machine slept: no timer ran meanwhile.
    clock.0.store(3_600, Ordering::SeqCst);
    assert_eq!(halted.await, Halt::Unsure);
    let settled = life.settled(id(1));
    tokio::pin!(settled);
    assert!(futures::poll!(&mut settled).is_pending());
    life.confirm(id(1), seconds(3_600));
    assert_eq!(settled.await, Ok(()));
    let died = life.died(id(1));
    tokio::pin!(died);
    assert!(futures::poll!(&mut died).is_pending());
    life.declared(id(1));
    died.await;
    assert_eq!(life.settled(id(1)).await, Err(Halt::Dead));
    assert_eq!(life.halted(id(1)).await, Halt::Dead);
}
