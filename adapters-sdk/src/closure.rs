//! An adapter made of one closure.

use std::{fmt, future::Future};

use crate::{Adapter, Description, Error, Input, Turn};

/// Makes an adapter of a closure that serves a turn. It keeps nothing between turns.
///
/// ```no_run
/// use trunkline_sdk::{adapter, serve_stdio};
///
/// fn main() -> std::process::ExitCode {
///     serve_stdio(adapter(|turn, input| async move {
///         turn.output(input.content).await;
///         Ok(())
///     }))
/// }
/// ```
pub fn adapter<F, R>(serve: F) -> FnAdapter<F>
where
    F: Fn(Turn, Input) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Error>> + Send + 'static,
{
    FnAdapter {
        serve,
        description: Description::default(),
    }
}

/// An adapter made by [`adapter`].
#[derive(Clone)]
pub struct FnAdapter<F> {
    serve: F,
    description: Description,
}

impl<F> FnAdapter<F> {
    /// Sets the description of the adapter.
    #[must_use]
    pub fn described(self, description: Description) -> Self {
        Self {
            description,
            ..self
        }
    }
}

impl<F, R> Adapter for FnAdapter<F>
where
    F: Fn(Turn, Input) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Error>> + Send + 'static,
{
    type State = ();

    fn turn(
        &self,
        turn: Turn,
        input: Input,
        (): &mut (),
    ) -> impl Future<Output = Result<(), Error>> + Send {
        (self.serve)(turn, input)
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }
}

impl<F> fmt::Debug for FnAdapter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnAdapter")
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}
