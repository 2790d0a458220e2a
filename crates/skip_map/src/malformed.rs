//! What is wrong with bytes that cannot be right.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

/// Bytes that are no page of a map segment or contradict themselves, or numbers that come in a wrong order; the text
/// says what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl Display for Malformed {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl Error for Malformed {}
