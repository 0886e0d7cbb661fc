//! The house: which room may use which, and how large its files are.

mod arrows;
mod chance;
mod sizes;
mod threats;
