//! JSON whose objects keep the order of their keys, for templates print it. (serde_json's own way
//! to do so would change what the tokenizers crate is built with.)

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

#[derive(Clone)]
pub enum Json {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Object(Object),
}

/// As Python's dict: a key that comes again keeps its first place and has its last value.
#[derive(Clone, Default)]
pub struct Object {
    entries: Vec<(String, Json)>,
    places: HashMap<String, usize>,
}

impl Json {
    /// No text at all is null.
    pub fn parse(text: &[u8]) -> Result<Json, String> {
        if text.is_empty() {
            return Ok(Json::Null);
        }
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(object) => object.get(key),
            _ => None,
        }
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        match self {
            Json::Object(object) => object.get_mut(key),
            _ => None,
        }
    }
}

impl Object {
    pub fn iter(&self) -> impl Iterator<Item = &(String, Json)> {
        self.entries.iter()
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        self.places.get(key).map(|&place| &self.entries[place].1)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        self.places.get(key).map(|&place| &mut self.entries[place].1)
    }

    pub fn insert(&mut self, key: String, value: Json) {
        match self.places.get(&key) {
            Some(&place) => self.entries[place].1 = value,
            None => {
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }
}

impl IntoIterator for Object {
    type Item = (String, Json);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl FromIterator<(String, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Json)>>(members: I) -> Self {
        let mut object = Object::default();
        members.into_iter().for_each(|(key, value)| object.insert(key, value));
        object
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Signed(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Unsigned(value), Json::Signed))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Object::default();
        while let Some((key, value)) = entries.next_entry()? {
            object.insert(key, value);
        }
        Ok(Json::Object(object))
    }
}
