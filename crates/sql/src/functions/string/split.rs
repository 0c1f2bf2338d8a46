//! Taking strings apart: `SPLIT`, `SPLIT_INDEX`, `STR_TO_MAP`.

use super::text::from_utf16;

/// `SPLIT(s, separator)`: keeps empty parts; an empty separator gives the UTF-16 units; nothing for
/// an empty `s`.
pub(super) fn split(s: &str, separator: &str, mut part: impl FnMut(&str)) {
    if s.is_empty() {
        return;
    }
    if separator.is_empty() {
        s.encode_utf16().for_each(|unit| part(&from_utf16(&[unit])));
    } else {
        s.split(separator).for_each(part);
    }
}

/// `SPLIT_INDEX(s, separator, index)`: part `index` from 0, NULL if there is none (an empty `s` has
/// none). An empty separator splits at each white space.
pub(super) fn split_index<'a>(s: &'a str, separator: &str, index: i32) -> Option<&'a str> {
    let index = usize::try_from(index).ok()?;
    if s.is_empty() {
        return None;
    }
    if separator.is_empty() { s.split(char::is_whitespace).nth(index) } else { s.split(separator).nth(index) }
}

/// Splits as Java's `String.split(regex)` does for ready-made match ranges: empty parts at the end
/// are dropped, and a match of no length at the start makes no part.
pub(super) fn java_split(s: &str, matches: impl Iterator<Item = (usize, usize)>, limit: usize) -> Vec<&str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    for (start, end) in matches {
        if limit > 0 && parts.len() == limit - 1 {
            break;
        }
        if end == 0 || (start == end && start == s.len()) {
            continue;
        }
        parts.push(&s[from..start]);
        from = end;
    }
    if from == 0 && parts.is_empty() {
        return vec![s];
    }
    parts.push(&s[from..]);
    if limit == 0 {
        while parts.last().is_some_and(|p| p.is_empty()) {
            parts.pop();
        }
    }
    parts
}

/// The entries of `STR_TO_MAP` in the order of a Java `HashMap` made for `pairs` pairs; a later
/// value of a key replaces an earlier one.
pub(super) fn in_hash_map_order<'a>(pairs: Vec<(&'a str, Option<&'a str>)>) -> Vec<(&'a str, Option<&'a str>)> {
    let mut capacity = pairs.len().max(1).next_power_of_two();
    let mut entries: Vec<(&str, Option<&str>)> = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        match entries.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => entries.push((key, value)),
        }
    }
    while entries.len() > capacity * 3 / 4 {
        capacity *= 2;
    }
    entries.sort_by_key(|(key, _)| {
        let hash = java_hash(key) as u32;
        (hash ^ (hash >> 16)) as usize & (capacity - 1)
    });
    entries
}

/// Java's `String.hashCode`.
pub(crate) fn java_hash(s: &str) -> i32 {
    s.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_all(s: &str, separator: &str) -> Vec<String> {
        let mut parts = Vec::new();
        split(s, separator, |p| parts.push(p.to_string()));
        parts
    }

    #[test]
    fn split_keeps_empty_parts() {
        assert_eq!(split_all("a-b--c", "-"), ["a", "b", "", "c"]);
        assert_eq!(split_all("--", "-"), ["", "", ""]);
        assert_eq!(split_all("", "-"), Vec::<String>::new());
        assert_eq!(split_all("aé🙂", ""), ["a", "é", "?", "?"]);
    }

    #[test]
    fn split_index_counts_from_zero() {
        assert_eq!(split_index("a,b", ",", 1), Some("b"));
        assert_eq!(split_index("a,b", ",", 2), None);
        assert_eq!(split_index("a,b", ",", -1), None);
        assert_eq!(split_index("", ",", 0), None);
        assert_eq!(split_index("a b  c", "", 3), Some("c"));
    }

    #[test]
    fn maps_come_in_java_order() {
        // Twelve pairs make a table of sixteen buckets.
        let text = "zeta=1,alpha=2,k=3,foo=4,bar=5,long key=6,k=3,k=3,k=3,k=3,k=3,k=3";
        let pairs: Vec<_> = text.split(',').filter_map(|p| p.split_once('=')).map(|(k, v)| (k, Some(v))).collect();
        let keys: Vec<_> = in_hash_map_order(pairs).into_iter().map(|(k, _)| k).collect();
        assert_eq!(keys, ["zeta", "bar", "alpha", "foo", "long key", "k"]);
    }
}
