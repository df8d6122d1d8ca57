//! What templates call as Python has it: tojson and strftime_now, as transformers defines them.

use crate::bounds::{Text, MAX_TEXT};
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{escape_formatter, Error, ErrorKind, Output, State, Value};
use std::ffi::CString;

/// The variable that holds the time of the rendering; no template can name it.
pub const NOW: &str = "tandem now";

/// Stands before the message of raise_exception.
pub const RAISED: &str = "\u{0}raised: ";

const MAX_FORMAT: usize = 256;
const MAX_DEPTH: usize = 128;
const MAX_MESSAGE: usize = 4096;

fn error(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

pub fn raise_exception(message: &Value) -> Result<Value, Error> {
    let mut text = Text::new(MAX_MESSAGE);
    text.push_value(message)?;
    Err(Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{}", text.take())))
}

/// datetime.now().strftime(format): local time, and the C library's strftime, as Python's.
pub fn strftime_now(state: &State, format: &str) -> Result<String, Error> {
    let now = state.lookup(NOW).and_then(|now| now.as_i64()).unwrap_or_default();
    if format.len() > MAX_FORMAT {
        return Err(error("the format of strftime_now is too long"));
    }
    if format.is_empty() {
        return Ok(String::new());
    }
    let format = CString::new(format).map_err(|_| error("strftime_now: a format has no NUL"))?;
    let mut buffer = vec![0u8; 64 * MAX_FORMAT];
    // Safety: both calls write within what they are given, and `tm` is plain data.
    let size = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut local);
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &local)
    };
    buffer.truncate(size);
    String::from_utf8(buffer).map_err(|_| error("strftime_now: the result is not UTF-8"))
}

/// As str() of Python: the engine writes floating-point numbers otherwise.
pub fn print(output: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.kind() == ValueKind::Number && !value.is_integer() {
        return Ok(output.write_str(&number(value))?);
    }
    escape_formatter(output, state, value)
}

/// What is no number becomes `default`, or 0.
pub fn int(value: &Value, default: Option<i64>) -> i64 {
    let number = match value.as_str().map(str::trim) {
        Some(text) => text.parse().ok().or_else(|| Some(text.parse::<f64>().ok()? as i64)),
        None if value.kind() == ValueKind::Bool => Some(value.is_true().into()),
        None => f64::try_from(value.clone()).ok().map(|number| number as i64),
    };
    value.as_i64().or(number).or(default).unwrap_or_default()
}

/// What has a length and items by index.
pub fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
}

pub fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain
}

/// json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False).
pub fn tojson(state: &State, value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<Value> = options.get("indent")?;
    let indent = match indent {
        Some(indent) if indent.is_none() => None,
        Some(indent) if indent.as_str().is_some() => indent.as_str().map(str::to_owned),
        Some(indent) => Some(" ".repeat(indent.as_usize().unwrap_or_default().min(64))),
        None => None,
    };
    let separators: Option<Value> = options.get("separators")?;
    let (item, key) = match separators {
        Some(pair) if !pair.is_none() => {
            (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string())
        }
        _ if indent.is_some() => (",".into(), ": ".into()),
        _ => (", ".into(), ": ".into()),
    };
    let style = Style {
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item,
        key,
    };
    options.assert_all_used()?;
    let mut json = Text::new(MAX_TEXT);
    style.write(value, 0, &mut json)?;
    // As the engine's own, which walks the value as slowly.
    state.consume_fuel(json.len() as u64 / 4)?;
    Ok(json.take())
}

struct Style {
    ascii: bool,
    sorted: bool,
    indent: Option<String>,
    item: String,
    key: String,
}

impl Style {
    fn write(&self, value: &Value, depth: usize, json: &mut Text) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(error("tojson: the value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => json.push("null")?,
            ValueKind::Bool => json.push(if value.is_true() { "true" } else { "false" })?,
            ValueKind::Number => json.push(&number(value))?,
            ValueKind::String => self.write_text(value.as_str().unwrap_or_default(), json)?,
            ValueKind::Seq | ValueKind::Iterable => {
                json.push("[")?;
                let mut empty = true;
                for item in value.try_iter()? {
                    self.begin_item(empty, depth + 1, json)?;
                    empty = false;
                    self.write(&item, depth + 1, json)?;
                }
                self.end(empty, depth, "]", json)?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort_by_cached_key(|key| key.to_string());
                }
                json.push("{")?;
                for (index, key) in keys.iter().enumerate() {
                    self.begin_item(index == 0, depth + 1, json)?;
                    match key.kind() {
                        ValueKind::String | ValueKind::Number => {
                            self.write_text(&key.to_string(), json)?
                        }
                        ValueKind::Bool | ValueKind::None => {
                            json.push("\"")?;
                            self.write(key, depth, json)?;
                            json.push("\"")?;
                        }
                        _ => return Err(error("tojson: a key is neither a text nor a number")),
                    }
                    json.push(&self.key)?;
                    self.write(&value.get_item(key)?, depth + 1, json)?;
                }
                self.end(keys.is_empty(), depth, "}", json)?;
            }
            kind => return Err(error(format!("tojson: {kind} has no JSON"))),
        }
        Ok(())
    }

    fn begin_item(&self, first: bool, depth: usize, json: &mut Text) -> Result<(), Error> {
        if !first {
            json.push(&self.item)?;
        }
        self.new_line(depth, json)
    }

    fn end(&self, empty: bool, depth: usize, bracket: &str, json: &mut Text) -> Result<(), Error> {
        if !empty {
            self.new_line(depth, json)?;
        }
        json.push(bracket)
    }

    fn new_line(&self, depth: usize, json: &mut Text) -> Result<(), Error> {
        if let Some(indent) = &self.indent {
            json.push("\n")?;
            for _ in 0..depth {
                json.push(indent)?;
            }
        }
        Ok(())
    }

    fn write_text(&self, text: &str, json: &mut Text) -> Result<(), Error> {
        json.push("\"")?;
        for character in text.chars() {
            match character {
                '"' => json.push("\\\"")?,
                '\\' => json.push("\\\\")?,
                '\n' => json.push("\\n")?,
                '\r' => json.push("\\r")?,
                '\t' => json.push("\\t")?,
                '\u{8}' => json.push("\\b")?,
                '\u{c}' => json.push("\\f")?,
                _ if character < ' ' || (self.ascii && character > '~') => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        json.push(&format!("\\u{unit:04x}"))?;
                    }
                }
                _ => json.push(character.encode_utf8(&mut [0; 4]))?,
            }
        }
        json.push("\"")
    }
}

/// As repr() of Python: the fewest digits, an exponent below 1e-4 and from 1e16 on.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else { return value.to_string() };
    if float.is_nan() {
        return "NaN".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if float != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{float}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}
