//! `admit` and `fold` as a client, a brain and a kernel meet them.

#[cfg(test)]
mod acts;
#[cfg(test)]
mod brain;
#[cfg(test)]
mod label;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod world;

#[cfg(test)]
mod calls;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod closing;
#[cfg(test)]
mod deadlines;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod interrupts;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod order;
#[cfg(test)]
mod parking;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod races;
#[cfg(test)]
mod repositories;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod shape;
#[cfg(test)]
mod spans;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod unreachable;
#[cfg(test)]
mod updates;
#[cfg(test)]
mod validity;
