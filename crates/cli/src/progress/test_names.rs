//! Names of the tests and options of a session that is being measured, as its report will name them. Reads no trials.

use std::collections::HashMap;

use bytegauge_model::{CellId, GroupId, SessionId};
use bytegauge_report::{Report, SessionData, Settings};
use bytegauge_store::{Store, StoreError};

/// Names of the tests and options of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestNames {
    /// The shortest title of each test that no other test of the session has, in the order of the plan.
    pub tests: Vec<(GroupId, String)>,
    /// The label of each option: `64K`, `epoll`.
    pub options: HashMap<CellId, String>,
}

impl TestNames {
    /// Names everything that is in the store by now. Options that are added later need another call.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be read.
    pub fn load(store: &Store, id: SessionId) -> Result<TestNames, StoreError> {
        let data = SessionData {
            record: store.session(id)?,
            groups: store.groups(id)?,
            cells: store.cells(id)?,
            blocks: Vec::new(),
            trials: Vec::new(),
        };
        let view = Report::of(&data, &Settings::default());
        let options = view.tests.iter().flat_map(|test| &test.options);
        Ok(TestNames {
            options: options.map(|option| (option.id.clone(), option.label.clone())).collect(),
            tests: view.tests.iter().map(|test| (test.id.clone(), test.name.clone())).collect(),
        })
    }
}
