//! Older tokenizer.json files write a merge as one string, "left right". Where a token itself holds a
//! space the crate cannot tell the halves apart and refuses the file; the vocabulary can tell.

use serde_json::{Map, Value};

/// The file with each merge as a pair, or None where it is no such file, or a merge stays unclear.
pub fn as_pairs(json: &[u8]) -> Option<Vec<u8>> {
    let mut file: Value = serde_json::from_slice(json).ok()?;
    let model = file.get_mut("model")?;
    let vocabulary = model.get("vocab")?.as_object()?;
    let merges = model.get("merges")?.as_array()?;
    let pairs = merges
        .iter()
        .map(|merge| split(merge.as_str()?, vocabulary))
        .collect::<Option<Vec<Value>>>()?;
    model["merges"] = Value::Array(pairs);
    serde_json::to_vec(&file).ok()
}

fn split(merge: &str, vocabulary: &Map<String, Value>) -> Option<Value> {
    let mut halves = merge
        .match_indices(' ')
        .map(|(at, _)| (&merge[..at], &merge[at + 1..]))
        .filter(|(left, right)| vocabulary.contains_key(*left) && vocabulary.contains_key(*right));
    let (left, right) = halves.next()?;
    halves.next().is_none().then(|| Value::from(vec![left, right]))
}
