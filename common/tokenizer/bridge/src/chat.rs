//! Chat templates: a conversation becomes the text that the model was trained on, and its ids. As
//! apply_chat_template of transformers does it, but that no text of the caller's becomes a special
//! token (twins.rs, marked.rs).

use crate::conversation::{self, Conversation, Words};
use crate::json::Json;
use crate::pieces::{Kind, Pieces};
use crate::twins::{self, Exchanged};
use crate::{generation_tags, marked, python};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value};
use std::io::{self, Write};
use std::ops::Range;
use tokenizers::Tokenizer;

/// The longest known template has 30 KB.
const MAX_TEMPLATE: usize = 1 << 20;
/// Bytes of text.
const MAX_OUTPUT: usize = 8 << 20;
/// About as many steps, and 64 bytes of data each: at most a second and 256 MB, and that only for a
/// template that wants it so. A long conversation of 10,000 messages takes a tenth.
const FUEL: u64 = 4_000_000;
/// Calls of macros within macros.
const MAX_RECURSION: usize = 100;

const DEFAULT: &str = "default";
const WITH_TOOLS: &str = "tool_use";

/// The names under which templates know the special tokens.
const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

pub struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: Vec<(String, Value)>,
    words: Words,
    key_characters: Exchanged,
    /// Templates whose messages may have a list of parts for a content.
    with_parts: Vec<String>,
}

pub struct Input<'a> {
    pub messages: &'a [u8],
    pub tools: &'a [u8],
    pub arguments: &'a [u8],
    pub add_generation_prompt: bool,
    pub now: i64,
}

pub struct Prompt {
    pub text: String,
    pub ids: Vec<u32>,
}

impl ChatTemplate {
    /// `config`: a tokenizer_config.json, or empty. `file`: a chat_template.jinja, which goes before
    /// what the other one has, or empty. None: neither has a template.
    pub fn new(pieces: &Pieces, config: &[u8], file: &[u8]) -> Result<Option<Self>, String> {
        let config = Json::parse(config)?;
        let sources = sources(&config, file)?;
        if sources.is_empty() {
            return Ok(None);
        }
        let mut environment = environment()?;
        let mut words = Words::default();
        for (name, source) in &sources {
            if source.len() > MAX_TEMPLATE {
                return Err(format!("a chat template has more than {MAX_TEMPLATE} bytes"));
            }
            words.add(source);
            environment
                .add_template_owned(name.clone(), generation_tags::neutralized(source))
                .map_err(|error| format!("its chat template cannot be read: {error}"))?;
        }
        let special = pieces.pieces.iter().filter(|piece| piece.kind == Kind::Special);
        let names: Vec<String> =
            special.map(|piece| String::from_utf8_lossy(&piece.later).into_owned()).collect();
        let key_characters = twins::key_characters(names.iter().map(String::as_str))?;
        let mut template = ChatTemplate {
            environment,
            special_tokens: special_tokens(&config),
            words,
            key_characters: Exchanged::These(key_characters),
            with_parts: Vec::new(),
        };
        template.with_parts = sources
            .iter()
            .map(|(name, _)| name.clone())
            .filter(|name| template.takes_parts(name))
            .collect();
        Ok(Some(template))
    }

    pub fn apply(
        &self,
        tokenizer: &Tokenizer,
        pieces: &Pieces,
        input: &Input,
    ) -> Result<Prompt, String> {
        let mut conversation = Conversation::new(input.messages, input.tools, input.arguments)?;
        let name = self.choose(conversation.has_tools())?;
        if !self.with_parts.contains(&name) {
            conversation.join_parts();
        }
        let text = self.render(&name, &conversation, input, &Exchanged::None)?;
        let foreign = self.foreign(&name, &conversation, input, &text)?;
        let ids = marked::encode(tokenizer, pieces, &text, &foreign, false)?;
        Ok(Prompt { text, ids })
    }

    fn choose(&self, with_tools: bool) -> Result<String, String> {
        let has = |name: &str| self.environment.get_template(name).is_ok();
        if with_tools && has(WITH_TOOLS) {
            return Ok(WITH_TOOLS.into());
        }
        if has(DEFAULT) {
            return Ok(DEFAULT.into());
        }
        Err("the model has chat templates, but none by the name \"default\"".into())
    }

