//! Where ascending numbers come from: a run's pages, or anything that can be iterated over.
//!
//! Numbers are handed over many at a time. One by one, a merge would spend most of its time on handing them over.

use crate::malformed::Malformed;

/// Numbers that a source gives at a time, about. Finding the sorted runs of a merge costs more for shorter batches;
/// those of all sources together still fit into the processor's second cache.
pub const BATCH: usize = 1024;

/// Numbers that ascend.
pub trait NumberSource {
    /// What may be wrong with it.
    type Error: From<Malformed>;

    /// Appends the next numbers: at least one, if there are any left, and about [`BATCH`]. After an error there are
    /// none left.
    ///
    /// # Errors
    /// What is wrong with the source.
    fn read(&mut self, into: &mut Vec<u64>) -> Result<(), Self::Error>;
}

impl<E: From<Malformed>, I: Iterator<Item = Result<u64, E>>> NumberSource for I {
    type Error = E;

    fn read(&mut self, into: &mut Vec<u64>) -> Result<(), E> {
        self.take(BATCH).try_for_each(|number| {
            into.push(number?);
            Ok(())
        })
    }
}

/// The numbers of a source one by one.
#[derive(Debug)]
pub struct Each<S> {
    source: S,
    ready: Vec<u64>,
    at: usize,
}

impl<S> Each<S> {
    /// Those of this source.
    pub fn of(source: S) -> Self {
        Self { source, ready: Vec::new(), at: 0 }
    }
}

impl<S: NumberSource> Iterator for Each<S> {
    type Item = Result<u64, S::Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.ready.len() {
            self.ready.clear();
            self.at = 0;
            if let Err(error) = self.source.read(&mut self.ready) {
                return Some(Err(error));
            }
        }
        let number = self.ready.get(self.at).copied()?;
        self.at += 1;
        Some(Ok(number))
    }
}
