//! Why a page could not be used.

use crate::pg::Damage;

/// Why a page could not be used.
#[derive(Debug)]
pub enum Miss {
    /// The page is damaged.
    Damage(Damage),
    /// The page belongs to something else by now: start over from the meta page.
    Recycled(u32),
}

impl Miss {
    /// As damage: under the maintenance lock nobody recycles pages, so a foreign page is damage.
    pub fn not_recycled(self) -> Damage {
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

/// Result of reading what may be recycled meanwhile.
pub type Fetch<T> = Result<T, Miss>;
