//! Authentication and authorization: tokens, principals, and the rules for each message.

pub(crate) mod authentication;
pub(crate) mod authorizer;
pub(crate) mod caller;
pub(crate) mod handover;
pub(crate) mod lasting_rules;
pub(crate) mod pairing;
pub(crate) mod principal;
pub(crate) mod sign_in;
pub(crate) mod token;
