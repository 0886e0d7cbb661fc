//! Processes one after another, at times two at once, and the weather they live in.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use outlast_testkit::{
    faults::Fate,
    faults::{Call, Faults},
    random::Seeded,
};
use tokio::time::sleep;

use super::net::Net;
use crate::sim::world::{Life, World, spawn};

/// What disturbs a world until it is calm.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    calm: AtomicBool,
    /// The database is gone.
    outage: AtomicBool,
}

impl Weather {
    /// Ends all disturbances.
    pub(crate) fn calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
        self.outage.store(false, Ordering::SeqCst);
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Disturbs whatever can be, until it is calm.
    pub(crate) async fn blow(self: Arc<Self>, world: Arc<World>, net: Net, chance: Seeded) {
        while !self.is_calm() {
            sleep(Duration::from_millis(chance.below(6_000))).await;
            if self.is_calm() {
                return;
            }
            match chance.below(100) {
                0..10 => {
                    self.outage.store(true, Ordering::SeqCst);
                    sleep(Duration::from_millis(chance.below(10_000))).await;
                    self.outage.store(false, Ordering::SeqCst);
                }
                10..35 => {
                    if let Some(recipe) = chance.pick(&world.hands.provisioned()) {
                        world.hands.kill(recipe.incarnation);
                    }
                }
                35..40 => world.hands.vanish(),
                40..50 => world.clock.jump(-seconds(chance.below(3_600))),
                50..60 => world.clock.jump(seconds(chance.below(60))),
                60..80 => net.lose(chance.below(40)),
                _ => net.lose(0),
            }
        }
    }

    /// Decides about the calls of a life that may end at one of them.
    fn burden(self: &Arc<Self>, faults: &Faults, chance: Seeded) {
        let weather = self.clone();
        let death = chance.chance(70).then(|| 1 + chance.below(1_500));
        let last = *chance.pick(&[Fate::Dead, Fate::Unheard]).unwrap();
        faults.hook(move |call: &Call<'_>| {
            if weather.is_calm() {
                return Fate::None;
            }
            if death == Some(call.number) {
                return last;
            }
            let draw = chance.below(1_000);
            match draw {
                _ if weather.outage.load(Ordering::SeqCst) => Fate::Before,
                0..4 => Fate::Before,
                4..8 => Fate::After,
                _ => Fate::None,
            }
        });
    }
}

fn seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap()
}

/// Runs processes until it is calm.
pub(crate) async fn run(world: Arc<World>, net: Net, weather: Arc<Weather>, chance: Seeded) {
    for number in 0_u32.. {
        let faults = Arc::<Faults>::default();
        weather.burden(&faults, chance.branch(&format!("faults {number}")));
        let Some(life) = world.begin(faults).await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let life = Arc::new(life);
        net.join(&life);
        lived(&life, &weather, &chance).await;
        if weather.is_calm() {
            net.leave(&life);
            life.kill().await;
            return;
        }
        end(&world, &net, life, &chance).await;
        sleep(Duration::from_millis(chance.below(2_000))).await;
    }
}

/// Waits until a life is over, or its time has come.
async fn lived(life: &Life, weather: &Weather, chance: &Seeded) {
    let mut left = chance.below(20_000);
    while left > 0 && !weather.is_calm() && !life.faults.is_dead() {
        let step = left.min(50);
        left -= step;
        sleep(Duration::from_millis(step)).await;
    }
}

/// Ends a life: in order, at once, or not before the next one has begun.
async fn end(world: &World, net: &Net, life: Arc<Life>, chance: &Seeded) {
    if !life.faults.is_dead() {
        match chance.below(100) {
            0..20 => {
                net.leave(&life);
                life.shutdown.cancel();
                life.kernel.close(Duration::from_secs(5)).await;
            }
            20..45 => {
                // Everybody thinks it dead, and it goes on for a while.
                let (net, late) = (net.clone(), Duration::from_millis(chance.below(10_000)));
                spawn(async move {
                    sleep(late).await;
                    net.leave(&life);
                    life.kill().await;
                });
                return;
            }
            _ => {}
        }
    }
    net.leave(&life);
    life.kill().await;
    if chance.chance(50) {
        world.bury();
    }
}
