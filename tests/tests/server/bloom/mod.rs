//! The type `bloom`: no key is ever lost, whatever its type and however its filter was made, moved or put together.
mod aggregate;
mod engine;
mod exchange;
mod growth;
mod io;
mod keys;
mod operators;
mod parts;
mod planner;
mod stored;