    /// The bytes of `text` that the caller gave.
    fn foreign(
        &self,
        name: &str,
        conversation: &Conversation,
        input: &Input,
        text: &str,
    ) -> Result<Vec<Range<usize>>, String> {
        for exchanged in [&Exchanged::All, &self.key_characters] {
            // A failure is as good as another text: the template looked at what stands there.
            let Ok(twins) = self.render(name, conversation, input, exchanged) else { continue };
            if let Some(foreign) = twins::foreign(text, &twins) {
                return Ok(foreign);
            }
        }
        Err("the chat template decides by characters of this text that special tokens are made of, \
             so the two cannot be told apart; send the prompt as token ids"
            .into())
    }

    fn render(
        &self,
        name: &str,
        conversation: &Conversation,
        input: &Input,
        exchanged: &Exchanged,
    ) -> Result<String, String> {
        let mut variables: Vec<(String, Value)> = self.special_tokens.clone();
        variables.extend(conversation.variables(exchanged, &self.words));
        variables.push(("add_generation_prompt".into(), input.add_generation_prompt.into()));
        variables.push((python::NOW.into(), input.now.into()));
        let template = self.environment.get_template(name).map_err(|error| error.to_string())?;
        let mut output = Output(Vec::new());
        let context = Value::from_pairs(variables);
        template.render_captured_to(context, &mut output).map_err(describe)?;
        String::from_utf8(output.0).map_err(|error| error.to_string())
    }

    fn takes_parts(&self, name: &str) -> bool {
        let input = Input {
            messages: conversation::PARTS_PROBE.as_bytes(),
            tools: &[],
            arguments: &[],
            add_generation_prompt: false,
            now: 0,
        };
        let rendered = Conversation::new(input.messages, input.tools, input.arguments)
            .and_then(|probe| self.render(name, &probe, &input, &Exchanged::None));
        // Without a loop over the parts the list itself would be printed.
        rendered.is_ok_and(|text| {
            text.contains(conversation::PARTS_PROBE_TEXT) && !text.contains("'type'")
        })
    }
}

/// Templates by name.
fn sources(config: &Json, file: &[u8]) -> Result<Vec<(String, String)>, String> {
    if !file.is_empty() {
        let file = String::from_utf8(file.to_vec()).map_err(|error| error.to_string())?;
        return Ok(vec![(DEFAULT.into(), file)]);
    }
    match config.get("chat_template") {
        None | Some(Json::Null) => Ok(vec![]),
        Some(Json::Text(source)) => Ok(vec![(DEFAULT.into(), source.clone())]),
        Some(Json::List(named)) => named
            .iter()
            .map(|one| {
                let text = |key: &str| one.get(key).and_then(Json::text).map(str::to_owned);
                text("name").zip(text("template"))
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| "an entry of chat_template has no name or no template".into()),
        Some(_) => Err("chat_template must be a text or a list of names and templates".into()),
    }
}

/// A token is a text, or an object with the text as its content.
fn special_tokens(config: &Json) -> Vec<(String, Value)> {
    let text = |json: &Json| json.get("content").unwrap_or(json).text().map(str::to_owned);
    let mut tokens: Vec<(String, Value)> = SPECIAL_TOKENS
        .iter()
        .filter_map(|name| Some((name.to_string(), text(config.get(name)?)?.into())))
        .collect();
    if let Some(Json::List(more)) = config.get("additional_special_tokens") {
        let more: Vec<Value> = more.iter().filter_map(text).map(Value::from).collect();
        tokens.push(("additional_special_tokens".into(), Value::from_iter(more)));
    }
    tokens
}

/// As _compile_jinja_template of transformers sets it up.
fn environment() -> Result<Environment<'static>, String> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    let syntax = syntax.map_err(|error| error.to_string())?;
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(MAX_RECURSION);
    environment.add_function("raise_exception", python::raise_exception);
    environment.add_function("strftime_now", python::strftime_now);
    environment.add_filter("tojson", python::tojson);
    Ok(environment)
}

fn describe(error: minijinja::Error) -> String {
    let detail = error.detail().unwrap_or_default();
    if let Some((_, message)) = detail.split_once(python::RAISED) {
        return format!("the chat template refuses this conversation: \"{message}\"");
    }
    if error.kind() == minijinja::ErrorKind::OutOfFuel {
        return "the chat template takes too much work".into();
    }
    // It may name values. Logs leave out what stands in quotes.
    let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
    format!("the chat template failed: \"{error}{}\"", source.unwrap_or_default())
}

/// Text of bounded size.
struct Output(Vec<u8>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!("the text has more than {MAX_OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
