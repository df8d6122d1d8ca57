//! Lists and objects of bounded depth, whose items are counted as they are visited. The engine's own
//! are freed, compared and printed by recursion, and joined lazily: a few lines of a template make
//! one that is too deep for the stack, or that has more items than anything could visit.

use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{Enumerator, Object, ObjectRepr, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State, Value};
use std::cell::Cell;
use std::sync::Arc;

/// Of lists and objects within one another.
const MAX_DEPTH: usize = 200;
/// What a namespace counts as, in items, because a chain of them has no depth: a rendering with 4
/// million steps may make 4,000.
const NAMESPACE_VISITS: u64 = 1000;

/// The filters that the instructions of a template are given (`guarded`).
pub const LIST_GUARD: &str = "tandem_list";
pub const OBJECT_GUARD: &str = "tandem_object";
pub const OPERAND_GUARD: &str = "tandem_operand";
pub const SLICE: &str = "tandem_slice";

thread_local! {
    static VISITS: Cell<u64> = const { Cell::new(0) };
}

/// `visits`: of items, that the rendering may make.
pub fn begin_rendering(visits: u64) {
    VISITS.set(visits);
}

/// False when the visits are used up. Then lists are empty, so what was made is of no use.
pub fn visit(items: u64) -> bool {
    VISITS.set(VISITS.get().saturating_sub(items));
    VISITS.get() > 0
}

fn enumerated(items: usize, all: impl FnOnce() -> Enumerator) -> Enumerator {
    if visit(items as u64 + 1) {
        all()
    } else {
        Enumerator::Empty
    }
}

