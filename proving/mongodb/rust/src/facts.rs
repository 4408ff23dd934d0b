//! How a Rust cell tells its facts.
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};

static FAILED: AtomicBool = AtomicBool::new(false);

pub fn fact(what: impl AsRef<str>, holds: bool, seen: impl Debug) {
    if holds {
        println!("ok {}", what.as_ref());
    } else {
        FAILED.store(true, Ordering::Relaxed);
        println!("not ok {} - saw {seen:?}", what.as_ref());
    }
}

/// Tells one that is about speed, which is not judged on a busy machine.
pub fn brisk(what: impl AsRef<str>, holds: bool, seen: impl Debug) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get()) as f64;
    if holds || load < 3.0 * processors {
        fact(what, holds, seen);
    } else {
        println!("# not judged at a load of {load}: {} - saw {seen:?}", what.as_ref());
    }
}

pub fn end() -> ! {
    std::process::exit(FAILED.load(Ordering::Relaxed) as i32)
}
