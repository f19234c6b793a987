//! Trees of draft tokens as engines write them down.

use serde_json::Value;

/// The number of nodes on each level of a tree that is given as the path of each node, in JSON or
/// as Python writes tuples.
pub(super) fn levels(paths: &Value) -> Option<Vec<u64>> {
    let read;
    let nodes = match paths {
        Value::String(text) => {
            let spaceless: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            let json = spaceless.replace('(', "[").replace(')', "]").replace(",]", "]");
            read = serde_json::from_str::<Value>(&json).ok()?;
            read.as_array()?
        }
        other => other.as_array()?,
    };
    let mut levels = Vec::new();
    for node in nodes {
        let path = node.as_array()?;
        if path.is_empty() || !path.iter().all(Value::is_u64) {
            return None;
        }
        levels.resize(levels.len().max(path.len()), 0);
        levels[path.len() - 1] += 1;
    }
    // A node without the one before it on its path leads nowhere.
    (!levels.is_empty() && !levels.contains(&0)).then_some(levels)
}

/// Levels of a tree in which each of the `width` best nodes of a level has `width` children.
pub(super) fn fan(width: u64, depth: u64) -> Vec<u64> {
    let inner = width.saturating_mul(width);
    (0..depth).map(|level| if level == 0 { width } else { inner }).collect()
}
