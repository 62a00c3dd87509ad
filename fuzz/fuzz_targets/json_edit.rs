//! The scanner accepts what serde_json accepts, and edits do what they do on a tree.
#![no_main]

use bytes::Bytes;
use dialect::json::{self, Kind, Patch};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|input: (u32, &[u8])| {
    let (choice, text) = input;
    let ours = json::parse(text);
    let theirs: Result<Value, _> = serde_json::from_slice(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text));
    let Ok(tree) = theirs else {
        // Ours goes deeper, and lets half a surrogate pair pass.
        if ours.is_ok() {
            assert!(text.windows(2).any(|pair| pair == b"\\u") || text.iter().filter(|byte| b"[{".contains(byte)).count() > 100);
        }
        return;
    };
    let root = ours.expect("serde_json accepts it");
    // Doubled keys are the reader's business; a tree has forgotten them.
    let Value::Object(tree) = tree else { return };
    if root.kind() != Kind::Object || root.members().count() != tree.len() {
        return;
    }
    edit(choice, text, root, tree);
});

fn edit(choice: u32, text: &[u8], root: json::Value<'_>, mut tree: Map<String, Value>) {
    let mut patch = Patch::new();
    for (index, member) in root.members().enumerate() {
        match choice.rotate_right(2 * (index as u32 % 15)) & 3 {
            0 => {
                patch.remove(&member);
                tree.shift_remove(&*member.key);
            }
            1 => {
                patch.replace(member.value.span(), "[1]");
                tree.insert(member.key.into_owned(), serde_json::json!([1]));
            }
            _ => {}
        }
    }
    for key in ["new", "\"\\"].into_iter().take((choice >> 30) as usize) {
        if tree.contains_key(key) || root.get(key).is_some() {
            return;
        }
        patch.insert_into(root, key, "true");
        tree.insert(key.to_owned(), true.into());
    }
    let edited = patch.apply(&Bytes::copy_from_slice(text));
    let edited = edited.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&edited);
    let read: Map<String, Value> = serde_json::from_slice(edited).expect("an edited object is an object");
    assert_eq!(read.keys().collect::<Vec<_>>(), tree.keys().collect::<Vec<_>>());
    assert_eq!(read, tree);
}
