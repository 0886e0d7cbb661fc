//! Attackers with full control: one in a brain's place, one in a hand.

mod brain;
mod hand;
mod routes;
