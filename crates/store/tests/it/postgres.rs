//! The store on Postgres: the contract, several nodes, a database that dies.

mod audit;
mod contract;
mod full;
mod kit;
mod nodes;
mod pooler;
mod races;
mod storms;
mod tls;
