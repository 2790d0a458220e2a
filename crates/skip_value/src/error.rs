//! What can be wrong with a stored filter, or with two of them.

use skip_filter::policy::PolicyError;
use thiserror::Error;

/// A stored filter cannot be read, or not be used as asked.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ValueError {
    /// A version of the layout that this build does not know.
    #[error("its layout has version {0}, which is unknown")]
    Version(u8),
    /// A policy that this build does not know.
    #[error("its filter policy has number {0}, which is unknown")]
    Policy(u8),
    /// Fewer bytes than the header says.
    #[error("it ends too early")]
    Truncated,
    /// Something else is wrong.
    #[error("{0}")]
    Malformed(&'static str),
    /// The numbers are not the policy's.
    #[error(transparent)]
    Shape(#[from] PolicyError),
    /// Two filters cannot be put together: what differs, as name and both sides.
    #[error("they differ in {}", differences(.0))]
    Mismatch(Vec<(&'static str, String, String)>),
    /// A series of filters, where one is wanted.
    #[error("it is a series of {0} filters")]
    Series(usize),
}

impl ValueError {
    /// There are bytes behind its bits.
    pub(crate) const TOO_LONG: Self = Self::Malformed("it is longer than its header says");

    /// Whether a later version may know what this one does not: such a filter may hold any key.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Version(_) | Self::Policy(_))
    }
}

fn differences(facts: &[(&str, String, String)]) -> String {
    let texts = facts.iter().map(|(what, one, other)| format!("{what} ({one} and {other})"));
    texts.collect::<Vec<_>>().join(", ")
}
