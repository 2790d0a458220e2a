//! Numbers outside of memory: they are appended, and read again from where they were put.

/// Fewest bytes that are written at once, but for the last ones: 64 kB, so that a call of the system costs little.
const WRITE_BYTES: usize = 1 << 16;
/// Bytes that are read at once: a buffer of a server's temporary files.
const READ_BYTES: usize = 1 << 13;

/// Where numbers go that memory has no room for: bytes at places, as in a file that grows.
pub trait Spill {
    /// What may fail.
    type Error;

    /// Writes bytes at the end of those written before, which is `at`.
    ///
    /// # Errors
    /// The bytes could not be written.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Reads bytes that were written.
    ///
    /// # Errors
    /// The bytes could not be read.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;
}

/// What lies outside of memory.
#[derive(Debug)]
pub(crate) struct Outside<S> {
    spill: S,
    end: u64,
    buffer: Vec<u8>,
}

/// Numbers that were written one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

impl<S: Spill> Outside<S> {
    pub(crate) fn new(spill: S) -> Self {
        Self { spill, end: 0, buffer: vec![] }
    }

    /// Bytes that were written.
    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }

    /// Appends numbers; the last ones wait for [`Outside::flush`].
    pub(crate) fn append(&mut self, numbers: &[u64]) -> Result<(), S::Error> {
        self.buffer.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) -> Result<(), S::Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.spill.write(self.end, &self.buffer)?;
        self.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Where the next number will be.
    pub(crate) fn place(&self) -> u64 {
        self.end + self.buffer.len() as u64
    }

    /// Appends numbers of an extent to `numbers`, as many as are read at once, and takes them off the extent.
    pub(crate) fn read(&mut self, extent: &mut Extent, numbers: &mut Vec<u64>) -> Result<(), S::Error> {
        let mut bytes = [0; READ_BYTES];
        let bytes = &mut bytes[..extent.bytes.min(READ_BYTES as u64) as usize];
        self.spill.read(extent.at, bytes)?;
        numbers.extend(bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number)));
        extent.at += bytes.len() as u64;
        extent.bytes -= bytes.len() as u64;
        Ok(())
    }
}
