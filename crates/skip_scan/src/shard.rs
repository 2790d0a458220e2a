//! Names of shards: a distributed engine keeps each part of a table in a table of its own, named after it with a number
//! behind, and so its indexes: `events_102040` with `events_skip_102040`.

/// Digits of such a number, at least. Fewer are more likely part of a name that somebody chose.
const FEWEST_DIGITS: usize = 6;

/// The name of the index that `index` is a shard of: what stands before a number that ends the table's name as well.
pub fn shard_of<'a>(index: &'a str, table: &str) -> Option<&'a str> {
    let number = |name: &str| {
        let (base, digits) = name.rsplit_once('_')?;
        let is_number = digits.len() >= FEWEST_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
        (is_number && !base.is_empty()).then_some(digits.len())
    };
    let digits = number(index)?;
    let same =
        number(table) == Some(digits) && index[index.len() - digits..] == table[table.len() - digits..];
    same.then(|| &index[..index.len() - digits - 1])
}

#[cfg(test)]
mod tests {
    use super::shard_of;

    #[test]
    fn only_numbers_that_the_table_has_too() {
        assert_eq!(shard_of("events_skip_102040", "events_102040"), Some("events_skip"));
        assert_eq!(shard_of("äöü_102040", "ß_102040"), Some("äöü"));
        for (index, table) in [
            ("events_skip", "events"),
            ("events_skip_102040", "events"),
            ("events_skip_102040", "events_102041"),
            ("events_skip_102040", "events_1102040"),
            ("events_skip_1102040", "events_102040"),
            ("events_skip_2024", "events_2024"),
            ("events_skip102040", "events102040"),
            ("events_skip_10204x", "events_10204x"),
            ("_102040", "_102040"),
            ("", ""),
            ("events_102040_skip", "events_102040"),
        ] {
            assert_eq!(shard_of(index, table), None, "{index} of {table}");
        }
    }
}
