/// A level of an option for tests, which every kernel accepts from any user who may set the option.
fn example(option: &str) -> &'static str {
    match option {
        "nodelay" | "quickack" | "cork" | "txrehash" | "prefer_busy_poll" => "off",
        "reuseport" | "quickack_again" | "zerocopy" | "inq" | "incoming_cpu" => "on",
        // Built into every kernel and allowed for every user.
        "congestion" => "reno",
        "linger" | "defer_accept" => "1",
        "busy_poll" => "50us",
        "pacing_rate" => "1Gbit",
        "rto_min" | "delack_max" => "40ms",
        "rto_max" => "5s",
        "tx_delay" => "1ms",
        "tos" => "184",
        "busy_poll_budget" => "4",
        "fastopen" => "256",
        _ => "64K",
    }
}
