//! What a step of a merge has done.

/// What a step has done.
pub struct StepDone {
    /// The work, in pages.
    pub pages: u32,
    /// Whether the segment is published.
    pub is_done: bool,
    /// Whether it needs more blocks than it has.
    pub lacks_room: bool,
}
