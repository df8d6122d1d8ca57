//! What a chat template is given: messages, tools and arguments, checked, as values of the engine.

use crate::json::{Json, Object};
use crate::twins::Exchanged;
use crate::values;
use minijinja::Value;
use std::collections::{BTreeSet, HashSet};

/// Templates write a role between the signs of special tokens ('<|' + role + '|>'), so a role is
/// one of these and never the caller's own word.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Values of "type" in messages, tools and JSON schemas, that templates compare.
const TYPES: [&str; 10] = [
    "text", "function", "object", "string", "number", "integer", "boolean", "array", "null", "any",
];

/// They have their own place in a request.
const RESERVED: [&str; 3] = ["messages", "tools", "add_generation_prompt"];

/// The names by which the reasoning of an assistant is passed. Templates read the first, those of
/// gpt-oss the second.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

pub const PROBE_TEXT: &str = "tandem probe";
pub const PARTS_PROBE: &str =
    r#"[{"role": "user", "content": [{"type": "text", "text": "tandem probe"}]}]"#;
pub const DEVELOPER_PROBE: &str =
    r#"[{"role": "developer", "content": "tandem probe"}, {"role": "user", "content": "x"}]"#;

/// The words by which templates look up keys: `.word`, `'word'` and `"word"`.
#[derive(Default)]
pub struct Words(BTreeSet<String>);

impl Words {
    pub fn add(&mut self, source: &str) {
        let part = |one: char| one.is_alphanumeric() || matches!(one, '_' | '$' | '-');
        let mut before = ' ';
        let mut rest = source;
        while let Some(first) = rest.chars().next() {
            let word = &rest[..rest.find(|one: char| !part(one)).unwrap_or(rest.len())];
            if word.is_empty() {
                before = first;
                rest = &rest[first.len_utf8()..];
                continue;
            }
            rest = &rest[word.len()..];
            let quoted = matches!(before, '\'' | '"') && rest.starts_with(before);
            if before == '.' || quoted {
                self.0.insert(word.to_owned());
            }
            before = ' ';
        }
    }
}

/// Of a text in a conversation.
pub struct Place {
    pub message: usize,
    pub part: Option<usize>,
}

#[derive(Clone)]
pub struct Conversation {
    messages: Vec<Object>,
    tools: Json,
    arguments: Object,
}

impl Conversation {
    /// Each is JSON; tools and arguments may be empty.
    pub fn new(messages: &[u8], tools: &[u8], arguments: &[u8]) -> Result<Self, String> {
        let Json::List(messages) = parse("messages", messages)? else {
            return Err("messages: must be a list".into());
        };
        if messages.is_empty() {
            return Err("messages: must not be empty".into());
        }
        let messages = messages
            .into_iter()
            .enumerate()
            .map(|(index, message)| {
                check_message(message).map_err(|error| format!("messages[{index}]{error}"))
            })
            .collect::<Result<_, _>>()?;
        let tools = match parse("tools", tools)? {
            Json::List(tools) if tools.is_empty() => Json::Null,
            tools @ (Json::List(_) | Json::Null) => tools,
            _ => return Err("tools: must be a list".into()),
        };
        let arguments = match parse("template_arguments", arguments)? {
            Json::Object(arguments) => arguments,
            Json::Null => Object::default(),
            _ => return Err("template_arguments: must be an object".into()),
        };
        if let Some(name) = RESERVED.iter().find(|name| arguments.get(name).is_some()) {
            return Err(format!("template_arguments: {name} has a field of its own"));
        }
        Ok(Conversation { messages, tools, arguments })
    }

    pub fn has_tools(&self) -> bool {
        !matches!(self.tools, Json::Null)
    }

    /// Contents that are lists of texts become one text, a line each.
    pub fn join_parts(&mut self) {
        for message in &mut self.messages {
            let Some(Json::List(parts)) = message.get("content") else { continue };
            let texts: Vec<&str> =
                parts.iter().filter_map(|part| part.get("text").and_then(Json::text)).collect();
            let joined = texts.join("\n");
            message.insert("content".into(), Json::Text(joined));
        }
    }

    /// For templates that do not know the developer: OpenAI's newer name of "system".
    pub fn rename_developer(&mut self) {
        for message in &mut self.messages {
            if message.get("role").and_then(Json::text) == Some("developer") {
                message.insert("role".into(), Json::Text("system".into()));
            }
        }
    }

    /// Texts of which `said`, what of the prompt may be the caller's, has none of the longest words: a
    /// template left them out or changed them. Of an assistant's text templates leave out the
    /// reasoning, so it does not count.
    pub fn unsaid(&self, said: &[&str]) -> Vec<Place> {
        let split = |part: fn(char) -> bool| {
            said.iter().flat_map(move |text| text.split(move |one: char| !part(one)))
        };
        let words: HashSet<&str> =
            split(|one| one.is_ascii_alphanumeric()).chain(split(char::is_alphanumeric)).collect();
        let is_unsaid = |text: &str| {
            let longest = longest_words(text);
            !longest.is_empty() && !longest.iter().any(|word| words.contains(word))
        };
        let mut places = Vec::new();
        for (message, its) in self.messages.iter().enumerate() {
            if its.get("role").and_then(Json::text) == Some("assistant") {
                continue;
            }
            match its.get("content") {
                Some(Json::Text(text)) if is_unsaid(text) => {
                    places.push(Place { message, part: None })
                }
                Some(Json::List(parts)) => {
                    for (part, one) in parts.iter().enumerate() {
                        if one.get("text").and_then(Json::text).is_some_and(is_unsaid) {
                            places.push(Place { message, part: Some(part) });
                        }
                    }
                }
                _ => {}
            }
        }
        places
    }

