//! What is compared: each file holds two questions apart by one thing, and says which guard refuses them. They read what
//! `question` holds, allocate next to nothing, and know no text.

pub mod compounds;
pub mod content_words;
pub mod direction;
pub mod direction_en;
pub mod direction_prepositions;
pub mod direction_zh;
pub mod employer;
pub mod modality;
pub mod persons;
pub mod quantities;
pub mod question_type;
pub mod scope;
