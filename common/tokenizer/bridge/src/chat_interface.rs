//! The C interface of chat templates.

use crate::chat::{ChatTemplate, Input, Prompt};
use crate::{borrow, guarded, Owned, TandemTokenizer};
use std::ptr;

#[repr(C)]
pub struct ChatInput {
    messages: *const u8,
    messages_size: usize,
    tools: *const u8,
    tools_size: usize,
    arguments: *const u8,
    arguments_size: usize,
    now: i64,
    add_generation_prompt: bool,
}

#[no_mangle]
pub unsafe extern "C" fn tandem_chat_template_new(
    tokenizer: &TandemTokenizer,
    config: *const u8,
    config_size: usize,
    templates: *const u8,
    templates_size: usize,
    template: *mut *mut ChatTemplate,
    missing: *mut Owned<u8>,
    error: *mut Owned<u8>,
) -> bool {
    let made = guarded(error, || {
        let templates = borrow(templates, templates_size);
        ChatTemplate::new(&tokenizer.pieces, borrow(config, config_size), templates)
    });
    let write = |made: Option<ChatTemplate>| {
        let names: Vec<&str> = made.iter().flat_map(ChatTemplate::missing).collect();
        ptr::write(missing, Owned::new(names.join(", ").into_bytes()));
        let pointer = made.map_or(ptr::null_mut(), |made| Box::into_raw(Box::new(made)));
        ptr::write(template, pointer);
    };
    made.map(write).is_some()
}

#[no_mangle]
pub unsafe extern "C" fn tandem_chat_template_free(template: *mut ChatTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn tandem_chat_template_apply(
    template: &ChatTemplate,
    tokenizer: &TandemTokenizer,
    input: &ChatInput,
    text: *mut Owned<u8>,
    ids: *mut Owned<u32>,
    of_template: *mut bool,
    error: *mut Owned<u8>,
) -> bool {
    ptr::write(of_template, false);
    let prompt = guarded(error, || {
        let input = Input {
            messages: borrow(input.messages, input.messages_size),
            tools: borrow(input.tools, input.tools_size),
            arguments: borrow(input.arguments, input.arguments_size),
            add_generation_prompt: input.add_generation_prompt,
            now: input.now,
        };
        template.apply(&tokenizer.tokenizer, &tokenizer.pieces, &input).map_err(|failure| {
            ptr::write(of_template, failure.of_template);
            failure.message
        })
    });
    let write = |prompt: Prompt| {
        ptr::write(text, Owned::new(prompt.text.into_bytes()));
        ptr::write(ids, Owned::new(prompt.ids));
    };
    prompt.map(write).is_some()
}