#[derive(Debug)]
struct List {
    items: Vec<Value>,
    depth: usize,
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        enumerated(self.items.len(), || Enumerator::Seq(self.items.len()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

#[derive(Debug)]
struct Members {
    /// The engine's own object, whose items have their bounds.
    members: Value,
    depth: usize,
}

impl Object for Members {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.members.as_object()?.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let keys = || self.members.try_iter().map(Iterator::collect).unwrap_or_default();
        enumerated(self.members.len().unwrap_or_default(), || Enumerator::Values(keys()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.members.len()
    }
}

/// Of what a value holds; a tuple is the engine's own, and so are lists within tuples.
fn depth(value: &Value) -> usize {
    if let Some(list) = value.downcast_object_ref::<List>() {
        return list.depth;
    }
    if let Some(object) = value.downcast_object_ref::<Members>() {
        return object.depth;
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => 1 + deepest(value.try_iter().into_iter().flatten()),
        _ => 0,
    }
}

fn deepest(values: impl Iterator<Item = Value>) -> usize {
    values.map(|value| if visit(1) { depth(&value) } else { MAX_DEPTH }).max().unwrap_or_default()
}

pub fn list(items: Vec<Value>) -> Value {
    let depth = 1 + deepest(items.iter().cloned());
    Value::from_object(List { items, depth })
}

pub fn object(members: Value) -> Value {
    let values = members.try_iter().into_iter().flatten();
    let depth = 1 + deepest(values.filter_map(|key| members.get_item(&key).ok()));
    Value::from_object(Members { members, depth })
}

fn checked(value: Value) -> Result<Value, Error> {
    if VISITS.get() == 0 {
        return Err(Error::from(ErrorKind::OutOfFuel));
    }
    if depth(&value) > MAX_DEPTH {
        let message = format!("it nests more than {MAX_DEPTH} lists and objects");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(value)
}

/// A list in place of the engine's own, and of what it would compute again at each look.
pub fn guard_list(state: &State, value: &Value) -> Result<Value, Error> {
    let is_list = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    if !is_list || value.is_tuple() || value.downcast_object_ref::<List>().is_some() {
        return checked(value.clone());
    }
    state.consume_fuel(value.len().unwrap_or_default() as u64 / 2)?;
    let mut items = Vec::new();
    for item in value.try_iter()? {
        items.push(item);
        if items.len() % 2 == 0 {
            state.consume_fuel(1)?;
        }
    }
    checked(list(items))
}

pub fn guard_object(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Map => checked(object(value.clone())),
        _ => checked(value.clone()), // of a macro by the name "dict"
    }
}

/// What is compared with long texts, or looked up by one, takes its time.
pub fn guard_operand(state: &State, value: &Value) -> Result<Value, Error> {
    let bytes = |value: &Value| value.as_str().map_or(0, str::len);
    let items = value.downcast_object_ref::<List>().map_or(&[][..], |list| &list.items);
    let bytes = bytes(value) + items.iter().map(bytes).sum::<usize>();
    state.consume_fuel((bytes / 64 + items.len() / 8) as u64)?;
    Ok(value.clone())
}

/// value[start:stop:step], which the engine computes without fuel for a text, and lazily for a list.
pub fn slice(
    state: &State,
    value: &Value,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<Value, Error> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "a slice has no step of 0"));
    }
    if let Some(text) = value.as_str() {
        state.consume_fuel(text.len() as u64 / 16)?;
        let characters: Vec<char> = text.chars().collect();
        let part = places(characters.len(), start, stop, step).map(|place| characters[place]);
        return Ok(Value::from(part.collect::<String>()));
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let message = format!("a value of type {} cannot be sliced", value.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    state.consume_fuel(value.len().unwrap_or_default() as u64 / 2)?;
    let items: Vec<Value> = value.try_iter()?.collect();
    let part = places(items.len(), start, stop, step).map(|place| items[place].clone());
    match value.is_tuple() {
        true => checked(Value::from(Tuple::from(part.collect::<Vec<_>>()))),
        false => checked(list(part.collect())),
    }
}

/// Of a slice, as Python has it.
fn places(
    size: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> impl Iterator<Item = usize> {
    let size = size as i64;
    let (least, most) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let place = |given: Option<i64>, otherwise: i64| match given {
        Some(place) if place < 0 => place.saturating_add(size).clamp(least, most),
        Some(place) => place.clamp(least, most),
        None => otherwise,
    };
    let (first, end) = if step > 0 { (least, most) } else { (most, least) };
    let (start, stop) = (place(start, first), place(stop, end));
    let goes = move |&at: &i64| if step > 0 { at < stop } else { at > stop };
    std::iter::successors(Some(start), move |at| at.checked_add(step))
        .take_while(goes)
        .map(|at| at as usize)
}

pub fn namespace(members: Option<ValueOrKwargs>) -> Result<Value, Error> {
    visit(NAMESPACE_VISITS);
    checked(minijinja::functions::namespace(members)?)
}

/// The same instructions, and after each that makes a list or an object a filter that bounds it, and
/// before each that compares one that counts its work.
pub fn guarded<'a>(instructions: &Instructions<'a>) -> Instructions<'a> {
    let all: Vec<&Instruction> = (0..).map_while(|index| instructions.get(index)).collect();
    let mut places = Vec::with_capacity(all.len() + 1);
    let mut place = 0;
    for one in &all {
        places.push(place);
        place += 1 + u32::from(guard(one).is_some()) + u32::from(compares(one));
    }
    places.push(place);
    let mut result = Instructions::new(instructions.name(), instructions.source());
    for (index, one) in all.into_iter().enumerate() {
        let mut instruction = one.clone();
        match &mut instruction {
            Instruction::Jump(to)
            | Instruction::JumpIfFalse(to)
            | Instruction::JumpIfFalseOrPop(to)
            | Instruction::JumpIfTrueOrPop(to)
            | Instruction::Iterate(to)
            | Instruction::BuildMacro(_, to, _) => *to = places[*to as usize],
            Instruction::LoadConst(value) => *value = constant(value),
            Instruction::Slice => instruction = Instruction::ApplyFilter(SLICE, Some(4), u8::MAX),
            _ => {}
        }
        let line = instructions.get_line(index as u32).unwrap_or_default() as u16;
        let guard = guard(one);
        if compares(one) {
            result.add_with_line(Instruction::ApplyFilter(OPERAND_GUARD, Some(1), u8::MAX), line);
        }
        result.add_with_line(instruction, line);
        if let Some(guard) = guard {
            result.add_with_line(Instruction::ApplyFilter(guard, Some(1), u8::MAX), line);
        }
    }
    result
}

fn guard(instruction: &Instruction) -> Option<&'static str> {
    match instruction {
        Instruction::BuildMap(_) | Instruction::CallFunction("dict", _) => Some(OBJECT_GUARD),
        Instruction::CallFunction("loop", _) => None,
        Instruction::BuildList(_)
        | Instruction::BuildTuple(_)
        | Instruction::Add
        | Instruction::Mul
        | Instruction::ApplyFilter(..)
        | Instruction::CallFunction(..)
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_) => Some(LIST_GUARD),
        _ => None,
    }
}

/// Takes the time of its second operand, the top of the stack.
fn compares(instruction: &Instruction) -> bool {
    matches!(
        instruction,
        Instruction::Eq
            | Instruction::Ne
            | Instruction::Gt
            | Instruction::Gte
            | Instruction::Lt
            | Instruction::Lte
            | Instruction::In
            | Instruction::CompareAndPreserve(_)
            | Instruction::GetItem
    )
}

/// The template's own lists have the depth of its text.
fn constant(value: &Value) -> Value {
    match value.kind() {
        ValueKind::Seq if !value.is_tuple() => {
            list(value.try_iter().into_iter().flatten().map(|item| constant(&item)).collect())
        }
        ValueKind::Map if !value.is_kwargs() => {
            let keys = value.try_iter().into_iter().flatten();
            let member = |key: Value| {
                let member = value.get_item(&key).unwrap_or_default();
                (key, constant(&member))
            };
            object(Value::from_pairs(keys.map(member)))
        }
        _ => value.clone(),
    }
}
