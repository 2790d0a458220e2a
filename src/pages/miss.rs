//! The error of reading a page that may be damaged or recycled.

use crate::pg::Damage;

/// Why a page could not be used.
#[derive(Debug)]
pub enum Miss {
    /// The page is damaged.
    Damage(Damage),
    /// The page, given by its block, was recycled: start over from the meta page.
    Recycled(u32),
}

impl Miss {
    /// Converts a miss under the maintenance lock to damage: nobody recycles pages then, so a page with a different
    /// owner is damaged.
    pub fn into_damage(self) -> Damage {
        match self {
            Miss::Damage(damage) => damage,
            Miss::Recycled(block) => {
                Damage::new(block, "the page does not belong to the segment that the directory names")
            }
        }
    }
}

impl From<Damage> for Miss {
    fn from(damage: Damage) -> Self {
        Miss::Damage(damage)
    }
}

impl From<std::convert::Infallible> for Miss {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// The result of reading a page that may be recycled meanwhile.
pub type Fetch<T> = Result<T, Miss>;
