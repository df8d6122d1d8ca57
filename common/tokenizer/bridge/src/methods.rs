//! Python's methods of strings, lists and dicts: those of minijinja-contrib, and here those that it
//! lacks, that differ from Python's, or whose work and result it does not bound.

use crate::bounds::{too_long, Text, MAX_TEXT};
use minijinja::value::{Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::collections::HashSet;

/// All that a template may call, for the check at the start.
pub const NAMES: [&str; 52] = [
    "capitalize",
    "casefold",
    "center",
    "copy",
    "count",
    "endswith",
    "find",
    "format",
    "get",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "istitle",
    "isupper",
    "items",
    "join",
    "keys",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "values",
    "zfill",
    // Of the engine's own objects.
    "changed",
    "cycle",
    "caller",
    "loop",
    "next",
    "reset",
    "fromkeys",
];

pub fn call(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    for one in [value].into_iter().chain(args) {
        let looked_at = one.as_str().map(str::len).or_else(|| match one.kind() {
            ValueKind::Seq | ValueKind::Iterable => one.len().map(|items| 32 * items),
            _ => None,
        });
        state.consume_fuel(looked_at.unwrap_or_default() as u64 / 64)?;
    }
    let own = match (value.as_str(), value.kind()) {
        (Some(text), _) => of_text(state, text, name, &Arguments::new(args)?)?,
        (None, ValueKind::Map) if name == "copy" => Some(value.clone()),
        (None, ValueKind::Seq) => of_list(value, name, args)?,
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn error(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// By place or by name.
struct Arguments<'a> {
    places: &'a [Value],
    names: Option<Kwargs>,
}

impl<'a> Arguments<'a> {
    fn new(args: &'a [Value]) -> Result<Self, Error> {
        match args.split_last() {
            Some((last, places)) if last.is_kwargs() => {
                Ok(Arguments { places, names: Some(Kwargs::try_from(last.clone())?) })
            }
            _ => Ok(Arguments { places: args, names: None }),
        }
    }

    fn get(&self, place: usize, name: &str) -> Option<Value> {
        let named = || self.names.as_ref()?.get::<Option<Value>>(name).ok()?;
        self.places.get(place).cloned().or_else(named).filter(|one| !one.is_none())
    }

    fn text(&self, place: usize, name: &str) -> Result<Option<String>, Error> {
        let Some(value) = self.get(place, name) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| error(format!("{name} must be a string")))?;
        Ok(Some(text.to_owned()))
    }

    fn needed(&self, place: usize, name: &str) -> Result<String, Error> {
        self.text(place, name)?.ok_or_else(|| error(format!("{name} is missing")))
    }

    fn number(&self, place: usize, name: &str) -> Result<Option<i64>, Error> {
        let Some(value) = self.get(place, name) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| error(format!("{name} must be a whole number")))
    }
}

fn of_text(
    state: &State,
    text: &str,
    name: &str,
    args: &Arguments,
) -> Result<Option<Value>, Error> {
    let result = match name {
        "strip" | "lstrip" | "rstrip" => {
            let chars = args.text(0, "chars")?;
            state.consume_fuel(chars.as_ref().map_or(0, String::len) as u64 / 4)?;
            let chars: Option<HashSet<char>> = chars.map(|chars| chars.chars().collect());
            let goes = |one: char| match &chars {
                Some(chars) => chars.contains(&one),
                None => is_space(one),
            };
            let left = if name == "rstrip" { text } else { text.trim_start_matches(goes) };
            Value::from(if name == "lstrip" { left } else { left.trim_end_matches(goes) })
        }
        "replace" => {
            let (old, new) = (args.needed(0, "old")?, args.needed(1, "new")?);
            let count = args.number(2, "count")?.unwrap_or(-1);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let found = text.matches(old.as_str()).take(count).count();
            // A list of short texts can be no longer than this, so the sum cannot overflow.
            if found.saturating_mul(new.len()).saturating_add(text.len()) > MAX_TEXT {
                return Err(too_long());
            }
            Value::from(text.replacen(old.as_str(), &new, count))
        }
        "join" => {
            let mut joined = Text::new(MAX_TEXT);
            let items = args.get(0, "iterable").ok_or_else(|| error("join: a list is missing"))?;
            for (index, item) in items.try_iter()?.enumerate() {
                if index > 0 {
                    joined.push(text)?;
                }
                joined.push_value(&item)?;
            }
            Value::from(joined.take())
        }
        "format" => {
            check_format(text, args)?;
            return Ok(None);
        }
        "split" | "rsplit" => {
            let count = args.number(1, "maxsplit")?.unwrap_or(-1);
            let count = usize::try_from(count).unwrap_or(usize::MAX - 1);
            let parts = split(text, args.text(0, "sep")?.as_deref(), count, name == "rsplit")?;
            state.consume_fuel(parts.len() as u64)?;
            Value::from_iter(parts)
        }
        "splitlines" => {
            let keeps = args.get(0, "keepends").is_some_and(|keeps| keeps.is_true());
            let lines = lines(text, keeps);
            state.consume_fuel(lines.len() as u64)?;
            Value::from_iter(lines)
        }
        "partition" | "rpartition" => {
            let sep = args.needed(0, "sep")?;
            let from_left = name == "partition";
            let found = if from_left { text.split_once(&sep) } else { text.rsplit_once(&sep) };
            let (left, middle, right) = match found {
                Some((left, right)) => (left, sep.as_str(), right),
                None if from_left => (text, "", ""),
                None => ("", "", text),
            };
            Value::from(Tuple::from([left.into(), middle.into(), right.into()]))
        }
        "removeprefix" => {
            let prefix = args.needed(0, "prefix")?;
            Value::from(text.strip_prefix(prefix.as_str()).unwrap_or(text))
        }
        "removesuffix" => {
            let suffix = args.needed(0, "suffix")?;
            Value::from(text.strip_suffix(suffix.as_str()).unwrap_or(text))
        }
        "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith" => {
            let Some((from, part)) = section(text, args)? else { return Ok(None) };
            match name {
                "startswith" | "endswith" => {
                    let affixes = args.get(0, "prefix").unwrap_or_default();
                    let fits = |affix: &Value| match (affix.as_str(), name) {
                        (Some(affix), "startswith") => part.starts_with(affix),
                        (Some(affix), _) => part.ends_with(affix),
                        (None, _) => false,
                    };
                    match affixes.as_str() {
                        Some(_) => Value::from(fits(&affixes)),
                        None => Value::from(affixes.try_iter()?.any(|affix| fits(&affix))),
                    }
                }
                "count" => Value::from(part.matches(args.needed(0, "sub")?.as_str()).count()),
                _ => {
                    let what = args.needed(0, "sub")?;
                    let from_right = name.starts_with('r');
                    let found =
                        if from_right { part.rfind(&what) } else { part.find(what.as_str()) };
                    match found {
                        Some(at) => Value::from(from + part[..at].chars().count()),
                        None if name.ends_with("find") => Value::from(-1),
                        None => return Err(error("substring not found")),
                    }
                }
            }
        }
        "ljust" | "rjust" | "center" | "zfill" => padded(text, name, args)?,
        "casefold" => Value::from(text.to_lowercase().replace('ß', "ss")),
        "swapcase" => {
            let swap = |one: char| -> String {
                if one.is_uppercase() {
                    one.to_lowercase().collect()
                } else {
                    one.to_uppercase().collect()
                }
            };
            Value::from(text.chars().map(swap).collect::<String>())
        }
        "title" => Value::from(title(text)),
        "istitle" => Value::from(text.chars().any(char::is_alphabetic) && title(text) == text),
        "isdecimal" => {
            Value::from(!text.is_empty() && text.chars().all(|one| one.is_ascii_digit()))
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

fn of_list(list: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match (name, args) {
        ("copy", []) => Ok(Some(list.clone())),
        ("index", [what, ..]) => match list.try_iter()?.position(|item| item == *what) {
            Some(place) => Ok(Some(Value::from(place))),
            None => Err(error("the value is not in the list")),
        },
        _ => Ok(None),
    }
}

/// Python's white space has the separators of ASCII, too.
fn is_space(one: char) -> bool {
    one.is_whitespace() || matches!(one, '\u{1c}'..='\u{1f}')
}

/// Of the text that a start and an end leave, where they are given: its first place, and itself.
fn section<'a>(text: &'a str, args: &Arguments) -> Result<Option<(usize, &'a str)>, Error> {
    let size = text.chars().count() as i64;
    let place = |given: Option<i64>, otherwise: i64| match given {
        Some(place) if place < 0 => (size + place).max(0),
        Some(place) => place,
        None => otherwise,
    };
    let (start, end) = (args.number(1, "start")?, args.number(2, "end")?);
    if args.get(0, "sub").is_none() {
        return Ok(None);
    }
    let (start, end) = (place(start, 0), place(end, size).min(size));
    if start > end {
        return Err(error("a start beyond the end is not served"));
    }
    let byte = |place: i64| text.char_indices().nth(place as usize).map_or(text.len(), |one| one.0);
    Ok(Some((start as usize, &text[byte(start)..byte(end)])))
}

fn split<'a>(
    text: &'a str,
    sep: Option<&str>,
    count: usize,
    from_right: bool,
) -> Result<Vec<&'a str>, Error> {
    let mut parts: Vec<&str> = Vec::new();
    match sep {
        Some("") => return Err(error("empty separator")),
        Some(sep) if from_right => parts.extend(text.rsplitn(count + 1, sep)),
        Some(sep) => parts.extend(text.splitn(count + 1, sep)),
        None => {
            let trim = |text: &'a str| match from_right {
                true => text.trim_end_matches(is_space),
                false => text.trim_start_matches(is_space),
            };
            let mut rest = trim(text);
            while !rest.is_empty() && parts.len() < count {
                let (left, right) = match from_right {
                    true => rest.rfind(is_space).map_or(("", rest), |at| rest.split_at(at)),
                    false => rest.find(is_space).map_or((rest, ""), |at| rest.split_at(at)),
                };
                let (part, others) = if from_right { (right, left) } else { (left, right) };
                parts.push(part.trim_matches(is_space));
                rest = trim(others);
            }
            parts.extend(Some(rest).filter(|rest| !rest.is_empty()));
        }
    }
    if from_right {
        parts.reverse();
    }
    Ok(parts)
}

