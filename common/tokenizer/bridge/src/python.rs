//! What templates call as Python has it: tojson and strftime_now, as transformers defines them.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::ffi::CString;

/// The variable that holds the time of the rendering; no template can name it.
pub const NOW: &str = "tandem now";

/// Stands before the message of raise_exception.
pub const RAISED: &str = "\u{0}raised: ";

const MAX_FORMAT: usize = 256;
const MAX_DEPTH: usize = 128;

fn error(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

pub fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, format!("{}{message}", RAISED)))
}

/// datetime.now().strftime(format): local time, and the C library's strftime, as Python's.
pub fn strftime_now(state: &State, format: String) -> Result<String, Error> {
    let now = state.lookup(NOW).and_then(|now| now.as_i64()).unwrap_or_default();
    if format.len() > MAX_FORMAT {
        return Err(error("the format of strftime_now is too long"));
    }
    if format.is_empty() {
        return Ok(format);
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

/// json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False).
pub fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
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
    let mut json = String::new();
    style.write(value, 0, &mut json)?;
    Ok(json)
}

struct Style {
    ascii: bool,
    sorted: bool,
    indent: Option<String>,
    item: String,
    key: String,
}

impl Style {
    fn write(&self, value: &Value, depth: usize, json: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(error("tojson: the value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => json.push_str("null"),
            ValueKind::Bool => json.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => json.push_str(&number(value)),
            ValueKind::String => self.write_text(value.as_str().unwrap_or_default(), json),
            ValueKind::Seq | ValueKind::Iterable => {
                json.push('[');
                let mut empty = true;
                for item in value.try_iter()? {
                    self.begin_item(empty, depth + 1, json);
                    empty = false;
                    self.write(&item, depth + 1, json)?;
                }
                self.end(empty, depth, ']', json);
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort_by_cached_key(|key| key.to_string());
                }
                json.push('{');
                for (index, key) in keys.iter().enumerate() {
                    self.begin_item(index == 0, depth + 1, json);
                    match key.kind() {
                        ValueKind::String | ValueKind::Number => {
                            self.write_text(&key.to_string(), json)
                        }
                        _ => return Err(error("tojson: a key is neither a text nor a number")),
                    }
                    json.push_str(&self.key);
                    self.write(&value.get_item(key)?, depth + 1, json)?;
                }
                self.end(keys.is_empty(), depth, '}', json);
            }
            kind => return Err(error(format!("tojson: {kind} has no JSON"))),
        }
        Ok(())
    }

    fn begin_item(&self, first: bool, depth: usize, json: &mut String) {
        if !first {
            json.push_str(&self.item);
        }
        self.new_line(depth, json);
    }

    fn end(&self, empty: bool, depth: usize, bracket: char, json: &mut String) {
        if !empty {
            self.new_line(depth, json);
        }
        json.push(bracket);
    }

    fn new_line(&self, depth: usize, json: &mut String) {
        if let Some(indent) = &self.indent {
            json.push('\n');
            json.push_str(&indent.repeat(depth));
        }
    }

    fn write_text(&self, text: &str, json: &mut String) {
        json.push('"');
        for character in text.chars() {
            match character {
                '"' => json.push_str("\\\""),
                '\\' => json.push_str("\\\\"),
                '\n' => json.push_str("\\n"),
                '\r' => json.push_str("\\r"),
                '\t' => json.push_str("\\t"),
                '\u{8}' => json.push_str("\\b"),
                '\u{c}' => json.push_str("\\f"),
                _ if character < ' ' || (self.ascii && character > '~') => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        json.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => json.push(character),
            }
        }
        json.push('"');
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
