//! The tokenizers crate and chat templates behind the C interface of ../tandem_tokenizer.h, which
//! has the contracts.

mod audit;
mod bounds;
mod chat;
mod chat_interface;
mod conversation;
mod generation_tags;
mod json;
mod legacy_merges;
mod marked;
mod methods;
mod pieces;
mod python;
mod twins;
mod values;

use pieces::{Kind, Pieces};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;
use std::{ptr, slice, str};
use tokenizers::Tokenizer;

pub struct TandemTokenizer {
    tokenizer: Tokenizer,
    pieces: Pieces,
}

/// An owned array on its way over the border: of bytes (TandemBuffer) or of ids (TandemIds).
#[repr(C)]
pub struct Owned<T> {
    data: *mut T,
    size: usize,
}

impl<T> Owned<T> {
    fn new(items: Vec<T>) -> Self {
        let items: &mut [T] = Box::leak(items.into_boxed_slice());
        Owned { data: items.as_mut_ptr(), size: items.len() }
    }

    /// Safety: `self` came from `new` and is given back once.
    unsafe fn free(self) {
        if self.size > 0 {
            drop(Box::from_raw(ptr::slice_from_raw_parts_mut(self.data, self.size)));
        }
    }
}

#[repr(C)]
pub struct View {
    data: *const u8,
    size: usize,
}

impl View {
    fn new(bytes: &[u8]) -> Self {
        View { data: bytes.as_ptr(), size: bytes.len() }
    }
}

#[repr(C)]
pub struct Token {
    kind: u32,
    first: View,
    later: View,
}

/// Safety: `data` points to `size` items, or `size` is 0.
unsafe fn borrow<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        slice::from_raw_parts(data, size)
    }
}

/// Runs `work`; a failure or a panic leaves its text in `error`, and nothing on stderr.
unsafe fn guarded<T>(error: *mut Owned<u8>, work: impl FnOnce() -> Result<T, String>) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let message = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(message)) => message,
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => format!("the tokenizer panicked: {text}"),
            (_, Some(text)) => format!("the tokenizer panicked: {text}"),
            _ => "the tokenizer panicked".into(),
        },
    };
    ptr::write(error, Owned::new(message.into_bytes()));
    None
}

fn parse(json: &[u8]) -> Result<TandemTokenizer, String> {
    let mut tokenizer = Tokenizer::from_bytes(json)
        .or_else(|error| match legacy_merges::as_pairs(json) {
            Some(clear) => Tokenizer::from_bytes(clear),
            None => Err(error),
        })
        .map_err(|error| error.to_string())?;
    tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
    tokenizer.with_padding(None);
    // The crate would keep the words that it has seen: up to 10,000 a thread, for ever, of 1 KB and
    // more each. Without them the time of a token is 1.1 us instead of 0.9.
    let mut model = tokenizer.get_model().clone();
    model.resize_cache(0);
    tokenizer.with_model(model);
    let pieces = Pieces::new(&tokenizer)?;
    Ok(TandemTokenizer { tokenizer, pieces })
}

#[no_mangle]
pub unsafe extern "C" fn tandem_tokenizer_new(
    json: *const u8,
    size: usize,
    error: *mut Owned<u8>,
) -> *mut TandemTokenizer {
    guarded(error, || parse(borrow(json, size)))
        .map_or(ptr::null_mut(), |tokenizer| Box::into_raw(Box::new(tokenizer)))
}

#[no_mangle]
pub unsafe extern "C" fn tandem_tokenizer_free(tokenizer: *mut TandemTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn tandem_tokenizer_vocabulary_size(tokenizer: &TandemTokenizer) -> u32 {
    tokenizer.pieces.pieces.len() as u32
}

#[no_mangle]
pub unsafe extern "C" fn tandem_tokenizer_token(tokenizer: &TandemTokenizer, id: u32) -> Token {
    match tokenizer.pieces.pieces.get(id as usize) {
        Some(piece) => Token {
            kind: piece.kind as u32,
            first: View::new(&piece.first),
            later: View::new(&piece.later),
        },
        None => Token { kind: Kind::None as u32, first: View::new(&[]), later: View::new(&[]) },
    }
}

#[no_mangle]
pub unsafe extern "C" fn tandem_tokenizer_replaces_each_byte(tokenizer: &TandemTokenizer) -> bool {
    tokenizer.pieces.byte_fallback
}

#[no_mangle]
pub unsafe extern "C" fn tandem_tokenizer_encode(
    tokenizer: &TandemTokenizer,
    text: *const u8,
    size: usize,
    add_special_tokens: bool,
    parse_special_tokens: bool,
    ids: *mut Owned<u32>,
    error: *mut Owned<u8>,
) -> bool {
    let encoded = guarded(error, || {
        let text = str::from_utf8(borrow(text, size)).map_err(|error| {
            format!("the text is not UTF-8: a wrong byte at offset {}", error.valid_up_to())
        })?;
        let foreign = if parse_special_tokens { 0..0 } else { 0..text.len() };
        let TandemTokenizer { tokenizer, pieces } = tokenizer;
        marked::encode(tokenizer, pieces, text, &[foreign], add_special_tokens)
    });
    encoded.map(|encoded| ptr::write(ids, Owned::new(encoded))).is_some()
}

#[no_mangle]
pub unsafe extern "C" fn tandem_tokenizer_decode(
    tokenizer: &TandemTokenizer,
    ids: *const u32,
    count: usize,
    text: *mut Owned<u8>,
    error: *mut Owned<u8>,
) -> bool {
    let decoded = guarded(error, || {
        let decoded = tokenizer.tokenizer.decode(borrow(ids, count), true);
        decoded.map(String::into_bytes).map_err(|error| error.to_string())
    });
    decoded.map(|decoded| ptr::write(text, Owned::new(decoded))).is_some()
}

#[no_mangle]
pub unsafe extern "C" fn tandem_buffer_free(buffer: Owned<u8>) {
    buffer.free();
}

#[no_mangle]
pub unsafe extern "C" fn tandem_ids_free(ids: Owned<u32>) {
    ids.free();
}
