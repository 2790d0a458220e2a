//! What can be wrong with a stored filter, or with two of them.

use skip_filter::policy::PolicyError;
use std::fmt;

/// A stored filter cannot be read, or not be used as asked.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueError {
    /// A version of the layout that this build does not know.
    Version(u8),
    /// A policy that this build does not know.
    Policy(u8),
    /// Fewer bytes than the header says.
    Truncated,
    /// Something else is wrong.
    Malformed(&'static str),
    /// The numbers are not the policy's.
    Shape(PolicyError),
    /// Two filters cannot be put together: what differs, as name and both sides.
    Mismatch(Vec<(&'static str, String, String)>),
    /// A series of filters, where one is wanted.
    Series(usize),
}

impl From<PolicyError> for ValueError {
    fn from(error: PolicyError) -> Self {
        Self::Shape(error)
    }
}

impl ValueError {
    /// There are bytes behind its bits.
    pub(crate) const TOO_LONG: Self = Self::Malformed("it is longer than its header says");

    /// Whether a later version may know what this one does not: such a filter may hold any key.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Version(_) | Self::Policy(_))
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "its layout has version {version}, which is unknown"),
            Self::Policy(code) => write!(f, "its filter policy has number {code}, which is unknown"),
            Self::Truncated => f.write_str("it ends too early"),
            Self::Malformed(what) => f.write_str(what),
            Self::Shape(error) => error.fmt(f),
            Self::Mismatch(differences) => {
                let texts =
                    differences.iter().map(|(what, one, other)| format!("{what} ({one} and {other})"));
                write!(f, "they differ in {}", texts.collect::<Vec<_>>().join(", "))
            }
            Self::Series(members) => write!(f, "it is a series of {members} filters"),
        }
    }
}

impl std::error::Error for ValueError {}