fn lines(text: &str, keeps_ends: bool) -> Vec<&str> {
    let ends = |one: char| {
        matches!(
            one,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        let size = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(1, char::len_utf8),
        };
        lines.push(&rest[..if keeps_ends { at + size } else { at }]);
        rest = &rest[at + size..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn padded(text: &str, name: &str, args: &Arguments) -> Result<Value, Error> {
    let width = args.number(0, "width")?.ok_or_else(|| error("width is missing"))?;
    let fill = args.text(1, "fillchar")?.unwrap_or(if name == "zfill" { "0" } else { " " }.into());
    let size = text.chars().count();
    let more = usize::try_from(width).unwrap_or_default().saturating_sub(size);
    if more.saturating_mul(fill.len()).saturating_add(text.len()) > MAX_TEXT {
        return Err(too_long());
    }
    let left = match name {
        "ljust" => 0,
        "center" => more / 2 + (more & width as usize & 1),
        _ => more,
    };
    let (before, after) = (fill.repeat(left), fill.repeat(more - left));
    let signed = name == "zfill" && text.starts_with(['+', '-']);
    let (sign, rest) = text.split_at(usize::from(signed));
    Ok(Value::from(format!("{sign}{before}{rest}{after}")))
}

/// A capital after each character that is no letter.
fn title(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut in_word = false;
    for one in text.chars() {
        match in_word {
            true => result.extend(one.to_lowercase()),
            false => result.extend(one.to_uppercase()),
        }
        in_word = one.is_alphabetic();
    }
    result
}

/// str.format: fields may repeat an argument, and ask for a width.
fn check_format(text: &str, args: &Arguments) -> Result<(), Error> {
    let mut longest = 0;
    let mut widest = 0;
    let named = args
        .names
        .iter()
        .flat_map(|names| names.args().filter_map(|name| names.get::<Value>(name).ok()));
    for value in args.places.iter().cloned().chain(named.collect::<Vec<_>>()) {
        let mut printed = Text::new(MAX_TEXT);
        printed.push_value(&value)?;
        longest = longest.max(printed.len());
    }
    for number in text.split(|one: char| !one.is_ascii_digit()).filter(|one| !one.is_empty()) {
        widest = widest.max(number.parse::<usize>().unwrap_or(usize::MAX));
    }
    let fields = text.matches('{').count();
    match fields.saturating_mul(longest.saturating_add(widest)) > MAX_TEXT {
        true => Err(too_long()),
        false => Ok(()),
    }
}
