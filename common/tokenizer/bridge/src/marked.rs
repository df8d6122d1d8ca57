//! Ids of a text of which parts are foreign: no special token is made of those.
//!
//! The text is encoded as a whole, as the crate would, so that the ids of a text without names of
//! special tokens are those of the crate. Where the crate finds the name of a special token that
//! has a foreign character in it, a character that no text has (the break) is put into the name
//! before the search for names, and taken out after it. The search then runs again: what it finds
//! is checked, never assumed.

use crate::pieces::{Kind, Pieces};
use std::ops::Range;
use tokenizers::{
    Encoding, Model, ModelWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    Tokenizer,
};

/// A name may hold other names, which are found only when it is broken: a few deep at most.
const MAX_SEARCHES: usize = 16;

/// The last private-use characters of Unicode; one that the text does not have is the break.
const BREAKS: Range<u32> = 0x10_FF00..0x10_FFFE;

/// The ids of `text`. `foreign`: ranges of its bytes, in order, none of which overlap.
pub fn encode(
    tokenizer: &Tokenizer,
    pieces: &Pieces,
    text: &str,
    foreign: &[Range<usize>],
    add_special_tokens: bool,
) -> Result<Vec<u32>, String> {
    let text_of = |error: tokenizers::Error| error.to_string();
    if foreign.iter().all(|range| range.is_empty()) {
        let encoding = tokenizer.encode_fast(text, add_special_tokens).map_err(text_of)?;
        return Ok(encoding.get_ids().to_vec());
    }
    let (mut split, names) = split_at_names(tokenizer, pieces, text, foreign)?;
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        pre_tokenizer.pre_tokenize(&mut split).map_err(text_of)?;
    }
    tokenizer.get_model().tokenize_in_pretokenized(&mut split, None).map_err(text_of)?;
    let encoding: Encoding = split.into_encoding(None, 0, OffsetType::None).map_err(text_of)?;
    // A model whose vocabulary has the name as a piece (Unigram) would make the token of any text.
    if special_tokens(tokenizer, pieces, encoding.get_ids()) != names {
        return Err("the tokenizer's model itself makes a special token of the text".into());
    }
    let encoding = tokenizer.post_process(encoding, None, add_special_tokens).map_err(text_of)?;
    Ok(encoding.get_ids().to_vec())
}

/// The text, split at the names of added tokens and normalized, and how many special ones there are.
fn split_at_names(
    tokenizer: &Tokenizer,
    pieces: &Pieces,
    text: &str,
    foreign: &[Range<usize>],
) -> Result<(PreTokenizedString, usize), String> {
    let marker = BREAKS.filter_map(char::from_u32).find(|&marker| !text.contains(marker));
    let marker = marker.ok_or("the text has every private-use character")?;
    let mut breaks: Vec<usize> = Vec::new(); // bytes of `text` before which a break stands; rising
    for _ in 0..MAX_SEARCHES {
        let broken = with_breaks(text, &breaks, marker);
        let mut split = tokenizer
            .get_added_vocabulary()
            .extract_and_normalize(tokenizer.get_normalizer(), &broken);
        let mut found = Vec::new();
        let mut names = Vec::new();
        for (_, (begin, end), tokens) in
            split.get_splits(OffsetReferential::Original, OffsetType::Byte)
        {
            let Some(token) = tokens.as_ref().and_then(|tokens| tokens.first()) else { continue };
            if kind(pieces, token.id) != Kind::Special {
                continue;
            }
            names.push(token.id);
            let name = without_spaces(&broken, begin..end);
            let name = unbroken(&breaks, marker, name.start)..unbroken(&breaks, marker, name.end);
            if touches(foreign, &name) {
                found.push(inside(text, &name)?);
            }
        }
        if found.is_empty() {
            let names = special_tokens(tokenizer, pieces, &names);
            let unmark = |part: &mut tokenizers::NormalizedString| {
                part.filter(|character| character != marker);
                Ok(())
            };
            split.normalize(unmark).map_err(|error| error.to_string())?;
            return Ok((split, names));
        }
        breaks.extend(found);
        breaks.sort_unstable();
        breaks.dedup();
    }
    Err("the text has names of special tokens that cannot be taken as text".into())
}

fn kind(pieces: &Pieces, id: u32) -> Kind {
    pieces.pieces.get(id as usize).map_or(Kind::None, |piece| piece.kind)
}

/// How many of `ids` are special tokens, but for the one that stands for unknown text.
fn special_tokens(tokenizer: &Tokenizer, pieces: &Pieces, ids: &[u32]) -> usize {
    let unknown = match tokenizer.get_model() {
        ModelWrapper::BPE(bpe) => bpe.get_unk_token().clone(),
        ModelWrapper::WordPiece(model) => Some(model.unk_token.clone()),
        ModelWrapper::WordLevel(model) => Some(model.unk_token.clone()),
        ModelWrapper::Unigram(_) => Some("<unk>".into()),
    };
    let unknown = unknown.and_then(|name| tokenizer.token_to_id(&name));
    ids.iter().filter(|&&id| kind(pieces, id) == Kind::Special && Some(id) != unknown).count()
}

fn with_breaks(text: &str, breaks: &[usize], marker: char) -> String {
    let mut broken = String::with_capacity(text.len() + breaks.len() * marker.len_utf8());
    let mut copied = 0;
    for &at in breaks {
        broken.push_str(&text[copied..at]);
        broken.push(marker);
        copied = at;
    }
    broken.push_str(&text[copied..]);
    broken
}

/// Where byte `at` of the broken text is in the text itself.
fn unbroken(breaks: &[usize], marker: char, at: usize) -> usize {
    // Break i stands at breaks[i] + i * size, so what lies at or before `at` is a prefix of them.
    let size = marker.len_utf8();
    let (mut low, mut high) = (0, breaks.len());
    while low < high {
        let middle = (low + high) / 2;
        if breaks[middle] + middle * size < at {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    at - low * size
}

/// Some tokens take the white space around their names with them (lstrip, rstrip).
fn without_spaces(text: &str, range: Range<usize>) -> Range<usize> {
    let Some(part) = text.get(range.clone()) else { return range };
    let start = range.end - part.trim_start().len();
    let end = range.start + part.trim_end().len();
    if start < end {
        start..end
    } else {
        range
    }
}

fn touches(foreign: &[Range<usize>], range: &Range<usize>) -> bool {
    let next = foreign.partition_point(|part| part.end <= range.start);
    foreign[next..].iter().take_while(|part| part.start < range.end).any(|part| !part.is_empty())
}

/// The end of the first character of `range`, which must have another one.
fn inside(text: &str, range: &Range<usize>) -> Result<usize, String> {
    let name = text.get(range.clone()).unwrap_or_default();
    let mut starts = name.char_indices().skip(1);
    match starts.next() {
        Some((at, _)) => Ok(range.start + at),
        None => Err(format!("\"{name}\" is a special token and cannot be taken as text")),
    }
}
