//! What the keys of a filter are: their type, their collation, and how they are hashed. Two filters can be combined
//! only if these are the same.

use skip_filter::policy::FilterPolicy;
use std::fmt;

/// OIDs of the types that have a code in the short form, from 1 on (pg_type.dat).
pub(crate) const CODED: [u32; 7] = [20, 25, 2950, 17, 1184, 869, 829];

/// The type of a filter's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// A built-in one by its OID, which is the same in every database.
    BuiltIn(u32),
    /// Any other, by name: OIDs differ between databases.
    Named {
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
    },
}

impl KeyType {
    /// Whether it is one of the few that have a code in the short form: there is nothing to look up about these.
    pub fn has_code(&self) -> bool {
        matches!(self, Self::BuiltIn(oid) if CODED.contains(oid))
    }
}

/// A collation whose notion of equality keys were hashed under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collation {
    /// Its name, qualified and quoted where need be.
    pub name: String,
    /// The version of it; another one may hash the same strings differently.
    pub version: String,
}

impl fmt::Display for Collation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if self.version.is_empty() { Ok(()) } else { write!(f, " version {}", self.version) }
    }
}

/// What a filter's keys are and how they are hashed, apart from its size.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The policy.
    pub policy: &'static dyn FilterPolicy,
    /// What key bytes are hashed under.
    pub seed: u64,
    /// The type of the keys.
    pub key_type: KeyType,
    /// The collation, where strings that differ in bytes may be equal.
    pub collation: Option<Collation>,
}

impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        (self.policy.code(), self.seed, &self.key_type, &self.collation)
            == (other.policy.code(), other.seed, &other.key_type, &other.collation)
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(oid) => write!(f, "type {oid}"),
            Self::Named { schema, name } => write!(f, "{schema}.{name}"),
        }
    }
}

impl Keys {
    /// What differs in the keys of two filters. `type_name` gives the names of built-in types.
    pub fn differences(
        &self,
        other: &Self,
        type_name: &dyn Fn(&KeyType) -> String,
    ) -> Vec<(&'static str, String, String)> {
        let collation = |keys: &Self| keys.collation.as_ref().map_or("none".to_owned(), Collation::to_string);
        let facts = |keys: &Self| {
            [
                ("type", type_name(&keys.key_type)),
                ("collation", collation(keys)),
                ("policy", keys.policy.name().to_owned()),
                ("seed", keys.seed.to_string()),
            ]
        };
        let pairs = facts(self).into_iter().zip(facts(other));
        pairs
            .filter(|(one, other)| one.1 != other.1)
            .map(|((what, one), (_, other))| (what, one, other))
            .collect()
    }
}
