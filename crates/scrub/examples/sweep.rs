//! Measures the sweep: `sweep [rounds]` prints a line per round.
//!
//! Columns: milliseconds to look through 1 MB of text as commands print it, through 1 MB of JSON (every
//! quote is an escape), through 1 MB of Base64 in lines, and to make what finds 20 secrets.

#![expect(
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a program that measures"
)]

use std::{hint::black_box, time::Instant};

use outlast_protocol::Secret;
use outlast_scrub::Scrubber;

/// Bytes of each text.
const SIZE: usize = 1_000_000;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let secrets: Vec<Secret> = (0..20).map(secret).collect();
    let texts = [text(), json(), encoded()];
    println!("text ms  JSON ms  Base64 ms  make ms");
    for _ in 0..rounds.unwrap_or(20) {
        let began = Instant::now();
        let scrubber = Scrubber::new(&secrets);
        let made = millis(began);
        let took = texts.each_ref().map(|text| {
            let began = Instant::now();
            black_box(scrubber.bytes(black_box(text)));
            millis(began)
        });
        println!(
            "{:7.3} {:8.3} {:10.3} {made:8.3}",
            took[0], took[1], took[2]
        );
    }
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// A token as services give them.
fn secret(number: usize) -> Secret {
    let digits = |at: usize| {
        char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[(at * 7 + number * 11) % 36])
    };
    let token: String = (0..40).map(digits).collect();
    Secret::from(format!("ghp_{token}"))
}

/// Lines of a build.
fn text() -> Vec<u8> {
    let line = |at: usize| {
        format!("   Compiling crate-{at} v0.{at}.1 (/workspace/src/{at}): 3 warnings, 100% done\n")
    };
    filled(line)
}

/// JSON in a string of JSON.
fn json() -> Vec<u8> {
    filled(|at| {
        format!("{{\\\"id\\\":{at},\\\"name\\\":\\\"item {at}\\\",\\\"tags\\\":[\\\"a\\\"]}},")
    })
}

/// Lines of digits.
fn encoded() -> Vec<u8> {
    filled(|at| {
        let digit = |place: usize| {
            char::from(
                b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij0123456789+/"[(place * place + at) % 48],
            )
        };
        (0..76).map(digit).chain(['\n']).collect()
    })
}

fn filled(line: impl Fn(usize) -> String) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..)
        .map(line)
        .flat_map(String::into_bytes)
        .take(SIZE)
        .collect();
    bytes.truncate(SIZE);
    bytes
}
