//! Every door of the queue that reads something. The first byte chooses the door, the second what stands in its path, the rest is sent.
#![no_main]
#![allow(dead_code)] // the world of the server's tests can more than this needs

#[path = "../../server/tests/server/hostile.rs"]
mod hostile;
#[path = "../../server/tests/server/world.rs"]
mod world;

use hostile::Doors;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static DOORS: Doors = Doors::open();
}

fuzz_target!(|input: &[u8]| {
    let [door, way, sent @ ..] = input else { return };
    let way = usize::from(*way);
    DOORS.with(|doors| match door % 6 {
        0 => doors.mcp(sent, way % 2 == 1),
        1 => doors.tool(way, sent),
        2 => doors.device(way / 7, way, sent),
        3 => doors.query(sent),
        4 => doors.form(way, sent),
        _ => doors.document(sent),
    });
});
