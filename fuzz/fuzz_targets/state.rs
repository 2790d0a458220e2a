//! States of a collector ([`skip_value::collect`]): any bytes are an error, or a state that can be sent on, combined,
//! finished and written, whatever its numbers are; and whatever is collected, sent and combined in which order, no key
//! is lost.
//!
//! The first byte chooses where the state comes from: the other bytes as they are, a state made up of numbers from
//! them, or a script that they are read as.

#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use pg_skip_fuzz::script::Script;
use pg_skip_fuzz::wire;

fuzz_target!(|input: &[u8]| {
    let Some((&way, rest)) = input.split_first() else { return };
    let mut source = Unstructured::new(rest);
    match way % 3 {
        0 => wire::check(rest),
        1 => {
            if let Ok(made_up) = wire::MadeUp::arbitrary(&mut source) {
                wire::check(&made_up.encode());
            }
        }
        _ => {
            if let Ok(script) = Script::arbitrary_take_rest(source) {
                script.run();
            }
        }
    }
});
