//! Collecting keys for a filter whose size is not known yet.
//!
//! The state of the aggregate `bloom_agg`. While they fit into a bound on memory, the distinct hashes themselves are
//! kept ([`table`]): the filter is then made for their exact number, and has the same bytes however many processes
//! collected them. Past the bound they become bits ([`members`]):
//!
//! - With an expected number of keys, of the filter made for that number: again the same bytes, whatever the order.
//! - Without one, of a filter made for the number of rows that the planner guessed, but for no more than 256 times what
//!   there is by then. If the guess was too high, the filter is folded to a smaller one in the end, exactly as if it
//!   had been made so. If it was too low, further filters follow, each for four times as many keys and with a lower
//!   rate, so that all of them together keep the rate that was promised: a series.
//!
//! Processes that collected parts of the keys send their states to one ([`wire`]), which combines them. It ORs filters
//! of the same shape as long as the rate allows. So that it nearly always does, parts start from the same guess.
//!
//! Memory comes from an allocator of the caller's: the server must see what a group takes, and free it its own way. No
//! state needs to be dropped.

mod collector;
mod members;
mod options;
mod table;
pub mod wire;

pub use collector::{Collector, Sink};
pub use options::{CollectError, CollectorOptions, OptionsKey};
