//! What a template uses and the engine lacks, found when it is loaded: the engine itself fails only
//! when a rendering comes to it.

use crate::methods;
use minijinja::machinery::{get_compiled_template, Instruction};
use minijinja::{context, Environment, Template};
use std::collections::BTreeSet;

/// As "filter \"xmlattr\"", each once.
pub fn missing(environment: &Environment, template: &Template) -> BTreeSet<String> {
    let compiled = get_compiled_template(template);
    let instructions = &compiled.instructions;
    let all: Vec<&Instruction> = (0..).map_while(|index| instructions.get(index)).collect();
    let has = |kind: &str, name: &str| {
        let question = format!("name is {kind}");
        let asked = environment.compile_expression(&question);
        asked.and_then(|asked| asked.eval(context! { name })).is_ok_and(|has| has.is_true())
    };
    let defined: BTreeSet<&str> = environment
        .globals()
        .map(|(name, _)| name)
        .chain(all.iter().filter_map(|one| match one {
            Instruction::StoreLocal(name) => Some(*name),
            _ => None,
        }))
        .chain(["caller", "loop"])
        .collect();
    all.iter()
        .filter_map(|one| match one {
            Instruction::ApplyFilter(name, ..) if !has("filter", name) => Some(("filter", name)),
            Instruction::PerformTest(name, ..) if !has("test", name) => Some(("test", name)),
            Instruction::CallFunction(name, _) if !defined.contains(name) => {
                Some(("function", name))
            }
            Instruction::CallMethod(name, _) if !methods::NAMES.contains(name) => {
                Some(("method", name))
            }
            _ => None,
        })
        .map(|(kind, name)| format!("{kind} \"{name}\""))
        .collect()
}
