//! Link to an adapter: the commands of its users, the driver that reads, dispatches and writes, and
//! the child process.

mod command;
mod connection;
mod driver;
mod file_checks;
mod inbox;
mod name_lookups;
mod outbox;
mod tap;

pub(crate) use self::{
    command::Command,
    connection::{Connect, MakeSpec, Streams},
    driver::Driver,
    inbox::{Inbox, InboxLimits},
    tap::Taps,
};
