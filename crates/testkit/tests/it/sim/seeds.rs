//! Seeds: twice the same, hundreds of them, and what they find.

use std::{env, ops::Range};

use super::{
    run::{Report, run},
    twist::Twist,
};
use crate::parallel::{each, simulate};

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 200;

/// Seeds that are run twice.
const TWICE: u64 = 10;

/// Seeds within which a twist must be found.
const FOUND: u64 = 20;

/// Chooses one seed, to see again what it found, or a range of them as `1000..2000`.
const SEED: &str = "OUTLAST_SIM_SEED";

/// Returns the seeds to try.
fn chosen() -> Range<u64> {
    let Ok(text) = env::var(SEED) else {
        return 0..SEEDS;
    };
    let number = |text: &str| text.parse().expect("a seed is a number");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

/// Runs a seed.
fn report(seed: u64, twist: Twist) -> Report {
    simulate(run(seed, twist)).unwrap_or_else(|panic| Report {
        wrong: vec![panic],
        ..Report::default()
    })
}

/// Compares what two runs told, line by line.
fn same(seed: u64) {
    let [first, second] = [(); 2].map(|()| report(seed, Twist::None).told);
    for (index, (first, second)) in first.iter().zip(&second).enumerate() {
        assert_eq!(first, second, "seed {seed}: line {index} differs");
    }
    assert_eq!(first.len(), second.len(), "seed {seed}");
    assert!(
        first.len() > 100,
        "seed {seed} tells only {} lines",
        first.len()
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let seeds: Vec<_> = (0..TWICE).collect();
    each(&seeds, |seed| same(*seed));
    let [one, other] = [1, 2].map(|seed| report(seed, Twist::None).told);
    assert_ne!(one, other);
}

#[test]
fn whatever_happens_nothing_is_lost() {
    let seeds: Vec<_> = chosen().collect();
    let reports = each(&seeds, |seed| report(*seed, Twist::None));
    let mut failed = Vec::new();
    for (seed, report) in seeds.iter().zip(&reports) {
        if !report.wrong.is_empty() {
            eprintln!("seed {seed}; run this test with {SEED}={seed} to see it again:");
            report
                .wrong
                .iter()
                .take(10)
                .for_each(|words| eprintln!("  {words}"));
            failed.push(*seed);
        }
    }
    let sum = |index: usize| {
        reports
            .iter()
            .map(|report| report.figures[index])
            .sum::<usize>()
    };
    let [records, lives, hands, frames] = [0, 1, 2, 3].map(sum);
    let count = seeds.len();
    eprintln!(
        "{count} seeds: {records} records, {lives} processes, {hands} hands, {frames} frames"
    );
    assert!(
        failed.is_empty(),
        "something is wrong with seeds {failed:?}"
    );
    // Something did happen.
    assert!(records > 100 * count && lives > 4 * count && hands > count && frames > records / 4);
}

#[test]
fn what_is_wrong_is_found() {
    each(&Twist::ALL, |twist| {
        let found = (0..FOUND).any(|seed| !report(seed, *twist).wrong.is_empty());
        assert!(found, "{twist:?} is not found within {FOUND} seeds");
    });
}
