//! {% generation %} … {% endgeneration %}: transformers marks with it what an assistant said, for
//! training. It changes no text. The engine does not know it, so a {% with %} stands in its place, which
//! has variables of its own as the former has.

pub fn neutralized(source: &str) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(begin) = rest.find("{%") {
        let Some(length) = rest[begin..].find("%}") else { break };
        let tag = &rest[begin + 2..begin + length];
        let sign = |one: char| one == '-' || one == '+';
        let instead = match tag.trim_matches(sign).trim() {
            "generation" => Some("with"),
            "endgeneration" => Some("endwith"),
            _ => None,
        };
        result.push_str(&rest[..begin + 2]);
        match instead {
            Some(instead) => {
                let (first, last) = (tag.chars().next(), tag.chars().next_back());
                result.extend(first.filter(|&one| sign(one)));
                result.push_str(&format!(" {instead} "));
                result.extend(last.filter(|&one| sign(one)));
            }
            None => result.push_str(tag),
        }
        rest = &rest[begin + length..];
    }
    result.push_str(rest);
    result
}
