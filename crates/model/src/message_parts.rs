//! How a message of several parts is written, and the ends of calls that set an option.

use crate::catalog::names;

names! {
    /// How a program writes a message of several parts, such as a header and a body.
    #[derive(Default)]
    MessageWrites, "way of writing a message", MESSAGE_WRITES {
        #[default]
        Separate = "separate": "send(2) for each part",
        Writev = "writev": "one sendmsg(2) with a list of the parts",
        Copy = "copy": "copies the parts into one buffer, then one send(2)",
        More = "more": "send(2) for each part, all but the last with MSG_MORE",
        Cork = "cork": "send(2) for each part, with TCP_CORK on until the last",
    }
}

names! {
    /// The ends of calls that set an option.
    #[derive(Default)]
    CallEnds, "end of calls", CALL_ENDS {
        #[default]
        Both = "both": "the client and the server",
        Client = "client": "the client only",
        Server = "server": "the server only",
    }
}
