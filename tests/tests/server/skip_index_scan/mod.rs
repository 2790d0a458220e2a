//! The Skip Index Scan: whatever it is part of gives what a plan without it gives, it says of itself what is true, and the
//! planner takes it where it helps.
mod blocked;
mod buffers;
mod changes;
mod choice;
mod conditions;
mod counters;
mod cursors;
mod failures;
mod formats;
mod generated;
mod hooks;
mod isolation;
mod keys;
mod long_delta;
mod prepared;
mod queries;
mod refusals;
mod reviewed;
mod security;
mod serializable;
mod settings;
mod snapshots;
mod special;
mod tables;
