//! The bytes that each token stands for, so that text can be made of ids one at a time.
//!
//! The crate's decoders work on whole sequences. Those of the supported tokenizers are concatenations
//! of bytes all the same, except that the first token may lose a leading space. So two byte strings a
//! token say it all, and `Pieces::new` checks against the crate that they do.

use tokenizers::{Decoder, DecoderWrapper, Tokenizer};

const SUPPORTED: &str = "ByteLevel, Metaspace and SentencePiece's decoders are supported";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    None = 0,
    Normal = 1,
    Special = 2,
}

pub struct Piece {
    pub kind: Kind,
    pub first: Vec<u8>, // as the first token of a text
    pub later: Vec<u8>, // after others; a special token's name
}

pub struct Pieces {
    pub pieces: Vec<Piece>, // by id
    pub byte_fallback: bool,
}

/// How the decoder of tokenizer.json treats bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bytes {
    Letters,  // ByteLevel: a printable letter stands for each byte
    Fallback, // tokens named <0x00> to <0xFF>
    None,
}

fn bytes_of(decoder: &DecoderWrapper) -> Bytes {
    match decoder {
        DecoderWrapper::ByteLevel(_) => Bytes::Letters,
        DecoderWrapper::ByteFallback(_) => Bytes::Fallback,
        DecoderWrapper::Sequence(sequence) => sequence
            .get_decoders()
            .iter()
            .map(bytes_of)
            .find(|&bytes| bytes != Bytes::None)
            .unwrap_or(Bytes::None),
        _ => Bytes::None,
    }
}

/// Decoders that cannot be concatenations: they drop repeated tokens, or join and trim words.
fn is_unsupported(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::CTC(_) | DecoderWrapper::WordPiece(_) | DecoderWrapper::BPE(_) => true,
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().any(is_unsupported),
        _ => false,
    }
}

/// ByteLevel's alphabet, of GPT-2: printable Latin-1 bytes stand for themselves, and the others, in
/// order, are U+0100, U+0101, ...
fn byte_of_letter(letter: char) -> Option<u8> {
    let printable = |code: u32| matches!(code, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let code = letter as u32;
    if code < 0x100 {
        return printable(code).then_some(code as u8);
    }
    (0..0x100).filter(|&byte| !printable(byte)).nth((code - 0x100) as usize).map(|byte| byte as u8)
}

/// As the crate does: a token with any letter outside the alphabet (an added token) is plain text.
fn bytes_of_letters(token: &str) -> Vec<u8> {
    token
        .chars()
        .map(byte_of_letter)
        .collect::<Option<Vec<u8>>>()
        .unwrap_or_else(|| token.as_bytes().to_vec())
}

fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

fn decode_strings(tokenizer: &Tokenizer, tokens: Vec<String>) -> Result<String, String> {
    match tokenizer.get_decoder() {
        Some(decoder) => decoder.decode(tokens).map_err(|error| error.to_string()),
        None => Ok(tokens.join(" ")),
    }
}

impl Pieces {
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, String> {
        if tokenizer.get_decoder().is_some_and(is_unsupported) {
            return Err(format!("its decoder cannot be streamed; {SUPPORTED}"));
        }
        let bytes = tokenizer.get_decoder().map_or(Bytes::None, bytes_of);
        let vocabulary = tokenizer.get_vocab(true);
        let Some(&largest) = vocabulary.values().max() else {
            return Err("the vocabulary is empty".into());
        };
        // Ids are dense in every real file; a lone huge one would only eat memory.
        if largest as usize > 16 * vocabulary.len() + 4096 {
            return Err(format!(
                "the largest id is {largest}, but there are only {} tokens",
                vocabulary.len()
            ));
        }
        let pieces = (0..=largest)
            .map(|id| Self::piece(tokenizer, bytes, id))
            .collect::<Result<Vec<_>, _>>()?;
        let pieces = Pieces { pieces, byte_fallback: bytes == Bytes::Fallback };
        pieces.check(tokenizer)?;
        Ok(pieces)
    }

    fn piece(tokenizer: &Tokenizer, bytes: Bytes, id: u32) -> Result<Piece, String> {
        let added = tokenizer.get_added_vocabulary();
        let Some(token) = added.simple_id_to_token(id).or_else(|| tokenizer.id_to_token(id)) else {
            return Ok(Piece { kind: Kind::None, first: vec![], later: vec![] });
        };
        if added.is_special_token(&token) {
            return Ok(Piece { kind: Kind::Special, first: vec![], later: token.into_bytes() });
        }
        let alone = |token: &str| decode_strings(tokenizer, vec![token.into()]);
        let (first, later) = match (bytes, fallback_byte(&token)) {
            (Bytes::Letters, _) => (bytes_of_letters(&token), bytes_of_letters(&token)),
            (Bytes::Fallback, Some(byte)) => {
                let first = if alone(&token)?.is_empty() { vec![] } else { vec![byte] };
                (first, vec![byte])
            }
            _ => {
                let anchor = alone("a")?;
                let both = decode_strings(tokenizer, vec!["a".into(), token.clone()])?;
                let later = both.strip_prefix(&anchor).ok_or_else(|| {
                    format!("its decoder changes earlier text when token {id} follows")
                })?;
                (alone(&token)?.into_bytes(), later.as_bytes().to_vec())
            }
        };
        Ok(Piece { kind: Kind::Normal, first, later })
    }

    /// Compares with the crate's own decoding, each token once in the middle of others. Tokens of
    /// single fallback bytes are left out: the crate throws away a whole run of them if one is wrong.
    fn check(&self, tokenizer: &Tokenizer) -> Result<(), String> {
        let plain: Vec<u32> = (0..self.pieces.len() as u32)
            .filter(|&id| {
                let piece = &self.pieces[id as usize];
                let is_byte = self.byte_fallback && piece.later.len() == 1;
                piece.kind == Kind::Normal && !is_byte
            })
            .collect();
        for ids in plain.chunks(64) {
            let mut bytes = self.pieces[ids[0] as usize].first.clone();
            for &id in &ids[1..] {
                bytes.extend(&self.pieces[id as usize].later);
            }
            let crate_text = tokenizer.decode(ids, true).map_err(|error| error.to_string())?;
            if crate_text != String::from_utf8_lossy(&bytes) {
                return Err(format!(
                    "its decoder makes the text of a token depend on its neighbours (between ids {} \
                     and {}); {SUPPORTED}",
                    ids[0],
                    ids[ids.len() - 1]
                ));
            }
        }
        Ok(())
    }
}
