//! JSIMgraph: nodes with queue, server and router sections, joined by connections.

mod export;
mod import;
mod laws;

pub(super) use export::export;
pub(super) use import::import;

use roxmltree::Node;

/// Returns a parameter or a part of a parameter with this name below a node.
fn find<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.descendants().find(|below| below.attribute("name") == Some(name))
}

/// The first number below a node.
fn first_number(node: Node<'_, '_>) -> Option<f64> {
    node.descendants().find(|below| below.has_tag_name("value"))?.text()?.trim().parse().ok()
}
