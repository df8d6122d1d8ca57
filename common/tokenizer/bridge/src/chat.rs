//! Chat templates: a conversation becomes the text that the model was trained on, and its ids. As
//! apply_chat_template of transformers does it, but that no text of the caller's becomes a special
//! token (twins.rs, marked.rs).

use crate::bounds::{self, MAX_TEXT};
use crate::conversation::{self, Conversation, Words};
use crate::json::Json;
use crate::pieces::{Kind, Pieces};
use crate::twins::{self, Exchanged};
use crate::{audit, generation_tags, marked, methods, python, values};
use minijinja::machinery::{eval, get_compiled_template, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tokenizers::Tokenizer;

/// The longest known template has 30 KB.
const MAX_TEMPLATE: usize = 1 << 20;
/// About as many steps, visits of items, and 64 bytes of data each: at most a second and 256 MB, and
/// that only for a template that wants it so. A long conversation of 10,000 messages takes a tenth.
const FUEL: u64 = 4_000_000;
/// For a conversation of one message, when the template is loaded. Published templates take a few
/// thousand.
const PROBE_FUEL: u64 = FUEL / 16;
/// Templates by name, of one model.
const MAX_TEMPLATES: usize = 64;
/// Renderings to find out whether a template left a text out.
const MAX_LOOKS: usize = 8;
/// Calls of macros within macros.
const MAX_RECURSION: usize = 100;

const TOO_MUCH_WORK: &str = "the chat template takes too much work";
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
    forms: BTreeMap<String, Form>,
    missing: BTreeSet<String>,
}

/// What a template takes.
struct Form {
    /// A list of parts for the content of a message.
    parts: bool,
    /// The role of a developer.
    developer: bool,
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

pub struct Failure {
    pub message: String,
    /// The template needs what the engine lacks, whatever the conversation is.
    pub of_template: bool,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure { message, of_template: false }
    }
}

