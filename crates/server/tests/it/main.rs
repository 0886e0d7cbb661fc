//! Whole servers: started as an operator starts them, used as a client uses them.

#![forbid(unsafe_code)]

mod commands;
mod config;
mod disk;
mod first_session;
mod killed;
mod readers;
mod refusals;
mod run;
mod secrets;
mod support;
