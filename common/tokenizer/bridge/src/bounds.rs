//! Bounds that the engine itself lacks: of nesting, which it reads and frees by recursion, and of
//! texts that are made in one step.

use minijinja::machinery::{tokenize, Token};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind, Value};
use std::fmt::{self, Write};

/// Bytes of a text: of a prompt, and of any text that a template makes on the way.
pub const MAX_TEXT: usize = 8 << 20;
/// Operators of one expression that may be nested, as in 1 + 1 + …, and "elif" within one another.
/// Published templates have a few tens. The engine itself bounds brackets and blocks.
const MAX_NESTED: usize = 500;

/// Names what is nested too deeply.
pub fn check_nesting(source: &str, syntax: &SyntaxConfig) -> Result<(), String> {
    // Operators since the last comma, for each open bracket of the tag.
    let mut brackets: Vec<usize> = Vec::new();
    let mut nested = 0;
    // "elif" of each open "if".
    let mut conditions: Vec<usize> = Vec::new();
    let mut elifs = 0;
    let mut begins_block = false;
    for token in tokenize(source, false, syntax.clone()) {
        let Ok((token, span)) = token else { break }; // the parser says what is wrong
        let keyword = std::mem::replace(&mut begins_block, matches!(token, Token::BlockStart));
        let mut add = 0;
        match token {
            Token::VariableStart | Token::BlockStart => {
                brackets = vec![0];
                nested = 0;
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => brackets.push(0),
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                nested -= brackets.pop().unwrap_or_default();
                add = 1;
            }
            Token::Comma => {
                nested -= brackets.last_mut().map(std::mem::take).unwrap_or_default();
            }
            Token::Ident("if") if keyword => conditions.push(0),
            Token::Ident("elif") if keyword => {
                elifs += 1;
                conditions.last_mut().into_iter().for_each(|count| *count += 1);
            }
            Token::Ident("endif") if keyword => elifs -= conditions.pop().unwrap_or_default(),
            Token::Ident("and" | "or" | "not" | "if" | "else" | "is" | "in") => add = 1,
            Token::Ident(_) | Token::Str(_) | Token::String(_) => {}
            Token::Int(_) | Token::Int128(_) | Token::Float(_) | Token::TemplateData(_) => {}
            Token::VariableEnd | Token::BlockEnd | Token::Colon | Token::Assign => {}
            _ => add = 1,
        }
        nested += add;
        brackets.last_mut().into_iter().for_each(|count| *count += add);
        if nested > MAX_NESTED || elifs > MAX_NESTED {
            let what = if elifs > MAX_NESTED { "\"elif\"" } else { "operators of an expression" };
            let line = span.start_line;
            return Err(format!("line {line} nests more than {MAX_NESTED} {what}"));
        }
    }
    Ok(())
}

/// A text that refuses to grow beyond its bound.
pub struct Text {
    text: String,
    max: usize,
}

impl Text {
    pub fn new(max: usize) -> Self {
        Text { text: String::new(), max }
    }

    pub fn push(&mut self, more: &str) -> Result<(), Error> {
        self.write_str(more).map_err(|_| too_long())
    }

    /// As the value is printed.
    pub fn push_value(&mut self, value: &Value) -> Result<(), Error> {
        write!(self, "{value}").map_err(|_| too_long())
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }

    pub fn take(self) -> String {
        self.text
    }
}

impl Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if more.len() > self.max - self.text.len() {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

pub fn too_long() -> Error {
    let message = format!("it makes a text of more than {MAX_TEXT} bytes");
    Error::new(ErrorKind::InvalidOperation, message)
}
