//! Which characters of a rendered text came from the caller, and which from the template.
//!
//! A template may cut, join and move what it is given, so marks around it would not last, and might
//! change what the template does. Instead the text is rendered a second time, in which the
//! characters that the caller gave are exchanged for their twins: characters of plane 15 of
//! Unicode, for private use, one for one. Where the second text has the twin of the first text's
//! character, that character is the caller's. Where the two differ otherwise, the template looked
//! at what the text says, and this set of twins cannot tell.

use std::collections::BTreeSet;
use std::ops::Range;

const FIRST_TWIN: u32 = 0xF_0000;

/// Which of the caller's characters are exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchanged {
    None,
    /// All that have a twin.
    All,
    /// These. Enough where each special token's name has one of them.
    These(BTreeSet<char>),
}

/// White space has none, because templates trim it, nor what JSON escapes, nor what is beyond the
/// basic plane.
fn twin(character: char) -> Option<char> {
    let plain = character.is_whitespace() || character.is_control();
    if plain || matches!(character, '"' | '\\') || character as u32 > 0xFFFD {
        return None;
    }
    char::from_u32(FIRST_TWIN + character as u32)
}

impl Exchanged {
    pub fn apply(&self, text: &str) -> String {
        match self {
            Exchanged::None => text.to_owned(),
            Exchanged::All => text.chars().map(|one| twin(one).unwrap_or(one)).collect(),
            Exchanged::These(these) => text
                .chars()
                .map(|one| if these.contains(&one) { twin(one).unwrap_or(one) } else { one })
                .collect(),
        }
    }
}

/// The bytes of `text` that are the caller's, in order. `twins`: the same text with twins. None: it
/// is not the same text.
pub fn foreign(text: &str, twins: &str) -> Option<Vec<Range<usize>>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut others = twins.chars();
    for (at, character) in text.char_indices() {
        let other = others.next()?;
        if other == character {
            continue;
        }
        if twin(character) != Some(other) {
            return None;
        }
        let end = at + character.len_utf8();
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => ranges.push(at..end),
        }
    }
    others.next().is_none().then_some(ranges)
}

/// Few characters, so that each name has one of them. Signs go before letters and digits, which
/// templates look for in texts more often. A name without any character that has a twin is an error.
pub fn key_characters<'a>(
    names: impl Iterator<Item = &'a str>,
) -> Result<BTreeSet<char>, String> {
    let mut open: Vec<BTreeSet<char>> = Vec::new();
    for name in names {
        let characters: BTreeSet<char> = name.chars().filter(|&one| twin(one).is_some()).collect();
        if characters.is_empty() {
            return Err(format!("the special token {name:?} is white space or quotes alone"));
        }
        let signs: BTreeSet<char> =
            characters.iter().copied().filter(|one| !one.is_alphanumeric()).collect();
        open.push(if signs.is_empty() { characters } else { signs });
    }
    let mut keys = BTreeSet::new();
    while !open.is_empty() {
        let candidates: BTreeSet<char> = open.iter().flatten().copied().collect();
        let names_with = |one: char| open.iter().filter(|name| name.contains(&one)).count();
        // Of equals the one that fewer tags of ordinary text have: not < and >.
        let best = candidates
            .into_iter()
            .max_by_key(|&one| (names_with(one), !matches!(one, '<' | '>' | '/')));
        let Some(best) = best else { break };
        keys.insert(best);
        open.retain(|name| !name.contains(&best));
    }
    Ok(keys)
}
