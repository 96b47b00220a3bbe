//! The tool calls of one session: each `tool.start` has one `tool.end` (section 11.2).

use std::collections::HashMap;

use crate::clauses::Level;

use super::shape::ShapeFault;

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    turn: Option<usize>,
    open: bool,
}

/// The tool calls of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tools(HashMap<String, OpenCall>);

impl Tools {
    pub(crate) fn start(&mut self, id: &str, turn: Option<usize>) -> Result<(), ShapeFault> {
        match self.0.insert(id.to_owned(), OpenCall { turn, open: true }) {
            Some(OpenCall { open: true, .. }) => Err(fault(
                Level::Should,
                format!("the tool call {id:?} was open already"),
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn end(&mut self, id: &str) -> Result<(), ShapeFault> {
        match self.0.get_mut(id) {
            None => Err(fault(
                Level::Should,
                format!("tool.end for {id:?}, which was not started"),
            )),
            Some(OpenCall { open: false, .. }) => {
                Err(fault(Level::Must, format!("a second tool.end for {id:?}")))
            }
            Some(call) => {
                call.open = false;
                Ok(())
            }
        }
    }

    /// Forgets the calls of a turn that has ended, and names those that it left open.
    pub(crate) fn left_by(&mut self, turn: usize) -> Vec<String> {
        let mut left = Vec::new();
        self.0.retain(|id, call| {
            let of_turn = call.open && call.turn == Some(turn);
            if of_turn {
                left.push(id.clone());
            }
            !of_turn
        });
        left.sort();
        left
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(|(_, call)| call.open)
            .map(|(id, _)| id.as_str())
    }
}

fn fault(level: Level, text: String) -> ShapeFault {
    ShapeFault {
        clause: "ext.5",
        level,
        text,
    }
}
