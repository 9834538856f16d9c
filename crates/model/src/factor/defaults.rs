//! The default levels of a factor, by workload.

/// The default list of levels in each workload; where it is `None` the factor has no meaning.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// In `stream`.
    pub stream: Option<&'static str>,
    /// In `call`.
    pub call: Option<&'static str>,
    /// Over datagrams, in those workloads in which the factor has a meaning; `None`: the same.
    pub datagrams: Option<&'static str>,
    /// In `ring`.
    pub ring: Option<&'static str>,
    /// In `check`.
    pub check: Option<&'static str>,
}

pub(crate) const NOWHERE: Defaults = Defaults { stream: None, call: None, datagrams: None, ring: None, check: None };

impl Defaults {
    /// The same, with another list over datagrams.
    pub(crate) const fn datagrams(self, text: &'static str) -> Defaults {
        Defaults { datagrams: Some(text), ..self }
    }

    /// The same, and in `check`.
    pub(crate) const fn and_check(self, text: &'static str) -> Defaults {
        Defaults { check: Some(text), ..self }
    }
}

pub(crate) const fn both(text: &'static str) -> Defaults {
    each(text, text)
}

pub(crate) const fn everywhere(text: &'static str) -> Defaults {
    Defaults { ring: Some(text), ..both(text) }
}

pub(crate) const fn each(stream: &'static str, call: &'static str) -> Defaults {
    Defaults { stream: Some(stream), call: Some(call), ..NOWHERE }
}

pub(crate) const fn stream(text: &'static str) -> Defaults {
    Defaults { stream: Some(text), ..NOWHERE }
}

pub(crate) const fn call(text: &'static str) -> Defaults {
    Defaults { call: Some(text), ..NOWHERE }
}

pub(crate) const fn ring(text: &'static str) -> Defaults {
    Defaults { ring: Some(text), ..NOWHERE }
}

pub(crate) const fn check(text: &'static str) -> Defaults {
    Defaults { check: Some(text), ..NOWHERE }
}