impl ChatTemplate {
    /// `config`: a tokenizer_config.json, or empty. `templates`: JSON as its "chat_template", which
    /// goes before that one, or empty. None: neither has a template.
    pub fn new(pieces: &Pieces, config: &[u8], templates: &[u8]) -> Result<Option<Self>, String> {
        let config = Json::parse(config)?;
        let templates = Json::parse(templates)?;
        let sources = sources(match &templates {
            Json::Null => config.get("chat_template").unwrap_or(&Json::Null),
            given => given,
        })?;
        if sources.is_empty() {
            return Ok(None);
        }
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|error| error.to_string())?;
        let mut environment = environment(syntax.clone());
        let mut words = Words::default();
        for (name, source) in &sources {
            if source.len() > MAX_TEMPLATE {
                return Err(format!("a chat template has more than {MAX_TEMPLATE} bytes"));
            }
            // Jinja2 reads any end of a line so.
            let source = source.replace("\r\n", "\n").replace('\r', "\n");
            let unread = |error: String| match name.as_str() {
                DEFAULT => format!("its chat template cannot be read: {error}"),
                name => format!("its chat template \"{name}\" cannot be read: {error}"),
            };
            bounds::check_nesting(&source, &syntax).map_err(unread)?;
            words.add(&source);
            environment
                .add_template_owned(name.clone(), generation_tags::neutralized(&source))
                .map_err(|error| unread(error.to_string()))?;
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
            forms: BTreeMap::new(),
            missing: BTreeSet::new(),
        };
        template.environment.set_fuel(Some(PROBE_FUEL));
        for (name, _) in &sources {
            let compiled = template.environment.get_template(name).map_err(|e| e.to_string())?;
            template.missing.extend(audit::missing(&template.environment, &compiled));
            let form = Form {
                parts: template.shows(name, conversation::PARTS_PROBE),
                developer: template.shows(name, conversation::DEVELOPER_PROBE),
            };
            template.forms.insert(name.clone(), form);
        }
        template.environment.set_fuel(Some(FUEL));
        Ok(Some(template))
    }

    /// What the templates use and the engine lacks.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(String::as_str)
    }

    pub fn apply(
        &self,
        tokenizer: &Tokenizer,
        pieces: &Pieces,
        input: &Input,
    ) -> Result<Prompt, Failure> {
        let mut conversation = Conversation::new(input.messages, input.tools, input.arguments)?;
        let (name, form) = self.choose(conversation.has_tools())?;
        if !form.parts {
            conversation.join_parts();
        }
        if !form.developer {
            conversation.rename_developer();
        }
        let text = self.render(name, &conversation, input, &Exchanged::None)?;
        let (foreign, all) = self.foreign(name, &conversation, input, &text)?;
        let said: Vec<&str> = match all {
            true => foreign.iter().map(|part| &text[part.clone()]).collect(),
            false => vec![&text],
        };
        for place in conversation.unsaid(&said).iter().take(MAX_LOOKS) {
            let other = conversation.with_text(place, conversation::PROBE_TEXT);
            if self.render(name, &other, input, &Exchanged::None).is_ok_and(|other| other == text) {
                let (index, role) = (place.message, conversation.role(place.message));
                return Err(format!(
                    "messages[{index}]: the chat template leaves out this message of role \"{role}\""
                )
                .into());
            }
        }
        let ids = marked::encode(tokenizer, pieces, &text, &foreign, false)?;
        Ok(Prompt { text, ids })
    }

    fn choose(&self, with_tools: bool) -> Result<(&str, &Form), String> {
        let wanted = if with_tools { &[WITH_TOOLS, DEFAULT][..] } else { &[DEFAULT] };
        let found = wanted.iter().find_map(|&name| Some((name, self.forms.get(name)?)));
        found.ok_or_else(|| "the model has chat templates, but none by the name \"default\"".into())
    }

    /// The bytes of `text` that the caller gave, and whether these are all, or only some characters.
    fn foreign(
        &self,
        name: &str,
        conversation: &Conversation,
        input: &Input,
        text: &str,
    ) -> Result<(Vec<Range<usize>>, bool), String> {
        for exchanged in [&Exchanged::All, &self.key_characters] {
            // A failure is as good as another text: the template looked at what stands there.
            let Ok(twins) = self.render(name, conversation, input, exchanged) else { continue };
            if let Some(foreign) = twins::foreign(text, &twins) {
                return Ok((foreign, *exchanged == Exchanged::All));
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
    ) -> Result<String, Failure> {
        values::begin_rendering(self.environment.fuel().unwrap_or_default());
        let mut variables: Vec<(String, Value)> = self.special_tokens.clone();
        variables.extend(conversation.variables(exchanged, &self.words));
        variables.push(("add_generation_prompt".into(), input.add_generation_prompt.into()));
        variables.push((python::NOW.into(), input.now.into()));
        let template = self.environment.get_template(name).map_err(|error| error.to_string())?;
        let instructions = values::guarded(&get_compiled_template(&template).instructions);
        let no_blocks = BTreeMap::new();
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        let rendered = eval(
            &self.environment,
            &instructions,
            Value::from_pairs(variables),
            &no_blocks,
            &mut output,
            AutoEscape::None,
        );
        let failed = rendered.err();
        if let Some(error) = failed {
            return Err(self.describe(error));
        }
        if !values::visit(0) {
            return Err(TOO_MUCH_WORK.to_owned().into());
        }
        if text.len() > MAX_TEXT {
            return Err(format!("the text has more than {MAX_TEXT} bytes").into());
        }
        Ok(text)
    }

    fn describe(&self, error: minijinja::Error) -> Failure {
        let detail = error.detail().unwrap_or_default();
        if let Some((_, message)) = detail.split_once(python::RAISED) {
            return format!("the chat template refuses this conversation: \"{message}\"").into();
        }
        if error.kind() == ErrorKind::OutOfFuel {
            return TOO_MUCH_WORK.to_owned().into();
        }
        // It may name values. Logs leave out what stands in quotes.
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        Failure {
            message: format!("the chat template failed: \"{error}{}\"", source.unwrap_or_default()),
            // Else a value that the conversation lacks was called.
            of_template: !self.missing.is_empty()
                && matches!(
                    error.kind(),
                    ErrorKind::UnknownFilter
                        | ErrorKind::UnknownTest
                        | ErrorKind::UnknownFunction
                        | ErrorKind::UnknownMethod
                ),
        }
    }

    /// Whether the text of `probe` is in the prompt, and not as a part of a printed list.
    fn shows(&self, name: &str, probe: &str) -> bool {
        let input = Input {
            messages: probe.as_bytes(),
            tools: &[],
            arguments: &[],
            add_generation_prompt: false,
            now: 0,
        };
        let conversation = Conversation::new(input.messages, input.tools, input.arguments);
        let rendered = conversation
            .map_err(Failure::from)
            .and_then(|probe| self.render(name, &probe, &input, &Exchanged::None));
        rendered
            .is_ok_and(|text| text.contains(conversation::PROBE_TEXT) && !text.contains("'type'"))
    }
}

/// Templates by name.
fn sources(templates: &Json) -> Result<Vec<(String, String)>, String> {
    match templates {
        Json::Null => Ok(vec![]),
        Json::Text(source) => Ok(vec![(DEFAULT.into(), source.clone())]),
        Json::List(named) if named.len() > MAX_TEMPLATES => {
            Err(format!("there are more than {MAX_TEMPLATES} chat templates"))
        }
        Json::List(named) => named
            .iter()
            .map(|one| {
                let text = |key: &str| one.get(key).and_then(Json::text).map(str::to_owned);
                text("name").zip(text("template"))
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| "an entry of chat_template has no name or no template".into()),
        _ => Err("chat_template must be a text or a list of names and templates".into()),
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
fn environment(syntax: SyntaxConfig) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::call);
    environment.set_recursion_limit(MAX_RECURSION);
    environment.add_function("namespace", values::namespace);
    environment.add_filter(values::LIST_GUARD, values::guard_list);
    environment.add_filter(values::OBJECT_GUARD, values::guard_object);
    environment.add_filter(values::OPERAND_GUARD, values::guard_operand);
    environment.add_filter(values::SLICE, values::slice);
    environment.add_function("raise_exception", python::raise_exception);
    environment.add_function("strftime_now", python::strftime_now);
    environment.add_function("joiner", minijinja_contrib::globals::joiner);
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("int", python::int);
    environment.add_test("sequence", python::is_sequence);
    environment.add_test("callable", python::is_callable);
    environment.set_formatter(python::print);
    environment
}