    /// With another text at that place.
    pub fn with_text(&self, place: &Place, text: &str) -> Conversation {
        let mut other = self.clone();
        let content = other.messages[place.message].get_mut("content");
        let given = match (content, place.part) {
            (Some(Json::List(parts)), Some(part)) => parts[part].get_mut("text"),
            (content, _) => content,
        };
        if let Some(given) = given {
            *given = Json::Text(text.to_owned());
        }
        other
    }

    pub fn role(&self, message: usize) -> &str {
        self.messages[message].get("role").and_then(Json::text).unwrap_or_default()
    }

    /// What the template sees. The caller's characters are exchanged in all that is its own.
    pub fn variables(&self, exchanged: &Exchanged, words: &Words) -> Vec<(String, Value)> {
        let own = Own { exchanged, words };
        let messages = self.messages.iter().map(|message| own.object(message, true));
        let mut variables = vec![
            ("messages".to_owned(), values::list(messages.collect())),
            ("tools".to_owned(), own.value(&self.tools)),
            ("documents".to_owned(), Value::from(())),
        ];
        let arguments = self.arguments.iter().map(|(name, value)| (name.clone(), own.value(value)));
        variables.extend(arguments);
        variables
    }
}

fn parse(what: &str, json: &[u8]) -> Result<Json, String> {
    Json::parse(json).map_err(|error| format!("{what}: no JSON: {error}"))
}

/// The error begins with the path within the message.
fn check_message(message: Json) -> Result<Object, String> {
    let Json::Object(mut message) = message else { return Err(": must be an object".into()) };
    match message.get("role").and_then(Json::text) {
        Some(role) if ROLES.contains(&role) => {}
        Some(role) => {
            let role: String = role.chars().take(32).collect();
            return Err(format!(".role: \"{role}\" is none of {}", ROLES.join(", ")));
        }
        None => return Err(format!(".role: must be one of {}", ROLES.join(", "))),
    }
    match message.get("content") {
        None | Some(Json::Null | Json::Text(_)) => {}
        Some(Json::List(parts)) => {
            for (index, part) in parts.iter().enumerate() {
                if part.get("type").and_then(Json::text) != Some("text") {
                    return Err(format!(".content[{index}].type: only \"text\" is served"));
                }
                if part.get("text").and_then(Json::text).is_none() {
                    return Err(format!(".content[{index}].text: must be a text"));
                }
            }
        }
        Some(_) => return Err(".content: must be a text or a list of parts".into()),
    }
    if let Some(Json::List(calls)) = message.get_mut("tool_calls") {
        calls.iter_mut().for_each(read_arguments);
    }
    Ok(normalized(message))
}

/// As transformers: a member that is null is left out, for templates would print "None", and an
/// assistant's reasoning is there under the names that templates know.
fn normalized(message: Object) -> Object {
    let mut members: Vec<(String, Json)> =
        message.into_iter().filter(|(_, value)| !matches!(value, Json::Null)).collect();
    let place = |name: &&str| members.iter().position(|(key, _)| key == name);
    let Some(found) = REASONING.iter().find_map(place) else {
        return members.into_iter().collect();
    };
    let reasoning = members[found].1.clone();
    members.insert(0, ("thinking".into(), reasoning.clone()));
    members.push(("reasoning_content".into(), reasoning));
    members.into_iter().collect()
}

/// Three, for templates may edit a text. Of letters and digits of ASCII, which no template writes
/// otherwise; else of others.
fn longest_words(text: &str) -> Vec<&str> {
    let longest = |part: fn(char) -> bool| {
        let mut words: Vec<&str> = text.split(|one: char| !part(one)).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.retain(|word| !word.is_empty());
        words.truncate(3);
        words
    };
    let ascii = longest(|one| one.is_ascii_alphanumeric());
    if ascii.is_empty() {
        longest(char::is_alphanumeric)
    } else {
        ascii
    }
}

/// OpenAI's API has a call's arguments as a text of JSON; templates expect the object. Some clients
/// write none for a call without arguments.
fn read_arguments(call: &mut Json) {
    let Some(arguments) = call.get_mut("function").and_then(|one| one.get_mut("arguments")) else {
        return;
    };
    match arguments.text().map(|text| Json::parse(text.trim().as_bytes())) {
        Some(Ok(Json::Null)) => *arguments = Json::Object(Object::default()),
        Some(Ok(object @ Json::Object(_))) => *arguments = object,
        _ => {}
    }
}

struct Own<'a> {
    exchanged: &'a Exchanged,
    words: &'a Words,
}

impl Own<'_> {
    fn value(&self, json: &Json) -> Value {
        match json {
            Json::Null => Value::from(()),
            Json::Bool(flag) => Value::from(*flag),
            Json::Signed(number) => Value::from(*number),
            Json::Unsigned(number) => Value::from(*number),
            Json::Float(number) => Value::from(*number),
            Json::Text(text) => Value::from(self.exchanged.apply(text)),
            Json::List(items) => values::list(items.iter().map(|item| self.value(item)).collect()),
            Json::Object(object) => self.object(object, false),
        }
    }

    fn object(&self, object: &Object, is_message: bool) -> Value {
        values::object(Value::from_pairs(object.iter().map(|(key, value)| {
            let text = value.text().unwrap_or_default();
            let known = match key.as_str() {
                "role" => is_message,
                "type" => TYPES.contains(&text),
                _ => false,
            };
            let value = if known { Value::from(text) } else { self.value(value) };
            let plain = self.words.0.contains(key);
            let key = if plain { key.clone() } else { self.exchanged.apply(key) };
            (key, value)
        })))
    }
}
