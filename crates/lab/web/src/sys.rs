//! The interface to the page: bytes in its memory, and one function of its host.
#![allow(unsafe_code, reason = "memory that is shared with the host")]

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Passes bytes to the page: an intermediate result (0) or the reply (1).
    fn say(kind: u32, at: *const u8, length: usize);
}

fn say_text(kind: u32, text: &str) {
    // SAFETY: the host copies the bytes before it returns.
    unsafe { say(kind, text.as_ptr(), text.len()) }
}

/// Returns a buffer for a question of `length` bytes.
#[unsafe(no_mangle)]
extern "C" fn reserve(length: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; length].into_boxed_slice()).cast()
}

/// Replies to the question in a buffer from `reserve`, and frees it.
///
/// # Safety
/// `at` came from `reserve(length)` and was not passed before.
#[unsafe(no_mangle)]
unsafe extern "C" fn ask(at: *mut u8, length: usize) {
    // SAFETY: guaranteed by the caller.
    let question = unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(at, length)) };
    let question = String::from_utf8_lossy(&question);
    let answer = crate::answer(&question, &mut |text| say_text(0, text));
    say_text(1, &answer);
}
